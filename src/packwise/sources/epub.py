"""EPUB books: the pages of the spine in order, read as HTML."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packwise.errors import SourceError
from packwise.sources import html
from packwise.sources.decoding import decode
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.zipped import ZippedFile, attribute, children, descendants, tag

if TYPE_CHECKING:
    from packwise.sources.readers import SourceFile

_CONTAINER = "META-INF/container.xml"


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the pages of a book."""
    with ZippedFile(file.path, "EPUB") as parts:
        if parts.has("META-INF/rights.xml") or _encrypted(parts):
            raise SourceError("is protected against copying")
        root = next(descendants(parts.xml(_CONTAINER), "rootfile"), None)
        package = unquote(attribute(root, "full-path"))
        book = parts.xml(package)
        for one in children(book, "metadata"):
            value = " ".join((one.text or "").split())
            match tag(one):
                case "title" if not builder.title:
                    builder.title = value
                case "language" if not builder.lang:
                    builder.lang = value
                case "creator" if value:
                    builder.metadata.setdefault("author", value)
                case _:
                    pass
        manifest = {
            attribute(one, "id"): one for one in descendants(book, "item") if attribute(one, "href")
        }
        spine = [attribute(one, "idref") for one in descendants(book, "itemref")]
        # A spine may name places in one page. The contents are the headings again.
        pages = dict.fromkeys(
            unquote(attribute(manifest[id], "href").partition("#")[0])
            for id in spine
            if id in manifest and "nav" not in attribute(manifest[id], "properties").split()
        )
        missing = 0
        for href in pages:
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package), href))
            if parts.has(name):
                text, _ = decode(parts.read(name), html=True)
                html.read(builder, text)
            else:
                missing += 1
        if not pages or missing == len(pages):
            raise SourceError("is a book without pages")
        if missing:
            builder.warn(f"{missing} of {len(pages)} pages are missing in the file")


def _encrypted(parts: ZippedFile) -> bool:
    """Whether pages are encrypted; only fonts are in many books that anyone may read."""
    name = "META-INF/encryption.xml"
    if not parts.has(name):
        return False
    uris = (
        attribute(one, "URI").lower() for one in descendants(parts.xml(name), "CipherReference")
    )
    return any(uri.endswith((".xhtml", ".html", ".htm", ".xml", ".opf")) for uri in uris)

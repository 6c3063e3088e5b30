"""MediaWiki XML dumps, plain or compressed, read as a stream: one document per article."""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

from packwise.documents import Document
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import clean
from packwise.sources.links import LinkResolver
from packwise.sources.readers import SourceFile
from packwise.sources.source_items import Entry, Item, Problem, hashed
from packwise.sources.wikitext import read

PAGE_LIMIT = 8 << 20
"""Characters of an article; Wikipedia allows two million bytes."""

_NAMESPACES = frozenset(("", "0", "4", "12"))
"""Articles, pages about the wiki, and help."""

_START = re.compile(rb"\s*(?:<\?xml[^>]*>)?\s*<mediawiki\b")
_REDIRECT = re.compile(r"(?i)\s*#\w+\s*:?\s*\[\[")


def is_dump(path: Path) -> bool:
    """Whether an XML file is a dump of MediaWiki."""
    try:
        with _opened(path) as file:
            return _START.match(file.read(2000).removeprefix(b"\xef\xbb\xbf")) is not None
    except (OSError, EOFError, zlib.error):
        return False


def articles(file: SourceFile) -> Iterator[Entry]:
    """The articles of a dump; talk, templates, files and redirects are left out."""
    from xml.etree.ElementTree import ParseError, iterparse

    url = ""
    name = ""
    try:
        with _opened(file.path) as opened:
            root = None
            for event, element in iterparse(opened, events=("start", "end")):
                root = element if root is None else root
                tag = element.tag.rpartition("}")[2]
                if event == "end" and tag == "base":
                    url = (element.text or "").rpartition("/")[0]
                if event == "start" or tag != "page":
                    continue
                found = {child.tag.rpartition("}")[2]: child.text or "" for child in element.iter()}
                name = clean(found.get("title", "")).strip()
                text = found.get("text", "")
                root.clear()
                if found.get("ns", "") not in _NAMESPACES or _REDIRECT.match(text) or not name:
                    continue
                if len(text) > PAGE_LIMIT:
                    yield Problem(f"{file.label}: {name}", "is longer than 8 MiB")
                    continue
                address = f"{url}/{name.replace(' ', '_')}" if url else ""
                yield Item(
                    id=f"{file.prefix}{name}",
                    source_hash=hashed(text.encode("utf-8", "replace"), "wiki-3", name, address),
                    location=f"{file.label}: {name}",
                    load=partial(_load, text, name, file.prefix, address),
                )
    except (OSError, EOFError, zlib.error, ParseError) as error:
        after = f" after {name}" if name else ""
        yield Problem(file.label, f"cannot be read{after} ({error})")


def _load(text: str, name: str, prefix: str, address: str) -> Document:
    builder = DocumentBuilder(title=name, url=address)
    read(builder, text, prefix)
    return builder.build(f"{prefix}{name}", LinkResolver(()))


def _opened(path: Path) -> IO[bytes]:
    openers: dict[str, Callable[..., object]] = {".bz2": bz2.open, ".gz": gzip.open}
    opener = openers.get(path.suffix.lower())
    return cast("IO[bytes]", opener(path, "rb") if opener else path.open("rb"))

"""OpenDocument texts: headings, paragraphs, lists, tables and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packwise.errors import SourceError
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder
from packwise.sources.zipped import Element, ZippedFile, attribute, child, descendants, tag

if TYPE_CHECKING:
    from packwise.sources.readers import SourceFile

_GROUPS = frozenset(("section", "index-body", "table-of-content", "span", "frame", "text-box"))
_DEEPEST = 100


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the text of a document."""
    with ZippedFile(file.path, "OpenDocument (.odt)") as parts:
        if parts.has("meta.xml"):
            title = next(descendants(parts.xml("meta.xml"), "title"), None)
            builder.fallback_title = (title.text or "") if title is not None else ""
        body = child(parts.xml("content.xml"), "body", "text")
        if body is None:
            raise SourceError("is an OpenDocument file without a text")
        _read(builder, body, 0)


def _read(builder: DocumentBuilder, element: Element, depth: int) -> None:
    if depth > _DEEPEST:
        return
    for one in element:
        match tag(one):
            case "h":
                level = attribute(one, "outline-level")
                builder.heading(int(level) if level.isdigit() else 1, _text(one))
            case "p":
                builder.paragraph(_text(one))
            case "list":
                builder.open_list()
                for item in one:
                    builder.open_item()
                    _read(builder, item, depth + 1)
                    builder.close_item()
                builder.close_list()
            case "table":
                rows = [
                    [
                        LinkedText(" ".join(_text(p).text for p in descendants(cell, "p")))
                        for cell in row
                        if tag(cell) == "table-cell"
                    ]
                    for row in descendants(one, "table-row")
                ]
                builder.table(rows)
            case name if name in _GROUPS:
                _read(builder, one, depth + 1)
            case _:
                pass


def _text(element: Element) -> LinkedText:
    text = TextBuilder()
    _write(text, element, 0)
    return text.finish()


def _write(text: TextBuilder, element: Element, depth: int) -> None:
    text.write_flowing(element.text or "")
    for one in element if depth < _DEEPEST else ():
        match tag(one):
            case "s" | "tab":
                text.write_flowing(" ")
            case "line-break":
                text.write("\n")
            case "a":
                text.open_link(attribute(one, "href"))
                _write(text, one, depth + 1)
                text.close_link()
            case "note":
                text.write(" (")
                body = child(one, "note-body")
                _write(text, one if body is None else body, depth + 1)
                text.write(")")
            case "annotation" | "tracked-changes" | "bookmark":
                pass
            case _:
                _write(text, one, depth + 1)
        text.write_flowing(one.tail or "")

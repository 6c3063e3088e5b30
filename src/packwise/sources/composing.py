"""From a draft to a ``Document``: one canonical text, and offsets that hold in it.

Blocks are parted by an empty line. The line of a heading stands in the text between its
sections, so that the text reads naturally, but belongs to no section's blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from types import MappingProxyType

from packwise.documents import NO_METADATA, Block, Document, Link, Section
from packwise.sources.flow import Draft, HeadingPiece, Piece, Span, clean
from packwise.sources.links import Catalogue

_GAP = "\n\n"
_TITLE_LIMIT = 300
_NAMELESS = {"index", "readme"}


def compose(draft: Draft, document_id: str, catalogue: Catalogue) -> Document:
    """The document, its links resolved against the documents of the same source."""
    pieces = draft.flow.finish()
    title, title_piece = _title(draft, pieces, document_id)
    page = _Page(document_id, catalogue)
    for piece in pieces:
        if piece is title_piece:
            page.add_title(piece.span)
        elif isinstance(piece, HeadingPiece):
            page.add_heading(piece.level, piece.span)
        else:
            page.add_block(piece)
    text, sections = page.finish()
    return Document(
        id=document_id,
        title=title,
        text=text,
        sections=sections,
        links=tuple(page.links),
        url=draft.url,
        lang=draft.lang,
        metadata=MappingProxyType(dict(draft.metadata)) if draft.metadata else NO_METADATA,
    )


def title_from_path(document_id: str) -> str:
    """A readable title from a file's path: ``guide/getting_started.md``, Getting started."""
    path = PurePosixPath(document_id)
    stem = path.stem
    if stem.lower() in _NAMELESS and path.parent.name:
        stem = path.parent.name
    words = re.sub(r"[_\-\s]+", " ", stem).strip()
    return words[:1].upper() + words[1:]


def _title(draft: Draft, pieces: Sequence[Piece], document_id: str) -> tuple[str, Piece | None]:
    """The title, and the one leading H1 it was taken from or says again, if any."""
    headings = [piece for piece in pieces if isinstance(piece, HeadingPiece)]
    tops = [piece for piece in headings if piece.level == 1]
    leading = tops[0] if len(tops) == 1 and tops[0] is headings[0] else None
    declared = _one_line(draft.title)
    if declared:
        says_again = leading is not None and _key(leading.span.text) == _key(declared)
        return declared, leading if says_again else None
    if tops:
        return tops[0].span.text, leading
    return _one_line(draft.fallback_title) or title_from_path(document_id), None


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())[:_TITLE_LIMIT].rstrip()


def _key(text: str) -> str:
    return " ".join(text.casefold().split())


class _Page:
    """The text so far, and where everything in it stands."""

    def __init__(self, document_id: str, catalogue: Catalogue) -> None:
        self.links: list[Link] = []
        self._id = document_id
        self._catalogue = catalogue
        self._parts: list[str] = []
        self._length = 0
        self._outline: list[tuple[int, str]] = []
        self._level = 0
        self._blocks: list[Block] = []
        self._sections: list[Section] = []

    def add_title(self, span: Span) -> None:
        self._add_links(Span("", tuple(span.anchors)), 0)

    def add_heading(self, level: int, span: Span) -> None:
        self._close_section()
        while self._outline and self._outline[-1][0] >= level:
            self._outline.pop()
        self._outline.append((level, span.text))
        self._level = level
        self._add(span)

    def add_block(self, piece: Piece) -> None:
        start = self._add(piece.span)
        if piece.span.text and not isinstance(piece, HeadingPiece):
            self._blocks.append(Block(piece.kind, start, self._length))

    def finish(self) -> tuple[str, tuple[Section, ...]]:
        self._close_section()
        return "".join(self._parts), tuple(self._sections)

    def _add(self, span: Span) -> int:
        if span.text and self._parts:
            self._parts.append(_GAP)
            self._length += len(_GAP)
        start = self._length
        if span.text:
            self._parts.append(span.text)
            self._length += len(span.text)
        self._add_links(span, start)
        return start

    def _add_links(self, span: Span, at: int) -> None:
        for anchor in span.anchors:
            if anchor.wiki:
                href = self._catalogue.resolve_name(self._id, anchor.href)
            else:
                href = self._catalogue.resolve(self._id, anchor.href)
            if href and href != self._id:
                text = span.text[anchor.start : anchor.end]
                start = at + anchor.start if span.text else at
                self.links.append(Link(href=clean(href), anchor=text, start=start))

    def _close_section(self) -> None:
        path = tuple(heading for _, heading in self._outline)
        if path or self._blocks:
            start = self._blocks[0].start if self._blocks else self._length
            end = self._blocks[-1].end if self._blocks else self._length
            self._sections.append(Section(path, self._level, tuple(self._blocks), start, end))
        self._blocks = []

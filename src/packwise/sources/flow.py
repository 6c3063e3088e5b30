"""The flow of a document: what every reader writes into, whatever it reads.

A reader calls ``Flow.heading``, ``paragraph``, ``code``, ``table`` and the list methods
in reading order; text with links in it is put together with ``Inline``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from packwise.documents import BlockKind

HEADING_LIMIT = 300
"""Longer headings are set as text: they are paragraphs in disguise, and a section's
path is repeated in front of each of its passages."""

_INDENT_LIMIT = 8
_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufeff\ud800-\udfff]")
_SPACES = re.compile(r"[ \t\n\r\f]+")
_LINE_ENDS = re.compile(r"(?<![ \t])[ \t]++(?=\n)")


def clean(text: str) -> str:
    """Text without control characters; half of a surrogate pair becomes U+FFFD."""
    if _UNWANTED.search(text) is None:
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n").replace("\v", "\n")
    return _UNWANTED.sub(lambda m: "\ufffd" if m[0] >= "\ud800" and m[0] != "\ufeff" else "", text)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A link on ``text[start:end]`` of its span; ``wiki`` marks a link by page name."""

    href: str
    start: int
    end: int
    wiki: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Finished text and the links in it."""

    text: str
    anchors: tuple[Anchor, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.anchors)

    def on_one_line(self) -> Span:
        return Span(self.text.replace("\n", " "), self.anchors)


class Inline:
    """Text in the making."""

    __slots__ = ("_anchors", "_length", "_open", "_parts", "_spaced")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._anchors: list[Anchor] = []
        self._open: list[tuple[str, int]] = []
        self._spaced = True

    def write(self, text: str) -> None:
        """Add text as it is."""
        text = clean(text)
        if text:
            self._parts.append(text)
            self._length += len(text)
            self._spaced = text[-1].isspace()

    def write_flowing(self, text: str) -> None:
        """Add text whose white space means nothing: any run of it is one space."""
        text = _SPACES.sub(" ", text)
        if self._spaced and text.startswith(" "):
            text = text[1:]
        self.write(text)

    def add(self, span: Span) -> None:
        """Add finished text with its links."""
        at = self._length
        for a in span.anchors:
            self._anchors.append(Anchor(a.href, a.start + at, a.end + at, a.wiki))
        self.write(span.text)

    def link(self, href: str, text: str, *, wiki: bool = False) -> None:
        """Add a link and its text at once."""
        start = self._length
        self.write(text)
        self._anchors.append(Anchor(href, start, self._length, wiki))

    def open_link(self, href: str) -> None:
        self._open.append((href, self._length))

    def close_link(self) -> None:
        if self._open:
            href, start = self._open.pop()
            self._anchors.append(Anchor(href, start, self._length))

    @property
    def blank(self) -> bool:
        """Nothing but white space so far."""
        return not any(part.strip() for part in self._parts)

    @property
    def at_line_start(self) -> bool:
        return bool(self._parts) and self._parts[-1].endswith("\n")

    def finish(self) -> Span:
        """The text, stripped, and its links moved along; the builder starts anew."""
        while self._open:
            self.close_link()
        text = "".join(self._parts)
        anchors = sorted(self._anchors, key=lambda a: (a.start, a.end))
        self.__init__()
        if _LINE_ENDS.search(text):
            text, anchors = _without_line_end_spaces(text, anchors)
        lead = len(text) - len(text.lstrip())
        text = text.strip()
        return Span(text, tuple(_fitted(text, a, lead) for a in anchors))


def _without_line_end_spaces(text: str, anchors: list[Anchor]) -> tuple[str, list[Anchor]]:
    """Drop blanks before line breaks, which only markup put there; move the links along."""
    cuts = [m.span() for m in _LINE_ENDS.finditer(text)]
    starts = [start for start, _ in cuts]
    removed = [0, *accumulate(end - start for start, end in cuts)]

    def moved(offset: int) -> int:
        before = bisect_left(starts, offset)
        if not before:
            return offset
        overlap = max(cuts[before - 1][1] - offset, 0)
        return offset - removed[before] + overlap

    shifted = [Anchor(a.href, moved(a.start), moved(a.end), a.wiki) for a in anchors]
    return _LINE_ENDS.sub("", text), shifted


def _fitted(text: str, anchor: Anchor, lead: int) -> Anchor:
    """The anchor after ``lead`` characters went, without blanks at its own ends."""
    start = min(max(anchor.start - lead, 0), len(text))
    end = min(max(anchor.end - lead, start), len(text))
    linked = text[start:end]
    start += len(linked) - len(linked.lstrip())
    return Anchor(anchor.href, start, start + len(linked.strip()), anchor.wiki)


@dataclass(frozen=True, slots=True)
class HeadingPiece:
    """A heading of the document's outline."""

    level: int
    span: Span


@dataclass(frozen=True, slots=True)
class BlockPiece:
    """A block between headings."""

    kind: BlockKind
    span: Span


Piece = HeadingPiece | BlockPiece


@dataclass(slots=True)
class _OpenList:
    ordered: bool
    number: int


class Flow:
    """Headings and blocks in reading order."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._lists: list[_OpenList] = []
        self._listing = Inline()
        self._marker = ""

    @property
    def in_list(self) -> bool:
        return bool(self._lists)

    def heading(self, level: int, span: Span) -> None:
        """A heading of the outline; one inside a list, or far too long, is plain text."""
        span = span.on_one_line()
        if self._lists or len(span.text) > HEADING_LIMIT or not span.text:
            self.paragraph(span)
        else:
            self.pieces.append(HeadingPiece(level, span))

    def paragraph(self, span: Span) -> None:
        if not span:
            return
        if not self._lists:
            self.pieces.append(BlockPiece(BlockKind.TEXT, span))
            return
        indent = "  " * min(len(self._lists) - 1, _INDENT_LIMIT)
        lead = self._marker or "  "
        self._marker = ""
        if not self._listing.blank:
            self._listing.write("\n")
        self._listing.write(indent + lead)
        self._listing.add(span.on_one_line())

    def code(self, text: str) -> None:
        """A code block, kept to the letter but for blank lines around it."""
        self._flush_list()
        text = clean(text).rstrip()
        lines = text.split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
        if lines:
            self.pieces.append(BlockPiece(BlockKind.CODE, Span("\n".join(lines))))

    def table(self, rows: Sequence[Sequence[Span]]) -> None:
        """A table, one row a line, cells parted by `` | ``."""
        self._flush_list()
        lines = Inline()
        for row in rows:
            if not any(row):
                continue
            if not lines.blank:
                lines.write("\n")
            for column, cell in enumerate(row):
                if column:
                    lines.write(" | ")
                lines.add(cell.on_one_line())
        span = lines.finish()
        if span:
            self.pieces.append(BlockPiece(BlockKind.TABLE, span))

    def open_list(self, *, ordered: bool = False, start: int = 1) -> None:
        self._lists.append(_OpenList(ordered, start))

    def open_item(self) -> None:
        if not self._lists:
            return
        current = self._lists[-1]
        self._marker = f"{current.number}. " if current.ordered else "- "
        current.number += 1

    def close_item(self) -> None:
        self._marker = ""

    def close_list(self) -> None:
        if self._lists:
            self._lists.pop()
        if not self._lists:
            self._flush_list()

    def finish(self) -> list[Piece]:
        """All pieces; lists that were left open are closed."""
        self._lists.clear()
        self._flush_list()
        return self.pieces

    def _flush_list(self) -> None:
        span = self._listing.finish()
        if span:
            self.pieces.append(BlockPiece(BlockKind.LIST, span))


@dataclass(slots=True)
class Draft:
    """A document as its reader found it: links still as written, title only if declared."""

    flow: Flow
    title: str = ""
    url: str = ""
    lang: str = ""
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    fallback_title: str = ""

"""Builds a ``Document``: a reader adds headings, paragraphs, code, tables and lists in reading
order, whatever the format, and ``DocumentBuilder.build`` joins them into one text with offsets.

Blocks are separated by an empty line. A heading's line stands in the text between its sections,
so that the text reads naturally, but belongs to no section's blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType

from packwise.documents import NO_METADATA, Block, BlockKind, Document, Link, Place, Section
from packwise.lazy_pattern import lazy_pattern
from packwise.sources.linked_text import LinkedText, TextBuilder, clean
from packwise.sources.links import LinkResolver
from packwise.sources.terms import TermHeading, Terms

FindReference = Callable[[str, str], tuple[str, str] | None]

_HEADING_LIMIT = 300
"""Longer headings become text: they are really paragraphs, and the section path is repeated in
front of every passage."""
_TITLE_LIMIT = 300
_INDENT_LIMIT = 8
_GAP = "\n\n"
_NAMELESS = {"index", "readme"}
_ITEM_START = lazy_pattern(r"(?m)^ *(?:-|[0-9]+\.) ")
_FEWEST_CONTENTS = 3
_BLANK_LINES = lazy_pattern(r"\n[ \t]*\n\s*")


Places = Sequence[tuple[int, str]]
"""Where a page, sheet, slide or cell begins: an offset and the name of the place."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block, or a heading of this level. Offsets of places count from its start."""

    linked: LinkedText
    kind: BlockKind = BlockKind.TEXT
    level: int = 0
    places: Places = ()
    label: bool = False


@dataclass(slots=True)
class DocumentBuilder:
    """A document in the making. ``title`` is the declared one; ``fallback_title`` is used when
    there is neither that nor a heading of the first level. Links are still as written.
    ``find_reference`` gives the title and the link of a cross-reference, by role and target."""

    title: str = ""
    url: str = ""
    lang: str = ""
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    fallback_title: str = ""
    warnings: list[str] = field(default_factory=list[str])
    find_reference: FindReference | None = None
    _pieces: list[_Piece] = field(default_factory=list[_Piece])
    _places: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The places since the last piece, with offsets into the open list's text."""
    _lists: list[int | None] = field(default_factory=list[int | None])
    """For each open list the number of the next item; ``None`` for bullets."""
    _list_text: TextBuilder = field(default_factory=TextBuilder)
    _marker: str = ""
    _terms: Terms = field(default_factory=Terms)

    def warn(self, warning: str) -> None:
        """Say what could not be read, in words that follow the name of the file."""
        self.warnings.append(warning)

    def place(self, name: str) -> None:
        """What follows is at this place: ``page 12``, ``sheet Q1, row 2``, ``slide 3``.

        The last word numbers it; passages across several are at ``pages 12-13``.
        """
        self._places.append((self._list_text.length if self._lists else 0, name))

    def heading(self, level: int, linked: LinkedText) -> None:
        """Add a heading. One inside a list, or far too long, becomes plain text."""
        linked = linked.on_one_line()
        if self._lists or len(linked.text) > _HEADING_LIMIT or not linked.text:
            self.paragraph(linked)
        else:
            self._terms.heading(len(self._pieces), level)
            self._add(linked, level=level)

    def open_terms(self, fewest: int = 2) -> None:
        """What follows describes terms, options or functions, one after another. Each becomes a
        section if there are at least ``fewest`` and they are described at length, unless a
        sentence announces them and they are few."""
        self._terms.open(len(self._pieces), fewest, announced=fewest > 1 and self._announces())

    def term(self, name: str) -> None:
        """What follows describes the term of this name."""
        if not self._lists:
            self._terms.term(len(self._pieces), " ".join(clean(name).split())[:_HEADING_LIMIT])

    def close_terms(self) -> None:
        self._terms.close(len(self._pieces))

    def label(self, linked: LinkedText, *, target: bool = False) -> None:
        """Add a paragraph in bold type, which may be the name of what follows. A ``target`` is
        one that links lead to."""
        if self._lists or not linked.text:
            self.paragraph(linked)
        else:
            name = linked.on_one_line().text
            announced = self._announces()
            self._terms.label(len(self._pieces), name, announced=announced, target=target)
            self._add(linked, label=True)

    def name(self, linked: LinkedText) -> None:
        """What is added next may be the beginning of a section of this name, as below a label,
        but says more than the name."""
        if not self._lists:
            name, announced = linked.on_one_line().text, self._announces()
            self._terms.label(len(self._pieces), name, announced=announced, target=False)

    def _announces(self) -> bool:
        """Whether the text so far ends with a sentence that announces what follows."""
        said = self._pieces[-1].linked.text if self._pieces else ""
        return said.endswith(":") and not said.isupper()

    def paragraph(self, linked: LinkedText, places: Places = ()) -> None:
        """Add a paragraph. ``places`` begin inside it, at offsets of its text."""
        if not linked:
            return
        if not self._lists:
            if not _is_contents(linked):
                self._add(linked, places=places)
            return
        if not self._list_text.blank:
            self._list_text.write("\n")
        indent = "  " * min(len(self._lists) - 1, _INDENT_LIMIT)
        self._list_text.write(indent + (self._marker or "  "))
        self._list_text.add(linked.on_one_line())
        self._marker = ""

    def plain_text(self, text: str) -> None:
        """Add the paragraphs of a plain text, with their line breaks."""
        for part in _BLANK_LINES.split(text):
            builder = TextBuilder()
            builder.write(part)
            self.paragraph(builder.finish())

    def code(self, text: str) -> None:
        """Add code as it is, without blank lines around it."""
        self._finish_list()
        lines = clean(text).rstrip().split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
        if lines:
            self._add(LinkedText("\n".join(lines)), BlockKind.CODE)

    def table(
        self, rows: Sequence[Sequence[LinkedText]], row_places: Sequence[str] | None = None
    ) -> None:
        """Add a table: one line per row, cells separated by `` | ``. ``row_places`` has the
        place of each row."""
        self._finish_list()
        lines = TextBuilder()
        places: list[tuple[int, str]] = []
        for number, row in enumerate(rows):
            if not any(row):
                continue
            if lines.length:
                lines.write("\n")
            if row_places:
                places.append((lines.length, row_places[number]))
            for column, cell in enumerate(row):
                if column:
                    # A space at the end of a line is removed; the places would not know it.
                    lines.write(" | " if cell or column < len(row) - 1 else " |")
                lines.add(cell.as_cell())
        if linked := lines.finish():
            self._add(linked, BlockKind.TABLE, places=places)

    def open_list(self, *, ordered: bool = False, start: int = 1) -> None:
        self._lists.append(start if ordered else None)

    def open_item(self) -> None:
        if self._lists:
            number = self._lists[-1]
            self._marker = "- " if number is None else f"{number}. "
            self._lists[-1] = None if number is None else number + 1

    def close_item(self) -> None:
        self._marker = ""

    def close_list(self) -> None:
        if self._lists:
            self._lists.pop()
        if not self._lists:
            self._finish_list()

    def _finish_list(self) -> None:
        linked = self._list_text.finish()
        if linked and not _is_contents(linked):
            self._add(linked, BlockKind.LIST)

    def _add(
        self,
        linked: LinkedText,
        kind: BlockKind = BlockKind.TEXT,
        level: int = 0,
        places: Places = (),
        label: bool = False,
    ) -> None:
        self._pieces.append(_Piece(linked, kind, level, (*self._places, *places), label))
        self._places.clear()

    def build(self, document_id: str, resolver: LinkResolver) -> Document:
        """The document, its links resolved against the documents of the same source."""
        self._lists.clear()
        self._finish_list()
        title, title_piece = self._find_title(document_id)
        layout = _Layout(document_id, resolver)
        terms = self._terms.headings(
            [0 if piece.level else len(piece.linked.text) for piece in self._pieces]
        )
        for position, piece in enumerate(self._pieces):
            headings = terms.get(position, ())
            for term in headings:
                layout.add_term(term)
            is_heading = piece.label and any(term.name for term in headings)
            shown_already = piece is title_piece or is_heading
            layout.add_places(piece, shown=not shown_already)
            if shown_already:
                layout.add_links(LinkedText("", piece.linked.anchors), layout.length)
            elif piece.level:
                layout.add_heading(piece.level, piece.linked)
            else:
                layout.add_block(piece)
        layout.close_section()
        return Document(
            id=document_id,
            title=title,
            text="".join(layout.parts),
            sections=tuple(layout.sections),
            links=tuple(layout.links),
            url=self.url,
            lang=self.lang,
            metadata=MappingProxyType(dict(self.metadata)) if self.metadata else NO_METADATA,
            places=tuple(layout.places),
            warnings=tuple(self.warnings),
        )

    def _find_title(self, document_id: str) -> tuple[str, _Piece | None]:
        """The title, and the leading heading that it was taken from or equals."""
        headings = [piece for piece in self._pieces if piece.level]
        tops = [piece for piece in headings if piece.level == 1]
        leading = tops[0] if len(tops) == 1 and tops[0] is headings[0] else None
        if declared := _one_line(self.title):
            same = leading and _folded(leading.linked.text) == _folded(declared)
            return declared, leading if same else None
        # A page of a book may begin with its title at a lower level.
        first = headings[0] if headings and not tops else None
        if first and _folded(first.linked.text) == _folded(self.fallback_title):
            return _one_line(self.fallback_title), first
        # Of several first-level headings none is the title of the whole.
        if tops and not (len(tops) > 1 and self.fallback_title.strip()):
            return tops[0].linked.text, leading
        return _one_line(self.fallback_title) or _title_from_path(document_id), None


def _is_contents(linked: LinkedText) -> bool:
    """Whether a list or a text is the table of contents of its own page: it consists of links to
    places in it. It would match every question that one of the page's sections answers."""
    anchors = linked.anchors
    if len(anchors) < _FEWEST_CONTENTS or not all(a.href.startswith("#") for a in anchors):
        return False
    inside = sum(anchor.end - anchor.start for anchor in anchors)
    return inside >= len("".join(_ITEM_START.sub("", linked.text).split("\n")))


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())[:_TITLE_LIMIT].rstrip()


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _title_from_path(document_id: str) -> str:
    """A readable title from a path: ``guide/getting_started.md`` becomes Getting started."""
    path = PurePosixPath(document_id.removesuffix(".gz"))
    stem = path.stem
    if stem.lower() in _NAMELESS and path.parent.name:
        stem = path.parent.name
    words = re.sub(r"[_\-\s]+", " ", stem).strip()
    return words[:1].upper() + words[1:]


@dataclass(slots=True)
class _Layout:
    """The text so far, and the position of everything in it."""

    document_id: str
    resolver: LinkResolver
    parts: list[str] = field(default_factory=list[str])
    length: int = 0
    outline: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    blocks: list[Block] = field(default_factory=list[Block])
    sections: list[Section] = field(default_factory=list[Section])
    links: list[Link] = field(default_factory=list[Link])
    places: list[Place] = field(default_factory=list[Place])
    resumed: bool = False
    """Whether the section that is open is the rest of one around sections of terms."""

    def add_places(self, piece: _Piece, *, shown: bool) -> None:
        """Add the places that begin before or in a piece that is about to be added."""
        length = len(piece.linked.text) if shown else 0
        start = self.length + (len(_GAP) if self.parts and length else 0)
        for offset, name in piece.places:
            at = start + min(offset, max(length - 1, 0))
            if self.places and self.places[-1].start == at:
                self.places.pop()
            self.places.append(Place(at, name))

    def add_heading(self, level: int, linked: LinkedText) -> None:
        self._end_level(level)
        self.outline.append((level, linked.text))
        self.resumed = False
        self._add(linked)

    def add_term(self, term: TermHeading) -> None:
        if term.name:
            self.add_heading(term.level, LinkedText(term.name))
        else:
            self._end_level(term.level)
            self.resumed = True

    def _end_level(self, level: int) -> None:
        self.close_section()
        while self.outline and self.outline[-1][0] >= level:
            self.outline.pop()

    def add_block(self, piece: _Piece) -> None:
        start = self._add(piece.linked)
        if piece.linked.text:
            self.blocks.append(Block(piece.kind, start, self.length))

    def close_section(self) -> None:
        path = tuple(heading for _, heading in self.outline)
        if self.blocks or (path and not self.resumed):
            level = self.outline[-1][0] if self.outline else 0
            start = self.blocks[0].start if self.blocks else self.length
            end = self.blocks[-1].end if self.blocks else self.length
            self.sections.append(Section(path, level, tuple(self.blocks), start, end))
        self.blocks = []

    def _add(self, linked: LinkedText) -> int:
        """Add text; returns where it starts."""
        for part in (_GAP if self.parts else "", linked.text) if linked.text else ():
            self.parts.append(part)
            self.length += len(part)
        start = self.length - len(linked.text)
        self.add_links(linked, start)
        return start

    def add_links(self, linked: LinkedText, at: int) -> None:
        for anchor in linked.anchors:
            resolve = self.resolver.resolve_name if anchor.wiki else self.resolver.resolve
            href = resolve(self.document_id, anchor.href)
            if href and href != self.document_id:
                text = linked.text[anchor.start : anchor.end]
                start = at + anchor.start if linked.text else at
                self.links.append(Link(href=clean(href), anchor=text, start=start))

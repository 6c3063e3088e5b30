"""What is stored: documents, their sections, links and passages.

One law ties them together: every offset counts characters of ``Document.text``,
so ``document.text[passage.start:passage.end] == passage.text``, and the same holds
for sections, blocks and link anchors.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from packwise.lazy_pattern import lazy_pattern

_LINES = lazy_pattern(r"lines? (\d{1,18})(?:-(\d{1,18}))?")
_BLANK_LINES = 3
"""Lines between two places that still make one range: one follows the other after a heading."""
_CELL_BORDER = lazy_pattern(r"(?<!\\)\|")

NO_METADATA: Mapping[str, str] = MappingProxyType({})


def no_metadata() -> Mapping[str, str]:
    """The default for a metadata field."""
    return NO_METADATA


class BlockKind(StrEnum):
    """The kind of a block; code and tables are never split when chunked."""

    TEXT = "text"
    LIST = "list"
    CODE = "code"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list, code block or table: ``text[start:end]`` of its document.

    In a passage that shows only a part of it, this is that part.
    """

    kind: BlockKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading, without its sub-sections.

    ``path`` holds the headings from the top down, this section's own last; it is
    empty for text before the first heading. The document's title is not part of it.
    """

    path: tuple[str, ...]
    level: int
    blocks: tuple[Block, ...]
    start: int
    end: int

    @property
    def header(self) -> str:
        return self.path[-1] if self.path else ""


@dataclass(frozen=True, slots=True)
class Link:
    """A reference from a document to another one.

    ``href`` is what the author wrote, made absolute within the source (a document id or a
    URL); ``target`` is the document of the same store it points to, once resolved.
    ``anchor`` is the linked text, at ``start`` in the linking document.
    """

    href: str
    anchor: str = ""
    start: int = 0
    target: str | None = None
    kind: str = "link"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its file the text from ``start`` on was: ``page 12``, ``sheet Q1, row 2``,
    ``line 7``."""

    start: int
    name: str


@dataclass(frozen=True, slots=True)
class Document:
    """One article: a file, a page, a row of a corpus.

    ``id`` is unique and stable within its source (a relative path, a URL, a corpus id).
    ``source_hash`` identifies the bytes it was read from: an equal hash means no change.
    ``places`` and ``warnings`` (what could not be read) come from its reader and are not stored;
    passages keep their place. A build splits a document without ``sections`` into paragraphs.
    """

    id: str
    title: str
    text: str
    sections: tuple[Section, ...] = ()
    links: tuple[Link, ...] = ()
    url: str = ""
    lang: str = ""
    metadata: Mapping[str, str] = field(default_factory=no_metadata)
    source_hash: str = ""
    places: tuple[Place, ...] = ()
    warnings: tuple[str, ...] = ()

    def place(self, start: int, end: int) -> str:
        """Where ``text[start:end]`` was in the file: ``pages 12-13``; empty if not known."""
        first = bisect_right(self.places, start, key=lambda place: place.start) - 1
        last = bisect_left(self.places, end, key=lambda place: place.start) - 1
        if last < 0:
            return ""
        held = [place.name for place in self.places[max(first, 0) : last + 1]]
        # A reader may move lines: a docstring stands above the head of its function.
        lines = [number for name in held if (found := line_range(name)) for number in found]
        if len(lines) == 2 * len(held):
            held = [f"line {min(lines)}", f"line {max(lines)}"]
        one, other = held[0], held[-1]
        if one == other:
            return one
        unit, _, number = one.rpartition(" ")
        other_unit, _, other_number = other.rpartition(" ")
        same = unit and unit == other_unit
        return f"{unit}s {number}-{other_number}" if same else f"{one} to {other}"


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a section: the unit that is embedded, ranked and cited.

    ``blocks`` say which parts of it are prose, lists, code and tables; they are empty if that
    is not known. ``lead`` is text from before the passage without which its first block
    cannot be understood: the column names of a table, the sentence that announces a list.
    ``place`` says where in the file it is, for example ``pages 12-13``. ``reading`` is what a store
    keeps so that packing need not read the text again; see ``packwise.reading``.
    """

    id: str
    document: str
    doc_title: str
    section_path: tuple[str, ...]
    order_index: int
    text: str
    start: int
    end: int
    content_hash: str
    embedder_version: str = ""
    url: str = ""
    lang: str = ""
    metadata: Mapping[str, str] = field(default_factory=no_metadata)
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    place: str = ""
    reading: str = field(default="", repr=False, compare=False)

    @property
    def header(self) -> str:
        return self.section_path[-1] if self.section_path else ""

    @property
    def heading(self) -> str:
        """Title and section path on one line, as indexed before the text."""
        return heading_text(self.doc_title, self.section_path)

    @property
    def indexed_text(self) -> str:
        """The text that is embedded and searched: the heading, the lead, then the text."""
        return indexed_text(self.heading, self.lead, self.text)


def heading_text(title: str, section_path: tuple[str, ...]) -> str:
    """The heading of a passage; see ``Passage.heading``."""
    parts = [title, *section_path]
    return " > ".join(part for i, part in enumerate(parts) if part and part not in parts[:i])


def indexed_text(heading: str, lead: str, text: str) -> str:
    """The text of a passage that is indexed; see ``Passage.indexed_text``."""
    return "\n".join(part for part in (heading, lead, text) if part)


def cells_of(line: str) -> list[str]:
    """The cells of a line of a table; ``\\|`` is a sign of its cell."""
    return _CELL_BORDER.split(line)


def joined_places(places: Iterable[str]) -> str:
    """Several places of one file as one; neighbouring lines become one range."""
    joined: list[str] = []
    for place in dict.fromkeys(filter(None, places)):
        lines = line_range(place)
        before = line_range(joined[-1]) if joined else None
        if lines and before and before[0] <= lines[0] <= before[1] + _BLANK_LINES:
            joined[-1] = f"lines {before[0]}-{max(before[1], lines[1])}"
        else:
            joined.append(place)
    return ", ".join(joined)


def line_range(place: str) -> tuple[int, int] | None:
    """The first and last line of ``line 7`` or ``lines 7-9``; ``None`` for other places."""
    found = _LINES.fullmatch(place)
    return (int(found[1]), int(found[2] or found[1])) if found else None


def located(where: str, place: str) -> str:
    """A file and a place in it: ``keys.md:7-9`` for lines, ``report.pdf, page 3`` for others.

    A URL stays as it is: a browser shows no lines, and could not open the address with them.
    """
    lines = line_range(place)
    if lines is not None and "://" in where:
        return where
    if lines is None:
        return f"{where}, {place}" if place else where
    first, last = lines
    return f"{where}:{first}" if first == last else f"{where}:{first}-{last}"


def passage_id(document_id: str, order_index: int) -> str:
    """The id of a document's n-th passage; unique within a store."""
    return f"{document_id}#{order_index}"


def content_hash(*parts: str, after: bytes = b"") -> str:
    """A 128-bit hash of texts, as hex; the borders between the parts count. ``after`` are more
    parts, from ``with_lengths``."""
    return hashlib.blake2b(with_lengths(*parts) + after, digest_size=16).hexdigest()


def with_lengths(*parts: str) -> bytes:
    """Texts one after the other, each after its length."""
    pieces: list[bytes] = []
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        pieces += (len(data).to_bytes(8, "little"), data)
    return b"".join(pieces)

"""How a context reads, and what each piece of it costs.

    # Title of the best document
    ## Section > Subsection
    [1] A passage of that section.

    [2] Another one, of which … not all sentences are shown.

    # Title of the next document
    [3] ...

Documents come best first, their passages in reading order, a title once a document and a
section path whenever it changes. Overlapping passages of a document become one stretch.

Every line that begins a piece starts with ``#`` or ``[``, and every piece ends with a line
break. The tokenizers never join those two, so the tokens of the pieces add up exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from packwise.context.pool import Entry
from packwise.context.reading import read
from packwise.documents import Passage
from packwise.models.base import TokenCounter

GAP, LINE_GAP = " … ", "\n…\n"
"""What stands for sentences left out, within a line and between lines."""

_BLOCK_END = "\n\n"


@dataclass(frozen=True, slots=True)
class Part:
    """An entry and which of its units are shown, as bits."""

    entry: Entry
    units: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """One cited piece of the context: a passage, part of it, or several that overlap.

    ``spans`` are its pieces as offsets in the document. ``shares`` is the text that each of
    the parts brought, the earlier ones first; ``shown`` how many of its units can be read.
    """

    parts: tuple[Part, ...]
    spans: tuple[tuple[int, int], ...]
    text: str
    shares: tuple[str, ...]
    shown: tuple[int, ...]

    @property
    def reduced(self) -> bool:
        """Whether sentences of its passages are left out."""
        units = [len(part.entry.reading.units) for part in self.parts]
        return any(shown < all_ for shown, all_ in zip(self.shown, units, strict=True))

    @property
    def passage(self) -> Passage:
        """The first passage of the stretch."""
        return self.parts[0].entry.passage


@dataclass(frozen=True, slots=True)
class Layout:
    """A context in pieces, which joined are the text.

    ``blocks`` says which of the pieces hold the stretches, in order.
    """

    stretches: tuple[Stretch, ...]
    pieces: tuple[str, ...]
    blocks: tuple[int, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def lay_out(parts: Iterable[Part]) -> Layout:
    """The parts in the order and form in which they are read."""
    documents: dict[str, list[Part]] = {}
    for part in parts:
        if part.units:
            documents.setdefault(part.entry.passage.document, []).append(part)
    best_first = sorted(documents.values(), key=lambda group: min(p.entry.rank for p in group))
    stretches: list[Stretch] = []
    pieces: list[str] = []
    blocks: list[int] = []
    for group in best_first:
        title = title_line(group[0].entry.passage)
        if title:
            pieces.append(title)
        section = ""
        for stretch in stretches_of(group):
            line = section_line(stretch.passage)
            if line and line != section:
                pieces.append(line)
            section = line
            stretches.append(stretch)
            blocks.append(len(pieces))
            pieces.append(block(len(stretches), stretch.text))
    if pieces:
        pieces[-1] = pieces[-1].removesuffix(_BLOCK_END)
    return Layout(tuple(stretches), tuple(pieces), tuple(blocks))


def title_line(passage: Passage) -> str:
    """The line that opens a document; empty for one without a title."""
    title = _one_line(passage.doc_title)
    return f"# {title}\n" if title else ""


def section_line(passage: Passage) -> str:
    """The line that opens a section; empty for text that has no heading of its own."""
    title = _one_line(passage.doc_title)
    parts = [_one_line(part) for part in passage.section_path]
    shown = " > ".join(part for part in parts if part and part != title)
    return f"## {shown}\n" if shown else ""


def _one_line(heading: str) -> str:
    return " ".join(heading.split())


def block(marker: int, text: str) -> str:
    """A cited piece with its marker, as it stands in the context."""
    return f"[{marker}] {text}{_BLOCK_END}"


@lru_cache(maxsize=4096)
def unit_costs(counter: TokenCounter, text: str) -> tuple[int, ...]:
    """The tokens of each unit of a text, with the white space before it."""
    units = read(text).units
    starts = [0, *(end for _, end in units)][: len(units)]
    pieces = [
        f" {text[a:b]}" if i == 0 else text[start:b]
        for i, (start, (a, b)) in enumerate(zip(starts, units, strict=True))
    ]
    return tuple(counter.count_many(pieces))


@lru_cache(maxsize=64)
def block_cost(counter: TokenCounter) -> int:
    """The tokens of a marker and of the line breaks after a passage."""
    return counter.count(block(1, "").rstrip()) + counter.count(_BLOCK_END)


def stretches_of(parts: Sequence[Part]) -> list[Stretch]:
    """The parts of one document as stretches in reading order."""
    ordered = sorted(
        parts, key=lambda p: (p.entry.passage.start, p.entry.passage.end, p.entry.rank)
    )
    chains: list[_Chain] = []
    for part in ordered:
        if not (chains and chains[-1].join(part)):
            chains.append(_Chain(part))
    return [stretch for chain in chains for stretch in chain.stretches()]


class _Chain:
    """Passages of a document each of which overlaps or touches the next, so that the
    document's text between the first and the last is known."""

    def __init__(self, part: Part) -> None:
        self._parts = [part]
        self._start = part.entry.passage.start
        self._text = part.entry.passage.text

    def join(self, part: Part) -> bool:
        """Take the next passage, if it overlaps or touches and tells the same text."""
        passage = part.entry.passage
        shared = self._start + len(self._text) - passage.start
        same_section = passage.section_path == self._parts[-1].entry.passage.section_path
        if shared < 0 or not same_section:
            return False
        known = self._text[passage.start - self._start :]
        if known[: len(passage.text)] != passage.text[:shared]:
            return False
        self._text += passage.text[shared:]
        self._parts.append(part)
        return True

    def stretches(self) -> list[Stretch]:
        """The chosen text of the chain; parts that touch or share text stay together."""
        stretches: list[Stretch] = []
        spans: list[tuple[int, int]] = []
        members: list[int] = []
        for start, end in self._spans():
            around = [
                i for i, (a, b) in enumerate(map(_extent, self._parts)) if a < end and start < b
            ]
            if spans and not set(around) & set(members):
                stretches.append(self._stretch(members, spans))
                spans, members = [], []
            spans.append((start, end))
            members.extend(i for i in around if i not in members)
        stretches.append(self._stretch(members, spans))
        return stretches

    def _spans(self) -> list[tuple[int, int]]:
        """The chosen units as spans of the document, joined where only space lies between."""
        chosen = sorted(
            (part.entry.passage.start + a, part.entry.passage.start + b)
            for part in self._parts
            for i, (a, b) in enumerate(part.entry.reading.units)
            if part.units >> i & 1
        )
        joined: list[tuple[int, int]] = []
        for start, end in chosen:
            if joined and not self._between(joined[-1][1], start).strip():
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((start, end))
        return joined

    def _stretch(self, members: list[int], spans: list[tuple[int, int]]) -> Stretch:
        shown = [self._between(*spans[0])]
        for (_, before), (start, end) in pairwise(spans):
            shown.append(LINE_GAP if "\n" in self._between(before, start) else GAP)
            shown.append(self._between(start, end))
        parts = [self._parts[i] for i in members]
        told = self._start
        shares: list[str] = []
        for part in parts:
            upper = max(told, _extent(part)[1])
            texts = [self._between(max(a, told), min(b, upper)) for a, b in spans]
            shares.append(" ".join(text for text in texts if text))
            told = upper
        read_ = tuple(_shown(part, spans) for part in parts)
        return Stretch(tuple(parts), tuple(spans), "".join(shown), tuple(shares), read_)

    def _between(self, start: int, end: int) -> str:
        return self._text[start - self._start : max(start, end) - self._start]


def _shown(part: Part, spans: Sequence[tuple[int, int]]) -> int:
    """How many units of a part lie within the spans, whichever part they were chosen of."""
    start = part.entry.passage.start
    units = part.entry.reading.units
    return sum(any(a <= start + x and start + y <= b for a, b in spans) for x, y in units)


def _extent(part: Part) -> tuple[int, int]:
    passage = part.entry.passage
    return passage.start, passage.start + len(passage.text)

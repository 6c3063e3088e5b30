"""How a context reads, what each piece of it costs, and a draft that keeps to the budget.

    # Title of the best document
    ## Section > Subsection
    [1] A passage of that section.

    [2] Another one, of which … not all sentences are shown.

    # Title of the next document
    [3] ...

Documents come best first, their passages in reading order. A title is shown once per
document, a section path whenever it changes. Overlapping passages become one excerpt.

Every line that begins a piece starts with ``#`` or ``[``, and every piece ends with a line
break. The tokenizers never join those two, so the tokens of the pieces add up exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from packwise.context.candidate_pool import PoolEntry
from packwise.context.markdown import MarkdownText
from packwise.language.untrusted import clean, without_markers
from packwise.lazy_pattern import lazy_pattern
from packwise.models.base import TokenCounter
from packwise.models.tokens import ModelTokens
from packwise.reading.passage_reading import ENCODING, unit_pieces

_BLOCK_END = "\n\n"
_OPENS_BLOCK = lazy_pattern(r"[ \t]*(?:```|~~~|[-*+] |\d{1,4}[.)] |\|)|[^\n]+\n(?:---|===)")
# Tokens of the fences around a code block.
_FENCE_COST = 5


class SelectedUnits(NamedTuple):
    """An entry and which of its units are shown."""

    entry: PoolEntry
    units: int

    @property
    def start(self) -> int:
        return self.entry.passage.start

    @property
    def end(self) -> int:
        return self.start + len(self.entry.passage.text)

    def spans(self) -> list[tuple[int, int]]:
        """All units of the entry, as offsets in the document."""
        return [(self.start + a, self.start + b) for a, b in self.entry.reading.units]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One cited piece of the context: a passage, part of it, or several that overlap.

    ``spans`` are its pieces as offsets in the document. ``added`` is the text that each of
    the parts adds to the earlier ones, ``shown`` the number of its units that are visible.
    """

    parts: tuple[SelectedUnits, ...]
    spans: tuple[tuple[int, int], ...]
    text: str
    added: tuple[str, ...]
    shown: tuple[int, ...]

    @property
    def reduced(self) -> bool:
        """Whether sentences of its passages are left out."""
        return any(
            shown < len(part.entry.reading.units)
            for part, shown in zip(self.parts, self.shown, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """A context in pieces; joined they are the text. ``blocks`` are the positions of the
    pieces that hold the excerpts."""

    excerpts: tuple[Excerpt, ...]
    pieces: tuple[str, ...]
    blocks: tuple[int, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def lay_out(parts: Iterable[SelectedUnits]) -> Layout:
    """Put the parts into the order and form in which they are read."""
    documents: dict[str, list[SelectedUnits]] = {}
    for part in parts:
        if part.units:
            documents.setdefault(part.entry.passage.document, []).append(part)
    best_first = sorted(documents.values(), key=lambda group: min(p.entry.rank for p in group))
    excerpts: list[Excerpt] = []
    pieces: list[str] = []
    blocks: list[int] = []
    for group in best_first:
        title = title_line(group[0].entry.passage.doc_title)
        if title:
            pieces.append(title)
        section = ""
        for excerpt in _excerpts(group):
            passage = excerpt.parts[0].entry.passage
            line = section_line(passage.doc_title, passage.section_path)
            if line and line != section:
                pieces.append(line)
            section = line
            excerpts.append(excerpt)
            blocks.append(len(pieces))
            pieces.append(block(len(excerpts), excerpt.text))
    if pieces:
        pieces[-1] = pieces[-1].removesuffix(_BLOCK_END)
    return Layout(tuple(excerpts), tuple(pieces), tuple(blocks))


def title_line(title: str) -> str:
    """The line above a document; empty for one without a title."""
    return f"# {_one_line(title)}\n" if title.strip() else ""


def section_line(title: str, path: Sequence[str]) -> str:
    """The line above a section; empty for text that has no heading of its own."""
    parts = [part for part in map(_one_line, path) if part and part != _one_line(title)]
    return f"## {' > '.join(parts)}\n" if parts else ""


def _one_line(heading: str) -> str:
    return without_markers(" ".join(clean(heading).split()))


def block(marker: int, text: str) -> str:
    """An excerpt with its marker, as it stands in the context; lists, tables and code begin
    on a line of their own."""
    space = "\n" if _OPENS_BLOCK.match(text) else " "
    return f"[{marker}]{space}{text}{_BLOCK_END}"


def entry_costs(counter: TokenCounter, entry: PoolEntry) -> Sequence[int]:
    """The tokens of each unit of an entry, with the white space before it."""
    reading = entry.reading
    if isinstance(counter, ModelTokens) and counter.encoding == ENCODING:
        counts = counter.with_margin(reading.tokens)
    else:
        counts = counter.count_many(unit_pieces(entry.passage.text, reading.units))
    if not reading.code:
        return counts
    return [count + (reading.code >> i & 1) * _FENCE_COST for i, count in enumerate(counts)]


@lru_cache(maxsize=64)
def block_cost(counter: TokenCounter) -> int:
    """The tokens of a marker and of the line breaks after an excerpt."""
    return counter.count(block(1, "").rstrip()) + counter.count(_BLOCK_END)


@lru_cache(maxsize=4096)
def header_costs(counter: TokenCounter, title: str, path: tuple[str, ...]) -> tuple[int, int]:
    """The tokens of the title line and of the section line."""
    above, section = title_line(title), section_line(title, path)
    return counter.count(above) if above else 0, counter.count(section) if section else 0


def _excerpts(parts: Sequence[SelectedUnits]) -> list[Excerpt]:
    """The parts of one document as excerpts in reading order."""
    chains: list[_Chain] = []
    for part in sorted(parts, key=lambda p: (p.start, p.entry.passage.end, p.entry.rank)):
        if not (chains and chains[-1].join(part)):
            chains.append(_Chain(part))
    return [excerpt for chain in chains for excerpt in chain.excerpts()]


class _Chain:
    """Passages of a document each of which overlaps or touches the next, so that the
    document's text between the first and the last is known."""

    def __init__(self, part: SelectedUnits) -> None:
        self._parts = [part]
        self._start = part.start
        self._text = part.entry.passage.text

    def join(self, part: SelectedUnits) -> bool:
        """Add the next passage, if it overlaps or touches and has the same text."""
        passage = part.entry.passage
        shared = self._start + len(self._text) - passage.start
        if shared < 0 or passage.section_path != self._parts[-1].entry.passage.section_path:
            return False
        known = self._text[passage.start - self._start :]
        if known[: len(passage.text)] != passage.text[:shared]:
            return False
        self._text += passage.text[shared:]
        self._parts.append(part)
        return True

    def excerpts(self) -> list[Excerpt]:
        """The selected text of the chain; parts that touch or share text stay together."""
        excerpts: list[Excerpt] = []
        spans: list[tuple[int, int]] = []
        members: list[int] = []
        for start, end in self._spans():
            holders = [
                i for i, part in enumerate(self._parts) if part.start < end and start < part.end
            ]
            if spans and not set(holders) & set(members):
                excerpts.append(self._excerpt(members, spans))
                spans, members = [], []
            spans.append((start, end))
            members.extend(i for i in holders if i not in members)
        return [*excerpts, self._excerpt(members, spans)]

    def _spans(self) -> list[tuple[int, int]]:
        """The selected units as spans of the document, joined where only space lies between."""
        selected = sorted(
            span
            for part in self._parts
            for i, span in enumerate(part.spans())
            if part.units >> i & 1
        )
        joined: list[tuple[int, int]] = []
        for start, end in selected:
            if joined and not self._between(joined[-1][1], start).strip():
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((start, end))
        return joined

    def _excerpt(self, members: list[int], spans: list[tuple[int, int]]) -> Excerpt:
        parts = tuple(self._parts[i] for i in members)
        markdown = MarkdownText([part.entry.passage for part in parts], self._between)
        pieces = markdown.cut(spans)
        reached = self._start
        added: list[str] = []
        for part in parts:
            upper = max(reached, part.end)
            texts = [self._between(max(a, reached), min(b, upper)) for a, b in spans]
            added.append(" ".join(filter(None, texts)))
            reached = upper
        shown = tuple(
            sum(any(a <= x and y <= b for a, b in spans) for x, y in part.spans()) for part in parts
        )
        return Excerpt(parts, tuple(pieces), markdown.render(pieces), tuple(added), shown)

    def _between(self, start: int, end: int) -> str:
        return self._text[start - self._start : max(start, end) - self._start]


class Pick(NamedTuple):
    """Units of an entry that are added to a draft together.

    ``value`` is whatever the policy maximises.
    """

    entry: int
    units: int
    value: float
    cost: int

    @property
    def density(self) -> float:
        """Value per token."""
        return self.value / max(self.cost, 1)


class ContextDraft:
    """The entries to choose from and the units picked so far."""

    def __init__(self, entries: Iterable[PoolEntry], counter: TokenCounter, budget: int) -> None:
        self.entries = list(entries)
        self.units = [0] * len(self.entries)
        self.picks: list[Pick] = []
        self.budget = budget
        self._counter = counter
        self._layout: Layout | None = None
        self._counts: dict[str, int] = {}

    def add_entry(self, entry: PoolEntry) -> int:
        """Offer one more entry; returns its index."""
        self.entries.append(entry)
        self.units.append(0)
        return len(self.entries) - 1

    def add(self, pick: Pick) -> None:
        self.units[pick.entry] |= pick.units
        self.picks.append(pick)
        self._layout = None

    def remove(self, pick: Pick) -> None:
        """Take a pick out; units that another pick holds too stay."""
        self.picks.remove(pick)
        self.units[pick.entry] = 0
        for other in self.picks:
            if other.entry == pick.entry:
                self.units[pick.entry] |= other.units
        self._layout = None

    def selected(self) -> list[int]:
        """The entries that are shown at least in part, by index."""
        return [i for i, units in enumerate(self.units) if units]

    def layout(self) -> Layout:
        if self._layout is None:
            selected = self.selected()
            self._layout = lay_out(SelectedUnits(self.entries[i], self.units[i]) for i in selected)
        return self._layout

    def tokens(self) -> int:
        """The tokens of the draft, its pieces counted one by one."""
        return sum(self.piece_tokens())

    def piece_tokens(self) -> list[int]:
        """The tokens of each piece of the layout. Most pieces stay as a draft changes."""
        pieces = self.layout().pieces
        new = [piece for piece in pieces if piece not in self._counts]
        self._counts.update(zip(new, self._counter.count_many(new), strict=True))
        return [self._counts[piece] for piece in pieces]

    def shrink(self) -> int:
        """Remove the picks of lowest density until the draft fits; returns the tokens left."""
        while (used := self.tokens()) > self.budget:
            self.remove_lowest()
        return self.budget - used

    def remove_lowest(self) -> None:
        """Remove the pick of the lowest density, of equal ones the latest; the first pick,
        which is of the best passage, goes last."""
        self.remove(min(reversed(self.picks[1:] or self.picks), key=lambda pick: pick.density))

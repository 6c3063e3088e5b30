"""Documents into passages: pieces of one section that fit the embedder and end where a
thought ends.

A section that fits is one passage. A longer one is cut into even pieces, at paragraph
borders where one is near, else between sentences; code blocks, tables and list items stay
whole unless one alone is too long. The pieces of a section overlap by whole sentences.

How a section is cut: its blocks become *units*, the smallest pieces one may cut between,
each with the cost of starting a passage there. The cut with the lowest sum of those costs
and of the squared deviations from the even size wins.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil
from operator import sub
from typing import NamedTuple

from packwise.documents import (
    Block,
    BlockKind,
    Document,
    Passage,
    Section,
    content_hash,
    passage_id,
)
from packwise.language.sentences import sentence_spans
from packwise.models.base import Embedder
from packwise.settings import Settings

CHUNKER = "packwise-passages-1"
"""Name of the rules by which a document becomes stored passages, those of the guard included;
builds redo unchanged documents when it changes."""

# Room in the model's window for the marks it puts around a text and a short instruction.
_RESERVED_TOKENS = 8
# However long its heading, a passage keeps this share of the limit for its text.
_LEAST_TEXT_SHARE = 0.25
# A stretch without a token border (an endless word, a run of blanks) counts as one token for
# every so many characters, so that no passage grows without bound.
_LONGEST_TOKEN = 64
# Characters handed to the tokenizer at once: its result takes far more memory than the text.
_TOKENIZED_AT_ONCE = 1 << 15
# Where the mean unit is below this share of a passage, units are glued up to it: choosing
# the cuts takes time by the number of units in a passage.
_SMALLEST_UNIT = 1 / 40

# What it costs to start a passage at a border, in squared relative deviation from the even
# size: a paragraph's border is preferred to a sentence's up to a quarter (0.25 squared) of
# the even size away.
_PARAGRAPH = 0.0
_ITEM = 0.03
_LINE = 0.04
_SENTENCE = 0.06
_ROW = 0.12
_NESTED_ITEM = 0.15
_CODE_PARAGRAPH = 0.06
_CODE_LINE = 0.25
_CLAUSE = 0.25
_COMMA = 0.3
_WORD = 0.4
_INSIDE_WORD = 0.6
# A "sentence" longer than both of these is no sentence but a list or table run together: it
# may be cut even where it would fit, rather than leave a crumb beside it.
_LONGEST_SENTENCE_SHARE = 0.6
_LONGEST_SENTENCE = 120
# Added where the text before introduces what comes after: "as follows:", a bold line.
_LEAD = 0.35
_LEAD_TOKENS = 12

_ITEM_START = re.compile(
    r"^([ \t]*+)(?:[-*+•‣◦▪]|(?:\d{1,3}|#)[.)]|\(?[A-Za-z]\))(?=\s)", re.MULTILINE
)
_OUTER_LINE = re.compile(r"^()(?=\S)", re.MULTILINE)
_RULING = re.compile(r"[-+=|:\s]++")
# Borders inside a sentence that is too long, the better ones first.
_SOFT_BORDERS = (
    (re.compile(r"(?<=[;:—–])\s++|(?<!\s)\s++(?=[*•–—-]\s)|\n\s*+"), _CLAUSE),
    (re.compile(r"(?<=[,)])\s++|(?<=[、，；：])\s*+"), _COMMA),
    (re.compile(r"\s++"), _WORD),
)


def chunk(document: Document, embedder: Embedder, settings: Settings) -> list[Passage]:
    """The passages of a document, in reading order.

    Each is at most ``settings.passage_tokens`` long, counted with its heading in the
    embedder's tokens, and within what the embedder reads; only a heading that fills most of
    that on its own makes a passage longer. Passages of different sections share no text.
    """
    limit = min(settings.passage_tokens, embedder.window - _RESERVED_TOKENS)
    passages: list[Passage] = []
    for section in document.sections or _as_one_section(document):
        blocks = _trimmed(document.text, section.blocks)
        if not blocks:
            continue
        heading = _passage(document, section, embedder.version, 0, 0, 0).heading
        for start, end in _cut(document.text, blocks, heading, embedder, limit, settings):
            order = len(passages)
            passage = _passage(document, section, embedder.version, order, start, end)
            passages.append(replace(passage, content_hash=content_hash(passage.indexed_text)))
    return passages


def _as_one_section(document: Document) -> tuple[Section, ...]:
    end = len(document.text)
    return (Section((), 0, (Block(BlockKind.TEXT, 0, end),), 0, end),)


def _passage(
    document: Document, section: Section, version: str, order: int, start: int, end: int
) -> Passage:
    """A passage that lacks only its content hash."""
    return Passage(
        id=passage_id(document.id, order),
        document=document.id,
        doc_title=document.title,
        section_path=section.path,
        order_index=order,
        text=document.text[start:end],
        start=start,
        end=end,
        content_hash="",
        embedder_version=version,
        url=document.url,
        lang=document.lang,
        metadata=document.metadata,
    )


def _trimmed(text: str, blocks: Sequence[Block]) -> list[Block]:
    """The blocks that hold more than white space, without the space around them."""
    trimmed: list[Block] = []
    for block in blocks:
        start, end = _strip(text, block.start, block.end)
        if start < end:
            trimmed.append(Block(block.kind, start, end))
    return trimmed


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    stripped = piece.lstrip()
    start = end - len(stripped)
    return start, start + len(stripped.rstrip())


def _cut(
    text: str,
    blocks: Sequence[Block],
    heading: str,
    embedder: Embedder,
    limit: int,
    settings: Settings,
) -> list[tuple[int, int]]:
    """Where the passages of a section begin and end."""
    start, end = blocks[0].start, blocks[-1].end
    ruler = _Ruler(embedder, text, start, end, heading)
    capacity = max(limit - ruler.heading_tokens, int(limit * _LEAST_TEXT_SHARE), 1)
    total = ruler.count(start, end)
    if total <= capacity:
        return [(start, end)]
    units = _Cutter(text, ruler, capacity).units(blocks)
    return _Partition(units, ruler, capacity, settings.passage_overlap).passages()


class _Ruler:
    """Counts the embedder's tokens between two places of a text, read once."""

    def __init__(self, embedder: Embedder, text: str, start: int, end: int, heading: str) -> None:
        self._embedder = embedder
        self.heading_tokens = 0
        self.starts = array("q")
        lead = f"{heading}\n" if heading else ""
        while start < end:
            stop = self._readable_end(text, start, end)
            shift = start - len(lead)
            starts = [at + shift for at, _ in embedder.token_spans(lead + text[start:stop])]
            if lead:
                self.heading_tokens = bisect_left(starts, start)
                del starts[: self.heading_tokens]
                lead = ""
            self.starts.extend(_filled(starts, start, stop))
            start = stop

    @staticmethod
    def _readable_end(text: str, start: int, end: int) -> int:
        stop = start + _TOKENIZED_AT_ONCE
        if stop >= end:
            return end
        for border in ("\n", " "):
            found = text.rfind(border, start + _TOKENIZED_AT_ONCE // 2, stop)
            if found != -1:
                return found
        return stop

    def before(self, position: int) -> int:
        """The number of tokens that begin before a place."""
        return bisect_left(self.starts, position)

    def count(self, start: int, end: int) -> int:
        return self.before(end) - self.before(start)

    def measure(self, text: str) -> int:
        """The tokens of a text taken by itself: what a piece of a torn word comes to."""
        return len(self._embedder.token_spans(text))


def _filled(starts: list[int], start: int, end: int) -> list[int]:
    """Token starts, with more of them wherever a stretch has none for long."""
    edges = [start, *starts, end]
    if max(map(sub, edges[1:], edges)) <= _LONGEST_TOKEN:
        return starts
    filled = starts[:0]
    for a, b in pairwise(edges):
        filled.extend(range(a + _LONGEST_TOKEN, b, _LONGEST_TOKEN))
        if b < end:
            filled.append(b)
    return filled


class _Unit(NamedTuple):
    """A piece of a section that is not cut further.

    ``cost`` is what starting a passage here costs; ``prose`` units may be repeated in the
    next passage; one that ``opens`` begins a sentence. ``surplus`` counts the tokens it has
    beyond those the ruler sees.
    """

    start: int
    end: int
    cost: float
    prose: bool
    opens: bool = True
    surplus: int = 0


class _Cutter:
    """Cuts the blocks of a section into units of at most ``capacity`` tokens."""

    def __init__(self, text: str, ruler: _Ruler, capacity: int) -> None:
        self._text = text
        self._ruler = ruler
        self._capacity = capacity
        self._longest_sentence = min(
            capacity, max(int(capacity * _LONGEST_SENTENCE_SHARE), _LONGEST_SENTENCE)
        )

    def units(self, blocks: Sequence[Block]) -> list[_Unit]:
        units: list[_Unit] = []
        for block in blocks:
            if block.kind is BlockKind.TEXT:
                units.extend(self._sentences(block.start, block.end, _PARAGRAPH))
            elif block.kind is BlockKind.LIST:
                units.extend(self._items(block))
            elif self._fits(block.start, block.end):
                units.append(_Unit(block.start, block.end, _PARAGRAPH, prose=False))
            elif block.kind is BlockKind.TABLE:
                units.extend(self._rows(block))
            else:
                units.extend(self._code(block))
        return self._glued(self._led(units))

    def _fits(self, start: int, end: int) -> bool:
        return self._ruler.count(start, end) <= self._capacity

    def _sentences(self, start: int, end: int, cost: float) -> Iterator[_Unit]:
        text, previous = self._text, start
        for begin, stop in sentence_spans(text[start:end]):
            first, last = start + begin, start + stop
            if first > start:
                cost = self._sentence_cost(text[previous:first], first, last)
            sentence = _Unit(first, last, cost, prose=True)
            yield from self._soft(sentence, self._longest_sentence)
            previous = last

    def _sentence_cost(self, gap: str, start: int, end: int) -> float:
        lines = gap.count("\n")
        if lines > 1:
            return _PARAGRAPH
        if _ITEM_START.match(self._text[start : start + 8]):
            return _ITEM
        if lines == 0:
            return _SENTENCE
        return _ROW if "|" in self._text[start:end] else _LINE

    def _items(self, block: Block) -> Iterator[_Unit]:
        for pattern in (_ITEM_START, _OUTER_LINE):
            found = list(pattern.finditer(self._text, block.start, block.end))
            if found:
                break
        # The first item lost its indentation when the block was trimmed.
        outer = min((len(item[1]) for item in found[1:]), default=0)
        starts = [(item.start(), len(item[1]) > outer) for item in found]
        if not starts or starts[0][0] > block.start:
            starts.insert(0, (block.start, False))
        ends = [start for start, _ in starts[1:]] + [block.end]
        for (start, nested), end in zip(starts, ends, strict=True):
            first, last = _strip(self._text, start, end)
            cost = _PARAGRAPH if start == block.start else _NESTED_ITEM if nested else _ITEM
            if self._fits(first, last):
                yield _Unit(first, last, cost, prose=True)
            else:
                yield from self._sentences(first, last, cost)

    def _rows(self, block: Block) -> Iterator[_Unit]:
        """Rows of a table; the first goes with the head, so that no head stands alone."""
        rows = _rows(self._text, block)
        if len(rows) > 1 and self._fits(rows[0][0], rows[1][1]):
            rows[:2] = [(rows[0][0], rows[1][1])]
        for start, end in rows:
            cost = _PARAGRAPH if start == block.start else _ROW
            yield from self._soft(_Unit(start, end, cost, prose=False), self._capacity)

    def _code(self, block: Block) -> Iterator[_Unit]:
        text = self._text
        for start, end, after_blank in _lines(text, block.start, block.end):
            cost = _CODE_LINE
            if start == block.start:
                cost = _PARAGRAPH
            elif after_blank:
                indented = text[start - 1] != "\n"
                cost = _CODE_PARAGRAPH * 2 if indented else _CODE_PARAGRAPH
            yield from self._soft(_Unit(start, end, cost, prose=False), self._capacity)

    def _soft(self, unit: _Unit, longest: int, level: int = 0) -> Iterator[_Unit]:
        """The unit, or pieces of it at ever softer borders until none is too long."""
        if self._ruler.count(unit.start, unit.end) <= longest:
            yield unit
            return
        if level == len(_SOFT_BORDERS):
            yield from self._hard(unit)
            return
        border, cost = _SOFT_BORDERS[level]
        start = unit.start
        for match in border.finditer(self._text, unit.start, unit.end):
            if match.start() > start:
                piece = _continued(unit, start, match.start(), cost)
                yield from self._soft(piece, longest, level + 1)
            start = match.end()
        if start < unit.end:
            yield from self._soft(_continued(unit, start, unit.end, cost), longest, level + 1)

    def _hard(self, unit: _Unit) -> Iterator[_Unit]:
        """Pieces of an endless word, cut between tokens. A piece is a new word, which the
        tokenizer may read otherwise than as a part: so each is measured by itself."""
        starts = self._ruler.starts
        first = bisect_left(starts, unit.start) + 1
        last = bisect_left(starts, unit.end)
        step = max(1, self._capacity // 4)
        edges = [unit.start, *starts[first + step - 1 : last : step], unit.end]
        pending = [edge for edge in pairwise(edges) if edge[0] < edge[1]][::-1]
        while pending:
            start, end = pending.pop()
            tokens = self._ruler.measure(self._text[start:end])
            if tokens > self._capacity and end - start > 1:
                middle = (start + end) // 2
                pending += [(middle, end), (start, middle)]
                continue
            surplus = max(0, tokens - self._ruler.count(start, end))
            yield _continued(unit, start, end, _INSIDE_WORD)._replace(surplus=surplus)

    def _led(self, units: list[_Unit]) -> list[_Unit]:
        """The units, with a dearer border after what introduces the next one."""
        led = units[:1]
        for before, unit in pairwise(units):
            last = self._text[before.end - 1]
            title_like = (
                before.cost == unit.cost == _PARAGRAPH
                and (last.isalnum() or last in "*_`)")
                and self._ruler.count(before.start, before.end) <= _LEAD_TOKENS
            )
            leads = before.prose and (last in ":：" or title_like)
            led.append(unit._replace(cost=unit.cost + _LEAD) if leads else unit)
        return led

    def _glued(self, units: list[_Unit]) -> list[_Unit]:
        """The units, with crumbs put together where there are little else than crumbs."""
        least = self._capacity * _SMALLEST_UNIT
        if len(units) * least <= self._ruler.count(units[0].start, units[-1].end):
            return units
        glued = units[:1]
        for unit in units[1:]:
            last = glued[-1]
            surplus = last.surplus + unit.surplus
            small = self._ruler.count(last.start, last.end) + last.surplus < least
            fits = self._ruler.count(last.start, unit.end) + surplus <= self._capacity
            if small and fits and last.prose == unit.prose:
                glued[-1] = last._replace(end=unit.end, surplus=surplus)
            else:
                glued.append(unit)
        return glued


def _continued(unit: _Unit, start: int, end: int, cost: float) -> _Unit:
    """A piece of a unit: its first keeps the unit's border, the others start at ``cost``."""
    if start == unit.start:
        return unit._replace(end=end)
    return _Unit(start, end, cost, unit.prose, opens=False)


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """The lines that are not blank, trimmed, and whether a blank one stands before."""
    after_blank = False
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop == -1 else stop
        first, last = _strip(text, start, stop)
        if first < last:
            yield first, last, after_blank
        after_blank = first == last
        start = stop + 1


def _rows(text: str, block: Block) -> list[tuple[int, int]]:
    """The rows of a table. In one with rulings between all rows a row may take several
    lines; elsewhere it is a line. A ruling belongs to the row above it, if there is one."""
    lines = [(start, end) for start, end, _ in _lines(text, block.start, block.end)]
    rulings = [_RULING.fullmatch(text, start, end) is not None for start, end in lines]
    ruled = sum(rulings) > 2
    rows = lines[:1]
    row_done = not ruled and not rulings[0]
    for (start, end), ruling in zip(lines[1:], rulings[1:], strict=True):
        if row_done and not ruling:
            rows.append((start, end))
        else:
            rows[-1] = (rows[-1][0], end)
        row_done = ruling or not ruled
    return rows


class _Partition:
    """Chooses which units become one passage."""

    def __init__(
        self, units: Sequence[_Unit], ruler: _Ruler, capacity: int, overlap: float
    ) -> None:
        self._units = units
        self._capacity = capacity
        self._overlap = overlap
        # Tokens up to the beginning and up to the end of each unit.
        self._begin: list[int] = []
        self._end: list[int] = []
        surplus = 0
        for unit in units:
            self._begin.append(ruler.before(unit.start) + surplus)
            surplus += unit.surplus
            self._end.append(ruler.before(unit.end) + surplus)
        total = self._end[-1] - self._begin[0]
        # n passages that share ``overlap`` of their size s hold s * (n - (n - 1) * overlap).
        count = max(2, ceil((total / capacity - overlap) / (1 - overlap)))
        self._size = total / (count - (count - 1) * overlap)
        self._repeated = [self._repeat_from(i, self._size * overlap) for i in range(len(units))]

    def _repeat_from(self, index: int, wanted: float) -> int:
        """The first unit a passage that starts at ``index`` repeats: ``index`` for none.

        As near to ``wanted`` tokens as whole sentences come, and always below twice that.
        Inside a sentence that is longer than a passage, parts of it may be repeated.
        """
        best, nearest = index, wanted
        sentence_best, sentence_nearest = index, wanted
        for i in range(index - 1, -1, -1):
            tokens = self._end[index - 1] - self._begin[i]
            if not self._units[i].prose or tokens >= 2 * wanted:
                break
            distance = abs(tokens - wanted)
            if distance < nearest:
                best, nearest = i, distance
            if self._units[i].opens and distance < sentence_nearest:
                sentence_best, sentence_nearest = i, distance
        torn = index < len(self._units) and not self._units[index].opens
        return best if torn and sentence_best == index else sentence_best

    def passages(self) -> list[tuple[int, int]]:
        """Start and end of each passage in the text."""
        units, spans = self._units, list[tuple[int, int]]()
        previous = -1
        for first, last in pairwise(self._borders()):
            start = self._overlapped(previous, first, last)
            spans.append((units[start].start, units[last - 1].end))
            previous = first
        return spans

    def _borders(self) -> list[int]:
        """The units that begin a passage's own text, and the number of units."""
        begin, end, capacity, size = self._begin, self._end, self._capacity, self._size
        repeated = [end[i - 1] - begin[r] if r < i else 0 for i, r in enumerate(self._repeated)]
        costs = [unit.cost for unit in self._units]
        costs[0] = 0.0
        cheapest, origin = [0.0], [0]
        for j in range(1, len(costs) + 1):
            best, best_i = float("inf"), j - 1
            for i in range(j - 1, -1, -1):
                tokens = end[j - 1] - begin[i]
                if tokens > capacity:
                    break
                tokens += repeated[i]
                # A unit may be too long to stand beside a repetition: it then stands alone.
                if tokens > capacity and i < j - 1:
                    continue
                cost = cheapest[i] + costs[i] + (tokens / size - 1) ** 2
                if cost < best:
                    best, best_i = cost, i
            cheapest.append(best)
            origin.append(best_i)
        borders = [len(costs)]
        while borders[-1]:
            borders.append(origin[borders[-1]])
        return borders[::-1]

    def _overlapped(self, previous: int, first: int, last: int) -> int:
        """The unit a passage begins with once it repeats the end of the one before."""
        torn = not self._units[first].opens
        for i in range(max(self._repeated[first], previous + 1), first):
            tokens = self._end[last - 1] - self._begin[i]
            repeated = self._end[first - 1] - self._begin[i]
            fits = tokens <= self._capacity and repeated <= 2 * self._overlap * tokens
            if fits and (torn or self._units[i].opens):
                return i
        return first

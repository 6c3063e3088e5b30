"""Documents into passages: pieces of one section that fit the embedder and end where a
sentence ends.

A section that fits is one passage. A longer one is cut into even pieces, at paragraph
borders where one is near, otherwise between sentences. Code blocks, tables and list items
stay whole unless one alone is too long. The pieces of a section overlap by whole sentences.
A piece that begins inside a table, or after the sentence that announces its list, has that
sentence or the column names as its ``lead``.

A section's blocks become *units*, each with the cost of starting a passage there. The cut
with the lowest sum of costs and squared deviations from the even size wins.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import sub

from packwise.chunk_partition import Partition, Unit
from packwise.documents import (
    Block,
    BlockKind,
    Document,
    Passage,
    Section,
    content_hash,
    heading_text,
    indexed_text,
    passage_id,
)
from packwise.language.sentences import sentence_spans
from packwise.lazy_pattern import lazy_pattern
from packwise.models.base import Embedder
from packwise.settings import Settings

CHUNKER = "packwise-passages-2"
"""Version of the rules by which a document becomes stored passages, those of the guard
included. When it changes, builds process unchanged documents again."""

# Room in the model's window for its special tokens and a short instruction.
_RESERVED_TOKENS = 8
# However long its heading, a passage has this share of the limit for its text.
_LEAST_TEXT_SHARE = 0.25
# Text without token borders (an endless word, a run of blanks) counts as one token per this many
# characters, so that no passage grows without bound.
_LONGEST_TOKEN = 64
# Characters per call of the tokenizer: its result takes far more memory than the text.
_TOKENIZED_AT_ONCE = 1 << 15
# Where the mean unit is below this share of a passage, small units are joined: the time to
# choose the cuts grows with the number of units per passage.
_SMALLEST_UNIT = 1 / 40

# The cost of starting a passage at a border, in squared relative deviation from the even size:
# a paragraph is preferred to a sentence up to a quarter (0.25 squared) of the even size away.
_PARAGRAPH, _ITEM, _LINE, _SENTENCE, _ROW, _NESTED_ITEM = 0.0, 0.03, 0.04, 0.06, 0.12, 0.15
_CODE_PARAGRAPH, _CODE_LINE = 0.06, 0.25
_CLAUSE, _COMMA, _WORD, _INSIDE_WORD = 0.25, 0.3, 0.4, 0.6
# A "sentence" longer than both of these is a list or table without line breaks: it may be cut
# even where it would fit, rather than leave a tiny piece beside it.
_LONGEST_SENTENCE_SHARE, _LONGEST_SENTENCE = 0.6, 120
# Added to the cost after a short text that introduces the next: "as follows:", a bold line.
_LEAD, _LEAD_TOKENS = 0.35, 12
# Characters; a longer introduction is not repeated in front of later passages.
_LONGEST_LEAD = 300

_ITEM_START = lazy_pattern(
    r"^([ \t]*+)(?:[-*+•‣◦▪]|(?:\d{1,3}|#)[.)]|\(?[A-Za-z]\))(?=\s)", re.MULTILINE
)
_OUTER_LINE = lazy_pattern(r"^()(?=\S)", re.MULTILINE)
_RULING = lazy_pattern(r"[-+=|:\s]++")
_LINE_TEXT = lazy_pattern(r"\S(?:[^\n]*\S)?")
# Borders inside a sentence that is too long, the better ones first.
_WEAK_BORDERS = (
    (lazy_pattern(r"(?<=[;:—–])\s++|(?<!\s)\s++(?=[*•–—-]\s)|\n\s*+"), _CLAUSE),
    (lazy_pattern(r"(?<=[,)])\s++|(?<=[、，；：])\s*+"), _COMMA),
    (lazy_pattern(r"\s++"), _WORD),
)


def chunk(document: Document, embedder: Embedder, settings: Settings) -> list[Passage]:
    """The passages of a document, in reading order.

    Each has at most ``settings.passage_tokens`` of the embedder's tokens with its heading;
    only a heading that fills most of that makes it longer. Sections share no text.
    """
    text = document.text
    limit = min(settings.passage_tokens, embedder.window - _RESERVED_TOKENS)
    whole = Section((), 0, (Block(BlockKind.TEXT, 0, len(text)),), 0, len(text))
    passages: list[Passage] = []
    for section in document.sections or (whole,):
        spans = ((block.kind, *_strip(text, block.start, block.end)) for block in section.blocks)
        blocks = [Block(kind, start, end) for kind, start, end in spans if start < end]
        if not blocks:
            continue
        heading = heading_text(document.title, section.path)
        tokens = _TokenPositions(embedder, text, blocks[0].start, blocks[-1].end, heading)
        for start, end, lead in _cut(text, blocks, tokens, limit, settings.passage_overlap):
            order, said = len(passages), text[start:end]
            found = Passage(
                id=passage_id(document.id, order),
                document=document.id,
                doc_title=document.title,
                section_path=section.path,
                order_index=order,
                text=said,
                start=start,
                end=end,
                content_hash=content_hash(indexed_text(heading, lead, said)),
                embedder_version=embedder.version,
                url=document.url,
                lang=document.lang,
                metadata=document.metadata,
                lead=lead,
                blocks=_clipped(blocks, start, end),
                place=document.place(start, end),
            )
            passages.append(found)
    return passages


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    stripped = text[start:end].lstrip()
    start = end - len(stripped)
    return start, start + len(stripped.rstrip())


def _cut(
    text: str, blocks: Sequence[Block], tokens: _TokenPositions, limit: int, overlap: float
) -> list[tuple[int, int, str]]:
    """Start, end and lead of each passage of a section."""
    start, end = blocks[0].start, blocks[-1].end
    capacity = max(limit - tokens.in_heading, int(limit * _LEAST_TEXT_SHARE), 1)
    if tokens.count(start, end) <= capacity:
        return [(start, end, "")]
    units = _UnitSplitter(text, tokens, capacity).units(blocks)
    leads: dict[int, str] = {}
    prose = all(block.kind is BlockKind.TEXT for block in blocks)
    for at, unit in enumerate(() if prose else units):
        if lead := _lead(text, blocks, unit.start):
            leads[unit.start] = lead
            units[at] = unit._replace(lead=tokens.of_piece(lead))
    return [
        (first, last, leads.get(first, "") if with_lead else "")
        for first, last, with_lead in Partition(units, tokens, capacity, overlap).passages()
    ]


def _lead(text: str, blocks: Sequence[Block], start: int) -> str:
    """What a passage that begins at ``start`` needs from before it: the column names of the
    table it begins in, or the sentence that announces its first list, table or code."""
    at = bisect_right(blocks, start, key=lambda block: block.start) - 1
    block = blocks[at]
    if block.kind is BlockKind.TEXT:
        return ""
    lead = ""
    if block.start < start and block.kind is BlockKind.TABLE:
        lead = _column_names(text, block)
    elif block.start == start or block.kind is BlockKind.LIST:
        before = blocks[at - 1] if at else None
        if before is not None and before.kind is BlockKind.TEXT:
            said = text[before.start : before.end]
            first, last = sentence_spans(said)[-1] if said.strip() else (0, 0)
            lead = said[first:last] if said[first:last].endswith((":", "：")) else ""
    return lead if len(lead) <= _LONGEST_LEAD else ""


def _column_names(text: str, table: Block) -> str:
    """The first row of a table, without rulings."""
    for start, end, _ in _lines(text, table.start, table.end):
        if _RULING.fullmatch(text, start, end) is None:
            return text[start:end]
    return ""


def _clipped(blocks: Sequence[Block], start: int, end: int) -> tuple[Block, ...]:
    """The parts of the blocks that lie in a passage."""
    clipped = (Block(b.kind, max(b.start, start), min(b.end, end)) for b in blocks)
    return tuple(block for block in clipped if block.start < block.end)


class _TokenPositions:
    """Counts the embedder's tokens between two places of a text, tokenized once."""

    def __init__(self, embedder: Embedder, text: str, start: int, end: int, heading: str) -> None:
        self._embedder = embedder
        self.in_heading = 0
        self.starts = array("q")
        lead = f"{heading}\n" if heading else ""
        while start < end:
            stop = min(end, start + _TOKENIZED_AT_ONCE)
            if stop < end:
                half = (start + stop) // 2
                place = text.rfind("\n", half, stop)
                place = text.rfind(" ", half, stop) if place < 0 else place
                stop = stop if place < 0 else place
            shift = start - len(lead)
            starts = [at + shift for at, _ in embedder.token_spans(lead + text[start:stop])]
            before = bisect_left(starts, start)
            self.in_heading += before
            self.starts.extend(_with_long_gaps_filled(starts[before:], start, stop))
            start, lead = stop, ""

    def before(self, position: int) -> int:
        """The number of tokens that begin before a place."""
        return bisect_left(self.starts, position)

    def count(self, start: int, end: int) -> int:
        return self.before(end) - self.before(start)

    def of_piece(self, text: str) -> int:
        """The tokens of a piece of a split word, taken by itself."""
        return len(self._embedder.token_spans(text))


def _with_long_gaps_filled(starts: list[int], start: int, end: int) -> list[int]:
    edges = [start, *starts, end]
    if max(map(sub, edges[1:], edges)) <= _LONGEST_TOKEN:
        return starts
    step = _LONGEST_TOKEN
    filled = [at for a, b in pairwise(edges) for at in (*range(a + step, b, step), b)]
    return filled[: bisect_left(filled, end)]


class _UnitSplitter:
    """Cuts the blocks of a section into units of at most ``capacity`` tokens."""

    def __init__(self, text: str, tokens: _TokenPositions, capacity: int) -> None:
        self._text = text
        self._tokens = tokens
        self._capacity = capacity
        longest = max(int(capacity * _LONGEST_SENTENCE_SHARE), _LONGEST_SENTENCE)
        self._longest_sentence = min(capacity, longest)

    def units(self, blocks: Sequence[Block]) -> list[Unit]:
        units: list[Unit] = []
        for block in blocks:
            if block.kind is BlockKind.TEXT:
                units.extend(self._sentences(block.start, block.end, _PARAGRAPH))
            elif block.kind is BlockKind.LIST:
                units.extend(self._items(block))
            elif self._fits(block.start, block.end):
                units.append(Unit(block.start, block.end, _PARAGRAPH, prose=False))
            elif block.kind is BlockKind.TABLE:
                units.extend(self._rows(block))
            else:
                units.extend(self._code(block))
        return self._joined(self._raise_after_leads(units))

    def _fits(self, start: int, end: int) -> bool:
        return self._tokens.count(start, end) <= self._capacity

    def _sentences(self, start: int, end: int, cost: float) -> Iterator[Unit]:
        text, previous = self._text, start
        for begin, stop in sentence_spans(text[start:end]):
            first, last = start + begin, start + stop
            if first > start:
                cost = self._sentence_cost(text[previous:first], first, last)
            yield from self._split(Unit(first, last, cost, prose=True), self._longest_sentence)
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

    def _items(self, block: Block) -> Iterator[Unit]:
        found = list(_ITEM_START.finditer(self._text, block.start, block.end))
        found = found or list(_OUTER_LINE.finditer(self._text, block.start, block.end))
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
                yield Unit(first, last, cost, prose=True)
            else:
                yield from self._sentences(first, last, cost)

    def _rows(self, block: Block) -> Iterator[Unit]:
        """Rows of a table; the first stays with the head, so that no head stands alone.

        Between rulings a row may take several lines; in other tables it is one line. A
        ruling belongs to the row above it, if there is one.
        """
        lines = [(start, end) for start, end, _ in _lines(self._text, block.start, block.end)]
        rulings = [_RULING.fullmatch(self._text, *line) is not None for line in lines]
        ruled = sum(rulings) > 2
        rows = lines[:1]
        row_done = not ruled and not rulings[0]
        for (start, end), ruling in zip(lines[1:], rulings[1:], strict=True):
            if row_done and not ruling:
                rows.append((start, end))
            else:
                rows[-1] = (rows[-1][0], end)
            row_done = ruling or not ruled
        if len(rows) > 1 and self._fits(rows[0][0], rows[1][1]):
            rows[:2] = [(rows[0][0], rows[1][1])]
        for start, end in rows:
            cost = _PARAGRAPH if start == block.start else _ROW
            yield from self._split(Unit(start, end, cost, prose=False), self._capacity)

    def _code(self, block: Block) -> Iterator[Unit]:
        for start, end, after_blank in _lines(self._text, block.start, block.end):
            cost = _CODE_LINE
            if start == block.start:
                cost = _PARAGRAPH
            elif after_blank:
                indented = self._text[start - 1] != "\n"
                cost = _CODE_PARAGRAPH * 2 if indented else _CODE_PARAGRAPH
            yield from self._split(Unit(start, end, cost, prose=False), self._capacity)

    def _split(self, unit: Unit, longest: int, level: int = 0) -> Iterator[Unit]:
        """The unit, or pieces of it at ever weaker borders until none is too long."""
        if self._tokens.count(unit.start, unit.end) <= longest:
            yield unit
        elif level == len(_WEAK_BORDERS):
            yield from self._split_word(unit)
        else:
            border, cost = _WEAK_BORDERS[level]
            borders = [match.span() for match in border.finditer(self._text, unit.start, unit.end)]
            starts = [unit.start, *(end for _, end in borders)]
            ends = [*(start for start, _ in borders), unit.end]
            for start, end in zip(starts, ends, strict=True):
                if start < end:
                    yield from self._split(_piece(unit, start, end, cost), longest, level + 1)

    def _split_word(self, unit: Unit) -> Iterator[Unit]:
        """Pieces of an endless word, cut between tokens. The tokenizer may read a piece
        differently than as part of the word, so each is counted by itself."""
        starts = self._tokens.starts
        first = bisect_left(starts, unit.start) + 1
        last = bisect_left(starts, unit.end)
        step = max(1, self._capacity // 4)
        edges = [unit.start, *starts[first + step - 1 : last : step], unit.end]
        pending = [edge for edge in pairwise(edges) if edge[0] < edge[1]][::-1]
        while pending:
            start, end = pending.pop()
            tokens = self._tokens.of_piece(self._text[start:end])
            if tokens > self._capacity and end - start > 1:
                middle = (start + end) // 2
                pending += [(middle, end), (start, middle)]
                continue
            surplus = max(0, tokens - self._tokens.count(start, end))
            yield _piece(unit, start, end, _INSIDE_WORD)._replace(surplus=surplus)

    def _raise_after_leads(self, units: list[Unit]) -> list[Unit]:
        """The units, with a higher cost after text that introduces the next one."""
        raised = units[:1]
        for before, unit in pairwise(units):
            last = self._text[before.end - 1]
            short = self._tokens.count(before.start, before.end) <= _LEAD_TOKENS
            like_title = short and before.cost == unit.cost == _PARAGRAPH
            like_title = like_title and (last.isalnum() or last in "*_`)")
            leads = before.prose and (last in ":：" or like_title)
            raised.append(unit._replace(cost=unit.cost + _LEAD) if leads else unit)
        return raised

    def _joined(self, units: list[Unit]) -> list[Unit]:
        """The units, with small ones joined where nearly all are small."""
        least = self._capacity * _SMALLEST_UNIT
        if len(units) * least <= self._tokens.count(units[0].start, units[-1].end):
            return units
        joined = units[:1]
        for unit in units[1:]:
            last = joined[-1]
            surplus = last.surplus + unit.surplus
            small = self._tokens.count(last.start, last.end) + last.surplus < least
            fits = self._tokens.count(last.start, unit.end) + surplus <= self._capacity
            if small and fits and last.prose == unit.prose:
                joined[-1] = last._replace(end=unit.end, surplus=surplus)
            else:
                joined.append(unit)
        return joined


def _piece(unit: Unit, start: int, end: int, cost: float) -> Unit:
    """A piece of a unit: the first has the unit's own cost, the others start at ``cost``."""
    if start == unit.start:
        return unit._replace(end=end)
    return Unit(start, end, cost, unit.prose, opens=False)


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """The lines that are not blank, trimmed, and whether a blank one stands before."""
    for line in _LINE_TEXT.finditer(text, start, end):
        yield *line.span(), text.count("\n", start, line.start()) > 1
        start = line.end()

"""The units of a passage: the least that is ever shown of it, and what they bring along.

A unit is a sentence, a list item, or a code block or table. Code and tables too long to be
one are cut between paragraphs and rows. A row brings the row of column names, a list item
the sentence that announces it, a sentence that ends in a colon what it announces, and one
that opens with a pronoun the sentence before it.

Sets of units are bit masks: bit ``i`` stands for unit ``i``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from packwise.documents import Block, BlockKind
from packwise.language.sentences import sentence_spans
from packwise.lazy_pattern import lazy_pattern

Span = tuple[int, int]

# Longer code and tables are more than one unit.
_LONGEST_BLOCK = 1200
# Longer list items are read sentence by sentence.
_LONGEST_ITEM = 400
# A list, table or code block up to this long comes whole with the sentence that announces it.
_BROUGHT_WHOLE = 600
# A paragraph up to this long right before a list, table or code block announces it.
_ANNOUNCEMENT = 200

_FENCE = lazy_pattern(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LINE = lazy_pattern(r"[^\n]*\S[^\n]*")
_PARAGRAPH = lazy_pattern(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_ITEM = lazy_pattern(r"^[ \t]*(?:[-*+•‣◦▪]|\d{1,4}[.)]|\(?[A-Za-z]\))\s", re.MULTILINE)
_CLAUSE_END = lazy_pattern(r"\n|[,;:.!?…—–)]\s|[，；：。！？、]")
# A sentence that opens with one of these refers to the sentence before it.
_REFERS_BACK = lazy_pattern(
    r"[\"“'(]?(?:it|its|he|his|him|she|her|hers|they|their|theirs|them|this|these|those|such|both"
    r"|the (?:former|latter|same|other)|one of (?:these|them))\b",
    re.IGNORECASE,
)


class Units(NamedTuple):
    """The spans of the units in order, for each the others that it brings along, and which
    of them are code."""

    spans: tuple[Span, ...]
    brings: tuple[int, ...]
    code: int


def read_units(text: str, blocks: Sequence[Block] = ()) -> Units:
    """The units of a text whose blocks are these, by offsets in the text.

    Without blocks they are guessed.
    """
    spans: list[Span] = []
    kinds: list[BlockKind] = []
    groups: list[range] = []
    for block in _all_blocks(text, blocks or guessed_blocks(text)):
        first = len(spans)
        spans.extend(_block_units(text, block))
        kinds.extend([block.kind] * (len(spans) - first))
        if len(spans) > first:
            groups.append(range(first, len(spans)))
    code = sum(1 << i for i, kind in enumerate(kinds) if kind is BlockKind.CODE)
    return Units(tuple(spans), _brought(text, spans, kinds, groups), code)


def read_clauses(text: str) -> Units:
    """The clauses and lines of a text as its units."""
    borders = [0, *(match.end() for match in _CLAUSE_END.finditer(text)), len(text)]
    spans = [_trimmed(text, a, b) for a, b in pairwise(borders)]
    spans = [span for span in spans if span[0] < span[1]]
    return Units(tuple(spans), (0,) * len(spans), 0)


def guessed_blocks(text: str) -> list[Block]:
    """The blocks of a text that was stored without them, by the look of its paragraphs."""
    found: list[Block] = []
    at = 0
    for fence in [*_FENCE.finditer(text), None]:
        for part in _PARAGRAPH.finditer(text, at, fence.start() if fence else len(text)):
            span = _trimmed(text, *part.span())
            found.append(Block(_looks_like(text[slice(*span)]), *span))
        if fence is not None:
            at = fence.end()
            found.append(Block(BlockKind.CODE, *fence.span()))
    return found


def _looks_like(paragraph: str) -> BlockKind:
    lines = paragraph.split("\n")
    if len(lines) > 1 and all("|" in line for line in lines):
        return BlockKind.TABLE
    return BlockKind.LIST if _ITEM.match(lines[0]) else BlockKind.TEXT


def _all_blocks(text: str, blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks, and the text between them."""
    at = 0
    for block in blocks:
        if block.start > at and not text[at : block.start].isspace():
            yield Block(BlockKind.TEXT, at, block.start)
        yield Block(block.kind, max(at, block.start), max(at, block.end))
        at = max(at, block.end)
    if at < len(text):
        yield Block(BlockKind.TEXT, at, len(text))


def _block_units(text: str, block: Block) -> list[Span]:
    start, end = block.start, block.end
    if block.kind is BlockKind.TEXT:
        return _sentences(text, start, end)
    if block.kind is BlockKind.LIST:
        starts = [match.start() for match in _ITEM.finditer(text, start, end)]
        borders = sorted({start, *starts, end})
        items = [_trimmed(text, a, b) for a, b in pairwise(borders)]
        return [
            span
            for a, b in items
            if a < b
            for span in ([(a, b)] if b - a <= _LONGEST_ITEM else _sentences(text, a, b))
        ]
    whole = _trimmed(text, start, end)
    if whole[0] == whole[1]:
        return []
    if end - start <= _LONGEST_BLOCK:
        return [whole]
    if block.kind is BlockKind.TABLE:
        return [_trimmed(text, *row.span()) for row in _LINE.finditer(text, start, end)]
    return [
        span
        for part in _PARAGRAPH.finditer(text, start, end)
        for span in _lines_within(text, *part.span())
    ]


def _sentences(text: str, start: int, end: int) -> list[Span]:
    return [(start + a, start + b) for a, b in sentence_spans(text[start:end])]


def _lines_within(text: str, start: int, end: int) -> Iterator[Span]:
    """A paragraph of code, in pieces of whole lines that are not too long."""
    while end - start > _LONGEST_BLOCK:
        cut = text.rfind("\n", start + 1, start + _LONGEST_BLOCK)
        cut = cut if cut > start else text.find("\n", start + 1, end)
        if cut < 0:
            break
        yield start, cut
        start = cut + 1
    yield start, end


def _trimmed(text: str, start: int, end: int) -> Span:
    """A span without the white space around it."""
    piece = text[start:end]
    end = start + len(piece.rstrip())
    return min(start + len(piece) - len(piece.lstrip()), end), end


def _brought(
    text: str, spans: Sequence[Span], kinds: Sequence[BlockKind], groups: Sequence[range]
) -> tuple[int, ...]:
    """For each unit the others that are shown with it."""
    before = [0] * len(spans)
    for i in range(1, len(spans)):
        if kinds[i] is BlockKind.TEXT and _REFERS_BACK.match(text, *spans[i]):
            before[i] = before[i - 1] | 1 << (i - 1)
    after = [0] * len(spans)
    for place, group in enumerate(groups):
        first = group.start
        if kinds[first] is BlockKind.TABLE and len(group) > 1:
            for row in group[1:]:
                before[row] |= 1 << first
        if kinds[first] is BlockKind.TEXT or not first or kinds[first - 1] is not BlockKind.TEXT:
            continue
        announced_by, above = first - 1, groups[place - 1]
        short = spans[above[-1]][1] - spans[above.start][0] <= _ANNOUNCEMENT
        if short or _ends_in_colon(text, spans[announced_by]):
            for unit in group:
                before[unit] |= 1 << announced_by | before[announced_by]
    for i, span in enumerate(spans[:-1]):
        if _ends_in_colon(text, span):
            group = next(group for group in groups if i + 1 in group)
            size = spans[group[-1]][1] - spans[i + 1][0]
            whole = kinds[i + 1] is not BlockKind.TEXT and size <= _BROUGHT_WHOLE
            for unit in range(i + 1, group.stop if whole else i + 2):
                after[i] |= 1 << unit | before[unit]
    return tuple((b | a) & ~(1 << i) for i, (b, a) in enumerate(zip(before, after, strict=True)))


def _ends_in_colon(text: str, span: Span) -> bool:
    return text[span[0] : span[1]].rstrip("*_`").endswith((":", "："))

"""The layout of a PDF page: columns, then tables, code, list items and paragraphs in each.

A segment is a run of words of one line. A page is cut into columns where a gutter lies between
segments that look like text, so that the short cells of a table stay in their rows.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from packwise.documents import BlockKind
from packwise.sources.pdf_words import PdfSegment, is_marker

_TEXT_LENGTH = 14
"""Characters per line, at least, of a column of text; shorter lines are cells of a table."""
_FEWEST_LINES = 4
_NEW_PARAGRAPH = 1.4
"""A line pitch so much larger than the usual one begins a paragraph."""
_INDENT = 0.8
_ALIGNED = 0.5
_MOST_NAMES = 6
_SHORT_LINE = 0.75
_SENTENCE_END = (".", "!", "?", ":", ";", "”", '"', ")")
_TABLE_ROWS = 3
_LEADERS = re.compile(r"(?:\s*\.){4,}\s*")
_ENTRY = re.compile(r"\S.*?(?:\s*\.){4,}\s*(\d{1,4}|[ivxlc]{1,7})")
"""A line of a table of contents: what begins on which page."""
_FEWEST_ENTRIES = 5
_MOSTLY = 0.5
_IN_ORDER = 0.9
_WORD_BREAK = re.compile(r"[^\W\d_]{2,}-$")
_END = 3
"""Characters at the end of a line that show whether a word was divided there."""


@dataclass(frozen=True, slots=True)
class Part:
    """A block of a page. ``rows`` are the cells of a table; ``gap`` says that space stands before
    it, and ``term`` that it is the name, in a fixed font, of what is described after it. ``x0`` is
    where it begins."""

    kind: BlockKind
    text: str
    size: float
    bold: bool = False
    rows: tuple[tuple[str, ...], ...] = ()
    item: bool = False
    lines: int = 1
    gap: bool = False
    term: bool = False
    x0: float = 0.0


Row = list[PdfSegment]


def parts(found: Sequence[PdfSegment]) -> list[Part]:
    """The blocks of a page, in reading order."""
    return [part for region in _regions(list(found)) for part in _parts_of_region(region)]


def without_contents(found: Sequence[PdfSegment]) -> list[PdfSegment]:
    """The segments of a page without its lines of a table of contents, which would match every
    question that one of the sections answers. If they are most lines, nothing of the page is kept:
    the others are the rest of long titles. The numbers at the end of the lines of another table
    are in no order."""
    lines: dict[int, list[PdfSegment]] = {}
    for one in found:
        lines.setdefault(round(one.y), []).append(one)
    entries = {
        y: entry[1]
        for y, line in lines.items()
        if (entry := _ENTRY.fullmatch(" ".join(one.text for one in line)))
    }
    pages = [int(page) for _, page in sorted(entries.items(), reverse=True) if page.isdigit()]
    in_order = sum(page <= after for page, after in pairwise(pages))
    if len(entries) < _FEWEST_ENTRIES or in_order < _IN_ORDER * (len(pages) - 1):
        return list(found)
    if len(entries) >= _MOSTLY * len(lines):
        return []
    return [one for one in found if round(one.y) not in entries]


def _regions(found: Row) -> list[Row]:
    """The columns of a page in reading order; a column of a part of the page counts."""
    gutter = _gutter(found)
    if gutter is None:
        return [found]
    regions: list[Row] = []
    single: Row = []
    band: Row = []

    def close_band() -> None:
        left = [segment for segment in band if segment.x1 <= gutter + 1]
        right = [segment for segment in band if segment.x1 > gutter + 1]
        if min(len(left), len(right)) >= 3 and _are_columns(left, right):
            close_single()
            regions.extend(_regions(left) + _regions(right))
        else:
            single.extend(band)
        band.clear()

    def close_single() -> None:
        if single:
            regions.extend(_regions(list(single)) if len(single) < len(found) else [list(single)])
            single.clear()

    for segment in found:
        if segment.x0 < gutter - 1 and segment.x1 > gutter + 1:
            close_band()
            single.append(segment)
        else:
            band.append(segment)
    close_band()
    close_single()
    return regions


def _gutter(found: Row) -> float | None:
    """Where a second column of text begins."""
    if len(found) < 2 * _FEWEST_LINES:
        return None
    starts = Counter(round(segment.x0 / 2) * 2 for segment in found)
    characters = sum(len(segment.text) for segment in found)
    best, best_score = None, 0.0
    for start, count in starts.most_common(12):
        if count < 3:
            break
        gutter = start - 3.0
        left = [segment for segment in found if segment.x1 <= gutter + 1]
        right = [segment for segment in found if segment.x0 >= gutter - 1]
        least = min(len(left), len(right))
        score = least - 0.5 * (len(found) - len(left) - len(right))
        share = min(sum(len(s.text) for s in side) for side in (left, right)) / characters
        better = least >= _FEWEST_LINES and share > 0.1 and score > best_score
        if better and _are_columns(left, right):
            best, best_score = gutter, score
    return best


def _are_columns(left: Row, right: Row) -> bool:
    """Whether two sides are columns of a page, not of a table: both are text, both have headings
    of their own, as on the folded pages of a reference card, or their lines do not stand in
    rows."""
    return (
        all(map(_is_text, (left, right)))
        or all(map(_has_headings, (left, right)))
        or (_stray(left, right) and _stray(right, left) and _stray(_first_cells(right), left))
    )


def _first_cells(column: Row) -> Row:
    edge = min(segment.x0 for segment in column)
    return [segment for segment in column if segment.x0 < edge + 4]


def _stray(lines: Row, others: Row) -> bool:
    """Whether the lines have no fixed distance to the nearest of the others, as cells of a row
    have: the first line of a cell does, on at least one side of every table."""
    if len(lines) < 2 * _FEWEST_LINES:
        return False
    heights = sorted(segment.y for segment in others)
    distances: Counter[int] = Counter()
    for segment in lines:
        at = bisect_left(heights, segment.y)
        nearest = min(heights[max(at - 1, 0) : at + 1], key=lambda y: abs(y - segment.y))
        distances[round((nearest - segment.y) * 2)] += 1
    usual = max(distances[d - 1] + distances[d] for d in (*distances, *(d + 1 for d in distances)))
    return usual < 0.4 * len(lines)


def _has_headings(column: Row) -> bool:
    edge = min(segment.x0 for segment in column)
    usual = median(segment.size for segment in column)
    return sum(
        (segment.bold or segment.size > 1.1 * usual) and segment.x0 < edge + 4 for segment in column
    ) in range(3, max(len(column) // 2, 4))


def _is_text(column: Row) -> bool:
    if not column:
        return False
    left, right = min(s.x0 for s in column), max(s.x1 for s in column)
    return sum(len(segment.text) for segment in column) >= _TEXT_LENGTH * len(column) and median(
        segment.x1 - segment.x0 for segment in column
    ) > 0.4 * (right - left)


def _parts_of_region(region: Row) -> Iterator[Part]:
    rows = _rows(region)
    pitches = [(a[0].y - b[0].y) / max(b[0].size, 1) for a, b in pairwise(rows)]
    usual = (
        median(pitch for pitch in pitches if pitch > 0.5)
        if any(pitch > 0.5 for pitch in pitches)
        else 1.2
    )
    left = min((row[0].x0 for row in rows), default=0.0)
    right = max((row[-1].x1 for row in rows), default=0.0)
    paragraphs = _Paragraphs(left, right, usual)
    at = 0
    while at < len(rows):
        if (end := _table_end(rows, at)) > at:
            yield from paragraphs.close()
            table = tuple(_cells(rows[at:end]))
            size = rows[at][0].size
            yield Part(BlockKind.TABLE, "", size, rows=table, lines=end - at, gap=True)
            paragraphs.after_table = True
            at = end
        elif (end := _code_end(rows, at)) > at:
            yield from paragraphs.close()
            yield Part(BlockKind.CODE, _code(rows[at:end]), rows[at][0].size, lines=end - at)
            paragraphs.after_table = True
            at = end
        else:
            yield from paragraphs.add(rows[at], rows[at + 1] if at + 1 < len(rows) else None)
            at += 1
    yield from paragraphs.close()


def _rows(region: Row) -> list[Row]:
    """Segments of one baseline, from left to right."""
    rows: list[Row] = []
    for segment in sorted(region, key=lambda segment: -segment.y):
        if rows and rows[-1][0].y - segment.y < 0.4 * max(rows[-1][0].size, segment.size):
            rows[-1].append(segment)
        else:
            rows.append([segment])
    return [sorted(row, key=lambda segment: segment.x0) for row in rows]


class _Paragraphs:
    """Joins lines to paragraphs and list items."""

    def __init__(self, left: float, right: float, usual: float) -> None:
        self._left, self._right, self._usual = left, right, usual
        self._lines: list[PdfSegment] = []
        self._gap = True
        self._named: tuple[int, int] = (0, 0)
        """How many lines, and words of the last of them, name what the others describe."""
        self._may_name = True
        """Whether the open lines begin at the left and in a fixed font."""
        self._told: PdfSegment | None = None
        """A line that begins where descriptions do."""
        self.after_table = False

    def add(self, row: Row, below: Row | None) -> Iterator[Part]:
        """Add a line; ``below`` is the one after it."""
        line = PdfSegment(tuple(word for segment in row for word in segment.words))
        gap = self.after_table or not self._lines
        if self._lines:
            before = self._lines[-1]
            pitch = (before.y - line.y) / max(line.size, before.size, 1)
            gap = pitch > self._usual * _NEW_PARAGRAPH
            words = _term_words(before, line, below) if self._may_name and not gap else 0
            if words:
                self._named = len(self._lines), words
                self._told = line
            if gap or self._breaks(before, line, hangs=0 < words < len(before.words)):
                yield from self.close()
        self.after_table = False
        if not self._lines:
            self._gap, self._may_name = gap, True
        self._may_name = self._may_name and line.x0 < self._left + 1 and line.words[0].mono
        self._lines.append(line)

    def _breaks(self, before: PdfSegment, line: PdfSegment, *, hangs: bool) -> bool:
        if abs(before.size - line.size) > 0.12 * before.size or before.bold != line.bold:
            return True
        if is_marker(line.words[0].text) and (len(line.words) > 1 or not line.text.isalnum()):
            return True
        first = self._lines[0]
        item = is_marker(first.words[0].text)
        hangs = hangs or (item and before is first)
        indented = line.x0 - before.x0 > _INDENT * line.size and not hangs
        outdented = before.x0 - line.x0 > _INDENT * line.size and (item or len(self._lines) > 1)
        short = before.x1 < self._left + _SHORT_LINE * (self._right - self._left)
        return indented or outdented or (short and before.text.endswith(_SENTENCE_END))

    def close(self) -> Iterator[Part]:
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        (named, words), self._named = self._named, (0, 0)
        if not named and self._told is not None and lines[0].x0 < self._left + 1:
            # What is told on the line of its name alone begins where other descriptions do.
            words = _term_words(lines[0], self._told, None) % len(lines[0].words)
            named = min(words, 1)
        if named:
            last = lines[named - 1]
            terms = (*lines[: named - 1], PdfSegment(last.words[:words]))
            text = ", ".join(line.text for line in terms)
            yield Part(
                BlockKind.TEXT, text, last.size, last.bold, gap=self._gap, term=True, x0=last.x0
            )
            told = last.words[words:]
            lines = [*([PdfSegment(told)] if told else []), *lines[named:]]
        if not lines:
            return
        # A bullet may stand a little above or below the line of its text.
        item = is_marker(lines[0].words[0].text) and len(lines[0].words) + len(lines) > 2
        text = ""
        for line in lines:
            text = joined(text, line.text)
        yield Part(
            BlockKind.LIST if item else BlockKind.TEXT,
            _LEADERS.sub(" … ", text),
            max(line.size for line in lines),
            all(line.bold for line in lines),
            item=item,
            lines=len(lines),
            gap=self._gap,
            x0=lines[0].x0,
        )


def _term_words(line: PdfSegment, told: PdfSegment, below: Row | None) -> int:
    """How many words of a line name what is told further right in the next one: all if the first
    is in a fixed font, those in a fixed font if the words after them stand there too. The line
    ``below`` must stand there or name something: it is not the first line that is indented."""
    words = line.words
    if not words[0].mono or told.mono or told.x0 - line.x0 < _INDENT * line.size:
        return 0
    if below and below[0].x0 < told.x0 - _ALIGNED * line.size and not below[0].words[0].mono:
        return 0
    number = next((n for n, word in enumerate(words) if not word.mono), len(words))
    beside = number < len(words) and abs(words[number].x0 - told.x0) < _ALIGNED * line.size
    return number if beside else len(words)


def joined(text: str, more: str) -> str:
    """Two lines as one text; a word that was divided at the end of the line is one again."""
    if not text:
        return more
    if more[:1].islower() and _WORD_BREAK.search(text[-_END:]):
        return text[:-1] + more
    return text + more if text.endswith(("-", "/")) else f"{text} {more}"


def _table_end(rows: list[Row], at: int) -> int:
    """Where a table that begins at a row ends; ``at`` if there is none."""
    if len(rows[at]) < 2:
        return at
    many = end = 0
    columns: list[tuple[float, float]] = []
    for number in range(at, len(rows)):
        row = rows[number]
        if number > at:
            pitch = (rows[number - 1][0].y - row[0].y) / max(row[0].size, 1)
            if pitch > 3.5:
                break
        if len(row) >= 2:
            many += 1
            end = number + 1
        elif not _inside(row[0], columns or _columns(rows[at:number])):
            break
        columns = _columns(rows[at : number + 1])
    widest = max((len(row) for row in rows[at:end]), default=0)
    enough = many >= _TABLE_ROWS or (many == 2 and widest >= 3)
    # Notes in the margin stand beside lines of text, most of which have none.
    enough = enough and many > 0.5 * (end - at)
    return end if enough and len(_columns(rows[at:end])) >= 2 else at


def _columns(rows: list[Row]) -> list[tuple[float, float]]:
    """The columns of a table: where the cells of its typical rows overlap."""
    counts = Counter(len(row) for row in rows if len(row) >= 2)
    if not counts:
        return []
    typical = max(counts, key=lambda size: (counts[size], size))
    spans = sorted((s.x0, s.x1) for row in rows if len(row) == typical for s in row)
    merged: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if merged and x0 < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], x1))
        else:
            merged.append((x0, x1))
    return merged


def _inside(segment: PdfSegment, columns: list[tuple[float, float]]) -> bool:
    """Whether a line that stands alone continues a cell: it lies in one column but the first."""
    return any(x0 - 2 <= segment.x0 and segment.x1 <= x1 + 20 for x0, x1 in columns[1:])


def _cells(rows: list[Row]) -> Iterator[tuple[str, ...]]:
    columns = _columns(rows)
    waiting: list[str] | None = None
    for row in rows:
        cells = [""] * len(columns)
        for segment in row:
            best = max(range(len(columns)), key=lambda at: _overlap(segment, columns[at]))
            cells[best] = joined(cells[best], segment.text)
        if waiting is not None and len(row) == 1 and not cells[0]:
            waiting = [joined(a, b) if b else a for a, b in zip(waiting, cells, strict=True)]
            continue
        if waiting is not None:
            yield tuple(waiting)
        waiting = [_LEADERS.sub(" ", cell) for cell in cells]
    if waiting is not None:
        yield tuple(waiting)


def _overlap(segment: PdfSegment, column: tuple[float, float]) -> float:
    return min(segment.x1, column[1]) - max(segment.x0, column[0])


def _code_end(rows: list[Row], at: int) -> int:
    end = at
    while end < len(rows) and all(segment.mono for segment in rows[end]):
        if _names_below(rows, end):
            # So do a few names right above that stand below each other.
            least = max(at, end - _MOST_NAMES)
            while end > least and rows[end - 1][0].x0 < rows[end][0].x0 + 1:
                end -= 1
            break
        end += 1
    lines = rows[at:end]
    # One line in a fixed font may be a heading or a file name in the text.
    return end if len(lines) > 1 or (lines and len(lines[0][0].words) > 2) else at


def _names_below(rows: list[Row], at: int) -> bool:
    """Whether a row names what the next one describes."""
    name, told, below = (*rows[at : at + 3], None, None)[:3]
    if name is None or told is None or len(name) > 1 or len(told) > 1:
        return False
    near = name[0].y - told[0].y < _NEW_PARAGRAPH * name[0].size
    return near and _term_words(name[0], told[0], below) > 0


def _code(rows: list[Row]) -> str:
    """Lines of code, with the indentation that their positions show."""
    words = [word for row in rows for segment in row for word in segment.words]
    # A letter is a little narrower than its place in the line.
    em = median((w.x1 - w.x0) / max(len(w.text) - 0.2, 1) for w in words) or 1.0
    left = min(word.x0 for word in words)
    lines: list[str] = []
    for row in rows:
        line = [word for segment in row for word in segment.words]
        text = " " * min(round((line[0].x0 - left) / em), 80) + line[0].text
        for before, word in pairwise(line):
            spaces = round((word.x0 - before.x1) / em)
            text += " " * min(max(spaces, 1), 80) + word.text
        lines.append(text)
    return "\n".join(lines)

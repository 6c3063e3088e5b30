"""What is selected of a stretch of a document, as Markdown.

Readers store the text of code blocks and tables without their marks. Here code is fenced
again, a table gets the line below its column names, and a passage that begins inside a table
or list is preceded by its lead. A document can hold neither markers nor headings like those of a
context, nor a code fence that it does not close.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from packwise.documents import Block, BlockKind, Passage, cells_of
from packwise.language.untrusted import clean, quoted
from packwise.lazy_pattern import lazy_pattern

GAP, LINE_GAP = " … ", "\n…\n"
"""What stands for omitted sentences, within a line and between lines."""

Span = tuple[int, int]

_RULING = lazy_pattern(r"(?=[^\n]*?(?:--|==))[ \t|:+=-]*+$", re.MULTILINE)
_ONLY_RULING = lazy_pattern(r"[-+=|:\s]+")
_SPACE = lazy_pattern(r"\s+")
_BACKTICKS = lazy_pattern(r"`{3,}")


class MarkdownText:
    """The text of some passages of one document that adjoin or overlap, in reading order."""

    def __init__(self, passages: Sequence[Passage], between: Callable[[int, int], str]) -> None:
        self._between = between
        self._blocks: list[Block] = []
        self._heads: dict[int, int] = {}
        self._leads: list[tuple[Block, str]] = []
        for passage in passages:
            for block in passage.blocks:
                self._add(passage, block)

    def _add(self, passage: Passage, block: Block) -> None:
        continued = block.start == passage.start and bool(passage.lead)
        if continued:
            self._leads.append((block, passage.lead))
        if block.kind in (BlockKind.TEXT, BlockKind.LIST):
            return
        last = self._blocks[-1] if self._blocks else None
        if last is not None and last.kind is block.kind and block.start <= last.end + 1:
            self._blocks[-1] = Block(block.kind, last.start, max(last.end, block.end))
            return
        if block.kind is BlockKind.CODE:
            # The first line keeps its indent.
            before = self._between(passage.start, block.start)
            block = replace(block, start=block.start - len(before) + len(before.rstrip(" \t")))
        self._blocks.append(block)
        if block.kind is BlockKind.TABLE and not continued:
            text = self._between(block.start, block.end)
            head, _, rest = text.partition("\n")
            if rest and "|" in head and not _RULING.match(rest):
                self._heads[block.start + len(head)] = len(cells_of(head)) - 1

    def cut(self, spans: Iterable[Span]) -> list[Span]:
        """The spans, cut where a mark has to stand between their parts."""
        borders = {place for block in self._blocks for place in (block.start, block.end)}
        places = sorted(borders | self._heads.keys())
        pieces: list[Span] = []
        for start, end in spans:
            block = self._inside(start)
            if block is not None and not self._between(block.start, start).strip():
                start = block.start
            inner = [start, *(place for place in places if start < place < end), end]
            for a, b in pairwise(inner):
                text = self._between(a, b)
                if not text.strip():
                    continue
                skipped = len(text) - len(text.lstrip("\n" if self._inside(a) else None))
                pieces.append((a + skipped, a + len(text.rstrip())))
        return pieces

    def render(self, pieces: Sequence[Span]) -> str:
        """The pieces that ``cut`` returned, as one text."""
        text = ""
        for place, (start, end) in enumerate(pieces):
            if place:
                text += self._separator(pieces[place - 1][1], start)
            block = self._inside(start)
            lead = next((said for at, said in self._leads if at.start <= start < at.end), "")
            lead = quoted(lead)
            if lead and lead not in text:
                text += f"{lead}\n"
                if block is not None and block.kind is BlockKind.TABLE:
                    text += _ruling(len(cells_of(lead)) - 1)
            shown = self._between(start, end)
            is_code = block is not None and block.kind is BlockKind.CODE
            text += fenced(clean(shown)) if is_code else quoted(shown)
        return text

    def _separator(self, end: int, start: int) -> str:
        omitted = self._between(end, start)
        below = "\n" + _ruling(self._heads[end]).rstrip("\n") if end in self._heads else ""
        if omitted.strip():
            return below + (LINE_GAP if "\n" in omitted or below else GAP)
        # Where passages were joined, the heading between them is blank.
        return below + ("\n" if below else "\n\n" if omitted.count("\n") > 2 else omitted)

    def _inside(self, place: int) -> Block | None:
        return next((block for block in self._blocks if block.start <= place < block.end), None)


def _ruling(bars: int) -> str:
    """The line below the column names of a table; none for a table of one column."""
    return " | ".join(["---"] * (bars + 1)) + "\n" if bars else ""


def fenced(code: str) -> str:
    """Code between fences that do not occur in it."""
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(code))])
    return f"{fence}\n{code}\n{fence}"


def table_cells(lines: Sequence[str]) -> list[list[str]]:
    """The cells of lines, all rows equally long, without columns that are empty everywhere."""
    rows = [[one_line(cell) for cell in cells_of(line)] for line in lines]
    width = max((len(row) for row in rows), default=0)
    # The first line of a table lost its empty first cells when the text was trimmed.
    rows = [
        [*[""] * (width - len(row)), *row] if i == 0 else [*row, *[""] * (width - len(row))]
        for i, row in enumerate(rows)
    ]
    used = [column for column in range(width) if any(row[column] for row in rows)]
    return [[row[column] for column in used] or [""] for row in rows]


def table_markdown(head: str, rows: str) -> str:
    """Lines of cells between ``|`` as a Markdown table; the first is the head unless given."""
    lines = [line for line in head.split("\n") if line.strip()]
    lines += [line for line in rows.split("\n") if line.strip() and not is_ruling(line)]
    cells = table_cells(lines)
    if not cells or len(cells[0]) < 2:
        return "\n".join(lines)
    table = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([table[0], f"|{' --- |' * len(cells[0])}", *table[1:]])


def is_ruling(line: str) -> bool:
    """Whether a line of a table only parts its head from its rows."""
    return bool(_ONLY_RULING.fullmatch(line))


def one_line(text: str) -> str:
    """A text on one line, single-spaced."""
    return _SPACE.sub(" ", text).strip()

"""The rows of a table that a question names, so that an answer need not show the whole table."""

from __future__ import annotations

import re
from collections import Counter

from packwise.answering.blocks import AnswerBlock, PartKind, answer_blocks
from packwise.language.analyzer import terms

LONG_TABLE = 6
MOST_NAMED = 3
"""A table of so many rows is shown by the rows that the question names, if it names so few."""
_OF_ALL_ROWS = re.compile(
    r"\b(?:(?:great|high|larg|bigg|long|new|lat|low|small|short|old|earli|few)est|most|least|"
    r"how many|what (?:are|were)|all|list|types?|kinds?|components?)\b",
    re.IGNORECASE,
)
"""A question that no single row answers."""


def named_rows(block: AnswerBlock, question: str) -> list[AnswerBlock]:
    """The rows of a long table that a question names: it holds all words of one of their cells,
    which no other row and no column name has.

    None in a short table, which is read at a glance, for a question about all rows, or if it names
    a heading within the table.
    """
    rows = [
        part
        for part in answer_blocks(block.source)
        if part.kind is PartKind.ROW and block.includes(part)
    ]
    if len(rows) < LONG_TABLE or _OF_ALL_ROWS.search(question):
        return []
    lang = block.source.passage.lang
    asked = f" {' '.join(terms(question, lang))} "
    cells = [_cells(row.text, lang) for row in rows]
    lines_with = Counter(cell for line in (_cells(rows[0].above, lang), *cells) for cell in line)
    named = [
        at
        for at, held in enumerate(cells)
        if any(lines_with[cell] == 1 and f" {cell} " in asked for cell in held)
    ]
    if len(named) > MOST_NAMED or any(_is_heading(cells[at], cells) for at in named):
        return []
    return [rows[at] for at in named]


def _is_heading(row: set[str], rows: list[set[str]]) -> bool:
    """Whether a row names those below it, or columns: it says nothing else, or has words only
    where most rows have figures."""
    figures = [any(map(_is_figure, cells)) for cells in rows]
    return len(row) == 1 or (2 * sum(figures) > len(rows) and not any(map(_is_figure, row)))


def _is_figure(cell: str) -> bool:
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


def _cells(line: str, lang: str) -> set[str]:
    return {" ".join(terms(cell, lang)) for cell in re.split(r"[|\n]", line)} - {""}

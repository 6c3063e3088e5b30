"""The rows of a table that a question names: an answer need not show the whole table, and what it
shows is about what was asked, however unlike the question it looks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest

from packwise.answering.blocks import AnswerBlock, PartKind, SourcePassage, answer_blocks
from packwise.language.analyzer import terms

LONG_TABLE = 6
MOST_NAMED = 3
"""A table of so many rows is shown by the rows that the question names, if it names so few."""
_FEWEST_PAIRS = 3
_OF_ALL_ROWS = re.compile(
    r"\b(?:(?:great|high|larg|bigg|long|new|lat|low|small|short|old|earli|few)est|most|least|"
    r"what (?:are|were)|all|list|types?|kinds?|components?)\b",
    re.IGNORECASE,
)
"""A question that no single row answers."""
_COUNTED = re.compile(r"\bhow many\b", re.IGNORECASE)
"""A question that counts rows, if it names no column that holds numbers of things."""


def named_rows(block: AnswerBlock, question: str) -> list[AnswerBlock]:
    """The rows of a long table that a question names: it holds all words of one of their cells,
    which no other row and no column name has, most words of such a cell, or all words of more cells
    than it does of any other row.

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
    columns = _cells(rows[0].above, lang)
    if _COUNTED.search(question) and not any(f" {column} " in asked for column in columns):
        return []
    cells = [_cells(row.text, lang) for row in rows]
    lines_with = Counter(cell for line in (columns, *cells) for cell in line)
    asked_terms = set(asked.split())
    lines_with_term = Counter(term for line in cells for term in set(" ".join(line).split()))
    whole = [[cell for cell in held if f" {cell} " in asked] for held in cells]
    # Two cells may name a row that neither names alone: "from 1649 to 1660".
    most = max(map(len, whole))
    if most > 1 and sum(len(held) == most for held in whole) == 1:
        named = [at for at, held in enumerate(whole) if len(held) == most]
    else:
        named = [
            at
            for at, held in enumerate(cells)
            if any(lines_with[cell] == 1 for cell in whole[at])
            or any(_is_half_named(cell, asked_terms, lines_with_term) for cell in held)
        ]
    if len(named) > MOST_NAMED or any(_is_heading(cells[at], cells) for at in named):
        return []
    return [rows[at] for at in named]


def exact_row(block: AnswerBlock, question: str) -> AnswerBlock:
    """The row beside this one that the question names by a whole cell, if this one only has its
    words among others: "Cyrillic" before "Cyrillic (Old Church Slavonic variant)"."""
    lang = block.source.passage.lang
    asked = f" {' '.join(terms(question, lang))} "
    rows = [
        part
        for part in answer_blocks(block.source)
        if part.kind is PartKind.ROW and part.above == block.above
    ]
    named = [
        {cell for cell in _cells(row.text, lang) if f" {cell} " in asked and not _is_figure(cell)}
        for row in rows
    ]
    rows_with = Counter(cell for cells in named for cell in cells)
    held = f" {' '.join(terms(block.text, lang))} "
    same = [
        row
        for row, cells in zip(rows, named, strict=True)
        if any(rows_with[cell] == 1 and f" {cell} " in held for cell in cells)
    ]
    return same[0] if len(same) == 1 else block


def rows_asked_for(sources: Iterable[SourcePassage], question: str) -> list[AnswerBlock]:
    """The rows of the first passage of which the question asks for rows, if they are few."""
    for one in sources:
        rows = [
            part
            for part in answer_blocks(one)
            if part.kind is PartKind.ROW and asks_for_row(part, question)
        ]
        if rows:
            return rows if len(rows) <= MOST_NAMED and not _OF_ALL_ROWS.search(question) else []
    return []


def names_row(sources: Iterable[SourcePassage], question: str) -> bool:
    """Whether a question asks for a row of these passages."""
    return any(asks_for_row(part, question) for one in sources for part in answer_blocks(one))


def asks_for_row(block: AnswerBlock, question: str) -> bool:
    """Whether a question asks for a row: it has all words of two cells, of one with several words,
    or of one and of the table's or another column's name. A number alone names a row only where
    it stands first. A record in a list, ``name: Bonn; country: Germany``, is a row."""
    passage = block.source.passage
    asked = terms(question, passage.lang)
    if block.kind is PartKind.ROW:
        names, cells = block.above.split("|"), block.text.split("|")
        pairs = list(zip_longest(names, cells, fillvalue=""))
    elif block.kind is PartKind.ITEM:
        parts = [part.partition(": ") for part in block.text.split("; ")]
        pairs = [(name, cell) for name, _, cell in parts]
        if len(pairs) < _FEWEST_PAIRS or not all(cell for _, cell in pairs):
            return False
    else:
        return False
    held = [" ".join(terms(cell, passage.lang)) for _, cell in pairs]
    named = {
        cell: at for at, cell in enumerate(held) if cell and f" {cell} " in f" {' '.join(asked)} "
    }
    if len(named) > 1 or any(" " in cell for cell in named):
        return True
    for cell, at in named.items():
        others = [name for number, (name, _) in enumerate(pairs) if number != at]
        title = " ".join((passage.doc_title, *passage.section_path, *others))
        says = (set(asked) - {cell}) & set(terms(title, passage.lang))
        if says and (at == 0 or not _is_figure(cell)):
            return True
    return False


def _is_half_named(cell: str, asked: set[str], lines_with: Counter[str]) -> bool:
    """Whether a question has two words of a cell or more, at least half of them, one of which no
    other row has: "Salmonella typhosa" for "Salmonella (Eberthella) typhosa"."""
    held = set(cell.split())
    common = held & asked
    return 2 <= len(common) >= len(held) / 2 and any(lines_with[term] == 1 for term in common)


def _is_heading(row: set[str], rows: list[set[str]]) -> bool:
    """Whether a row names those below it, or columns: it says nothing else, or has words only
    where most rows have figures."""
    figures = [any(map(_is_figure, cells)) for cells in rows]
    return len(row) == 1 or (2 * sum(figures) > len(rows) and not any(map(_is_figure, row)))


def _is_figure(cell: str) -> bool:
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


def _cells(line: str, lang: str) -> set[str]:
    return {" ".join(terms(cell, lang)) for cell in re.split(r"[|\n]", line)} - {""}

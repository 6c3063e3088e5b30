"""The rows of a table that a question names: an answer need not show the whole table, and what it
shows is about what was asked, however unlike the question it looks."""

from __future__ import annotations

import re
from calendar import month_name
from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest

from packwise.answering.blocks import AnswerBlock, PartKind, SourcePassage, answer_blocks
from packwise.documents import cells_of
from packwise.language.analyzer import terms
from packwise.language.identifiers import QUOTES, identifiers, plain_identifiers
from packwise.language.questions import ParsedQuestion
from packwise.lazy_pattern import lazy_pattern

LONG_TABLE = 6
MOST_NAMED = 3
"""A table of ``LONG_TABLE`` rows or more is shown by the rows that the question names, if these are
at most ``MOST_NAMED``."""
_FEWEST_PAIRS = 3
_OF_ALL_ROWS = lazy_pattern(
    r"\b(?:(?:great|high|larg|bigg|long|new|lat|low|small|short|old|earli|few)est|most|least|"
    r"what (?:are|were)|all|list|types?|kinds?|components?)\b",
    re.IGNORECASE,
)
"""A question that no single row answers."""
_COUNTED = lazy_pattern(r"\bhow many\b", re.IGNORECASE)
"""A question that counts rows, if it names no column that holds numbers of things."""
_YEAR = lazy_pattern(r"1[0-9]{3}|20[0-9]{2}")
_WRITTEN_DATE = lazy_pattern(r"\b([12][0-9]{3})[-/.]([01][0-9])[-/.]([0-3][0-9])\b")
_MONTHS = {name.lower(): number for number, name in enumerate(month_name) if name}
_MONTH = "|".join(_MONTHS)
_DATE = lazy_pattern(
    rf"(?:(?:\b(?P<of>[0-3]?[0-9])\s+)?\b(?P<named>{_MONTH})\s+(?:(?P<day>[0-3]?[0-9]),\s+)?)?"
    r"\b(?P<year>1[0-9]{3}|20[0-9]{2})\b(?![-/.][0-9])",
    re.IGNORECASE,
)


def named_rows(block: AnswerBlock, question: str) -> list[AnswerBlock]:
    """The rows of a long table that a question names: it holds all words of one of their cells,
    which no other row and no column name has, most words of such a cell, or all words of more cells
    than it does of any other row.

    None in a short table, which is read at a glance, for a question about all rows, or if it names
    a heading within the table; but always those with an identifier as the question writes it.
    """
    rows = [
        part
        for part in answer_blocks(block.source)
        if part.kind is PartKind.ROW and block.includes(part)
    ]
    alike = _written_alike(rows, question)
    if 0 < len(alike) <= MOST_NAMED:
        return alike
    if len(rows) < LONG_TABLE or _OF_ALL_ROWS.search(question):
        return []
    lang = block.source.passage.lang
    asked = f" {' '.join(terms(_with_dates(question, block.source.passage.text), lang))} "
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
    words among others: "Cyrillic" before "Cyrillic (Old Church Slavonic variant)". An identifier is
    a cell only as it is written: ``sub/*.py`` is not ``sub/**.py``."""
    lang = block.source.passage.lang
    asked = f" {' '.join(terms(question, lang))} "
    rows = [
        part
        for part in answer_blocks(block.source)
        if part.kind is PartKind.ROW and part.above == block.above
    ]
    alike = _written_alike(rows, question)
    if len(alike) == 1:
        return alike[0]
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


def _written_alike(rows: Iterable[AnswerBlock], question: str) -> list[AnswerBlock]:
    """The rows one of whose cells is an identifier of the question, as it is written there."""
    written = identifiers(question)
    return [
        row
        for row in rows
        if written & {cell.replace("\\|", "|").strip().strip(QUOTES) for cell in cells_of(row.text)}
    ]


def rows_asked_for(
    sources: Iterable[SourcePassage], question: str, least: int = 1
) -> list[AnswerBlock]:
    """The rows of the first passage of which the question asks for rows, by ``least`` cells
    or more, if they are few. A row by more cells than the others is the one."""
    if _OF_ALL_ROWS.search(question):
        return []
    for one in sources:
        named = [(part, cells_asked_for(part, question)) for part in answer_blocks(one)]
        most = max((cells for _, cells in named), default=0)
        if most and most >= least:
            rows = [part for part, cells in named if cells == most]
            return rows if len(rows) <= MOST_NAMED else []
    return []


def row_described(sources: Iterable[SourcePassage], question: ParsedQuestion) -> list[AnswerBlock]:
    """The row about an option or an attribute of which the question says that it is one ("the
    fork attribute of the java task"): its first cell is written alike, and the heading and the
    column names above have most of the question's other words, more than those of other rows."""
    meant = plain_identifiers(question.text)
    best: list[AnswerBlock] = []
    most = 0.0
    for part in (part for one in sources if meant for part in answer_blocks(one)):
        name = cells_of(part.text)[0].strip().strip(QUOTES)
        if part.kind is not PartKind.ROW or name not in meant:
            continue
        passage = part.source.passage
        others = question.weights.keys() - set(terms(name, passage.lang))
        said = others & set(terms(f"{passage.heading}\n{part.above}", passage.lang))
        share = sum(question.weights[term] for term in said)
        if share > max(most, sum(question.weights[term] for term in others) / 2):
            best, most = [part], share
    return best


def names_row(sources: Iterable[SourcePassage], question: str) -> bool:
    """Whether a question asks for a row of these passages."""
    return any(cells_asked_for(part, question) for one in sources for part in answer_blocks(one))


def cells_asked_for(block: AnswerBlock, question: str) -> int:
    """By how many cells a question asks for a row; 0 if it does not. It has all words of two
    cells, of one with several words, or of one and of the table's or another column's name. A
    number alone names a row only where it stands first or is a year. A record in a list,
    ``name: Bonn; country: Germany``, is a row."""
    passage = block.source.passage
    if block.kind is PartKind.ROW:
        names, cells = cells_of(block.above), cells_of(block.text)
        pairs = list(zip_longest(names, cells, fillvalue=""))
    elif block.kind is PartKind.ITEM:
        parts = [part.partition(": ") for part in block.text.split("; ")]
        pairs = [(name, cell) for name, _, cell in parts]
        if len(pairs) < _FEWEST_PAIRS or not all(cell for _, cell in pairs):
            return 0
    else:
        return 0
    asked = terms(_with_dates(question, passage.text), passage.lang)
    held = [" ".join(terms(cell, passage.lang)) for _, cell in pairs]
    named = {
        cell: at for at, cell in enumerate(held) if cell and f" {cell} " in f" {' '.join(asked)} "
    }
    if len(named) > 1 or any(" " in cell and not _is_figure(cell) for cell in named):
        return len(named)
    for cell, at in named.items():
        others = [name for number, (name, _) in enumerate(pairs) if number != at]
        title = " ".join((passage.doc_title, *passage.section_path, *others))
        says = (set(asked) - {cell}) & set(terms(title, passage.lang))
        if says and (at == 0 or not _is_figure(cell) or _YEAR.fullmatch(cell)):
            return 1
    return 0


def _with_dates(question: str, text: str) -> str:
    """A question with the dates of a text that it means, as they are written there: "25 December
    2013" is 2013-12-25. A month or a year means the only date within it."""
    meant: list[str] = []
    for found in _DATE.finditer(question):
        month = _MONTHS.get((found["named"] or "").lower(), 0)
        day = int(found["day"] or found["of"] or 0)
        wanted = [
            int(found["year"]),
            *([month] if month else []),
            *([day] if month and day else []),
        ]
        within = {
            one[0]
            for one in _WRITTEN_DATE.finditer(text)
            if [int(part) for part in one.groups()][: len(wanted)] == wanted
        }
        meant += within if len(within) == 1 else ()
    return " ".join((question, *meant))


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
    return {" ".join(terms(cell, lang)) for part in line.split("\n") for cell in cells_of(part)} - {
        ""
    }

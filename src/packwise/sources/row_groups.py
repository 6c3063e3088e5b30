"""Rows of sheets and of CSV files as blocks of a document: groups that repeat their header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import contains

from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, clean

MOST_ROWS = 100_000
"""Rows of a file that are read; the rest is left out, with a warning."""
MOST_CHARACTERS = 32 << 20
"""Characters of a file that are read."""

_GROUP = 500
"""Rows of a block; each begins with the header."""
_WIDE = 250
"""Characters of a header; under a longer one each row has the names of its columns."""
_LONG_RECORD = 400
"""Characters of a row that is divided, so that its name stands beside each of its cells."""
_LONGEST_NAME = 120
_NUMBER = re.compile(r"[-+]?[$€£]?\s?\d[\d.,:\s/-]*%?|true|false|", re.IGNORECASE)
_SAMPLE = 50
_NOTES = 10
"""Rows that may stand above the header of a table."""
_NAME_ROWS = 3
"""Rows that may continue the names in the first row of a header."""

NumberedRow = tuple[int, Sequence[str]]
"""The number of a row in its file, and its cells."""


class RowWriter:
    """Adds rows to a document until the limits are reached."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._rows = 0
        self._characters = 0

    def add(self, rows: Iterable[NumberedRow], place: str = "", *, titled: bool = False) -> bool:
        """Add the rows of a sheet; returns whether all of them were added.

        ``place`` is that of the sheet. Empty rows separate tables, and so do empty columns
        between tables that stand side by side. With ``titled``, a row with only one cell above a
        table is text, as in a sheet that was made for people.
        """
        whole = _TableWriter(self._builder, place, titled=titled)
        group: list[NumberedRow] = []
        tables: list[tuple[slice, _TableWriter]] = []
        for number, cells in rows:
            cells = [" ".join(clean(cell).split()) for cell in cells]
            while cells and not cells[-1]:
                cells.pop()
            self._rows += 1
            self._characters += sum(map(len, cells))
            if self._rows > MOST_ROWS or self._characters > MOST_CHARACTERS:
                break
            if cells:
                group.append((number, cells))
            if group and (not cells or len(group) > _GROUP):
                tables = tables or _side_by_side(group, whole)
                _write(group, tables, end=not cells)
                group, tables = [], tables if cells else []
        else:
            _write(group, tables or _side_by_side(group, whole), end=True)
            return True
        _write(group, tables or _side_by_side(group, whole), end=True)
        return False


class _TableWriter:
    """Adds the tables that stand one below the other in some columns of a sheet."""

    def __init__(self, builder: DocumentBuilder, place: str, *, titled: bool) -> None:
        self._builder, self._place, self._titled = builder, place, titled
        self._table: list[NumberedRow] = []
        self._header: NumberedRow | None = None
        self._names: NumberedRow | None = None
        """The header of the table before."""

    def beside(self) -> _TableWriter:
        """A writer for a table beside this one."""
        return _TableWriter(self._builder, self._place, titled=self._titled)

    def add(self, number: int, cells: Sequence[str]) -> None:
        filled = sum(map(bool, cells))
        if not filled:
            self.end()
        elif self._titled and filled == 1 and len(self._table) < 2 and self._header is None:
            self.end()
            self._builder.place(_row_place(self._place, number))
            self._builder.paragraph(LinkedText("".join(cells)))
        else:
            self._table.append((number, cells))

    def end(self) -> None:
        """Add what is left of a table."""
        self.flush()
        self._header = None

    def flush(self) -> None:
        """Add a group of rows; the next has the same header."""
        table, header, self._table = self._table, self._header, []
        if not table:
            return
        if header is None:
            notes = _rows_of_notes(table)
            for number, cells in table[:notes]:
                self._builder.place(_row_place(self._place, number))
                self._builder.paragraph(LinkedText(" ".join(filter(None, cells))))
            del table[:notes]
            if groups := _grouped_names(table):
                table[:2] = [(table[1][0], groups)]
            _join_names(table)
            if has_header([cells for _, cells in islice(table, _SAMPLE)]):
                self._names = header = table.pop(0)
            elif self._names and _width(table) == len(self._names[1]):
                # An empty row divides a table more often than it ends it.
                header = self._names
            elif len(table) > 1:
                width = max(len(cells) for _, cells in table)
                header = (0, [f"column {n}" for n in range(1, width + 1)])
        self._header = header
        names = header[1] if header else []
        if len(" | ".join(names)) > _WIDE:
            self._add_records(table, names)
        else:
            rows = [*([header] if header else []), *table]
            places = [_row_place(self._place, number or rows[-1][0]) for number, _ in rows]
            if header and table:
                places[0] = _row_place(self._place, table[0][0])
            self._builder.table([[LinkedText(c) for c in cells] for _, cells in rows], places)

    def _add_records(self, table: list[NumberedRow], names: Sequence[str]) -> None:
        self._builder.open_list()
        for number, cells in table:
            named = [
                f"{names[at]}: {cell}" if at < len(names) and names[at] else cell
                for at, cell in enumerate(cells)
                if cell
            ]
            for part in parts_of_record(named):
                self._builder.place(_row_place(self._place, number))
                self._builder.open_item()
                self._builder.paragraph(LinkedText("; ".join(part)))
                self._builder.close_item()
        self._builder.close_list()


def parts_of_record(named: Sequence[str]) -> list[list[str]]:
    """A long record in parts, each of which begins with the cell that names it: the first one that
    is no number."""
    if sum(map(len, named)) <= _LONG_RECORD:
        return [list(named)]
    name = next((c for c in named if not _NUMBER.fullmatch(c.partition(": ")[2] or c)), named[0])
    parts: list[list[str]] = [[]]
    for cell in named:
        if parts[-1] and sum(map(len, parts[-1])) + len(cell) > _LONG_RECORD:
            parts.append([name[:_LONGEST_NAME]])
        parts[-1].append(cell)
    return parts


def _write(
    group: Sequence[NumberedRow], tables: Sequence[tuple[slice, _TableWriter]], *, end: bool
) -> None:
    for columns, table in tables:
        for number, cells in group:
            part = list(cells[columns])
            while part and not part[-1]:
                part.pop()
            table.add(number, part)
        if end:
            table.end()
        else:
            table.flush()


def _side_by_side(
    group: Sequence[NumberedRow], whole: _TableWriter
) -> list[tuple[slice, _TableWriter]]:
    """The columns of each table in a group of rows, without empty columns at the left."""
    used = [any(at < len(cells) and cells[at] for _, cells in group) for at in range(_width(group))]
    if not used:
        return []
    first = used.index(True)
    starts = [first]
    for at in range(first + 2, len(used)):
        if used[at] and not used[at - 1]:
            end = next((e for e in range(at, len(used)) if not used[e]), len(used))
            if _stands_alone(group, slice(starts[-1], at), slice(at, end)):
                starts.append(at)
    if len(starts) == 1:
        return [(slice(first, None), whole)]
    ends = [*starts[1:], None]
    return [(slice(a, b), whole.beside()) for a, b in zip(starts, ends, strict=True)]


def _stands_alone(group: Sequence[NumberedRow], left: slice, right: slice) -> bool:
    """Whether the cells after an empty column are a table of their own.

    Its rows begin with names, and it either ends elsewhere than the one before it or has the same
    header. Columns of numbers belong to the names at the left, whatever the space between.
    """
    parts = [(cells[left], cells[right]) for _, cells in group]
    rows = [[any(a) for a, _ in parts], [any(b) for _, b in parts]]
    if right.stop - right.start < 2 or not all(map(any, rows)):
        return False
    leading = [b[0] for _, b in parts if b and b[0]]
    named = sum(not _NUMBER.fullmatch(cell) for cell in leading)
    if sum(rows[1]) < 2 or named < max(2, len(leading) / 2):
        return False
    last = [len(filled) - filled[::-1].index(True) for filled in rows]
    alike = any(sum(map(bool, b)) > 1 and list(a[: len(b)]) == list(b) for a, b in parts)
    return alike or abs(last[0] - last[1]) > max(1, len(group) // 4)


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: it has no numbers, and differs from the rest."""
    if len(rows) < 2:
        return len(rows) == 1 and not any(_NUMBER.fullmatch(cell) for cell in rows[0])
    first, rest = rows[0], rows[1:]
    names = [cell for cell in first if cell]
    if not names or any(cell and _NUMBER.fullmatch(cell) for cell in first):
        # Years are the names of columns too, if another name stands before them.
        years = all(re.fullmatch(r"(?:19|20)\d\d", c) for c in names if _NUMBER.fullmatch(c))
        if not (names and years and first[0] and not _NUMBER.fullmatch(first[0])):
            return False
    if any(row[: len(first)] == first for row in rest):
        return False
    longest = max(len(cell) for cell in names)
    if longest > 100:
        return False
    below = [_below(rest, column) for column in range(len(first))]
    if any(map(_numeric, below)):
        return True
    return len(set(names)) == len(names) and not any(map(contains, below, first))


def _below(rows: Sequence[Sequence[str]], column: int) -> list[str]:
    return [row[column] for row in rows if column < len(row) and row[column]]


def _numeric(cells: Sequence[str]) -> bool:
    return sum(bool(_NUMBER.fullmatch(cell)) for cell in cells) > 0.7 * len(cells)


def _rows_of_notes(table: Sequence[NumberedRow]) -> int:
    """How many rows stand above the header: rows that are not full, above one that nearly is and
    names the columns of the rows below it."""
    width = _width(table)
    for at, (_, cells) in enumerate(islice(table, _NOTES)):
        if sum(map(bool, cells)) >= 0.75 * width > 1.5:
            named = has_header([row for _, row in islice(table, at, at + _SAMPLE)])
            return (at - bool(at and _grouped_names(table[at - 1 :]))) if named else 0
    return 0


def _grouped_names(table: Sequence[NumberedRow]) -> Sequence[str]:
    """The names of columns that need the name of their group in the row above to differ."""
    if len(table) < 3:
        return ()
    groups, names = table[0][1], table[1][1]
    filled = [name for name in names if name]
    fewer = 2 <= sum(map(bool, groups)) < len(filled)
    numbers = any(_NUMBER.fullmatch(cell) for cell in (*groups, *names) if cell)
    if not fewer or numbers or len(set(filled)) == len(filled):
        return ()
    group, joined = "", list[str]()
    for at, name in enumerate(names):
        group = (groups[at] if at < len(groups) else "") or group
        joined.append(f"{group} {name}".strip())
    return joined


def _join_names(table: list[NumberedRow]) -> None:
    """Join the rows of a header that takes several: rows of words where the rest has numbers."""
    rows = [row for _, row in islice(table, 1, _SAMPLE)]
    rows = [row for row in rows if any(cell and _NUMBER.fullmatch(cell) for cell in row)]
    numeric = [_numeric(_below(rows, column)) for column in range(_width(table))]
    if any(_NUMBER.fullmatch(cell) for _, first in table[:1] for cell in first if cell):
        return
    for _ in range(_NAME_ROWS):
        if len(table) < 3:
            return
        number, more = table[1]
        words = [at for at, cell in enumerate(more) if cell]
        if not words or any(_NUMBER.fullmatch(more[at]) or not numeric[at] for at in words):
            return
        names = [*table[0][1], *[""] * (len(more) - len(table[0][1]))]
        for at in words:
            names[at] = f"{names[at]} {more[at]}".strip()
        table[:2] = [(number, names)]


def _width(table: Sequence[NumberedRow]) -> int:
    return max((len(cells) for _, cells in table), default=0)


def _row_place(place: str, number: int) -> str:
    return f"{place}, row {number}" if place else f"row {number}"

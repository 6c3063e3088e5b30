"""Excel workbooks: a section per sheet, rows in groups with their header, values as shown.

Sheets are streamed from the XML, so that a workbook of a million rows needs little memory, and
one without some of its parts is read as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, NamedTuple, cast
from xml.etree import ElementTree

from packwise.errors import SourceError
from packwise.sources import row_groups, zipped
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText
from packwise.sources.row_groups import RowWriter
from packwise.sources.zipped import (
    Element,
    ZippedFile,
    attribute,
    child,
    children,
    core_title,
    descendants,
    tag,
)

if TYPE_CHECKING:
    from packwise.sources.readers import SourceFile

_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
_DATE_FORMATS = frozenset((*range(14, 23), *range(45, 48)))
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)
_NOT_DATE = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|General', re.IGNORECASE)
_MOST_COLUMNS = 16_384
_READ = 64 << 10
_MERGED_LIMIT = 32 << 20
"""Bytes of a sheet; merged cells stand at the end, and a larger one is not read twice."""
_DEFAULT_NAME = re.compile(r"(?i)sheet ?\d*|tabelle ?\d*|feuil ?\d*|hoja ?\d*")


class _Sheet(NamedTuple):
    name: str
    part: str
    hidden: bool


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the sheets of a workbook."""
    with ZippedFile(file.path, "Excel (.xlsx)") as parts:
        builder.fallback_title = core_title(parts)
        sheets = _sheets(parts)
        if not sheets:
            raise SourceError("is a workbook without sheets")
        cells = _CellReader(parts)
        writer = RowWriter(builder)
        shown = [sheet for sheet in sheets if not sheet.hidden] or sheets
        for sheet in shown:
            if not parts.has(sheet.part):
                builder.warn(f"sheet {sheet.name} is missing in the file")
                continue
            if len(shown) > 1 or not _DEFAULT_NAME.fullmatch(sheet.name):
                builder.place(f"sheet {sheet.name}")
                builder.heading(2, LinkedText(sheet.name))
            merged = _merged(parts, sheet.part)
            with parts.stream(sheet.part) as stream:
                whole = writer.add(cells.rows(stream, merged), f"sheet {sheet.name}", titled=True)
            if not whole:
                builder.warn(
                    f"the rows after {row_groups.MOST_ROWS:,} were left out (sheet {sheet.name})"
                )
                break
        if hidden := len(sheets) - len(shown):
            builder.warn(
                f"{hidden} hidden {'sheet was' if hidden == 1 else 'sheets were'} left out"
            )
        if cells.missing:
            builder.warn("its shared texts are missing: cells with text are empty")


def _sheets(parts: ZippedFile) -> list[_Sheet]:
    """The sheets in their order; without the list of them, all that the file holds."""
    main = next(
        (target for kind, target in parts.relations("").values() if kind == "officeDocument"),
        "xl/workbook.xml",
    )
    if parts.has(main):
        relations = parts.relations(main)
        found: list[_Sheet] = []
        for number, one in enumerate(descendants(parts.xml(main), "sheet"), start=1):
            id = next((v for k, v in one.attrib.items() if k.endswith("}id")), "")
            kind, target = relations.get(id, ("worksheet", f"xl/worksheets/sheet{number}.xml"))
            hidden = one.get("state", "visible") != "visible"
            if kind == "worksheet":
                found.append(_Sheet(one.get("name", f"Sheet{number}"), target, hidden))
        if any(parts.has(sheet.part) for sheet in found):
            return found
    listed = sorted({name for name in parts.names.values() if _SHEET.fullmatch(name)})
    return [_Sheet(f"Sheet{n}", part, False) for n, part in enumerate(listed, start=1)]


def _merged(parts: ZippedFile, part: str) -> Mapping[tuple[int, int], tuple[int, int]]:
    """For cells of the first column of a merged range: the cell that has their value."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    if parts.size(part) > _MERGED_LIMIT:
        return found
    with parts.stream(part) as stream:
        for element in _elements(stream, "mergeCell"):
            first, _, last = element.get("ref", "").partition(":")
            a, b = _REFERENCE.fullmatch(first), _REFERENCE.fullmatch(last)
            if a and b and int(b[2]) - int(a[2]) < 1_000 and len(found) < 10_000:
                for row in range(int(a[2]) + 1, int(b[2]) + 1):
                    found[row, _column(a[1])] = (int(a[2]), _column(a[1]))
    return found


def _elements(stream: IO[bytes], name: str) -> Iterator[Element]:
    """The elements of a name, one in memory at a time."""
    parser = ElementTree.XMLPullParser(("start", "end"))
    parents: list[Element] = []
    inside = held = 0
    data = b" "
    while data:
        data = stream.read(_READ)
        held += len(data)
        if data:
            parser.feed(data)
        else:
            parser.close()
        for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
            wanted = element.tag.endswith(name) and tag(element) == name
            if event == "start":
                parents.append(element)
                inside += wanted
                continue
            parents.pop()
            inside -= wanted
            if wanted:
                yield element
            # What is inside a wanted element must stay until it is complete.
            if not inside and parents:
                parents[-1].clear()
                held = 0
        if held > zipped.PART_LIMIT:
            limit = zipped.PART_LIMIT >> 20
            raise SourceError(f"unpacks to more than {limit} MiB between two rows")


class _CellReader:
    """Turns cells into the text that a person sees."""

    def __init__(self, parts: ZippedFile) -> None:
        self._shared, self.missing = _shared_texts(parts), False
        self._dates, self._percent = _formats(parts)
        self._epoch = datetime(1899, 12, 30)
        if parts.has("xl/workbook.xml"):
            properties = child(parts.xml("xl/workbook.xml"), "workbookPr")
            if attribute(properties, "date1904") in ("1", "true"):
                self._epoch = datetime(1904, 1, 1)

    def rows(
        self, stream: IO[bytes], merged: Mapping[tuple[int, int], tuple[int, int]]
    ) -> Iterator[tuple[int, Sequence[str]]]:
        number = 0
        values: dict[tuple[int, int], str] = {}
        wanted = set(merged.values())
        for row in _elements(stream, "row"):
            given = row.get("r", "")
            before, number = number, int(given) if given.isdigit() else number + 1
            if number > before + 1:
                yield number - 1, ()
            cells: list[str] = []
            for cell in row:
                if tag(cell) != "c":
                    continue
                place = _REFERENCE.fullmatch(cell.get("r", ""))
                column = _column(place[1]) if place else len(cells)
                if column >= _MOST_COLUMNS:
                    continue
                cells += [""] * (column + 1 - len(cells))
                cells[column] = self._value(cell)
                if (number, column) in wanted:
                    values[number, column] = cells[column]
            for column in range(len(cells)):
                if not cells[column] and (number, column) in merged:
                    cells[column] = values.get(merged[number, column], "")
            yield number, cells

    def _value(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _text(cell)
        found = child(cell, "v")
        value = (found.text or "") if found is not None else ""
        if kind == "s":
            at = int(value) if value.isdigit() else -1
            if 0 <= at < len(self._shared):
                return self._shared[at]
            self.missing = self.missing or bool(value)
            return ""
        if kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(value, value)
        if kind == "n" and value:
            style = cell.get("s", "0")
            return self._number(value, int(style) if style.isdigit() else 0)
        return value

    def _number(self, value: str, style: int) -> str:
        try:
            number = float(value)
        except ValueError:
            return value
        if style in self._dates and 0 <= number < 2_958_466:
            moment = self._epoch + timedelta(days=number)
            moment = (moment + timedelta(microseconds=500_000)).replace(microsecond=0)
            if number < 1:
                return moment.strftime("%H:%M:%S")
            midnight = (moment.hour, moment.minute, moment.second) == (0, 0, 0)
            return moment.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M:%S")
        if style in self._percent:
            return f"{round(number * 100, 2):g}%"
        # 0.1 + 0.2 is stored as 0.30000000000000004 and shown as 0.3.
        return (
            str(int(number)) if number == int(number) and abs(number) < 1e15 else f"{number:.12g}"
        )


def _shared_texts(parts: ZippedFile) -> list[str]:
    if not parts.has("xl/sharedStrings.xml"):
        return []
    with parts.stream("xl/sharedStrings.xml") as stream:
        return [_text(element) for element in _elements(stream, "si")]


def _text(element: Element) -> str:
    """The text of a cell, without its phonetic guide."""
    if (own := child(element, "is")) is not None:
        element = own
    return "".join(
        "".join(one.text or "" for one in part.iter() if tag(one) == "t")
        for part in element
        if tag(part) in ("t", "r")
    )


def _formats(parts: ZippedFile) -> tuple[frozenset[int], frozenset[int]]:
    """The styles of cells that show dates, and those that show percentages."""
    if not parts.has("xl/styles.xml"):
        return frozenset(), frozenset()
    styles = parts.xml("xl/styles.xml")
    codes = {
        attribute(one, "numFmtId"): _NOT_DATE.sub("", attribute(one, "formatCode"))
        for one in descendants(styles, "numFmt")
    }
    dates: set[int] = set()
    percent: set[int] = set()
    for number, one in enumerate(children(styles, "cellXfs")):
        id = attribute(one, "numFmtId")
        code = codes.get(id, "")
        if (id.isdigit() and int(id) in _DATE_FORMATS) or _DATE.search(code):
            dates.add(number)
        elif id in ("9", "10") or "%" in code:
            percent.add(number)
    return frozenset(dates), frozenset(percent)


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1

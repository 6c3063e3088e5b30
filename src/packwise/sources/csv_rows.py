"""CSV and TSV files: rows in groups with their header, up to a limit."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from packwise.errors import SourceError
from packwise.sources import row_groups
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.row_groups import RowWriter

if TYPE_CHECKING:
    from packwise.sources.readers import SourceFile

_HEAD = 1 << 16
_DELIMITERS = ",;\t|"
_LONGEST_CELL = 1 << 20
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the rows of a file."""
    with file.path.open("rb") as raw:
        head = raw.read(_HEAD)
        raw.seek(0)
        encoding = _encoding(head)
        sample = head.decode(encoding, "replace")
        delimiter = _delimiter(sample)
        csv.field_size_limit(_LONGEST_CELL)
        text = io.TextIOWrapper(raw, encoding, "replace", newline="")
        try:
            whole = RowWriter(builder).add(_rows(text, delimiter))
        except csv.Error as error:
            raise SourceError(f"is not a table that can be read ({error})") from error
    if not whole:
        builder.warn(f"the rows after {row_groups.MOST_ROWS:,} were left out")


def _rows(text: IO[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader((line.replace("\0", "") for line in text), delimiter=delimiter)
    yield from enumerate(rows, start=1)


def _encoding(head: bytes) -> str:
    for mark, name in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return name
    if b"\0" in head:
        raise SourceError("is not text (it holds NUL bytes)")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "windows-1252"
    return "utf-8"


def _delimiter(sample: str) -> str:
    """The delimiter that gives the most lines the same number of cells, more than one."""
    lines = [line for line in sample.splitlines()[:-1] or sample.splitlines() if line.strip()][:100]
    best, best_score = ",", 0.0
    for delimiter in _DELIMITERS:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        usual = max(set(widths), key=widths.count, default=1)
        score = widths.count(usual) / max(len(widths), 1) * (usual > 1) + usual / 1000
        # "1.234,5; 2,3": a comma inside numbers is no delimiter beside a semicolon.
        if delimiter == ";" and usual > 1 and re.search(r"\d,\d+;", sample):
            score += 1
        if score > best_score and usual > 1:
            best, best_score = delimiter, score
    return best

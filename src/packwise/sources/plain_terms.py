"""Terms of plain text by their layout: each stands further left than its description, which begins
beside it or on the line below it.

    -f, --force     Overwrite the file, even if
                    somebody else has it open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_BESIDE = re.compile(r"( *)(\S.{0,58}?) {2,}(\S.*)")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[,.;:!?)]*")
_COMMENT = ("#", "//", "/*", "--", ";", "%", "$", ">")
_FEWEST_WORDS = 6
_MOST_WORDS = 0.75
_LONGEST_TERM = 60
_DEEPER = 3
_FEWEST = 3
"""Terms that a text describes at one column, at least; else it is the layout of something else."""


@dataclass(slots=True)
class Described:
    """Terms that share a description, and its lines without their indentation."""

    terms: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])


def indent_of(line: str) -> int:
    """How many spaces a line begins with."""
    return len(line) - len(line.lstrip(" "))


def is_worded(line: str) -> bool:
    """Whether a line is part of a sentence; comments and commands are not."""
    words = line.split()
    if len(words) < _FEWEST_WORDS or line.startswith(_COMMENT):
        return False
    return sum(_WORD.fullmatch(word) is not None for word in words) > _MOST_WORDS * len(words)


def _is_described(line: str, below: str) -> bool:
    """Whether a line may be a term that the line below it begins to describe."""
    deeper = bool(line) and indent_of(below) >= indent_of(line) + _DEEPER
    short = len(line.strip()) <= _LONGEST_TERM and not line.endswith((".", ",", ";", ":"))
    return deeper and short and is_worded(below.strip())


class TermLayout:
    """The columns at which a text describes its terms."""

    def __init__(self, lines: Sequence[str]) -> None:
        columns: Counter[int] = Counter()
        for line, below in pairwise(lines):
            beside = _BESIDE.fullmatch(line)
            if beside and below and indent_of(below) == beside.start(3):
                columns[beside.start(3)] += 1
            elif _is_described(line, below):
                columns[indent_of(below)] += 1
        self._columns = {column for column, count in columns.items() if count >= _FEWEST}

    def _column(self, chunk: Sequence[str], outer: int) -> int:
        """The column of the descriptions in some lines, 0 if they describe no terms."""
        if below := min((i for line in chunk if (i := indent_of(line)) > outer), default=0):
            return below if below in self._columns and below >= outer + _DEEPER else 0
        beside = _BESIDE.fullmatch(chunk[-1])
        return beside.start(3) if beside and beside.start(3) in self._columns else 0

    def terms(self, chunk: Sequence[str]) -> tuple[int, list[Described]]:
        """The column of the descriptions in some lines and the terms with them; none if a line
        is neither."""
        outer = indent_of(chunk[0])
        column = self._column(chunk, outer)
        found: list[Described] = []
        for line in chunk if column else ():
            if indent_of(line) >= column:
                if not found or not (found[0].lines or is_worded(line.strip())):
                    return 0, []
                found[-1].lines.append(line[column:])
                continue
            beside = line[column - 1 : column] == " " and line[column : column + 1].strip()
            if indent_of(line) > outer or (not beside and len(line.strip()) > _LONGEST_TERM):
                return 0, []
            if not found or found[-1].lines:
                found.append(Described())
            if beside:
                found[-1].terms.append(line[:column].strip())
                found[-1].lines.append(line[column:])
            else:
                found[-1].terms.append(line.strip())
        return (column, found) if found and found[-1].lines else (0, [])

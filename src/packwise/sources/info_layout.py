"""The text of GNU Info as makeinfo lays it out: indentation says what everything is.

A paragraph begins at the margin or three columns right of it. Five columns right of the margin is
an example, or what is said about the terms right above it; there the same rules hold again, with
that margin. Bullets stand three columns right of the margin, numbers two, and a definition after
``--``:

    '-f'
    '--force'
         Overwrite files.  For example:

              box --force

         * No question is asked.

     -- Function: open (BOX)
         Opens a box.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import clean
from packwise.sources.plain_blocks import as_text, is_prose
from packwise.sources.plain_terms import indent_of
from packwise.sources.terms import TOLD_AT_LENGTH

_LEVELS = "*=-."
_UNDERLINE = re.compile(r"([*=.-])\1+")
_ITEM = re.compile(r" *(?:[•*‣◦⁃-]|(\d{1,3}|[a-z])\.) +(?=\S)")
_DEFINITION = re.compile(r" *-- (?=\S[^:]*: )")
_QUOTED = re.compile(r"[‘'`\"“](.*)[’'\"”]")
_STEP = 5
_LONGEST_TERM = 68
_MOST_TERMS = 12
_FEWEST_ROWS = 3
_MOSTLY = 0.6
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class _Described:
    """Terms, as they are shown on one line, and the lines that describe them."""

    name: str
    lines: Sequence[str]


def add_nodes(builder: DocumentBuilder, nodes: Iterable[str]) -> None:
    """Add the texts of nodes, each of which begins with its heading."""
    for node in nodes:
        lines = [line.rstrip() for line in clean(node).expandtabs().split("\n")]
        at = 0
        for number, (line, below) in enumerate(pairwise(lines)):
            if line[:1].strip() and _UNDERLINE.fullmatch(below) and len(below) >= len(line):
                _Layout(builder).add(lines[at:number], 0)
                builder.heading(1 + _LEVELS.index(below[0]), as_text(line))
                at = number + 2
        _Layout(builder).add(lines[at:], 0)


class _Layout:
    """Adds the lines of one section."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder

    def add(self, lines: Sequence[str], margin: int, depth: int = 0) -> None:
        """Add lines that are laid out from a margin on."""
        at = 0
        while at < len(lines):
            line = lines[at]
            if not line:
                at += 1
            elif depth < _DEEPEST and _is_item(line, margin):
                at = self._list(lines, at, margin, depth)
            elif depth < _DEEPEST and (found := _described(lines, at, margin))[1]:
                at = found[0]
                self._describe(found[1], margin, depth)
            elif indent_of(line) >= margin + _STEP:
                end = _block_end(lines, at, margin + _STEP)
                self._example(lines[at:end])
                at = end
            else:
                end = _paragraph_end(lines, at, margin)
                self._paragraph(lines[at:end])
                at = end

    def _list(self, lines: Sequence[str], at: int, margin: int, depth: int) -> int:
        """Add the items from a line on; questions are terms that their answers describe."""
        first = _ITEM.match(lines[at])
        number = first[1] if first else None
        items: list[tuple[int, Sequence[str]]] = []
        while at < len(lines) and (column := _is_item(lines[at], margin)):
            end = _block_end(lines, at + 1, margin + _STEP)
            items.append((column, lines[at:end]))
            at = next((n for n in range(end, len(lines)) if lines[n]), len(lines))
        questions = [one for _, item in items if (one := _question(item, margin + _STEP))]
        if len(questions) >= _FEWEST_ROWS and len(questions) > _MOSTLY * len(items):
            self._describe(
                [
                    _question(item, margin + _STEP) or _Described(item[0].strip(), item[1:])
                    for _, item in items
                ],
                margin,
                depth,
            )
            return at
        ordered = number is not None and number.isdigit()
        self._builder.open_list(ordered=ordered, start=int(number) if number and ordered else 1)
        for column, item in items:
            self._builder.open_item()
            self.add([" " * column + item[0][column:], *item[1:]], column, depth + 1)
            self._builder.close_item()
        self._builder.close_list()
        return at

    def _describe(self, found: Sequence[_Described], margin: int, depth: int) -> None:
        """Add terms: as a table if there are many, of which one paragraph or less is said."""
        told = [" ".join(" ".join(one.lines).split()) for one in found]
        plain = all(_is_paragraph(one.lines) for one in found)
        brief = sum(map(len, told)) < TOLD_AT_LENGTH * len(told)
        if plain and brief and len(found) >= _FEWEST_ROWS:
            names = (one.name for one in found)
            rows = [(as_text(name), as_text(text)) for name, text in zip(names, told, strict=True)]
            self._builder.table(rows)
            return
        self._builder.open_terms()
        for one in found:
            # A term opens its description: both stand in one paragraph, if there is one.
            end = _paragraph_end(one.lines, 0, margin + _STEP)
            if not any(one.lines[:1]) or _is_item(one.lines[0], margin + _STEP):
                end = 0
            self._builder.term(one.name)
            said = [line.strip() for line in one.lines[:end]]
            self._builder.paragraph(as_text("\n".join([one.name, " ".join(said)]).rstrip()))
            self.add(one.lines[end:], margin + _STEP, depth + 1)
        self._builder.close_terms()

    def _example(self, lines: Sequence[str]) -> None:
        text = "\n".join(lines)
        if is_prose(text):
            self._paragraph(lines)  # a quotation
        else:
            shared = min(indent_of(line) for line in lines if line)
            self._builder.code("\n".join(line[shared:] for line in lines))

    def _paragraph(self, lines: Sequence[str]) -> None:
        self._builder.paragraph(as_text(" ".join(line.strip() for line in lines)))


def _question(item: Sequence[str], margin: int) -> _Described | None:
    """The question that an item begins with, and its answer."""
    end = _paragraph_end(item, 0, margin)
    asked = " ".join(line.strip() for line in item[:end])
    return _Described(asked, item[end:]) if asked.endswith("?") and any(item[end:]) else None


def _is_item(line: str, margin: int) -> int:
    """The column at which the text of an item begins; 0 if the line is none."""
    found = _ITEM.match(line)
    inside = found is not None and margin < indent_of(line) < margin + _STEP
    return found.end() if found is not None and inside else 0


def _described(lines: Sequence[str], at: int, margin: int) -> tuple[int, list[_Described]]:
    """The terms that begin at a line, one after another, and the line after them."""
    found: list[_Described] = []
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        start, name = _terms(lines, at, margin)
        if not name:
            break
        end = _block_end(lines, start, margin + _STEP)
        found.append(_Described(name, lines[start:end]))
        at = end
    return at, found


def _terms(lines: Sequence[str], at: int, margin: int) -> tuple[int, str]:
    """The line after some terms that what is indented below them describes, and their names."""
    names: list[str] = []
    defines = _DEFINITION.match(lines[at]) is not None
    all_quoted = not defines
    while at < len(lines) and lines[at] and indent_of(lines[at]) < margin + _STEP:
        line = lines[at][margin:]
        if len(names) == _MOST_TERMS:
            return at, ""
        if defines:
            mark = _DEFINITION.match(line)
            if mark is None:
                return at, ""
            # What kind of thing it is says less than its name.
            name = line[mark.end() :].partition(": ")[2]
        elif line[:1] in ("", " ") or len(line) > _LONGEST_TERM or line[-1] in ":,;":
            return at, ""
        else:
            quoted = _QUOTED.fullmatch(line)
            all_quoted = all_quoted and quoted is not None
            name = quoted[1] if quoted else line
        at += 1
        while defines and at < len(lines) and indent_of(lines[at]) >= margin + 2 * _STEP:
            name += " " + lines[at].strip()  # a long one goes on
            at += 1
        names.append(name)
    if at < len(lines) and not lines[at] and all_quoted:
        at += 1  # Below a paragraph, this would be an example.
    described = at < len(lines) and indent_of(lines[at]) >= margin + _STEP
    sentence = bool(names) and names[-1].endswith(".") and not names[-1].endswith("...")
    if not described or (sentence and not defines):
        return at, ""
    return at, ", ".join(names)


def _block_end(lines: Sequence[str], at: int, margin: int) -> int:
    """The end of what is indented at least so far, without the empty lines after it."""
    last = at
    while at < len(lines) and (not lines[at] or indent_of(lines[at]) >= margin):
        at += 1
        last = at if lines[at - 1] else last
    return last


def _paragraph_end(lines: Sequence[str], at: int, margin: int) -> int:
    """The end of a paragraph: an empty line, an item, an example right below it, or terms that it
    announces."""
    at += 1
    while at < len(lines) and lines[at]:
        if indent_of(lines[at]) >= margin + _STEP or _is_item(lines[at], margin):
            break
        if lines[at - 1].endswith(":") and _terms(lines, at, margin)[1]:
            break
        at += 1
    return at


def _is_paragraph(lines: Sequence[str]) -> bool:
    """Whether lines are one paragraph."""
    return all(lines) and len({indent_of(line) for line in lines}) == 1

"""The structure of plain text: underlined and numbered headings, lists, indented code, paragraphs.

Text files have it by convention, and so has text that HTML pages hold as preformatted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise

from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder, clean

_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|(\d{1,3})[.)])[ \t]+(?=\S)")
_UNDERLINE = re.compile(r"([=\-~^*+#\"'])\1{2,}[ \t]*")
_NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,4})\.?[ \t]+(?=[^\W\d_])[^\n]{2,100}(?<![.:;,!?])")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[,.;:!?)]*")
_COMMENT = ("#", "//", "/*", "--", ";", "%", "$", ">")
_CODE_INDENT = 4
_FEWEST_WORDS = 6
_MOSTLY = 0.75


def is_prose(text: str) -> bool:
    """Whether preformatted text is mostly sentences: lines of words, not of code or figures."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = sum(len(line) for line in lines if is_worded(line))
    return len(lines) > 1 and told > _MOSTLY * sum(map(len, lines))


def is_worded(line: str) -> bool:
    """Whether a line is part of a sentence; comments and commands are not."""
    words = line.split()
    if len(words) < _FEWEST_WORDS or line.startswith(_COMMENT):
        return False
    return sum(_WORD.fullmatch(word) is not None for word in words) > _MOSTLY * len(words)


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of a plain text."""
    lines = (line.rstrip() for line in clean(text).expandtabs().split("\n"))
    chunks = [list(chunk) for filled, chunk in groupby(lines, key=bool) if filled]
    reader = _PlainReader(builder, _usual_indent(chunks))
    for chunk, following in pairwise([*chunks, [""]]):
        reader.add(chunk, following[0])
    reader.finish()


def _usual_indent(chunks: Sequence[Sequence[str]]) -> int:
    """How far paragraphs are indented."""
    counts = Counter(indent_of(chunk[0]) for chunk in chunks if is_worded(chunk[0]))
    return counts.most_common(1)[0][0] if counts else 0


def indent_of(line: str) -> int:
    """How many spaces a line begins with."""
    return len(line) - len(line.lstrip(" "))


class _PlainReader:
    """Adds one chunk of lines after another, none of them empty; code and lists may go on over
    several chunks."""

    def __init__(self, builder: DocumentBuilder, indent: int) -> None:
        self._builder = builder
        self._indent = indent
        self._marks: list[str] = []
        self._code: list[str] = []
        self._lists: list[int] = []

    def add(self, chunk: Sequence[str], following: str) -> None:
        """Add a chunk; ``following`` is the first line of the next."""
        at = 0
        while len(chunk) > at + 1 and _is_underline(chunk[at], chunk[at + 1]):
            self._heading(chunk[at], self._level(chunk[at + 1].strip()[0]))
            at += 2
        lines = chunk[at:]
        if not lines:
            return
        if len(lines) == 1 and (number := self._heading_number(lines[0], following)):
            self._heading(lines[0], 1 + number.count("."))
        elif _ITEM.match(lines[0]):
            self._end_code()
            self._items(lines)
        elif self._lists and min(map(indent_of, lines)) > self._lists[0]:
            self._close_lists(min(map(indent_of, lines)) - 1)
            self._paragraph(lines)  # of the last item
        elif self._is_code(lines):
            self._end_lists()
            self._code += ["", *lines] if self._code else lines
        else:
            self.finish()
            self._paragraph(lines)

    def _heading_number(self, line: str, following: str) -> str:
        """The number of a numbered heading, empty if the line is none or an item of a list."""
        found = _NUMBERED.fullmatch(line)
        if found is None or "." in found[1]:
            return found[1] if found else ""
        item = _ITEM.match(following)
        goes_on = item is not None and item[2] == str(int(found[1]) + 1)
        return "" if goes_on or self._lists else found[1]

    def finish(self) -> None:
        self._end_lists()
        self._end_code()

    def _is_code(self, lines: Sequence[str]) -> bool:
        deep = min(map(indent_of, lines))
        if deep < self._indent + (1 if self._code else _CODE_INDENT):
            return False
        return not is_prose("\n".join(lines)) and not is_worded(lines[0])

    def _items(self, lines: Sequence[str]) -> None:
        """The items that begin in these lines, each with the lines that go on with it."""
        item: list[str] = []
        for line in lines:
            mark = _ITEM.match(line)
            if mark is None:
                item.append(line)
                continue
            self._paragraph(item)
            indent, number = len(mark[1]), int(mark[2]) if mark[2] else None
            self._close_lists(indent)
            if not self._lists or indent > self._lists[-1] + 1:
                self._lists.append(indent)
                self._builder.open_list(ordered=number is not None, start=number or 1)
            self._builder.open_item()
            item = [line[mark.end() :]]
        self._paragraph(item)

    def _close_lists(self, indent: int) -> None:
        """Close the inner lists that are indented further than this."""
        while len(self._lists) > 1 and indent < self._lists[-1]:
            self._lists.pop()
            self._builder.close_list()

    def _heading(self, line: str, level: int) -> None:
        self.finish()
        self._builder.heading(level, as_text(line))

    def _level(self, mark: str) -> int:
        if mark not in self._marks:
            self._marks.append(mark)
        return 1 + self._marks.index(mark)

    def _paragraph(self, lines: Sequence[str]) -> None:
        self._builder.paragraph(as_text("\n".join(line.strip() for line in lines)))

    def _end_lists(self) -> None:
        while self._lists:
            self._lists.pop()
            self._builder.close_list()

    def _end_code(self) -> None:
        if self._code:
            shared = min(indent_of(line) for line in self._code if line)
            self._builder.code("\n".join(line[shared:] for line in self._code))
            self._code = []


def _is_underline(title: str, line: str) -> bool:
    ruling = line.strip()
    return (
        _UNDERLINE.fullmatch(ruling) is not None
        and 2 < len(ruling) <= len(title.strip()) + 4
        and len(title.strip()) <= len(ruling) + 4
    )


def as_text(text: str) -> LinkedText:
    """A text without links."""
    builder = TextBuilder()
    builder.write(text)
    return builder.finish()

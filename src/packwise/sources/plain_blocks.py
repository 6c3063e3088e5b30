"""The structure of plain text: headings, lists, terms, indented code, paragraphs. Headings are
underlined, numbered, in capitals, centred, below a ruling, clauses of a contract, or questions.

Text files have it by convention, and so has text that HTML pages hold as preformatted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import groupby, pairwise

from packwise.sources.clauses import centred_title, clause_title, division, page_width
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder, clean
from packwise.sources.plain_terms import Described, TermLayout, indent_of, is_worded
from packwise.sources.terms import TOLD_AT_LENGTH

_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|(\d{1,3})[.)])[ \t]+(?=\S)")
_UNDERLINE = re.compile(r"([=\-~^*+#\"'])\1{2,}[ \t]*")
_RULING = re.compile(r"[ \t]*([=\-~^*+#_])\1{9,}[ \t]*")
_NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,4})\.?[ \t]+(?=[^\W\d_])[^\n]{2,160}(?<![.:;,])")
_ENTRY = re.compile(r"[ ]*\d{1,2}(?:\.\d{1,2})+\.?[ ]+(?=[^\W\d_])")
"""Of a table of contents: "1.1 Boxes". What has a single number may be an item of a list."""
_FEWEST_ENTRIES = 4
_QUESTION = re.compile(r"[ \t]*Q(?:uestion)?[ \t]?\d{0,3}[.:)][ \t]+(?=\S)")
_ANSWER = re.compile(r"[ \t]*A(?:nswer)?[ \t]?\d{0,3}[.:)][ \t]+(?=\S)")
_IN_CAPITALS = re.compile(r"(?=.*[A-Z]{3})(?!.*\d{3})[A-Z\d][A-Z\d ,/&()'\"+-]{2,60}[A-Z)?!]")
_BESIDE_TITLE = re.compile(r"^([-=*#~])\1{2,} +| +([-=*#~])\2{2,}$")
_NO_NUMBER = -2
_LONGEST_TITLE = 80
_MOST_LINES = 3
"""Of a heading."""
_FEWEST_ROWS = 3
_FEWEST_TERMS = 3
_CODE_INDENT = 4
_MOSTLY = 0.75


def is_prose(text: str) -> bool:
    """Whether preformatted text is mostly sentences: lines of words, not of code or figures."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = sum(len(line) for line in lines if is_worded(line))
    return (len(lines) > 1 or text.rstrip().endswith(".")) and told > _MOSTLY * sum(map(len, lines))


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of a plain text."""
    text = clean(text).expandtabs().replace("\N{NO-BREAK SPACE}", " ")
    lines = [line.rstrip() for line in text.split("\n")]
    filled = [list(chunk) for filled, chunk in groupby(lines, key=bool) if filled]
    titles = {chunk[0].strip() for chunk in filled}
    filled = [chunk for chunk in filled if not _is_contents(chunk, titles)]
    chunks = [part for chunk in filled for part in _parts(chunk)]
    reader = _PlainReader(builder, _usual_indent(chunks), TermLayout(lines), page_width(lines))
    for chunk, following in pairwise([*chunks, [""]]):
        reader.add(chunk, following[0])
    reader.end_terms()


def _is_contents(chunk: Sequence[str], titles: Set[str]) -> bool:
    """Whether some lines are a table of contents: most are entries, and most of these stand in the
    text again as one of its ``titles``, the first lines below an empty one."""
    entries = [line.strip() for line in chunk if _ENTRY.match(line)]
    most = len(entries) >= max(_FEWEST_ENTRIES, len(chunk) / 2)
    return most and sum(entry in titles for entry in entries) > len(entries) / 2


def _parts(chunk: Sequence[str]) -> Iterator[Sequence[str]]:
    """The parts of a chunk: a ruling begins one, and what a line announces is one by itself if it
    is a list or no sentence."""
    start = 0
    for at, (line, below) in enumerate(pairwise(chunk), start=1):
        listed = indent_of(below) > indent_of(line) and not is_worded(below)
        listed = line.endswith(":") and is_worded(line) and (listed or _ITEM.match(below))
        ruled = _RULING.fullmatch(below) and not _is_underline(line, below)
        answers = _ANSWER.match(below) and _QUESTION.match(chunk[0])
        if listed or answers or (ruled and not (at > 1 and _RULING.fullmatch(chunk[at - 2]))):
            yield chunk[start:at]
            start = at
    yield chunk[start:]


def _usual_indent(chunks: Sequence[Sequence[str]]) -> int:
    """How far paragraphs are indented."""
    counts = Counter(indent_of(chunk[0]) for chunk in chunks if is_worded(chunk[0]))
    return counts.most_common(1)[0][0] if counts else 0


class _PlainReader:
    """Adds one chunk of lines after another, none of them empty; code and lists may go on over
    several chunks."""

    def __init__(
        self, builder: DocumentBuilder, indent: int, layout: TermLayout, width: int
    ) -> None:
        self._builder = builder
        self._usual_indent = self._indent = indent
        self._layout = layout
        self._width = width
        self._column = 0
        self._below_title = 0
        self._begun = self._headed = False
        self._asked = False
        self._number = _NO_NUMBER
        self._marks: list[str] = []
        self._code: list[str] = []
        self._lists: list[int] = []

    def add(self, chunk: Sequence[str], following: str) -> None:
        """Add a chunk; ``following`` is the first line of the next."""
        lines = self._headings(chunk)
        if lines:
            self._add_lines(lines, following)
        self._begun = True

    def _add_lines(self, lines: Sequence[str], following: str) -> None:
        deep = min(map(indent_of, lines))
        column, terms = self._layout.terms(lines)
        if deep < self._column != column:
            self.end_terms()
        if answer := self._asked and _ANSWER.match(lines[0]):
            lines = [" " * answer.end() + lines[0][answer.end() :], *lines[1:]]
        self._asked = False
        if self._titled(lines, following):
            return
        if _ITEM.match(lines[0]):
            self._end_code()
            self._items(lines)
        elif self._lists and deep > self._lists[0]:
            self._close_lists(deep - 1)
            self._paragraph(lines)  # of the last item
        elif terms:
            self.finish()
            self._describe(column, terms)
        elif self._is_code(lines):
            self._end_lists()
            self._code += ["", *lines] if self._code else lines
        else:
            self.finish()
            self._paragraph(lines)

    def _titled(self, lines: Sequence[str], following: str) -> bool:
        """Add lines that are a heading by their wording or their place, and return whether they
        are; what follows the title of a clause is added too."""
        below = 2 + len(self._marks)
        clause, end = ("", 0) if self._lists else clause_title(lines, following)
        alone = lines[0] if len(lines) == 1 else ""
        if question := self._question(lines, following):
            self._heading(question, below)
            self._asked = True
        elif clause:
            self._heading(clause.removesuffix("."), 1 + below)
            self._paragraph([lines[0][end:], *lines[1:]])
        elif centred := centred_title(lines, self._width):
            self._heading(centred, 2 if self._headed else 1)
        elif depth := division(alone):
            self._heading(alone, below - 1 + depth)
        elif number := self._heading_number(self._beside_text(lines, following), following):
            self._heading(" ".join(lines), 1 + number.count("."))
        elif _IN_CAPITALS.fullmatch(alone[min(indent_of(alone), self._usual_indent) :]):
            self._heading(alone, below)
        else:
            return False
        return True

    def _headings(self, chunk: Sequence[str]) -> Sequence[str]:
        """Add the headings that a chunk begins with; returns the lines after them."""
        at = 0
        while at < len(chunk):
            below = chunk[at + 1] if len(chunk) > at + 1 else ""
            if _RULING.fullmatch(chunk[at]):
                rest = chunk[at + 2 : at + 3]
                boxed = rest == chunk[at : at + 1]
                if 0 < len(below) <= _LONGEST_TITLE and (boxed or not rest):
                    self._heading(below, self._level(chunk[at].strip()[0]))
                    at += 1 + boxed
                at += 1
            elif below and _is_underline(chunk[at], below):
                self._heading(chunk[at], self._level(below.strip()[0]))
                at += 2
            else:
                break
        return chunk[at:]

    def _describe(self, column: int, found: Sequence[Described]) -> None:
        """Add terms: as a table if there are many in these lines, of which little is said, or if
        they belong to another one; else as terms of which more may be said."""
        rows = [(", ".join(one.terms), " ".join(one.lines)) for one in found]
        brief = sum(len(text) for _, text in rows) < TOLD_AT_LENGTH * len(rows)
        if (len(rows) >= _FEWEST_ROWS and brief) or 0 < self._column < column:
            self._builder.table([[as_text(cell) for cell in row] for row in rows])
            return
        if self._column != column:
            self._builder.open_terms(_FEWEST_TERMS)
            self._column = self._indent = column
        for name, text in rows:
            self._builder.term(name)
            self._builder.paragraph(as_text(f"{name}\n{text}"))

    def end_terms(self) -> None:
        """End everything that is open."""
        self.finish()
        self._builder.close_terms()
        self._column, self._indent = 0, self._usual_indent

    def _question(self, lines: Sequence[str], following: str) -> str:
        """The question that some lines ask, marked as such or with a number of its own; empty if
        they ask none."""
        text = " ".join(" ".join(lines).split())
        if _QUESTION.match(lines[0]):
            return _QUESTION.sub("", text, count=1)
        item = _ITEM.match(lines[0])
        if item is None or item[2] is None or _ITEM.match(following):
            return ""
        # Among numbered questions there may be complaints.
        if not text.endswith("?") and int(item[2]) != self._number + 1:
            return ""
        self._number = int(item[2])
        return text

    def _beside_text(self, lines: Sequence[str], following: str) -> str:
        """A line alone, or a few that stand further left than the text below them: one heading."""
        left = not any(map(indent_of, lines)) and indent_of(following) >= self._usual_indent > 0
        most = _MOST_LINES if left else 1
        return " ".join(lines) if len(lines) <= most else ""

    def _heading_number(self, line: str, following: str) -> str:
        """The number of a numbered heading, empty if the line is none or an item of a list. Below
        a part, as in "1.3", it may be a question."""
        found = _NUMBERED.fullmatch(line)
        if found is None or "." in found[1]:
            return found[1] if found else ""
        if line.endswith(("?", "!")):
            return ""
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
        self.end_terms()
        if not self._headed:
            # Below other text, the first heading is not the title of the whole.
            self._below_title = int(self._begun)
            self._headed = True
        level += self._below_title
        self._builder.heading(level, as_text(_BESIDE_TITLE.sub("", line.strip())))

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

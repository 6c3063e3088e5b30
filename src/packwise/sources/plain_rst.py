"""Plain text laid out like reStructuredText, read line by line in linear time.

``pydoc`` topics look like this. It is also the fallback for reStructuredText that is too large
for docutils: underlined headings, paragraphs, bullets, indented code, definitions and grid
tables are recognised by their layout alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import Anchor, LinkedText, TextBuilder

FindLinks = Callable[[str], tuple[Anchor, ...]]

_DEEPEST = 30
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$")
_BULLET = re.compile(r"[ ]*(?:([*+\-•])|\(?(\d{1,9}|#)[.)])[ ]+(?=\S)")
_FOOTNOTE = re.compile(r"(?:\.\. )?(\[[#\w]{1,40}\])[ ]+(?=\S)")
_DIRECTIVE = re.compile(r"\.\.[ ]+([\w:+.\-]+)::(?:[ ]+(.*))?$")
_RUBRIC = re.compile(r"-\[ (.+) \]-$")
_LABEL = re.compile(r"(?:Note|Warning|See also|Important|Tip|Caution|Attention|Hint)[^.]{0,30}:$")
_PROMPT = re.compile(r">>> |\(Pdb\) |[$>] ")
_CODE_DIRECTIVES = frozenset("code code-block sourcecode parsed-literal doctest math".split())
_WORD = re.compile(r"""["“‘'(\[*]*[A-Za-z][A-Za-z’'\-]*[)\]"”’'*.,;:!?…]*$|["“*]\S*$""")
_SENTENCE_START = re.compile(r"""["“‘'(\[*]*[A-Z0-9]""")
_BROKEN_WORD = re.compile(r"(?<=[a-z])-$")
_MARKUP = re.compile(
    r"""(?P<quoted>"[^"\n]*")"""
    r"""|``(?P<literal>[^`]+)``"""
    r"""|(?::[\w:+.\-]{1,80}:)?`(?P<shown>[^`<]++)(?:<(?P<href>[^`<>]++)>)?`_{0,2}"""
    r"""|(?<![\w*])\*\*(?P<strong>[^\s*](?:[^*\n]*[^\s*])?)\*\*(?![\w*])"""
    r"""|(?<![\w*])\*(?P<emphasis>[^\s*](?:[^*\n]*[^\s*])?)\*(?![\w*])"""
)


def read(builder: DocumentBuilder, text: str, find_links: FindLinks | None = None) -> None:
    """Add the blocks of a text to a builder.

    ``find_links`` gets the text of each paragraph and returns the links in it.
    """
    lines = [line.rstrip().expandtabs() for line in text.split("\n")]
    _PlainRstReader(builder, lines, find_links).region(0, len(lines), 0, 0)


class _PlainRstReader:
    """``_lead`` is text that goes in front of the next paragraph."""

    def __init__(
        self, builder: DocumentBuilder, lines: list[str], find_links: FindLinks | None
    ) -> None:
        self._builder = builder
        self._lines = lines
        self._find_links = find_links
        self._styles: list[str] = []
        self._lead = ""

    def region(self, at: int, end: int, margin: int, depth: int) -> None:
        """Read ``lines[at:end]``, whose text starts at column ``margin``."""
        while at < end:
            if not self._lines[at]:
                at += 1
            elif self._indent(at) > margin:
                after = self._deeper_until(at, end, margin)
                self._indented(at, after, depth)
                at = after
            else:
                at = self._one(at, end, depth)
        self._flush()

    def _one(self, at: int, end: int, depth: int) -> int:
        """Read what starts at line ``at``; returns the line after it."""
        line = self._lines[at]
        margin = self._indent(at)
        if (after := self._heading(at, end)) > at:
            return after
        if line.startswith(("+-", "+="), margin):
            return self._table(at, end, margin)
        if depth < _DEEPEST:
            if bullet := _BULLET.match(line):
                return self._list(bullet, at, end, margin, depth)
            if footnote := _FOOTNOTE.match(line, margin):
                self._start(f"{footnote[1]} ")
                return self._item(at, end, margin, footnote.end(), depth)
        if line.startswith("..", margin) and line[margin + 2 : margin + 3] in ("", " "):
            return self._directive(at, end, margin, depth)
        return self._paragraph(at, end, margin, depth)

    def _heading(self, at: int, end: int) -> int:
        over = at + 2 < end and self._is_adornment(at) and self._lines[at] == self._lines[at + 2]
        title = at + 1 if over else at
        under = title + 1
        if self._indent(at) or under >= end or not self._is_adornment(under):
            return self._transition(at)
        words = self._lines[title].strip()
        if not words or _ADORNMENT.match(words) or len(self._lines[under]) < min(len(words), 4):
            return self._transition(at)
        style = self._lines[under][0] + ("=" if over else "")
        if style not in self._styles:
            self._styles.append(style)
        self._flush()
        self._builder.heading(self._styles.index(style) + 1, self._span(words))
        return under + 1

    def _transition(self, at: int) -> int:
        return at + 1 if self._is_adornment(at) and len(self._lines[at]) > 3 else at

    def _is_adornment(self, at: int) -> bool:
        return _ADORNMENT.match(self._lines[at]) is not None

    def _table(self, at: int, end: int, margin: int) -> int:
        columns = [m.start() for m in re.finditer(r"\+", self._lines[at])]
        rows: list[list[LinkedText]] = []
        cells: list[list[str]] = [[] for _ in columns[1:]]
        after = at
        while after < end and self._lines[after].startswith(("+", "|"), margin):
            line = self._lines[after]
            if line.startswith(("+-", "+=", "|=", "|-"), margin):
                rows.append([self._span(" ".join(cell)) for cell in cells])
                cells = [[] for _ in columns[1:]]
            else:
                for cell, left, right in zip(cells, columns, columns[1:], strict=False):
                    if part := line[left + 1 : right].strip():
                        cell.append(part)
            after += 1
        rows.append([self._span(" ".join(cell)) for cell in cells])
        self._flush()
        self._builder.table(rows)
        return after

    def _directive(self, at: int, end: int, margin: int, depth: int) -> int:
        """A directive keeps its text; targets and comments are dropped."""
        after = self._deeper_until(at + 1, end, margin)
        if directive := _DIRECTIVE.match(self._lines[at], margin):
            if directive[1] in _CODE_DIRECTIVES:
                self._code(at + 1, after)
            else:
                self._emit(directive[2] or "")
                text = self._skip_blank(at + 1, after)
                self.region(text, after, self._indent(text) if text < after else 0, depth + 1)
        return after

    def _list(self, first: re.Match[str], at: int, end: int, margin: int, depth: int) -> int:
        self._flush()
        ordered = first[1] is None
        start = int(first[2]) if first[2] and first[2] != "#" else 1
        self._builder.open_list(ordered=ordered, start=start)
        while at < end:
            marker = _BULLET.match(self._lines[at])
            if marker is None or (marker[1] is None) != ordered or self._indent(at) != margin:
                break
            self._builder.open_item()
            at = self._item(at, end, margin, marker.end(), depth)
            self._builder.close_item()
            at = self._skip_blank(at, end)
        self._builder.close_list()
        return at

    def _item(self, at: int, end: int, margin: int, column: int, depth: int) -> int:
        """Read what belongs to a marker, from ``column`` on."""
        self._lines[at] = " " * column + self._lines[at][column:]
        after = self._deeper_until(at, end, margin)
        self.region(at, after, column, depth + 1)
        return after

    def _paragraph(self, at: int, end: int, margin: int, depth: int) -> int:
        after = at + 1
        while after < end and self._lines[after] and self._indent(after) == margin:
            if after + 1 < end and self._is_adornment(after + 1) and not margin:
                break
            after += 1
        lines = [line.strip() for line in self._lines[at:after]]
        if _PROMPT.match(lines[0]):
            after = next((i for i in range(after, end) if not self._lines[i]), end)
            self._code(at, after)
            return after
        below = self._skip_blank(after, end)
        until = self._deeper_until(below, end, margin)
        if until == below:
            self._emit(_joined(lines))
            return after
        if lines[-1].endswith("::"):
            self._emit(_joined(lines)[:-1])
            self._code(below, until)
        elif depth < _DEEPEST and (_is_label(lines) or self._is_described(below, until)):
            self._lead_in(lines)
            self.region(below, until, self._indent(below), depth + 1)
        else:
            self._emit(_joined(lines))
            self._indented(below, until, depth)
        return until

    def _lead_in(self, lines: list[str]) -> None:
        """A term stays with its definition, a label with what it labels."""
        if _is_label(lines):
            self._start(f"{lines[0]} ")
        elif any(line.endswith((".", ":", ",", ";")) for line in lines):
            self._emit(_joined(lines))
        else:
            self._start("\n".join(lines) + "\n")

    def _indented(self, at: int, end: int, depth: int) -> None:
        if depth < _DEEPEST and self._is_described(at, end):
            self.region(at, end, self._indent(at), depth + 1)
        else:
            self._code(at, end)

    def _is_described(self, at: int, end: int) -> bool:
        """Whether an indented region is text rather than code."""
        margin = self._indent(at)
        line = self._lines[at]
        if line.startswith(("+-", ".. "), margin):
            return True
        if (bullet := _BULLET.match(line)) is not None:
            return _is_prose([line[bullet.end() :]]) or bullet[1] is not None
        lines = self._aligned(at, end)
        if _is_label(lines) or _is_prose(lines):
            return True
        if _PROMPT.match(lines[0]):
            return False
        # A term with its definition: prose that is indented further.
        below = self._skip_blank(at + len(lines), end)
        if below >= end or self._indent(below) <= margin:
            return False
        return _is_prose(self._aligned(below, end))

    def _code(self, at: int, end: int) -> None:
        self._flush()
        margin = min((self._indent(i) for i in range(at, end) if self._lines[i]), default=0)
        self._builder.code("\n".join(line[margin:] for line in self._lines[at:end]))

    def _emit(self, text: str) -> None:
        rubric = _RUBRIC.match(text)
        span = self._span(rubric[1] if rubric else text)
        inline = TextBuilder()
        inline.write(self._lead)
        inline.add(span)
        self._lead = ""
        self._builder.paragraph(inline.finish())

    def _flush(self) -> None:
        if self._lead:
            self._emit("")

    def _start(self, lead: str) -> None:
        self._flush()
        self._lead = lead

    def _span(self, text: str) -> LinkedText:
        span = _without_markup(text)
        if self._find_links is None:
            return span
        return LinkedText(span.text, (*span.anchors, *self._find_links(span.text)))

    def _indent(self, at: int) -> int:
        line = self._lines[at]
        return len(line) - len(line.lstrip(" "))

    def _aligned(self, at: int, end: int) -> list[str]:
        """The lines from ``at`` to the next that is blank or has another indent, stripped."""
        margin = self._indent(at)
        lines = takewhile(lambda i: self._lines[i] and self._indent(i) == margin, range(at, end))
        return [self._lines[i].strip() for i in lines]

    def _skip_blank(self, at: int, end: int) -> int:
        while at < end and not self._lines[at]:
            at += 1
        return at

    def _deeper_until(self, at: int, end: int, margin: int) -> int:
        """The line after those from ``at`` on that are blank or indented further."""
        while at < end and (not self._lines[at] or self._indent(at) > margin):
            at += 1
        return at


def _without_markup(text: str) -> LinkedText:
    """A paragraph without its inline markup; text in double quotes is literal."""
    inline = TextBuilder()
    position = 0
    for found in _MARKUP.finditer(text):
        inline.write(text[position : found.start()])
        position = found.end()
        if found["quoted"] is not None:
            inline.write(found["quoted"])
        elif found["href"] is not None:
            inline.link(found["href"], found["shown"].rstrip())
        else:
            inline.write(found["literal"] or found["shown"] or found["strong"] or found["emphasis"])
    inline.write(text[position:])
    return inline.finish()


def _joined(lines: list[str]) -> str:
    """Several lines as one; words that were broken at a hyphen are joined."""
    return "".join(
        line + ("" if not after or (_BROKEN_WORD.search(line) and after[0].islower()) else " ")
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
    )


def _is_label(lines: list[str]) -> bool:
    return len(lines) == 1 and _LABEL.match(lines[0]) is not None


def _is_prose(lines: list[str]) -> bool:
    """Whether lines are sentences rather than code, by their first letter and their words."""
    text = _joined(lines)
    if "::=" in text or _PROMPT.match(text) or 2 * sum("    " in x for x in lines) > len(lines):
        return False
    words = text.split()
    likely = sum(1 for word in words if _WORD.match(word))
    if not _SENTENCE_START.match(text):
        return text.endswith(".") and len(words) > 5 and likely >= 0.9 * len(words)
    return likely >= 0.6 * len(words) and (len(words) > 2 or text.endswith((".", ":")))

"""Manual pages as a terminal shows them: preformatted in HTML pages, or saved as text.

Sections are named at the margin, text is indented, and what describes an option or a parameter is
indented further, below it or beside it. Lines are justified with spaces and words are hyphenated.
"""

from __future__ import annotations

import re
from collections import Counter

from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import clean
from packwise.sources.plain_blocks import as_text, is_prose
from packwise.sources.plain_terms import indent_of, is_worded

_NAMED = re.compile(r"[A-Z][A-Z0-9 ,/&()'.-]{2,70}")
_RUNNING = re.compile(
    r"\S+\(\d\w{0,4}\) {3,}.*\S+\(\d\w{0,4}\)|\S+ {3,}.{0,60} {3,}\S+\(\d\w{0,4}\)"
)
"""The line above and below every page."""
_BESIDE = re.compile(r"( +)(\S.{0,9}?) {2,}(\S.*)")
_BULLETS = frozenset("o*•+-")
_INNER_TERM = re.compile(r"-{1,2}\S.*|\w[\w.-]*(?: \(.*\))?|[o*•+-]|\(?\w{1,3}[.)]")
"""What may have a description inside another one; other lines before deeper ones are code."""
_HYPHENATED = re.compile(r"(?<=[a-z]{2})-\n(?=[a-z]{2})")
_WIDEST = 200
_DEEPER = 3
_USUAL_INDENT = 7
_CODE_SECTIONS = frozenset(("SYNOPSIS", "USAGE"))


def is_manual(text: str) -> bool:
    """Whether a text is a manual page: its first sections are the name and what it does."""
    named = {line.rstrip() for line in text.splitlines() if _NAMED.fullmatch(line.rstrip())}
    return "NAME" in named and not named.isdisjoint({"SYNOPSIS", "DESCRIPTION"})


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of a manual page."""
    lines = [line.rstrip() for line in clean(text).expandtabs().split("\n")]
    indents = Counter(indent_of(line) for line in lines if is_worded(line))
    # Descriptions may have more lines than the text that they are indented from.
    often = [i for i, n in indents.items() if 4 * n >= max(indents.values())]
    reader = _ManualReader(builder, min(often, default=_USUAL_INDENT))
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if len(line) > _WIDEST or not _RUNNING.fullmatch(line):
            reader.add(line, following)
    reader.flush()


class _ManualReader:
    """Takes the lines one by one. ``_term`` waits for its description."""

    def __init__(self, builder: DocumentBuilder, indent: int) -> None:
        self._builder = builder
        self._lines: list[str] = []
        self._term = ""
        self._indent = indent
        self._section = ""

    def add(self, line: str, following: str) -> None:
        """Add a line; ``following`` is the one after it."""
        indent = indent_of(line)
        if not line:
            self.flush()
        elif indent == 0 and _NAMED.fullmatch(line):
            self._name(2, line)
        elif 0 < indent < self._indent and not is_worded(line):
            self._name(3, line)
        else:
            self._text(line, indent, following)

    def _name(self, level: int, line: str) -> None:
        self.flush()
        self._end_term()
        self._section = line if level == 2 else self._section
        self._builder.heading(level, as_text(line.strip().rstrip(":")))

    def _text(self, line: str, indent: int, following: str) -> None:
        if self._section in _CODE_SECTIONS:
            self._lines.append(line)
            return
        beside = _BESIDE.fullmatch(line)
        below = following and indent_of(following) >= indent + _DEEPER
        if beside and indent_of(following) == beside.start(3) and not self._lines:
            self._begin(beside[2])
            self._lines.append(" " * beside.start(3) + beside[3])
        elif below and self._is_term(line, indent):
            self._begin(line.strip())
        else:
            if self._lines and (
                indent < self._last() or (indent > self._last() and is_worded(line))
            ):
                self.flush()
            self._lines.append(line)

    def _is_term(self, line: str, indent: int) -> bool:
        if is_worded(line) or (self._lines and indent >= self._last()):
            return False
        return indent <= self._indent or _INNER_TERM.fullmatch(line.strip()) is not None

    def _last(self) -> int:
        return indent_of(self._lines[-1])

    def _begin(self, term: str) -> None:
        self.flush()
        if term in _BULLETS:
            return
        # Several options may share one description.
        self._term = f"{self._term}\n{term}" if self._term else term

    def _end_term(self) -> None:
        if self._term:
            self._builder.paragraph(as_text(self._term))
            self._term = ""

    def flush(self) -> None:
        """Add the paragraph or the code that has come together."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        if self._is_code(lines):
            shared = min(map(indent_of, lines))
            self._end_term()
            self._builder.code("\n".join(line[shared:] for line in lines))
            return
        text = _HYPHENATED.sub("", "\n".join(line.strip() for line in lines))
        text = " ".join(text.split())
        self._builder.paragraph(as_text(f"{self._term}\n{text}" if self._term else text))
        self._term = ""

    def _is_code(self, lines: list[str]) -> bool:
        if self._section in _CODE_SECTIONS:
            return True
        if self._term or indent_of(lines[0]) <= self._indent or lines[-1].endswith((".", ":")):
            return False
        return not is_prose("\n".join(lines)) and not any(map(is_worded, lines))

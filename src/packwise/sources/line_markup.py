"""What the readers of AsciiDoc and Org share: markup that is recognised line by line, in time
linear in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from packwise.sources.access import access, access_key
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.front_matter import metadata
from packwise.sources.linked_text import LinkedText, TextBuilder

_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s+")


@dataclass(frozen=True, slots=True)
class Inline:
    """A pattern of inline markup; ``write`` adds what a match stands for."""

    pattern: re.Pattern[str]
    write: Callable[[TextBuilder, re.Match[str]], None]

    def span(self, text: str) -> LinkedText:
        inline = TextBuilder()
        position = 0
        for found in self.pattern.finditer(text):
            inline.write_flowing(text[position : found.start()])
            self.write(inline, found)
            position = found.end()
        inline.write_flowing(text[position:])
        return inline.finish()


class LineReader:
    """Collects lines into paragraphs and items into lists; a subclass knows the marks."""

    inline: Inline

    def __init__(self, builder: DocumentBuilder, text: str) -> None:
        self.builder = builder
        self.lines = text.expandtabs(4).split("\n")
        self.at = 0
        self._paragraph: list[str] = []
        self._depths: list[int] = []
        self.values: dict[str, str] = {}

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at].rstrip()
            self.at += 1
            if not line.strip():
                self.blank_line()
            elif not self.special(line):
                self._paragraph.append(line.strip())
        self.end_list()
        known = ("author", "date", "revdate", "description", "keywords")
        taken = {k: value for k, value in self.values.items() if k in known or access_key(k)}
        self.builder.metadata |= metadata({**self.builder.metadata, **taken})

    def give(self, name: str, value: str) -> None:
        """Remember a value of the file. Who may see a part may see the whole, so a second value
        of an access key has to be the same."""
        if access_key(name):
            access([(name, self.values.get(name, value)), (name, value)])
        self.values[name] = value

    def special(self, line: str) -> bool:
        """Read what starts at a line, if it is no paragraph."""
        raise NotImplementedError

    def blank_line(self) -> None:
        self.end_paragraph()

    def span(self, text: str) -> LinkedText:
        return self.inline.span(text)

    def end_paragraph(self) -> None:
        text = " ".join(self._paragraph)
        self._paragraph = []
        if text:
            self.builder.paragraph(self.span(_ADMONITION.sub(_named, text, count=1)))

    def end_list(self) -> None:
        self.end_paragraph()
        while self._depths:
            self._depths.pop()
            self.builder.close_item()
            self.builder.close_list()

    def heading(self, level: int, text: str) -> None:
        self.end_list()
        self.builder.heading(level, self.span(text))

    def item(self, depth: int, text: str, *, ordered: bool) -> None:
        self.end_paragraph()
        while self._depths and self._depths[-1] > depth:
            self._depths.pop()
            self.builder.close_list()
        if not self._depths or self._depths[-1] < depth:
            self._depths.append(depth)
            self.builder.open_list(ordered=ordered)
        self.builder.open_item()
        self._paragraph = [text]

    @property
    def in_list(self) -> bool:
        return bool(self._depths)

    def until(self, ends: Callable[[str], bool]) -> list[str]:
        """The lines before the next that ends a block, which is passed over too."""
        start = self.at
        while self.at < len(self.lines) and not ends(self.lines[self.at].strip()):
            self.at += 1
        self.at += 1
        return self.lines[start : self.at - 1]

    def code(self, lines: list[str]) -> None:
        self.end_list()
        self.builder.code("\n".join(lines))

    def table(self, rows: list[list[str]]) -> None:
        self.end_list()
        self.builder.table([[self.span(cell) for cell in row] for row in rows])


def _named(match: re.Match[str]) -> str:
    return f"{match[1].capitalize()}: "

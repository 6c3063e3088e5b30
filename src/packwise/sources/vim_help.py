"""Help files of Vim and its plugins: plain text with marks.

``*name*`` is a target and ``|name|`` a link to one, ``>`` and ``<`` enclose code, and ``~`` ends a
line that is highlighted: a heading at the margin, else what is seen on the screen.
"""

from __future__ import annotations

import re

from packwise.sources import plain_blocks
from packwise.sources.document_builder import DocumentBuilder

_FIRST = re.compile(r"\*[\w.+-]{1,80}\.(?:txt|\w\wx)\*(?=\s)")
_NUMBER = re.compile(r"^\*(\d+\.\d+)\*\s+")
_TARGET = re.compile(r"(?:(?<=\s)|^)\*[^*\s|]{1,100}\*(?=\s|$)")
_LINK = re.compile(r"\|([^|\s]{1,100})\|")
_OF_CONTENTS = re.compile(
    r" *(?:\d[\d.]*\s+\S.*\|[^|\s]+\|(?:\s+\*\S+\*)*|\|\d+\.\d+\|\s.*"
    r"|(?:Next|Previous) chapter: .*|Table of contents: .*)"
)
_CODE_START = re.compile(r"(?:^|\s)>(?:\w*)$")
_OR = re.compile(r"^(\S.{0,40}?)\s+or$")
_MODELINE = re.compile(r"(?:^|\s)vim:.*\bft=help\b|^Copyright: see \|")
_CENTRED = 8


def is_help(text: str) -> bool:
    """Whether a text begins like a help file: with its own name as a target."""
    return _FIRST.match(text) is not None


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of a help file."""
    title, text = _as_plain_text(text)
    builder.fallback_title = builder.fallback_title or title
    plain_blocks.read(builder, text)


def _as_plain_text(text: str) -> tuple[str, str]:
    """The title of a help file and its text without marks."""
    first, *lines = text.expandtabs().split("\n")
    title = _FIRST.sub("", first).strip()
    if title.startswith("For Vim"):
        title = first[1 : first.index(".")].capitalize()
    shown: list[str] = []
    in_code = False
    for line in lines:
        if in_code and line[:1] not in ("", " "):
            # Code ends at the margin, or at its mark.
            shown.append("")
            line = f" {line[1:]}" if line.startswith("<") else line
            in_code = False
        if not any(shown) and line.startswith(" " * _CENTRED):
            title = title if " MANUAL" in line else _TARGET.sub("", line).strip() or title
        elif not _OF_CONTENTS.fullmatch(line) and not _MODELINE.search(line):
            bare = _LINK.sub(r"\1", _TARGET.sub("", _NUMBER.sub(r"\1 ", line))).rstrip()
            if bare or not line.strip():
                shown += _unmarked(bare)
            in_code |= _CODE_START.search(line) is not None
    return title, "\n".join(shown)


def _unmarked(line: str) -> list[str]:
    """A line without the marks of code and of highlighted lines."""
    line, is_code_next = _CODE_START.subn("", _OR.sub(r"\1", line))
    if is_code_next:
        return [line, ""]
    if line.endswith(" ~"):
        line = line[:-2].rstrip()
        return [line] if "  " in f" {line}" else ["", line, "~" * len(line)]
    return [line]

"""Plain text: paragraphs, kept to the letter."""

from __future__ import annotations

import re

from packwise.sources import front_matter
from packwise.sources.flow import Draft, Flow, Inline

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def read(text: str) -> Draft:
    """Every run of lines without an empty one between them is a paragraph."""
    matter = front_matter.split(text)
    flow = Flow()
    write_paragraphs(flow, matter.rest)
    return Draft(flow, matter.title, matter.url, matter.lang, dict(matter.metadata))


def write_paragraphs(flow: Flow, text: str) -> None:
    """Add the paragraphs of a plain text, with their line breaks."""
    for part in _BLANK_LINES.split(text):
        inline = Inline()
        inline.write(part)
        flow.paragraph(inline.finish())

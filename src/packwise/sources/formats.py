"""Which reader takes which file."""

from __future__ import annotations

from packwise.sources.flow import Draft

ROWS = "rows"
"""The format of files that hold one document a line."""

SUFFIXES = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
    ".text": "text",
    ".rst": "rst",
    ".jsonl": ROWS,
    ".jsonl.gz": ROWS,
}


def suffix(name: str) -> str:
    """The last suffix of a file name, lower case, with ``.gz`` and what it wraps as one."""
    stem, dot, last = name.lower().rpartition(".")
    if not stem or not dot:
        return ""
    if last == "gz":
        return suffix(stem) + ".gz"
    return f".{last}"


def format_of(name: str) -> str | None:
    """The format of a file with this name; ``None`` if no reader takes it."""
    return SUFFIXES.get(suffix(name))


def parse(format: str, text: str) -> Draft:
    """Read a text in a format. The reader is imported when it is first needed."""
    match format:
        case "markdown":
            from packwise.sources.markdown import read
        case "html":
            from packwise.sources.html import read
        case "rst":
            from packwise.sources.rst import read
        case _:
            from packwise.sources.text import read
    return read(text)

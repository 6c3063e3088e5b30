"""Configuration files: code, below a heading per section or top-level key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packwise.sources.decoding import decode, file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText
from packwise.sources.readers import SourceFile

_GENERATED = frozenset(
    "poetry.lock uv.lock pnpm-lock.yaml pdm.lock cargo.lock pubspec.lock".split()
)
_SECTION = re.compile(r"^\[{1,2}([^\[\]\n]+)\]{1,2}[ \t]*(?:[#;].*)?$")
_TOP_LEVEL = re.compile(r"""^(["']?)([A-Za-z_][^:\s"'#]*(?: [^:\s"'#]+)*)\1[ \t]*:(?:[ \t]|$)""")
_COMMENT = re.compile(r"^[#;]")


def is_written_by_hand(path: Path) -> bool:
    """Whether a file is not one that a package manager keeps for itself."""
    return path.name.lower() not in _GENERATED


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add a file with ``[sections]`` (TOML, INI) or ``key:`` at the start of a line (YAML)."""
    lines = decode(file_bytes(file.path))[0].split("\n")
    builder.title = file.path.name
    sections = any(map(_SECTION.match, lines))
    pattern, group = (_SECTION, 1) if sections else (_TOP_LEVEL, 2)
    small: list[str] = []
    for name, part in _parts(lines, pattern, group):
        # The short values at the top of a YAML file need no headings of their own.
        if not sections and len(part) < 2:
            small += part
            continue
        builder.code("\n".join(small))
        small = []
        if name:
            builder.heading(2, LinkedText(name))
        builder.code("\n".join(part))
    builder.code("\n".join(small))


def _parts(
    lines: list[str], pattern: re.Pattern[str], group: int
) -> Iterator[tuple[str, list[str]]]:
    """The parts of a file with their names. Comments belong to what they stand above."""
    name = ""
    part: list[str] = []
    comments: list[str] = []
    for line in lines:
        if found := pattern.match(line):
            yield name, part
            name, part, comments = found[group].strip(), [*comments, line], []
        elif _COMMENT.match(line):
            comments.append(line)
        else:
            part += [*comments, line]
            comments = []
    yield name, [*part, *comments]

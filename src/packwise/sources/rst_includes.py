"""The ``include``, ``literalinclude`` and ``csv-table`` directives of reStructuredText, resolved to
files of the same source folder."""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packwise.errors import SourceError
from packwise.lazy_pattern import lazy_pattern
from packwise.sources import front_matter
from packwise.sources.access import KEYS, access_key
from packwise.sources.decoding import check_size, decode, file_bytes
from packwise.sources.ignore import BUILT_IN, FILES, IgnoreRules
from packwise.sources.secrets import secret_in

SIZE_LIMIT = 500_000
"""Characters that one document may include, all files together."""

READ_LIMIT = 10_000_000
"""Characters of all files that are read for it, of which it may want a few lines only."""

DEEPEST = 8
"""How many files may be open, one in another."""

_LEADING = 20_000
_DIRECTIVE = lazy_pattern(
    r"(?m)^([ \t]*)\.\. (include|literalinclude)::[ \t]+(\S[^\n]*)$"
    r"((?:\n\1[ \t]+:[\w-]+:[^\n]*$)*)"
)
_TABLE = lazy_pattern(
    r"(?m)^([ \t]*)\.\. csv-table::([^\n]*)$"
    r"((?:\n\1[ \t]+:[\w-]+:[^\n]*$)*?)\n\1[ \t]+:file:([^\n]*)$((?:\n\1[ \t]+:[\w-]+:[^\n]*$)*)"
)
_OPTION = lazy_pattern(r"(?m)^[ \t]*:([\w-]+):(.*)$")
_FIELD = lazy_pattern(r":([^\s:][^:\n]{0,60}):(?:[ \t]+(.*)|$)")
_NAMED = lazy_pattern(r"(?m)^:([\w-]{1,60}):")
_META = lazy_pattern(r"(?m)^\.\. meta::[ \t]*\n((?:[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)+)")
# A blank line, a comment or target, what is indented below it, or the line of a title.
_NO_PARAGRAPH = lazy_pattern(r"\s|$|\.\.(?:\s|$)|([!-/:-@\[-`{-~])\1*\s*$")


def leading_fields(text: str) -> Iterator[tuple[str, str]]:
    """The fields before the first paragraph. Who may see a document must not depend on how
    docutils judges its beginning: it knows no fields below a title. Those of ``meta`` directives
    too."""
    for directive in _META.finditer(text):
        for name, value in _OPTION.findall(directive[1]):
            yield name, value.strip()
    lines = text[:_LEADING].split("\n")
    at = 0
    while at < len(lines):
        if field := _FIELD.match(lines[at]):
            at += 1
            value = [field[2] or ""]
            while at < len(lines) and lines[at][:1].isspace() and lines[at].strip():
                value.append(lines[at].strip())
                at += 1
            yield field[1], " ".join(value)
        elif _NO_PARAGRAPH.match(lines[at]) or _NO_PARAGRAPH.match(
            " ".join(lines[at + 1 : at + 2])
        ):
            at += 1
        else:
            return


def is_restricted(text: str) -> bool:
    """Whether a text says who may see it. No part of it may then appear in another document.
    AsciiDoc may say so on any line."""
    try:
        builder, rest = front_matter.split(text)
    except SourceError:
        return True
    declared = any(key in builder.metadata for key in KEYS)
    names = [*_NAMED.findall(rest), *(name for name, _ in leading_fields(rest))]
    return declared or any(map(access_key, names))


@dataclass(slots=True)
class Left:
    """What one document may still insert and read."""

    inserting: int = field(default_factory=lambda: SIZE_LIMIT)
    reading: int = field(default_factory=lambda: READ_LIMIT)


class Includes:
    """Inserts the files below one folder into the texts that include them.

    A file outside the folder, an ignored one, one that says who may see it, and one that includes
    itself is not inserted. Paths that start with ``/`` begin at the folder of the document's
    ``conf.py``, which is ``project``.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._rules: dict[str, IgnoreRules] = {}

    def expand(self, document_id: str, text: str, project: str = "") -> str:
        """The text with the files that it includes in their places."""
        if "include::" not in text and "csv-table::" not in text:
            return text
        return self._expand(document_id, text, project, (document_id,), Left())

    def _expand(
        self, base: str, text: str, project: str, open_files: tuple[str, ...], left: Left
    ) -> str:
        def insert(found: re.Match[str]) -> str:
            indent, name, path = found[1], found[2], found[3].rstrip()
            options = {key: value.strip() for key, value in _OPTION.findall(found[4])}
            target = _target(base, path, project)
            part = self._part(target, options, open_files, left)
            if part is None:
                return found[0]
            if name == "literalinclude" or not options.keys().isdisjoint(("literal", "code")):
                return f"{indent}::\n\n{_indented(part, indent + '   ')}\n"
            part = self._expand(target, part, project, (*open_files, target), left)
            return f"\n{_indented(part, indent)}\n"

        def fill(found: re.Match[str]) -> str:
            indent, title, before, path, after = found.groups()
            part = self._part(_target(base, path.strip(), project), {}, open_files, left)
            if part is None:
                return found[0]
            rows = _indented(part, f"{indent}   ")
            return f"{indent}.. csv-table::{title}{before}{after}\n\n{rows}\n"

        # Tables first: code that is included stays as it is.
        return _DIRECTIVE.sub(insert, _TABLE.sub(fill, text))

    def _part(
        self, target: str, options: Mapping[str, str], open_files: tuple[str, ...], left: Left
    ) -> str | None:
        """What a directive takes of a file; ``None`` if it may not, or what is left is too
        little."""
        if target in open_files or len(open_files) > DEEPEST or left.reading <= 0:
            return None
        included = self.read(target)
        if included is None:
            return None
        part = _selected(included, options)
        left.reading -= len(included)
        if len(part) > left.inserting:
            return None
        left.inserting -= len(part)
        return part

    def read(self, target: str) -> str | None:
        """The text of a file that may be included; ``None`` if it may not."""
        path = self._root / target
        if target.startswith(("../", "/")) or target in ("..", ".") or secret_in(target, ""):
            return None
        try:
            if os.path.realpath(path) != str(path) or self._ignored(target):
                return None
            check_size(path, READ_LIMIT)
            text, _ = decode(file_bytes(path))
        except (OSError, ValueError, SourceError):
            return None  # what cannot be read is not inserted, as if it were not there
        return None if is_restricted(text) else text.replace("\r\n", "\n").expandtabs()

    def _ignored(self, target: str) -> bool:
        folders = target.split("/")[:-1]
        for depth in range(len(folders)):
            if self._rules_in("/".join(folders[:depth])).ignored(
                "/".join(folders[: depth + 1]), folder=True
            ):
                return True
        return self._rules_in("/".join(folders)).ignored(target, folder=False)

    def _rules_in(self, folder: str) -> IgnoreRules:
        """The ignore rules that apply in a folder."""
        if folder not in self._rules:
            outer = IgnoreRules().with_lines(BUILT_IN)
            rules = self._rules_in(posixpath.dirname(folder)) if folder else outer
            for name in FILES:
                file = self._root / folder / name
                if file.is_file():
                    rules = rules.with_lines(
                        file.read_text("utf-8", "replace").splitlines(), folder
                    )
            self._rules[folder] = rules
        return self._rules[folder]


def _target(base: str, path: str, project: str) -> str:
    """The id of the file that a directive in a document names."""
    folder = project if path.startswith("/") else posixpath.dirname(base)
    return posixpath.normpath(posixpath.join(folder, path.lstrip("/")))


def _indented(text: str, indent: str) -> str:
    return "\n".join(indent + line if line.strip() else "" for line in text.split("\n"))


def _selected(text: str, options: Mapping[str, str]) -> str:
    """The part of a file that the options of the directive ask for."""
    lines = text.split("\n")
    if name := options.get("pyobject"):
        lines = _object_lines(text, name)
    if wanted := options.get("lines"):
        ranges = _ranges(wanted)
        lines = [line for n, line in enumerate(lines, 1) if any(n in one for one in ranges)]
    first, last = options.get("start-line", ""), options.get("end-line", "")
    if first or last:
        lines = lines[_number(first) : _number(last)]
    part = "\n".join(lines)
    if (mark := options.get("start-after")) and mark in part:
        part = part.split(mark, 1)[1].partition("\n")[2]
    if (mark := options.get("start-at")) and mark in part:
        part = part[part.rfind("\n", 0, part.index(mark)) + 1 :]
    if (mark := options.get("end-before")) and mark in part:
        part = part[: part.rfind("\n", 0, part.index(mark)) + 1]
    if (mark := options.get("end-at")) and mark in part:
        part = part[: part.index(mark)] + part[part.index(mark) :].partition("\n")[0]
    return part.rstrip()


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def _ranges(wanted: str) -> list[range]:
    """Line numbers such as ``1,3,5-10,20-``."""
    found: list[range] = []
    for part in wanted.split(",")[:100]:
        first, dash, last = (one.strip()[:9] for one in part.partition("-"))
        low = int(first) if first.isdecimal() else 1
        high = int(last) if last.isdecimal() else 10**9 if dash else low
        found.append(range(low, high + 1))
    return found


def _object_lines(text: str, name: str) -> list[str]:
    """The lines of a class or function of a Python file; all lines if it is not found."""
    try:
        body: list[ast.stmt] = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return text.split("\n")
    found: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for part in name.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = next((x for x in body if isinstance(x, kinds) and x.name == part), None)
        if found is None:
            return text.split("\n")
        body = found.body
    if found is None:
        return text.split("\n")
    start = min([found.lineno, *(one.lineno for one in found.decorator_list)])
    return text.split("\n")[start - 1 : found.end_lineno]

"""The ``include`` directive of AsciiDoc, resolved to files of the same source folder."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from packwise.lazy_pattern import lazy_pattern
from packwise.sources.rst_includes import DEEPEST, Includes, Left

ATTRIBUTE = lazy_pattern(r":(!?[\w-]+)!?:(?:\s+(.*))?$")
REFERENCE = lazy_pattern(r"\{([\w-]+)\}")
_DIRECTIVE = lazy_pattern(r"include::([^\s\[\]][^\[\]]{0,500})\[([^\]]{0,500})\]\s*")
_OPTION = lazy_pattern(r"([\w-]+)=(?:\"([^\"]*)\"|([^,\"]*))")
_TAG = lazy_pattern(r"\b(tag|end)::([\w.-]{1,100})\[\]")
_RANGE = lazy_pattern(r"\s*(\d{1,9})(?:\.\.(-1|\d{1,9})?)?\s*")


_TITLE = lazy_pattern(r"(={1,6}|#{1,6})\s+(\S.*?)(?:\s+\1)?\s*$")
_BEFORE_TITLE = lazy_pattern(r"//|:!?[\w-]+!?:|\[|ifn?def::|endif::|\s*$")
_SUFFIXES = (".adoc", ".asciidoc", ".asc")


@dataclass(slots=True)
class _State:
    """What one document may still insert, what it has inserted as a whole, its attributes, and
    those that each of its chapters is given."""

    left: Left = field(default_factory=Left)
    whole: set[str] = field(default_factory=set[str])
    values: dict[str, str] = field(default_factory=dict[str, str])
    chapters: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


class Books:
    """The AsciiDoc files of a folder, by id and text: which are parts or chapters of others.

    A part is inserted where it is included, and is no document of its own. A chapter has a title:
    it stays a document, which can be cited by its own lines, and is read with the attributes of
    its book, which has a link to it.
    """

    def __init__(self, files: Includes, texts: Iterable[tuple[str, str]]) -> None:
        self._files = files
        holding: dict[str, frozenset[str]] = {}
        self._given: dict[str, dict[str, str]] = {}
        for name, text in texts:
            state = _State()
            _expanded(files, name, text, (name,), state)
            holding[name] = frozenset(state.whole) - {name}
            for chapter, values in state.chapters.items():
                self._given.setdefault(chapter, values)
        included = frozenset[str]().union(*holding.values())
        # Files that only include one another are no parts: something must stay that holds them.
        roots = (held for name, held in holding.items() if name not in included)
        self.parts = frozenset[str]().union(*roots)

    def expand(self, document_id: str, text: str) -> str:
        """The text with its parts in their places and the attributes of its book. What
        ``Includes`` does not read, and a file that includes itself, stays a directive."""
        given = self._given.get(document_id, {})
        used = {name.lower() for name in REFERENCE.findall(text)} & given.keys()
        if used:
            text = "\n".join([*(f":{name}: {given[name]}" for name in sorted(used)), text])
        if "include::" not in text:
            return text
        return "\n".join(_expanded(self._files, document_id, text, (document_id,), _State()))


def _title(text: str) -> str:
    """The title that a text begins with; empty if it is a part of another one."""
    for line, below in pairwise([*text.split("\n")[:100], ""]):
        if found := _TITLE.match(line):
            return found[2]
        if not _BEFORE_TITLE.match(line):
            adorned = len(below) > 2 and below == below[0] * len(below) and below[0] in "=-~^+"
            return line if adorned and abs(len(below) - len(line)) <= 2 else ""
    return ""


def _expanded(
    files: Includes, base: str, text: str, open_files: tuple[str, ...], state: _State
) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        if found := ATTRIBUTE.match(line):
            state.values[found[1].lower()] = (found[2] or "").strip()
        if found := _DIRECTIVE.fullmatch(line):
            lines += _inserted(files, base, found, open_files, state)
        else:
            lines.append(line)
    return lines


def _inserted(
    files: Includes, base: str, found: re.Match[str], open_files: tuple[str, ...], state: _State
) -> list[str]:
    """The lines that a directive stands for; itself, if they may not be inserted."""
    path = REFERENCE.sub(lambda name: state.values.get(name[1].lower(), name[0]), found[1])
    target = posixpath.normpath(posixpath.join(posixpath.dirname(base), path))
    if target in open_files or len(open_files) > DEEPEST or state.left.reading <= 0:
        return [found[0]]
    included = files.read(target)
    if included is None:
        return [found[0]]
    options = {one[1]: one[2] or one[3] or "" for one in _OPTION.finditer(found[2])}
    entire = options.keys().isdisjoint(("tag", "tags", "lines"))
    state.left.reading -= len(included)
    if entire and target.lower().endswith(_SUFFIXES) and (title := _title(included)):
        state.chapters.setdefault(target, dict(state.values))
        place = posixpath.relpath(target, posixpath.dirname(open_files[0]) or ".")
        return [f"xref:{place}[{title.replace(']', '')}]"]
    part = _selected(included, options)
    if len(part) > state.left.inserting:
        return [found[0]]
    state.left.inserting -= len(part)
    if entire:
        state.whole.add(target)
    lines = _expanded(files, target, part, (*open_files, target), state)
    if shift := re.fullmatch(r"[+-]?([1-5])", options.get("leveloffset", "").strip()):
        up, down = ("-", "+") if shift[0][0] == "-" else ("+", "-")
        lines = [f":leveloffset: {up}{shift[1]}", "", *lines, "", f":leveloffset: {down}{shift[1]}"]
    return lines


def _selected(text: str, options: dict[str, str]) -> str:
    """The lines of a file that the options of the directive ask for."""
    lines = text.rstrip().split("\n")
    if wanted := options.get("lines"):
        found = [one for part in re.split("[,;]", wanted)[:100] if (one := _RANGE.fullmatch(part))]
        ranges = [
            range(int(one[1]), int(one[2]) + 1 if (one[2] or "-1") != "-1" else len(lines) + 1)
            if ".." in one[0]
            else range(int(one[1]), int(one[1]) + 1)
            for one in found
        ]
        return "\n".join(x for n, x in enumerate(lines, 1) if any(n in one for one in ranges))
    names = set(re.split("[,;]", options.get("tag") or options.get("tags") or ""))
    named = all(re.fullmatch(r"[\w.-]+", name) for name in names)
    inside: set[str] = set()
    kept: list[str] = []
    for line in lines:
        if mark := _TAG.search(line):
            (inside.add if mark[1] == "tag" else inside.discard)(mark[2])
        elif not named or not inside.isdisjoint(names):
            kept.append(line)
    return "\n".join(kept)

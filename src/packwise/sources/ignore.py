"""Ignore rules: the syntax of ``.gitignore``, for ``.gitignore`` and ``.packwiseignore``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packwise.lazy_pattern import lazy_pattern

FILES = (".gitignore", ".packwiseignore")
"""Read in every folder; a later file and a deeper folder take precedence."""

BUILT_IN = (
    ".*",
    "node_modules/",
    "__pycache__/",
    "__MACOSX/",
    "_build/",
    "_site/",
    "*.egg-info/",
    "*.dist-info/",
)
"""Ignored unless a ``!pattern`` includes them again: hidden files, installed packages and the
output of site generators."""

_ANY_FOLDERS = None
"""Stands for any number of folders, also none: ``**`` as a part of a path."""

_Part = re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class _IgnoreRule:
    """One line of an ignore file: what the parts of a whole path must match."""

    parts: tuple[_Part, ...]
    ignore: bool
    folders_only: bool

    def matches(self, path: list[str]) -> bool:
        """Whether the parts match, in time that grows with their number times the path's: only
        the last ``**`` is ever tried again."""
        parts = self.parts
        at = part = 0
        resume: tuple[int, int] | None = None
        while at < len(path):
            if part < len(parts) and parts[part] is _ANY_FOLDERS:
                part += 1
                resume = part, at
            elif part < len(parts) and _fits(parts[part], path[at]):
                part += 1
                at += 1
            elif resume is not None:
                part, at = resume[0], resume[1] + 1
                resume = part, at
            else:
                return False
        return all(rest is _ANY_FOLDERS for rest in parts[part:])


def _fits(part: _Part, name: str) -> bool:
    return part is not None and part.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that apply in a folder, the most general first."""

    rules: tuple[_IgnoreRule, ...] = ()

    def ignored(self, path: str, *, folder: bool) -> bool:
        """Whether a path, relative to the source, is ignored: the last match decides.

        Check a folder before its contents: nothing in an ignored folder can be included again.
        """
        names = path.split("/")
        for rule in reversed(self.rules):
            if (folder or not rule.folders_only) and rule.matches(names):
                return rule.ignore
        return False

    def with_lines(self, lines: Iterable[str], folder: str = "") -> IgnoreRules:
        """These rules and those of an ignore file in ``folder``."""
        added = [rule for line in lines if (rule := _rule(line, folder)) is not None]
        return IgnoreRules((*self.rules, *added)) if added else self


def _rule(line: str, folder: str) -> _IgnoreRule | None:
    line = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    if not line:
        return None
    parts = _translated(line.removeprefix("/"))
    if parts is None:
        return None
    if "/" not in line:
        parts = [_ANY_FOLDERS, *parts]
    above = [re.compile(re.escape(name)) for name in folder.split("/") if name]
    return _IgnoreRule((*above, *parts), not negated, folders_only)


def _translated(pattern: str) -> list[_Part] | None:
    """What each part of a path must match; ``None`` for a pattern that can match nothing."""
    parts: list[_Part] = []
    pieces = [""]  # the expressions between the stars of a part
    at = start = 0
    while at <= len(pattern):
        if at == len(pattern) or pattern[at] == "/":
            text = pattern[start:at]
            if len(text) > 1 and set(text) == {"*"} and text != pattern:
                # At the end it stands for everything inside, not for the folder itself.
                parts += [_ANY_FOLDERS] if at < len(pattern) else [_ANY_FOLDERS, _ANYTHING]
            else:
                parts.append(_compiled(pieces))
            at += 1
            start, pieces = at, [""]
        elif pattern[at] == "*":
            pieces.append("")
            at += 1
        else:
            piece, at = _one(pattern, at)
            if piece is None:
                return None
            pieces[-1] += piece
    return parts


def _compiled(pieces: list[str]) -> re.Pattern[str]:
    """One part of a path. What is between two stars is taken at its first place and never
    tried again, so the time is linear in the name."""
    first, *rest = pieces
    last = f".*{rest.pop()}" if rest else ""
    middle = "".join(f"(?>.*?{piece})" for piece in rest if piece)
    return re.compile(first + middle + last, re.DOTALL)


_ANYTHING = lazy_pattern(".*", re.DOTALL)


def _one(pattern: str, at: int) -> tuple[str | None, int]:
    """The expression for the character at ``at``, and where the next one starts."""
    char = pattern[at]
    if char == "?":
        return ".", at + 1
    if char == "\\":
        if at + 1 == len(pattern):
            return None, at
        return re.escape(pattern[at + 1]), at + 2
    if char == "[":
        return _class(pattern, at)
    return re.escape(char), at + 1


def _class(pattern: str, at: int) -> tuple[str | None, int]:
    at += 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    members: list[str] = []
    before = ""
    first = at
    while at < len(pattern) and (pattern[at] != "]" or at == first):
        if (named := _NAMED_CLASS.match(pattern, at)) is not None:
            members.append(_NAMED.get(named[1], ""))
            at, before = named.end(), ""
        elif pattern[at] == "-" and before and pattern[at + 1 : at + 2] not in ("]", ""):
            last, at = _member(pattern, at + 1)
            members.append(f"{re.escape(before)}-{re.escape(last)}" if before <= last else "")
            before = ""
        else:
            before, at = _member(pattern, at)
            members.append(re.escape(before))
    if at >= len(pattern):
        return None, at
    inside = "".join(members)
    if not inside:
        return ("[^/]" if negated else None), at + 1
    return f"(?!/)[{'^' if negated else ''}{inside}]", at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    escaped = pattern[at] == "\\" and at + 1 < len(pattern)
    return pattern[at + escaped], at + escaped + 1


_NAMED_CLASS = lazy_pattern(r"\[:([a-z]+):\]")
_NAMED = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
}

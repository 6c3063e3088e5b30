"""Ignore rules: the syntax of ``.gitignore``, for ``.gitignore`` and ``.packwiseignore``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

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

_FOLDERS = re.compile(r"\*\*+/")
_EVERYTHING = re.compile(r"/\*\*+$")


@dataclass(frozen=True, slots=True)
class _IgnoreRule:
    """One line of an ignore file. ``pattern`` is matched against a whole path."""

    pattern: re.Pattern[str]
    ignore: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that apply in a folder, the most general first."""

    rules: tuple[_IgnoreRule, ...] = ()

    def ignored(self, path: str, *, folder: bool) -> bool:
        """Whether a path, relative to the source, is ignored: the last match decides.

        Check a folder before its contents: nothing in an ignored folder can be included again.
        """
        for rule in reversed(self.rules):
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(path):
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
    anchored = "/" in line
    body = _translated(line.removeprefix("/"))
    if body is None:
        return None
    lead = re.escape(f"{folder}/") if folder else ""
    anywhere = "" if anchored else "(?:.+/)?"
    return _IgnoreRule(re.compile(f"{lead}{anywhere}{body}", re.DOTALL), not negated, folders_only)


def _translated(pattern: str) -> str | None:
    """The pattern as a regular expression; ``None`` for one that can match nothing."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        folders = _FOLDERS.match(pattern, at) if at == 0 or pattern[at - 1] == "/" else None
        if folders is not None:
            parts.append("(?:.+/)?")
            at = folders.end()
        elif (everything := _EVERYTHING.match(pattern, at)) is not None:
            parts.append("/.+")
            at = everything.end()
        else:
            part, at = _one(pattern, at)
            if part is None:
                return None
            parts.append(part)
    return "".join(parts)


def _one(pattern: str, at: int) -> tuple[str | None, int]:
    """The expression for what is at ``at``, and where the next part starts."""
    char = pattern[at]
    if char == "*":
        while at < len(pattern) and pattern[at] == "*":
            at += 1
        return "[^/]*", at
    if char == "?":
        return "[^/]", at + 1
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


_NAMED_CLASS = re.compile(r"\[:([a-z]+):\]")
_NAMED = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
}

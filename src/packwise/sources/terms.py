"""Which terms of a document name sections.

A manual describes options, settings and functions one after another, each under its name. They
are looked up by name, so each is a section if they are described at length: its passages then say
what they are about, and hold nothing about its neighbours. A short line in bold type that stands
alone is such a name too, where a section has several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from packwise.lazy_pattern import lazy_pattern

TOLD_AT_LENGTH = 150
"""Characters that the descriptions of a section's terms have on average, at least."""
LONGEST_LABEL = 80
ANNOUNCED_WHOLE = 1000
"""Characters up to which terms stay with the sentence that announces them ("it is called in the
following ways:"): a passage holds both, and a list is what was asked for."""
LONGEST_TARGET = 200
"""A line that links lead to names what follows, with all that may be written after the name."""
_CAPTION = lazy_pattern(r"(?:Figure|Fig|Table|Equation|Abbildung|Abb|Tabelle|Figura|Tabla)\.?\s*\d")
"""How the caption of a figure or a table begins, which names no section."""


@dataclass(frozen=True, slots=True)
class TermHeading:
    """A heading that a term becomes. One without a name ends the sections of its level, so that
    what follows belongs to the section around them."""

    level: int
    name: str


@dataclass(slots=True)
class _Group:
    """Terms that are described one after another, from piece ``start`` to before ``end``."""

    section: int
    level: int
    start: int
    fewest: int = 2
    announced: bool = False
    end: int = -1
    terms: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


@dataclass(slots=True)
class Terms:
    """The terms met so far. ``at`` is the number of pieces before them."""

    _section: int = 0
    _level: int = 0
    _open: list[_Group] = field(default_factory=list[_Group])
    _groups: list[_Group] = field(default_factory=list[_Group])
    _labels: dict[int, str] = field(default_factory=dict[int, str])
    _listed: bool = False

    def open(self, at: int, fewest: int, *, announced: bool) -> None:
        """A group of terms begins."""
        level = self._level + len(self._open) + 1
        self._open.append(_Group(self._section, level, at, fewest, announced))

    def term(self, at: int, name: str) -> None:
        if self._open and name:
            self._open[-1].terms.append((at, name))

    def label(self, at: int, name: str, *, announced: bool, target: bool) -> None:
        """A line in bold type that stands alone, which links may lead to. Of two in a row, the
        second says more about the first. Those of a list that is announced ("the arguments
        are:") stay with it."""
        longest = LONGEST_TARGET if target else LONGEST_LABEL
        short = 0 < len(name) <= longest and name[-1] not in (":;," if target else ".:;,!")
        short = short and not _CAPTION.match(name)
        self._listed |= announced and not self._labels
        if short and not (self._open or self._listed or at - 1 in self._labels):
            self._labels[at] = name

    def close(self, at: int) -> None:
        if self._open:
            group = self._open.pop()
            group.end = at
            self._groups.append(group)

    def heading(self, at: int, level: int) -> None:
        """A heading ends all groups."""
        while self._open:
            self.close(at)
        if self._labels:
            start = min(self._labels)
            for group in self._groups:
                group.level += group.start >= start
            labels = list(self._labels.items())
            level = self._level + 1
            self._groups.append(_Group(self._section, level, start, end=at, terms=labels))
            self._labels = {}
        self._listed = False
        self._section += 1
        self._level = level

    def headings(self, sizes: Sequence[int]) -> dict[int, list[TermHeading]]:
        """The headings to add before each piece; ``sizes`` are the lengths of all pieces."""
        self.heading(len(sizes), 0)
        alike: dict[tuple[int, int], list[_Group]] = defaultdict(list)
        for group in self._groups:
            short = sum(sizes[group.start : group.end]) <= ANNOUNCED_WHOLE
            if group.terms and not (group.announced and short):
                alike[group.section, group.level].append(group)
        found: dict[int, list[TermHeading]] = defaultdict(list)
        for groups in alike.values():
            if _name_sections(groups, sizes):
                for group in groups:
                    found[group.end].append(TermHeading(group.level, ""))
                    for at, name in group.terms:
                        found[at].append(TermHeading(group.level, name))
        for headings in found.values():
            # What ends comes first, then the outer terms before the inner ones.
            headings.sort(key=lambda one: (bool(one.name), one.level))
        return found


def _name_sections(groups: Sequence[_Group], sizes: Sequence[int]) -> bool:
    names = [name for group in groups for _, name in group.terms]
    told = sum(sum(sizes[group.start : group.end]) for group in groups)
    # "Q" and "A" are the terms of a list of questions.
    distinct = 2 * len(set(names)) > len(names)
    fewest = min(group.fewest for group in groups)
    return len(names) >= fewest and distinct and told >= TOLD_AT_LENGTH * len(names)

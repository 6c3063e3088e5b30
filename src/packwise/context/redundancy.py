"""What repeats the context: the same text, the same meaning, too much of one document.

Text that is already shown costs nothing and adds nothing. A passage similar to a selected
one loses value. So does one beyond the number of passages its document or section may give
(the ``seed`` policy excludes it), unless it continues a selected passage of its section.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packwise.context.candidate_pool import PoolEntry
from packwise.context.duplicates import repeated_units, shared_characters
from packwise.context.trace import Cap, DropReason
from packwise.models.base import Vectors
from packwise.settings import Settings

SAME_MEANING = 0.97
"""Cosine from which two passages say the same thing, whatever the words."""

# Passages on one topic are similar without repeating each other; similarity counts from here.
_SIMILAR = 0.85
# What each passage beyond a cap leaves of the value.
_CAP_DISCOUNT = 0.7


class CoveredText:
    """Which units of each entry the selected units of others already show: the same place of
    a document in an overlapping passage, or the same words anywhere."""

    def __init__(self, entries: Sequence[PoolEntry]) -> None:
        self._entries = entries
        self.clear()
        # Places of the sentences that occur more than once; few do.
        self._copies: dict[int, list[tuple[int, list[tuple[int, int]]]]] = {}
        passages, readings = [e.passage for e in entries], [e.reading for e in entries]
        for places in repeated_units(passages, readings):
            for index, unit in places:
                others = [place for place in places if place[0] != index]
                self._copies.setdefault(index, []).append((unit, others))

    def clear(self) -> None:
        self.units = [0] * len(self._entries)
        self.by: dict[int, tuple[DropReason, int]] = {}

    def add(self, index: int, units: int, same_document: Iterable[int]) -> None:
        """Note that these units of an entry are in the context now."""
        entry = self._entries[index]
        for unit, places in self._copies.get(index, ()):
            if units >> unit & 1:
                for other, copy in places:
                    self._mark(other, 1 << copy, DropReason.DUPLICATE_OF, index)
        for other in same_document:
            if other != index and shared_characters(entry.passage, self._entries[other].passage):
                shared = _shared_units(entry, units, self._entries[other])
                self._mark(other, shared, DropReason.MERGED_INTO, index)

    def _mark(self, other: int, units: int, reason: DropReason, index: int) -> None:
        if units:
            self.units[other] |= units
            known = self.by.get(other)
            # Being part of the same text says more than having the same words.
            if known is None or (known[0] is DropReason.DUPLICATE_OF and reason is not known[0]):
                self.by[other] = (reason, index)


def _shared_units(entry: PoolEntry, units: int, other: PoolEntry) -> int:
    """The units of ``other`` that lie within these units of ``entry``."""
    mine, theirs = entry.passage, other.passage
    spans: list[tuple[int, int]] = []
    for unit, (a, b) in enumerate(entry.reading.units):
        if units >> unit & 1:
            joined = spans and units >> (unit - 1) & 1
            first = spans.pop()[0] if joined else mine.start + a
            spans.append((first, mine.start + b))
    shared = 0
    first, last = (spans[0][0], spans[-1][1]) if spans else (0, 0)
    for unit, (a, b) in enumerate(other.reading.units):
        start, end = theirs.start + a, theirs.start + b
        # Most units are in no other passage.
        inside = first <= start and end <= last
        if inside and any(x <= start and end <= y for x, y in spans):
            # Offsets are trusted only as far as the texts agree.
            same = mine.text[start - mine.start : end - mine.start] == theirs.text[a:b]
            shared |= same << unit
    return shared


class SelectedSimilarity:
    """The highest cosine of each passage with the selected ones, kept up to date."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self.highest: NDArray[np.float32] = np.zeros(len(vectors), dtype=np.float32)
        """By passage; 0 while none is selected."""
        self._nearest: NDArray[np.int64] = np.zeros(len(vectors), dtype=np.int64)
        self._selected: set[int] = set()

    def select(self, index: int) -> None:
        if index not in self._selected:
            self._selected.add(index)
            cosines = self._vectors @ self._vectors[index]
            # Only another passage makes one redundant.
            cosines[index] = 0.0
            closer = cosines > self.highest
            self.highest[closer] = cosines[closer]
            self._nearest[closer] = index

    def cosine(self, index: int) -> float:
        """The cosine of a passage with the nearest selected one, 0..1."""
        return min(1.0, float(self.highest[index]))

    def nearest(self, index: int) -> int | None:
        """The selected passage most similar to this one."""
        return int(self._nearest[index]) if self.highest[index] > 0.0 else None


def novelty(cosine: float, alpha: float) -> float:
    """The share of a passage's value that is left beside a similar one, 1 - alpha .. 1."""
    if cosine <= _SIMILAR:
        return 1.0
    return 1.0 - alpha * (min(1.0, cosine) - _SIMILAR) / (1.0 - _SIMILAR)


@dataclass(frozen=True, slots=True)
class CapExcess:
    """By how many passages an entry exceeds the caps; ``continues`` when it would exceed that
    of its section, but continues a selected passage."""

    document: int = 0
    section: int = 0
    continues: bool = False

    @property
    def factor(self) -> float:
        """The share of the entry's value that counts, above 0 and up to 1."""
        return _CAP_DISCOUNT ** (self.document + self.section)

    @property
    def reason(self) -> DropReason | None:
        """The cap that the entry exceeds, if any."""
        if self.section:
            return DropReason.PER_SECTION_CAP
        return DropReason.PER_DOCUMENT_CAP if self.document else None


WITHIN_CAPS = CapExcess()


def cap_excess(entry: PoolEntry, selected: Iterable[PoolEntry], settings: Settings) -> CapExcess:
    """How an entry stands to the caps beside the selected entries of its document.

    Text without a heading belongs to no section, so no section cap applies.
    """
    document = section = 0
    continues = False
    path = entry.passage.section_path
    for other in selected:
        document += 1
        section += other.passage.section_path == path != ()
        continues = continues or _continues(entry, other)
    over_document = max(0, document + 1 - settings.packing_per_doc_cap)
    over_section = max(0, section + 1 - settings.packing_per_section_cap)
    if continues:
        return CapExcess(over_document, continues=over_section > 0)
    return CapExcess(over_document, over_section)


def _continues(entry: PoolEntry, other: PoolEntry) -> bool:
    """Whether two passages follow each other in one section."""
    a, b = entry.passage, other.passage
    if a.document != b.document or a.section_path != b.section_path:
        return False
    return abs(a.order_index - b.order_index) == 1 or (a.start <= b.end and b.start <= a.end)


def cap_trace(entry: PoolEntry, excess: CapExcess, settings: Settings) -> Cap | None:
    """The trace of the cap that applies to an entry, if one does."""
    lifted = excess.continues and excess.reason is None
    reason = DropReason.PER_SECTION_CAP if lifted else excess.reason
    if reason is None:
        return None
    by_section = reason is DropReason.PER_SECTION_CAP
    limit = settings.packing_per_section_cap if by_section else settings.packing_per_doc_cap
    return Cap(reason.value, entry.id, limit, lifted)

"""What stands in the context already, so that no sentence is told twice."""

from __future__ import annotations

from collections.abc import Sequence

from packwise.context.novelty import equal_places
from packwise.context.pool import Entry
from packwise.context.trace import Reason


class Told:
    """Which units of each entry another one has told: the same place of a document in an
    overlapping passage, or the same words anywhere."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._told = [0] * len(entries)
        self._by: dict[int, tuple[Reason, int]] = {}
        self._mates: dict[str, list[int]] = {}
        for index, entry in enumerate(entries):
            self._mates.setdefault(entry.passage.document, []).append(index)
        # Where a sentence stands that more than one place holds; few do.
        self._places: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for places in equal_places([entry.reading.prints for entry in entries]):
            for index, unit in places:
                others = [place for place in places if place[0] != index]
                self._places.setdefault(index, {})[unit] = others

    def forget(self) -> None:
        """Nothing is in the context any more."""
        self._told = [0] * len(self._entries)
        self._by = {}

    def units(self, index: int) -> int:
        """The units of an entry that others have told, as bits."""
        return self._told[index]

    def by(self, index: int) -> tuple[Reason, int] | None:
        """Who told the first of them, and how it comes that they are the same."""
        return self._by.get(index)

    def tell(self, index: int, units: int) -> None:
        """These units of an entry are in the context now."""
        entry = self._entries[index]
        for unit, places in self._places.get(index, {}).items():
            if units >> unit & 1:
                for other, same in places:
                    self._mark(other, 1 << same, Reason.DUPLICATE_OF, index)
        for other in self._mates[entry.passage.document]:
            if other != index and _overlap(entry, self._entries[other]):
                shared = _shared_units(entry, units, self._entries[other])
                self._mark(other, shared, Reason.MERGED_INTO, index)

    def _mark(self, other: int, units: int, reason: Reason, teller: int) -> None:
        if units:
            self._told[other] |= units
            known = self._by.get(other)
            # Being part of the same stretch says more than having the same words.
            if known is None or (known[0] is Reason.DUPLICATE_OF and reason is not known[0]):
                self._by[other] = (reason, teller)


def _overlap(entry: Entry, other: Entry) -> bool:
    a, b = entry.passage, other.passage
    return a.start < b.end and b.start < a.end


def _shared_units(entry: Entry, units: int, other: Entry) -> int:
    """The units of ``other`` that lie within these units of ``entry``, as bits."""
    mine, theirs = entry.passage, other.passage
    spans: list[tuple[int, int]] = []
    for unit, (a, b) in enumerate(entry.reading.units):
        if units >> unit & 1:
            joined = spans and units >> (unit - 1) & 1
            first = spans.pop()[0] if joined else mine.start + a
            spans.append((first, mine.start + b))
    shared = 0
    for unit, (a, b) in enumerate(other.reading.units):
        start, end = theirs.start + a, theirs.start + b
        if any(first <= start and end <= last for first, last in spans):
            # Offsets are trusted only as far as the texts agree.
            same = mine.text[start - mine.start : end - mine.start] == theirs.text[a:b]
            shared |= same << unit
    return shared

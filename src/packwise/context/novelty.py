"""What a passage adds to what is already there.

Three kinds of repetition, three measures: the same text again (shared shingles), the same
place again (offsets in one document), the same thing in other words (cosine).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from packwise.context.reading import Prints, Reading
from packwise.documents import Passage
from packwise.models.base import Vectors

DUPLICATE_SHARE = 0.8
"""Share of a text's shingles found in a better one that makes it a duplicate."""

SAME_THING = 0.97
"""Cosine from which two passages say the same thing, whatever the words."""

# Passages on one topic are alike without repeating each other; likeness counts from here.
_ALIKE = 0.85
# A text whose sample is smaller than this is compared in full.
_SMALL_SKETCH = 4


def containment(text: Reading, other: Reading) -> float:
    """The share of a text's shingles that the other holds too."""
    return len(text.shingles & other.shingles) / len(text.shingles) if text.shingles else 0.0


def find_duplicates(passages: Sequence[Passage], readings: Sequence[Reading]) -> dict[int, int]:
    """For each text that repeats an earlier one: the first that it repeats.

    Texts are taken in order, so the better ranked one stays; one that holds an earlier one
    and more is no duplicate of it. Chunks that overlap in their document are not either:
    they are joined by their offsets. What is already a duplicate is not compared with.
    """
    duplicates: dict[int, int] = {}
    alike = _pairs_alike([reading.sketch for reading in readings])
    for i, reading in enumerate(readings):
        if not reading.units:
            continue
        suspects = range(i) if len(reading.sketch) < _SMALL_SKETCH else alike.get(i, ())
        for j in suspects:
            if j in duplicates or shared_characters(passages[i], passages[j]):
                continue
            if containment(reading, readings[j]) >= DUPLICATE_SHARE:
                duplicates[i] = j
                break
    return duplicates


def _pairs_alike(sketches: Sequence[Prints]) -> dict[int, list[int]]:
    """For each text the earlier ones that hold half of its sketch or more, in order."""
    hits: Counter[tuple[int, int]] = Counter()
    for places in equal_places(sketches):
        holders = [text for text, _ in places]
        for at, i in enumerate(holders):
            hits.update((i, j) for j in holders[:at])
    alike: dict[int, list[int]] = {}
    for (i, j), n in sorted(hits.items()):
        if n * 2 >= len(sketches[i]):
            alike.setdefault(i, []).append(j)
    return alike


def equal_places(prints: Sequence[Prints]) -> list[list[tuple[int, int]]]:
    """For each print that stands in more than one place: the places, as text and position.

    0 is no print. Nearly all stand in one place only: sorting finds the others faster than
    looking each of them up.
    """
    values = np.concatenate(prints) if prints else np.zeros(0, dtype=np.int64)
    ordered = np.sort(values)
    repeated = ordered[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)]
    if not len(repeated):
        return []
    ends = np.cumsum([len(array) for array in prints])
    nearest = np.minimum(np.searchsorted(repeated, values), len(repeated) - 1)
    groups: dict[int, list[tuple[int, int]]] = {}
    for place in np.flatnonzero(repeated[nearest] == values).tolist():
        text = int(np.searchsorted(ends, place, side="right"))
        position = place - int(ends[text]) + len(prints[text])
        groups.setdefault(int(values[place]), []).append((text, position))
    return list(groups.values())


def shared_characters(a: Passage, b: Passage) -> int:
    """How much of a document two of its passages both hold."""
    if a.document != b.document:
        return 0
    return max(0, min(a.end, b.end) - max(a.start, b.start))


class Likeness:
    """The highest cosine of each passage with those already taken, kept up to date."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._highest: NDArray[np.float32] = np.zeros(len(vectors), dtype=np.float32)
        self._likest: NDArray[np.int64] = np.zeros(len(vectors), dtype=np.int64)
        self._taken: set[int] = set()

    @property
    def highest(self) -> NDArray[np.float32]:
        """The highest cosine of each passage with one taken; 0 while none is."""
        return self._highest

    def take(self, index: int) -> None:
        """Count passage ``index`` among those taken."""
        if index not in self._taken:
            self._taken.add(index)
            cosines = self._vectors @ self._vectors[index]
            # A passage is not like itself: only another one can make it redundant.
            cosines[index] = 0.0
            closer = cosines > self._highest
            self._highest[closer] = cosines[closer]
            self._likest[closer] = index

    def to_taken(self, index: int) -> float:
        """The cosine of passage ``index`` with the likest of those taken, 0..1."""
        return min(1.0, float(self._highest[index]))

    def likest(self, index: int) -> int | None:
        """The passage taken that is most like passage ``index``; ``None`` if none is."""
        return int(self._likest[index]) if self._highest[index] > 0.0 else None


def novelty(likeness: float, alpha: float) -> float:
    """What is left of a passage's worth beside its likest neighbour, 1 - alpha .. 1."""
    if likeness <= _ALIKE:
        return 1.0
    return 1.0 - alpha * (min(1.0, likeness) - _ALIKE) / (1.0 - _ALIKE)

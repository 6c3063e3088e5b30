"""Copies: a text, or a place on a page, that is stored more than once.

Copies of a good passage score alike and stand side by side in a leg. They are removed before the
legs are cut to their depth, so they never take the places of other passages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from packwise.candidates import Candidate
from packwise.documents import Passage
from packwise.stores.base import Key, Match, Store
from packwise.trace import Trace

_DEEPER = 4


class DistinctPassages:
    """The passages of one search, each read once, and which of them repeat another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[Key, Passage | None] = {}

    def __getitem__(self, key: Key) -> Passage:
        passage = self._read[key]
        assert passage is not None
        return passage

    def first(self, keys: Iterable[Key], most: int) -> list[Key]:
        """The first ``most`` of these keys, without copies of earlier ones."""
        kept: list[Key] = []
        seen: set[tuple[str, int]] = set()
        rest = iter(keys)
        while batch := list(itertools.islice(rest, most - len(kept))):
            new = [key for key in batch if key not in self._read]
            if new:
                self._read.update(zip(new, self._store.passages(new), strict=True))
            for key in batch:
                passage = self._read[key]
                if passage is not None and seen.isdisjoint(marks := _marks(passage)):
                    seen.update(marks)
                    kept.append(key)
        return kept

    def best(
        self, search: Callable[[int], Sequence[Match]], most: int, found: Sequence[Match]
    ) -> dict[Key, float]:
        """The ``most`` best distinct matches with their scores, best first.

        ``found`` is what ``search(most)`` returned. Only if copies leave fewer, it is called
        again for more.
        """
        depth = most
        while len(kept := self.first((m.key for m in found), most)) < most and len(found) == depth:
            depth *= _DEEPER
            found = search(depth)
        scores = {match.key: match.score for match in found}
        return {key: scores[key] for key in kept}

    def align(self, one: dict[Key, float], other: dict[Key, float]) -> None:
        """Let ``other`` hold the same copy of a text as ``one``; copies score alike."""
        held = {self[key].content_hash: key for key in one}
        for key in list(other):
            same = held.get(self[key].content_hash, key)
            if same not in other:
                other[same] = other.pop(key)

    def record(self, hits: Sequence[Candidate], trace: Trace) -> None:
        """Record each copy that was left out in favour of one of the hits."""
        shown = {mark: hit.passage.id for hit in hits for mark in _marks(hit.passage)}
        kept = {hit.key for hit in hits}
        for key, passage in self._read.items():
            if passage is not None and key not in kept:
                same = next((shown[mark] for mark in _marks(passage) if mark in shown), None)
                if same is not None:
                    trace.drop(passage.id, "fetch", f"same text as {same}")


def _marks(passage: Passage) -> tuple[tuple[str, int], ...]:
    """What two copies have in common: the text, or the page and the place on it."""
    text = (passage.content_hash, -1)
    return (text, (passage.url, passage.start)) if passage.url else (text,)

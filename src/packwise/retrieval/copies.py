"""Copies: a text, or a place on a page, that is stored more than once.

They are removed before the legs are cut to their depth, so they never take the places of other
passages. Copies of a text score alike, so only passages with equal scores are read to find them.
Two versions of one place score differently: if the first passages hold any, the legs are searched
again and read in full.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from packwise.candidates import Candidate
from packwise.documents import Passage
from packwise.stores.base import Key, Match, Store
from packwise.trace import Trace

_DEEPER = 4
_ALIKE = 1e-6
"""Scores this close may be those of one text: stores compute them in single precision."""


class DistinctPassages:
    """The passages of one search, each read once, and which of them repeat another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[Key, Passage | None] = {}
        self._in_full = False
        self._met_copies = False

    def __getitem__(self, key: Key) -> Passage:
        passage = self._read[key]
        assert passage is not None
        return passage

    def first(self, keys: Iterable[Key], most: int) -> list[Key]:
        """The first ``most`` of these keys, without copies of earlier ones."""
        kept: list[Key] = []
        seen: set[tuple[str, int]] = set()
        self._met_copies = False
        rest = iter(keys)
        while batch := list(itertools.islice(rest, most - len(kept))):
            new = [key for key in batch if key not in self._read]
            if new:
                self._read.update(zip(new, self._store.passages(new), strict=True))
            for key in batch:
                passage = self._read[key]
                if passage is None:
                    continue
                marks = _marks(passage)
                if seen.isdisjoint(marks):
                    seen.update(marks)
                    kept.append(key)
                else:
                    self._met_copies = True
        return kept

    def settled(self) -> bool:
        """Whether the legs need not be searched again: the keys that ``first`` saw last hold no
        copies, or the legs have been read in full."""
        done = self._in_full or not self._met_copies
        self._in_full = True
        return done

    def best(
        self, search: Callable[[int], Sequence[Match]], most: int, found: Sequence[Match]
    ) -> dict[Key, float]:
        """The ``most`` best distinct matches with their scores, best first.

        ``found`` is what ``search(most)`` returned. Only if copies leave fewer, it is called
        again for more.
        """
        pairs = [(a, b) for a, b in itertools.pairwise(found) if a.score - b.score <= _ALIKE]
        alike = dict.fromkeys(match.key for pair in pairs for match in pair)
        if not self._in_full and len(self.first(alike, len(alike))) == len(alike):
            return {match.key: match.score for match in found}
        depth = most
        while len(kept := self.first((m.key for m in found), most)) < most and len(found) == depth:
            depth *= _DEEPER
            found = search(depth)
        by_key = {match.key: match.score for match in found}
        return {key: by_key[key] for key in kept}

    def align(self, one: dict[Key, float], other: dict[Key, float]) -> None:
        """Let ``other`` hold the same copy of a text as ``one``; copies score alike."""
        held = {p.content_hash: key for key in one if (p := self._read.get(key))}
        for key in list(other):
            passage = self._read.get(key)
            same = held.get(passage.content_hash, key) if passage else key
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

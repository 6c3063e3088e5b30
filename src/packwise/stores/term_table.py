"""The terms of passages with their counts, as arrays that are mapped from files."""

from __future__ import annotations

import io
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from packwise.stores.bm25 import term_hash

HASHES = "terms.u64"
COUNTS = "terms.u16"
_FILES = {
    HASHES: "<u8",
    COUNTS: "<u2",
    "passages.i64": "<i8",
    "passages.u32": "<u4",
    "vocabulary.u64": "<u8",
    "vocabulary.u32": "<u4",
}
"""The file of each array of a table, in the order of its fields, with its type."""

_MOST_COUNTED = np.iinfo(np.uint16).max
_COUNTED_AT_ONCE = 1 << 20
"""Terms of passages that are held until they are counted. A dictionary of all terms would take
ten times the memory of the vocabulary."""

Rows = NDArray[np.int64]
Terms = Iterable[tuple[int, Sequence[str]]]
"""Passages as (key, index terms), in the order of their keys."""


@dataclass(frozen=True, slots=True)
class TermTable:
    """The terms of every passage with their counts, row by row, and of the whole.

    ``hashes[ends[i - 1] : ends[i]]`` are the distinct terms of row ``i``.
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.uint16]
    ends: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    vocabulary: NDArray[np.uint64]
    frequencies: NDArray[np.uint32]

    @classmethod
    def open(cls, folder: Path) -> TermTable:
        """Map the arrays of a folder."""
        return cls(*(_map(folder / name, kind) for name, kind in _FILES.items()))

    @classmethod
    def of(cls, passages: Terms) -> TermTable:
        """The table of some passages, in memory."""
        hashes, counts = io.BytesIO(), io.BytesIO()
        tally = TermTableWriter(hashes, counts)
        for _, terms in passages:
            tally.add(terms)
        return tally.table(hashes.getvalue(), counts.getvalue())

    def write(self, folder: Path, *, without: Sequence[str] = ()) -> None:
        """Write the arrays into a folder, but for files that are there already."""
        for (name, kind), field in zip(_FILES.items(), fields(self), strict=True):
            if name not in without:
                (folder / name).write_bytes(getattr(self, field.name).astype(kind).tobytes())

    def changed(self, staying: NDArray[np.bool_], added: TermTable) -> TermTable:
        """The table without some rows, and with those of another one after the rest."""
        stay, _ = self.spans(np.flatnonzero(staying))
        sizes = np.diff(self.ends, prepend=0)[staying]
        vocabulary = np.union1d(self.vocabulary, added.vocabulary)
        frequencies = np.zeros(len(vocabulary), dtype=np.int64)
        frequencies[np.searchsorted(vocabulary, self.vocabulary)] += self.frequencies
        frequencies[np.searchsorted(vocabulary, added.vocabulary)] += added.frequencies
        gone, how_often = self.vocabulary_of(np.flatnonzero(~staying))
        frequencies[np.searchsorted(vocabulary, gone)] -= how_often
        alive = frequencies > 0
        return TermTable(
            np.concatenate([self.hashes[stay], added.hashes]),
            np.concatenate([self.counts[stay], added.counts]),
            np.cumsum(np.concatenate([sizes, np.diff(added.ends, prepend=0)]), dtype=np.int64),
            np.concatenate([self.lengths[staying], added.lengths]),
            vocabulary[alive],
            frequencies[alive].astype("<u4"),
        )

    @property
    def length(self) -> int:
        """Terms of all passages together, each as often as it occurs."""
        return int(self.lengths.sum(dtype=np.int64))

    def frequency(self, term: str) -> int:
        """How many passages hold a term."""
        return count_of(self.vocabulary, self.frequencies, term)

    def vocabulary_of(self, rows: Rows) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The hashes of the terms of some rows, ascending, and how many of the rows hold each."""
        return np.unique(self.hashes[self.spans(rows)[0]], return_counts=True)

    def spans(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the terms of these rows stand, all in one list, and each row's length in it."""
        ends = self.ends[rows]
        starts = np.where(rows > 0, self.ends[np.maximum(rows - 1, 0)], 0)
        sizes = ends - starts
        before = np.cumsum(sizes) - sizes
        return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum())), sizes


class TermTableWriter:
    """Writes a term table passage by passage, holding no more than the vocabulary."""

    def __init__(self, hashes: IO[bytes], counts: IO[bytes]) -> None:
        self._hashes = hashes
        self._counts = counts
        self._ends = array("q")
        self._lengths = array("I")
        self._digests = array("Q")
        self._vocabulary: tuple[NDArray[np.uint64], NDArray[np.uint32]] = (
            np.empty(0, dtype="<u8"),
            np.empty(0, dtype="<u4"),
        )

    def add(self, terms: Sequence[str]) -> None:
        counted = Counter(terms)
        digests = list(map(term_hash, counted))
        self._hashes.write(struct.pack(f"<{len(digests)}Q", *digests))
        counts = counted.values()
        if len(terms) > _MOST_COUNTED:
            counts = [min(count, _MOST_COUNTED) for count in counts]
        self._counts.write(struct.pack(f"<{len(digests)}H", *counts))
        self._ends.append((self._ends[-1] if self._ends else 0) + len(digests))
        self._lengths.append(len(terms))
        self._digests.extend(digests)
        if len(self._digests) >= _COUNTED_AT_ONCE:
            self._count()

    def table(self, hashes: bytes = b"", counts: bytes = b"") -> TermTable:
        """The table once all passages are in; it has the hashes and counts that are given."""
        self._count()
        return TermTable(
            np.frombuffer(hashes, dtype="<u8"),
            np.frombuffer(counts, dtype="<u2"),
            np.array(self._ends, dtype="<i8"),
            np.array(self._lengths, dtype="<u4"),
            *self._vocabulary,
        )

    def _count(self) -> None:
        """Count the terms that were added since."""
        known, frequencies = self._vocabulary
        found, counts = np.unique(np.frombuffer(self._digests, "<u8"), return_counts=True)
        self._digests = array("Q")
        every = np.union1d(known, found)
        total = np.zeros(len(every), dtype="<u4")
        total[np.searchsorted(every, known)] = frequencies
        total[np.searchsorted(every, found)] += counts.astype("<u4")
        self._vocabulary = every, total


def count_of(vocabulary: NDArray[np.uint64], counts: NDArray[Any], term: str) -> int:
    """What stands beside a term in a list of hashes (ascending) with their counts."""
    digest = np.uint64(term_hash(term))
    at = int(np.searchsorted(vocabulary, digest))
    return int(counts[at]) if at < len(vocabulary) and vocabulary[at] == digest else 0


def _map(path: Path, kind: str) -> NDArray[Any]:
    if path.stat().st_size == 0:
        return np.empty(0, dtype=kind)
    return np.asarray(np.memmap(path, dtype=kind, mode="r"))

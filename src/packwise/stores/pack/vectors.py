"""Searching the vectors of a pack.

Vectors are compared exactly while they are few, by a usearch graph beyond. Both kinds hold
them in rows, in the order of the passages' keys, and both compute cosines from the same
half-precision values, so a pack that grows from one kind to the other keeps its scores.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from packwise.stores.checks import normalised
from packwise.stores.pack.mapped_graph import MappedGraph, nearest_rows

GRAPH_FILE = "vectors.usearch"
FLAT_FILE = "vectors.f16"
EXPANSION_SEARCH = 96
SCAN_ROWS = 1024
"""Rows multiplied at once: larger products wake BLAS threads, which cost more than they give
on a busy machine (16 ms against 0.1 ms for 4,000 rows)."""

_SPARE = 32
"""Rows fetched beyond k, so that rounding in the graph's own cosines costs no place."""

# One row's cost in a scan over one hit's cost in the graph, measured at 384 dimensions.
_SCAN_COST = 0.1
_DECIMALS = 6
_ROUGH = 1e-5
"""More than two products in single precision can be apart that are equal once rounded."""

Keys = NDArray[np.int64]
Rows = NDArray[np.int64]
Cosines = NDArray[np.float64]
Half = NDArray[np.float16]
Vectors = NDArray[np.float32]
Found = tuple[Rows, Cosines]

NO_ROWS: Rows = np.empty(0, dtype=np.int64)


class VectorIndex(Protocol):
    """Vectors in rows. Safe to use from several threads."""

    def nearest(self, vector: Vectors, k: int, rows: Rows | None = None) -> Found:
        """The ``k`` rows of highest cosine, best first, ties by row; ``rows`` (ascending)
        limits the search to those."""
        ...

    def get(self, rows: Rows) -> Vectors:
        """The vectors of these rows, L2-normalised."""
        ...


class ExactVectors:
    """All vectors in memory; every search looks at each of them."""

    def __init__(self, half: Half) -> None:
        self._matrix = normalised(half.astype(np.float32))

    def nearest(self, vector: Vectors, k: int, rows: Rows | None = None) -> Found:
        matrix = self._matrix if rows is None else self._matrix[rows]
        candidates = np.arange(len(matrix)) if rows is None else rows
        if 0 < k < len(matrix):
            rough = _products(matrix, vector)
            limit = np.partition(rough, len(rough) - k)[len(rough) - k]
            near = np.flatnonzero(rough >= limit - _ROUGH)
            matrix, candidates = matrix[near], candidates[near]
        return best(candidates, cosines(matrix, vector), k)

    def get(self, rows: Rows) -> Vectors:
        return self._matrix[rows]


class FlatVectors:
    """Vectors in half precision, scanned by usearch's kernels: no graph to build or load."""

    def __init__(self, half: Half) -> None:
        self._half = half

    def nearest(self, vector: Vectors, k: int, rows: Rows | None = None) -> Found:
        candidates = np.arange(len(self._half)) if rows is None else rows
        wanted = k + _SPARE
        if wanted < len(candidates):
            half = self._half if rows is None else self._half[rows]
            candidates = candidates[_scan(half, vector, wanted)]
        return self.scored(vector, candidates, k)

    def scored(self, vector: Vectors, rows: Rows, k: int) -> Found:
        """The best ``k`` of a few rows, by their exact cosines."""
        rows = np.sort(rows)
        return best(rows, cosines(self.get(rows), vector), k)

    def get(self, rows: Rows) -> Vectors:
        return normalised(np.asarray(self._half[rows]).astype(np.float32))

    def __len__(self) -> int:
        return len(self._half)


class GraphVectors:
    """A usearch graph, mapped from its file, beside the vectors it was made of. Rows of ``gone``
    are never found."""

    def __init__(self, graph: MappedGraph, flat: FlatVectors, keys: Keys, gone: Rows) -> None:
        self._graph = graph
        self._flat = flat
        self._keys = keys
        self._alive = np.ones(len(keys), dtype=bool)
        self._alive[gone] = False
        self._there = len(keys) - len(gone)
        # usearch lets go of the interpreter lock but works in buffers of its own that two
        # searches must not share.
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, keys: Keys, dim: int, gone: Rows = NO_ROWS) -> GraphVectors:
        """Map the files of a folder. Raises ``ValueError`` where they do not fit together."""
        graph = MappedGraph(folder / GRAPH_FILE, EXPANSION_SEARCH)
        if graph.dim != dim or len(graph) != len(keys):
            raise ValueError(f"{GRAPH_FILE} does not hold {len(keys)} vectors of {dim}")
        return cls(graph, FlatVectors(map_vectors(folder, len(keys), dim)), keys, gone)

    def nearest(self, vector: Vectors, k: int, rows: Rows | None = None) -> Found:
        allowed, count, wanted, enough = self._alive, self._there, k + _SPARE, k
        if rows is not None:
            count, enough = len(rows), k + _SPARE // 2
            wanted = int(2 * k * len(self._keys) / max(count, 1)) + _SPARE
            allowed = np.zeros(len(self._keys), dtype=bool)
            allowed[rows] = True
        cheap = min(_SCAN_COST * count, len(self._keys))
        while rows is None or wanted < cheap:
            found = self._search(vector, wanted)
            found = found[allowed[found]]
            if len(found) >= min(enough, count):
                return self._flat.scored(vector, found, k)
            if wanted >= cheap:
                break
            wanted *= 4
        # A graph may have corners no path leads to; a scan has none.
        if rows is None and count < len(self._keys):
            rows = np.flatnonzero(allowed)
        return self._flat.nearest(vector, k, rows)

    def get(self, rows: Rows) -> Vectors:
        return self._flat.get(rows)

    def _search(self, vector: Vectors, wanted: int) -> Rows:
        with self._lock:
            found = self._graph.nearest(vector, min(wanted, len(self._keys)))
        return np.searchsorted(self._keys, found.astype(np.int64))


class SegmentedVectors:
    """A graph of many vectors, and beside it a few recent ones in the rows after."""

    def __init__(self, graph: GraphVectors, recent: ExactVectors, border: int) -> None:
        self._graph = graph
        self._recent = recent
        self._border = border

    def nearest(self, vector: Vectors, k: int, rows: Rows | None = None) -> Found:
        old, new = rows, rows
        if rows is not None:
            cut = int(np.searchsorted(rows, self._border))
            old, new = rows[:cut], rows[cut:] - self._border
        found, scores = self._graph.nearest(vector, k, old)
        at, more = self._recent.nearest(vector, k, new)
        return best(np.concatenate([found, at + self._border]), np.concatenate([scores, more]), k)

    def get(self, rows: Rows) -> Vectors:
        new = rows >= self._border
        if not new.any():
            return self._graph.get(rows)
        old, recent = self._graph.get(rows[~new]), self._recent.get(rows[new] - self._border)
        vectors = np.empty((len(rows), recent.shape[1]), dtype=np.float32)
        vectors[~new], vectors[new] = old, recent
        return vectors


_NOTHING: Found = (NO_ROWS, np.empty(0, dtype=np.float64))


def _products(matrix: Vectors, vector: Vectors) -> Vectors:
    """Products of many rows with a vector, in blocks that stay on one core. Their last bits
    depend on where a row stands in a block."""
    products = np.empty(len(matrix), dtype=np.float32)
    for at in range(0, len(matrix), SCAN_ROWS):
        products[at : at + SCAN_ROWS] = matrix[at : at + SCAN_ROWS] @ vector
    return products


def cosines(matrix: Vectors, vector: Vectors) -> Cosines:
    """Products of a few rows with a vector, the same wherever a row stands once rounded."""
    products = np.empty(len(matrix), dtype=np.float64)
    exact = vector.astype(np.float64)
    for at in range(0, len(matrix), SCAN_ROWS):
        products[at : at + SCAN_ROWS] = matrix[at : at + SCAN_ROWS].astype(np.float64) @ exact
    return products


def rounded(scores: Cosines) -> Cosines:
    """Cosines without their last bits."""
    return np.clip(np.round(scores, _DECIMALS), -1.0, 1.0)


def best(rows: Rows, scores: Cosines, k: int) -> Found:
    """The ``k`` highest scores with their rows (ascending), best first, ties by row."""
    scores = rounded(scores)
    if k <= 0 or len(rows) == 0:
        return _NOTHING
    if k < len(rows):
        limit = np.partition(scores, len(scores) - k)[len(scores) - k]
        contenders = np.flatnonzero(scores >= limit)
        rows, scores = rows[contenders], scores[contenders]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def _scan(half: Half, vector: Vectors, wanted: int) -> Rows:
    found = nearest_rows(np.ascontiguousarray(half), vector.astype(np.float16), wanted)
    return found.astype(np.int64)


def map_vectors(folder: Path, rows: int, dim: int) -> Half:
    """The vectors of ``FLAT_FILE``, mapped. Raises ``ValueError`` on another size."""
    if rows == 0:
        return np.empty((0, dim), dtype="<f2")
    mapped = np.memmap(folder / FLAT_FILE, dtype="<f2", mode="r")
    return np.asarray(mapped.reshape(rows, dim))

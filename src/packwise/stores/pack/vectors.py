"""Finding the nearest vectors: exactly while they are few, by a usearch graph beyond.

Both kinds hold their vectors in rows, in the order of the passages' keys, and both give
cosines computed from the same half-precision values, so a pack that grows from one kind
to the other keeps its scores.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from packwise.stores.durable import raise_if_full
from packwise.stores.pack.rows import normalised

EXACT_LIMIT = 5000
"""Passages up to which a scan of all of them is as fast as a graph, and never misses."""

GRAPH_FILE = "vectors.usearch"
FLAT_FILE = "vectors.f16"

_CONNECTIVITY = 16
_EXPANSION_ADD = 128
_EXPANSION_SEARCH = 96
_SPARE = 32
"""Rows fetched beyond k, so that rounding in the graph's own cosines costs no place."""

# One row's cost in a scan over one hit's cost in the graph, measured at 384 dimensions.
_SCAN_COST = 0.1
_SCAN_ROWS = 1024
"""Rows multiplied at once: larger products wake BLAS threads, which cost more than they give
on a busy machine (16 ms against 0.1 ms for 4,000 rows)."""

_DECIMALS = 6

Rows = NDArray[np.int64]
Cosines = NDArray[np.float64]
Half = NDArray[np.float16]
Vectors = NDArray[np.float32]
Found = tuple[Rows, Cosines]


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
        """The best ``k`` of a few rows, by their cosines in single precision."""
        rows = np.sort(rows)
        return best(rows, cosines(self.get(rows), vector), k)

    def get(self, rows: Rows) -> Vectors:
        return normalised(np.asarray(self._half[rows]).astype(np.float32))

    def __len__(self) -> int:
        return len(self._half)


class GraphVectors:
    """A usearch graph, mapped from its file, beside the vectors it was made of."""

    def __init__(self, graph: Any, flat: FlatVectors, keys: NDArray[np.int64]) -> None:
        self._graph = graph
        self._flat = flat
        self._keys = keys
        # usearch lets go of the interpreter lock but works in buffers of its own that two
        # searches must not share.
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, keys: NDArray[np.int64], dim: int) -> GraphVectors:
        """Map the files of a folder. Raises ``ValueError`` where they do not fit together."""
        from usearch.index import Index

        graph = Index.restore(str(folder / GRAPH_FILE), view=True)
        if graph is None or graph.ndim != dim or len(graph) != len(keys):
            raise ValueError(f"{GRAPH_FILE} does not hold {len(keys)} vectors of {dim}")
        graph.expansion_search = _EXPANSION_SEARCH
        return cls(graph, FlatVectors(map_flat(folder, len(keys), dim)), keys)

    def nearest(self, vector: Vectors, k: int, rows: Rows | None = None) -> Found:
        if rows is None:
            found = self._search(vector, k + _SPARE)
            # A graph may have corners no path leads to; a scan has none.
            if len(found) < min(k, len(self._keys)):
                return self._flat.nearest(vector, k)
            return self._flat.scored(vector, found, k)
        share = max(len(rows), 1) / len(self._keys)
        wanted = int(2 * k / share) + _SPARE
        allowed: NDArray[np.bool_] | None = None
        while wanted < _SCAN_COST * len(rows) and wanted < len(self._keys):
            if allowed is None:
                allowed = np.zeros(len(self._keys), dtype=bool)
                allowed[rows] = True
            found = self._search(vector, wanted)
            found = found[allowed[found]]
            if len(found) >= min(k + _SPARE // 2, len(rows)):
                return self._flat.scored(vector, found, k)
            wanted *= 4
        return self._flat.nearest(vector, k, rows)

    def get(self, rows: Rows) -> Vectors:
        return self._flat.get(rows)

    def _search(self, vector: Vectors, wanted: int) -> Rows:
        with self._lock:
            matches = self._graph.search(vector, min(wanted, len(self._keys)), threads=1)
        return np.searchsorted(self._keys, np.asarray(matches.keys, dtype=np.int64))


_NOTHING: Found = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))


def cosines(matrix: Vectors, vector: Vectors) -> Cosines:
    """Products of the rows with a vector, in blocks that stay on one core."""
    products = np.empty(len(matrix), dtype=np.float64)
    for at in range(0, len(matrix), _SCAN_ROWS):
        products[at : at + _SCAN_ROWS] = matrix[at : at + _SCAN_ROWS] @ vector
    return products


def best(rows: Rows, scores: Cosines, k: int) -> Found:
    """The ``k`` highest scores with their rows (ascending), best first, ties by row.

    Scores are rounded first: where a row stands in a block moves its last bits.
    """
    scores = np.clip(np.round(scores, _DECIMALS), -1.0, 1.0)
    if k <= 0 or len(rows) == 0:
        return _NOTHING
    if k < len(rows):
        limit = np.partition(scores, len(scores) - k)[len(scores) - k]
        contenders = np.flatnonzero(scores >= limit)
        rows, scores = rows[contenders], scores[contenders]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def _scan(half: Half, vector: Vectors, wanted: int) -> Rows:
    from usearch.compiled import MetricKind
    from usearch.index import search

    matches = search(
        np.ascontiguousarray(half),
        vector.astype(np.float16),
        wanted,
        MetricKind.Cos,
        exact=True,
        threads=1,
    )
    return np.asarray(matches.keys, dtype=np.int64)


def map_flat(folder: Path, rows: int, dim: int) -> Half:
    """The vectors of ``FLAT_FILE``, mapped. Raises ``ValueError`` on another size."""
    mapped = np.memmap(folder / FLAT_FILE, dtype="<f2", mode="r")
    return np.asarray(mapped.reshape(rows, dim))


def build_graph(folder: Path, dim: int, blocks: Iterable[tuple[NDArray[np.int64], Half]]) -> None:
    """Write graph and vectors from blocks of (keys, vectors) in the order of the keys."""
    from usearch.index import Index

    graph = Index(
        ndim=dim,
        metric="cos",
        dtype="f16",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        expansion_search=_EXPANSION_SEARCH,
    )
    with (folder / FLAT_FILE).open("wb") as file:
        for keys, half in blocks:
            # One thread: the same vectors then always make the same graph.
            graph.add(keys.astype(np.uint64), half, threads=1)
            file.write(half.tobytes())
    _save(graph, folder)


def update_graph(
    old: Path,
    folder: Path,
    dim: int,
    kept: tuple[NDArray[np.int64], NDArray[np.bool_]],
    added: Iterator[tuple[NDArray[np.int64], Half]],
) -> None:
    """Write graph and vectors of ``old`` again, without some rows and with new ones after.

    ``kept`` is the keys of all old rows and which of them stay.
    """
    from usearch.index import Index

    keys, staying = kept
    graph = Index.restore(str(old / GRAPH_FILE), view=False)
    if graph is None or graph.ndim != dim or len(graph) != len(keys):
        raise ValueError(f"{GRAPH_FILE} does not hold {len(keys)} vectors of {dim}")
    leaving = keys[~staying]
    if len(leaving):
        graph.remove(leaving.astype(np.uint64), threads=1)
    flat = map_flat(old, len(keys), dim)
    with (folder / FLAT_FILE).open("wb") as file:
        for at in range(0, len(keys), _SCAN_ROWS):
            file.write(flat[at : at + _SCAN_ROWS][staying[at : at + _SCAN_ROWS]].tobytes())
        for new, half in added:
            graph.add(new.astype(np.uint64), half, threads=1)
            file.write(half.tobytes())
    _save(graph, folder)


def _save(graph: Any, folder: Path) -> None:
    try:
        graph.save(str(folder / GRAPH_FILE))
    except RuntimeError as error:
        raise_if_full(folder, error)
        raise

"""Searching the indexes of one generation of a pack.

Everything in ``index/<generation>/`` is made from ``pack.sqlite`` and can be made again
(``index_writer``). ``index.json`` lists every file with its size and checksum, so a folder that
is incomplete, damaged or of another pack is recognised before it is used.

Vectors are compared exactly while they are few, by a usearch graph beyond. Both kinds hold
them in rows, in the order of the passages' keys, and both compute cosines from the same
half-precision values, so a pack that grows from one kind to the other keeps its scores.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.language.analyzer import ANALYZER
from packwise.stores.bm25 import KeywordIndex
from packwise.stores.checks import normalised
from packwise.stores.pack.database import Generation
from packwise.stores.pack.queries import allowed_keys, batches, marks

INDEX_FOLDER = "index"
FORMAT = 1
SEAL = "index.json"
KEYS = "keys.i64"
GRAPH_FILE = "vectors.usearch"
FLAT_FILE = "vectors.f16"

EXACT_LIMIT = 5000
"""Passages up to which a scan of all of them is as fast as a graph, and never misses."""

EXPANSION_SEARCH = 96
SCAN_ROWS = 1024
"""Rows multiplied at once: larger products wake BLAS threads, which cost more than they give
on a busy machine (16 ms against 0.1 ms for 4,000 rows)."""

_SPARE = 32
"""Rows fetched beyond k, so that rounding in the graph's own cosines costs no place."""

# One row's cost in a scan over one hit's cost in the graph, measured at 384 dimensions.
_SCAN_COST = 0.1
_DECIMALS = 6
_BLOCK = 1024
_CHECKSUM_BLOCK = 1 << 20
_FILTERS_KEPT = 16

Keys = NDArray[np.int64]
Rows = NDArray[np.int64]
Cosines = NDArray[np.float64]
Half = NDArray[np.float16]
Vectors = NDArray[np.float32]
Found = tuple[Rows, Cosines]


class DamagedIndex(Exception):
    """An index folder cannot be used; it has to be made again."""


@dataclass(slots=True)
class LoadedIndex:
    """The indexes of one generation, open. Row ``i`` is the passage of ``keys[i]``."""

    generation: Generation
    keys: Keys
    vectors: VectorIndex
    keywords: KeywordIndex
    _filters: OrderedDict[Filter, Keys] = field(default_factory=OrderedDict[Filter, Keys])

    def rows(self, connection: sqlite3.Connection, where: Filter) -> Keys:
        """The rows that pass a filter, ascending; cached."""
        rows = self._filters.get(where)
        if rows is None:
            rows = self.rows_of(allowed_keys(connection, where))
            self._filters[where] = rows
            while len(self._filters) > _FILTERS_KEPT:
                self._filters.popitem(last=False)
        return rows

    def rows_of(self, keys: Keys) -> Keys:
        """The rows of those keys that are here, ascending, each once."""
        rows, there = self.places(np.unique(keys))
        return rows[there]

    def places(self, keys: Keys) -> tuple[Keys, NDArray[np.bool_]]:
        """The row of each key, and whether it is here at all."""
        if len(self.keys) == 0:
            return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=bool)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return rows, self.keys[rows] == keys


def folder_of(pack: Path, generation: Generation) -> Path:
    """Where the indexes of a generation belong."""
    return pack / INDEX_FOLDER / str(generation.number)


def open_index(connection: sqlite3.Connection, pack: Path, generation: Generation) -> LoadedIndex:
    """The indexes from their folder. Raises ``DamagedIndex`` when they cannot be used."""
    folder = folder_of(pack, generation)
    read_seal(folder, generation)
    try:
        keys = np.fromfile(folder / KEYS, dtype="<i8")
        if len(keys) != generation.passages:
            raise DamagedIndex(f"{folder} does not hold {generation.passages} passages")
        vectors: VectorIndex
        if len(keys) > EXACT_LIMIT:
            vectors = GraphVectors.open(folder, keys, generation.dim)
        else:
            vectors = ExactVectors(stored_vectors(connection, keys, generation.dim))
        return LoadedIndex(generation, keys, vectors, KeywordIndex.open(folder, keys))
    except (OSError, ValueError, RuntimeError) as error:
        raise DamagedIndex(f"{folder}: {error}") from error


def read_seal(folder: Path, generation: Generation, *, trust_times: bool = True) -> dict[str, Any]:
    """The seal of a folder that is whole and belongs to this generation.

    A file with the size and time it was sealed with is taken as it is; any other is read
    and compared, because a damaged graph can end the process that searches it.
    """
    try:
        content = cast("dict[str, Any]", json.loads((folder / SEAL).read_text()))
        expected = (FORMAT, generation.version, ANALYZER)
        if (content["format"], content["version"], content["analyzer"]) != expected:
            raise DamagedIndex(f"{folder} belongs to another state of the pack")
        for name, (size, time, crc) in content["files"].items():
            path = folder / name
            status = path.stat()
            same = status.st_size == size and (
                (trust_times and status.st_mtime_ns == time) or checksum(path) == crc
            )
            if not same:
                raise DamagedIndex(f"{path} is damaged")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedIndex(f"{folder} is missing or incomplete ({error})") from error
    return content


def index_problems(pack: Path, generation: Generation) -> list[str]:
    """What is wrong with the index folder of a generation; checks every byte."""
    try:
        read_seal(folder_of(pack, generation), generation, trust_times=False)
    except DamagedIndex as error:
        return [str(error)]
    return []


def has_graph(pack: Path, generation: Generation) -> bool:
    """Whether vectors are found by a graph rather than by comparing all of them."""
    return (folder_of(pack, generation) / GRAPH_FILE).exists()


def files_under(folder: Path) -> Iterator[Path]:
    """Every file below a folder, in the order of their paths."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; one that vanishes meanwhile counts nothing."""
    total = 0
    for path in files_under(folder):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def checksum(path: Path) -> int:
    """CRC-32 of a file, enough to detect damage."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(_CHECKSUM_BLOCK):
            value = zlib.crc32(block, value)
    return value


def stored_vectors(connection: sqlite3.Connection, keys: Keys, dim: int) -> Half:
    """The vectors of these keys (ascending), as stored."""
    blocks = [half for _, half in vector_blocks(connection, keys, dim)]
    return np.concatenate(blocks) if blocks else np.empty((0, dim), dtype="<f2")


def vector_blocks(
    connection: sqlite3.Connection, keys: Keys, dim: int
) -> Iterator[tuple[Keys, Half]]:
    """The same, some at a time."""
    select = "SELECT p.key, v.vector FROM passages AS p JOIN vectors AS v ON v.key = p.vector"
    for at in range(0, len(keys), _BLOCK):
        block = keys[at : at + _BLOCK]
        blobs = [blob for _, blob in rows_of_keys(connection, select, block)]
        yield block, np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(block), dim)


def rows_of_keys(connection: sqlite3.Connection, select: str, keys: Keys) -> Iterator[Any]:
    """The rows of a query over passages ``p`` with these keys (ascending)."""
    for batch in batches(keys.tolist()):
        yield from connection.execute(
            f"{select} WHERE p.key IN ({marks(batch)}) ORDER BY p.key", batch
        )


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
        graph.expansion_search = EXPANSION_SEARCH
        return cls(graph, FlatVectors(map_vectors(folder, len(keys), dim)), keys)

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
    for at in range(0, len(matrix), SCAN_ROWS):
        products[at : at + SCAN_ROWS] = matrix[at : at + SCAN_ROWS] @ vector
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


def map_vectors(folder: Path, rows: int, dim: int) -> Half:
    """The vectors of ``FLAT_FILE``, mapped. Raises ``ValueError`` on another size."""
    mapped = np.memmap(folder / FLAT_FILE, dtype="<f2", mode="r")
    return np.asarray(mapped.reshape(rows, dim))

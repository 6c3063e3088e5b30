"""The indexes of one generation of a pack, open for searching.

Everything in ``index/<generation>/`` is made from ``pack.sqlite`` and can be made again
(``index_writer``). ``seal`` recognises a folder that is incomplete, damaged, of another pack or
of another installation before it is used.

The folder of a generation holds whole indexes, or a segment: what changed since an earlier
generation whose folder holds whole ones (``segments``). Both are then searched side by side.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.errors import StoreError
from packwise.language.analyzer import ANALYZER
from packwise.stores.durable import out_of_handles
from packwise.stores.keyword_index import KeywordIndex, RecentTerms
from packwise.stores.knowledge import KEY_RANGE, Key, integers
from packwise.stores.pack.database import Generation
from packwise.stores.pack.folder import IndexHome
from packwise.stores.pack.name_arrays import NameArrays
from packwise.stores.pack.names import NAMES, NameTable
from packwise.stores.pack.queries import allowed_keys
from packwise.stores.pack.rows import stored_vectors
from packwise.stores.pack.seal import DamagedIndex, ForeignIndex, Seal, check_files, read_seal
from packwise.stores.pack.segments import KEYS, REMOVED, Segment
from packwise.stores.pack.vectors import (
    GRAPH_FILE,
    ExactVectors,
    GraphVectors,
    Keys,
    Rows,
    SegmentedVectors,
    VectorIndex,
)

EXACT_LIMIT = 5000
"""Passages up to which a scan of all of them is as fast as a graph, and never misses."""

_FILTERS_KEPT = 16

_log = logging.getLogger(__name__)

Sealed = tuple[Path, Seal]


@dataclass(slots=True)
class LoadedIndex:
    """The indexes of one generation, open. Row ``i`` is the passage of ``keys[i]``; it is there
    unless ``alive`` says otherwise."""

    generation: Generation
    keys: Keys
    vectors: VectorIndex
    keywords: KeywordIndex
    names: NameArrays
    alive: NDArray[np.bool_] | None = None
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

    def allowed(
        self, connection: sqlite3.Connection, where: Filter, among: Sequence[Key] | None
    ) -> Rows | None:
        """The rows a search may find, ascending; ``None`` for all."""
        if among is None:
            return self.rows(connection, where) if where else None
        rows = self.rows_of(np.array(integers(among), dtype=np.int64))
        if where:
            rows = np.intersect1d(rows, self.rows(connection, where), assume_unique=True)
        return rows

    def places_of(self, keys: Sequence[Key]) -> tuple[Keys, NDArray[np.bool_]]:
        """The same as ``places`` for keys that may be another store's."""
        ours = [key if isinstance(key, int) and key in KEY_RANGE else -1 for key in keys]
        return self.places(np.array(ours, dtype=np.int64))

    def places(self, keys: Keys) -> tuple[Keys, NDArray[np.bool_]]:
        """The row of each key, and whether it is here at all."""
        if len(self.keys) == 0:
            return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=bool)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        there = self.keys[rows] == keys
        return rows, there if self.alive is None else there & self.alive[rows]

    def every_row(self) -> Rows:
        """All rows that are there, ascending."""
        return np.arange(len(self.keys)) if self.alive is None else np.flatnonzero(self.alive)


def open_index(
    connection: sqlite3.Connection, home: IndexHome, generation: Generation
) -> LoadedIndex:
    """The indexes from their folders. Raises ``DamagedIndex`` when they cannot be used."""
    parts = sealed_parts(home, generation)
    (folder, seal), changes = parts[0], parts[1:]
    if NAMES not in seal.files:
        raise DamagedIndex(f"{folder} was written by an earlier version of packwise")
    for part in parts:
        check_files(*part)
    try:
        keys = np.fromfile(folder / KEYS, dtype="<i8")
        if changes:
            segment = Segment.open(changes[0][0], generation.dim)
            loaded = _with_segment(generation, folder, seal, keys, segment)
        else:
            loaded = _whole(connection, generation, folder, seal, keys)
        if len(loaded.every_row()) != generation.passages:
            raise DamagedIndex(f"{folder} does not hold {generation.passages} passages")
        return loaded
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, OSError) and out_of_handles(error):
            raise StoreError(f"cannot read {folder}: {error.strerror}") from error
        raise DamagedIndex(f"{folder}: {error}") from error


def _whole(
    connection: sqlite3.Connection, generation: Generation, folder: Path, seal: Seal, keys: Keys
) -> LoadedIndex:
    vectors: VectorIndex
    if len(keys) > EXACT_LIMIT:
        vectors = GraphVectors.open(folder, keys, generation.dim)
    else:
        vectors = ExactVectors(stored_vectors(connection, keys, generation.dim))
    keywords = KeywordIndex.open(folder, keys, seal.files)
    return LoadedIndex(
        generation, keys, vectors, keywords, NameArrays(NameTable.open(folder / NAMES))
    )


def _with_segment(
    generation: Generation, folder: Path, seal: Seal, keys: Keys, segment: Segment
) -> LoadedIndex:
    gone = np.searchsorted(keys, segment.removed)
    alive = np.ones(len(keys) + len(segment.keys), dtype=bool)
    alive[gone] = False
    graph = GraphVectors.open(folder, keys, generation.dim, gone)
    terms = RecentTerms(segment.terms, gone)
    return LoadedIndex(
        generation,
        np.concatenate([keys, segment.keys]),
        SegmentedVectors(graph, ExactVectors(segment.vectors), len(keys)),
        KeywordIndex.open(folder, keys, seal.files, terms),
        NameArrays(NameTable.open(folder / NAMES), segment.names, segment.removed),
        alive,
    )


def sealed_parts(home: IndexHome, generation: Generation, *, foreign: bool = False) -> list[Sealed]:
    """The folder that holds whole indexes, and that of the segment beside it, if any. Raises
    ``DamagedIndex`` if they are not of this state, or not this installation's."""
    part = _sealed(home, generation.number, generation.version, foreign=foreign)
    base = part[1].base
    if not base:
        return [part]
    number = base.partition("-")[0]
    if not number.isdecimal():
        raise DamagedIndex(f"{part[0]} does not say what it belongs to")
    return [_sealed(home, int(number), base, foreign=foreign), part]


def _sealed(home: IndexHome, number: int, version: str, *, foreign: bool) -> Sealed:
    folder = home.folder(number)
    if not home.is_there(number):
        raise DamagedIndex(f"{folder} is missing or incomplete")
    try:
        seal = read_seal(folder)
    except ForeignIndex as error:
        if not foreign:
            raise
        _log.warning("%s: it is made again when the pack is first searched", error)
        seal = error.seal
    if (seal.version, seal.analyzer) != (version, ANALYZER):
        raise DamagedIndex(f"{folder} belongs to another state of the pack")
    return folder, seal


def index_problems(home: IndexHome, generation: Generation) -> list[str]:
    """What is wrong with the index folders of a generation; reads every byte."""
    try:
        for folder, seal in sealed_parts(home, generation, foreign=True):
            check_files(folder, seal, again=True)
    except DamagedIndex as error:
        return [str(error)]
    return []


def generations_used(home: IndexHome, generation: Generation) -> set[int]:
    """The generations whose folders the indexes of one need."""
    try:
        parts = sealed_parts(home, generation, foreign=True)
    except DamagedIndex:
        return {generation.number}
    return {int(folder.name) for folder, _ in parts}


def has_graph(home: IndexHome, generation: Generation) -> bool:
    """Whether vectors are found by a graph rather than by comparing all of them."""
    folder = home.folder(generation.number)
    return any((folder / name).exists() for name in (GRAPH_FILE, REMOVED))

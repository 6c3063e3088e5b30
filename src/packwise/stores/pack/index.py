"""The two indexes of one generation of a pack: how they are made, checked and opened.

Everything in ``index/<generation>/`` is made from ``pack.sqlite`` and can be made again.
``index.json`` is written last and lists every file with its size and checksum, so a folder
that is incomplete, damaged or of another pack is told from a good one before it is used.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.errors import StoreFull
from packwise.language.analyzer import ANALYZER, terms
from packwise.stores import keyword_index as keywords
from packwise.stores.durable import checksum, files_under, sync_file, sync_tree
from packwise.stores.keyword_index import KeywordIndex
from packwise.stores.pack import vectors
from packwise.stores.pack.filters import allowed_keys
from packwise.stores.pack.rows import PASSAGE_COLUMNS, PASSAGE_TABLES, batches, marks, read_passage
from packwise.stores.pack.vectors import ExactVectors, FlatVectors, GraphVectors, VectorIndex

INDEX_FOLDER = "index"
FORMAT = 1

_SEAL = "index.json"
_KEYS = "keys.i64"
_BLOCK = 1024
_SMALL_CHANGE = 0.1
_MOST_DRIFT = 0.3
"""Share of passages that may have come or gone since an index was built anew."""

_FILTERS_KEPT = 16

_log = logging.getLogger(__name__)

Keys = NDArray[np.int64]


class DamagedIndex(Exception):
    """An index folder cannot be used; it has to be made again."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One state of a pack; ``token`` tells apart states that bear the same number."""

    number: int
    token: str
    dim: int
    passages: int

    @property
    def version(self) -> str:
        return f"{self.number}-{self.token}"


@dataclass(frozen=True, slots=True)
class Change:
    """The passages that one commit takes away and brings."""

    removed: Keys
    added: Keys


@dataclass(slots=True)
class LoadedIndex:
    """The indexes of one generation, open. Row ``i`` is the passage of ``keys[i]``."""

    generation: Generation
    keys: Keys
    vectors: VectorIndex
    keywords: KeywordIndex
    in_memory: bool = False
    _filters: OrderedDict[Filter, Keys] = field(default_factory=OrderedDict[Filter, Keys])

    def rows(self, connection: sqlite3.Connection, where: Filter) -> Keys:
        """The rows that pass a filter, ascending. Asked of SQLite once, then remembered."""
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
    _check(folder, generation)
    try:
        keys = _read_keys(folder)
        if len(keys) != generation.passages:
            raise DamagedIndex(f"{folder} does not hold {generation.passages} passages")
        found = _open_vectors(connection, folder, keys, generation)
        return LoadedIndex(generation, keys, found, KeywordIndex.open(folder, keys))
    except (OSError, ValueError, RuntimeError) as error:
        raise DamagedIndex(f"{folder}: {error}") from error


def mend_index(connection: sqlite3.Connection, pack: Path, generation: Generation) -> LoadedIndex:
    """Make the indexes again: in their folder where that can be written, else in memory."""
    try:
        write_index(connection, pack, generation)
        return open_index(connection, pack, generation)
    except (OSError, StoreFull, DamagedIndex) as error:
        _log.info("the index of %s is kept in memory: %s", pack, error)
    keys = _passage_keys(connection)
    blocks = [half for _, half in _vector_blocks(connection, keys, generation.dim)]
    half = np.concatenate(blocks) if blocks else np.empty((0, generation.dim), dtype="<f2")
    small = len(keys) <= vectors.EXACT_LIMIT
    return LoadedIndex(
        generation,
        keys,
        ExactVectors(half) if small else FlatVectors(half),
        keywords.build_in_memory(_terms(connection, keys), keys),
        in_memory=True,
    )


def write_index(
    connection: sqlite3.Connection,
    pack: Path,
    generation: Generation,
    previous: Generation | None = None,
    change: Change | None = None,
) -> Path:
    """Write the indexes of what the connection sees into their folder, durably.

    With the ``previous`` generation and the ``change`` since, a small change is applied to a
    copy of its indexes; otherwise, and whenever that copy is of no use, all is made anew.
    """
    folder = folder_of(pack, generation)
    folder.parent.mkdir(exist_ok=True)
    building = folder.parent / f".{generation.number}-{secrets.token_hex(4)}"
    try:
        drift = _apply(connection, pack, building, generation, previous, change)
        if drift is None:
            shutil.rmtree(building, ignore_errors=True)
            _build(connection, building, generation)
        _seal(building, generation, drift or 0)
        _put_in_place(building, folder)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return folder


def remove_other_indexes(pack: Path, generation: Generation) -> None:
    """Remove every index folder but that of a generation; who has one open keeps it."""
    for folder in (pack / INDEX_FOLDER).glob("*"):
        if folder.name != str(generation.number):
            shutil.rmtree(folder, ignore_errors=True)


def index_problems(pack: Path, generation: Generation) -> list[str]:
    """What is wrong with the index folder of a generation; checks every byte."""
    try:
        _check(folder_of(pack, generation), generation, trust_times=False)
    except DamagedIndex as error:
        return [str(error)]
    return []


def has_graph(pack: Path, generation: Generation) -> bool:
    """Whether vectors are found by a graph rather than by looking at all of them."""
    return (folder_of(pack, generation) / vectors.GRAPH_FILE).exists()


def _build(connection: sqlite3.Connection, folder: Path, generation: Generation) -> None:
    folder.mkdir()
    keys = _passage_keys(connection)
    _write_keys(folder, keys)
    keywords.build(folder, _terms(connection, keys))
    if len(keys) > vectors.EXACT_LIMIT:
        blocks = _vector_blocks(connection, keys, generation.dim)
        vectors.build_graph(folder, generation.dim, blocks)


def _apply(
    connection: sqlite3.Connection,
    pack: Path,
    folder: Path,
    generation: Generation,
    previous: Generation | None,
    change: Change | None,
) -> int | None:
    """Write the changed copy of the previous indexes and return how far they have drifted
    from a fresh build, or ``None`` when that cannot or should not be done."""
    if previous is None or change is None or previous.passages == 0:
        return None
    moved = len(change.removed) + len(change.added)
    if moved > _SMALL_CHANGE * previous.passages or previous.dim != generation.dim:
        return None
    old = folder_of(pack, previous)
    try:
        drift = moved + int(_check(old, previous)["drift"])
        if drift > _MOST_DRIFT * generation.passages:
            return None
        keys = _read_keys(old)
        kept = (keys, ~np.isin(keys, change.removed))
        added = np.sort(change.added)
        folder.mkdir()
        new_keys = np.concatenate([keys[kept[1]], added])
        _write_keys(folder, new_keys)
        keywords.update(old, folder, kept, _terms(connection, added))
        if len(new_keys) > vectors.EXACT_LIMIT:
            if (old / vectors.GRAPH_FILE).exists():
                blocks = _vector_blocks(connection, added, generation.dim)
                vectors.update_graph(old, folder, generation.dim, kept, blocks)
            else:
                blocks = _vector_blocks(connection, new_keys, generation.dim)
                vectors.build_graph(folder, generation.dim, blocks)
    except (DamagedIndex, ValueError, RuntimeError) as error:
        _log.info("the indexes of %s are made anew: %s", pack, error)
        return None
    return drift


def _seal(folder: Path, generation: Generation, drift: int) -> None:
    for path in files_under(folder):
        if path.suffix == ".lock":
            path.unlink()
    content = {
        "format": FORMAT,
        "version": generation.version,
        "analyzer": ANALYZER,
        "drift": drift,
        "files": {
            str(path.relative_to(folder)): [
                path.stat().st_size,
                path.stat().st_mtime_ns,
                checksum(path),
            ]
            for path in files_under(folder)
        },
    }
    (folder / _SEAL).write_text(json.dumps(content, indent=1))
    sync_tree(folder)


def _check(folder: Path, generation: Generation, *, trust_times: bool = True) -> dict[str, Any]:
    """The seal of a folder that is whole and belongs to this generation.

    A file with the size and time it was sealed with is taken as it is; any other is read
    and compared, because a damaged graph can end the process that searches it.
    """
    try:
        content = cast("dict[str, Any]", json.loads((folder / _SEAL).read_text()))
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


def _put_in_place(building: Path, folder: Path) -> None:
    if folder.exists():
        aside = folder.parent / f".old-{secrets.token_hex(4)}"
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    building.rename(folder)
    sync_file(folder.parent)
    sync_file(folder.parent.parent)


def _open_vectors(
    connection: sqlite3.Connection, folder: Path, keys: Keys, generation: Generation
) -> VectorIndex:
    if len(keys) > vectors.EXACT_LIMIT:
        return GraphVectors.open(folder, keys, generation.dim)
    half = np.empty((len(keys), generation.dim), dtype="<f2")
    at = 0
    for found, block in _vector_blocks(connection, keys, generation.dim):
        half[at : at + len(found)] = block
        at += len(found)
    return ExactVectors(half)


def _read_keys(folder: Path) -> Keys:
    return np.fromfile(folder / _KEYS, dtype="<i8")


def _write_keys(folder: Path, keys: Keys) -> None:
    (folder / _KEYS).write_bytes(keys.astype("<i8").tobytes())


def _passage_keys(connection: sqlite3.Connection) -> Keys:
    rows = connection.execute("SELECT key FROM passages ORDER BY key")
    return np.fromiter((key for (key,) in rows), dtype=np.int64)


def _vector_blocks(
    connection: sqlite3.Connection, keys: Keys, dim: int
) -> Iterator[tuple[Keys, NDArray[np.float16]]]:
    """The vectors of these keys (ascending), some at a time."""
    for at in range(0, len(keys), _BLOCK):
        block = keys[at : at + _BLOCK]
        blobs = [
            blob
            for _, blob in _rows_of_keys(
                connection,
                "SELECT p.key, v.vector FROM passages AS p JOIN vectors AS v ON v.key = p.vector",
                block,
            )
        ]
        half = np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(block), dim)
        yield block, half


def _terms(connection: sqlite3.Connection, keys: Keys) -> Iterator[tuple[int, Sequence[str]]]:
    """The index terms of the passages of these keys (ascending)."""
    for row in _rows_of_keys(connection, f"SELECT {PASSAGE_COLUMNS} FROM {PASSAGE_TABLES}", keys):
        key, passage = read_passage(row, "")
        yield key, terms(passage.indexed_text)


def _rows_of_keys(connection: sqlite3.Connection, select: str, keys: Keys) -> Iterator[Any]:
    for batch in batches(keys.tolist()):
        yield from connection.execute(
            f"{select} WHERE p.key IN ({marks(batch)}) ORDER BY p.key", batch
        )

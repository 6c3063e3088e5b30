"""Making the indexes of a generation: from scratch, or from those of the one before.

``index.json`` is written last and seals the folder.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from packwise.errors import StoreFull
from packwise.language.analyzer import terms
from packwise.stores import bm25
from packwise.stores.durable import raise_if_full, sync_file
from packwise.stores.pack import index
from packwise.stores.pack.database import Generation
from packwise.stores.pack.index import (
    EXPANSION_SEARCH,
    FLAT_FILE,
    FORMAT,
    GRAPH_FILE,
    INDEX_FOLDER,
    KEYS,
    SCAN_ROWS,
    SEAL,
    DamagedIndex,
    ExactVectors,
    FlatVectors,
    Half,
    Keys,
    LoadedIndex,
    checksum,
    files_under,
    folder_of,
    map_vectors,
    open_index,
    read_seal,
    rows_of_keys,
    stored_vectors,
    vector_blocks,
)
from packwise.stores.pack.queries import passage_query, read_passage

_CONNECTIVITY = 16
_EXPANSION_ADD = 128
_SMALL_CHANGE = 0.1
_MOST_DRIFT = 0.3
"""Share of passages that may have come or gone since an index was last built from scratch."""

_log = logging.getLogger(__name__)

Kept = tuple[Keys, np.ndarray[Any, np.dtype[np.bool_]]]
"""The keys of all rows of an index, and which of them stay."""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The passages that one commit removes and adds."""

    removed: Keys
    added: Keys


def rebuild_index(
    connection: sqlite3.Connection, pack: Path, generation: Generation
) -> LoadedIndex:
    """Make the indexes again: in their folder where that can be written, else in memory."""
    try:
        write_index(connection, pack, generation)
        return open_index(connection, pack, generation)
    except (OSError, StoreFull, DamagedIndex) as error:
        _log.info("the index of %s is kept in memory: %s", pack, error)
    keys = _passage_keys(connection)
    half = stored_vectors(connection, keys, generation.dim)
    return LoadedIndex(
        generation,
        keys,
        ExactVectors(half) if len(keys) <= index.EXACT_LIMIT else FlatVectors(half),
        bm25.build_in_memory(_terms(connection, keys), keys),
    )


def write_index(
    connection: sqlite3.Connection,
    pack: Path,
    generation: Generation,
    previous: Generation | None = None,
    change: IndexChange | None = None,
) -> Path:
    """Write the indexes of what the connection sees into their folder, durably.

    With the ``previous`` generation and the ``change`` since, a small change is applied to a
    copy of its indexes. Otherwise, and whenever that copy cannot be used, all is made again.
    """
    folder = folder_of(pack, generation)
    folder.parent.mkdir(exist_ok=True)
    building = folder.parent / f".{generation.number}-{secrets.token_hex(4)}"
    try:
        drift = None
        if previous is not None and change is not None:
            drift = _update(connection, building, generation, pack, previous, change)
        if drift is None:
            shutil.rmtree(building, ignore_errors=True)
            _build(connection, building, generation)
        _seal(building, generation, drift or 0)
        if folder.exists():
            aside = folder.parent / f".old-{secrets.token_hex(4)}"
            folder.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
        building.rename(folder)
        sync_file(folder.parent)
        sync_file(pack)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return folder


def remove_other_indexes(pack: Path, generation: Generation) -> None:
    """Remove every index folder but that of a generation; readers keep what they have open."""
    for folder in (pack / INDEX_FOLDER).glob("*"):
        if folder.name != str(generation.number):
            shutil.rmtree(folder, ignore_errors=True)


def _build(connection: sqlite3.Connection, folder: Path, generation: Generation) -> None:
    folder.mkdir()
    keys = _passage_keys(connection)
    _write_keys(folder, keys)
    bm25.build(folder, _terms(connection, keys))
    if len(keys) > index.EXACT_LIMIT:
        build_graph(folder, generation.dim, vector_blocks(connection, keys, generation.dim))


def _update(
    connection: sqlite3.Connection,
    folder: Path,
    generation: Generation,
    pack: Path,
    previous: Generation,
    change: IndexChange,
) -> int | None:
    """Write the changed copy of the previous indexes and return how far they have drifted
    from a fresh build, or ``None`` when that cannot or should not be done."""
    moved = len(change.removed) + len(change.added)
    small = previous.passages > 0 and moved <= _SMALL_CHANGE * previous.passages
    if not small or previous.dim != generation.dim:
        return None
    old = folder_of(pack, previous)
    try:
        drift = moved + int(read_seal(old, previous)["drift"])
        if drift > _MOST_DRIFT * generation.passages:
            return None
        keys = np.fromfile(old / KEYS, dtype="<i8")
        kept: Kept = (keys, ~np.isin(keys, change.removed))
        added = np.sort(change.added)
        folder.mkdir()
        new_keys = np.concatenate([keys[kept[1]], added])
        _write_keys(folder, new_keys)
        bm25.update(old, folder, kept, _terms(connection, added))
        if len(new_keys) > index.EXACT_LIMIT:
            if (old / GRAPH_FILE).exists():
                blocks = vector_blocks(connection, added, generation.dim)
                update_graph(old, folder, generation.dim, kept, blocks)
            else:
                blocks = vector_blocks(connection, new_keys, generation.dim)
                build_graph(folder, generation.dim, blocks)
    except (DamagedIndex, ValueError, RuntimeError) as error:
        _log.info("the indexes of %s are made again: %s", pack, error)
        return None
    return drift


def _seal(folder: Path, generation: Generation, drift: int) -> None:
    for path in files_under(folder):
        if path.suffix == ".lock":
            path.unlink()
    content = {
        "format": FORMAT,
        "version": generation.version,
        "analyzer": index.ANALYZER,
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
    (folder / SEAL).write_text(json.dumps(content, indent=1))
    for path in (*files_under(folder), *(p for p in folder.rglob("*") if p.is_dir()), folder):
        sync_file(path)


def _passage_keys(connection: sqlite3.Connection) -> Keys:
    rows = connection.execute("SELECT key FROM passages ORDER BY key")
    return np.fromiter((key for (key,) in rows), dtype=np.int64)


def _write_keys(folder: Path, keys: Keys) -> None:
    (folder / KEYS).write_bytes(keys.astype("<i8").tobytes())


def _terms(connection: sqlite3.Connection, keys: Keys) -> Iterator[tuple[int, Sequence[str]]]:
    """The index terms of the passages of these keys (ascending)."""
    for row in rows_of_keys(connection, passage_query(connection), keys):
        key, passage = read_passage(row, "")
        yield key, terms(passage.indexed_text)


def build_graph(folder: Path, dim: int, blocks: Iterable[tuple[Keys, Half]]) -> None:
    """Write graph and vectors from blocks of (keys, vectors) in the order of the keys."""
    from usearch.index import Index

    graph = Index(
        ndim=dim,
        metric="cos",
        dtype="f16",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
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
    kept: Kept,
    added: Iterator[tuple[Keys, Half]],
) -> None:
    """Write graph and vectors of ``old`` again, without some rows and with new ones after."""
    from usearch.index import Index

    keys, staying = kept
    graph = Index.restore(str(old / GRAPH_FILE), view=False)
    if graph is None or graph.ndim != dim or len(graph) != len(keys):
        raise ValueError(f"{GRAPH_FILE} does not hold {len(keys)} vectors of {dim}")
    leaving = keys[~staying]
    if len(leaving):
        graph.remove(leaving.astype(np.uint64), threads=1)
    flat = map_vectors(old, len(keys), dim)
    with (folder / FLAT_FILE).open("wb") as file:
        for at in range(0, len(keys), SCAN_ROWS):
            file.write(flat[at : at + SCAN_ROWS][staying[at : at + SCAN_ROWS]].tobytes())
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

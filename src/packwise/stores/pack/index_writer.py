"""Making the indexes of a generation: whole ones from scratch or from those of an earlier
generation, or a segment with what changed since.

``index.json`` is written last and seals the folder.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from packwise.errors import StoreDamaged, StoreFull
from packwise.language.analyzer import terms
from packwise.stores import keyword_index
from packwise.stores.durable import raise_if_full, sync_file
from packwise.stores.pack import index
from packwise.stores.pack.database import Generation
from packwise.stores.pack.folder import KEYWORDS, IndexHome, PackFolder
from packwise.stores.pack.index import LoadedIndex, Sealed, open_index, sealed_parts
from packwise.stores.pack.name_arrays import NameArrays
from packwise.stores.pack.names import NAMES, read_names
from packwise.stores.pack.rows import (
    decoding,
    passage_query,
    read_passage,
    rows_of_keys,
    stored_vectors,
    vector_blocks,
)
from packwise.stores.pack.seal import SEAL, DamagedIndex, check_files, write_seal
from packwise.stores.pack.segments import KEYS, IndexChange, Segment
from packwise.stores.pack.vectors import (
    EXPANSION_SEARCH,
    FLAT_FILE,
    GRAPH_FILE,
    SCAN_ROWS,
    ExactVectors,
    FlatVectors,
    Half,
    Keys,
    map_vectors,
)

MOST_RECENT = 4000
"""Passages of a segment. A commit writes all of it again, about 3 kB a passage with 384
dimensions, and a search compares the question with each of its vectors."""

MOST_GONE = 0.1
"""Share of the passages of whole indexes that may be gone before they are written again: a
search steps over them, and the disk keeps them."""

_CONNECTIVITY = 16
_EXPANSION_ADD = 128
_SMALL_CHANGE = 0.1
_MOST_DRIFT = 0.3
"""Share of passages that may have come or gone since an index was last built from scratch."""

_log = logging.getLogger(__name__)

Kept = tuple[Keys, np.ndarray[Any, np.dtype[np.bool_]]]
"""The keys of all rows of an index, and which of them stay."""


def rebuild_index(
    connection: sqlite3.Connection, folder: PackFolder, generation: Generation
) -> LoadedIndex:
    """Make the indexes again: in the pack where that can be written, else in the cache folder,
    else in memory. Raises ``StoreDamaged`` if the rows of the database do not fit together."""
    with decoding(str(folder.database)):
        return _rebuild(connection, folder, generation)


def _rebuild(
    connection: sqlite3.Connection, folder: PackFolder, generation: Generation
) -> LoadedIndex:
    for home in (folder.indexes, folder.cached_indexes):
        try:
            write_index(connection, home, generation)
            if home is not folder.indexes:
                home.remove_others({generation.number})
            return open_index(connection, home, generation)
        except (OSError, StoreFull, DamagedIndex) as error:
            _log.info("no index of %s can be kept in %s: %s", folder, home.path, error)
    keys = _passage_keys(connection)
    with _from_the_database():
        half = stored_vectors(connection, keys, generation.dim)
    return LoadedIndex(
        generation,
        keys,
        ExactVectors(half) if len(keys) <= index.EXACT_LIMIT else FlatVectors(half),
        keyword_index.build_in_memory(_terms(connection, keys), keys),
        NameArrays(read_names(connection)),
    )


def write_index(
    connection: sqlite3.Connection,
    home: IndexHome,
    generation: Generation,
    previous: Generation | None = None,
    change: IndexChange | None = None,
) -> None:
    """Write the indexes of what the connection sees into their folder, durably.

    With the ``previous`` generation and the ``change`` since, a small change makes a segment
    beside the whole indexes that are there, a larger one is applied to a copy of them.
    Otherwise, and whenever those cannot be used, all is made again.
    """
    with home.writing(generation.number) as building:
        if previous is not None and change is not None and previous.dim == generation.dim:
            try:
                parts = sealed_parts(home, previous)
                if _change_index(connection, building, generation, parts, change):
                    return
            except (DamagedIndex, ValueError, RuntimeError) as error:
                _log.info("the indexes in %s are made again: %s", home.path, error)
            home.empty(building)
        _build(connection, building, generation)
        read_names(connection).write(building / NAMES)
        _seal(building, generation, 0)


def _change_index(
    connection: sqlite3.Connection,
    folder: Path,
    generation: Generation,
    parts: Sequence[Sealed],
    change: IndexChange,
) -> bool:
    """Write what became of the previous indexes; false where they should be made again."""
    segment = Segment.empty(generation.dim)
    if len(parts) > 1:
        check_files(*parts[1])
        segment = Segment.open(parts[1][0], generation.dim)
    whole = parts[0]
    since = segment.passages(change)
    if _stays_segment(whole, generation, change, since):
        added = _terms(connection, np.sort(change.added))
        segment = segment.extended(connection, change, added)
        if len(segment.names.passages) <= 2 * MOST_RECENT:
            segment.write(folder)
            _seal(folder, generation, 0, whole[1].version)
            return True
    drift = _update(connection, folder, generation, whole, since)
    if drift is None:
        return False
    read_names(connection).write(folder / NAMES)
    _seal(folder, generation, drift)
    return True


def _stays_segment(
    whole: Sealed, generation: Generation, change: IndexChange, since: IndexChange
) -> bool:
    """Whether what changed since whole indexes were written is little beside them."""
    folder, seal = whole
    held = seal.files[KEYS][0] // 8
    return (
        change.documents is not None
        and len(change.documents) <= MOST_RECENT
        and NAMES in seal.files
        and (folder / GRAPH_FILE).exists()
        and generation.passages > index.EXACT_LIMIT
        and len(since.added) <= MOST_RECENT
        and len(since.removed) <= MOST_GONE * held
    )


def _build(connection: sqlite3.Connection, folder: Path, generation: Generation) -> None:
    keys = _passage_keys(connection)
    _write_keys(folder, keys)
    keyword_index.build(folder, _terms(connection, keys))
    if len(keys) > index.EXACT_LIMIT:
        with _from_the_database():
            build_graph(folder, generation.dim, vector_blocks(connection, keys, generation.dim))


@contextmanager
def _from_the_database() -> Generator[None]:
    """Where everything is made from the database, nothing else can be damaged."""
    try:
        yield
    except DamagedIndex as error:
        raise StoreDamaged(
            "passages of the pack have no vector", fix="packwise pack verify PACK"
        ) from error


def _update(
    connection: sqlite3.Connection,
    folder: Path,
    generation: Generation,
    whole: Sealed,
    change: IndexChange,
) -> int | None:
    """Write a changed copy of whole indexes and return how far they have drifted from a fresh
    build, or ``None`` when that should not be done."""
    old, seal = whole
    held = seal.files[KEYS][0] // 8
    moved = len(change.removed) + len(change.added)
    drift = moved + seal.drift
    if moved > _SMALL_CHANGE * held or drift > _MOST_DRIFT * generation.passages:
        return None
    check_files(old, seal)
    keys = np.fromfile(old / KEYS, dtype="<i8")
    kept: Kept = (keys, ~np.isin(keys, change.removed))
    added = change.added
    new_keys = np.concatenate([keys[kept[1]], added])
    _write_keys(folder, new_keys)
    keyword_index.update(old, folder, kept, _terms(connection, added), seal.files)
    if len(new_keys) > index.EXACT_LIMIT:
        if (old / GRAPH_FILE).exists():
            blocks = vector_blocks(connection, added, generation.dim)
            update_graph(old, folder, generation.dim, kept, blocks)
        else:
            blocks = vector_blocks(connection, new_keys, generation.dim)
            build_graph(folder, generation.dim, blocks)
    return drift


def _seal(folder: Path, generation: Generation, drift: int, base: str = "") -> None:
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    kept = [name for name in names if not name.endswith(".lock")]
    write_seal(folder, generation.version, index.ANALYZER, drift, kept, base)
    for name in (*kept, SEAL, *(() if base else (KEYWORDS,)), "."):
        sync_file(folder / name)


def _passage_keys(connection: sqlite3.Connection) -> Keys:
    rows = connection.execute("SELECT key FROM passages ORDER BY key")
    return np.fromiter((key for (key,) in rows), dtype=np.int64)


def _write_keys(folder: Path, keys: Keys) -> None:
    (folder / KEYS).write_bytes(keys.astype("<i8").tobytes())


def _terms(connection: sqlite3.Connection, keys: Keys) -> Iterator[tuple[int, Sequence[str]]]:
    """The index terms of the passages of these keys (ascending)."""
    for row in rows_of_keys(connection, passage_query(connection), keys):
        key, passage = read_passage(row, "")
        yield key, terms(passage.indexed_text, passage.lang)


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
    added: list[Keys] = []
    with (folder / FLAT_FILE).open("wb") as file:
        for keys, half in blocks:
            file.write(half.tobytes())
            added.append(keys)
    # The graph refers to the vectors in the mapped file: in memory of its own they would take
    # five times what the links between them do.
    flat, at = map_vectors(folder, sum(map(len, added)), dim), 0
    for keys in added:
        # One thread: the same vectors then always make the same graph.
        rows = flat[at : at + len(keys)]
        graph.add(keys.astype(np.uint64), rows, copy=False, threads=1)
        at += len(keys)
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

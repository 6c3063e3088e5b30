"""The pack: one folder that holds documents and finds their passages.

``pack.sqlite`` is authoritative. The indexes beside it belong to one generation of it and are
made again when they are missing. Many threads and processes can read while one builds.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Document, Link, Passage
from packwise.errors import NotAStore, StoreMissing, UsageError
from packwise.language.analyzer import ANALYZER
from packwise.stores.base import (
    DocumentSummary,
    Key,
    Match,
    StoreInfo,
    TermStatistics,
    Vectors,
)
from packwise.stores.checks import EmbedderIdentity, question_vector, storable
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader, integers
from packwise.stores.lifecycle import Closeable
from packwise.stores.pack.database import (
    DATABASE,
    Connections,
    Generation,
    PackState,
    finished_state,
    schema_version,
)
from packwise.stores.pack.index import (
    INDEX_FOLDER,
    DamagedIndex,
    LoadedIndex,
    has_graph,
    open_index,
    size_of,
)
from packwise.stores.pack.index_writer import rebuild_index
from packwise.stores.pack.manifest import MANIFEST
from packwise.stores.pack.queries import (
    PackKnowledge,
    batches,
    counts,
    marks,
    passage_query,
    read_document,
    read_passage,
)
from packwise.stores.pack.validation import validate
from packwise.stores.pack.writer import LOCK, PackWriter

__all__ = ["PackStore", "create_or_open_pack", "open_pack", "validate"]

_OWN_NAMES = frozenset(
    {
        DATABASE,
        f"{DATABASE}-wal",
        f"{DATABASE}-shm",
        INDEX_FOLDER,
        MANIFEST,
        LOCK,
        "few_shot_examples.json",
        "eval",
        "SKILL.md",
    }
)
_ATTEMPTS = 5
_T = TypeVar("_T")


def open_pack(path: str | Path) -> PackStore:
    """Open a pack for reading. Raises ``StoreMissing`` where nothing, or only an unfinished
    first build, is there, and ``NotAStore`` where something else is."""
    folder = Path(path)
    if not folder.exists():
        raise StoreMissing(
            f"there is no pack at {folder}", fix=f"packwise build SOURCE --out {folder}"
        )
    _check_folder(folder)
    store = PackStore(folder)
    try:
        store.info()
    except BaseException:
        store.close()
        raise
    return store


def create_or_open_pack(path: str | Path) -> PackStore:
    """Open a pack to build it, whether or not it exists.

    Nothing is created before the first document is staged. Raises ``NotAStore`` where
    something else is in the way.
    """
    folder = Path(path)
    if folder.exists():
        _check_folder(folder)
    return PackStore(folder)


def _check_folder(folder: Path) -> None:
    """Raise ``NotAStore`` on a place that neither holds a pack nor could."""
    if not folder.is_dir():
        raise NotAStore(f"{folder} is a file, not a pack", fix="name the folder of a pack")
    if (folder / DATABASE).exists():
        return
    foreign = [path.name for path in folder.iterdir() if path.name not in _OWN_NAMES]
    if foreign:
        raise NotAStore(
            f"{folder} is not a pack: it has no {DATABASE} but holds {min(foreign)}",
            fix="name the folder of a pack, or an empty one to build into",
        )


class PackStore(Closeable, KnowledgeReader):
    """One pack. Safe to use from several threads; sees a finished build at the next call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connections = Connections(folder)
        self._loading = threading.Lock()
        self._loaded: LoadedIndex | None = None

    def info(self) -> StoreInfo:
        with self._snapshot() as (connection, state):
            (staged,) = connection.execute("SELECT count(*) FROM staged").fetchone()
            (links,) = connection.execute("SELECT count(*) FROM links").fetchone()
            schema = schema_version(connection)
            known = counts(connection)
        return StoreInfo(
            location=str(self._folder),
            kind="pack",
            version=state.index.version,
            embedder=state.embedder.name,
            embedder_version=state.embedder.version,
            dim=state.embedder.dim,
            documents=state.documents,
            passages=state.passages,
            links=state.links,
            size_bytes=size_of(self._folder),
            details={
                "generation": str(state.generation),
                "schema": str(schema),
                "analyzer": ANALYZER,
                "vector_index": "usearch" if has_graph(self._folder, state.index) else "exact",
                "index_bytes": str(size_of(self._folder / INDEX_FOLDER)),
                "unresolved_links": str(links - state.links),
                **{name: str(count) for name, count in known.items()},
                "staged_documents": str(staged),
                "created_at": state.created_at,
                "updated_at": state.updated_at,
            },
        )

    def version(self) -> str:
        with self._snapshot() as (_, state):
            return state.index.version

    def vector_search(
        self,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        with self._searching() as (connection, index):
            rows = _rows(connection, index, where, among)
            question = question_vector(vector, index.generation.dim, str(self._folder))
            if k <= 0 or (len(index.keys) if rows is None else len(rows)) == 0:
                return []
            if not question.any():
                # It is equally far from everything: the first ones, as with any tie.
                first = (np.arange(len(index.keys)) if rows is None else rows)[:k]
                return _matches(index, first, np.zeros(len(first)))
            return _matches(index, *index.vectors.nearest(question, k, rows))

    def keyword_search(
        self,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        with self._searching() as (connection, index):
            rows = _rows(connection, index, where, among)
            return _matches(index, *index.keywords.best(terms, k, rows))

    def term_statistics(self, terms: Sequence[str]) -> TermStatistics:
        with self._searching() as (_, index):
            return index.keywords.statistics(terms)

    def passages(self, keys: Sequence[Key]) -> list[Passage | None]:
        wanted = integers(keys)
        found: dict[Key, Passage] = {}
        with self._snapshot() as (connection, state):
            read, select = _reader(state), passage_query(connection)
            for batch in batches(wanted):
                rows = connection.execute(f"{select} WHERE p.key IN ({marks(batch)})", batch)
                found.update(map(read, rows))
        return [found.get(key) for key in keys]

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        with self._searching() as (_, index):
            vectors = np.zeros((len(keys), index.generation.dim), dtype=np.float32)
            at = [i for i, key in enumerate(keys) if integers([key])]
            rows, there = index.places(np.array([keys[i] for i in at], dtype=np.int64))
            vectors[np.array(at, dtype=np.int64)[there]] = index.vectors.get(rows[there])
            return vectors

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        with self._snapshot() as (connection, state):
            row = None
            for number in integers([key]):
                row = connection.execute(
                    "SELECT document, position FROM passages WHERE key = ?", (number,)
                ).fetchone()
            if row is None:
                return []
            select = f"{passage_query(connection)} WHERE p.document = ?"
            earlier = connection.execute(
                f"{select} AND p.position < ? ORDER BY p.position DESC LIMIT ?",
                (*row, max(before, 0)),
            ).fetchall()
            later = connection.execute(
                f"{select} AND p.position > ? ORDER BY p.position LIMIT ?",
                (*row, max(after, 0)),
            ).fetchall()
            return list(map(_reader(state), [*reversed(earlier), *later]))

    def document(self, document_id: str) -> Document | None:
        with self._snapshot() as (connection, _):
            return read_document(connection, storable(document_id))

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        with self._snapshot() as (connection, state):
            rows = connection.execute(
                f"{passage_query(connection)} WHERE d.id = ? ORDER BY p.position",
                (storable(document_id),),
            )
            return list(map(_reader(state), rows))

    def documents(self) -> Iterator[DocumentSummary]:
        with self._snapshot() as (connection, _):
            rows = connection.execute(
                "SELECT d.id, d.title, d.url, d.lang, d.source_hash,"
                " (SELECT count(*) FROM passages AS p WHERE p.document = d.key),"
                " r.pagerank, d.metadata"
                " FROM documents AS d JOIN ranks AS r ON r.document = d.key ORDER BY d.id"
            )
            for *columns, metadata in rows:
                yield DocumentSummary(*columns, metadata=json.loads(metadata))

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        found: dict[str, list[Link]] = {}
        names = [storable(name) for name in dict.fromkeys(document_ids)]
        with self._snapshot() as (connection, _):
            for batch in batches(names):
                rows = connection.execute(
                    "SELECT d.id, k.href, k.anchor, k.first, t.id, k.kind FROM links AS k"
                    " JOIN documents AS d ON d.key = k.document"
                    " JOIN documents AS t ON t.key = k.target"
                    f" WHERE d.id IN ({marks(batch)}) ORDER BY k.document, k.position",
                    batch,
                )
                for name, *columns in rows:
                    found.setdefault(name, []).append(Link(*columns))
        return [(name, link) for name in names for link in found.get(name, [])]

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        found: dict[str, float] = {}
        with self._snapshot() as (connection, _):
            for batch in batches([storable(name) for name in dict.fromkeys(document_ids)]):
                rows = connection.execute(
                    "SELECT d.id, r.pagerank FROM documents AS d"
                    " JOIN ranks AS r ON r.document = d.key"
                    f" WHERE d.id IN ({marks(batch)})",
                    batch,
                )
                found.update(rows.fetchall())
        return found

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        with self._snapshot() as (connection, _):
            return read(PackKnowledge(connection))

    def writer(
        self, *, embedder: str, embedder_version: str, dim: int, allow_mismatch: bool = False
    ) -> PackWriter:
        if dim < 1:
            raise UsageError(f"an embedder has at least 1 dimension, not {dim}")
        identity = EmbedderIdentity(embedder, embedder_version, dim)
        return PackWriter(self._folder, identity, allow_mismatch=allow_mismatch)

    def close(self) -> None:
        self._connections.close()
        self._loaded = None

    @contextmanager
    def _snapshot(self) -> Generator[tuple[sqlite3.Connection, PackState]]:
        """One state of the pack, for as long as it is held."""
        with self._connections.snapshot() as connection:
            yield connection, finished_state(connection, self._folder)

    @contextmanager
    def _searching(self) -> Generator[tuple[sqlite3.Connection, LoadedIndex]]:
        """One state of the pack together with its indexes."""
        for attempt in range(_ATTEMPTS):
            with self._snapshot() as (connection, state):
                index = self._index(connection, state.index, attempt == _ATTEMPTS - 1)
                if index is not None:
                    yield connection, index
                    return

    def _index(
        self, connection: sqlite3.Connection, generation: Generation, insist: bool
    ) -> LoadedIndex | None:
        """The indexes of a generation; ``None`` when a newer one has taken its place, unless
        the caller insists."""
        loaded = self._loaded
        if loaded is not None and loaded.generation == generation:
            return loaded
        with self._loading:
            loaded = self._loaded
            if loaded is not None and loaded.generation == generation:
                return loaded
            try:
                index = open_index(connection, self._folder, generation)
            except DamagedIndex:
                if not insist and not self._is_current(generation):
                    return None
                index = rebuild_index(connection, self._folder, generation)
            self._loaded = index
            return index

    def _is_current(self, generation: Generation) -> bool:
        with self._snapshot() as (_, state):
            return state.index == generation


def _reader(state: PackState) -> Callable[[Sequence[Any]], tuple[int, Passage]]:
    return lambda row: read_passage(row, state.embedder.version)


def _rows(
    connection: sqlite3.Connection,
    index: LoadedIndex,
    where: Filter,
    among: Sequence[Key] | None,
) -> NDArray[np.int64] | None:
    """The rows a search may find, ascending; ``None`` for all."""
    if among is None:
        return index.rows(connection, where) if where else None
    rows = index.rows_of(np.array(integers(among), dtype=np.int64))
    if where:
        rows = np.intersect1d(rows, index.rows(connection, where), assume_unique=True)
    return rows


def _matches(
    index: LoadedIndex, rows: NDArray[np.int64], scores: NDArray[np.float64]
) -> list[Match]:
    keys = index.keys[rows].tolist()
    return [Match(key, score) for key, score in zip(keys, scores.tolist(), strict=True)]

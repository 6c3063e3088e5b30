"""The pack: one folder that holds documents and finds their passages.

``pack.sqlite`` is authoritative. The indexes beside it belong to one generation of it and are
made again when they are missing. Many threads and processes can read while one builds.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Document, Link, Passage
from packwise.errors import NotAStore, StoreDamaged, StoreMissing
from packwise.language.analyzer import ANALYZER
from packwise.stores.base import DocumentSummary, Key, Match, StoreInfo, TermStatistics, Vectors
from packwise.stores.checks import EmbedderIdentity, question_vector, storable
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader, integers
from packwise.stores.languages import LanguageCounts
from packwise.stores.lifecycle import BuildableStore
from packwise.stores.locate import opened
from packwise.stores.name_graph import NameGraph
from packwise.stores.pack.checksums import check_database
from packwise.stores.pack.database import (
    Connections,
    Generation,
    PackState,
    deadline,
    finished_state,
    schema_version,
)
from packwise.stores.pack.folder import DATABASE, IndexHome, PackFolder
from packwise.stores.pack.index import (
    LoadedIndex,
    Sealed,
    has_graph,
    open_index,
    sealed_parts,
)
from packwise.stores.pack.queries import PackKnowledge, batches, counts, marks
from packwise.stores.pack.rows import (
    decoding,
    passage_query,
    read_document,
    read_languages,
    read_links,
    read_passage,
    read_ranks,
    read_summary,
)
from packwise.stores.pack.seal import DamagedIndex, ForeignIndex
from packwise.stores.pack.vectors import cosines, rounded

if TYPE_CHECKING:
    from packwise.stores.pack.writer import PackWriter

_OPENING_SECONDS = 60.0
"""What opening may take: a crafted database can make SQLite count for years."""

_log = logging.getLogger(__name__)
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
    return opened(store, store.examine)


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
    pack = PackFolder(folder)
    pack.check()
    if pack.database.exists():
        return
    if foreign := pack.foreign():
        raise NotAStore(
            f"{folder} is not a pack: it has no {DATABASE} but holds {foreign}",
            fix="name the folder of a pack, or an empty one to build into",
        )


class PackStore(BuildableStore, KnowledgeReader):
    """One pack. Safe to use from several threads; sees a finished build at the next call."""

    def __init__(self, path: Path) -> None:
        self._folder = PackFolder(path)
        self._connections = Connections(self._folder)
        self._loading = threading.Lock()
        self._loaded: LoadedIndex | None = None
        self._languages = LanguageCounts()
        self._counted: tuple[str, Mapping[str, str]] = ("", {})
        self._seen: tuple[Any, PackState | None] = (None, None)
        self._pinned = threading.local()

    def languages(self) -> Mapping[str, int]:
        with self.snapshot() as (connection, state):
            return self._languages.of(state.index.version, partial(read_languages, connection))

    def examine(self) -> None:
        """Check what a pack needs to be read safely. The structure of a database whose index
        this installation did not make is checked as a whole."""
        with self.snapshot(_OPENING_SECONDS) as (connection, state):
            self._info(connection, state)
            check_database(self._folder)
            cached = self._folder.cached_indexes
            if not self.sealed_parts(state.index) and not _parts_in(cached, state.index):
                for (line,) in connection.execute("PRAGMA quick_check(1)"):
                    if line != "ok":
                        raise StoreDamaged(
                            f"{self._folder.database} is damaged: {line}",
                            fix=f"packwise pack verify {self._folder}",
                        )

    def info(self) -> StoreInfo:
        with self.snapshot() as (connection, state):
            return self._info(connection, state)

    def _info(self, connection: sqlite3.Connection, state: PackState) -> StoreInfo:
        (staged,) = connection.execute("SELECT count(*) FROM staged").fetchone()
        home = self._folder.indexes
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
            size_bytes=self._folder.size(),
            details={
                "generation": str(state.generation),
                "schema": str(schema_version(connection)),
                "analyzer": ANALYZER,
                "vector_index": "usearch" if has_graph(home, state.index) else "exact",
                "index_bytes": str(home.size()),
                **self._counts(connection, state),
                "staged_documents": str(staged),
                "created_at": state.created_at,
                "updated_at": state.updated_at,
            },
        )

    def _counts(self, connection: sqlite3.Connection, state: PackState) -> Mapping[str, str]:
        """The numbers of what a build left, read once per build: each takes a pass over a table."""
        version, known = self._counted
        if version != state.index.version:
            (links,) = connection.execute("SELECT count(*) FROM links").fetchone()
            found = {"unresolved_links": links - state.links, **counts(connection)}
            known = {name: str(count) for name, count in found.items()}
            self._counted = state.index.version, known
        return known

    def version(self) -> str:
        with self.snapshot() as (_, state):
            return state.index.version

    def vector_search(
        self,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        with self._searching() as (connection, index):
            rows = index.allowed(connection, where, among)
            question = question_vector(vector, index.generation.dim, str(self._folder))
            if k <= 0 or (index.generation.passages if rows is None else len(rows)) == 0:
                return []
            if not question.any():
                # It is equally far from everything: the first ones, as with any tie.
                first = (index.every_row() if rows is None else rows)[:k]
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
            rows = index.allowed(connection, where, among)
            return _matches(index, *index.keywords.best(terms, k, rows))

    def term_statistics(self, terms: Sequence[str]) -> TermStatistics:
        with self._searching() as (_, index):
            return index.keywords.statistics(terms)

    def score_passages(
        self, vector: Vectors | None, terms: Sequence[str], keys: Sequence[Key], where: Filter
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
        with self._searching() as (connection, index):
            at, there = index.places_of(keys)
            if where:
                there &= np.isin(at, index.rows(connection, where))
            near, words = np.zeros(len(keys)), np.zeros(len(keys))
            rows = at[there]
            if vector is not None and len(rows):
                question = question_vector(vector, index.generation.dim, str(self._folder))
                near[there] = rounded(cosines(index.vectors.get(rows), question))
            words[there] = index.keywords.score(terms, rows)
            return there, near, words
        raise AssertionError("no index was opened")

    def terms_held(self, keys: Sequence[Key], terms: Sequence[str]) -> Mapping[Key, frozenset[str]]:
        with self._searching() as (_, index):
            at, there = index.places_of(keys)
            return {
                key: index.keywords.held(terms, row)
                for key, row, found in zip(keys, at.tolist(), there.tolist(), strict=True)
                if found
            }
        raise AssertionError("no index was opened")

    def passages(self, keys: Sequence[Key]) -> list[Passage | None]:
        wanted = integers(keys)
        found: dict[Key, Passage] = {}
        with self.snapshot() as (connection, state):
            read, select = _reader(state), passage_query(connection)
            for batch in batches(wanted):
                rows = connection.execute(f"{select} WHERE p.key IN ({marks(batch)})", batch)
                found.update(map(read, rows))
        return [found.get(key) for key in keys]

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        with self._searching() as (_, index):
            vectors = np.zeros((len(keys), index.generation.dim), dtype=np.float32)
            rows, there = index.places_of(keys)
            vectors[there] = index.vectors.get(rows[there])
            return vectors

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        with self.snapshot() as (connection, state):
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
        with self.snapshot() as (connection, _):
            return read_document(connection, storable(document_id))

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        with self.snapshot() as (connection, state):
            rows = connection.execute(
                f"{passage_query(connection)} WHERE d.id = ? ORDER BY p.position",
                (storable(document_id),),
            )
            return list(map(_reader(state), rows))

    def documents(self) -> Iterator[DocumentSummary]:
        with self.snapshot() as (connection, _):
            rows = connection.execute(
                "SELECT d.id, d.title, d.url, d.lang, d.source_hash,"
                " (SELECT count(*) FROM passages AS p WHERE p.document = d.key),"
                " r.pagerank, d.metadata"
                " FROM documents AS d JOIN ranks AS r ON r.document = d.key ORDER BY d.id"
            )
            for *columns, metadata in rows:
                yield read_summary(columns, metadata)

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        names = [storable(name) for name in dict.fromkeys(document_ids)]
        with self.snapshot() as (connection, _):
            return read_links(connection, names)

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        names = [storable(name) for name in dict.fromkeys(document_ids)]
        with self.snapshot() as (connection, _):
            return read_ranks(connection, names)

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        with self.snapshot() as (connection, _), decoding("what the pack knows of names"):
            return read(PackKnowledge(connection))

    def name_graph(self) -> NameGraph:
        with self._searching() as (_, index):
            return index.names
        raise AssertionError("no index was opened")

    def _writer(self, embedder: EmbedderIdentity, allow_mismatch: bool) -> PackWriter:
        from packwise.stores.pack.writer import PackWriter  # Readers need none of it.

        return PackWriter(self._folder, embedder, allow_mismatch=allow_mismatch)

    def close(self) -> None:
        self._connections.close()
        self._loaded = None

    @contextmanager
    def one_state(self) -> Generator[None]:
        with self._searching() as (connection, index):
            if self._pinned_view() is not None:
                yield
                return
            self._pinned.view = connection, self._state(connection), index
            try:
                yield
            finally:
                self._pinned.view = None

    def _pinned_view(self) -> tuple[sqlite3.Connection, PackState, LoadedIndex] | None:
        """What ``one_state`` holds for this thread."""
        return getattr(self._pinned, "view", None)

    @contextmanager
    def snapshot(
        self, seconds: float | None = None
    ) -> Generator[tuple[sqlite3.Connection, PackState]]:
        """One state of the pack, for as long as it is held, or for some seconds."""
        if (pinned := self._pinned_view()) is not None:
            yield pinned[0], pinned[1]
            return
        with self._connections.snapshot() as connection:
            if seconds is None:
                yield connection, self._state(connection)
                return
            with deadline(connection, seconds):
                yield connection, finished_state(connection, self._folder)

    def _state(self, connection: sqlite3.Connection) -> PackState:
        """The state that a connection sees; a search asks many times."""
        row = connection.execute("SELECT generation, token, updated_at FROM pack").fetchone()
        known, state = self._seen
        if state is None or row != known:
            state = finished_state(connection, self._folder)
            self._seen = row, state
        return state

    @contextmanager
    def _searching(self) -> Generator[tuple[sqlite3.Connection, LoadedIndex]]:
        """One state of the pack together with its indexes."""
        if (pinned := self._pinned_view()) is not None:
            yield pinned[0], pinned[2]
            return
        for attempt in range(_ATTEMPTS):
            with self.snapshot() as (connection, state):
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
            index = self._open_index(connection, generation)
            if index is None:
                if not insist and not self._is_current(generation):
                    return None
                from packwise.stores.pack.index_writer import rebuild_index

                index = rebuild_index(connection, self._folder, generation)
            self._loaded = index
            return index

    def _open_index(
        self, connection: sqlite3.Connection, generation: Generation
    ) -> LoadedIndex | None:
        """The indexes from the pack or from the cache; ``None`` if they must be made again."""
        reasons: list[DamagedIndex] = []
        for home in (self._folder.indexes, self._folder.cached_indexes):
            try:
                return open_index(connection, home, generation)
            except DamagedIndex as error:
                reasons.append(error)
        if isinstance(reasons[0], ForeignIndex):
            _log.warning("%s: it is made again, which happens once", reasons[0])
        return None

    def sealed_parts(self, generation: Generation) -> list[Sealed]:
        """The folders of the indexes in the pack, if this installation made them."""
        return _parts_in(self._folder.indexes, generation)

    def load_index(self) -> None:
        """Open the indexes, which makes them where they are missing."""
        with self._searching():
            return

    def _is_current(self, generation: Generation) -> bool:
        with self.snapshot() as (_, state):
            return state.index == generation


def _parts_in(home: IndexHome, generation: Generation) -> list[Sealed]:
    try:
        return sealed_parts(home, generation)
    except DamagedIndex:
        return []


def _reader(state: PackState) -> Callable[[Sequence[Any]], tuple[int, Passage]]:
    return lambda row: read_passage(row, state.embedder.version)


def _matches(
    index: LoadedIndex, rows: NDArray[np.int64], scores: NDArray[np.float64]
) -> list[Match]:
    return list(map(Match, index.keys[rows].tolist(), scores.tolist()))

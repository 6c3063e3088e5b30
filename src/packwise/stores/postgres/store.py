"""Passages in PostgreSQL, behind the same protocol as a pack.

Every call reads one state of the database. Packwise itself splits text into terms, so a passage
has the same index terms and the same BM25 here as in a pack.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Document, Link, Passage
from packwise.errors import StoreMissing
from packwise.stores.base import DocumentSummary, Key, Match, StoreInfo, TermStatistics, Vectors
from packwise.stores.checks import EmbedderIdentity, normalised, question_vector
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader, integers
from packwise.stores.languages import LanguageCounts
from packwise.stores.lifecycle import BuildableStore
from packwise.stores.locate import opened
from packwise.stores.name_graph import NameGraph
from packwise.stores.postgres.connections import Connection, PostgresPool
from packwise.stores.postgres.knowledge import PostgresKnowledge
from packwise.stores.postgres.migrations import load_sql, raw_sql
from packwise.stores.postgres.names import PostgresNames
from packwise.stores.postgres.rows import (
    PASSAGE_COLUMNS,
    PASSAGE_TABLES,
    BuildState,
    StoreSnapshot,
    finished_state,
    from_postgres,
    list_to_postgres,
    map_from_postgres,
    read_document,
    read_link,
    read_passage,
    to_postgres,
)
from packwise.stores.postgres.search import search_keywords, search_vectors
from packwise.stores.postgres.writer import PostgresWriter

_T = TypeVar("_T")
_P = ParamSpec("_P")


def _reads(
    query: Callable[Concatenate[PostgresStore, StoreSnapshot, _P], _T],
) -> Callable[Concatenate[PostgresStore, _P], _T]:
    """Run a method in a read-only transaction of a pooled connection."""

    @wraps(query)
    def call(self: PostgresStore, *args: _P.args, **options: _P.kwargs) -> _T:
        def read(connection: Connection, state: BuildState) -> _T:
            return query(self, StoreSnapshot(connection, state), *args, **options)

        return self._read(read)  # pyright: ignore[reportPrivateUsage]

    del call.__wrapped__  # the snapshot is not the caller's to give
    return call


def open_postgres(url: str) -> PostgresStore:
    """Open a database for reading. Raises ``StoreMissing`` where no build has finished."""
    store = PostgresStore(url)
    return opened(store, store.info)


class PostgresStore(BuildableStore, KnowledgeReader):
    """Passages of one database (of the first schema of its search path). Safe to use from
    several threads; sees a finished build at the next call."""

    def __init__(self, url: str, *, pool_size: int = 8) -> None:
        self._pool = PostgresPool(url, size=pool_size, configure=_read_only)
        self._languages = LanguageCounts()
        self._pinned = _Pinned()
        # One connection stays free: a thread that holds one may wait for another thread's reads.
        self._may_pin = threading.BoundedSemaphore(pool_size - 1) if pool_size > 1 else None

    @_reads
    def info(self, at: StoreSnapshot) -> StoreInfo:
        state = at.state
        row = at.connection.execute(load_sql(__name__, "statistics")).fetchone()
        assert row is not None
        staged, links, size, server, schema, index = row
        return StoreInfo(
            location=self._pool.location,
            kind="postgresql",
            version=state.version,
            embedder=state.embedder,
            embedder_version=state.embedder_version,
            dim=state.dim,
            documents=state.documents,
            passages=state.passages,
            links=state.links,
            size_bytes=size,
            details={
                "generation": str(state.generation),
                "schema": schema,
                "server": server,
                "analyzer": state.analyzer,
                "vector_index": "hnsw" if index else "exact",
                "unresolved_links": str(links - state.links),
                "staged_documents": str(staged),
                "created_at": state.created_at.isoformat(timespec="seconds"),
                "updated_at": state.updated_at.isoformat(timespec="seconds"),
            },
        )

    def version(self) -> str:
        return self._read(lambda _, state: state.version)

    @_reads
    def languages(self, at: StoreSnapshot) -> Mapping[str, int]:
        def langs() -> Iterator[str]:
            for (lang,) in at.connection.execute("SELECT lang FROM packwise_documents"):
                yield from_postgres(lang)

        return self._languages.of(at.state.version, langs)

    @_reads
    def vector_search(
        self,
        at: StoreSnapshot,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        asked = question_vector(vector, at.state.dim, self._pool.location)
        if k <= 0 or at.state.passages == 0:
            return []
        return search_vectors(at, asked, k, where, among)

    @_reads
    def keyword_search(
        self,
        at: StoreSnapshot,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        if k <= 0 or not terms or at.state.passages == 0:
            return []
        return search_keywords(at, terms, k, where, among)

    @_reads
    def term_statistics(self, at: StoreSnapshot, terms: Sequence[str]) -> TermStatistics:
        rows = at.connection.execute(
            "SELECT term, count(*) FROM packwise_postings"
            " WHERE term = ANY (%s::text[]) GROUP BY term",
            (list_to_postgres(dict.fromkeys(terms)),),
        )
        found = {from_postgres(term): number for term, number in rows}
        frequency = {term: found.get(term, 0) for term in terms}
        return TermStatistics(at.state.passages, at.state.average_length, frequency)

    @_reads
    def passages(self, at: StoreSnapshot, keys: Sequence[Key]) -> list[Passage | None]:
        found = dict(_passages(at, "p.key = ANY (%s::bigint[])", integers(keys)))
        return [found.get(key) for key in keys]

    @_reads
    def vectors(self, at: StoreSnapshot, keys: Sequence[Key]) -> Vectors:
        rows = at.connection.execute(
            "SELECT key, embedding::real[] FROM packwise_passages WHERE key = ANY (%s::bigint[])",
            (integers(keys),),
        )
        found = dict(rows.fetchall())
        vectors = np.zeros((len(keys), at.state.dim), dtype=np.float32)
        for i, key in enumerate(keys):
            if key in found:
                vectors[i] = found[key]
        return normalised(vectors)

    @_reads
    def neighbours(
        self, at: StoreSnapshot, key: Key, before: int = 1, after: int = 1
    ) -> list[tuple[Key, Passage]]:
        if not integers([key]):
            return []
        columns, tables = raw_sql(PASSAGE_COLUMNS), raw_sql(PASSAGE_TABLES)
        query = load_sql(__name__, "neighbours", columns=columns, tables=tables)
        values = {"key": key, "before": max(before, 0), "after": max(after, 0)}
        rows = at.connection.execute(query, values)
        return [read_passage(row, at.state.embedder_version) for row in rows]

    @_reads
    def document(self, at: StoreSnapshot, document_id: str) -> Document | None:
        row = at.connection.execute(
            "SELECT key, id, title, url, lang, source_hash, text, metadata, sections"
            " FROM packwise_documents WHERE id = %s",
            (to_postgres(document_id),),
        ).fetchone()
        if row is None:
            return None
        links = at.connection.execute(
            "SELECT k.href, k.anchor, k.first, t.id, k.kind FROM packwise_links AS k"
            " LEFT JOIN packwise_documents AS t ON t.key = k.target"
            " WHERE k.document = %s ORDER BY k.position",
            (row[0],),
        )
        return read_document(row[1:], [read_link(*link) for link in links])

    @_reads
    def document_passages(self, at: StoreSnapshot, document_id: str) -> list[tuple[Key, Passage]]:
        return _passages(at, "d.id = %s ORDER BY p.position", to_postgres(document_id))

    def documents(self) -> Iterator[DocumentSummary]:
        query = load_sql(__name__, "documents")
        rows = self._read(lambda connection, _: connection.execute(query).fetchall())
        for *texts, passages, rank, metadata in rows:
            yield DocumentSummary(
                *map(from_postgres, texts),
                passages=passages,
                pagerank=rank,
                metadata=map_from_postgres(metadata),
            )

    @_reads
    def links(self, at: StoreSnapshot, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        wanted = list(dict.fromkeys(document_ids))
        found: dict[str, list[Link]] = {}
        for name, *columns in at.connection.execute(
            "SELECT d.id, k.href, k.anchor, k.first, t.id, k.kind FROM packwise_links AS k"
            " JOIN packwise_documents AS d ON d.key = k.document"
            " JOIN packwise_documents AS t ON t.key = k.target"
            " WHERE d.id = ANY (%s::text[]) ORDER BY k.document, k.position",
            (list_to_postgres(wanted),),
        ):
            found.setdefault(from_postgres(name), []).append(read_link(*columns))
        return [(name, link) for name in wanted for link in found.get(name, [])]

    @_reads
    def pagerank(self, at: StoreSnapshot, document_ids: Sequence[str]) -> Mapping[str, float]:
        rows = at.connection.execute(
            "SELECT id, pagerank FROM packwise_documents WHERE id = ANY (%s::text[])",
            (list_to_postgres(dict.fromkeys(document_ids)),),
        )
        return {from_postgres(name): rank for name, rank in rows}

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        return self._read(lambda connection, _: read(PostgresKnowledge(connection)))

    def name_graph(self) -> NameGraph:
        return PostgresNames(lambda query: self._read(lambda connection, _: query(connection)))

    def _writer(self, embedder: EmbedderIdentity, allow_mismatch: bool) -> PostgresWriter:
        return PostgresWriter(self._pool, embedder, allow_mismatch=allow_mismatch)

    def close(self) -> None:
        self._pool.close()

    def has_passages(self) -> bool:
        """Whether a build has finished here."""
        with suppress(StoreMissing):
            return bool(self.version())
        return False

    @contextmanager
    def one_state(self) -> Generator[None]:
        """Read in one transaction, which also needs a third of the round trips. While most
        connections are held like that, each call reads in its own, as outside the block."""
        may_pin = self._may_pin
        held = self._pinned.stack is not None
        if held or may_pin is None or not may_pin.acquire(blocking=False):
            yield
            return
        try:
            self._pinned.stack = ExitStack()
            yield
        finally:
            self._unpin()
            may_pin.release()

    def _unpin(self) -> None:
        """End the transaction that this thread holds; nothing was written in it."""
        import psycopg

        stack, self._pinned.stack, self._pinned.at = self._pinned.stack, None, None
        if stack is not None:
            with suppress(psycopg.Error):
                stack.close()

    def _read(self, query: Callable[[Connection, BuildState], _T]) -> _T:
        if self._pinned.stack is not None:
            import psycopg

            try:
                return query(*self._held(self._pinned.stack))
            except psycopg.Error:
                # What broke is done again by itself, with all that a lost connection asks for.
                self._unpin()

        def in_transaction(connection: Connection) -> _T:
            path = self._pool.schema_path(connection)
            with connection.transaction():
                return query(connection, finished_state(connection, self._pool.location, path))

        return self._pool.run(in_transaction)

    def _held(self, stack: ExitStack) -> tuple[Connection, BuildState]:
        """The connection that this thread holds, in a transaction, and the state it sees."""
        if self._pinned.at is None:
            with ExitStack() as opening:
                connection = opening.enter_context(self._pool.lend())
                path = self._pool.schema_path(connection)
                opening.enter_context(connection.transaction())
                state = finished_state(connection, self._pool.location, path)
                stack.push(opening.pop_all())
            self._pinned.at = connection, state
        return self._pinned.at


class _Pinned(threading.local):
    """What a thread holds until its block ends: the connection comes with the first read."""

    stack: ExitStack | None = None
    at: tuple[Connection, BuildState] | None = None


def _passages(at: StoreSnapshot, condition: str, *values: Any) -> list[tuple[Key, Passage]]:
    query = f"SELECT {PASSAGE_COLUMNS} FROM {PASSAGE_TABLES} WHERE {condition}"
    rows = at.connection.execute(query.encode(), values)
    return [read_passage(row, at.state.embedder_version) for row in rows]


def _read_only(connection: Connection) -> None:
    from psycopg import IsolationLevel

    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True

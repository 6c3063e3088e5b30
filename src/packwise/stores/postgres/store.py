"""Passages in PostgreSQL, behind the same protocol as a pack.

Every call reads one state of the database. Text is analysed by Packwise, so a passage has
the same index terms and the same BM25 here as in a pack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Document, Link, Passage
from packwise.errors import StoreMissing, UsageError
from packwise.stores import bm25
from packwise.stores.base import DocumentSummary, Key, Match, StoreInfo, TermStatistics, Vectors
from packwise.stores.checks import normalised, question_vector
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader, integers
from packwise.stores.lifecycle import Closeable
from packwise.stores.postgres.filters import Condition, condition
from packwise.stores.postgres.knowledge import PostgresKnowledge
from packwise.stores.postgres.passages_schema import VECTOR_INDEX
from packwise.stores.postgres.pool import Pool
from packwise.stores.postgres.reading import (
    PASSAGE,
    PASSAGES,
    read_document,
    read_link,
    read_passage,
)
from packwise.stores.postgres.state import State, finished_state
from packwise.stores.postgres.text import given, given_map, held, held_list
from packwise.stores.postgres.vectors import literal
from packwise.stores.postgres.writer import PostgresWriter

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

EXACT_PASSAGES = 5_000
"""Up to so many passages are compared one by one: that is as fast as the index, and exact."""

_T = TypeVar("_T")

_ALLOWED = "p.document IN (SELECT d.key FROM packwise_documents AS d WHERE {})"

# The cosine of a vector of zeros is not a number; it counts as 0, far from everything.
_EXACT = """SELECT p.key, coalesce(nullif(p.embedding <=> %(vector)s::vector, 'NaN'), 1) AS far
    FROM packwise_passages AS p WHERE {} ORDER BY far, p.key LIMIT %(k)s"""
_NEAR = """SELECT key, far FROM (
        SELECT p.key, p.embedding::vector({1}) <=> %(vector)s::vector({1}) AS far
        FROM packwise_passages AS p WHERE {0}
        ORDER BY p.embedding::vector({1}) <=> %(vector)s::vector({1}) LIMIT %(k)s
    ) AS near ORDER BY far, key"""

# Rounded, because a sum's last digits depend on the order in which its terms are met.
_BM25 = """WITH weight AS MATERIALIZED (
        SELECT term, ln(1 + (%(passages)s - count(*) + 0.5::float8) / (count(*) + 0.5::float8))
            * (%(k1)s::float8 + 1) AS weight
        FROM packwise_postings WHERE term = ANY (%(terms)s::text[]) GROUP BY term
    ), scored AS (
        SELECT x.passage, sum(w.weight * x.frequency / (x.frequency + %(k1)s::float8
            * (1 - %(b)s::float8 + %(b)s::float8 * x.length / %(average)s::float8))) AS score
        FROM packwise_postings AS x JOIN weight AS w ON w.term = x.term {}
        WHERE x.term = ANY (%(terms)s::text[]) AND {}
        GROUP BY x.passage
    ) SELECT passage, round(score * 1e9) / 1e9 AS score FROM scored
    ORDER BY score DESC, passage LIMIT %(k)s"""


def open_postgres(url: str) -> PostgresStore:
    """Open a database for reading. Raises ``StoreMissing`` where no build has finished."""
    store = PostgresStore(url)
    try:
        store.info()
    except BaseException:
        store.close()
        raise
    return store


def create_or_open_postgres(url: str) -> PostgresStore:
    """Open a database to build in it; its writer makes the tables."""
    return PostgresStore(url)


class PostgresStore(Closeable, KnowledgeReader):
    """Passages of one database (of the first schema of its search path). Safe to use from
    several threads; sees a finished build at the next call."""

    def __init__(self, url: str, *, pool_size: int = 8) -> None:
        self._pool = Pool(url, size=pool_size, prepare=_read_only)

    def info(self) -> StoreInfo:
        def look(connection: Connection, state: State) -> StoreInfo:
            row = connection.execute(
                "SELECT (SELECT count(*) FROM packwise_staged),"
                " (SELECT count(*) FROM packwise_links),"
                " (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c"
                "  WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace"
                "  AND c.relname LIKE 'packwise\\_%%'), current_setting('server_version'),"
                " current_schema(), to_regclass(%s) IS NOT NULL",
                (VECTOR_INDEX,),
            ).fetchone()
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

        return self._read(look)

    def version(self) -> str:
        return self._read(lambda _, state: state.version)

    def vector_search(
        self,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        limits = _limits(where, among)

        def search(connection: Connection, state: State) -> list[Match]:
            asked = question_vector(vector, state.dim, self._pool.location)
            if k <= 0 or state.passages == 0:
                return []
            values = {**limits.values, "vector": literal(asked), "k": k}
            if among is None and asked.any() and _is_large(connection, state, limits, where):
                near = _near(connection, state, limits.sql, values)
                if len(near) == k:
                    return near
            rows = connection.execute(_EXACT.format(limits.sql).encode(), values)
            return [Match(key, 1.0 - far) for key, far in rows]

        return self._read(search)

    def keyword_search(
        self,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        limits = _limits(where, among)

        def search(connection: Connection, state: State) -> list[Match]:
            if k <= 0 or not terms or state.passages == 0:
                return []
            join = "JOIN packwise_passages AS p ON p.key = x.passage" if where else ""
            rows = connection.execute(
                _BM25.format(join, limits.sql.replace("p.key", "x.passage")).encode(),
                {
                    **limits.values,
                    "terms": held_list(dict.fromkeys(terms)),
                    "k": k,
                    "k1": bm25.K1,
                    "b": bm25.B,
                    "passages": state.passages,
                    "average": state.average_length or 1.0,
                },
            )
            return [Match(key, score) for key, score in rows]

        return self._read(search)

    def term_statistics(self, terms: Sequence[str]) -> TermStatistics:
        def count(connection: Connection, state: State) -> TermStatistics:
            rows = connection.execute(
                "SELECT term, count(*) FROM packwise_postings"
                " WHERE term = ANY (%s::text[]) GROUP BY term",
                (held_list(dict.fromkeys(terms)),),
            )
            found = {given(term): number for term, number in rows}
            return TermStatistics(
                state.passages,
                state.average_length,
                {term: found.get(term, 0) for term in terms},
            )

        return self._read(count)

    def passages(self, keys: Sequence[Key]) -> list[Passage | None]:
        def fetch(connection: Connection, state: State) -> dict[Key, Passage]:
            rows = connection.execute(
                f"SELECT {PASSAGE} FROM {PASSAGES} WHERE p.key = ANY (%s::bigint[])".encode(),
                (integers(keys),),
            )
            return dict(read_passage(row, state.embedder_version) for row in rows)

        found = self._read(fetch)
        return [found.get(key) for key in keys]

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        """The stored vectors of these keys, one row each, L2-normalised; the row of a key
        that is gone is all zero."""

        def fetch(connection: Connection, state: State) -> Vectors:
            rows = connection.execute(
                "SELECT key, embedding::real[] FROM packwise_passages"
                " WHERE key = ANY (%s::bigint[])",
                (integers(keys),),
            )
            found = dict(rows.fetchall())
            vectors = np.zeros((len(keys), state.dim), dtype=np.float32)
            for i, key in enumerate(keys):
                if key in found:
                    vectors[i] = found[key]
            return normalised(vectors)

        return self._read(fetch)

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        def fetch(connection: Connection, state: State) -> list[tuple[Key, Passage]]:
            rows = connection.execute(
                f"""SELECT {PASSAGE} FROM {PASSAGES} JOIN packwise_passages AS own
                    ON own.key = %(key)s AND p.document = own.document WHERE p.key IN (
                        (SELECT key FROM packwise_passages WHERE document = own.document
                         AND position < own.position ORDER BY position DESC LIMIT %(before)s)
                        UNION ALL
                        (SELECT key FROM packwise_passages WHERE document = own.document
                         AND position > own.position ORDER BY position LIMIT %(after)s)
                    ) ORDER BY p.position""".encode(),
                {"key": key, "before": max(before, 0), "after": max(after, 0)},
            )
            return [read_passage(row, state.embedder_version) for row in rows]

        return self._read(fetch) if integers([key]) else []

    def document(self, document_id: str) -> Document | None:
        def fetch(connection: Connection, _: State) -> Document | None:
            row = connection.execute(
                "SELECT key, id, title, url, lang, source_hash, metadata, sections, text"
                " FROM packwise_documents WHERE id = %s",
                (held(document_id),),
            ).fetchone()
            if row is None:
                return None
            links = connection.execute(
                "SELECT k.href, k.anchor, k.first, t.id, k.kind FROM packwise_links AS k"
                " LEFT JOIN packwise_documents AS t ON t.key = k.target"
                " WHERE k.document = %s ORDER BY k.position",
                (row[0],),
            )
            return read_document(row[1:], [read_link(*link) for link in links])

        return self._read(fetch)

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        def fetch(connection: Connection, state: State) -> list[tuple[Key, Passage]]:
            rows = connection.execute(
                f"SELECT {PASSAGE} FROM {PASSAGES} WHERE d.id = %s ORDER BY p.position".encode(),
                (held(document_id),),
            )
            return [read_passage(row, state.embedder_version) for row in rows]

        return self._read(fetch)

    def documents(self) -> Iterator[DocumentSummary]:
        """All documents, by id, as they were when the first one was asked for."""

        def fetch(connection: Connection, _: State) -> list[tuple[Any, ...]]:
            return connection.execute(
                "SELECT d.id, d.title, d.url, d.lang, d.source_hash,"
                " (SELECT count(*) FROM packwise_passages AS p WHERE p.document = d.key),"
                " d.pagerank, d.metadata FROM packwise_documents AS d ORDER BY d.id"
            ).fetchall()

        for name, title, url, lang, source_hash, passages, rank, metadata in self._read(fetch):
            texts = map(given, (name, title, url, lang, source_hash))
            yield DocumentSummary(
                *texts, passages=passages, pagerank=rank, metadata=given_map(metadata)
            )

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        def fetch(connection: Connection, _: State) -> list[tuple[Any, ...]]:
            return connection.execute(
                "SELECT d.id, k.href, k.anchor, k.first, t.id, k.kind FROM packwise_links AS k"
                " JOIN packwise_documents AS d ON d.key = k.document"
                " JOIN packwise_documents AS t ON t.key = k.target"
                " WHERE d.id = ANY (%s::text[]) ORDER BY k.document, k.position",
                (held_list(dict.fromkeys(document_ids)),),
            ).fetchall()

        found: dict[str, list[Link]] = {}
        for name, *columns in self._read(fetch):
            found.setdefault(given(name), []).append(read_link(*columns))
        return [(name, k) for name in dict.fromkeys(document_ids) for k in found.get(name, [])]

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        def fetch(connection: Connection, _: State) -> dict[str, float]:
            rows = connection.execute(
                "SELECT id, pagerank FROM packwise_documents WHERE id = ANY (%s::text[])",
                (held_list(dict.fromkeys(document_ids)),),
            )
            return {given(name): rank for name, rank in rows}

        return self._read(fetch)

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        return self._read(lambda connection, _: read(PostgresKnowledge(connection)))

    def writer(
        self, *, embedder: str, embedder_version: str, dim: int, allow_mismatch: bool = False
    ) -> PostgresWriter:
        """Start a build; the tables are made if they are missing. As ``Store.writer``."""
        if dim < 1:
            raise UsageError(f"an embedder has at least 1 dimension, not {dim}")
        return PostgresWriter(
            self._pool, embedder, embedder_version, dim, allow_mismatch=allow_mismatch
        )

    def close(self) -> None:
        """Close the connections; closing again does nothing."""
        self._pool.close()

    def has_passages(self) -> bool:
        """Whether a build has finished here."""
        try:
            self._read(lambda _, state: state)
        except StoreMissing:
            return False
        return True

    def _read(self, work: Callable[[Connection, State], _T]) -> _T:
        def whole(connection: Connection) -> _T:
            with connection.transaction():
                return work(connection, finished_state(connection, self._pool.location))

        return self._pool.run(whole)


def _read_only(connection: Connection) -> None:
    from psycopg import IsolationLevel

    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True


def _limits(where: Filter, among: Sequence[Key] | None) -> Condition:
    """What a passage ``p`` must fulfil to be found."""
    parts: list[str] = []
    values: dict[str, Any] = {}
    if where:
        documents = condition(where)
        parts.append(_ALLOWED.format(documents.sql))
        values.update(documents.values)
    if among is not None:
        parts.append("p.key = ANY (%(among)s::bigint[])")
        values["among"] = integers(among)
    return Condition(" AND ".join(parts) or "true", values)


def _is_large(connection: Connection, state: State, limits: Condition, where: Filter) -> bool:
    """Whether so many passages are allowed that the index is worth its approximation."""
    if state.passages <= EXACT_PASSAGES:
        return False
    row = connection.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (VECTOR_INDEX,)
    ).fetchone()
    if row is None or not row[0]:
        return False
    if not where:
        return True
    count = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM packwise_passages AS p WHERE {limits.sql}"
        f" LIMIT {EXACT_PASSAGES + 1}) AS allowed".encode(),
        limits.values,
    ).fetchone()
    assert count is not None
    return count[0] > EXACT_PASSAGES


def _near(
    connection: Connection,
    state: State,
    allowed: str,
    values: dict[str, Any],
) -> list[Match]:
    breadth = str(min(1000, max(100, values["k"])))
    connection.execute(
        "SELECT set_config('hnsw.iterative_scan', 'strict_order', true),"
        " set_config('hnsw.ef_search', %s, true)",
        (breadth,),
    )
    rows = connection.execute(_NEAR.format(allowed, int(state.dim)).encode(), values)
    return [Match(key, 1.0 - far) for key, far in rows]

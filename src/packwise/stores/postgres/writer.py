"""One build in PostgreSQL: documents are staged, then a single commit makes them visible.

A session lock keeps other builds out; it ends with the connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from packwise.documents import Document
from packwise.errors import StoreBusy, StoreError, UsageError
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import EmbedderIdentity, embedders_would_mix, other_embedder
from packwise.stores.entity_extraction import current_rules
from packwise.stores.lifecycle import CommitPlan, StagingWriter
from packwise.stores.postgres.commit import apply_plan, build_vector_index
from packwise.stores.postgres.connections import Connection, PostgresPool
from packwise.stores.postgres.errors import translated_errors
from packwise.stores.postgres.migrations import SchemaStep, load_sql, migrate, require_vector
from packwise.stores.postgres.rows import from_postgres, read_state, to_postgres
from packwise.stores.postgres.schemas import use_schema
from packwise.stores.records import PassageRecord, pack_payload

_LOCK = 0x70617373
_LOCK_PAUSES = (0.0, 0.1, 0.3)
"""Pauses between attempts: a server takes a moment to notice that a build was killed."""
_MAX_ID_BYTES = 2000
"""The longest document id: an index of PostgreSQL takes no longer keys."""

_log = logging.getLogger(__name__)


def _create_tables(connection: Connection) -> None:
    require_vector(connection)
    connection.execute(load_sql(__name__, "passages"))
    connection.execute(load_sql(__name__, "entities"))


def _add_layouts(connection: Connection) -> None:
    connection.execute("ALTER TABLE packwise_passages ADD COLUMN layout text NOT NULL DEFAULT ''")


_STEPS = (SchemaStep(1, "passages", _create_tables), SchemaStep(2, "layouts", _add_layouts))


class PostgresWriter(StagingWriter):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it."""

    def __init__(
        self, pool: PostgresPool, embedder: EmbedderIdentity, *, allow_mismatch: bool
    ) -> None:
        super().__init__(embedder)
        self._pool = pool
        self._location = pool.location
        self._version = to_postgres(embedder.version)
        self._documents: list[tuple[str | bytes, ...]] = []
        self._vectors: dict[str, bytes] = {}
        self._reembed = False
        connection = pool.dedicated()
        self._connection: Connection | None = connection
        try:
            with self._errors():
                self._begin(connection, allow_mismatch)
        except BaseException:
            self.close()
            raise

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        with self._guard, self._errors():
            connection = self._writable()
            self._flush()  # The others are embedded next, which takes long.
            wanted = list(dict.fromkeys(hashes))
            found: dict[str, Vectors] = {}
            if not self._reembed:
                rows = connection.execute(
                    "SELECT DISTINCT ON (content_hash) content_hash, embedding::real[]"
                    " FROM packwise_passages WHERE content_hash = ANY (%s::text[])",
                    (wanted,),
                )
                found.update((digest, np.array(v, dtype=np.float32)) for digest, v in rows)
            rows = connection.execute(
                "SELECT content_hash, vector FROM packwise_staged_vectors"
                " WHERE embedder_version = %s AND content_hash = ANY (%s::text[])",
                (self._version, wanted),
            )
            found.update((digest, np.frombuffer(blob, dtype="<f4").copy()) for digest, blob in rows)
            return found

    def save_vectors(self, hashes: Sequence[str], vectors: Vectors) -> None:
        with self._guard, self._errors():
            self._check_open()
            self._hold_vectors(hashes, vectors)
            self._flush()

    def commit(self, *, prune: bool = True) -> WriteSummary:
        with self._guard, self._errors():
            connection = self._writable()
            self._flush()
            state = read_state(connection)
            plan = self._plan(connection, prune)
            if self._reembed and plan.unchanged:
                raise embedders_would_mix(plan.unchanged, state.identity)
            changes = plan.taken or plan.removed or state.rules != current_rules()
            if changes or state.generation == 0:
                apply_plan(connection, state, plan, self._embedder, reembed=self._reembed)
                self._update_indexes(connection)
            elif prune:
                with connection.transaction():
                    connection.execute("DELETE FROM packwise_staged")
                    connection.execute("DELETE FROM packwise_staged_vectors")
            passages = read_state(connection).passages
            self.close()
            return plan.summary(passages)

    def close(self) -> None:
        with self._guard:
            connection, self._ended = self._connection, True
            if connection is None:
                return
            try:
                if not connection.closed:
                    with self._errors():
                        self._flush()
                        connection.execute("SELECT pg_advisory_unlock_all()")
            finally:
                self._connection = None
                connection.close()

    def _errors(self) -> AbstractContextManager[None]:
        return translated_errors(self._location)

    def _add(
        self,
        document: Document,
        rows: Sequence[PassageRecord],
        vectors: Vectors,
        extractions: Sequence[Extraction],
    ) -> None:
        if len(document.id.encode()) > _MAX_ID_BYTES:
            raise StoreError(
                f"the document id {document.id[:60]!r}... is longer than {_MAX_ID_BYTES} bytes"
            )
        texts = (to_postgres(document.id), to_postgres(document.source_hash), self._version)
        self._documents.append((*texts, pack_payload(document, rows, extractions)))
        self._hold_vectors([row.content_hash for row in rows], vectors)

    def _hold_vectors(self, hashes: Sequence[str], vectors: Vectors) -> None:
        for digest, vector in zip(hashes, vectors, strict=True):
            self._vectors[digest] = vector.astype("<f4").tobytes()

    def _begin(self, connection: Connection, allow_mismatch: bool) -> None:
        from psycopg import IsolationLevel

        if self._pool.shares_session(connection):
            raise UsageError(
                f"{self._location} is a pooler that shares sessions, and a build locks the store"
                " for as long as it runs",
                fix="give the URL of the server itself",
            )
        connection.read_only = False
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        migrate(connection, "passages", _STEPS, self._location, self._pool.schema_path(connection))
        use_schema(connection, self._pool.schema_path(connection), local=False)
        if not any(_locked(connection, pause) for pause in _LOCK_PAUSES):
            raise StoreBusy(
                f"another build is writing to {self._location}", fix="wait for it to end"
            )
        state = read_state(connection)
        if state.passages and state.identity != self._embedder:
            if not allow_mismatch:
                raise other_embedder(self._location, state.identity, self._embedder)
            self._reembed = True
        with connection.transaction():
            for table in (b"packwise_staged", b"packwise_staged_vectors"):
                connection.execute(
                    b"DELETE FROM " + table + b" WHERE embedder_version <> %s",
                    (self._version,),
                )
        queries = [b"SELECT id, source_hash FROM packwise_staged"]
        if not self._reembed:
            queries.insert(0, b"SELECT id, source_hash FROM packwise_documents")
        for query in queries:
            rows = connection.execute(query)
            self._known.update((from_postgres(k), from_postgres(v)) for k, v in rows)

    def _writable(self) -> Connection:
        self._check_open()
        assert self._connection is not None
        return self._connection

    def _flush(self) -> None:
        super()._flush()
        connection = self._connection
        if connection is None or not (self._documents or self._vectors):
            return
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO packwise_staged_vectors (content_hash, embedder_version, vector)"
                " VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [(digest, self._version, v) for digest, v in self._vectors.items()],
            )
            cursor.executemany(
                "INSERT INTO packwise_staged (id, source_hash, embedder_version, payload)"
                " VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET"
                " source_hash = excluded.source_hash, payload = excluded.payload,"
                " embedder_version = excluded.embedder_version",
                self._documents,
            )
        self._documents.clear()
        self._vectors.clear()

    def _plan(self, connection: Connection, prune: bool) -> CommitPlan:
        rows = connection.execute("SELECT id, key FROM packwise_documents")
        stored = {from_postgres(name): key for name, key in rows}
        rows = connection.execute("SELECT id FROM packwise_staged")
        staged = {from_postgres(name) for (name,) in rows}
        return CommitPlan.of(stored, staged, self._kept, prune=prune)

    def _update_indexes(self, connection: Connection) -> None:
        """Update statistics and the vector index. The store is complete without them, so an error
        here is only logged."""
        import psycopg

        try:
            connection.execute("ANALYZE packwise_documents, packwise_passages, packwise_postings")
            build_vector_index(connection, self._embedder.dim)
        except psycopg.Error as error:
            _log.warning(
                "%s is complete, but its indexes could not be updated: %s", self._location, error
            )


def _locked(connection: Connection, pause: float) -> bool:
    time.sleep(pause)
    row = connection.execute(
        "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))", (_LOCK,)
    ).fetchone()
    return row is not None and row[0]

"""One build in PostgreSQL: staged piece by piece, then made visible by a single commit.

A session lock keeps other builds out and ends with the connection, however that ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from packwise.documents import Document, Passage
from packwise.errors import StoreBusy, StoreError, UsageError
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import (
    Identity,
    embedders_would_mix,
    other_embedder,
    passage_vectors,
    storable,
)
from packwise.stores.entity_extraction import check_extractions, current_rules
from packwise.stores.lifecycle import CommitPlan, StagedBuild
from packwise.stores.postgres.commit import build_vector_index, switch
from packwise.stores.postgres.errors import speaking
from packwise.stores.postgres.migrations import migrate
from packwise.stores.postgres.passages_schema import COMPONENT, MIGRATIONS
from packwise.stores.postgres.pool import Pool
from packwise.stores.postgres.state import State, read_state
from packwise.stores.postgres.text import given, held
from packwise.stores.records import checked_document, pack_payload

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

_LOCK = 0x70617373
_LOCK_PAUSES = (0.0, 0.1, 0.3)
"""Waits between attempts: a server notices after a moment that a killed build is gone."""
_FLUSH_PASSAGES = 256
_FLUSH_SECONDS = 2.0
_LONGEST_ID = 2000
"""Bytes of the longest document id: an index of PostgreSQL takes no longer keys."""

_log = logging.getLogger(__name__)


class PostgresWriter(StagedBuild):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it."""

    def __init__(
        self,
        pool: Pool,
        embedder: str,
        embedder_version: str,
        dim: int,
        *,
        allow_mismatch: bool = False,
    ) -> None:
        self._location = pool.location
        self._embedder = embedder
        self._version = embedder_version
        self._dim = dim
        self._guard = threading.RLock()
        self._kept: set[str] = set()
        self._staged: set[str] = set()
        self._known: dict[str, str] = {}
        self._documents: list[tuple[str, str, str, bytes]] = []
        self._vectors: dict[str, bytes] = {}
        self._since = 0.0
        self._reembed = False
        self._done = False
        connection = pool.dedicated()
        self._connection: Connection | None = connection
        try:
            with speaking(self._location):
                self._begin(connection, allow_mismatch)
        except BaseException:
            self.close()
            raise

    def source_hashes(self) -> Mapping[str, str]:
        """Document id to source hash: what is stored or already staged, newest wins.

        While a store is embedded anew, what the old embedder left does not count.
        """
        return dict(self._known)

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        """The vectors this store already has for these passage content hashes.

        What comes next is the embedding of the others, so what is staged is saved first.
        """
        with self._guard, speaking(self._location):
            connection = self._writable()
            self._flush(connection)
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
                (held(self._version), wanted),
            )
            found.update((digest, np.frombuffer(blob, dtype="<f4").copy()) for digest, blob in rows)
            return found

    def keep(self, document_id: str) -> None:
        """This document is unchanged: it stays (or its staged version is taken)."""
        document_id = storable(document_id)
        if document_id not in self._known:
            raise StoreError(f"cannot keep {document_id!r}: the store does not hold it")
        self._kept.add(document_id)

    def stage(
        self,
        document: Document,
        passages: Sequence[Passage],
        vectors: Vectors,
        extractions: Sequence[Extraction] = (),
    ) -> None:
        """Put a new or changed document down, one vector (row) a passage."""
        block = passage_vectors(document.id, len(passages), vectors, self._dim)
        document, rows = checked_document(document, passages, self._version)
        check_extractions(document.id, passages, extractions)
        if len(document.id.encode()) > _LONGEST_ID:
            raise StoreError(
                f"the document id {document.id[:60]!r}... is longer than {_LONGEST_ID} bytes"
            )
        with self._guard, speaking(self._location):
            connection = self._writable()
            if not self._documents:
                self._since = time.monotonic()
            payload = pack_payload(document, rows, extractions)
            version = held(self._version)
            self._documents.append(
                (held(document.id), held(document.source_hash), version, payload)
            )
            for row, vector in zip(rows, block, strict=True):
                self._vectors[row.content_hash] = vector.astype("<f4").tobytes()
            self._staged.add(document.id)
            self._known[document.id] = document.source_hash
            if (
                len(self._vectors) + len(self._documents) >= _FLUSH_PASSAGES
                or time.monotonic() - self._since >= _FLUSH_SECONDS
            ):
                self._flush(connection)

    def commit(self, *, prune: bool = True) -> WriteSummary:
        """Make it all visible at once; with ``prune``, whatever was neither kept nor staged
        in this run disappears. Ends the build."""
        with self._guard, speaking(self._location):
            connection = self._writable()
            self._flush(connection)
            state = read_state(connection)
            plan = self._plan(connection, prune)
            if self._reembed and plan.unchanged:
                raise embedders_would_mix(plan.unchanged, _identity(state))
            changes = plan.taken or plan.removed or state.rules != current_rules()
            if changes or state.generation == 0:
                identity = (self._embedder, self._version, self._dim)
                switch(connection, state, plan, identity, reembed=self._reembed)
                self._tidy(connection)
            elif prune:
                with connection.transaction():
                    connection.execute("DELETE FROM packwise_staged")
                    connection.execute("DELETE FROM packwise_staged_vectors")
            passages = read_state(connection).passages
            self.close()
            return plan.summary(passages)

    def close(self) -> None:
        """End the build and let others write; what is staged stays for the next one."""
        with self._guard:
            self._done = True
            connection, self._connection = self._connection, None
            if connection is None:
                return
            try:
                if not connection.closed:
                    with speaking(self._location):
                        self._flush(connection)
                        connection.execute("SELECT pg_advisory_unlock_all()")
            finally:
                connection.close()

    def _begin(self, connection: Connection, allow_mismatch: bool) -> None:
        from psycopg import IsolationLevel

        connection.read_only = False
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        migrate(connection, COMPONENT, MIGRATIONS, self._location)
        if not any(_locked(connection, pause) for pause in _LOCK_PAUSES):
            raise StoreBusy(
                f"another build is writing to {self._location}", fix="wait for it to end"
            )
        state = read_state(connection)
        mine = (self._embedder, self._version, self._dim)
        if state.passages and _identity(state) != mine:
            if not allow_mismatch:
                raise other_embedder(self._location, _identity(state), mine)
            self._reembed = True
        with connection.transaction():
            for table in (b"packwise_staged", b"packwise_staged_vectors"):
                connection.execute(
                    b"DELETE FROM " + table + b" WHERE embedder_version <> %s",
                    (held(self._version),),
                )
        queries = [b"SELECT id, source_hash FROM packwise_staged"]
        if not self._reembed:
            queries.insert(0, b"SELECT id, source_hash FROM packwise_documents")
        for query in queries:
            self._known.update((given(k), given(v)) for k, v in connection.execute(query))

    def _writable(self) -> Connection:
        if self._done or self._connection is None:
            raise UsageError("this build has ended", fix="start another with writer()")
        return self._connection

    def _flush(self, connection: Connection) -> None:
        if not self._documents:
            return
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO packwise_staged_vectors (content_hash, embedder_version, vector)"
                " VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [(digest, held(self._version), blob) for digest, blob in self._vectors.items()],
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
        rows = connection.execute("SELECT id, key FROM packwise_documents").fetchall()
        stored = {given(name): key for name, key in rows}
        staged = {given(name) for (name,) in connection.execute("SELECT id FROM packwise_staged")}
        return CommitPlan.of(stored, staged, self._kept | self._staged, prune=prune)

    def _tidy(self, connection: Connection) -> None:
        """What follows a commit. The store is whole without it, so trouble here is no failure."""
        import psycopg

        try:
            connection.execute("ANALYZE packwise_documents, packwise_passages, packwise_postings")
            build_vector_index(connection, self._dim)
        except psycopg.Error as error:
            _log.warning("%s is complete, but could not be tidied up: %s", self._location, error)


def _locked(connection: Connection, pause: float) -> bool:
    time.sleep(pause)
    row = connection.execute(
        "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))", (_LOCK,)
    ).fetchone()
    return row is not None and row[0]


def _identity(state: State) -> Identity:
    return state.embedder, state.embedder_version, state.dim

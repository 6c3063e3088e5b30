"""One build of a pack: staged piece by piece, then made visible by a single commit.

stage    documents, passages and vectors go to tables no reader looks at, in small
         transactions: what is there survives a kill
commit   one transaction moves them over; the new index is on the disk before it ends
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
from filelock import FileLock, Timeout

from packwise.documents import Document
from packwise.errors import StoreBusy, StoreError
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import (
    EmbedderIdentity,
    embedders_would_mix,
    normalised,
    other_embedder,
    to_half,
)
from packwise.stores.durable import PreparedFile, sync_file, writing
from packwise.stores.lifecycle import CommitPlan, StagingWriter, utc_now
from packwise.stores.pack.checksums import (
    Checksums,
    forget_checksums,
    has_checksums,
    logged_pages,
    write_checksums,
)
from packwise.stores.pack.commit import apply_plan, collect_vectors
from packwise.stores.pack.database import (
    PackState,
    connect_writer,
    migrate,
    migrations_missing,
    read_state,
)
from packwise.stores.pack.entity_rows import is_current
from packwise.stores.pack.folder import DATABASE, PackFolder
from packwise.stores.pack.index import generations_used
from packwise.stores.pack.index_writer import write_index
from packwise.stores.pack.manifest import Manifest, is_described, prepare_manifest
from packwise.stores.pack.queries import batches, marks
from packwise.stores.pack.rows import decoding, read_vector
from packwise.stores.pack.schema import row_checksum
from packwise.stores.records import PassageRecord, pack_payload

_CHECKPOINT_WAIT_MS = 200
_MOST_FREE_SHARE = 0.25
_LARGEST_LOG = 16 << 20
"""Bytes of SQLite's log at which its pages are moved to the database during a build."""

_log = logging.getLogger(__name__)


class PackWriter(StagingWriter):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it.

    The folder is made with the first document, so a build that fails before leaves nothing.
    """

    def __init__(
        self, folder: PackFolder, embedder: EmbedderIdentity, *, allow_mismatch: bool = False
    ) -> None:
        super().__init__(embedder)
        self._folder = folder
        self._allow_mismatch = allow_mismatch
        self._connection: sqlite3.Connection | None = None
        self._filelock: FileLock | None = None
        self._embedder_key = 0
        self._reembed = False
        self._made_folder = False
        self._made_database = False
        self._saved = False
        self._changed = False
        self._checksums: Checksums | None = None
        self._blocks: set[int] = set()
        if folder.database.exists():
            self._open()

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        with self._guard, self._errors():
            if self._connection is None:
                return {}
            self._flush()  # The others are embedded next, which takes long.
            found: dict[str, Vectors] = {}
            for batch in batches(list(dict.fromkeys(hashes))):
                rows = self._connection.execute(
                    "SELECT content_hash, vector FROM vectors"
                    f" WHERE embedder = ? AND content_hash IN ({marks(batch)})",
                    (self._embedder_key, *batch),
                )
                for digest, blob in rows:
                    vector = read_vector(f"with the hash {digest}", blob, self._embedder.dim)
                    found[digest] = normalised(vector.astype(np.float32))
            return found

    def save_vectors(self, hashes: Sequence[str], vectors: Vectors) -> None:
        with self._guard, self._errors():
            connection = self._writable()
            self._begin_transaction(connection)
            self._insert_vectors(connection, hashes, vectors)
            self._flush()

    def commit(self, *, prune: bool = True) -> WriteSummary:
        with self._guard:
            with self._errors():
                connection = self._writable()
                self._flush()
                state = _state(connection)
                plan = self._plan(connection, prune)
                if self._reembed and plan.unchanged:
                    raise embedders_would_mix(plan.unchanged, state.embedder)
                passages = state.passages
                changes = plan.taken or plan.removed or not is_current(connection)
                if changes or state.generation == 0:
                    passages = self._switch(connection, state, plan)
                else:
                    if prune and _has_staged(connection):
                        connection.execute("BEGIN IMMEDIATE")
                        connection.execute("DELETE FROM staged")
                        collect_vectors(connection)
                        self._save(connection)
                    self._finish_earlier(connection, state)
            self.close()
            return plan.summary(passages)

    def rewrite(self) -> None:
        """Write the next generation of what the database holds, with everything that follows
        from it made from scratch."""
        with self._guard:
            with self._errors():
                connection = self._writable()
                self._flush()
                self._reembed = True  # No index of an earlier generation is used.
                plan = CommitPlan([], [], {}, prune=False)
                self._switch(connection, _state(connection), plan)
                self._checksums = None  # What was damaged need not be among the changes.
            self.close()

    def connection(self) -> sqlite3.Connection:
        """The connection of the build, for repairs."""
        return self._writable()

    def close(self) -> None:
        with self._guard:
            self._ended = True
            try:
                if self._connection is not None:
                    self._end_connection(self._connection)
                    if self._changed:
                        self._record()
            finally:
                self._connection = None
                if self._made_database and not self._saved:
                    self._made_database = False
                    self._folder.take_back(made_folder=self._made_folder)
                if self._filelock is not None:
                    self._filelock.release()
                    self._filelock = None

    def _errors(self) -> AbstractContextManager[None]:
        return writing(self._folder.path)

    def _add(
        self,
        document: Document,
        rows: Sequence[PassageRecord],
        vectors: Vectors,
        extractions: Sequence[Extraction],
    ) -> None:
        connection = self._writable()
        self._begin_transaction(connection)
        self._insert_vectors(connection, [row.content_hash for row in rows], vectors)
        payload = pack_payload(document, rows, extractions)
        connection.execute(
            "INSERT OR REPLACE INTO staged (id, source_hash, embedder, payload)"
            " VALUES (?, ?, ?, ?)",
            (document.id, document.source_hash, self._embedder_key, payload),
        )

    def _begin_transaction(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")

    def _insert_vectors(
        self, connection: sqlite3.Connection, hashes: Sequence[str], vectors: Vectors
    ) -> None:
        connection.executemany(
            "INSERT OR IGNORE INTO vectors (content_hash, embedder, vector, checksum)"
            " VALUES (?, ?, ?, ?)",
            [
                (digest, self._embedder_key, blob, row_checksum(blob))
                for digest, vector in zip(hashes, to_half(vectors), strict=True)
                for blob in [vector.tobytes()]
            ],
        )

    def _writable(self) -> sqlite3.Connection:
        self._check_open()
        if self._connection is None:
            self._open()
        assert self._connection is not None
        return self._connection

    def _open(self) -> None:
        with self._errors():
            made_folder = not self._folder.path.exists()
            self._folder.path.mkdir(parents=True, exist_ok=True)
            self._folder.check()
            lock = FileLock(self._folder.lock, timeout=0, thread_local=False)
            try:
                lock.acquire()
            except Timeout as error:
                raise StoreBusy(
                    f"another build is writing to {self._folder}", fix="wait for it to end"
                ) from error
            self._filelock = lock
            self._made_folder = made_folder
            self._made_database = not self._folder.database.exists()
            try:
                self._connection = connect_writer(self._folder)
                self._begin(self._connection)
            except BaseException:
                self.close()
                raise

    def _begin(self, connection: sqlite3.Connection) -> None:
        if migrations_missing(connection):
            self._about_to_change()
            migrate(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT OR IGNORE INTO pack (only, generation, token, documents, passages, links,"
            " created_at, updated_at) VALUES (1, 0, '', 0, 0, 0, ?, ?)",
            (utc_now(), utc_now()),
        )
        state = _state(connection)
        if state.passages and state.embedder != self._embedder:
            if not self._allow_mismatch:
                connection.execute("ROLLBACK")
                raise other_embedder(str(self._folder), state.embedder, self._embedder)
            self._reembed = True
        connection.execute(
            "INSERT OR IGNORE INTO embedders (name, version, dim) VALUES (?, ?, ?)", self._embedder
        )
        (self._embedder_key,) = connection.execute(
            "SELECT key FROM embedders WHERE name = ? AND version = ? AND dim = ?", self._embedder
        ).fetchone()
        connection.execute("DELETE FROM staged WHERE embedder <> ?", (self._embedder_key,))
        self._save(connection)
        if not self._reembed:
            self._known.update(connection.execute("SELECT id, source_hash FROM documents"))
        self._known.update(connection.execute("SELECT id, source_hash FROM staged"))

    def _flush(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._save(self._connection)
            self._saved = True
        super()._flush()

    def _save(self, connection: sqlite3.Connection) -> None:
        """Commit; before the database changes for the first time, its checksum is removed."""
        if connection.total_changes and not self._changed:
            self._about_to_change()
        connection.execute("COMMIT")
        log = self._folder.path / f"{DATABASE}-wal"
        if log.exists() and log.stat().st_size > _LARGEST_LOG:
            self._empty_log(connection, "PASSIVE")

    def _about_to_change(self) -> None:
        self._checksums = forget_checksums(self._folder)
        self._changed = True

    def _empty_log(self, connection: sqlite3.Connection, how: str) -> None:
        """Move what is in the log to the database. No one else does, so that every page that
        changed is seen here once."""
        self._blocks |= logged_pages(self._folder)
        connection.execute(f"PRAGMA wal_checkpoint({how})").fetchall()

    def _record(self) -> None:
        try:
            write_checksums(self._folder, self._checksums, self._blocks)
        except OSError as error:
            _log.warning("%s is complete, but has no checksums: %s", self._folder, error)

    def _end_connection(self, connection: sqlite3.Connection) -> None:
        try:
            with self._errors():
                if connection.in_transaction:
                    self._flush()
                self._blocks |= logged_pages(self._folder)
        except StoreError:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            connection.close()

    def _plan(self, connection: sqlite3.Connection, prune: bool) -> CommitPlan:
        stored = dict(connection.execute("SELECT id, key FROM documents").fetchall())
        staged = {name for (name,) in connection.execute("SELECT id FROM staged")}
        return CommitPlan.of(stored, staged, self._kept, prune=prune)

    def _switch(self, connection: sqlite3.Connection, state: PackState, plan: CommitPlan) -> int:
        """Move to the next generation; the number of passages it holds.

        The index and the manifest are on the disk before SQLite commits, which is the one
        moment in which readers move on. Until then any failure leaves the old state.
        """
        written: int | None = None
        manifest: PreparedFile | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            with decoding(str(self._folder.database)):
                change = apply_plan(connection, plan, self._embedder_key)
                new = self._advance(connection, state)
                previous = None if state.generation == 0 or self._reembed else state.index
                write_index(connection, self._folder.indexes, new.index, previous, change)
            written = new.generation
            manifest = prepare_manifest(self._folder, Manifest.of(new))
            self._saved = True
            self._save(connection)
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            elif not isinstance(error, sqlite3.Error):
                raise  # the commit had already happened: what belongs to it must stay
            if manifest is not None:
                manifest.discard()
            if written is not None:
                self._folder.indexes.remove(written)
            raise
        self._tidy(connection, new, manifest)
        return new.passages

    def _advance(self, connection: sqlite3.Connection, state: PackState) -> PackState:
        documents, passages, links = connection.execute(
            "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages),"
            " (SELECT count(*) FROM links WHERE target IS NOT NULL)"
        ).fetchone()
        generation, token, now = state.generation + 1, secrets.token_hex(8), utc_now()
        connection.execute(
            "UPDATE pack SET generation = ?, token = ?, embedder = ?, documents = ?,"
            " passages = ?, links = ?, updated_at = ?",
            (generation, token, self._embedder_key, documents, passages, links, now),
        )
        counts = (documents, passages, links)
        return PackState(generation, token, self._embedder, *counts, state.created_at, now)

    def _finish_earlier(self, connection: sqlite3.Connection, state: PackState) -> None:
        """Tidy up for a build that was killed, or whose disk was full, after its commit."""
        ended = self._changed or has_checksums(self._folder)
        if ended and is_described(self._folder, state):
            return
        if not self._changed:
            self._about_to_change()
        self._tidy(connection, state, prepare_manifest(self._folder, Manifest.of(state)))

    def _tidy(
        self, connection: sqlite3.Connection, state: PackState, manifest: PreparedFile
    ) -> None:
        """What follows a commit. The pack is whole without it, so an error here is logged."""
        try:
            manifest.publish()
            self._folder.remove_unfinished()
            indexes = self._folder.indexes
            indexes.remove_others(generations_used(indexes, state.index))
            sync_file(self._folder.path)
            connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            if free > _MOST_FREE_SHARE * pages:
                connection.execute("PRAGMA incremental_vacuum").fetchall()
            self._empty_log(connection, "TRUNCATE")
        except (OSError, sqlite3.Error) as error:
            _log.warning("%s is complete, but could not be tidied up: %s", self._folder, error)


def _has_staged(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM staged LIMIT 1").fetchone() is not None


def _state(connection: sqlite3.Connection) -> PackState:
    state = read_state(connection)
    assert state is not None
    return state

"""One build of a pack: staged piece by piece, then made visible by a single commit.

stage    documents, passages and vectors go to tables no reader looks at, in small
         transactions: what is there survives a kill
commit   one transaction moves them over; the new index is on the disk before it ends
"""

from __future__ import annotations

import logging
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from packwise.documents import Document, Passage
from packwise.errors import StoreBusy, StoreError, UsageError
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import (
    EmbedderIdentity,
    embedders_would_mix,
    normalised,
    other_embedder,
    passage_vectors,
    storable,
    to_half,
)
from packwise.stores.durable import PreparedFile, sync_file, writing
from packwise.stores.entity_extraction import check_extractions
from packwise.stores.lifecycle import CommitPlan, StagedBuild, utc_now
from packwise.stores.pack.commit import apply_plan, collect_vectors
from packwise.stores.pack.database import DATABASE, PackState, connect_writer, migrate, read_state
from packwise.stores.pack.entity_rows import is_current
from packwise.stores.pack.index import INDEX_FOLDER
from packwise.stores.pack.index_writer import remove_other_indexes, write_index
from packwise.stores.pack.manifest import MANIFEST, Manifest, prepare_manifest
from packwise.stores.pack.queries import batches, marks
from packwise.stores.records import checked_document, pack_payload

LOCK = "build.lock"

_FLUSH_PASSAGES = 256
_FLUSH_SECONDS = 2.0
_CHECKPOINT_WAIT_MS = 200
_MOST_FREE_SHARE = 0.25

_log = logging.getLogger(__name__)


class PackWriter(StagedBuild):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it.

    The folder is made with the first document, so a build that fails before leaves nothing.
    """

    def __init__(
        self, folder: Path, embedder: EmbedderIdentity, *, allow_mismatch: bool = False
    ) -> None:
        self._folder = folder
        self._embedder = embedder
        self._allow_mismatch = allow_mismatch
        self._connection: sqlite3.Connection | None = None
        self._filelock: FileLock | None = None
        self._guard = threading.RLock()
        self._embedder_key = 0
        self._reembed = False
        self._made_folder = False
        self._made_database = False
        self._saved = False
        self._done = False
        self._kept: set[str] = set()
        self._staged: set[str] = set()
        self._known: dict[str, str] = {}
        self._pending = 0
        self._pending_since = 0.0
        if (folder / DATABASE).exists():
            self._open()

    def source_hashes(self) -> Mapping[str, str]:
        return dict(self._known)

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        """The vectors this pack already has for these passage content hashes.

        What comes next is the embedding of the others, so what is staged is saved first.
        """
        with self._guard, writing(self._folder):
            if self._connection is None:
                return {}
            self._flush()
            found: dict[str, Vectors] = {}
            for batch in batches(list(dict.fromkeys(hashes))):
                rows = self._connection.execute(
                    "SELECT content_hash, vector FROM vectors"
                    f" WHERE embedder = ? AND content_hash IN ({marks(batch)})",
                    (self._embedder_key, *batch),
                )
                for digest, blob in rows:
                    found[digest] = normalised(np.frombuffer(blob, "<f2").astype(np.float32))
            return found

    def keep(self, document_id: str) -> None:
        document_id = storable(document_id)
        if document_id not in self._known:
            raise StoreError(f"cannot keep {document_id!r}: the pack does not hold it")
        self._kept.add(document_id)

    def stage(
        self,
        document: Document,
        passages: Sequence[Passage],
        vectors: Vectors,
        extractions: Sequence[Extraction] = (),
    ) -> None:
        block = passage_vectors(document.id, len(passages), vectors, self._embedder.dim)
        check_extractions(document.id, passages, extractions)
        document, rows = checked_document(document, passages, self._embedder.version)
        with self._guard, writing(self._folder):
            connection = self._writable()
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
                self._pending_since = time.monotonic()
            connection.executemany(
                "INSERT OR IGNORE INTO vectors (content_hash, embedder, vector) VALUES (?, ?, ?)",
                [
                    (row.content_hash, self._embedder_key, vector.tobytes())
                    for row, vector in zip(rows, to_half(block), strict=True)
                ],
            )
            payload = pack_payload(document, rows, extractions)
            connection.execute(
                "INSERT OR REPLACE INTO staged (id, source_hash, embedder, payload)"
                " VALUES (?, ?, ?, ?)",
                (document.id, document.source_hash, self._embedder_key, payload),
            )
            self._staged.add(document.id)
            self._known[document.id] = document.source_hash
            self._pending += max(1, len(rows))
            waited = time.monotonic() - self._pending_since
            if self._pending >= _FLUSH_PASSAGES or waited >= _FLUSH_SECONDS:
                self._flush()

    def commit(self, *, prune: bool = True) -> WriteSummary:
        with self._guard:
            with writing(self._folder):
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
                elif prune and connection.execute("DELETE FROM staged").rowcount:
                    collect_vectors(connection)
            self.close()
            return plan.summary(passages)

    def close(self) -> None:
        """End the build and let others write; what is staged stays for the next one."""
        with self._guard:
            self._done = True
            try:
                if self._connection is not None:
                    self._end_connection(self._connection)
            finally:
                self._connection = None
                if self._made_database and not self._saved:
                    self._take_back()
                if self._filelock is not None:
                    self._filelock.release()
                    self._filelock = None

    def _writable(self) -> sqlite3.Connection:
        if self._done:
            raise UsageError("this build has ended", fix="start another with writer()")
        if self._connection is None:
            self._open()
        assert self._connection is not None
        return self._connection

    def _open(self) -> None:
        with writing(self._folder):
            made_folder = not self._folder.exists()
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._folder / LOCK, timeout=0, thread_local=False)
            try:
                lock.acquire()
            except Timeout as error:
                raise StoreBusy(
                    f"another build is writing to {self._folder}", fix="wait for it to end"
                ) from error
            self._filelock = lock
            self._made_folder = made_folder
            self._made_database = not (self._folder / DATABASE).exists()
            try:
                self._connection = connect_writer(self._folder)
                self._begin(self._connection)
            except BaseException:
                self.close()
                raise

    def _begin(self, connection: sqlite3.Connection) -> None:
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
        connection.execute("COMMIT")
        if not self._reembed:
            self._known.update(connection.execute("SELECT id, source_hash FROM documents"))
        self._known.update(connection.execute("SELECT id, source_hash FROM staged"))

    def _flush(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("COMMIT")
            self._saved = True
        self._pending = 0

    def _end_connection(self, connection: sqlite3.Connection) -> None:
        try:
            with writing(self._folder):
                if connection.in_transaction:
                    self._flush()
        except StoreError:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            connection.close()

    def _take_back(self) -> None:
        """Remove what this build created but never put anything into."""
        self._made_database = False
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", LOCK):
            (self._folder / name).unlink(missing_ok=True)
        shutil.rmtree(self._folder / INDEX_FOLDER, ignore_errors=True)
        if self._made_folder and not any(self._folder.iterdir()):
            self._folder.rmdir()

    def _plan(self, connection: sqlite3.Connection, prune: bool) -> CommitPlan:
        stored = dict(connection.execute("SELECT id, key FROM documents").fetchall())
        staged = {name for (name,) in connection.execute("SELECT id FROM staged")}
        return CommitPlan.of(stored, staged, self._kept | self._staged, prune=prune)

    def _switch(self, connection: sqlite3.Connection, state: PackState, plan: CommitPlan) -> int:
        """Move to the next generation; the number of passages it holds.

        The index and the manifest are on the disk before SQLite commits, which is the one
        moment in which readers move on. Until then any failure leaves the old state.
        """
        index: Path | None = None
        manifest: PreparedFile | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            change = apply_plan(connection, plan, self._embedder_key)
            new = self._advance(connection, state)
            previous = None if state.generation == 0 or self._reembed else state.index
            index = write_index(connection, self._folder, new.index, previous, change)
            manifest = prepare_manifest(self._folder, Manifest.of(new))
            self._saved = True
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            elif not isinstance(error, sqlite3.Error):
                raise  # the commit had already happened: what belongs to it must stay
            if manifest is not None:
                manifest.discard()
            if index is not None:
                shutil.rmtree(index, ignore_errors=True)
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

    def _tidy(
        self, connection: sqlite3.Connection, state: PackState, manifest: PreparedFile
    ) -> None:
        """What follows a commit. The pack is whole without it, so an error here is logged."""
        try:
            manifest.publish()
            for stale in self._folder.glob(f".{MANIFEST}.*"):
                stale.unlink(missing_ok=True)
            remove_other_indexes(self._folder, state.index)
            sync_file(self._folder)
            connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            if free > _MOST_FREE_SHARE * pages:
                connection.execute("PRAGMA incremental_vacuum").fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except (OSError, sqlite3.Error) as error:
            _log.warning("%s is complete, but could not be tidied up: %s", self._folder, error)


def _state(connection: sqlite3.Connection) -> PackState:
    state = read_state(connection)
    assert state is not None
    return state

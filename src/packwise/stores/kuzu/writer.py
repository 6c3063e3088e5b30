"""One build of a Kuzu database.

No one can read a Kuzu file while it is being written. So a build is staged in a pack beside
the file, and a commit writes all of it into a new file that replaces the old one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from packwise.documents import Document, Passage
from packwise.errors import StoreBusy, StoreError, StoreMissing
from packwise.language.names import Extraction
from packwise.stores.base import Store, Vectors, Writer, WriteSummary
from packwise.stores.checks import EmbedderIdentity, other_embedder
from packwise.stores.durable import writing
from packwise.stores.entity_extraction import current_rules
from packwise.stores.kuzu.export import write_database
from packwise.stores.kuzu.table import KuzuState
from packwise.stores.lifecycle import StagedBuild
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.transfer import stage_all

if TYPE_CHECKING:
    from packwise.stores.kuzu.store import KuzuStore

_BASE = "base.json"
_BEFORE = "before"
"""A pack whose commit was killed before the file was written; its documents are staged work."""


class KuzuWriter(StagedBuild):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it."""

    def __init__(
        self,
        path: Path,
        store: KuzuStore,
        identity: EmbedderIdentity,
        *,
        allow_mismatch: bool = False,
    ) -> None:
        self._path = path
        # An absolute path is never taken for the name or the address of a store.
        self._folder = path.absolute().with_name(f"{path.name}.build")
        self._pack_path = self._folder / "pack"
        self._store = store
        self._check(store.state(), identity, allow_mismatch)
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=0, thread_local=False)
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout as error:
                raise StoreBusy(
                    f"another build is writing to {path}", fix="wait for it to end"
                ) from error
        self._pack: Store | None = None
        self._done = False
        try:
            # Another build may have ended while the lock was waited for.
            self._state = store.state()
            self._primed = self._prime(self._state)
            self._pack = create_or_open_store(str(self._pack_path))
            self._stage_interrupted(self._pack, identity, allow_mismatch)
            self._writer = _writer_of(self._pack, identity, allow_mismatch)
        except BaseException:
            self._release()
            raise

    def source_hashes(self) -> Mapping[str, str]:
        return self._writer.source_hashes()

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        return self._writer.known_vectors(hashes)

    def save_vectors(self, hashes: Sequence[str], vectors: Vectors) -> None:
        self._writer.save_vectors(hashes, vectors)

    def keep(self, document_id: str) -> None:
        self._writer.keep(document_id)

    def stage(
        self,
        document: Document,
        passages: Sequence[Passage],
        vectors: Vectors,
        extractions: Sequence[Extraction] = (),
    ) -> None:
        self._writer.stage(document, passages, vectors, extractions)

    def commit(self, *, prune: bool = True) -> WriteSummary:
        assert self._pack is not None
        # From here until the file is written, the pack beside it is ahead of what readers see.
        self._note(self._state, self._primed, committing=True)
        summary = self._writer.commit(prune=prune)
        state, rules = self._state, current_rules()
        if state is None or state.rules != rules or self._pack.version() != self._primed:
            created = state.created_at if state else ""
            write_database(self._pack, self._path, created_at=created, rules=rules)
            done = True
        else:
            done = prune
            self._note(state, self._primed)
        self.close()
        if done:
            shutil.rmtree(self._folder, ignore_errors=True)
        return summary

    def close(self) -> None:
        if self._done:
            return
        self._done = True
        try:
            self._writer.close()
        finally:
            self._release()

    def _check(
        self, state: KuzuState | None, identity: EmbedderIdentity, allow_mismatch: bool
    ) -> None:
        if state is None:
            return
        if not state.own:
            raise StoreError(
                f"{self._path} is a pack of agent-kgpacks, which is only read",
                fix=f"packwise pack import {self._path} --out PACK",
            )
        if state.identity == identity or not state.identity.dim or allow_mismatch:
            return
        if self._store.info().passages:
            raise other_embedder(f"kuzu:{self._path}", state.identity, identity)

    def _prime(self, state: KuzuState | None) -> str:
        """Have the pack beside the file hold what the file holds; the version it then has.

        What an earlier build left staged on the same state is kept.
        """
        try:
            left = json.loads((self._folder / _BASE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            left = None
        pack, before = self._pack_path, self._folder / _BEFORE
        if left is not None and left["base"] == _base(state):
            if not left.get("committing") or _version(pack) == left["primed"]:
                return str(left["primed"])
            if not before.exists():
                pack.rename(before)
            shutil.rmtree(pack, ignore_errors=True)
        else:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        primed = ""
        if state is not None:
            copy = create_or_open_store(str(pack))
            try:
                with _writer_of(copy, state.identity) as writer:
                    stage_all(self._store, [s.id for s in self._store.documents()], writer)
                    writer.commit()
                primed = copy.version()
            finally:
                copy.close()
        self._note(state, primed)
        return primed

    def _note(self, state: KuzuState | None, primed: str, *, committing: bool = False) -> None:
        """Write down which state of the file the pack beside it belongs to."""
        note = {"base": _base(state), "primed": primed, "committing": committing}
        (self._folder / _BASE).write_text(json.dumps(note), encoding="utf-8")

    def _stage_interrupted(
        self, pack: Store, identity: EmbedderIdentity, allow_mismatch: bool
    ) -> None:
        """Stage again what a killed commit had moved, where it is of this embedder."""
        before = self._folder / _BEFORE
        if not before.exists():
            return
        old = open_store(str(before))
        try:
            # A writer of its own: what it leaves staged is only taken by a build that asks
            # for it.
            with _writer_of(pack, identity, allow_mismatch) as writer:
                info = old.info()
                if (info.embedder, info.embedder_version, info.dim) == identity:
                    known = writer.source_hashes()
                    changed = (s.id for s in old.documents() if known.get(s.id) != s.source_hash)
                    stage_all(old, list(changed), writer)
        finally:
            old.close()
        shutil.rmtree(before, ignore_errors=True)

    def _release(self) -> None:
        if self._pack is not None:
            self._pack.close()
        self._lock.release()


def _base(state: KuzuState | None) -> str:
    return state.version if state else ""


def _version(pack: Path) -> str:
    try:
        store = open_store(str(pack))
    except StoreMissing:
        return ""
    try:
        return store.version()
    finally:
        store.close()


def _writer_of(pack: Store, identity: EmbedderIdentity, allow_mismatch: bool = False) -> Writer:
    name, version, dim = identity
    return pack.writer(
        embedder=name, embedder_version=version, dim=dim, allow_mismatch=allow_mismatch
    )

"""One build of a Kuzu database.

Kuzu lets nobody read a file that is being written. So a build is staged in a pack beside the
file, and a commit writes the whole of it into a new file that takes the old one's place.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from packwise.documents import Document, Passage
from packwise.errors import StoreBusy, StoreError, StoreMissing
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import other_embedder
from packwise.stores.context_managers import Build
from packwise.stores.durable import writing
from packwise.stores.entity_extraction import current_rules
from packwise.stores.kuzu.export import write_database
from packwise.stores.kuzu.table import Identity, State
from packwise.stores.pack.store import PackStore, create_or_open_pack, open_pack
from packwise.stores.pack.writer import PackWriter
from packwise.stores.transfer import contents

if TYPE_CHECKING:
    from packwise.stores.kuzu.store import KuzuStore

_BASE = "base.json"
_BEFORE = "before"
"""A pack whose commit was killed before the file was written; its documents are staged work."""


class KuzuWriter(Build):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it."""

    def __init__(
        self, path: Path, store: KuzuStore, identity: Identity, *, allow_mismatch: bool = False
    ) -> None:
        self._path = path
        self._folder = path.with_name(f"{path.name}.build")
        self._store = store
        state: State | None = store.state()
        self._check(state, identity, allow_mismatch)
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=0, thread_local=False)
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout as error:
                raise StoreBusy(
                    f"another build is writing to {path}", fix="wait for it to end"
                ) from error
        self._pack: PackStore | None = None
        self._done = False
        try:
            # Another build may have ended while the lock was waited for.
            self._state: State | None = store.state()
            self._primed = self._prime(self._state)
            self._pack = create_or_open_pack(self._folder / "pack")
            self._take_up(self._pack, identity, allow_mismatch)
            self._writer = _writer_of(self._pack, identity, allow_mismatch)
        except BaseException:
            self._release()
            raise

    def source_hashes(self) -> Mapping[str, str]:
        """Document id to source hash: what is stored or already staged, newest wins."""
        return self._writer.source_hashes()

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        """The vectors this store already has for these passage content hashes."""
        return self._writer.known_vectors(hashes)

    def keep(self, document_id: str) -> None:
        """This document is unchanged: it stays (or its staged version is taken)."""
        self._writer.keep(document_id)

    def stage(
        self,
        document: Document,
        passages: Sequence[Passage],
        vectors: Vectors,
        extractions: Sequence[Extraction] = (),
    ) -> None:
        """Put a new or changed document down, one vector (row) a passage."""
        self._writer.stage(document, passages, vectors, extractions)

    def commit(self, *, prune: bool = True) -> WriteSummary:
        """Make it all visible at once; with ``prune``, whatever was neither kept nor staged
        in this run disappears. Ends the build."""
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
            self._note(self._state, self._primed)
        self.close()
        if done:
            shutil.rmtree(self._folder, ignore_errors=True)
        return summary

    def close(self) -> None:
        """End the build and let others write; what is staged stays for the next one."""
        if self._done:
            return
        self._done = True
        try:
            self._writer.close()
        finally:
            self._release()

    def _check(self, state: State | None, identity: Identity, allow_mismatch: bool) -> None:
        if state is None:
            return
        if not state.own:
            raise StoreError(
                f"{self._path} is a pack of the earlier system, which is only read",
                fix=f"packwise pack import {self._path} --out PACK",
            )
        if state.identity != identity and state.identity.dim and not allow_mismatch:
            passages = self._store.info().passages
            if passages:
                held, given = astuple(state.identity), astuple(identity)
                raise other_embedder(f"kuzu:{self._path}", held, given)

    def _prime(self, state: State | None) -> str:
        """Have the pack beside the file hold what the file holds; the version it then has.

        What a build before this one left staged on the same state is kept.
        """
        try:
            left = json.loads((self._folder / _BASE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            left = None
        pack, before = self._folder / "pack", self._folder / _BEFORE
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
            with create_or_open_pack(pack) as copy:
                self._copy_into(copy, state.identity)
                primed = copy.version()
        self._note(state, primed)
        return primed

    def _note(self, state: State | None, primed: str, *, committing: bool = False) -> None:
        """Write down which state of the file the pack beside it belongs to."""
        note = {"base": _base(state), "primed": primed, "committing": committing}
        (self._folder / _BASE).write_text(json.dumps(note), encoding="utf-8")

    def _take_up(self, pack: PackStore, identity: Identity, allow_mismatch: bool) -> None:
        """Stage again what a killed commit had taken over, where it is of this embedder."""
        before = self._folder / _BEFORE
        if not before.exists():
            return
        # A writer of its own: what it leaves staged is only taken by a build that asks for it.
        with open_pack(before) as old, _writer_of(pack, identity, allow_mismatch) as writer:
            info = old.info()
            if Identity(info.embedder, info.embedder_version, info.dim) == identity:
                known = writer.source_hashes()
                names = [s.id for s in old.documents() if known.get(s.id) != s.source_hash]
                for content in contents(old, names):
                    writer.stage(
                        content.document, content.passages, content.vectors, content.extractions
                    )
        shutil.rmtree(before, ignore_errors=True)

    def _copy_into(self, pack: PackStore, identity: Identity) -> None:
        with pack.writer(
            embedder=identity.embedder, embedder_version=identity.version, dim=identity.dim
        ) as writer:
            names = [summary.id for summary in self._store.documents()]
            for content in contents(self._store, names):
                writer.stage(
                    content.document, content.passages, content.vectors, content.extractions
                )
            writer.commit()

    def _release(self) -> None:
        if self._pack is not None:
            self._pack.close()
        self._lock.release()


def _base(state: State | None) -> str:
    return state.version if state else ""


def _version(pack: Path) -> str:
    try:
        with open_pack(pack) as store:
            return store.version()
    except StoreMissing:
        return ""


def _writer_of(pack: PackStore, identity: Identity, allow_mismatch: bool) -> PackWriter:
    return pack.writer(
        embedder=identity.embedder,
        embedder_version=identity.version,
        dim=identity.dim,
        allow_mismatch=allow_mismatch,
    )

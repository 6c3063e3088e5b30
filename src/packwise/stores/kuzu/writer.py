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
from types import TracebackType
from typing import TYPE_CHECKING, Self

from filelock import FileLock, Timeout

from packwise.entities import Extraction
from packwise.errors import StoreBusy, StoreError
from packwise.passages import Document, Passage
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import other_embedder
from packwise.stores.durable import writing
from packwise.stores.kuzu.export import write_database
from packwise.stores.kuzu.table import Identity, State
from packwise.stores.pack import PackStore, create_or_open_pack
from packwise.stores.pack_writer import PackWriter
from packwise.stores.transfer import contents

if TYPE_CHECKING:
    from packwise.stores.kuzu.store import KuzuStore

_BASE = "base.json"


class KuzuWriter:
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
            self._writer: PackWriter = self._pack.writer(
                embedder=identity.embedder,
                embedder_version=identity.version,
                dim=identity.dim,
                allow_mismatch=allow_mismatch,
            )
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
        summary = self._writer.commit(prune=prune)
        if self._state is None or self._pack.version() != self._primed:
            created = self._state.created_at if self._state else ""
            write_database(self._pack, self._path, created)
            done = True
        else:
            done = prune
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._done:
            return
        self._done = True
        try:
            self._writer.__exit__(kind, error, where)
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
        base = state.version if state else ""
        note = self._folder / _BASE
        try:
            left = json.loads(note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            left = None
        if left is not None and left["base"] == base:
            return str(left["primed"])
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        primed = ""
        if state is not None:
            with create_or_open_pack(self._folder / "pack") as pack:
                self._copy_into(pack, state.identity)
                primed = pack.version()
        note.write_text(json.dumps({"base": base, "primed": primed}), encoding="utf-8")
        return primed

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

"""What stores and builds have in common from opening to commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import NamedTuple, Self

from packwise.documents import Document, Passage
from packwise.errors import StoreError, UsageError
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, Writer, WriteSummary
from packwise.stores.checks import EmbedderIdentity, passage_vectors, storable
from packwise.stores.extractions import check_extractions
from packwise.stores.records import PassageRecord, checked_document

_FLUSH_ITEMS = 256
_FLUSH_SECONDS = 2.0
"""Staged documents and passages are saved at this number, or when the first is this old."""

_log = logging.getLogger(__name__)


def utc_now() -> str:
    """The time as stored: UTC in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Closeable:
    """Something that is closed when its ``with`` block ends."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BuildableStore(Closeable):
    """A store that starts builds."""

    def writer(
        self, *, embedder: str, embedder_version: str, dim: int, allow_mismatch: bool = False
    ) -> Writer:
        if dim < 1:
            raise UsageError(f"an embedder has at least 1 dimension, not {dim}")
        return self._writer(EmbedderIdentity(embedder, embedder_version, dim), allow_mismatch)

    def _writer(self, embedder: EmbedderIdentity, allow_mismatch: bool) -> Writer:
        raise NotImplementedError


class StagedBuild(Closeable):
    """A build in progress. Closing it saves what is staged for the next build."""

    def __exit__(self, *raised: object) -> None:
        try:
            self.close()
        except StoreError as trouble:
            if raised[1] is None:
                raise
            # The error in flight is the one to report; what was staged before is safe.
            _log.info("the last staged documents are lost: %s", trouble)


class StagingWriter(StagedBuild):
    """A build that checks what is staged and saves it some documents at a time."""

    def __init__(self, embedder: EmbedderIdentity) -> None:
        self._embedder = embedder
        self._guard = threading.RLock()
        self._known: dict[str, str] = {}
        self._kept: set[str] = set()
        self._pending = 0
        self._pending_since = 0.0
        self._ended = False

    def source_hashes(self) -> Mapping[str, str]:
        return dict(self._known)

    def keep(self, document_id: str) -> None:
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
        block = passage_vectors(document.id, len(passages), vectors, self._embedder.dim)
        check_extractions(document.id, passages, extractions)
        document, rows = checked_document(document, passages, self._embedder.version)
        with self._guard, self._errors():
            self._check_open()
            self._add(document, rows, block, extractions)
            self._kept.add(document.id)
            self._known[document.id] = document.source_hash
            if not self._pending:
                self._pending_since = time.monotonic()
            self._pending += 1 + len(rows)
            waited = time.monotonic() - self._pending_since
            if self._pending >= _FLUSH_ITEMS or waited >= _FLUSH_SECONDS:
                self._flush()

    def _check_open(self) -> None:
        if self._ended:
            raise UsageError("this build has ended", fix="start another with writer()")

    def _errors(self) -> AbstractContextManager[None]:
        """Turns what a library raises into errors of a store."""
        return nullcontext()

    def _add(
        self,
        document: Document,
        rows: Sequence[PassageRecord],
        vectors: Vectors,
        extractions: Sequence[Extraction],
    ) -> None:
        """Stage a checked document; it is saved by the next ``_flush``."""
        raise NotImplementedError

    def _flush(self) -> None:
        """Save what is staged."""
        self._pending = 0


class CommitPlan(NamedTuple):
    """What a commit does, by document id; ``stored`` maps ids to keys."""

    taken: list[str]
    removed: list[str]
    stored: Mapping[str, int]
    prune: bool

    @classmethod
    def of(
        cls, stored: Mapping[str, int], staged: set[str], wanted: set[str], *, prune: bool
    ) -> CommitPlan:
        """The plan for a build that staged or kept the ``wanted`` documents."""
        removed = sorted(stored.keys() - wanted) if prune else []
        return cls(sorted(staged & wanted), removed, stored, prune)

    @property
    def replaced(self) -> list[str]:
        return [name for name in self.taken if name in self.stored]

    @property
    def unchanged(self) -> int:
        return len(self.stored) - len(self.removed) - len(self.replaced)

    def summary(self, passages: int) -> WriteSummary:
        changed = len(self.replaced)
        added = len(self.taken) - changed
        return WriteSummary(added, changed, len(self.removed), self.unchanged, passages)

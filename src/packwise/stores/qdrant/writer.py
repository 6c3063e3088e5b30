"""One build of a store in Qdrant: staged on the server, then made visible at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from packwise.documents import Document, Passage
from packwise.errors import StoreError, UsageError
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import (
    Identity,
    embedders_would_mix,
    other_embedder,
    passage_vectors,
    storable,
    to_half,
)
from packwise.stores.entity_extraction import check_extractions, current_rules
from packwise.stores.lifecycle import StagedBuild
from packwise.stores.qdrant.address import Address
from packwise.stores.qdrant.commit import Commit, Staged
from packwise.stores.qdrant.entity_points import DERIVED, DocumentRow
from packwise.stores.qdrant.layout import (
    DENSE,
    NEVER,
    SPARSE,
    Payload,
    State,
    every,
    has,
    has_any,
    make_collection,
    scroll,
    tag,
    visible,
    within,
)
from packwise.stores.qdrant.lease import Lease
from packwise.stores.qdrant.points import document_point, passage_point, read_vector
from packwise.stores.qdrant.reading import Reading, batched
from packwise.stores.qdrant.server import CollectionMissing, Server
from packwise.stores.qdrant.weights import sparse, unpack_terms
from packwise.stores.records import checked_document, read_links

_FLUSH_PASSAGES = 256
_FLUSH_SECONDS = 2.0
_ROW_FIELDS = ["id", "title", "url", "sourceHash", "bytes", "links"]

_log = logging.getLogger(__name__)


class QdrantWriter(StagedBuild):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it."""

    def __init__(
        self,
        server: Server,
        address: Address,
        reading: Reading,
        state: State | None,
        identity: Identity,
        *,
        allow_mismatch: bool = False,
    ) -> None:
        self._server = server
        self._address = address
        self._reading = reading
        self._identity = identity
        held = (state.embedder, state.embedder_version, state.dim) if state else identity
        if state is not None and state.passages and held != identity and not allow_mismatch:
            raise other_embedder(address.text, held, identity)
        self._old = state
        # Vectors of another kind go to a collection of their own.
        self._state = state if held == identity else None
        self._guard = threading.RLock()
        self._lease = Lease(server, address)
        self._live: dict[str, DocumentRow] = {}
        self._staged: dict[str, DocumentRow] = {}
        self._kept: set[str] = set()
        self._mine: set[str] = set()
        self._passages: list[tuple[int, Payload, list[float]]] = []
        self._documents: list[tuple[int, Payload]] = []
        self._pending_since = 0.0
        self._weighed = state.weighed if state else 0.0
        self._done = False
        try:
            self._collection = self._open_collection()
            self._recover()
            self._load()
        except BaseException:
            self._lease.release()
            raise

    def source_hashes(self) -> Mapping[str, str]:
        """Document id to source hash: what is stored or already staged, newest wins.

        While a store is embedded anew, what the old embedder left does not count.
        """
        return {name: row.source_hash for name, row in {**self._live, **self._staged}.items()}

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        """The vectors this store already has for these passage content hashes."""
        found: dict[str, Vectors] = {}
        with self._guard:
            self._flush()
            for batch in batched(dict.fromkeys(hashes)):
                where = every([has_any(tag("content", digest) for digest in batch)])
                records = scroll(
                    self._server, self._collection, where, ["contentHash"], vectors=[DENSE]
                )
                for record in records:
                    digest = record.payload["contentHash"]
                    found[digest] = read_vector(record.vector, DENSE, self._identity[2])
        return found

    def keep(self, document_id: str) -> None:
        """This document is unchanged: it stays (or its staged version is taken)."""
        document_id = storable(document_id)
        if document_id not in self._live and document_id not in self._staged:
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
        _, version, dim = self._identity
        rows = to_half(passage_vectors(document.id, len(passages), vectors, dim)).astype(np.float32)
        check_extractions(document.id, passages, extractions)
        read = {extraction.order_index: extraction for extraction in extractions}
        document, checked_rows = checked_document(document, passages, version)
        with self._guard:
            self._check_open()
            if document.id in self._staged:
                self._drop_staged([self._staged[document.id]])
            owner = self._lease.key()
            total = len(document.text)
            for row, vector in zip(checked_rows, rows, strict=True):
                payload = passage_point(document, row, version, read.get(row.position))
                payload["owner"] = owner
                payload["tags"].append(tag("owner", owner))
                total += len(payload["text"]) + 2 * dim
                self._passages.append((self._lease.key(), payload, vector.tolist()))
            payload = document_point(document, len(checked_rows))
            payload["bytes"] = total
            payload["tags"].append(tag("owner", owner))
            self._documents.append((owner, payload))
            self._staged[document.id] = _row(owner, payload)
            self._mine.add(document.id)
            self._pending_since = self._pending_since or time.monotonic()
            if (
                len(self._passages) + len(self._documents) >= _FLUSH_PASSAGES
                or time.monotonic() - self._pending_since >= _FLUSH_SECONDS
            ):
                self._flush()

    def commit(self, *, prune: bool = True) -> WriteSummary:
        """Make it all visible at once; with ``prune``, whatever was neither kept nor staged
        in this run disappears. Ends the build."""
        with self._guard:
            self._check_open()
            self._flush()
            mentioned = self._kept | self._mine
            taken = {name: row for name, row in self._staged.items() if name in mentioned}
            removed = {n: r for n, r in self._live.items() if n not in mentioned} if prune else {}
            self._refuse_mixture(prune)
            changed = sum(name in self._live for name in taken)
            passages = self._state.passages if self._state else 0
            if taken or removed or self._state is None or self._state.rules != current_rules():
                state = Commit(
                    self._server,
                    self._address,
                    self._reading,
                    self._lease,
                    Staged(self._collection, self._live, taken, removed, self._identity),
                    self._state,
                    self._old,
                    self._weighed,
                ).run()
                passages = state.passages
                self._lease.note(building="", weighed=state.weighed)
            if prune:
                self._drop_unclaimed()
            self.close()
            return WriteSummary(
                added=len(taken) - changed,
                changed=changed,
                removed=len(removed),
                unchanged=len(self._live) - len(removed) - changed,
                passages=passages,
            )

    def close(self) -> None:
        """End the build and let others write; what is staged stays for the next one."""
        with self._guard:
            if self._done:
                return
            try:
                self._flush()
            finally:
                self._done = True
                self._lease.release()

    def _check_open(self) -> None:
        if self._done:
            raise UsageError("this build has ended", fix="start another with writer()")

    def _refuse_mixture(self, prune: bool) -> None:
        if self._state is not None or self._old is None or prune or not self._old.documents:
            return
        old = (self._old.embedder, self._old.embedder_version, self._old.dim)
        raise embedders_would_mix(self._old.documents, old)

    def _open_collection(self) -> str:
        """The collection to write to: the one readers see, or one that is being filled."""
        notes = self._lease.notes()
        building, identity = notes.get("building") or "", notes.get("identity")
        if self._state is not None:
            if building and building != self._state.collection:
                self._forget(building)
            return self._state.collection
        if building:
            if tuple(identity or ()) == self._identity and self._exists(building):
                self._weighed = float(notes.get("weighed") or 0.0)
                return building
            self._forget(building)
        number = int(notes.get("collections") or 0) + 1
        name = f"{self._address.collection}--{number}"
        self._lease.note(
            collections=number, building=name, identity=list(self._identity), weighed=0.0
        )
        self._weighed = 0.0
        make_collection(self._server, self._address, name, self._identity[2])
        return name

    def _exists(self, name: str) -> bool:
        return self._server.call(lambda client: client.collection_exists(name))

    def _forget(self, name: str) -> None:
        try:
            self._server.call(lambda client: client.delete_collection(name))
        except CollectionMissing:
            return

    def _recover(self) -> None:
        """Undo what a commit that was killed had done: it never became visible."""
        generation = self._state.generation if self._state else 0
        unfinished = [within("born", gt=generation, lt=NEVER)]
        derived = [has_any(tag("kind", kind) for kind in DERIVED)]
        leftover = every([*unfinished, *derived])
        self._server.call(lambda client: client.delete(self._collection, leftover, wait=True))
        self._set({"born": NEVER}, every(unfinished))
        self._set({"died": NEVER}, every([within("died", gt=generation, lt=NEVER)]))

    def _load(self) -> None:
        documents = has(tag("documents"))
        if self._state is not None:
            live = every([*documents, *visible(self._state.generation)])
            for record in scroll(self._server, self._collection, live, _ROW_FIELDS):
                self._live[record.payload["id"]] = _row(record.id, record.payload)
        staged = every([*documents, within("born", gte=NEVER)])
        for record in scroll(self._server, self._collection, staged, _ROW_FIELDS):
            self._staged[record.payload["id"]] = _row(record.id, record.payload)

    def _flush(self) -> None:
        """Send what waits: the passages first, so a document on the server is a whole one."""
        from qdrant_client import models

        if not self._documents:
            return
        if self._passages and not self._weighed:
            lengths = [payload["length"] for _, payload, _ in self._passages]
            self._weighed = max(sum(lengths) / len(lengths), 1.0)
            self._lease.note(weighed=self._weighed)
        points: list[Any] = []
        for key, payload, vector in self._passages:
            entries = unpack_terms(payload["terms"])
            indices, values = sparse(entries, payload["length"], self._weighed)
            vectors: Any = {
                DENSE: vector,
                SPARSE: models.SparseVector(indices=indices, values=values),
            }
            points.append(models.PointStruct(id=key, vector=vectors, payload=payload))
        upsert(self._server, self._collection, points)
        upsert(
            self._server,
            self._collection,
            [models.PointStruct(id=k, vector={}, payload=p) for k, p in self._documents],
        )
        self._passages, self._documents, self._pending_since = [], [], 0.0

    def _drop_staged(self, rows: Sequence[DocumentRow]) -> None:
        self._flush()
        for batch in batched(rows):
            where = every([has_any(tag("owner", row.key) for row in batch)])
            self._server.call(lambda client, f=where: client.delete(self._collection, f, wait=True))

    def _drop_unclaimed(self) -> None:
        """Remove what is still staged, with passages whose document a kill kept out."""
        where = every([within("born", gte=NEVER)])
        self._server.call(lambda client: client.delete(self._collection, where, wait=True))

    def _set(self, values: Payload, where: Any) -> None:
        self._server.call(
            lambda client: client.set_payload(self._collection, values, where, wait=True)
        )


_MOST_POINTS = 256
_MOST_BYTES = 8 << 20
"""A server takes 32 MB a request unless told otherwise."""


def upsert(server: Server, collection: str, points: Sequence[Any]) -> None:
    """Write points, in batches that a server takes well."""
    batch: list[Any] = []
    size = 0
    for point in points:
        weight = 2 * len(point.payload.get("text", "")) + 8192
        if batch and (len(batch) >= _MOST_POINTS or size + weight > _MOST_BYTES):
            server.call(lambda client, b=batch: client.upsert(collection, b, wait=True))
            batch, size = [], 0
        batch.append(point)
        size += weight
    if batch:
        server.call(lambda client: client.upsert(collection, batch, wait=True))


def _row(key: int, payload: Mapping[str, Any]) -> DocumentRow:
    return DocumentRow(
        key=key,
        id=payload["id"],
        title=payload["title"],
        url=payload["url"],
        source_hash=payload["sourceHash"],
        content_bytes=payload["bytes"],
        links=tuple(parts[:3] for parts in read_links(payload["links"])),
    )

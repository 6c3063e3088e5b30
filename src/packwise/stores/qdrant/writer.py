"""One build of a store in Qdrant: staged on the server, then made visible at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from qdrant_client import models

from packwise.documents import Document
from packwise.language.names import Extraction
from packwise.stores.base import Vectors, WriteSummary
from packwise.stores.checks import (
    EmbedderIdentity,
    embedders_would_mix,
    other_embedder,
    to_half,
)
from packwise.stores.entity_extraction import current_rules
from packwise.stores.lifecycle import CommitPlan, StagingWriter
from packwise.stores.qdrant.commit import QdrantCommit
from packwise.stores.qdrant.entity_points import DERIVED, DocumentRow
from packwise.stores.qdrant.layout import (
    DENSE,
    NEVER,
    SPARSE,
    Payload,
    QdrantState,
    all_of,
    batched,
    delete_collection,
    has,
    has_any,
    make_collection,
    scroll,
    tag,
    upsert,
    visible,
    within,
)
from packwise.stores.qdrant.lease import Lease
from packwise.stores.qdrant.points import document_point, passage_point, read_vector
from packwise.stores.qdrant.reader import QdrantReader
from packwise.stores.qdrant.server import Address, QdrantServer
from packwise.stores.qdrant.statistics import sparse_vector
from packwise.stores.records import PassageRecord, passage_of, read_links

_ROW_FIELDS = ["id", "title", "url", "sourceHash", "bytes", "links"]


class QdrantWriter(StagingWriter):
    """A build in progress. Use it in a ``with`` block; ``commit`` ends it."""

    def __init__(
        self,
        server: QdrantServer,
        address: Address,
        reader: QdrantReader,
        state: QdrantState | None,
        embedder: EmbedderIdentity,
        allow_mismatch: bool,
    ) -> None:
        super().__init__(embedder)
        same = state is None or state.identity == embedder
        if state is not None and state.passages and not same and not allow_mismatch:
            raise other_embedder(address.text, state.identity, embedder)
        self._server = server
        self._address = address
        self._reader = reader
        self._previous = state
        # Vectors of another embedder go to a collection of their own.
        self._state = state if same else None
        self._lease = Lease(server, address)
        self._live: dict[str, DocumentRow] = {}
        self._staged: dict[str, DocumentRow] = {}
        self._passages: list[tuple[int, Payload, list[float]]] = []
        self._documents: list[tuple[int, Payload]] = []
        self._assumed_length = state.weighed if state else 0.0
        try:
            self._collection = self._open_collection()
            self._recover()
            self._load()
        except BaseException:
            self._lease.release()
            raise

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        found: dict[str, Vectors] = {}
        with self._guard:
            self._flush()
            for batch in batched(dict.fromkeys(hashes)):
                where = all_of(has_any(tag("content", digest) for digest in batch))
                for record in self._scroll(where, ["contentHash"], vectors=[DENSE]):
                    found[record.payload["contentHash"]] = read_vector(record, self._embedder.dim)
        return found

    def save_vectors(self, hashes: Sequence[str], vectors: Vectors) -> None:
        """Nothing to do: Qdrant keeps vectors with the passages of a staged document."""

    def _add(
        self,
        document: Document,
        rows: Sequence[PassageRecord],
        vectors: Vectors,
        extractions: Sequence[Extraction],
    ) -> None:
        _, version, dim = self._embedder
        halves = to_half(vectors).astype(np.float32)
        extracted = {extraction.order_index: extraction for extraction in extractions}
        if document.id in self._staged:
            self._flush()
            self._delete(all_of(*has(tag("owner", self._staged[document.id].key))))
        owner = self._lease.key()
        size = len(document.text)
        for row, vector in zip(rows, halves, strict=True):
            passage = passage_of(document, row, version)
            payload = passage_point(passage, owner, extracted.get(row.position))
            size += len(passage.text) + 2 * dim
            self._passages.append((self._lease.key(), payload, vector.tolist()))
        payload = document_point(document, len(rows), owner, size)
        self._documents.append((owner, payload))
        self._staged[document.id] = _row(owner, payload)

    def commit(self, *, prune: bool = True) -> WriteSummary:
        with self._guard:
            self._check_open()
            self._flush()
            stored = {name: row.key for name, row in self._live.items()}
            plan = CommitPlan.of(stored, set(self._staged), self._kept, prune=prune)
            previous = self._previous
            if previous and previous.documents and self._state is None and not prune:
                raise embedders_would_mix(previous.documents, previous.identity)
            passages = self._state.passages if self._state else 0
            rules = self._state.rules if self._state else ""
            if plan.taken or plan.removed or rules != current_rules():
                state = QdrantCommit(
                    server=self._server,
                    alias=self._address.collection,
                    collection=self._collection,
                    reader=self._reader,
                    lease=self._lease,
                    embedder=self._embedder,
                    state=self._state,
                    previous=self._previous,
                    assumed_length=self._assumed_length,
                    live=self._live,
                    staged={name: self._staged[name] for name in plan.taken},
                    removed={name: self._live[name] for name in plan.removed},
                ).run()
                passages = state.passages
                self._lease.note(building="", weighed=state.weighed)
            if prune:
                # This includes passages of documents that a kill kept from being staged.
                self._delete(all_of(within("born", gte=NEVER)))
            self.close()
            return plan.summary(passages)

    def close(self) -> None:
        with self._guard:
            if self._ended:
                return
            try:
                self._flush()
            finally:
                self._ended = True
                self._lease.release()

    def _open_collection(self) -> str:
        """The collection to write to: the one that readers see, or one being filled."""
        notes = self._lease.notes()
        building = notes.get("building") or ""
        if self._state is not None:
            if building and building != self._state.collection:
                delete_collection(self._server, building)
            return self._state.collection
        if building:
            same = tuple(notes.get("identity") or ()) == self._embedder
            if same and self._server.call("collection_exists", building):
                self._assumed_length = float(notes.get("weighed") or 0.0)
                return building
            delete_collection(self._server, building)
        number = int(notes.get("collections") or 0) + 1
        name = f"{self._address.collection}--{number}"
        self._lease.note(
            collections=number, building=name, identity=list(self._embedder), weighed=0.0
        )
        self._assumed_length = 0.0
        make_collection(self._server, self._address, name, self._embedder.dim)
        return name

    def _recover(self) -> None:
        """Undo what a killed commit left behind; it never became visible."""
        generation = self._state.generation if self._state else 0
        derived = has_any(tag("kind", kind) for kind in DERIVED)
        self._delete(all_of(derived, within("born", gt=generation, lt=NEVER)))
        for field in ("born", "died"):
            where = all_of(within(field, gt=generation, lt=NEVER))
            self._server.call("set_payload", self._collection, {field: NEVER}, where, wait=True)

    def _load(self) -> None:
        """Read which documents are live and which are staged."""
        documents = has(tag("documents"))
        if self._state is not None:
            live = all_of(*documents, *visible(self._state.generation))
            for record in self._scroll(live, _ROW_FIELDS):
                self._live[record.payload["id"]] = _row(record.id, record.payload)
        for record in self._scroll(all_of(*documents, within("born", gte=NEVER)), _ROW_FIELDS):
            self._staged[record.payload["id"]] = _row(record.id, record.payload)
        for name, row in (*self._live.items(), *self._staged.items()):
            self._known[name] = row.source_hash

    def _flush(self) -> None:
        """Send pending points: passages first, so a document on the server is complete."""
        super()._flush()
        if not self._documents:
            return
        if self._passages and not self._assumed_length:
            lengths = [payload["length"] for _, payload, _ in self._passages]
            self._assumed_length = max(sum(lengths) / len(lengths), 1.0)
            self._lease.note(weighed=self._assumed_length)
        points: list[models.PointStruct] = []
        for key, payload, vector in self._passages:
            sparse = sparse_vector(payload["terms"], payload["length"], self._assumed_length)
            vectors: Any = {DENSE: vector, SPARSE: sparse}
            points.append(models.PointStruct(id=key, vector=vectors, payload=payload))
        upsert(self._server, self._collection, points)
        documents = [models.PointStruct(id=k, vector={}, payload=p) for k, p in self._documents]
        upsert(self._server, self._collection, documents)
        self._passages, self._documents = [], []

    def _scroll(self, where: models.Filter, fields: list[str], **options: Any) -> Iterable[Any]:
        return scroll(self._server, self._collection, where, fields, **options)

    def _delete(self, where: models.Filter) -> None:
        self._server.call("delete", self._collection, where, wait=True)


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

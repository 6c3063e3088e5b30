"""A store in Qdrant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from qdrant_client import models

from packwise.documents import Document, Link, Passage
from packwise.errors import StoreMissing
from packwise.stores.base import DocumentSummary, Key, StoreInfo, Vectors
from packwise.stores.checks import EmbedderIdentity, storable
from packwise.stores.extractions import read_extraction
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader
from packwise.stores.languages import LanguageCounts
from packwise.stores.lifecycle import BuildableStore
from packwise.stores.links import index_urls, target_of
from packwise.stores.locate import opened
from packwise.stores.qdrant.knowledge import QdrantKnowledge
from packwise.stores.qdrant.layout import (
    DENSE,
    Fields,
    QdrantState,
    batched,
    has,
    has_any,
    tag,
    within,
)
from packwise.stores.qdrant.points import (
    PASSAGE_FIELDS,
    SUMMARY_FIELDS,
    read_document,
    read_passage,
    read_summary,
    read_vector,
)
from packwise.stores.qdrant.reader import QdrantReader
from packwise.stores.qdrant.search import QdrantSearch, store_keys
from packwise.stores.qdrant.server import Address, QdrantServer, parse_address
from packwise.stores.qdrant.writer import QdrantWriter
from packwise.stores.records import LinkParts, read_links
from packwise.stores.transfer import Content

_T = TypeVar("_T")


def open_qdrant(argument: str) -> QdrantStore:
    """Open a store for reading. Raises ``StoreMissing`` if there is no finished one."""
    store = create_or_open_qdrant(argument)
    return opened(store, store.state)


def create_or_open_qdrant(argument: str) -> QdrantStore:
    """Open a store to build it, whether or not it exists yet."""
    address = parse_address(argument)
    return QdrantStore(QdrantServer.connect(address), address)


class QdrantStore(BuildableStore, QdrantSearch, KnowledgeReader):
    """One store in Qdrant. Thread-safe; the next call after a build sees its result."""

    def __init__(self, server: QdrantServer, address: Address) -> None:
        self._server = server
        self._address = address
        self._reader = QdrantReader(server, address.collection, address.text)
        self._languages = LanguageCounts()

    def state(self) -> QdrantState:
        """The generation that is current now."""
        return self._reader.state()

    def version(self) -> str:
        return self._reader.state().version

    def one_state(self) -> AbstractContextManager[None]:
        """Read one generation, for a minute at most: the server keeps what a build replaced for
        two. It is asked which one is current once, not for every call."""
        return self._reader.one_state()

    def languages(self) -> Mapping[str, int]:
        langs = lambda: (document.lang for document in self.documents())  # noqa: E731
        return self._languages.of(self.version(), langs)

    def info(self) -> StoreInfo:
        state = self._reader.state()
        about = self._server.call("get_collection", state.collection)
        return StoreInfo(
            location=self._address.text,
            kind="qdrant",
            version=state.version,
            embedder=state.embedder,
            embedder_version=state.embedder_version,
            dim=state.dim,
            documents=state.documents,
            passages=state.passages,
            links=state.links,
            size_bytes=state.content_bytes,
            details={
                "collection": state.collection,
                "generation": str(state.generation),
                "analyzer": state.analyzer,
                "points": str(about.points_count or 0),
                "shards": str(about.config.params.shard_number or 1),
                "replicas": str(about.config.params.replication_factor or 1),
                "unresolved_links": str(state.unresolved),
                "created_at": state.created_at,
                "updated_at": state.updated_at,
            },
        )

    def passages(self, keys: Sequence[Key]) -> list[Passage | None]:
        records = self._reader.consistently(
            lambda state: self._find_passages(state, keys, PASSAGE_FIELDS), checked=True
        )
        found = {record.id: read_passage(record.payload) for record in records}
        return [found.get(key) for key in keys]

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        def look(state: QdrantState) -> Vectors:
            records = self._find_passages(state, keys, False, vectors=True)
            found = {record.id: read_vector(record, state.dim) for record in records}
            gone = np.zeros(state.dim, dtype=np.float32)
            rows = [found.get(key, gone) for key in keys]
            return np.array(rows, dtype=np.float32).reshape(len(rows), state.dim)

        return self._reader.consistently(look, checked=True)

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        def look(state: QdrantState) -> list[tuple[Key, Passage]]:
            for record in self._find_passages(state, [key], ["document", "orderIndex"]):
                inside = has(tag("passages of", record.payload["document"]))
                at = record.payload["orderIndex"]
                earlier = [*inside, within("orderIndex", lt=at)]
                later = [*inside, within("orderIndex", gt=at)]
                first = self._reader.firsts
                (back,) = first(state, [earlier], before, by="orderIndex", descending=True)
                (on,) = first(state, [later], after, by="orderIndex")
                return [(p.id, read_passage(p.payload)) for p in (*reversed(back), *on)]
            return []

        return self._reader.consistently(look, checked=True)

    def document(self, document_id: str) -> Document | None:
        def look(state: QdrantState) -> Document | None:
            wanted = has(tag("document", storable(document_id)))
            for record in self._reader.find(state, wanted):
                hrefs = [href for href, *_ in read_links(record.payload["links"])]
                ids, urls = self._known_targets(state, hrefs)
                source = record.payload["id"]
                targets = [target_of(href, source, ids, urls) for href in hrefs]
                return read_document(record.payload, targets)
            return None

        return self._reader.consistently(look)

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        def look(state: QdrantState) -> list[tuple[Key, Passage]]:
            wanted = has(tag("passages of", storable(document_id)))
            records = self._reader.find(state, wanted, PASSAGE_FIELDS)
            found = [(record.id, read_passage(record.payload)) for record in records]
            return sorted(found, key=lambda pair: pair[1].order_index)

        return self._reader.consistently(look)

    def documents(self) -> Iterator[DocumentSummary]:
        def look(state: QdrantState) -> list[DocumentSummary]:
            records = self._reader.find(state, has(tag("documents")), SUMMARY_FIELDS)
            payloads = sorted((r.payload for r in records), key=lambda payload: payload["id"])
            ranks = self._reader.numbers(state, "ranks", [payload["id"] for payload in payloads])
            return [read_summary(p, ranks.get(p["id"], 0.0)) for p in payloads]

        yield from self._reader.consistently(look)

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        names = [storable(name) for name in dict.fromkeys(document_ids)]

        def look(state: QdrantState) -> list[tuple[str, Link]]:
            held: dict[str, list[LinkParts]] = {}
            for batch in batched(names):
                wanted = [has_any(tag("document", name) for name in batch)]
                for record in self._reader.find(state, wanted, ["id", "links"]):
                    held[record.payload["id"]] = read_links(record.payload["links"])
            hrefs = [href for links in held.values() for href, *_ in links]
            ids, urls = self._known_targets(state, hrefs)
            return [
                (name, Link(href, anchor, start, target, kind))
                for name in names
                for href, anchor, start, kind in held.get(name, [])
                if (target := target_of(href, name, ids, urls)) is not None
            ]

        return self._reader.consistently(look)

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        names = [storable(name) for name in dict.fromkeys(document_ids)]
        return self._reader.consistently(lambda state: self._reader.numbers(state, "ranks", names))

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        return self._reader.consistently(
            lambda state: read(QdrantKnowledge(self._reader, state)), checked=True
        )

    def contents(self, document_ids: Sequence[str]) -> Mapping[str, Content]:
        """Many documents at once, each with its passages and vectors."""
        names = [storable(name) for name in dict.fromkeys(document_ids)]

        def look(state: QdrantState) -> dict[str, Content]:
            documents: dict[str, Document] = {}
            held: dict[str, list[Any]] = {name: [] for name in names}
            for batch in batched(names, 64):
                wanted = [has_any(tag("document", name) for name in batch)]
                for record in self._reader.find(state, wanted):
                    documents[record.payload["id"]] = read_document(record.payload)
                wanted = [has_any(tag("passages of", name) for name in batch)]
                fields = [*PASSAGE_FIELDS, "extraction"]
                for record in self._reader.find(state, wanted, fields, vectors=[DENSE], page=256):
                    held[record.payload["document"]].append(record)
            return {
                name: _content(document, held[name], state.dim)
                for name, document in documents.items()
            }

        return self._reader.consistently(look)

    def _writer(self, embedder: EmbedderIdentity, allow_mismatch: bool) -> QdrantWriter:
        try:
            state = self._reader.state()
        except StoreMissing:
            state = None
        return QdrantWriter(
            self._server, self._address, self._reader, state, embedder, allow_mismatch
        )

    def close(self) -> None:
        self._server.close()

    def _find_passages(
        self, state: QdrantState, keys: Sequence[Key], fields: Fields, *, vectors: bool = False
    ) -> list[Any]:
        """The passages of a generation that have these keys. Raises ``GenerationEnded``."""
        found: list[Any] = []
        for batch in batched(store_keys(dict.fromkeys(keys)), 1000):
            wanted = [models.HasIdCondition(has_id=[*batch]), *has(tag("passages"))]
            found += self._reader.pick(state, wanted, len(batch), fields, vectors=vectors)
        return found

    def _known_targets(
        self, state: QdrantState, hrefs: Sequence[str]
    ) -> tuple[set[str], Mapping[str, str]]:
        """The ids and URLs of those documents that these links may lead to."""
        names = dict.fromkeys([*hrefs, *(href.partition("#")[0] for href in hrefs)])
        documents: dict[str, str] = {}
        for batch in batched(name for name in names if name):
            tags = [tag(kind, name) for name in batch for kind in ("document", "url")]
            for record in self._reader.find(state, [has_any(tags)], ["id", "url"]):
                documents[record.payload["id"]] = record.payload["url"]
        return set(documents), index_urls(documents.items())


def _content(document: Document, records: list[Any], dim: int) -> Content:
    records.sort(key=lambda record: record.payload["orderIndex"])
    rows = [read_vector(record, dim) for record in records]
    read = (record.payload.get("extraction") for record in records)
    return Content(
        document,
        tuple(read_passage(record.payload) for record in records),
        np.array(rows, dtype=np.float32).reshape(len(rows), dim),
        tuple(read_extraction(extraction) for extraction in read if extraction),
    )

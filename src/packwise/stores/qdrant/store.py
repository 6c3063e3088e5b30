"""A store in Qdrant: for who outgrows one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Document, Link, Passage
from packwise.errors import StoreMissing, UsageError
from packwise.stores.base import (
    DocumentSummary,
    Key,
    Match,
    StoreInfo,
    TermStatistics,
    Vectors,
)
from packwise.stores.checks import question_vector, storable
from packwise.stores.entity_extraction import read_extraction
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader
from packwise.stores.lifecycle import Closeable
from packwise.stores.links import index_urls, target_of
from packwise.stores.qdrant import address as addresses
from packwise.stores.qdrant.address import Address
from packwise.stores.qdrant.knowledge import QdrantKnowledge
from packwise.stores.qdrant.layout import (
    DENSE,
    HNSW_EF_SEARCH,
    SPARSE,
    State,
    every,
    has,
    has_any,
    is_visible,
    tag,
    visible,
    within,
)
from packwise.stores.qdrant.points import (
    PASSAGE_FIELDS,
    SUMMARY_FIELDS,
    conditions,
    read_document,
    read_passage,
    read_vector,
    rungs,
)
from packwise.stores.qdrant.reading import Reading, batched
from packwise.stores.qdrant.server import Server
from packwise.stores.qdrant.weights import scores, sparse_index
from packwise.stores.qdrant.writer import QdrantWriter
from packwise.stores.records import LinkParts, read_links
from packwise.stores.transfer import Content

_T = TypeVar("_T")
_SPARE = 16
_ROUNDS = 6
_MOST_KEYS = 1 << 63
_LEEWAY = 1.02
"""By how much the best of what was not fetched may be underrated more than what was."""


def open_qdrant(argument: str) -> QdrantStore:
    """Open a store for reading. Raises ``StoreMissing`` where none is finished."""
    store = create_or_open_qdrant(argument)
    try:
        store.state()
    except BaseException:
        store.close()
        raise
    return store


def create_or_open_qdrant(argument: str) -> QdrantStore:
    """Open a store to build it, whether or not it is there yet."""
    address = addresses.parse(argument)
    return QdrantStore(Server.connect(address), address)


class QdrantStore(Closeable, KnowledgeReader):
    """One store in Qdrant. Safe to use from several threads; sees a finished build at the
    next call."""

    def __init__(self, server: Server, address: Address) -> None:
        self._server = server
        self._address = address
        self._reading = Reading(server, address.collection, address.text)

    def state(self) -> State:
        """The generation that is current now."""
        return self._reading.state()

    def version(self) -> str:
        """What ``info`` calls the version, without the rest: one small request."""
        return self._reading.state().version

    def info(self) -> StoreInfo:
        state = self._reading.state()
        about = self._server.call(lambda client: client.get_collection(state.collection))
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

    def vector_search(
        self,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        from qdrant_client import models

        if k <= 0 or (among is not None and not _integers(among)):
            self._question(vector, self._reading.state())
            return []
        depth = k + _SPARE
        for attempt in range(_ROUNDS + 1):

            def request(state: State, depth: int = depth) -> list[Any]:
                question = self._question(vector, state)
                if not question.any():
                    return [self._unranked(state, k, where, among)]
                return [
                    models.QueryRequest(
                        query=question.tolist(),
                        using=DENSE,
                        filter=self._allowed(state, where, among),
                        params=models.SearchParams(hnsw_ef=max(HNSW_EF_SEARCH, depth)),
                        limit=depth,
                    )
                ]

            _, (points,) = self._reading.ask(request)
            # A vector without direction is as far from everything, whatever the server says.
            flat = not np.any(vector)
            matches = [Match(point.id, 0.0 if flat else point.score) for point in points]
            matches.sort(key=lambda match: (-match.score, match.key))
            # Equal scores go by key, so all that tie with the last one wanted must be seen.
            tied = len(matches) == depth and matches[-1].score == matches[k - 1].score
            if not tied or attempt == _ROUNDS:
                return matches[:k]
            depth *= 4
        raise AssertionError("unreachable")

    def keyword_search(
        self,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        from qdrant_client import models

        if k <= 0 or not terms or (among is not None and not _integers(among)):
            return []
        asked = [storable(term) for term in dict.fromkeys(terms)]
        indexes = list(dict.fromkeys(sparse_index(term) for term in asked))
        query = models.SparseVector(indices=indexes, values=[1.0] * len(indexes))
        depth = 2 * k + _SPARE
        for attempt in range(_ROUNDS + 1):

            def request(state: State, depth: int = depth) -> list[Any]:
                return [
                    models.QueryRequest(
                        query=query,
                        using=SPARSE,
                        filter=self._allowed(state, where, among),
                        limit=depth,
                        with_payload=["terms", "length"],
                    )
                ]

            state, (points,) = self._reading.ask(request)
            matches, beyond = self._rescored(state, asked, points)
            certain = len(matches) >= k and matches[k - 1].score > beyond
            if len(points) < depth or certain or attempt == _ROUNDS:
                return matches[:k]
            depth *= 2
        raise AssertionError("unreachable")

    def hybrid_search(
        self,
        vector: Vectors,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        *,
        prefetch: int = 100,
    ) -> list[Match]:
        """Both legs in one request, fused on the server by reciprocal ranks; the score is
        that of the fusion. Each leg brings ``prefetch`` passages."""
        from qdrant_client import models

        indexes = list(dict.fromkeys(sparse_index(storable(term)) for term in terms))

        def request(state: State) -> list[Any]:
            question = self._question(vector, state)
            allowed = self._allowed(state, where, None)
            legs = [
                models.Prefetch(
                    query=question.tolist(),
                    using=DENSE,
                    filter=allowed,
                    params=models.SearchParams(hnsw_ef=max(HNSW_EF_SEARCH, prefetch)),
                    limit=prefetch,
                )
            ]
            if indexes:
                sparse = models.SparseVector(indices=indexes, values=[1.0] * len(indexes))
                legs.append(
                    models.Prefetch(query=sparse, using=SPARSE, filter=allowed, limit=prefetch)
                )
            fusion = models.FusionQuery(fusion=models.Fusion.RRF)
            return [models.QueryRequest(prefetch=legs, query=fusion, limit=max(k, 1))]

        _, (points,) = self._reading.ask(request)
        found = [Match(point.id, point.score) for point in points]
        return sorted(found, key=lambda match: (-match.score, match.key))[: max(k, 0)]

    def term_statistics(self, terms: Sequence[str]) -> TermStatistics:
        def count(state: State) -> TermStatistics:
            found = self._frequencies(state, list(dict.fromkeys(terms)))
            return TermStatistics(state.passages, state.average_length, found)

        return self._reading.consistently(count)

    def passages(self, keys: Sequence[Key]) -> list[Passage | None]:
        found = {
            record.id: read_passage(record.payload)
            for record in self._records(keys, fields=PASSAGE_FIELDS)
        }
        return [found.get(key) for key in keys]

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        """The stored vectors of these keys, one row each, L2-normalised; the row of a key
        that is gone is all zero."""
        wanted = _integers(list(dict.fromkeys(keys)))
        state, records = self._states_and_records(wanted, ["born", "died"], vectors=True)
        rows = np.zeros((len(keys), state.dim), dtype=np.float32)
        found = {r.id: read_vector(r.vector, DENSE, state.dim) for r in records}
        for at, key in enumerate(keys):
            if key in found:
                rows[at] = found[key]
        return rows

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        def look(state: State) -> list[tuple[Key, Passage]]:
            for record in self._records([key], fields=["born", "died", "document", "orderIndex"]):
                document, at = record.payload["document"], record.payload["orderIndex"]
                inside = has(tag("passages of", document))
                earlier = [*inside, within("orderIndex", lt=at)]
                later = [*inside, within("orderIndex", gt=at)]
                first = self._reading.firsts
                (back,) = first(state, [earlier], before, by="orderIndex", descending=True)
                (on,) = first(state, [later], after, by="orderIndex")
                found = [*reversed(back), *on]
                return [(point.id, read_passage(point.payload)) for point in found]
            return []

        return self._reading.consistently(look, checked=True)

    def document(self, document_id: str) -> Document | None:
        def look(state: State) -> Document | None:
            wanted = has(tag("document", storable(document_id)))
            for record in self._reading.find(state, wanted):
                payload = record.payload
                hrefs = [href for href, *_ in read_links(payload["links"])]
                return read_document(payload, self._targets(state, payload["id"], hrefs))
            return None

        return self._reading.consistently(look)

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        def look(state: State) -> list[tuple[Key, Passage]]:
            wanted = has(tag("passages of", storable(document_id)))
            records = self._reading.find(state, wanted, PASSAGE_FIELDS)
            found = [(record.id, read_passage(record.payload)) for record in records]
            return sorted(found, key=lambda pair: pair[1].order_index)

        return self._reading.consistently(look)

    def documents(self) -> Iterator[DocumentSummary]:
        """All documents, by id, as they were when the first one was asked for."""

        def look(state: State) -> list[DocumentSummary]:
            records = list(self._reading.find(state, has(tag("documents")), SUMMARY_FIELDS))
            ranks = self._reading.numbers(
                state, "ranks", [record.payload["id"] for record in records]
            )
            found = [
                DocumentSummary(
                    id=record.payload["id"],
                    title=record.payload["title"],
                    url=record.payload["url"],
                    lang=record.payload["lang"],
                    source_hash=record.payload["sourceHash"],
                    passages=record.payload["passages"],
                    pagerank=ranks.get(record.payload["id"], 0.0),
                    metadata=record.payload["metadata"],
                )
                for record in records
            ]
            return sorted(found, key=lambda summary: summary.id)

        yield from self._reading.consistently(look)

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        names = [storable(name) for name in dict.fromkeys(document_ids)]

        def look(state: State) -> list[tuple[str, Link]]:
            held: dict[str, list[LinkParts]] = {}
            for batch in batched(names):
                wanted = [has_any(tag("document", name) for name in batch)]
                for record in self._reading.find(state, wanted, ["id", "links"]):
                    held[record.payload["id"]] = read_links(record.payload["links"])
            found: list[tuple[str, Link]] = []
            hrefs = [href for links in held.values() for href, *_ in links]
            ids, urls = self._known_targets(state, hrefs)
            for name in names:
                for href, anchor, start, kind in held.get(name, []):
                    target = target_of(href, name, ids, urls)
                    if target is not None:
                        found.append((name, Link(href, anchor, start, target, kind)))
            return found

        return self._reading.consistently(look)

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        names = [storable(name) for name in dict.fromkeys(document_ids)]
        return self._reading.consistently(
            lambda state: self._reading.numbers(state, "ranks", names)
        )

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        return self._reading.consistently(
            lambda state: read(QdrantKnowledge(self._reading, state)), checked=True
        )

    def contents(self, document_ids: Sequence[str]) -> Mapping[str, Content]:
        """Many documents at once, each with its passages and vectors."""
        names = [storable(name) for name in dict.fromkeys(document_ids)]

        def look(state: State) -> dict[str, Content]:
            documents: dict[str, Document] = {}
            held: dict[str, list[Any]] = {name: [] for name in names}
            for batch in batched(names, 64):
                wanted = [has_any(tag("document", name) for name in batch)]
                for record in self._reading.find(state, wanted):
                    payload = record.payload
                    unresolved = [None] * len(read_links(payload["links"]))
                    documents[payload["id"]] = read_document(payload, unresolved)
                wanted = [has_any(tag("passages of", name) for name in batch)]
                fields = [*PASSAGE_FIELDS, "extraction"]
                for record in self._reading.find(state, wanted, fields, vectors=[DENSE], page=256):
                    held[record.payload["document"]].append(record)
            return {
                name: _content(document, held[name], state.dim)
                for name, document in documents.items()
            }

        return self._reading.consistently(look)

    def writer(
        self, *, embedder: str, embedder_version: str, dim: int, allow_mismatch: bool = False
    ) -> QdrantWriter:
        """Start a build. Raises ``EmbedderMismatch`` when the store's vectors come from
        another embedder, ``StoreBusy`` when another build is running.

        With ``allow_mismatch`` another embedder may take over; its vectors go to a collection
        of their own, which takes the old one's place at the commit.
        """
        if dim < 1:
            raise UsageError(f"an embedder has at least 1 dimension, not {dim}")
        try:
            state = self._reading.state()
        except StoreMissing:
            state = None
        return QdrantWriter(
            self._server,
            self._address,
            self._reading,
            state,
            (embedder, embedder_version, dim),
            allow_mismatch=allow_mismatch,
        )

    def close(self) -> None:
        """Let go of the connections; closing again does nothing."""
        self._server.close()

    def _rescored(
        self, state: State, terms: list[str], points: Sequence[Any]
    ) -> tuple[list[Match], float]:
        """What was found with its true scores, best first, and what the rest may reach."""
        frequencies = self._frequencies(state, terms)
        exact = scores(
            [point.payload["terms"] for point in points],
            [point.payload["length"] for point in points],
            {term: count for term, count in frequencies.items() if count},
            state.passages,
            state.average_length,
        ).tolist()
        matches = [
            Match(point.id, score) for point, score in zip(points, exact, strict=True) if score > 0
        ]
        matches.sort(key=lambda match: (-match.score, match.key))
        underrated = max(
            (s / p.score for p, s in zip(points, exact, strict=True) if p.score > 0), default=1.0
        )
        beyond = points[-1].score * underrated * _LEEWAY if points else 0.0
        return matches, beyond

    def _frequencies(self, state: State, terms: Sequence[str]) -> dict[str, int]:
        held = self._reading.numbers(state, "terms", terms)
        return {term: int(held.get(term, 0)) for term in terms}

    def _records(self, keys: Sequence[Key], *, fields: list[str]) -> list[Any]:
        """The points of those keys that are passages of the current generation."""
        wanted = _integers(list(dict.fromkeys(keys)))
        return self._states_and_records(wanted, fields)[1] if wanted else []

    def _states_and_records(
        self, keys: Sequence[int], fields: list[str], *, vectors: bool = False
    ) -> tuple[State, list[Any]]:
        """The same, with the generation they are of."""
        from qdrant_client import models

        found: list[Any] = []
        state: State | None = None
        for batch in batched(keys, 1000):

            def request(_: State, batch: list[int] = batch) -> list[Any]:
                return [
                    models.QueryRequest(
                        filter=models.Filter(
                            must=[models.HasIdCondition(has_id=[*batch]), *has(tag("passages"))]
                        ),
                        limit=len(batch),
                        with_payload=fields,
                        with_vector=[DENSE] if vectors else False,
                    )
                ]

            state, (points,) = self._reading.ask(request)
            found += [p for p in points if is_visible(p.payload, state.generation)]
        return state or self._reading.state(), found

    def _allowed(self, state: State, where: Filter, among: Sequence[Key] | None) -> Any:
        """What a search may find. Every search carries the caller's tenant and groups."""
        from qdrant_client import models

        found = [*visible(state.generation), *conditions(where)]
        if where.path_prefix:
            found.append(self._prefixed(state, storable(where.path_prefix)))
        if among is not None:
            found.append(models.HasIdCondition(has_id=[*_integers(among)]))
        return every(found)

    def _prefixed(self, state: State, prefix: str) -> Any:
        """Passages of the documents whose id begins so: by one tag where the prefix is an
        indexed one, else by those of the documents."""
        rung = rungs(prefix)[-2:][0] if not _is_rung(prefix) else prefix
        if rung == prefix:
            return has_any([tag("prefix", prefix)])
        # A longer prefix: the documents under its longest indexed beginning are looked through.
        names = {
            record.payload["document"]
            for record in self._reading.find(state, has(tag("prefix", rung)), ["document"])
        }
        matching = sorted(name for name in names if name.startswith(prefix))
        return has_any(tag("passages of", name) for name in matching)

    def _unranked(self, state: State, k: int, where: Filter, among: Sequence[Key] | None) -> Any:
        """The first passages by key: what a vector without direction is nearest to."""
        from qdrant_client import models

        allowed = every(
            [*visible(state.generation), *has(tag("passages")), self._allowed(state, where, among)]
        )
        return models.QueryRequest(filter=allowed, limit=k)

    def _targets(self, state: State, source: str, hrefs: Sequence[str]) -> list[str | None]:
        ids, urls = self._known_targets(state, hrefs)
        return [target_of(href, source, ids, urls) for href in hrefs]

    def _known_targets(
        self, state: State, hrefs: Sequence[str]
    ) -> tuple[set[str], Mapping[str, str]]:
        """Which of these names and URLs are documents of the generation."""
        names = dict.fromkeys([*hrefs, *(href.partition("#")[0] for href in hrefs)])
        documents: dict[str, str] = {}
        for batch in batched(name for name in names if name):
            tags = [tag(kind, name) for name in batch for kind in ("document", "url")]
            for record in self._reading.find(state, [has_any(tags)], ["id", "url"]):
                documents[record.payload["id"]] = record.payload["url"]
        return set(documents), index_urls(documents.items())

    def _question(self, vector: Vectors, state: State) -> Vectors:
        return question_vector(vector, state.dim, self._address.text)


def _content(document: Document, records: list[Any], dim: int) -> Content:
    records.sort(key=lambda record: record.payload["orderIndex"])
    rows = [read_vector(record.vector, DENSE, dim) for record in records]
    read = (record.payload.get("extraction") for record in records)
    return Content(
        document,
        tuple(read_passage(record.payload) for record in records),
        np.array(rows, dtype=np.float32).reshape(len(rows), dim),
        tuple(read_extraction(extraction) for extraction in read if extraction),
    )


def _integers(keys: Sequence[Key]) -> list[int]:
    """Those keys that can be this store's."""
    return [key for key in keys if isinstance(key, int) and 0 < key < _MOST_KEYS]


def _is_rung(prefix: str) -> bool:
    """Whether every id with this prefix carries it as an indexed beginning of its own."""
    return prefix.endswith("/") or len(prefix) in (1, 2, 4, 8, 16, 32, 64)

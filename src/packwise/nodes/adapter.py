"""KnowledgeVerseAdapter: a tenant's knowledge nodes in PostgreSQL, by filter, by similarity and
by hybrid search, and as the specs of a text-to-SQL prompt."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar

from packwise.candidates import Fusion
from packwise.errors import EmbedderMismatch, UsageError
from packwise.models.base import Embedder, Vectors
from packwise.models.tokens import token_counter
from packwise.nodes.importing import parse_node
from packwise.nodes.joins import JoinPath, join_paths, table_of
from packwise.nodes.metrics import AdapterMetrics, Recorder
from packwise.nodes.records import (
    FIELD,
    QA_EXAMPLE,
    ExampleSpec,
    FieldSpec,
    FoundNode,
    KnowledgeNode,
)
from packwise.nodes.schema_context import SchemaContext, pack_schema
from packwise.nodes.store import MAX_RESULTS, Names, NodeStore
from packwise.settings import Settings
from packwise.stores.lifecycle import Closeable

FIELD_FUSION: Fusion = "rrf"
FIELD_WEIGHTS = (0.7, 0.3)
"""Of keywords and vectors, for columns: their names are words of the question."""
EXAMPLE_WEIGHTS = (0.0, 1.0)
"""For answered questions: their rare words are names and numbers, which differ for equal SQL."""
CACHED_EMBEDDINGS = 2048
STATEMENT_TIMEOUT_MS = 30_000

HYBRID_WEIGHTS = (0.4, 0.6)
"""For other nodes: those of the specification."""


class NodeRanking(TypedDict):
    """How ``hybrid_search`` ranks."""

    bm25_weight: float
    vector_weight: float
    fusion: Fusion


def default_ranking(
    node_types: Names,
    fusion: Fusion | None = None,
    bm25_weight: float | None = None,
    vector_weight: float | None = None,
) -> NodeRanking:
    """The ranking for nodes of these types, with what a caller chose instead. One weight alone
    leaves the rest to the other."""
    types = [node_types] if isinstance(node_types, str) else list(node_types or ())
    default: tuple[Fusion, tuple[float, float]] = ("weighted", HYBRID_WEIGHTS)
    if types == [FIELD]:
        default = (FIELD_FUSION, FIELD_WEIGHTS)
    elif types == [QA_EXAMPLE]:
        default = ("weighted", EXAMPLE_WEIGHTS)
    keyword, vector = default[1]
    if bm25_weight is not None or vector_weight is not None:
        keyword = max(0.0, 1.0 - (vector_weight or 0.0)) if bm25_weight is None else bm25_weight
        vector = max(0.0, 1.0 - keyword) if vector_weight is None else vector_weight
    return {"bm25_weight": keyword, "vector_weight": vector, "fusion": fusion or default[0]}


_P = ParamSpec("_P")
_T = TypeVar("_T")


class KnowledgeVerseAdapter(Closeable):
    """Knowledge nodes of many tenants in one PostgreSQL database.

    Safe to use from several threads. Broken connections are replaced, and embeddings of queries
    are cached. No call sees a tenant that it was not given. Close it, or use ``with``.
    """

    def __init__(
        self,
        url: str,
        *,
        embedder: Embedder | None = None,
        settings: Settings | None = None,
        pool_size: int = 8,
        statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
    ) -> None:
        """Without ``embedder``, the one of the settings is loaded when a call first needs it."""
        self.store = NodeStore(url, pool_size=pool_size, statement_timeout_ms=statement_timeout_ms)
        self._settings = settings or Settings.load()
        self._own_embedder = embedder
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Vectors] = OrderedDict()
        self._recorder = Recorder()

    def get_nodes(
        self,
        tenant_id: str,
        dataset_name: Names = None,
        node_type: Names = None,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[KnowledgeNode]:
        """The tenant's nodes of that data set and type, unranked, by id: all of them, or
        ``limit`` after the first ``offset``."""
        with self._recorder.measured("direct"):
            return self.store.get(
                [tenant_id],
                node_types=node_type,
                datasets=dataset_name,
                limit=limit,
                offset=offset,
            )

    def get_similar_nodes(
        self,
        query_embedding: Vectors | Sequence[float],
        tenant_id: str,
        top_k: int = 10,
        similarity_threshold: float = 0.0,
        *,
        node_types: Names = None,
        dataset_name: Names = None,
    ) -> list[FoundNode]:
        """The nodes of highest cosine, best first, none below the threshold."""
        with self._recorder.measured("similarity"):
            found = self.store.search(
                "",
                query_embedding,
                [tenant_id],
                k=top_k,
                node_types=node_types,
                datasets=dataset_name,
            )
        return [h for h in found if h.vector is not None and h.vector >= similarity_threshold]

    def hybrid_search(
        self,
        query_text: str,
        query_embedding: Vectors | Sequence[float] | None = None,
        tenant_ids: Sequence[str] = (),
        node_types: Names = None,
        top_k: int = 20,
        bm25_weight: float = 0.4,
        vector_weight: float = 0.6,
        *,
        dataset_names: Names = None,
        fusion: Fusion = "weighted",
        min_score: float = 0.0,
    ) -> list[FoundNode]:
        """The nodes that fit best by keywords and by vectors, of several types in one call.

        Without an embedding, the query is embedded here. ``score`` of a result does not depend
        on the other results, and ``band`` says in a word how good it is. Results with a score
        below ``min_score`` are left out.
        """
        return self._hybrid(
            "hybrid",
            query_text,
            tenant_ids,
            top_k,
            embedding=query_embedding,
            node_types=node_types,
            datasets=dataset_names,
            bm25_weight=bm25_weight,
            vector_weight=vector_weight,
            fusion=fusion,
            min_score=min_score,
        )

    def get_similar_fields(
        self,
        query: str,
        tenant_id: str,
        dataset_name: Names = None,
        top_k: int = 10,
        *,
        min_score: float = 0.0,
    ) -> list[FieldSpec]:
        """The columns that a question is about, best first."""
        found = self._fields(query, tenant_id, dataset_name, top_k, min_score)
        return [FieldSpec.from_node(hit.node) for hit in found]

    def get_similar_qa_examples(
        self,
        query: str,
        tenant_id: str,
        dataset_name: Names = None,
        top_k: int = 5,
        *,
        min_score: float = 0.0,
    ) -> list[ExampleSpec]:
        """Answered questions that resemble this one, best first."""
        found = self._hybrid(
            "examples",
            query,
            [tenant_id],
            top_k,
            node_types=QA_EXAMPLE,
            datasets=dataset_name,
            min_score=min_score,
            **default_ranking(QA_EXAMPLE),
        )
        return [ExampleSpec.from_node(hit.node) for hit in found]

    def get_join_paths(
        self, tables: Sequence[str], tenant_id: str, dataset_name: Names = None
    ) -> list[JoinPath]:
        """The shortest way to join each two of the tables, by foreign keys or, where there are
        none, by the names of columns; through other tables if need be."""
        nodes = self.get_nodes(tenant_id, dataset_name, FIELD)
        fields = [FieldSpec.from_node(node) for node in nodes]
        named = {name: name for name in map(table_of, fields)}
        named |= {field.table: table_of(field) for field in fields}
        unknown = [table for table in tables if table not in named]
        if unknown:
            raise UsageError(f"tenant {tenant_id!r} has no table {unknown[0]!r}")
        return join_paths(fields, [named[table] for table in tables])

    def schema_context(
        self,
        question: str,
        tenant_id: str,
        dataset_name: Names = None,
        budget: int = 1000,
    ) -> SchemaContext:
        """The columns that a question needs as the text of a text-to-SQL prompt, of at most
        ``budget`` tokens: tables with types, keys and joins, the best columns described."""
        found = self._fields(question, tenant_id, dataset_name, MAX_RESULTS, 0.0)
        nodes = [hit.node for hit in found]
        if len(nodes) == MAX_RESULTS:
            # Keys of the best tables may be among the columns that the search left out.
            nodes += self.store.get([tenant_id], node_types=FIELD, datasets=dataset_name)
        count = token_counter(self._settings.tokenizer_model).count
        return pack_schema(question, [FieldSpec.from_node(n) for n in nodes], budget, count)

    def metrics(self) -> AdapterMetrics:
        """Calls by type with their latency, and the hit rate of the cache of embeddings."""
        return self._recorder.read()

    def add_nodes(
        self,
        nodes: Sequence[KnowledgeNode | Mapping[str, Any]],
        embeddings: Vectors | None = None,
        *,
        embedder_version: str = "",
        allow_mismatch: bool = False,
    ) -> list[int]:
        """Add nodes, or replace those of the same tenant, data set and ``node_key``; their ids.

        Writes all of them or none. Without ``embeddings``, they are embedded here. A dictionary
        has the fields of a line that ``packwise db import`` reads.
        """
        given = [_as_node(node) for node in nodes]
        if embeddings is None and given:
            embedder = self._embedder()
            embeddings = embedder.embed_passages([node.embedded_text for node in given])
            embedder_version = embedder.version
        written = self.store.write(
            given, embeddings, embedder_version, allow_mismatch=allow_mismatch
        )
        return list(written.ids)

    def embed_missing(self, tenant_id: str, batch: int = 256) -> int:
        """Embed the tenant's nodes that have no vector, because another client wrote them or
        changed their text; how many there were."""
        embedder = self._embedder()
        total = 0
        while nodes := self.store.without_vectors([tenant_id], batch):
            vectors = embedder.embed_passages([node.embedded_text for node in nodes])
            done = self.store.set_vectors(nodes, vectors, embedder.version)
            total += done
            if not done:  # another client does the same, or keeps changing them
                break
        return total

    def delete_nodes(self, node_ids: Sequence[int], tenant_id: str) -> int:
        """Remove nodes of the tenant; how many there were. Other tenants' nodes stay."""
        return self.store.delete(node_ids, [tenant_id])

    def embed(self, text: str) -> Vectors:
        """The vector of a query, from the cache if it was embedded before."""
        with self._lock:
            cached = self._cache.get(text)
            if cached is not None:
                self._cache.move_to_end(text)
        self._recorder.cached(cached is not None)
        if cached is not None:
            return cached
        vector = self._embedder().embed_query(text)
        vector.setflags(write=False)
        with self._lock:
            self._cache[text] = vector
            if len(self._cache) > CACHED_EMBEDDINGS:
                self._cache.popitem(last=False)
        return vector

    def load(self) -> None:
        """Connect and load the embedder now, rather than for the first search."""
        self._embedder().embed_query("ready")

    def close(self) -> None:
        """Close the connections; closing again does nothing."""
        self.store.close()

    def _fields(
        self, query: str, tenant: str, dataset: Names, top_k: int, min_score: float
    ) -> list[FoundNode]:
        return self._hybrid(
            "fields",
            query,
            [tenant],
            top_k,
            node_types=FIELD,
            datasets=dataset,
            min_score=min_score,
            **default_ranking(FIELD),
        )

    def _hybrid(
        self,
        kind: str,
        text: str,
        tenants: Sequence[str],
        top_k: int,
        *,
        embedding: Vectors | Sequence[float] | None = None,
        **options: Any,
    ) -> list[FoundNode]:
        if not text.strip():
            raise UsageError("the query is empty", fix="ask with at least one word")
        with self._recorder.measured(kind):
            vector = self.embed(text) if embedding is None else embedding
            found = self.store.search(text, vector, tenants, k=top_k, **options)
        if embedding is None:
            self._check_versions(found)
        return found

    def _check_versions(self, found: Sequence[FoundNode]) -> None:
        version = self._embedder().version
        for hit in found:
            if hit.node.embedder_version not in ("", version):
                raise EmbedderMismatch(
                    f"the nodes of tenant {hit.node.tenant_id!r} were embedded by"
                    f" {hit.node.embedder_version}, the query by {version}",
                    fix="give the adapter the embedder of the nodes, or write the nodes again",
                )

    def _embedder(self) -> Embedder:
        from packwise.models.embedder import load_embedder

        dim = self.store.dim
        with self._lock:
            if self._own_embedder is None:
                self._own_embedder = load_embedder(self._settings.embedder, self._settings)
            embedder = self._own_embedder
        if embedder.dim != dim:
            raise EmbedderMismatch(
                f"{embedder.name} makes vectors of {embedder.dim} dimensions, the nodes of"
                f" {self.store.location} have {dim}",
                fix="give the adapter an embedder of that dimension",
            )
        return embedder


def _as_node(node: object) -> KnowledgeNode:
    if isinstance(node, KnowledgeNode):
        return node
    try:
        return parse_node(node)
    except ValueError as error:
        raise UsageError(f"{str(node)[:80]!r} is not a node: {error}") from None


def _in_thread(
    method: Callable[Concatenate[KnowledgeVerseAdapter, _P], _T],
) -> Callable[Concatenate[AsyncKnowledgeVerseAdapter, _P], Coroutine[Any, Any, _T]]:
    """A method of the adapter as one to be awaited, with its signature and docstring."""

    @wraps(method)
    async def call(self: AsyncKnowledgeVerseAdapter, *args: _P.args, **options: _P.kwargs) -> _T:
        work = partial(method, self.sync, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    return call


class AsyncKnowledgeVerseAdapter:
    """``KnowledgeVerseAdapter`` for ``asyncio``: the same calls, to be awaited.

    Calls run in threads, as many at a time as the pool has connections.
    """

    def __init__(
        self,
        url: str,
        *,
        embedder: Embedder | None = None,
        settings: Settings | None = None,
        pool_size: int = 8,
        statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
    ) -> None:
        self.sync = KnowledgeVerseAdapter(
            url,
            embedder=embedder,
            settings=settings,
            pool_size=pool_size,
            statement_timeout_ms=statement_timeout_ms,
        )
        self.threads = ThreadPoolExecutor(pool_size, thread_name_prefix="packwise-nodes")

    get_nodes = _in_thread(KnowledgeVerseAdapter.get_nodes)
    get_similar_nodes = _in_thread(KnowledgeVerseAdapter.get_similar_nodes)
    hybrid_search = _in_thread(KnowledgeVerseAdapter.hybrid_search)
    get_similar_fields = _in_thread(KnowledgeVerseAdapter.get_similar_fields)
    get_similar_qa_examples = _in_thread(KnowledgeVerseAdapter.get_similar_qa_examples)
    get_join_paths = _in_thread(KnowledgeVerseAdapter.get_join_paths)
    schema_context = _in_thread(KnowledgeVerseAdapter.schema_context)
    metrics = _in_thread(KnowledgeVerseAdapter.metrics)
    add_nodes = _in_thread(KnowledgeVerseAdapter.add_nodes)
    embed_missing = _in_thread(KnowledgeVerseAdapter.embed_missing)
    delete_nodes = _in_thread(KnowledgeVerseAdapter.delete_nodes)
    embed = _in_thread(KnowledgeVerseAdapter.embed)
    load = _in_thread(KnowledgeVerseAdapter.load)

    async def close(self) -> None:
        """Let running calls finish, then close the connections."""
        await asyncio.to_thread(self.threads.shutdown)
        self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

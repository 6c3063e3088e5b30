"""KnowledgeVerseAdapter: a tenant's knowledge nodes in PostgreSQL, by filter, by similarity and
by hybrid search, and as the specs of a text-to-SQL prompt."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from packwise.candidates import Fusion
from packwise.errors import EmbedderMismatch, UsageError
from packwise.models.base import Embedder, Vectors
from packwise.nodes.records import (
    FIELD,
    QA_EXAMPLE,
    ExampleSpec,
    FieldSpec,
    FoundNode,
    KnowledgeNode,
)
from packwise.nodes.store import Names, NodeStore
from packwise.settings import Settings
from packwise.stores.lifecycle import Closeable

FIELD_WEIGHTS = (0.6, 0.4)
"""Of keywords and vectors, for columns: their names are words of the question."""
EXAMPLE_WEIGHTS = (0.0, 1.0)
"""For answered questions: their rare words are names and numbers, which differ for equal SQL."""
CACHED_EMBEDDINGS = 2048
STATEMENT_TIMEOUT_MS = 30_000

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

    def get_nodes(
        self, tenant_id: str, dataset_name: Names = None, node_type: Names = None
    ) -> list[KnowledgeNode]:
        """The tenant's nodes of that data set and type, unranked, by id."""
        return self.store.get([tenant_id], node_types=node_type, datasets=dataset_name)

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
    ) -> list[FoundNode]:
        """The nodes that fit best by keywords and by vectors, of several types in one call.

        Without an embedding, the query is embedded here. ``combined`` of a result does not
        depend on the other results, and ``band`` says in a word how good it is.
        """
        if not query_text.strip():
            raise UsageError("the query is empty", fix="ask with at least one word")
        found = self.store.search(
            query_text,
            self.embed(query_text) if query_embedding is None else query_embedding,
            tenant_ids,
            k=top_k,
            node_types=node_types,
            datasets=dataset_names,
            bm25_weight=bm25_weight,
            vector_weight=vector_weight,
            fusion=fusion,
        )
        if query_embedding is None:
            self._check_versions(found)
        return found

    def get_similar_fields(
        self, query: str, tenant_id: str, dataset_name: Names = None, top_k: int = 10
    ) -> list[FieldSpec]:
        """The columns that a question is about, best first."""
        found = self.hybrid_search(
            query, None, [tenant_id], FIELD, top_k, *FIELD_WEIGHTS, dataset_names=dataset_name
        )
        return [FieldSpec.from_node(hit.node) for hit in found]

    def get_similar_qa_examples(
        self, query: str, tenant_id: str, dataset_name: Names = None, top_k: int = 5
    ) -> list[ExampleSpec]:
        """Answered questions that resemble this one, best first."""
        weights = EXAMPLE_WEIGHTS
        found = self.hybrid_search(
            query, None, [tenant_id], QA_EXAMPLE, top_k, *weights, dataset_names=dataset_name
        )
        return [ExampleSpec.from_node(hit.node) for hit in found]

    def add_nodes(
        self,
        nodes: Sequence[KnowledgeNode],
        embeddings: Vectors | None = None,
        *,
        embedder_version: str = "",
        allow_mismatch: bool = False,
    ) -> list[int]:
        """Add nodes, or replace those of the same tenant and ``node_key``; their ids.

        Writes all of them or none. Without ``embeddings``, they are embedded here.
        """
        if embeddings is None and nodes:
            embedder = self._embedder()
            embeddings = embedder.embed_passages([node.embedded_text for node in nodes])
            embedder_version = embedder.version
        written = self.store.write(
            nodes, embeddings, embedder_version, allow_mismatch=allow_mismatch
        )
        return list(written.ids)

    def delete_nodes(self, node_ids: Sequence[int], tenant_id: str) -> int:
        """Remove nodes of the tenant; how many there were. Other tenants' nodes stay."""
        return self.store.delete(node_ids, [tenant_id])

    def embed(self, text: str) -> Vectors:
        """The vector of a query, from the cache if it was embedded before."""
        with self._lock:
            if text in self._cache:
                self._cache.move_to_end(text)
                return self._cache[text]
        vector = self._embedder().embed_query(text)
        vector.setflags(write=False)
        with self._lock:
            self._cache[text] = vector
            if len(self._cache) > CACHED_EMBEDDINGS:
                self._cache.popitem(last=False)
        return vector

    def close(self) -> None:
        """Close the connections; closing again does nothing."""
        self.store.close()

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
    add_nodes = _in_thread(KnowledgeVerseAdapter.add_nodes)
    delete_nodes = _in_thread(KnowledgeVerseAdapter.delete_nodes)
    embed = _in_thread(KnowledgeVerseAdapter.embed)

    async def close(self) -> None:
        """Let running calls finish, then close the connections."""
        await asyncio.to_thread(self.threads.shutdown)
        self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

"""KnowledgeVerseAdapter: a tenant's knowledge nodes in PostgreSQL, by filter, by similarity and
by hybrid search, and as the specs a text-to-SQL prompt is made of."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from packwise.candidates import Fusion
from packwise.errors import EmbedderMismatch, UsageError
from packwise.models.base import Embedder, Vectors
from packwise.nodes.store import (
    FIELD,
    QA_EXAMPLE,
    FoundNode,
    KnowledgeNode,
    NodeStore,
    band,
)
from packwise.settings import Settings

__all__ = [
    "AsyncKnowledgeVerseAdapter",
    "ExampleSpec",
    "FieldSpec",
    "FoundNode",
    "KnowledgeNode",
    "KnowledgeVerseAdapter",
    "band",
]

FIELD_WEIGHTS = (0.6, 0.4)
"""Of words and of meaning, for columns: their names are words of the question."""
EXAMPLE_WEIGHTS = (0.0, 1.0)
"""The same for answered questions: the rare words of one, which BM25 counts most, are its names
and numbers, and those are what two questions with the same SQL do not share."""
CACHED_EMBEDDINGS = 2048
STATEMENT_TIMEOUT_MS = 30_000

Names = str | Sequence[str] | None
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A column of a database, as a prompt that writes SQL needs it."""

    field_name: str
    field_type: str
    description: str
    sample_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExampleSpec:
    """A question with the SQL that answers it, and why."""

    question: str
    sql: str
    explanation: str = ""


class KnowledgeVerseAdapter:
    """Knowledge nodes of many tenants in one PostgreSQL database.

    Safe to use from several threads: connections come from a pool, and one that broke is
    replaced by itself. Embeddings of questions are kept. No call sees a tenant it was not
    given. Close it, or use it as a context manager.
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
        """``embedder`` is loaded from the settings when a call first needs one."""
        self._nodes = NodeStore(url, pool_size=pool_size, statement_timeout_ms=statement_timeout_ms)
        self._settings = settings or Settings.load()
        self._own = embedder
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Vectors] = OrderedDict()

    @property
    def store(self) -> NodeStore:
        return self._nodes

    def get_nodes(
        self, tenant_id: str, dataset_name: Names = None, node_type: Names = None
    ) -> list[KnowledgeNode]:
        """The tenant's nodes of that data set and type, unranked, by id."""
        return self._nodes.get(
            [tenant_id], node_types=_names(node_type), datasets=_names(dataset_name)
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
        return self._nodes.nearest(
            query_embedding,
            [tenant_id],
            k=top_k,
            threshold=similarity_threshold,
            node_types=_names(node_types),
            datasets=_names(dataset_name),
        )

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
        """The nodes that fit best by words and by meaning, several types in one call.

        Without an embedding the question is embedded here. ``combined`` of a result is
        absolute, and its ``band`` says in a word what it is worth.
        """
        _check_question(query_text)
        vector = self.embed(query_text) if query_embedding is None else query_embedding
        found = self._nodes.search(
            query_text,
            vector,
            tenant_ids,
            k=top_k,
            node_types=_names(node_types),
            datasets=_names(dataset_names),
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
        """The columns a question is about, best first."""
        found = self.hybrid_search(
            query, None, [tenant_id], FIELD, top_k, *FIELD_WEIGHTS, dataset_names=dataset_name
        )
        return [field_spec(hit.node) for hit in found]

    def get_similar_qa_examples(
        self, query: str, tenant_id: str, dataset_name: Names = None, top_k: int = 5
    ) -> list[ExampleSpec]:
        """Answered questions like this one, best first."""
        found = self.hybrid_search(
            query,
            None,
            [tenant_id],
            QA_EXAMPLE,
            top_k,
            *EXAMPLE_WEIGHTS,
            dataset_names=dataset_name,
        )
        return [example_spec(hit.node) for hit in found]

    def add_nodes(
        self,
        nodes: Sequence[KnowledgeNode],
        embeddings: Vectors | None = None,
        *,
        embedder_version: str = "",
        allow_mismatch: bool = False,
    ) -> list[int]:
        """Add nodes, or replace those of the same tenant and ``node_key``; their ids.

        All are written or none. Without ``embeddings`` they are embedded here.
        """
        if embeddings is None and nodes:
            embedder = self._embedder()
            embeddings = embedder.embed_passages([node.embedded_text for node in nodes])
            embedder_version = embedder.version
        written = self._nodes.write(
            nodes, embeddings, embedder_version, allow_mismatch=allow_mismatch
        )
        return list(written.ids)

    def delete_nodes(self, node_ids: Sequence[int], tenant_id: str) -> int:
        """Remove nodes of the tenant; how many there were. Others' nodes stay."""
        return self._nodes.delete(node_ids, [tenant_id])

    def embed(self, text: str) -> Vectors:
        """The vector of a question; asked again, it comes from memory."""
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
        self._nodes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def _check_versions(self, found: Sequence[FoundNode]) -> None:
        version = self._embedder().version
        for hit in found:
            if hit.node.embedder_version not in ("", version):
                raise EmbedderMismatch(
                    f"the nodes of tenant {hit.node.tenant_id!r} were embedded by"
                    f" {hit.node.embedder_version}, the question by {version}",
                    fix="give the adapter the embedder of the nodes, or write them anew",
                )

    def _embedder(self) -> Embedder:
        from packwise.models.embedder import load_embedder

        dim = self._nodes.dim
        with self._lock:
            if self._own is None:
                self._own = load_embedder(self._settings.embedder, self._settings)
            embedder = self._own
        if embedder.dim != dim:
            raise EmbedderMismatch(
                f"{embedder.name} makes vectors of {embedder.dim} dimensions, the nodes of"
                f" {self._nodes.location} have {dim}",
                fix="give the adapter an embedder of that dimension",
            )
        return embedder


class AsyncKnowledgeVerseAdapter:
    """``KnowledgeVerseAdapter`` for ``asyncio``: the same calls, to be awaited.

    Each call runs on a thread of its own, as many at a time as the pool has connections; the
    event loop never waits for the database or for an embedding.
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
        self._sync = KnowledgeVerseAdapter(
            url,
            embedder=embedder,
            settings=settings,
            pool_size=pool_size,
            statement_timeout_ms=statement_timeout_ms,
        )
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="packwise-nodes")

    async def get_nodes(
        self, tenant_id: str, dataset_name: Names = None, node_type: Names = None
    ) -> list[KnowledgeNode]:
        """As ``KnowledgeVerseAdapter.get_nodes``."""
        return await self._run(partial(self._sync.get_nodes, tenant_id, dataset_name, node_type))

    async def get_similar_nodes(
        self,
        query_embedding: Vectors | Sequence[float],
        tenant_id: str,
        top_k: int = 10,
        similarity_threshold: float = 0.0,
        *,
        node_types: Names = None,
        dataset_name: Names = None,
    ) -> list[FoundNode]:
        """As ``KnowledgeVerseAdapter.get_similar_nodes``."""
        return await self._run(
            partial(
                self._sync.get_similar_nodes,
                query_embedding,
                tenant_id,
                top_k,
                similarity_threshold,
                node_types=node_types,
                dataset_name=dataset_name,
            )
        )

    async def hybrid_search(
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
        """As ``KnowledgeVerseAdapter.hybrid_search``."""
        return await self._run(
            partial(
                self._sync.hybrid_search,
                query_text,
                query_embedding,
                tenant_ids,
                node_types,
                top_k,
                bm25_weight,
                vector_weight,
                dataset_names=dataset_names,
                fusion=fusion,
            )
        )

    async def get_similar_fields(
        self, query: str, tenant_id: str, dataset_name: Names = None, top_k: int = 10
    ) -> list[FieldSpec]:
        """As ``KnowledgeVerseAdapter.get_similar_fields``."""
        return await self._run(
            partial(self._sync.get_similar_fields, query, tenant_id, dataset_name, top_k)
        )

    async def get_similar_qa_examples(
        self, query: str, tenant_id: str, dataset_name: Names = None, top_k: int = 5
    ) -> list[ExampleSpec]:
        """As ``KnowledgeVerseAdapter.get_similar_qa_examples``."""
        return await self._run(
            partial(self._sync.get_similar_qa_examples, query, tenant_id, dataset_name, top_k)
        )

    async def add_nodes(
        self,
        nodes: Sequence[KnowledgeNode],
        embeddings: Vectors | None = None,
        *,
        embedder_version: str = "",
        allow_mismatch: bool = False,
    ) -> list[int]:
        """As ``KnowledgeVerseAdapter.add_nodes``."""
        return await self._run(
            partial(
                self._sync.add_nodes,
                nodes,
                embeddings,
                embedder_version=embedder_version,
                allow_mismatch=allow_mismatch,
            )
        )

    async def delete_nodes(self, node_ids: Sequence[int], tenant_id: str) -> int:
        """As ``KnowledgeVerseAdapter.delete_nodes``."""
        return await self._run(partial(self._sync.delete_nodes, node_ids, tenant_id))

    async def close(self) -> None:
        """Let calls under way end, then close the connections."""
        await asyncio.to_thread(self._threads.shutdown)
        self._sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        await self.close()

    async def _run(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def field_spec(node: KnowledgeNode) -> FieldSpec:
    """A field node as a spec; what its metadata lacks comes from its texts."""
    values = node.metadata
    return FieldSpec(
        field_name=_text(values, "field_name") or node.title.rpartition(".")[2],
        field_type=_text(values, "field_type"),
        description=_text(values, "description")
        or node.content
        or node.content_description
        or node.summary,
        sample_values=_texts(values.get("sample_values")),
    )


def example_spec(node: KnowledgeNode) -> ExampleSpec:
    """A question-and-answer node as a spec; what its metadata lacks comes from its texts."""
    values = node.metadata
    return ExampleSpec(
        question=_text(values, "question") or node.title,
        sql=_text(values, "sql") or node.content,
        explanation=_text(values, "explanation") or node.summary,
    )


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return "" if value is None else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else (str(value),)


def _names(names: Names) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _check_question(text: str) -> None:
    if not text.strip():
        raise UsageError("the query is empty", fix="ask with at least one word")

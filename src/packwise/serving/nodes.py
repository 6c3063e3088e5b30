"""``/v1/nodes``, ``/v1/nodes:search`` and ``/v1/nodes:metrics``: the knowledge nodes of a
PostgreSQL store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from fastapi.responses import Response

from packwise.errors import NotAStore, StoreMissing
from packwise.serving.api_errors import ApiError, bad_request
from packwise.serving.callers import Caller
from packwise.serving.models import (
    NodeList,
    NodeMetrics,
    NodeSearchRequest,
    Offset,
    PageSize,
    ShortText,
    StoreName,
)
from packwise.serving.state import CurrentRequest, Json, new_router
from packwise.serving.store_registry import ServedStore

if TYPE_CHECKING:
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.nodes.records import FoundNode, KnowledgeNode

router = new_router("nodes")
_FIELDS = (
    "node_id node_key node_type dataset_name title summary content_description content".split()
)
_SCORES = "bm25 vector keyword combined relevance final".split()


@router.get("/v1/nodes", response_model=NodeList)
async def list_nodes(
    context: CurrentRequest,
    tenant: Annotated[ShortText, Query(description="Only for callers who see every tenant.")] = "",
    dataset: Annotated[ShortText, Query(description="Only nodes of this data set.")] = "",
    type: Annotated[ShortText, Query(description="Only nodes of this type.")] = "",
    offset: Offset = 0,
    limit: PageSize = 50,
    store: StoreName = "",
) -> Response:
    """The knowledge nodes of a tenant, by id."""
    served = context.open_store(store)
    tenant = _tenant(context.caller, tenant)

    def read() -> tuple[int, list[KnowledgeNode]]:
        adapter, filters = _adapter(served), (dataset or None, type or None)
        total = adapter.store.count([tenant], datasets=filters[0], node_types=filters[1])
        return total, adapter.get_nodes(tenant, *filters, limit=limit, offset=offset)

    total, found = await context.state.workers.run(_with_nodes, read)
    return Json(
        {
            "store": served.name,
            "total": total,
            "offset": offset,
            "nodes": [_record(node) for node in found],
        }
    )


@router.get("/v1/nodes:metrics", response_model=NodeMetrics)
async def get_node_metrics(context: CurrentRequest, store: StoreName = "") -> Response:
    """Searches of knowledge nodes by type with their latency, and how often the embedding of a
    query was cached; only for callers who see every tenant."""
    if context.caller.restricted:
        raise ApiError(403, "forbidden", "this key may not see the metrics of all tenants")
    served = context.open_store(store)
    found = await context.state.workers.run(_with_nodes, lambda: _adapter(served).metrics())
    return Json(
        {
            "store": served.name,
            "searches": {kind: asdict(counts) for kind, counts in found.searches.items()},
            "cache_hits": found.cache_hits,
            "cache_misses": found.cache_misses,
            "cache_hit_rate": round(found.cache_hit_rate, 6),
        }
    )


@router.post("/v1/nodes:search", response_model=NodeList)
async def search_nodes(body: NodeSearchRequest, context: CurrentRequest) -> Response:
    """Find knowledge nodes by keywords and by meaning."""
    context.state.check_question(body.query, "query")
    store = context.open_store(body.store, body.query)
    tenant = _tenant(context.caller, body.tenant or "")

    def find() -> list[FoundNode]:
        from packwise.nodes.adapter import default_ranking

        return _adapter(store).hybrid_search(
            body.query,
            None,
            [tenant],
            body.types or None,
            body.k,
            dataset_names=body.datasets or None,
            min_score=body.min_score,
            **default_ranking(body.types, body.fusion, body.bm25_weight, body.vector_weight),
        )

    found = await context.state.workers.run(_with_nodes, find)
    hits = [
        {
            **_record(hit.node),
            "band": hit.band,
            "scores": {name: _rounded(getattr(hit, name)) for name in _SCORES},
        }
        for hit in found
    ]
    return Json({"store": store.name, "query": body.query, "nodes": hits})


def _tenant(caller: Caller, requested: str) -> str:
    """The key's tenant; a caller who sees every tenant must name one."""
    if caller.restricted:
        if requested:
            raise bad_request("tenant is set by the API key and cannot be requested")
        return caller.tenant
    if not requested:
        raise bad_request("tenant is missing", param="tenant")
    return requested


def _adapter(store: ServedStore) -> KnowledgeVerseAdapter:
    found = store.nodes()
    if found is None:
        raise NotAStore("only PostgreSQL stores have knowledge nodes")
    return found


def _with_nodes(work: Callable[[], Any]) -> Any:
    """The work's result. Raises a 501 ``ApiError`` if the store has no knowledge nodes."""
    try:
        return work()
    except (StoreMissing, NotAStore) as error:
        raise ApiError(
            501,
            "no_nodes",
            "this store has no knowledge nodes",
            fix="serve a postgresql:// store that has them",
        ) from error


def _record(node: KnowledgeNode) -> dict[str, Any]:
    return {**{name: getattr(node, name) for name in _FIELDS}, "metadata": dict(node.metadata)}


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 6)

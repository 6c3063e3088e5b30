"""``/v1/nodes`` and ``/v1/nodes:search``: the knowledge nodes of a PostgreSQL store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from packwise.errors import NotAStore, StoreMissing
from packwise.serving.bodies import NodesBody
from packwise.serving.callers import Caller
from packwise.serving.parameters import number, text
from packwise.serving.refusals import Refusal
from packwise.serving.state import Json, body, caller, note, serving
from packwise.serving.store_registry import ServedStore

if TYPE_CHECKING:
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.nodes.records import FoundNode, KnowledgeNode

MOST_NODES = 500


async def nodes(request: Request) -> Response:
    """A tenant's nodes of a data set and a type, by id."""
    state, who = serving(request), caller(request)
    store = state.stores.get(request.query_params.get("store"))
    tenant = _tenant(who, text(request, "tenant"))
    dataset, kind = text(request, "dataset"), text(request, "type")
    offset = number(request, "offset", 0, 0, 10_000_000)
    limit = number(request, "limit", 50, 1, MOST_NODES)
    note(request, store=store.name)

    def work() -> list[KnowledgeNode]:
        return _adapter(store).get_nodes(tenant, dataset or None, kind or None)

    found = await state.work.run(_held, work)
    return Json(
        {
            "store": store.name,
            "total": len(found),
            "offset": offset,
            "nodes": [_node(node) for node in found[offset : offset + limit]],
        }
    )


async def search(request: Request) -> Response:
    """The nodes that fit a query best, by words and by meaning."""
    state, who = serving(request), caller(request)
    asked = await body(request, NodesBody)
    state.check_question(asked.query, "query")
    store = state.stores.get(asked.store)
    tenant = _tenant(who, asked.tenant or "")
    note(request, store=store.name, characters=len(asked.query))

    def work() -> list[FoundNode]:
        return _adapter(store).hybrid_search(
            asked.query,
            None,
            [tenant],
            asked.types or None,
            asked.k,
            asked.bm25_weight,
            asked.vector_weight,
            dataset_names=asked.datasets or None,
            fusion=asked.fusion,
        )

    found = await state.work.run(_held, work)
    return Json(
        {
            "store": store.name,
            "query": asked.query,
            "nodes": [
                {
                    **_node(hit.node),
                    "band": hit.band,
                    "scores": {
                        "bm25": round(hit.bm25, 6),
                        "vector": None if hit.vector is None else round(hit.vector, 6),
                        "keyword": round(hit.keyword, 6),
                        "combined": round(hit.combined, 6),
                        "final": round(hit.final, 6),
                    },
                }
                for hit in found
            ],
        }
    )


def _tenant(who: Caller, asked: str) -> str:
    """Whose nodes: the key's tenant; only a caller who sees every tenant names one."""
    if who.restricted:
        if asked:
            raise Refusal(400, "bad_request", "tenant comes with the key and cannot be asked for")
        return who.tenant
    if not asked:
        raise Refusal(400, "bad_request", "tenant is missing", param="tenant")
    return asked


def _adapter(store: ServedStore) -> KnowledgeVerseAdapter:
    found = store.nodes()
    if found is None:
        raise _no_nodes()
    return found


def _held(work: Any) -> Any:
    """The work's result; a database without nodes is told as such."""
    try:
        return work()
    except (StoreMissing, NotAStore) as error:
        raise _no_nodes() from error


def _no_nodes() -> Refusal:
    return Refusal(
        501,
        "no_nodes",
        "this store holds no knowledge nodes",
        fix="serve a postgresql:// store that does",
    )


def _node(node: KnowledgeNode) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "node_key": node.node_key,
        "node_type": node.node_type,
        "dataset_name": node.dataset_name,
        "title": node.title,
        "summary": node.summary,
        "content_description": node.content_description,
        "content": node.content,
        "metadata": dict(node.metadata),
    }

"""``/v1/search``, ``/v1/context``, ``/v1/ask`` and ``/v1/trace``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import Response, StreamingResponse

from packwise.answering.answer import Answer
from packwise.candidates import Filter
from packwise.context.packer import Context
from packwise.errors import PackwiseError
from packwise.retrieval.ranking import Ranking
from packwise.serving.api_errors import ApiError, api_error, without_paths
from packwise.serving.callers import Caller, filter_of, shown_metadata, visible_spelling
from packwise.serving.follow_ups import complete_question
from packwise.serving.json_records import candidate_ranks, ranking_record
from packwise.serving.models import (
    AskRequest,
    AskResponse,
    ContextRequest,
    ContextResponse,
    SearchRequest,
    SearchResponse,
    TraceResponse,
)
from packwise.serving.state import CurrentRequest, Json, RequestContext, new_router
from packwise.serving.store_registry import ServedStore

router = new_router("questions")

HEARTBEAT = b": waiting\n\n"
"""An event without content, so that proxies do not take silence for the end."""
EVENT_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/event-stream": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "event": {
                            "type": "string",
                            "enum": ["question", "piece", "answer", "error"],
                        },
                        "data": {"type": "string", "contentMediaType": "application/json"},
                    },
                    "required": ["data"],
                }
            }
        }
    }
}


@router.post("/v1/search", response_model=SearchResponse)
async def search(body: SearchRequest, context: CurrentRequest) -> Response:
    """Find passages."""
    state, caller = context.state, context.caller
    state.check_question(body.query, "query")
    for text in body.alternatives:
        state.check_question(text, "alternatives")
    store = context.open_store(body.store, body.query)
    options = _retrieval_options(body, caller)
    options["alternatives"] = tuple(body.alternatives)
    ranking = await state.workers.run(
        lambda: store.library.search(body.query, body.k, **options),
        heavy=body.rerank == "crossencoder",
    )
    record = search_record(context, store, ranking)
    if not body.trace:
        del record["trace"]
    return Json(record)


@router.post("/v1/context", response_model=ContextResponse)
async def pack_context(body: ContextRequest, context: CurrentRequest) -> Response:
    """Pack passages into a token budget."""
    state, caller = context.state, context.caller
    state.check_question(body.question)
    store = context.open_store(body.store, body.question)
    options: dict[str, Any] = {"policy": body.policy, **_retrieval_options(body, caller)}
    packed = await state.workers.run(
        lambda: store.library.context(body.question, body.budget, **options),
        heavy=body.rerank == "crossencoder",
    )
    return Json(context_record(context, store, packed))


@router.post("/v1/ask", response_model=AskResponse, responses=EVENT_STREAM)
async def ask(body: AskRequest, context: CurrentRequest) -> Response:
    """Answer a question; with `stream`, as server-sent events."""
    state, caller = context.state, context.caller
    for text in body.earlier:
        state.check_question(text, "earlier")
    question = complete_question(state.check_question(body.question), body.earlier)
    question = state.check_question(question)
    store = context.open_store(body.store, question)
    options: dict[str, Any] = {
        **_retrieval_options(body, caller),
        **ask_options(caller, filter_of(caller, body.where)),
        "max_results": body.max_results,
        "budget": body.budget,
        "policy": body.policy,
        "expansion": body.expansion,
        "threshold": body.threshold,
        "synthesis": False if body.extractive else None,
    }
    if body.stream:
        state.workers.check_capacity()
        return event_stream(_events(context, store, question, options, body.question))
    answer = await state.workers.run(lambda: store.library.ask(question, **options), heavy=True)
    return Json(answer_record(context, store, answer))


@router.get("/v1/trace/{id}", response_model=TraceResponse)
async def get_trace(
    id: Annotated[str, Path(min_length=1, description="A `trace_id`.")], context: CurrentRequest
) -> Response:
    """The record of an earlier question of the same key."""
    found = context.state.traces.get(context.caller, id)
    if found is None:
        raise ApiError(404, "no_such_trace", "there is no such trace, or it is another key's")
    return Json(found)


def _retrieval_options(
    body: SearchRequest | ContextRequest | AskRequest, caller: Caller
) -> dict[str, Any]:
    return {
        "mode": body.mode,
        "fusion": body.fusion,
        "graph": body.graph,
        "rerank": body.rerank,
        "where": filter_of(caller, body.where),
    }


def ask_options(caller: Caller, where: Filter) -> dict[str, Any]:
    """The options of ``Library.ask`` that depend on the caller."""
    options: dict[str, Any] = {"where": where}
    if caller.restricted:
        # A pack's examples may come from documents of any tenant.
        options["few_shot"] = False
    return options


def event_stream(events: AsyncIterator[bytes]) -> Response:
    """A response of server-sent events."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def event(name: str | None, data: Any) -> bytes:
    """One server-sent event. Its data is one line of ASCII, so it cannot end the event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, allow_nan=False)}\n\n".encode("ascii")


async def _events(
    context: RequestContext, store: ServedStore, question: str, options: dict[str, Any], asked: str
) -> AsyncIterator[bytes]:
    """The answer in pieces; before it the question, if that was completed from earlier ones."""
    state = context.state
    if question != asked:
        yield event("question", {"text": question})
    try:
        pieces = state.workers.stream(lambda: store.library.ask_stream(question, **options))
        async for piece in pieces:
            if piece is None:
                yield HEARTBEAT
            elif isinstance(piece, str):
                yield event("piece", {"text": piece})
            else:
                yield event("answer", answer_record(context, store, piece))
    except (ApiError, PackwiseError) as error:
        shown = api_error(error)
        assert shown is not None
        yield event("error", shown.as_dict())


def search_record(context: RequestContext, store: ServedStore, ranking: Ranking) -> dict[str, Any]:
    """A ranking as JSON; its trace is kept."""
    state, caller = context.state, context.caller
    trace = _visible_trace(ranking.trace.as_dict(), caller)
    state.metrics.observe_stages(ranking.trace.timings_ms())
    state.telemetry.stages(ranking.trace.stages, lambda: store.library.embedder.name)
    record = ranking_record(ranking)
    for hit, found in zip(record["hits"], ranking.hits, strict=True):
        hit["lang"], hit["metadata"] = found.passage.lang, shown_metadata(found.passage.metadata)
    trace["candidates"] = candidate_ranks(
        [(hit["id"], hit["title"], hit["scores"]) for hit in record["hits"]]
    )
    if not caller.restricted:
        # One of them says whether any passage, of any tenant, contains a word.
        trace["signs"] = {name: round(value, 6) for name, value in ranking.signs.items()}
    trace["suspicious"] = _suspicious(record["hits"])
    record["gate"] = store.gate_record(
        ranking.confidence, ranking.probability, found=bool(ranking.hits)
    )
    trace_id = _keep(context, "search", store, ranking.query.text, record, trace)
    return {
        "store": store.name,
        **record,
        "degraded": trace["degraded"],
        "trace_id": trace_id,
        "trace": trace,
    }


def context_record(context: RequestContext, store: ServedStore, packed: Context) -> dict[str, Any]:
    """A packed context as JSON; its trace is kept."""
    record = packed.as_dict()
    record["gate"] = store.gate_record(
        packed.confidence, packed.probability, found=packed.trace.candidates > 0
    )
    trace = {"packing": record["trace"]}
    trace_id = _keep(context, "context", store, packed.question, record, trace)
    return {"store": store.name, **record, "trace_id": trace_id}


def answer_record(context: RequestContext, store: ServedStore, answer: Answer) -> dict[str, Any]:
    """An answer as JSON; its trace is kept."""
    state, caller = context.state, context.caller
    record = answer.as_dict()
    trace = _visible_trace(record["trace"], caller)
    if caller.restricted:
        record["entities"] = _visible_entities(caller, answer)
    record["degraded"] = [without_paths(line) for line in record["degraded"]]
    by = answer.answered_by if answer.answered_by in ("extractive", "none") else "model"
    state.metrics.answers.labels(query_type=answer.query_type, by=by).inc()
    if answer.trace is not None:
        state.metrics.observe_stages(answer.trace.timings_ms())
        state.telemetry.stages(answer.trace.stages, lambda: store.library.embedder.name)
    if packing := trace["packing"]:
        entries = sorted(packing["selected"] + packing["dropped"], key=lambda e: e["rank"])
        trace["candidates"] = candidate_ranks(
            [
                (entry["id"], store.title(entry["document"]), entry["scores"])
                for entry in entries
                if entry.get("attached_to") is None
            ]
        )
    record["gate"] = store.gate_record(
        answer.confidence, answer.search_probability, found=True, stages=trace["stages"]
    )
    trace["suspicious"] = _suspicious(record["citations"])
    trace_id = _keep(context, "ask", store, answer.question, record, trace)
    return {"store": store.name, **record, "trace": trace, "trace_id": trace_id}


def _suspicious(passages: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Why passages may be addressed to the model that reads them, by id."""
    return {one["id"]: one["suspicious"] for one in passages if one["suspicious"]}


def _keep(
    context: RequestContext, kind: str, store: ServedStore, question: str, record: Any, trace: Any
) -> str:
    names = ("confidence", "probability", "certainty", "gate", "query_type")
    shown = {name: record[name] for name in names if name in record}
    content = {"question": question, **shown, "trace": trace}
    context.notes["record"] = context.state.traces.add(context.caller, kind, store.name, content)
    return context.notes["record"]


def _visible_entities(caller: Caller, answer: Answer) -> list[str]:
    """The entities whose names appear in the context of the answer."""
    if answer.context is None:
        return []
    texts = [answer.context.text, *(passage.text for passage in answer.context.passages)]
    names = (visible_spelling(caller, name, texts) for name in answer.entities)
    return list(dict.fromkeys(name for name in names if name is not None))


def _visible_trace(trace: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """A trace without paths and without what the caller may not know."""
    degraded = [without_paths(line) for line in trace.get("degraded", ())]
    stages: list[dict[str, Any]] = trace.get("stages", [])
    if caller.restricted:
        stages = [_own_values(stage) for stage in stages]
    return {**trace, "stages": stages, "degraded": degraded}


def _own_values(stage: dict[str, Any]) -> dict[str, Any]:
    """A stage without what comes from the documents of all tenants: names, and the bound of
    BM25, which says whether any of them contains a word."""
    kept = {name: value for name, value in stage.items() if name not in ("named", "bm25_bound")}
    if "bonuses" in stage:
        kept["bonuses"] = [
            {name: value for name, value in bonus.items() if name != "via"}
            for bonus in stage["bonuses"]
        ]
    return kept

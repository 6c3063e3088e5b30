"""``/v1/search``, ``/v1/context``, ``/v1/ask`` and ``/v1/trace``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from packwise.answering.answer import Answer
from packwise.context.packer import Context
from packwise.errors import PackwiseError
from packwise.retrieval.pipeline import Ranking
from packwise.serving import sse
from packwise.serving.bodies import AskBody, ContextBody, SearchBody
from packwise.serving.callers import Caller, filter_of, spelling
from packwise.serving.confidence_gate import gate_record
from packwise.serving.json_records import moves, ranking_record, scores_record
from packwise.serving.refusals import Refusal, refusal_of, without_paths
from packwise.serving.state import Json, Serving, body, caller, note, serving
from packwise.serving.store_registry import ServedStore


async def search(request: Request) -> Response:
    """Passages, best first."""
    state, who = serving(request), caller(request)
    asked = await body(request, SearchBody)
    state.check_question(asked.query, "query")
    for text in asked.alternatives:
        state.check_question(text, "alternatives")
    store = state.stores.get(asked.store)
    _note(request, state, store, asked.query)
    where = filter_of(who, asked.where)

    def work() -> Ranking:
        return store.library.search(
            asked.query,
            asked.k,
            mode=asked.mode,
            fusion=asked.fusion,
            where=where,
            alternatives=tuple(asked.alternatives),
            graph=asked.graph,
            rerank=asked.rerank,
        )

    ranking = await state.work.run(work)
    record = searched(state, who, store, ranking)
    if not asked.trace:
        del record["trace"]
    return Json(record)


def searched(state: Serving, who: Caller, store: ServedStore, ranking: Ranking) -> dict[str, Any]:
    """A ranking as it is sent, its trace kept."""
    trace = served_trace(ranking.trace.as_dict(), who)
    state.metrics.stages(ranking.trace.timings_ms())
    state.telemetry.stages(trace["stages"])
    hits = [(h.passage.id, h.passage.doc_title, scores_record(h.scores)) for h in ranking.hits]
    trace["candidates"] = moves(hits)
    if not who.restricted:
        # One of them says whether any passage has a word, whoever's it is.
        trace["signs"] = {name: round(value, 6) for name, value in ranking.signs.items()}
    record = ranking_record(ranking)
    record["gate"] = gate_record(
        store, ranking.confidence, ranking.probability, found=bool(ranking.hits)
    )
    name = _kept(state, who, "search", store, ranking.query.text, record, trace)
    return {
        "store": store.name,
        **record,
        "degraded": trace["degraded"],
        "trace_id": name,
        "trace": trace,
    }


async def context(request: Request) -> Response:
    """Passages packed into a budget."""
    state, who = serving(request), caller(request)
    asked = await body(request, ContextBody)
    state.check_question(asked.question)
    store = state.stores.get(asked.store)
    _note(request, state, store, asked.question)
    where = filter_of(who, asked.where)

    def work() -> Context:
        return store.library.context(
            asked.question,
            asked.budget,
            policy=asked.policy,
            mode=asked.mode,
            fusion=asked.fusion,
            where=where,
            graph=asked.graph,
            rerank=asked.rerank,
        )

    packed = await state.work.run(work)
    return Json(packed_record(state, who, store, packed))


def packed_record(
    state: Serving, who: Caller, store: ServedStore, packed: Context
) -> dict[str, Any]:
    """A context as it is sent, its trace kept."""
    record = packed.as_dict()
    record["gate"] = gate_record(
        store, packed.confidence, packed.probability, found=packed.trace.candidates > 0
    )
    trace = {"packing": record["trace"]}
    name = _kept(state, who, "context", store, packed.question, record, trace)
    return {"store": store.name, **record, "trace_id": name}


async def ask(request: Request) -> Response:
    """An answer, whole or as events."""
    state, who = serving(request), caller(request)
    asked = await body(request, AskBody)
    state.check_question(asked.question)
    store = state.stores.get(asked.store)
    _note(request, state, store, asked.question)
    how = how_of(asked, who)
    if asked.stream:
        state.work.check_room()
        return StreamingResponse(
            _events(state, who, store, asked.question, how),
            media_type=sse.MEDIA_TYPE,
            headers=sse.HEADERS,
        )
    answer = await state.work.run(lambda: store.library.ask(asked.question, **how))
    return Json(answered(state, who, store, answer))


def how_of(asked: AskBody, who: Caller) -> dict[str, Any]:
    """The request as ``Library.ask`` takes it."""
    how: dict[str, Any] = {
        "max_results": asked.max_results,
        "budget": asked.budget,
        "policy": asked.policy,
        "mode": asked.mode,
        "fusion": asked.fusion,
        "graph": asked.graph,
        "rerank": asked.rerank,
        "expansion": asked.expansion,
        "threshold": asked.threshold,
        "synthesis": False if asked.extractive else None,
        "where": filter_of(who, asked.where),
    }
    if who.restricted:
        # Examples are the pack's, whoever's documents they were taken from.
        how["few_shot"] = False
    return how


async def _events(
    state: Serving, who: Caller, store: ServedStore, question: str, how: dict[str, Any]
) -> AsyncIterator[bytes]:
    try:
        async for piece in state.work.stream(lambda: store.library.ask_stream(question, **how)):
            if piece is None:
                yield sse.WAITING
            elif isinstance(piece, str):
                yield sse.event("piece", {"text": piece})
            else:
                yield sse.event("answer", answered(state, who, store, piece))
    except (Refusal, PackwiseError) as error:
        told = error if isinstance(error, Refusal) else refusal_of(error)
        yield sse.event("error", told.as_dict())


def answered(state: Serving, who: Caller, store: ServedStore, answer: Answer) -> dict[str, Any]:
    """An answer as it is sent, its trace kept."""
    record = answer.as_dict()
    trace = served_trace(record["trace"], who)
    if who.restricted:
        record["entities"] = _readable(who, answer)
    record["degraded"] = [without_paths(line) for line in record["degraded"]]
    state.metrics.count(
        "packwise_answers_total",
        query_type=answer.query_type,
        by=answer.answered_by if answer.answered_by in ("extractive", "none") else "model",
    )
    if answer.trace is not None:
        state.metrics.stages(answer.trace.timings_ms())
        state.telemetry.stages(trace["stages"])
    packing = trace["packing"]
    if packing is not None:
        entries = sorted(packing["selected"] + packing["dropped"], key=lambda e: e["rank"])
        trace["candidates"] = moves(
            [
                (entry["id"], store.title(entry["document"]), entry["scores"])
                for entry in entries
                if entry.get("attached_to") is None
            ]
        )
    record["gate"] = gate_record(
        store, answer.confidence, answer.probability, found=True, stages=trace.get("stages")
    )
    name = _kept(state, who, "ask", store, answer.question, record, trace)
    return {"store": store.name, **record, "trace": trace, "trace_id": name}


def _readable(who: Caller, answer: Answer) -> list[str]:
    """The entities whose names the caller reads in the context."""
    if answer.context is None:
        return []
    texts = [answer.context.text, *(passage.text for passage in answer.context.passages)]
    names = (spelling(who, name, texts) for name in answer.entities)
    return list(dict.fromkeys(name for name in names if name is not None))


def _kept(
    state: Serving,
    who: Caller,
    kind: str,
    store: ServedStore,
    question: str,
    record: dict[str, Any],
    trace: dict[str, Any],
) -> str:
    """Keep the record of a question; the id it is asked for by."""
    told = ("confidence", "probability", "gate", "query_type")
    content = {"question": question, **{n: record[n] for n in told if n in record}, "trace": trace}
    return state.traces.keep(who, kind, store.name, content)


def served_trace(trace: dict[str, Any], who: Caller) -> dict[str, Any]:
    """A trace as it leaves this machine, and as the caller may read it."""
    degraded = [without_paths(line) for line in trace.get("degraded", ())]
    stages: list[dict[str, Any]] = trace.get("stages", [])
    if who.restricted:
        stages = [_own_names(stage) if stage["name"] == "graph" else stage for stage in stages]
    return {**trace, "stages": stages, "degraded": degraded}


def _own_names(stage: dict[str, Any]) -> dict[str, Any]:
    """The graph's stage without the names rank flowed along: they are the whole store's, and
    that one of them is known may be another tenant's doing."""
    bonuses = [{k: v for k, v in bonus.items() if k != "via"} for bonus in stage.get("bonuses", ())]
    kept = {name: value for name, value in stage.items() if name not in ("named", "bonuses")}
    return {**kept, "bonuses": bonuses} if "bonuses" in stage else kept


async def trace(request: Request) -> Response:
    """The record of an earlier question of the same caller."""
    state = serving(request)
    found = state.traces.get(caller(request), request.path_params["id"])
    if found is None:
        raise Refusal(404, "no_such_trace", "there is no such trace, or it was another key's")
    return Json(found)


def _note(request: Request, state: Serving, store: ServedStore, question: str) -> None:
    note(request, store=store.name, characters=len(question))
    if state.log.questions:
        note(request, question=question)

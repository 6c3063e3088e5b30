"""``/v1/stores``, ``/v1/articles``, ``/v1/graph`` and ``/v1/report``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from packwise.documents import Document
from packwise.serving.callers import Caller, spelling, visible
from packwise.serving.confidence_gate import calibrated, usual_threshold
from packwise.serving.neighbourhood import MOST_NODES, around, find_article
from packwise.serving.parameters import LONGEST_NAME, number, text
from packwise.serving.refusals import Refusal
from packwise.serving.state import Json, caller, note, serving
from packwise.serving.store_registry import ServedStore
from packwise.stores.base import Key

MOST_ARTICLES = 500
MOST_NAMES = 40
MOST_FACTS = 20


async def stores(request: Request) -> Response:
    """What can be asked."""
    state, who = serving(request), caller(request)

    def work() -> list[dict[str, Any]]:
        return [store_record(store, who) for store in state.stores]

    return Json({"stores": await state.work.run(work)})


def store_record(store: ServedStore, who: Caller) -> dict[str, Any]:
    """A store as a caller may know it: sizes only for those who see all of it."""
    info = store.library.info()
    hidden = who.restricted
    settings = store.library.settings
    return {
        "name": store.name,
        "kind": info.kind,
        "version": info.version,
        "embedder": info.embedder,
        "documents": None if hidden else info.documents,
        "passages": None if hidden else info.passages,
        "links": None if hidden else info.links,
        "calibrated": calibrated(store),
        "defaults": {
            "fusion": settings.fusion,
            "graph": settings.graph_ranking,
            "rerank": settings.reranker,
            "policy": settings.packing_policy,
            "budget": settings.context_token_budget,
            "threshold": usual_threshold(store),
            "expansion": settings.expansion,
        },
    }


async def articles(request: Request) -> Response:
    """The articles of a store, highest PageRank first."""
    state, who = serving(request), caller(request)
    store = state.stores.get(request.query_params.get("store"))
    offset = number(request, "offset", 0, 0, 10_000_000)
    limit = number(request, "limit", 50, 1, MOST_ARTICLES)
    wanted = text(request, "q").casefold()

    def work() -> dict[str, Any]:
        found = list(store.articles(who).values())
        if wanted:
            found = [entry for entry in found if wanted in (entry.title or entry.id).casefold()]
        return {
            "store": store.name,
            "total": len(found),
            "offset": offset,
            "articles": [
                {
                    "id": entry.id,
                    "title": entry.title,
                    "url": entry.url,
                    "lang": entry.lang,
                    "passages": entry.passages,
                    "pagerank": entry.pagerank,
                }
                for entry in found[offset : offset + limit]
            ],
        }

    return Json(await state.work.run(work))


async def article(request: Request) -> Response:
    """One article: text, sections, passages, links."""
    state, who = serving(request), caller(request)
    store = state.stores.get(request.query_params.get("store"))
    name = request.path_params["title"]
    if len(name) > LONGEST_NAME:
        raise _no_article()
    note(request, store=store.name)
    record = await state.work.run(lambda: article_record(store, who, name))
    if record is None:
        raise _no_article()
    return Json(record)


def article_record(store: ServedStore, who: Caller, name: str) -> dict[str, Any] | None:
    """An article by id or title; ``None`` when there is none the caller may see."""
    found = find_article(store, who, name)
    document = store.library.store.document(found) if found is not None else None
    if document is None:
        return None
    held = store.library.store
    passages = held.document_passages(document.id)
    links = _links(store, who, document)
    return {
        "store": store.name,
        "id": document.id,
        "title": document.title,
        "url": document.url,
        "lang": document.lang,
        "pagerank": held.pagerank([document.id]).get(document.id, 0.0),
        "metadata": {k: v for k, v in document.metadata.items() if k not in ("tenant", "acl")},
        "text": document.text,
        "sections": [
            {"path": list(s.path), "level": s.level, "start": s.start, "end": s.end}
            for s in document.sections
        ],
        "passages": [
            {"id": p.id, "section_path": list(p.section_path), "start": p.start, "end": p.end}
            for _, p in passages
        ],
        "links": links,
        **_knowledge(store, who, document, [key for key, _ in passages]),
    }


def _knowledge(
    store: ServedStore, who: Caller, document: Document, keys: Sequence[Key]
) -> dict[str, list[str]]:
    """The names that passages mention, the most mentioned first, and the facts that stand in
    them."""
    held = store.library.store
    mentioned = held.entities_of(keys)
    names: Counter[str] = Counter()
    for key in keys:
        if key in mentioned:
            names.update(entity.label or entity.key for entity in mentioned[key].entities)
    stored = held.facts_of(keys)
    facts = (" ".join(fact.text.split()) for key in keys for fact in stored.get(key, ()))
    own = (document.title, document.text)
    shown = [spelling(who, name, own) for name, _ in names.most_common()]
    return {
        "names": [name for name in shown if name is not None][:MOST_NAMES],
        "facts": list(dict.fromkeys(facts))[:MOST_FACTS],
    }


def _links(store: ServedStore, who: Caller, document: Document) -> list[dict[str, Any]]:
    """Where the article leads: documents of the store the caller may see, each once."""
    held = store.library.store
    found = {link.target: link for _, link in held.links([document.id]) if link.target}
    seen = visible(held, who, found)
    return [
        {"id": target, "title": store.title(target), "anchor": link.anchor, "kind": link.kind}
        for target, link in found.items()
        if target in seen
    ]


async def graph(request: Request) -> Response:
    """What surrounds an article or a name."""
    state, who = serving(request), caller(request)
    store = state.stores.get(request.query_params.get("store"))
    name = text(request, "around", required=True)
    limit = number(request, "limit", 40, 1, MOST_NODES)
    note(request, store=store.name)
    record = await state.work.run(lambda: around(store, who, name, limit))
    if record is None:
        raise Refusal(404, "no_such_name", "no article or name like that is known here")
    return Json({"store": store.name, **record})


async def report(request: Request) -> Response:
    """The evaluation report the server was started with."""
    state = serving(request)
    if state.report is None or caller(request).restricted:
        raise Refusal(
            404,
            "no_report",
            "no evaluation report is here",
            fix="packwise serve --report FILE",
        )
    file = state.report

    def work() -> Any:
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            state.log.write("report", "error", reason=str(error))
            return None

    content = await state.work.run(work)
    if content is None:
        raise Refusal(404, "no_report", "the evaluation report cannot be read")
    return Json(content)


def _no_article() -> Refusal:
    return Refusal(404, "no_such_article", "there is no such article", fix="GET /v1/articles")

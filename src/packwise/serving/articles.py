"""``/v1/stores``, ``/v1/articles``, ``/v1/graph`` and ``/v1/report``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import Response

from packwise.documents import Document
from packwise.serving.api_errors import ApiError, bad_request
from packwise.serving.article_models import (
    ArticleLink,
    ArticleList,
    ArticlePassage,
    ArticleResponse,
    ArticleSection,
    ArticleSummary,
    GraphResponse,
    StoreList,
)
from packwise.serving.callers import Caller, shown_metadata, visible, visible_spelling
from packwise.serving.models import MaxNodes, Offset, PageSize, ShortText, StoreName
from packwise.serving.neighbourhood import find_article, neighbourhood
from packwise.serving.state import CurrentRequest, Json, new_router
from packwise.serving.store_registry import ServedStore
from packwise.stores.base import Key

router = new_router("documents")
_MAX_TITLE = 512
_MAX_NAMES = 40
_MAX_FACTS = 20


@router.get("/v1/stores", response_model=StoreList)
async def list_stores(context: CurrentRequest) -> Response:
    """The stores of this server."""

    held, caller, limits = context.state.stores, context.caller, context.state.limits

    def read() -> list[dict[str, Any]]:
        held.refresh()
        return [
            _store_record(store, caller, caller.admin and held.editable(store)) for store in held
        ]

    return Json(
        {
            "stores": await context.state.workers.run(read),
            "can_create": caller.admin and held.workspace is not None,
            "file_bytes": limits.file_bytes,
        }
    )


def _store_record(store: ServedStore, caller: Caller, editable: bool) -> dict[str, Any]:
    info = store.library.info()
    settings = store.library.settings
    sizes = {"documents": info.documents, "passages": info.passages, "links": info.links}
    return {
        "name": store.name,
        "kind": info.kind,
        "version": info.version,
        "embedder": info.embedder,
        **(dict.fromkeys(sizes) if caller.restricted else sizes),
        "calibrated": store.calibrated,
        "questions": store.sample_questions(caller),
        "editable": editable,
        "defaults": {
            "fusion": settings.fusion,
            "graph": settings.graph_ranking,
            "rerank": settings.reranker,
            "policy": settings.packing_policy,
            "budget": settings.context_token_budget,
            "threshold": store.default_threshold,
            "expansion": settings.expansion,
        },
    }


@router.get("/v1/articles", response_model=ArticleList)
async def list_articles(
    context: CurrentRequest,
    store: StoreName = "",
    q: Annotated[ShortText, Query(description="Part of the title.")] = "",
    offset: Offset = 0,
    limit: PageSize = 50,
) -> Response:
    """The articles of a store, highest PageRank first."""
    served = context.state.stores.get(store)
    part = q.casefold()

    def read() -> ArticleList:
        found = list(served.articles(context.caller).values())
        if part:
            found = [entry for entry in found if part in (entry.title or entry.id).casefold()]
        page = [ArticleSummary.model_validate(entry) for entry in found[offset : offset + limit]]
        return ArticleList(store=served.name, total=len(found), offset=offset, articles=page)

    return Json((await context.state.workers.run(read)).model_dump())


@router.get("/v1/articles/{title:path}", response_model=ArticleResponse)
async def get_article(
    context: CurrentRequest,
    title: Annotated[str, Path(description="Title or id.", json_schema_extra={"minLength": 1})],
    store: StoreName = "",
) -> Response:
    """One article, by title or id."""
    served = context.open_store(store)
    found = await context.state.workers.run(article_of, served, context.caller, title)
    return Json(found.model_dump())


def article_of(store: ServedStore, caller: Caller, title: str) -> ArticleResponse:
    """An article by id or title. Raises a 404 ``ApiError`` if the caller can see none."""
    held = store.library.store
    found = find_article(store, caller, title) if len(title) <= _MAX_TITLE else None
    document = held.document(found) if found is not None else None
    if document is None:
        raise ApiError(404, "no_such_article", "there is no such article", fix="GET /v1/articles")
    passages = held.document_passages(document.id)
    names, facts = _names_and_facts(store, caller, document, [key for key, _ in passages])
    return ArticleResponse(
        store=store.name,
        id=document.id,
        title=document.title,
        url=document.url,
        lang=document.lang,
        pagerank=held.pagerank([document.id]).get(document.id, 0.0),
        metadata=shown_metadata(document.metadata),
        text=document.text,
        sections=[ArticleSection.model_validate(section) for section in document.sections],
        passages=[ArticlePassage.model_validate(passage) for _, passage in passages],
        links=_links(store, caller, document),
        names=names,
        facts=facts,
    )


def _names_and_facts(
    store: ServedStore, caller: Caller, document: Document, keys: Sequence[Key]
) -> tuple[list[str], list[str]]:
    """The names that passages mention, most frequent first, and the facts in them."""
    held = store.library.store
    mentioned = held.entities_of(keys)
    names: Counter[str] = Counter()
    for key in keys:
        if key in mentioned:
            names.update(entity.label or entity.key for entity in mentioned[key].entities)
    stored = held.facts_of(keys)
    facts = (" ".join(fact.text.split()) for key in keys for fact in stored.get(key, ()))
    own = (document.title, document.text)
    shown = [visible_spelling(caller, name, own) for name, _ in names.most_common()]
    visible_names = [name for name in shown if name is not None]
    return visible_names[:_MAX_NAMES], list(dict.fromkeys(facts))[:_MAX_FACTS]


def _links(store: ServedStore, caller: Caller, document: Document) -> list[ArticleLink]:
    """Links to documents that the caller may see, one per document."""
    held = store.library.store
    linked = held.links([document.id])
    found = {link.target: link for _, link in linked if link.target}
    seen = visible(held, caller, found)
    spans: dict[str, list[tuple[int, int]]] = {}
    for _, link in linked:
        if link.target and link.anchor:
            end = link.start + len(link.anchor)
            spans.setdefault(link.target, []).append((link.start, end))
    return [
        ArticleLink(
            id=target,
            title=store.title(target),
            anchor=link.anchor,
            kind=link.kind,
            spans=spans.get(target, []),
        )
        for target, link in found.items()
        if target in seen
    ]


@router.get("/v1/graph", response_model=GraphResponse)
async def get_graph(
    context: CurrentRequest,
    around: Annotated[ShortText, Query(min_length=1, description="Title, id or name.")],
    limit: MaxNodes = 40,
    store: StoreName = "",
) -> Response:
    """The neighbourhood of an article or a name."""
    if not around.strip():
        raise bad_request("around is missing", fix="?around=TEXT", param="around")
    served = context.open_store(store)
    found = await context.state.workers.run(neighbourhood, served, context.caller, around, limit)
    if found is None:
        raise ApiError(404, "no_such_name", "there is no such article or name")
    return Json({"store": served.name, **found})


@router.get("/v1/report", response_model=dict[str, Any])
async def get_report(context: CurrentRequest) -> Response:
    """The evaluation report the server was started with."""
    state, file = context.state, context.state.report
    if file is None or context.caller.restricted:
        raise ApiError(
            404, "no_report", "there is no evaluation report", fix="packwise serve --report FILE"
        )

    def read() -> Any:
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            state.log.write("report", "error", reason=str(error))
            raise ApiError(404, "no_report", "the evaluation report cannot be read") from None

    return Json(await state.workers.run(read))

"""Results of ``/v1/stores``, ``/v1/articles`` and ``/v1/graph`` as pydantic models."""

from __future__ import annotations

from typing import Literal

from packwise.serving.models import ResultModel


class StoreRecord(ResultModel):
    """A store; sizes are `null` for callers who see only a part of it. `questions` are some that
    it was seen to answer when it was built."""

    name: str
    kind: str
    version: str
    embedder: str
    documents: int | None
    passages: int | None
    links: int | None
    calibrated: bool
    questions: list[str]
    editable: bool
    defaults: dict[str, str | int | float]


class StoreList(ResultModel):
    """The stores of this server, whether packs can be made, and their largest file."""

    stores: list[StoreRecord]
    can_create: bool
    file_bytes: int


class _ArticleFields(ResultModel):
    id: str
    title: str
    url: str
    lang: str
    pagerank: float


class ArticleSummary(_ArticleFields):
    """An article without its text."""

    passages: int


class ArticleList(ResultModel):
    """A page of a store's articles."""

    store: str
    total: int
    offset: int
    articles: list[ArticleSummary]


class ArticleSection(ResultModel):
    """A section of an article."""

    path: list[str]
    level: int
    start: int
    end: int


class ArticleBlock(ResultModel):
    """A paragraph, list, code block or table."""

    kind: str
    start: int
    end: int


class ArticlePassage(ResultModel):
    """A passage of an article, its blocks and where in the file it is."""

    id: str
    section_path: list[str]
    start: int
    end: int
    place: str
    blocks: list[ArticleBlock]


class ArticleLink(ResultModel):
    """A link from an article to another one, and where its anchors are in the text."""

    id: str
    title: str
    anchor: str
    kind: str
    spans: list[tuple[int, int]]


class ArticleResponse(_ArticleFields):
    """One article."""

    store: str
    metadata: dict[str, str]
    text: str
    sections: list[ArticleSection]
    passages: list[ArticlePassage]
    links: list[ArticleLink]
    names: list[str]
    facts: list[str]


class GraphNode(ResultModel):
    """An article or a name."""

    id: str
    kind: Literal["article", "name"]
    label: str
    passages: int
    document: str | None = None
    pagerank: float | None = None
    type: str | None = None


class GraphEdge(ResultModel):
    """A connection between two nodes."""

    source: str
    target: str
    kind: str
    label: str
    count: int


class GraphResponse(ResultModel):
    """The neighbourhood of an article or a name."""

    store: str
    centre: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    left_out: int

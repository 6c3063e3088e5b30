"""Results of ``/v1/stores``, ``/v1/articles`` and ``/v1/graph`` as pydantic models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Result(BaseModel):
    model_config = ConfigDict(extra="forbid", from_attributes=True)


class StoreRecord(_Result):
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


class StoreList(_Result):
    """The stores of this server, whether packs can be made, and their largest file."""

    stores: list[StoreRecord]
    can_create: bool
    file_bytes: int


class _ArticleFields(_Result):
    id: str
    title: str
    url: str
    lang: str
    pagerank: float


class ArticleSummary(_ArticleFields):
    """An article without its text."""

    passages: int


class ArticleList(_Result):
    """A page of a store's articles."""

    store: str
    total: int
    offset: int
    articles: list[ArticleSummary]


class ArticleSection(_Result):
    """A section of an article."""

    path: list[str]
    level: int
    start: int
    end: int


class ArticleBlock(_Result):
    """A paragraph, list, code block or table."""

    kind: str
    start: int
    end: int


class ArticlePassage(_Result):
    """A passage of an article, its blocks and where in the file it is."""

    id: str
    section_path: list[str]
    start: int
    end: int
    place: str
    blocks: list[ArticleBlock]


class ArticleLink(_Result):
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


class GraphNode(_Result):
    """An article or a name."""

    id: str
    kind: Literal["article", "name"]
    label: str
    passages: int
    document: str | None = None
    pagerank: float | None = None
    type: str | None = None


class GraphEdge(_Result):
    """A connection between two nodes."""

    source: str
    target: str
    kind: str
    label: str
    count: int


class GraphResponse(_Result):
    """The neighbourhood of an article or a name."""

    store: str
    centre: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    left_out: int

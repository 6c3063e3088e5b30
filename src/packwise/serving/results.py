"""What each route answers, for the OpenAPI document; the tests hold real answers against it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class _Result(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorDetail(_Result):
    """Its code, one line, and what mends it."""

    code: str | None
    message: str
    fix: str | None = None
    type: str | None = None
    param: str | None = None


class Error(_Result):
    """Why a request was not answered."""

    error: ErrorDetail


class Hit(_Result):
    """A passage that was found."""

    rank: int
    id: str
    document: str
    title: str
    section_path: list[str]
    url: str
    text: str
    start: int
    end: int
    scores: dict[str, float | None]


class Move(_Result):
    """Where a candidate stood after each stage."""

    id: str
    title: str
    scores: dict[str, float | None]
    ranks: dict[str, int | None]


class TraceContent(_Result):
    """What each stage did."""

    version: int | None = None
    stages: list[dict[str, Any]] | None = None
    dropped: list[dict[str, Any]] | None = None
    degraded: list[str] | None = None
    candidates: list[Move] | None = None
    signs: dict[str, float] | None = None
    packing: dict[str, Any] | None = None


class Gate(_Result):
    """What `confidence` is held against. `calibrated`: it is the probability that the answer is
    there, by the store's own calibration; below `refuse_below` the answer is surely not."""

    calibrated: bool
    threshold: float
    refuse_below: float | None
    passed: bool


class Search(_Result):
    """Passages, best first."""

    store: str
    query: str
    hits: list[Hit]
    confidence: float
    probability: float | None
    gate: Gate
    timings_ms: dict[str, float]
    degraded: list[str]
    trace_id: str
    trace: TraceContent | None = None


class PackedPassage(_Result):
    """A passage of a context."""

    marker: int
    id: str
    ids: list[str]
    document: str
    title: str
    section_path: list[str]
    url: str
    text: str
    spans: list[tuple[int, int]]
    tokens: int
    score: float
    reduced: bool


class Context(_Result):
    """A text that fits the budget."""

    store: str
    question: str
    text: str
    tokens: int
    budget: int
    passages: list[PackedPassage]
    trace: dict[str, Any]
    confidence: float
    probability: float | None
    gate: Gate
    trace_id: str


class Citation(_Result):
    """A passage an answer cites."""

    marker: int
    id: str
    ids: list[str]
    document: str
    title: str
    section_path: list[str]
    url: str
    text: str


class Answer(_Result):
    """An answer with its sources."""

    store: str
    answer: str
    sources: list[str]
    entities: list[str]
    facts: list[str]
    cypher_query: str | None
    query_type: str
    token_usage: dict[str, int]
    confidence: float
    probability: float | None
    gate: Gate
    degraded: list[str]
    citations: list[Citation]
    answered_by: str
    question: str
    trace: TraceContent
    trace_id: str


class Trace(_Result):
    """The record of a question."""

    id: str
    kind: Literal["search", "context", "ask"]
    store: str
    at: float
    question: str
    confidence: float
    probability: float | None
    gate: Gate
    query_type: str | None = None
    trace: TraceContent


class StoreEntry(_Result):
    """A store."""

    name: str
    kind: str
    version: str
    embedder: str
    documents: int | None
    passages: int | None
    links: int | None
    calibrated: bool
    defaults: dict[str, str | int | float]


class Stores(_Result):
    """What can be asked."""

    stores: list[StoreEntry]


class ArticleEntry(_Result):
    """An article without its text."""

    id: str
    title: str
    url: str
    lang: str
    passages: int
    pagerank: float


class Articles(_Result):
    """Some of a store's articles."""

    store: str
    total: int
    offset: int
    articles: list[ArticleEntry]


class SectionEntry(_Result):
    """A section of an article."""

    path: list[str]
    level: int
    start: int
    end: int


class PassageEntry(_Result):
    """A passage of an article."""

    id: str
    section_path: list[str]
    start: int
    end: int


class LinkEntry(_Result):
    """Where an article leads."""

    id: str
    title: str
    anchor: str
    kind: str


class Article(_Result):
    """One article."""

    store: str
    id: str
    title: str
    url: str
    lang: str
    pagerank: float
    metadata: dict[str, str]
    text: str
    sections: list[SectionEntry]
    passages: list[PassageEntry]
    links: list[LinkEntry]
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
    """What ties two of them."""

    source: str
    target: str
    kind: str
    label: str
    count: int


class Graph(_Result):
    """What surrounds an article or a name."""

    store: str
    centre: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    left_out: int


class Nodes(_Result):
    """Knowledge nodes."""

    store: str
    query: str | None = None
    total: int | None = None
    offset: int | None = None
    nodes: list[dict[str, Any]]


class Completion(BaseModel):
    """An answer in the OpenAI protocol."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]
    packwise: dict[str, Any]


class Status(_Result):
    """How the server is."""

    status: str

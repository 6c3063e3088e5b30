"""Request bodies and results of the HTTP API as pydantic models.

FastAPI checks bodies with them and writes the OpenAPI document from them; the MCP tools share
them. Results are sent as plain dicts, and the tests hold those against the models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from packwise.answering.answer import Certainty
from packwise.candidates import Expansion, Fusion, GraphRanking, Mode, PackingPolicy, Reranker

ShortText = Annotated[str, Field(max_length=512)]
_Budget = Annotated[int | None, Field(ge=0, le=200_000, description="Maximum number of tokens.")]
_Policy = Annotated[PackingPolicy | None, Field(description="How passages are selected.")]
_Question = Annotated[str, Field(min_length=1, description="The question.")]
_Query = Annotated[str, Field(min_length=1, description="What to search for.")]
_Scores = dict[str, float | None]


def _only_digits(value: Any) -> Any:
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        raise PydanticCustomError("whole_number", "Input should be a whole number")
    return value


_Digits = BeforeValidator(_only_digits)

# Query parameters. A number consists of digits only: no sign, space, underscore or fraction.
StoreName = Annotated[ShortText, Query(description="Name of the store; default: the first one.")]
Offset = Annotated[int, Field(ge=0, le=10_000_000), _Digits, Query(description="Entries to skip.")]
PageSize = Annotated[int, Field(ge=1, le=500), _Digits, Query(description="Entries to return.")]
MaxNodes = Annotated[int, Field(ge=1, le=200), _Digits, Query(description="Nodes to return.")]


class RequestModel(BaseModel):
    """A request; fields it does not have are an error."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Body(RequestModel):
    store: ShortText | None = Field(None, description="Name of the store; default: the first one.")


class _RetrievalBody(_Body):
    where: dict[ShortText, ShortText | Annotated[list[ShortText], Field(max_length=100)]] = Field(
        default_factory=dict,
        max_length=16,
        description=(
            "Search only passages with this `document` (one or several), `path` prefix, `lang`, "
            "`space`, `type` or metadata. `tenant` and `acl` come from the API key."
        ),
    )
    mode: Mode = Field("hybrid", description="Which searches to run.")
    fusion: Fusion | None = Field(None, description="How their results are combined.")
    graph: GraphRanking | None = Field(
        None, description="Graph ranking; default: the server's setting."
    )
    rerank: Reranker | None = Field(None, description="Reranker; default: the server's setting.")


class SearchRequest(_RetrievalBody):
    """Find passages."""

    query: _Query
    k: int = Field(10, ge=1, le=100, description="Number of passages.")
    alternatives: list[str] = Field(
        default_factory=list, max_length=8, description="Other phrasings to search for as well."
    )
    trace: bool = Field(False, description="Include the trace.")


class ContextRequest(_RetrievalBody):
    """Pack passages into a token budget."""

    question: _Question
    budget: _Budget = None
    policy: _Policy = None


class AskRequest(_RetrievalBody):
    """Answer a question."""

    question: _Question
    earlier: list[str] = Field(
        default_factory=list[str],
        max_length=64,
        description="The earlier questions of the conversation, the last one last.",
    )
    max_results: int = Field(5, ge=1, le=20, description="Maximum number of articles to use.")
    budget: _Budget = None
    policy: _Policy = None
    expansion: Expansion | None = Field(
        None, description="Other phrasings: from the language model, or from the store itself."
    )
    threshold: float | None = Field(
        None, ge=0, le=1, description="Do not answer below this confidence."
    )
    extractive: bool = Field(
        False, description="Answer with sentences of the documents, without a language model."
    )
    stream: bool = Field(False, description="Send server-sent events.")


class FeedbackRequest(_Body):
    """Say whether an answer was right."""

    question: _Question
    answer: str = Field(min_length=1, max_length=20_000, description="The answer as it was shown.")
    verdict: Literal["right", "wrong"] = Field(description="Whether the answer was right.")
    right_answer: str | None = Field(
        None, max_length=2_000, description="With `wrong`: what the answer should have been."
    )
    passages: list[ShortText] = Field(
        default_factory=list[str], max_length=100, description="Ids of the passages it cited."
    )


class NodeSearchRequest(_Body):
    """Find knowledge nodes."""

    tenant: ShortText | None = Field(
        None, description="The tenant; only for callers who can see every tenant."
    )
    query: _Query
    k: int = Field(20, ge=1, le=100, description="Number of nodes.")
    types: list[ShortText] = Field(
        default_factory=list[str], max_length=32, description="Only nodes of these types."
    )
    datasets: list[ShortText] = Field(
        default_factory=list[str], max_length=32, description="Only nodes of these data sets."
    )
    bm25_weight: float | None = Field(
        None, ge=0, le=1, description="Weight of the keyword score; by default the node type's."
    )
    vector_weight: float | None = Field(
        None, ge=0, le=1, description="Weight of the vector score; by default the node type's."
    )
    fusion: Fusion | None = Field(None, description="How the two scores are combined.")
    min_score: float = Field(0.0, ge=0, le=1, description="Leave out nodes below this score.")


class ResultModel(BaseModel):
    """A result, also made from the attributes of an object."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class ErrorDetail(ResultModel):
    """Its code, one line of text, and what to do about it."""

    code: str | None
    message: str
    fix: str | None = None
    type: str | None = None
    param: str | None = None


class ErrorResponse(ResultModel):
    """Why a request failed."""

    error: ErrorDetail


class GateRecord(ResultModel):
    """The threshold for `confidence`. With `calibrated`, `confidence` is the probability that
    the answer was found; below `refuse_below` the store almost certainly does not have it."""

    calibrated: bool
    threshold: float
    refuse_below: float | None
    passed: bool


class _Scored(ResultModel):
    store: str
    confidence: float
    gate: GateRecord


class _PassageRecord(ResultModel):
    id: str
    document: str
    title: str
    section_path: list[str]
    url: str
    text: str
    place: str = ""
    suspicious: list[str] = Field(
        default=[], description="Why the text may be addressed to the model that reads it."
    )


class SearchHit(_PassageRecord):
    """A passage that was found."""

    rank: int
    start: int
    end: int
    scores: _Scores
    lang: str
    metadata: dict[str, str]


class CandidateRanks(ResultModel):
    """The rank of a candidate after each stage."""

    id: str
    title: str
    scores: _Scores
    ranks: dict[str, int | None]


class TraceContent(ResultModel):
    """What each stage did."""

    version: int | None = None
    stages: list[dict[str, Any]] | None = None
    dropped: list[dict[str, Any]] | None = None
    degraded: list[str] | None = None
    candidates: list[CandidateRanks] | None = None
    signs: dict[str, float] | None = None
    packing: dict[str, Any] | None = None
    suspicious: dict[str, list[str]] | None = None


class SearchResponse(_Scored):
    """Passages, best first."""

    probability: float | None
    query: str
    hits: list[SearchHit]
    timings_ms: dict[str, float]
    degraded: list[str]
    trace_id: str
    trace: TraceContent | None = None


class CitedPassage(_PassageRecord):
    """A passage that an answer cites."""

    marker: int
    ids: list[str]


class ContextPassage(CitedPassage):
    """A passage of a context."""

    spans: list[tuple[int, int]]
    tokens: int
    score: float
    reduced: bool


class ContextResponse(_Scored):
    """A text that fits the token budget."""

    probability: float | None
    question: str
    text: str
    tokens: int
    budget: int
    passages: list[ContextPassage]
    trace: dict[str, Any]
    trace_id: str


class AskResponse(_Scored):
    """An answer with its sources. `probability` is that of the answer being right, `certainty`
    the word for it; `confidence` is that of the search."""

    probability: float
    certainty: Certainty
    question: str
    answer: str
    answered_by: str
    query_type: str
    sources: list[str]
    citations: list[CitedPassage]
    entities: list[str]
    facts: list[str]
    cypher_query: str | None
    token_usage: dict[str, int]
    degraded: list[str]
    trace: TraceContent
    trace_id: str


class TraceResponse(_Scored):
    """The record of an earlier question."""

    probability: float | None
    id: str
    kind: Literal["search", "context", "ask"]
    at: float
    question: str
    query_type: str | None = None
    certainty: Certainty | None = None
    trace: TraceContent


class FeedbackResponse(ResultModel):
    """The verdict as it was saved."""

    store: str
    at: str
    verdict: Literal["right", "wrong"]
    passages: list[str]


class NodeMetrics(ResultModel):
    """Searches of knowledge nodes since the server started, and their cache of embeddings."""

    store: str
    searches: dict[str, dict[str, float]]
    cache_hits: int
    cache_misses: int
    cache_hit_rate: float


class NodeRecord(ResultModel):
    """A knowledge node; `band` and `scores` are those of a search."""

    node_id: int
    node_key: str
    node_type: str
    dataset_name: str
    title: str
    summary: str
    content_description: str
    content: str
    metadata: dict[str, Any]
    band: str | None = None
    scores: _Scores | None = None


class NodeList(ResultModel):
    """Knowledge nodes."""

    store: str
    query: str | None = None
    total: int | None = None
    offset: int | None = None
    nodes: list[NodeRecord]


class HealthResponse(ResultModel):
    """The state of the server."""

    status: str

"""What a request may say: one model a route, checked strictly, and the source of the OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from packwise.candidates import Expansion, Fusion, GraphRanking, Mode, PackingPolicy, Reranker
from packwise.serving.refusals import Refusal

MOST_HITS = 100
MOST_BUDGET = 200_000

_Model = TypeVar("_Model", bound=BaseModel)
_Short = Annotated[str, Field(max_length=512)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    store: _Short | None = Field(None, description="The store's name; the first one if none.")
    where: dict[_Short, _Short | Annotated[list[_Short], Field(max_length=100)]] = Field(
        default_factory=dict,
        max_length=16,
        description=(
            "Only passages of that `document` (one or several), `path` prefix, `lang`, `space`, "
            "`type` or metadata. `tenant` and `acl` come with the key."
        ),
    )
    mode: Mode = Field("hybrid", description="Which legs search.")
    fusion: Fusion | None = Field(None, description="How the legs are joined.")
    graph: GraphRanking | None = Field(
        None, description="Graph ranking; the server's setting if none."
    )
    rerank: Reranker | None = Field(None, description="Reranker; the server's setting if none.")


class SearchBody(_Body):
    """Find passages."""

    query: str = Field(min_length=1, description="What to look for.")
    k: int = Field(10, ge=1, le=MOST_HITS, description="How many passages.")
    alternatives: list[str] = Field(
        default_factory=list, max_length=8, description="Other phrasings, searched as well."
    )
    trace: bool = Field(False, description="Send the trace along.")


class ContextBody(_Body):
    """Pack passages into a budget."""

    question: str = Field(min_length=1, description="The question.")
    budget: int | None = Field(None, ge=0, le=MOST_BUDGET, description="Most tokens of the text.")
    policy: PackingPolicy | None = Field(None, description="How passages are chosen.")


class AskBody(_Body):
    """Answer a question."""

    question: str = Field(min_length=1, description="The question.")
    max_results: int = Field(5, ge=1, le=20, description="Articles the answer may draw on.")
    budget: int | None = Field(None, ge=0, le=MOST_BUDGET, description="Most tokens of context.")
    policy: PackingPolicy | None = Field(None, description="How passages are chosen.")
    expansion: Expansion | None = Field(
        None, description="Other phrasings: by the language model, or from the store itself."
    )
    threshold: float | None = Field(
        None, ge=0, le=1, description="Confidence below which the question is not answered."
    )
    extractive: bool = Field(
        False, description="Sentences of the documents; ask no language model."
    )
    stream: bool = Field(False, description="Send server-sent events.")


class ChatMessage(BaseModel):
    """A turn of a conversation; what else a client sends with it is ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class ChatBody(BaseModel):
    """The OpenAI protocol. What has no meaning here (temperature and the like) is ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    model: _Short = Field(description="The store's name.")
    messages: list[ChatMessage] = Field(min_length=1, max_length=256)
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: int | None = Field(None, ge=1, le=32_000)
    max_completion_tokens: int | None = Field(None, ge=1, le=32_000)
    n: Literal[1] | None = None


class NodesBody(BaseModel):
    """Find knowledge nodes."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    store: _Short | None = Field(None, description="The store's name; the first one if none.")
    tenant: _Short | None = Field(
        None, description="Whose nodes; only for a caller who sees every tenant."
    )
    query: str = Field(min_length=1, description="What to look for.")
    k: int = Field(20, ge=1, le=MOST_HITS, description="How many nodes.")
    types: list[_Short] = Field(
        default_factory=list[str], max_length=32, description="Only nodes of these types."
    )
    datasets: list[_Short] = Field(
        default_factory=list[str], max_length=32, description="Only nodes of these data sets."
    )
    bm25_weight: float = Field(0.4, ge=0, le=1, description="Weight of the words.")
    vector_weight: float = Field(0.6, ge=0, le=1, description="Weight of the meaning.")
    fusion: Fusion = Field("weighted", description="How the two are joined.")


def parsed(model: type[_Model], data: bytes) -> _Model:
    """A body as its model. Raises a 400 ``Refusal`` that names the field and what it takes."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:64] for part in first["loc"][:6])
        message = first["msg"] if first["type"] != "json_invalid" else "the body is not JSON"
        raise Refusal(
            400,
            "bad_request",
            f"{where}: {message}" if where else message,
            fix="GET /docs",
            param=where or None,
        ) from None

"""Request bodies and results of the routes that speak the OpenAI protocol.

Fields without a meaning here, such as ``temperature``, are ignored, so that clients work as they
are.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from packwise.serving.models import ShortText

_StoreModel = Annotated[ShortText, Field(description="Name of the store.")]
_Text = Annotated[str, Field(min_length=1, max_length=32_000)]
_Stream = Annotated[bool | None, Field(description="Send the answer as server-sent events.")]
_MostTokens = Annotated[
    int | None, Field(ge=1, le=32_000, description="Maximum length of the answer.")
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    model: _StoreModel


class ChatMessage(BaseModel):
    """One message of a conversation; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class ChatRequest(_Request):
    """A request of the OpenAI protocol. Fields without a meaning here, such as `temperature`,
    are ignored."""

    messages: list[ChatMessage] = Field(
        min_length=1,
        max_length=256,
        description="The conversation; the last message of the user is the question.",
    )
    stream: _Stream = None
    stream_options: dict[str, Any] | None = Field(
        None, description="`include_usage` adds the usage to the end of a stream."
    )
    max_tokens: int | None = Field(
        None, ge=1, le=32_000, description="The older name of `max_completion_tokens`."
    )
    max_completion_tokens: _MostTokens = None
    n: Literal[1] | None = Field(None, description="The number of answers.")


class ResponsesRequest(_Request):
    """A request of OpenAI's Responses protocol. Nothing is kept: send the earlier messages of a
    conversation in `input`. Fields without a meaning here are ignored."""

    input: str | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=256)] = Field(
        description="A question, or the messages of a conversation."
    )
    stream: _Stream = None
    max_output_tokens: _MostTokens = None
    previous_response_id: ShortText | None = Field(
        None, description="Not supported: send the earlier messages in `input`."
    )


class EmbeddingsRequest(_Request):
    """Texts to embed with the embedder of a store."""

    input: _Text | Annotated[list[_Text], Field(min_length=1, max_length=256)] = Field(
        description="One text, or several."
    )
    input_type: Literal["passage", "query"] = Field(
        "passage", description="Some models embed questions differently from passages."
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="How vectors are written."
    )
    dimensions: int | None = Field(None, description="The dimensions of the store, if given.")


class ModelRecord(BaseModel):
    """A store, as a model of the OpenAI protocol."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """The stores, as models of the OpenAI protocol."""

    object: Literal["list"] = "list"
    data: list[ModelRecord]


class ChatAnswer(BaseModel):
    """The message that answers a chat."""

    role: Literal["assistant"]
    content: str


class ChatChoice(BaseModel):
    """The one answer to a chat."""

    index: int
    message: ChatAnswer
    finish_reason: str


class ChatResponse(BaseModel):
    """An answer in the OpenAI protocol."""

    id: str
    object: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: dict[str, int]
    packwise: dict[str, Any]


class ResponsesResponse(BaseModel):
    """An answer in OpenAI's Responses protocol."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any]
    packwise: dict[str, Any]


class EmbeddingRecord(BaseModel):
    """A vector, as numbers or as little-endian 32-bit floats in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsResponse(BaseModel):
    """The vectors in the order of the texts, normalised to length 1."""

    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingRecord]
    usage: dict[str, int]

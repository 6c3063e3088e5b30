"""``/v1/chat/completions`` and ``/v1/models``: the OpenAI protocol."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import Response

from packwise.answering.answer import Answer
from packwise.errors import PackwiseError
from packwise.serving.api_errors import ApiError, api_error
from packwise.serving.conversation import Conversation, question_of, shown_text, tokens_used
from packwise.serving.openai_models import ChatRequest, ChatResponse, ModelList, ModelRecord
from packwise.serving.questions import EVENT_STREAM, HEARTBEAT, event, event_stream
from packwise.serving.state import CurrentRequest, Json, new_router
from packwise.serving.store_registry import ServedStore

router = new_router("openai")


@router.get("/v1/models", response_model=ModelList)
async def list_models(context: CurrentRequest) -> Response:
    """The stores, as models of the OpenAI protocol."""
    stores = list(context.state.stores)
    data = await context.state.workers.run(lambda: [_model(store) for store in stores])
    return Json(ModelList(data=data).model_dump())


@router.get("/v1/models/{id}", response_model=ModelRecord)
async def get_model(
    id: Annotated[str, Path(min_length=1, description="Name of the store.")],
    context: CurrentRequest,
) -> Response:
    """One store, as a model of the OpenAI protocol."""
    found = await context.state.workers.run(_model, context.open_store(id))
    return Json(found.model_dump())


def _model(store: ServedStore) -> ModelRecord:
    built = store.library.info().details.get("created_at", "")
    created = int(datetime.fromisoformat(built).timestamp()) if built else 0
    return ModelRecord(id=store.name, created=created, owned_by="packwise")


@router.post("/v1/chat/completions", response_model=ChatResponse, responses=EVENT_STREAM)
async def create_chat_completion(body: ChatRequest, context: CurrentRequest) -> Response:
    """Answer in the OpenAI protocol."""
    most = body.max_completion_tokens or body.max_tokens
    asked = Conversation.of(context, body.model, question_of(body.messages), most, "messages")
    if body.stream:
        context.state.workers.check_capacity()
        with_usage = bool((body.stream_options or {}).get("include_usage"))
        return event_stream(_chunks(asked, with_usage))
    answer = await asked.answer()
    text = shown_text(answer)
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return Json(
        {
            **_head(asked, "chat.completion"),
            "choices": [choice],
            "usage": _usage(answer, text),
            "packwise": asked.extra(answer),
        }
    )


def _head(asked: Conversation, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.store.name,
    }


async def _chunks(asked: Conversation, with_usage: bool) -> AsyncIterator[bytes]:
    head = _head(asked, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if with_usage else {}
        return event(None, {**head, "choices": [choice], **usage, **more})

    sent = ""
    try:
        yield chunk({"role": "assistant", "content": ""})
        async for piece in asked.pieces():
            if piece is None:
                yield HEARTBEAT
            elif isinstance(piece, str):
                sent += piece
                yield chunk({"content": piece})
            else:
                yield chunk({}, "stop", packwise=asked.extra(piece))
                if with_usage:
                    usage = _usage(piece, sent)
                    yield event(None, {**head, "choices": [], "usage": usage})
    except (ApiError, PackwiseError) as error:
        shown = api_error(error)
        assert shown is not None
        yield event(None, shown.as_openai_dict())
    yield b"data: [DONE]\n\n"


def _usage(answer: Answer, text: str) -> dict[str, int]:
    read, written = tokens_used(answer, text)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

"""``/v1/chat/completions`` and ``/v1/models``: the OpenAI protocol."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi.responses import Response

from packwise.answering.answer import Answer
from packwise.answering.synthesis import clean
from packwise.candidates import Filter
from packwise.errors import PackwiseError
from packwise.models.tokens import token_counter
from packwise.serving.api_errors import ApiError, api_error, bad_request
from packwise.serving.models import ChatMessage, ChatRequest, ChatResponse
from packwise.serving.questions import (
    EVENT_STREAM,
    HEARTBEAT,
    answer_record,
    ask_options,
    event,
    event_stream,
)
from packwise.serving.state import CurrentRequest, Json, RequestContext, new_router
from packwise.serving.store_registry import ServedStore

router = new_router()
# Words that refer to an earlier message.
_REFERENCE = re.compile(
    r"^\s*(?:and|but|so|then|what about|how about|why not)\b"
    r"|\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|there|one|ones)\b",
    re.IGNORECASE,
)
_COMPLETE_QUESTION = 12
"""A question of at least this many words is complete without an earlier one."""
# Images that a chat client would load by itself, and what it would turn into links or markup.
_IMAGE = re.compile(r"(!)\[(?=[^\]\n]*\]\()")
_MARKUP = re.compile(r"[\\`*\[\]<>]|(?<=!)\(")
_WEB_PAGE = re.compile(r"https?://\S+$", re.IGNORECASE)
_EXTRA = (
    "confidence probability certainty gate sources query_type answered_by degraded trace_id".split()
)


@router.get("/v1/models")
async def models(context: CurrentRequest) -> Response:
    """The stores, as models of the OpenAI protocol."""
    data = [
        {"id": store.name, "object": "model", "created": 0, "owned_by": "packwise"}
        for store in context.state.stores
    ]
    return Json({"object": "list", "data": data})


@router.post("/v1/chat/completions", response_model=ChatResponse, responses=EVENT_STREAM)
async def completions(body: ChatRequest, context: CurrentRequest) -> Response:
    """Answer in the OpenAI protocol."""
    state = context.state
    question = state.check_question(question_of(body.messages), "messages")
    store = context.open_store(body.model, question)
    options = ask_options(context.caller, context.caller.filter(Filter()))
    if (most := body.max_completion_tokens or body.max_tokens) is not None:
        options["max_tokens"] = most
    with_usage = bool((body.stream_options or {}).get("include_usage"))
    chat = _Completion(context, store, question, options, with_usage)
    if body.stream:
        state.workers.check_capacity()
        return event_stream(chat.chunks())
    answer = await state.workers.run(lambda: store.library.ask(question, **options))
    text = _without_images(answer.text) + _source_lines(answer)
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return Json(
        {
            **chat.head("chat.completion"),
            "choices": [choice],
            "usage": _usage(answer, text),
            "packwise": chat.extra(answer),
        }
    )


def question_of(messages: list[ChatMessage]) -> str:
    """The last user message, together with the one before it if it refers to that one."""
    texts = [_text(message) for message in messages if message.role == "user"]
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise bad_request("messages: there is no user message with text", param="messages")
    last = texts[-1]
    if len(texts) > 1 and len(last.split()) < _COMPLETE_QUESTION and _REFERENCE.search(last):
        return f"{texts[-2].strip()} {last.strip()}"
    return last


def _text(message: ChatMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = [part.get("text") for part in message.content or () if part.get("type") == "text"]
    return "\n".join(part for part in parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class _Completion:
    """A completion in progress."""

    context: RequestContext
    store: ServedStore
    question: str
    options: dict[str, Any]
    with_usage: bool

    def head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.store.name,
        }

    def extra(self, answer: Answer) -> dict[str, Any]:
        record = answer_record(self.context, self.store, answer)
        return {name: record[name] for name in _EXTRA}

    async def chunks(self) -> AsyncIterator[bytes]:
        head = self.head("chat.completion.chunk")

        def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            usage = {"usage": None} if self.with_usage else {}
            return event(None, {**head, "choices": [choice], **usage, **more})

        sent = ""
        library, workers = self.store.library, self.context.state.workers
        try:
            yield chunk({"role": "assistant", "content": ""})
            pieces = workers.stream(lambda: library.ask_stream(self.question, **self.options))
            async for piece in pieces:
                if piece is None:
                    yield HEARTBEAT
                    continue
                if isinstance(piece, str):
                    sent += piece
                    yield chunk({"content": _without_images(piece)})
                    continue
                tail = _source_lines(piece)
                if sent.strip() != piece.text.strip():
                    # What was sent cannot be taken back, so the new answer follows it.
                    text = _without_images(piece.text)
                    tail = f"\n\nThe answer broke off; this one replaces it:\n\n{text}{tail}"
                if tail:
                    yield chunk({"content": tail})
                yield chunk({}, "stop", packwise=self.extra(piece))
                if self.with_usage:
                    usage = _usage(piece, sent + tail)
                    yield event(None, {**head, "choices": [], "usage": usage})
        except (ApiError, PackwiseError) as error:
            shown = api_error(error)
            assert shown is not None
            yield event(None, shown.as_openai_dict())
        yield b"data: [DONE]\n\n"


def _source_lines(answer: Answer) -> str:
    """The cited passages as numbered lines under the answer."""
    lines: list[str] = []
    for citation in answer.citations:
        parts = dict.fromkeys(map(_escaped, [citation.title, *citation.section_path]))
        url = f" ({_escaped(citation.url)})" if _WEB_PAGE.match(citation.url) else ""
        lines.append(f"[{citation.marker}] {' > '.join(part for part in parts if part)}{url}")
    return "\n\nSources:\n" + "\n".join(lines) if lines else ""


def _without_images(text: str) -> str:
    """An answer for a client that renders Markdown: without control characters, and without
    images, which the client would load."""
    return _IMAGE.sub(r"\1\\[", clean(text))


def _escaped(text: str) -> str:
    """A title or URL on one line, with its markup escaped."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(clean(text).split()))


def _usage(answer: Answer, text: str) -> dict[str, int]:
    """The language model's own token counts; without a model, the tokens counted here."""
    if answer.usage.api_calls:
        read, written = answer.usage.input_tokens, answer.usage.output_tokens
    else:
        counter = token_counter("gpt-4o")
        read = counter.count(answer.question)
        if answer.context is not None:
            read += answer.context.tokens
        written = counter.count(text)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

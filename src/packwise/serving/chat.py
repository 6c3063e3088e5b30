"""``/v1/chat/completions`` and ``/v1/models``: the OpenAI protocol over the stores."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from packwise.answering.answer import Answer
from packwise.answering.synthesis import clean
from packwise.candidates import Filter
from packwise.errors import PackwiseError
from packwise.models.tokens import token_counter
from packwise.serving import sse
from packwise.serving.bodies import ChatBody, ChatMessage
from packwise.serving.callers import Caller
from packwise.serving.questions import answered
from packwise.serving.refusals import Refusal, refusal_of
from packwise.serving.state import Json, Serving, body, caller, note, serving
from packwise.serving.store_registry import ServedStore

# Words with which a question points at what was said before it.
_LEANING = re.compile(
    r"^\s*(?:and|but|so|then|what about|how about|why not)\b"
    r"|\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|there|one|ones)\b",
    re.IGNORECASE,
)
# What a chat client would load without being asked, and what it would make a link or markup of.
_PICTURE = re.compile(r"(!)\[(?=[^\]\n]*\]\()")
_MARKUP = re.compile(r"[\\`*\[\]<>]|(?<=!)\(")
_PAGE = re.compile(r"https?://\S+$", re.IGNORECASE)
_EXTRA = (
    "confidence",
    "probability",
    "gate",
    "sources",
    "query_type",
    "answered_by",
    "degraded",
    "trace_id",
)
_ALONE = 12
"""Words from which on a question is taken to stand alone."""


@dataclass(frozen=True, slots=True)
class _Chat:
    """One completion on its way."""

    state: Serving
    who: Caller
    store: ServedStore
    question: str
    how: dict[str, Any]
    with_usage: bool

    def head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.store.name,
        }


async def models(request: Request) -> Response:
    """The stores, as models."""
    state = serving(request)
    return Json(
        {
            "object": "list",
            "data": [
                {"id": store.name, "object": "model", "created": 0, "owned_by": "packwise"}
                for store in state.stores
            ],
        }
    )


async def completions(request: Request) -> Response:
    """An answer from the store the model names."""
    state, who = serving(request), caller(request)
    asked = await body(request, ChatBody)
    store = state.stores.get(asked.model)
    question = state.check_question(question_of(asked.messages), "messages")
    note(request, store=store.name, characters=len(question))
    if state.log.questions:
        note(request, question=question)
    how: dict[str, Any] = {"where": who.filter(Filter())}
    if who.restricted:
        how["few_shot"] = False
    most = asked.max_completion_tokens or asked.max_tokens
    if most is not None:
        how["max_tokens"] = most
    with_usage = bool((asked.stream_options or {}).get("include_usage"))
    chat = _Chat(state, who, store, question, how, with_usage)
    if asked.stream:
        state.work.check_room()
        return StreamingResponse(_chunks(chat), media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)
    answer = await state.work.run(lambda: store.library.ask(question, **how))
    text = _plain(answer.text) + _sources(answer)
    return Json(
        {
            **chat.head("chat.completion"),
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": _usage(answer, text),
            "packwise": _extra(chat, answer),
        }
    )


def question_of(messages: list[ChatMessage]) -> str:
    """The last user message; together with the one before it when it leans on that."""
    said = [_text(message) for message in messages if message.role == "user"]
    said = [text for text in said if text.strip()]
    if not said:
        raise Refusal(400, "bad_request", "messages: no user message with text", param="messages")
    last = said[-1]
    if len(said) > 1 and len(last.split()) < _ALONE and _LEANING.search(last):
        return f"{said[-2].strip()} {last.strip()}"
    return last


def _text(message: ChatMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = [part.get("text") for part in message.content or () if part.get("type") == "text"]
    return "\n".join(part for part in parts if isinstance(part, str))


async def _chunks(chat: _Chat) -> AsyncIterator[bytes]:
    head = chat.head("chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if chat.with_usage else {}
        return sse.event(None, {**head, "choices": [choice], **usage, **more})

    said: list[str] = []
    library, state = chat.store.library, chat.state
    try:
        yield chunk({"role": "assistant", "content": ""})
        async for piece in state.work.stream(lambda: library.ask_stream(chat.question, **chat.how)):
            if piece is None:
                yield sse.WAITING
                continue
            if isinstance(piece, str):
                said.append(piece)
                yield chunk({"content": _plain(piece)})
                continue
            tail = _sources(piece)
            if "".join(said).strip() != piece.text.strip():
                # What was sent cannot be taken back; what replaces it is said after it.
                tail = (
                    f"\n\nThe answer broke off; this one replaces it:\n\n{_plain(piece.text)}{tail}"
                )
            if tail:
                yield chunk({"content": tail})
            yield chunk({}, "stop", packwise=_extra(chat, piece))
            if chat.with_usage:
                usage = _usage(piece, "".join(said) + tail)
                yield sse.event(None, {**head, "choices": [], "usage": usage})
    except (Refusal, PackwiseError) as error:
        told = error if isinstance(error, Refusal) else refusal_of(error)
        kind = "server_error" if told.status >= 500 else "invalid_request_error"
        detail = {"message": told.message, "type": kind, "param": None, "code": told.code}
        yield sse.event(None, {"error": detail})
    yield b"data: [DONE]\n\n"


def _sources(answer: Answer) -> str:
    """The cited passages as numbered lines under the answer."""
    lines: list[str] = []
    for citation in answer.citations:
        parts = dict.fromkeys(map(_words, [citation.title, *citation.section_path]))
        where = f" ({_words(citation.url)})" if _PAGE.match(citation.url) else ""
        lines.append(f"[{citation.marker}] {' > '.join(part for part in parts if part)}{where}")
    return "\n\nSources:\n" + "\n".join(lines) if lines else ""


def _plain(text: str) -> str:
    """An answer for a client that shows Markdown: no control characters, and a picture that a
    document names is not one to load."""
    return _PICTURE.sub(r"\1\\[", clean(text))


def _words(text: str) -> str:
    """A title or address of a document on one line, with its markup shown, not followed."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(clean(text).split()))


def _usage(answer: Answer, text: str) -> dict[str, int]:
    """What the language model counted; without one, the tokens read and written here."""
    if answer.usage.api_calls:
        read, written = answer.usage.input_tokens, answer.usage.output_tokens
    else:
        counter = token_counter("gpt-4o")
        read = counter.count(answer.question)
        if answer.context is not None:
            read += answer.context.tokens
        written = counter.count(text)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _extra(chat: _Chat, answer: Answer) -> dict[str, Any]:
    record = answered(chat.state, chat.who, chat.store, answer)
    return {name: record[name] for name in _EXTRA}

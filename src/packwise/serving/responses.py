"""``/v1/responses``: OpenAI's Responses protocol."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi.responses import Response
from pydantic import ValidationError

from packwise.answering.answer import Answer
from packwise.errors import PackwiseError
from packwise.serving.api_errors import ApiError, api_error, bad_request
from packwise.serving.conversation import (
    Conversation,
    is_web_page,
    question_of,
    shown_text,
    tokens_used,
)
from packwise.serving.openai_models import ChatMessage, ResponsesRequest, ResponsesResponse
from packwise.serving.questions import EVENT_STREAM, HEARTBEAT, event, event_stream
from packwise.serving.state import CurrentRequest, Json, new_router

router = new_router("openai")
_MARKER = re.compile(r"\[(\d+)\]")


@router.post("/v1/responses", response_model=ResponsesResponse, responses=EVENT_STREAM)
async def create_response(body: ResponsesRequest, context: CurrentRequest) -> Response:
    """Answer in OpenAI's Responses protocol."""
    if body.previous_response_id is not None:
        raise bad_request(
            "previous_response_id: no response is kept; send the earlier messages in input",
            param="previous_response_id",
        )
    question = body.input if isinstance(body.input, str) else _question_of(body.input)
    asked = Conversation.of(context, body.model, question, body.max_output_tokens, "input")
    shown = _Shown(asked, body.max_output_tokens)
    if body.stream:
        context.state.workers.check_capacity()
        return event_stream(shown.events())
    answer = await asked.answer()
    return Json(shown.completed(answer, shown_text(answer)))


def _question_of(items: list[dict[str, Any]]) -> str:
    """The question of a list of items; those that are not messages say nothing."""
    try:
        messages = [ChatMessage.model_validate(item) for item in items if "role" in item]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise bad_request(f"input.{where}: {first['msg']}", param="input") from None
    return question_of(messages, "input")


@dataclass(slots=True)
class _Shown:
    """A response as JSON, whole or as a stream of events."""

    asked: Conversation
    most: int | None
    id: str = field(default_factory=lambda: f"resp_{secrets.token_hex(16)}")
    message_id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time.time()))
    sent: int = 0

    def response(self, status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": self.most,
            "model": self.asked.store.name,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "truncation": "disabled",
            "usage": None,
            "metadata": {},
            **more,
        }

    def message(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "type": "message",
            "id": self.message_id,
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def completed(self, answer: Answer, text: str) -> dict[str, Any]:
        read, written = tokens_used(answer, text)
        part = _part(text, _annotations(answer, text))
        return self.response(
            "completed",
            [self.message("completed", [part])],
            usage={
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": written,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": read + written,
            },
            packwise=self.asked.extra(answer),
        )

    def event(self, kind: str, **values: Any) -> bytes:
        number, self.sent = self.sent, self.sent + 1
        return event(kind, {"type": kind, "sequence_number": number, **values})

    async def events(self) -> AsyncIterator[bytes]:
        place = {"item_id": self.message_id, "output_index": 0, "content_index": 0}
        text = ""
        try:
            started = self.response("in_progress", [])
            yield self.event("response.created", response=started)
            yield self.event("response.in_progress", response=started)
            item = self.message("in_progress", [])
            yield self.event("response.output_item.added", output_index=0, item=item)
            yield self.event("response.content_part.added", **place, part=_part("", []))
            async for piece in self.asked.pieces():
                if piece is None:
                    yield HEARTBEAT
                elif isinstance(piece, str):
                    text += piece
                    yield self.event(
                        "response.output_text.delta", **place, delta=piece, logprobs=[]
                    )
                else:
                    done = self.completed(piece, text)
                    (message,) = done["output"]
                    (part,) = message["content"]
                    for number, note in enumerate(part["annotations"]):
                        yield self.event(
                            "response.output_text.annotation.added",
                            **place,
                            annotation_index=number,
                            annotation=note,
                        )
                    yield self.event("response.output_text.done", **place, text=text, logprobs=[])
                    yield self.event("response.content_part.done", **place, part=part)
                    yield self.event("response.output_item.done", output_index=0, item=message)
                    yield self.event("response.completed", response=done)
        except (ApiError, PackwiseError) as error:
            shown = api_error(error)
            assert shown is not None
            yield self.event("error", code=shown.code, message=shown.message, param=shown.param)


def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _annotations(answer: Answer, text: str) -> list[dict[str, Any]]:
    """One citation for each mark in the text that has a source."""
    cited = {citation.marker: citation for citation in answer.citations}
    found: list[dict[str, Any]] = []
    for mark in _MARKER.finditer(text):
        citation = cited.get(int(mark[1]))
        if citation is None:
            continue
        title = citation.title or citation.document
        if is_web_page(citation.url):
            place = {"start_index": mark.start(), "end_index": mark.end()}
            found.append({"type": "url_citation", **place, "title": title, "url": citation.url})
        else:
            file = {"file_id": citation.document, "filename": title}
            found.append({"type": "file_citation", **file, "index": mark.start()})
    return found

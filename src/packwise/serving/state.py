"""What the routes share, and what each of them does first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from packwise.serving.bodies import parsed
from packwise.serving.callers import Caller
from packwise.serving.keys import KeyRing
from packwise.serving.limits import Limits, RateLimiter
from packwise.serving.logs import Log
from packwise.serving.metrics import Metrics
from packwise.serving.refusals import Refusal
from packwise.serving.store_registry import Served
from packwise.serving.telemetry import Telemetry
from packwise.serving.traces import TraceShelf
from packwise.serving.worker_pool import Workroom

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(slots=True)
class Serving:
    """One server's stores, limits and records. ``keys`` is ``None`` when none are asked for."""

    stores: Served
    limits: Limits
    keys: KeyRing | None
    rates: RateLimiter
    traces: TraceShelf
    metrics: Metrics
    log: Log
    telemetry: Telemetry
    work: Workroom
    report: Path | None = None
    ready: bool = False

    def check_question(self, text: str, name: str = "question") -> str:
        """The text, if it asks something and is not too long."""
        if len(text) > self.limits.question:
            raise Refusal(
                400,
                "question_too_long",
                f"{name} has {len(text)} characters; at most {self.limits.question} are read",
                param=name,
            )
        if not text.strip():
            raise Refusal(400, "bad_request", f"{name} is empty", param=name)
        return text


class Json(Response):
    """A JSON answer; what a document holds can neither break it nor leave it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def serving(request: Request) -> Serving:
    """The server a request came to."""
    state: Serving = request.app.state.serving
    return state


def caller(request: Request) -> Caller:
    """Who sent it, as the gate found out."""
    who: Caller = request.scope["packwise.caller"]
    return who


async def body(request: Request, model: type[_Model]) -> _Model:
    """The request's body as its model, read within the limits."""
    limits = serving(request).limits
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            415, "not_json", "the body is JSON", fix="send Content-Type: application/json"
        )
    try:
        data = await _read(request, limits.body_bytes)
    except ClientDisconnect:
        raise Refusal(400, "gone", "the client left") from None
    return parsed(model, data)


async def _read(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:18]) > most:
        raise _too_large(most)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise _too_large(most)
    return bytes(data)


def _too_large(most: int) -> Refusal:
    return Refusal(
        413,
        "body_too_large",
        f"the body is larger than {most} bytes",
        headers={"Connection": "close"},
    )


def note(request: Request, **values: Any) -> None:
    """Put something into this request's line of the log."""
    request.scope["packwise.notes"].update(values)

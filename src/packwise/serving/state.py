"""What the routes of a server share: its state, its JSON format and how a body is read."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Coroutine
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from packwise.serving.api_errors import ApiError, bad_request
from packwise.serving.build_jobs import BuildJobs
from packwise.serving.callers import Caller
from packwise.serving.keys import KeyRing
from packwise.serving.limits import Limits, RateLimiter
from packwise.serving.models import ErrorResponse
from packwise.serving.observability import Log, Metrics, Telemetry
from packwise.serving.shared_state import SharedState
from packwise.serving.store_registry import ServedStore, StoreRegistry
from packwise.serving.worker_pool import WorkerPool


class TraceStore:
    """Keeps the last ``capacity`` traces, each for the caller who caused it.

    Safe to use from several threads.
    """

    def __init__(self, capacity: int, shared: SharedState) -> None:
        self._capacity = capacity
        self._shared = shared

    def add(self, caller: Caller, kind: str, store: str, content: dict[str, Any]) -> str:
        """Keep a trace; returns its id, which cannot be guessed."""
        name = secrets.token_urlsafe(16)
        record = {"id": name, "kind": kind, "store": store, "at": round(time.time(), 3), **content}
        row = (name, _owner(caller), json.dumps(record))
        with self._shared.changing() as database:
            added = database.execute(
                "INSERT INTO traces (id, owner, record) VALUES (?, ?, ?)", row
            ).lastrowid
            assert added is not None
            database.execute("DELETE FROM traces WHERE at <= ?", (added - self._capacity,))
        return name

    def get(self, caller: Caller, name: str) -> dict[str, Any] | None:
        """The trace with that id, if it is this caller's."""
        with self._shared.reading() as database:
            found = database.execute(
                "SELECT record FROM traces WHERE id = ? AND owner = ?", (name, _owner(caller))
            ).fetchone()
        return json.loads(found[0]) if found else None

    def __len__(self) -> int:
        with self._shared.reading() as database:
            return database.execute("SELECT count(*) FROM traces").fetchone()[0]


def _owner(caller: Caller) -> str:
    return json.dumps(astuple(caller))


@dataclass(slots=True)
class ServerState:
    """One server's stores, limits and records. ``keys`` is ``None`` if no key is required.
    ``origins`` are the other sites whose pages may call it."""

    stores: StoreRegistry
    limits: Limits = field(default_factory=Limits)
    keys: KeyRing | None = None
    log: Log = field(default_factory=Log)
    telemetry: Telemetry = field(default_factory=Telemetry)
    report: Path | None = None
    origins: tuple[str, ...] = ()
    shared: SharedState = field(default_factory=SharedState)
    ready: bool = False
    rates: RateLimiter = field(init=False)
    traces: TraceStore = field(init=False)
    metrics: Metrics = field(init=False)
    workers: WorkerPool = field(init=False)
    builds: BuildJobs | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # Without keys there is one user, whose rate is not limited.
        rate = 0.0 if self.keys is None else self.limits.rate
        self.rates = RateLimiter(rate, self.limits.burst, shared=self.shared)
        self.traces = TraceStore(self.limits.traces, self.shared)
        self.metrics = Metrics(self.shared.metrics_folder)
        self.workers = WorkerPool(self.limits)
        if (workspace := self.stores.workspace) is not None:
            self.builds = BuildJobs(workspace.jobs, self.log)

    def check_question(self, text: str, name: str = "question") -> str:
        """The text, if it is neither blank nor too long."""
        if len(text) > self.limits.question:
            raise ApiError(
                400,
                "question_too_long",
                f"{name} has {len(text)} characters; the limit is {self.limits.question}",
                param=name,
            )
        if not text.strip():
            raise bad_request(f"{name} is empty", param=name)
        return text

    def close(self) -> None:
        """Wait for running work, then close the stores."""
        if self.builds is not None:
            self.builds.close()
        self.workers.close()
        self.telemetry.close()
        self.stores.close()
        self.shared.close()


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request: the server it came to, who sent it, and its notes for the log."""

    state: ServerState
    caller: Caller
    notes: dict[str, Any]

    def open_store(self, name: str | None, question: str | None = None) -> ServedStore:
        """The store of that name, noted in the request's log line along with the question."""
        store = self.state.stores.get(name)
        self.notes["store"] = store.name
        if question is not None:
            self.notes["characters"] = len(question)
            if self.state.log.questions:
                self.notes["question"] = question
        return store


async def _request_context(request: Request) -> RequestContext:
    scope = request.scope
    return RequestContext(
        request.app.state.serving, scope["packwise.caller"], scope["packwise.notes"]
    )


CurrentRequest = Annotated[RequestContext, Depends(_request_context)]


class Json(JSONResponse):
    """A JSON response; characters that UTF-8 cannot encode are replaced."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


class _JsonRequest(Request):
    """A request whose body must be JSON and within the size limit."""

    async def body(self) -> bytes:
        if not hasattr(self, "_checked_body"):
            self._checked_body = await self._read()
        return self._checked_body

    async def json(self) -> Any:
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError:
            raise bad_request("the body is not valid JSON", fix="GET /docs") from None

    async def _read(self) -> bytes:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(
                415, "not_json", "the body must be JSON", fix="send Content-Type: application/json"
            )
        limit = self.app.state.serving.limits.body_bytes
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:18]) > limit:
            raise _too_large(limit)
        data = bytearray()
        try:
            async for chunk in self.stream():
                data += chunk
                if len(data) > limit:
                    raise _too_large(limit)
        except ClientDisconnect:
            raise ApiError(400, "gone", "the client closed the connection") from None
        if not data:
            raise bad_request("the body is empty", fix="GET /docs")
        return bytes(data)


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413,
        "body_too_large",
        f"the body is larger than {limit} bytes",
        headers={"Connection": "close"},
    )


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_JsonRequest(request.scope, request.receive))

        return handle


_ERRORS = {
    400: "A field is missing, unknown or out of range.",
    401: "An API key is required.",
    403: "The caller may not do this, or the request comes from a page of another site.",
    404: "It does not exist, or it belongs to another tenant.",
    405: "The method is not allowed.",
    408: "The body did not arrive in time.",
    409: "Another change of the packs is running.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not answer to this host name.",
    429: "The key has sent too many requests.",
    501: "The store has no knowledge nodes.",
    503: "Too many requests are waiting, or a store is unavailable.",
    504: "The answer was not ready in time.",
}


def new_router(tag: str) -> APIRouter:
    """A router for a group of routes, with the errors that any of them can return. Generated
    clients call the operations by the names of the functions."""
    return APIRouter(
        route_class=_Route,
        default_response_class=Json,
        tags=[tag],
        generate_unique_id_function=lambda route: route.name,
        responses={
            status: {"model": ErrorResponse, "description": text}
            for status, text in _ERRORS.items()
        },
    )

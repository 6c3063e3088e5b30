"""The middleware around every request: API key, rate limit, errors, headers, log.

It is the outermost layer. Whatever happens inside, the caller gets a status and one line of
text, the log gets one event, and every response has the headers that protect a browser.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from packwise.errors import PackwiseError
from packwise.serving.api_errors import ApiError, api_error, unavailable
from packwise.serving.callers import LOCAL, Caller
from packwise.serving.cross_origin import is_allowed
from packwise.serving.fair_queue import SENDER, Sender
from packwise.serving.keys import is_loopback
from packwise.serving.observability import RequestSpan
from packwise.serving.state import Json, ServerState

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_OPENAI = ("/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/models")


class _SlowReader(Exception):
    """The client did not read the response in time."""


class RequestMiddleware:
    """ASGI middleware. ``route_of`` gives the route of a request, ``needs_key`` whether that
    route needs a key."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        state: ServerState,
        route_of: Callable[[Scope], str],
        needs_key: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._state = state
        self._route_of = route_of
        self._needs_key = needs_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A HEAD request is answered as GET; the server leaves out the body.
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        route = self._route_of(inner)
        handling = _Handling(self._state, inner, receive, send)
        await handling.run(self._app, route, scope["method"], self._needs_key(route))


@dataclass(slots=True)
class _Handling:
    """The handling of one request."""

    state: ServerState
    scope: Scope
    receive: Receive
    send: Send
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    status: int = 0
    sent: int = 0
    error_code: str | None = None
    body_read: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    watching: asyncio.Task[None] | None = None
    started: float = field(default_factory=time.perf_counter)
    span: RequestSpan = field(default_factory=RequestSpan)

    @property
    def headers(self) -> Headers:
        return Headers(scope=self.scope)

    async def run(self, app: ASGIApp, route: str, method: str, needs_key: bool) -> None:
        state, scope = self.state, self.scope
        scope["packwise.notes"] = {}
        scope["packwise.caller"] = LOCAL
        method = method if method in _METHODS else "_OTHER"
        try:
            with state.telemetry.request(method, route, self.headers) as self.span:
                try:
                    self._check_host(method)
                    if needs_key:
                        scope["packwise.caller"] = self._caller()
                        self._check_rate(scope["packwise.caller"])
                    SENDER.set(Sender(scope["packwise.caller"].key, self.gone))
                    await app(scope, self._receive_in_time, self._send_in_time)
                except _SlowReader:
                    self.error_code = "slow_reader"
                except Exception as error:  # noqa: BLE001 - the last place to answer it
                    await self._send_error(self._shown(error))
                self.span.end(self.status or 499, self.error_code, scope["packwise.notes"])
        finally:
            if self.watching is not None:
                self.watching.cancel()
            self._report(route, method, time.perf_counter() - self.started)

    def _report(self, route: str, method: str, seconds: float) -> None:
        state, caller = self.state, self.scope["packwise.caller"]
        status = self.status or 499
        state.metrics.requests.labels(route=route, method=method, status=status).inc()
        state.metrics.request_seconds.labels(route=route).observe(seconds)
        if self.error_code:
            state.metrics.refused.labels(code=self.error_code).inc()
        state.log.write(
            "request",
            id=self.id,
            trace_id=self.span.trace_id or None,
            span_id=self.span.span_id or None,
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 3),
            bytes=self.sent,
            key=caller.key or None,
            tenant=caller.tenant or None,
            code=self.error_code,
            **self.scope["packwise.notes"],
        )

    def _check_host(self, method: str) -> None:
        """Without keys, accept only requests to this machine's own name: a page elsewhere could
        make its own name resolve to this machine."""
        if self.state.keys is not None:
            return
        host = self.headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if not is_loopback(name.strip("[]")):
            raise ApiError(421, "wrong_host", "this server answers to localhost only")
        origin = self.headers.get("origin", "")
        if method == "GET" or is_allowed(origin, self.state.origins):
            return
        site = self.headers.get("sec-fetch-site", "none")
        # Browsers that do not send the first header send the second.
        elsewhere = origin and not is_loopback(_host(origin))
        if site not in ("none", "same-origin") or elsewhere:
            raise ApiError(403, "cross_site", "requests from pages of other sites are refused")

    def _caller(self) -> Caller:
        keys = self.state.keys
        if keys is None:
            return LOCAL
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else ""
        try:
            found = keys.caller_of(token or self.headers.get("x-api-key", ""))
        except PackwiseError as error:
            self._log_failure(str(error))
            raise unavailable("keys_unavailable", "API keys cannot be checked", 5) from None
        if found is None:
            raise ApiError(
                401,
                "no_key",
                "an API key is required",
                fix="send Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found

    def _check_rate(self, caller: Caller) -> None:
        if wait := self.state.rates.take(caller.key):
            raise ApiError(
                429,
                "too_many",
                "this key has sent too many requests",
                fix=f"wait {wait} s",
                headers={"Retry-After": str(wait)},
            )

    def _shown(self, error: Exception) -> ApiError:
        """The error as the caller sees it; the rest goes to the log."""
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        shown = api_error(error)
        if shown is None:
            self._log_failure(f"{type(error).__name__}: {error}", at=_places(error))
            return ApiError(500, "internal", "internal error; see the server's log")
        if isinstance(error, PackwiseError) and shown.status_code >= 500:
            self._log_failure(str(error))
        return shown

    def _log_failure(self, reason: str, **values: Any) -> None:
        trace_id = self.span.trace_id or None
        self.state.log.write(
            "failed", "error", id=self.id, trace_id=trace_id, reason=reason, **values
        )

    async def _send_error(self, error: ApiError) -> None:
        self.error_code = error.code
        if self.status:
            return  # The response has begun and can only be ended.
        openai = self.scope["path"].startswith(_OPENAI)
        content = error.as_openai_dict() if openai else error.as_dict()
        response = Json(content, status_code=error.status_code, headers=error.headers)
        try:
            await response(self.scope, self.receive, self._send_in_time)
        except _SlowReader:
            self.error_code = "slow_reader"

    async def _receive_in_time(self) -> Message:
        """The next message from the client; the whole body must arrive within the limit."""
        if self.body_read:
            return await self.receive()
        limits, upload = self.state.limits, self.scope["method"] == "PUT"
        seconds = limits.upload_seconds if upload else limits.body_seconds
        left = self.started + seconds - time.perf_counter()
        try:
            message = await asyncio.wait_for(self.receive(), max(0.0, left))
        except TimeoutError:
            raise ApiError(
                408, "slow_body", "the body did not arrive in time", headers={"Connection": "close"}
            ) from None
        self.body_read = message["type"] != "http.request" or not message.get("more_body", False)
        if self.body_read:
            self.watching = asyncio.create_task(self._watch())
        return message

    async def _watch(self) -> None:
        """Notice when the client leaves: after the body, nothing else can arrive."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    async def _send_in_time(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        else:
            self.sent += len(message.get("body", b""))
        try:
            await asyncio.wait_for(self.send(message), self.state.limits.write_seconds)
        except TimeoutError:
            raise _SlowReader from None


def _host(origin: str) -> str:
    """The host of an origin; empty if there is none, as for a sandboxed page."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def _places(error: BaseException) -> list[str]:
    """Where the error happened: module and line of the innermost frames, for the log."""
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "?")
        places.append(f"{module}:{trace.tb_lineno}")
        trace = trace.tb_next
    return places[-6:]

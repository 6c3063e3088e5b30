"""The gate every request goes through: who is it, may they, and what became of it.

It is the outermost layer: whatever happens inside, the caller gets a status and one line,
the log gets one event, and no answer leaves without the headers that keep a browser safe.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from packwise.errors import PackwiseError
from packwise.serving.callers import LOCAL, Caller
from packwise.serving.keys import is_loopback
from packwise.serving.refusals import Refusal, refusal_of
from packwise.serving.state import Json, Serving

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_SAFE = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
OPENAI = "/v1/chat/completions"


class SlowReader(Exception):
    """The client did not take what it was sent."""


class Gate:
    """ASGI middleware. ``route_of`` names the route of a scope; ``open_to_all`` says whether
    one needs no key."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        state: Serving,
        route_of: Callable[[Scope], str],
        open_to_all: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._state = state
        self._route_of = route_of
        self._open_to_all = open_to_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await _Passage(self._state, scope, receive, send).through(
            self._app, self._route_of(scope), self._open_to_all
        )


class _Passage:
    """One request on its way through."""

    def __init__(self, state: Serving, scope: Scope, receive: Receive, send: Send) -> None:
        self._state = state
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers = Headers(scope=scope)
        self._id = secrets.token_hex(8)
        self._status = 0
        self._sent = 0
        self._code: str | None = None
        self._body_read = False
        self._body_due = asyncio.get_running_loop().time() + state.limits.body_seconds

    async def through(self, app: ASGIApp, route: str, open_to_all: Callable[[str], bool]) -> None:
        state, scope = self._state, self._scope
        started = time.perf_counter()
        notes: dict[str, Any] = {}
        scope["packwise.notes"] = notes
        scope["packwise.caller"] = LOCAL
        try:
            with state.telemetry.request(route, self._headers):
                try:
                    self._check_host()
                    if not open_to_all(route):
                        scope["packwise.caller"] = self._caller()
                        self._check_rate(scope["packwise.caller"])
                    await app(scope, self._in, self._out)
                except SlowReader:
                    self._code = "slow_reader"
                except Exception as error:  # noqa: BLE001 - the last place that can answer it
                    await self._refuse(self._told(error))
        finally:
            seconds = time.perf_counter() - started
            status = str(self._status or 499)
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            state.metrics.count(
                "packwise_requests_total", route=route, method=method, status=status
            )
            state.metrics.observe("packwise_request_seconds", seconds, route=route)
            if self._code:
                state.metrics.count("packwise_refused_total", code=self._code)
            who: Caller = scope["packwise.caller"]
            state.log.write(
                "request",
                id=self._id,
                method=method,
                route=route,
                status=int(status),
                ms=round(seconds * 1000, 3),
                bytes=self._sent,
                key=who.key or None,
                tenant=who.tenant or None,
                code=self._code,
                **notes,
            )

    def _check_host(self) -> None:
        """Without keys, only a browser that was pointed at this machine by its own name is
        let in: a page elsewhere could have its name resolve to here."""
        if self._state.keys is not None:
            return
        host = self._headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if not is_loopback(name.strip("[]")):
            raise Refusal(421, "wrong_host", "this server answers to localhost")
        site = self._headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and self._scope["method"] != "GET":
            raise Refusal(403, "cross_site", "another site's page may not ask here")

    def _caller(self) -> Caller:
        keys = self._state.keys
        if keys is None:
            return LOCAL
        kind, _, token = self._headers.get("authorization", "").partition(" ")
        token = token.strip() if kind.lower() == "bearer" else ""
        try:
            found = keys.caller_of(token or self._headers.get("x-api-key", ""))
        except PackwiseError as error:
            self._state.log.write("failed", "error", id=self._id, reason=str(error))
            raise Refusal(
                503, "keys_unavailable", "keys cannot be checked", headers={"Retry-After": "5"}
            ) from None
        if found is None:
            raise Refusal(
                401,
                "no_key",
                "an API key is needed",
                fix="send Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found

    def _check_rate(self, who: Caller) -> None:
        wait = self._state.rates.take(who.key)
        if wait:
            raise Refusal(
                429,
                "too_many",
                "this key has asked too often",
                fix=f"wait {wait} s",
                headers={"Retry-After": str(wait)},
            )

    def _told(self, error: Exception) -> Refusal:
        """What the caller is told; what they are not goes to the log."""
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, Refusal):
            return error
        if isinstance(error, HTTPException):
            words = HTTPStatus(error.status_code).phrase.lower()
            code = words.replace(" ", "_").replace("'", "")
            return Refusal(error.status_code, code, words, headers=error.headers or {})
        if isinstance(error, PackwiseError):
            told = refusal_of(error)
            if told.status >= 500:
                self._state.log.write("failed", "error", id=self._id, reason=str(error))
            return told
        self._state.log.write(
            "failed", "error", id=self._id, reason=f"{type(error).__name__}: {error}", at=_at(error)
        )
        return Refusal(500, "internal", "something went wrong here; the server's log says what")

    async def _refuse(self, refusal: Refusal) -> None:
        self._code = refusal.code
        if self._status:
            return  # The answer has begun; all that is left is to end it.
        content = refusal.as_dict()
        if self._scope["path"] == OPENAI:
            kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
            content = {
                "error": {
                    "message": refusal.message,
                    "type": kind,
                    "param": refusal.param,
                    "code": refusal.code,
                }
            }
        answer = Json(content, status_code=refusal.status, headers=refusal.headers)
        try:
            await answer(self._scope, self._receive, self._out)
        except SlowReader:
            self._code = "slow_reader"

    async def _in(self) -> Message:
        """What the client sends; its whole body is due within the limit."""
        if self._body_read:
            return await self._receive()
        left = self._body_due - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, left))
        except TimeoutError:
            raise Refusal(
                408, "slow_body", "the body did not arrive in time", headers={"Connection": "close"}
            ) from None
        self._body_read = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def _out(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._id
            for name, value in _SAFE.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        else:
            self._sent += len(message.get("body", b""))
        try:
            await asyncio.wait_for(self._send(message), self._state.limits.write_seconds)
        except TimeoutError:
            raise SlowReader from None


_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def _at(error: BaseException) -> list[str]:
    """Where it happened: module and line, innermost last. The log's only trace of code."""
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "?")
        places.append(f"{module}:{trace.tb_lineno}")
        trace = trace.tb_next
    return places[-6:]

"""A local server that speaks Anthropic's Messages API and OpenAI's chat completions.

Tests script what it answers; it records what it was asked. Both protocols know streaming.

    with ModelServer() as server:
        server.will(text("Paris [1]."), status(429))
        ... point ANTHROPIC_BASE_URL at server.url ...
        server.requests[0].body["model"]
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
CHAT = "/v1/chat/completions"

Reply = Callable[["_Handler", dict[str, Any]], None]


@dataclass(frozen=True)
class Request:
    """What the server was asked; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any] = field(repr=False)

    @property
    def prompt(self) -> str:
        return self.body["messages"][-1]["content"]

    @property
    def system(self) -> str:
        first = self.body["messages"][0]
        return first["content"] if first["role"] == "system" else self.body.get("system", "")


KEY = "sk-ant-secret-0123456789"
"""What tests send as their key; it must never show up in a message or a log."""


class ModelServer:
    """Answers with the scripted replies in turn; the last one is repeated."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._replies: list[Reply] = [text("Yes.")]
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = False
        self._server.model = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def will(self, *replies: Reply) -> None:
        self._replies = list(replies)

    def take(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def text(said: str, *, given: int = 11, made: int = 7, stop: str = "end", pieces: int = 3) -> Reply:
    """An ordinary answer, whole or streamed, as the request asks for."""

    def reply(handler: _Handler, body: dict[str, Any]) -> None:
        chat = handler.path == CHAT
        if body.get("stream"):
            make = _chat_events if chat else _message_events
            handler.events(make(said, given, made, stop, pieces))
        else:
            make = _chat_reply if chat else _message_reply
            handler.json(200, make(said, given, made, stop))

    return reply


def tool(value: object, *, given: int = 11, made: int = 7, stop: str = "tool_use") -> Reply:
    """An answer through the tool that the request offers."""

    def reply(handler: _Handler, body: dict[str, Any]) -> None:
        said = _message_reply("", given, made, stop)
        used = {"type": "tool_use", "id": "toolu_1", "name": "record", "input": value}
        handler.json(200, {**said, "content": [used]})

    return reply


def counted(count: Callable[[str], int]) -> Reply:
    """The count of a text, as the counting route gives it."""

    def reply(handler: _Handler, body: dict[str, Any]) -> None:
        handler.json(200, {"input_tokens": count(body["messages"][0]["content"])})

    return reply


def by_request(make: Callable[[dict[str, Any]], Reply]) -> Reply:
    """An answer made after the request itself."""
    return lambda handler, body: make(body)(handler, body)


def status(code: int, message: str = "no", *, headers: dict[str, str] | None = None) -> Reply:
    """An error as both APIs write them."""
    told = {"type": "error", "error": {"type": "some_error", "message": message}}
    return lambda handler, _: handler.json(code, told, headers or {})


def raw(body: bytes, content_type: str = "application/json") -> Reply:
    """Exactly these bytes, with status 200."""
    return lambda handler, _: handler.send(200, body, {"Content-Type": content_type})


def truncated(body: bytes = b'{"id": "msg_1", "content": [{"type": "te') -> Reply:
    """A body that ends before its announced length."""

    def reply(handler: _Handler, _: dict[str, Any]) -> None:
        extra = {"Content-Type": "application/json", "Content-Length": str(len(body) + 500)}
        handler.send(200, body, extra)
        handler.close_connection = True

    return reply


def silence(seconds: float = 30.0) -> Reply:
    """No answer at all, until the server closes."""

    def reply(handler: _Handler, _: dict[str, Any]) -> None:
        handler.model.closing.wait(seconds)
        handler.close_connection = True

    return reply


def hang_up() -> Reply:
    """The connection closes without a word."""

    def reply(handler: _Handler, _: dict[str, Any]) -> None:
        handler.close_connection = True

    return reply


def broken_stream(said: str = "The answer is", *, error: bool = False) -> Reply:
    """A stream that stops half way: by closing, or by an error event."""

    def reply(handler: _Handler, _: dict[str, Any]) -> None:
        chat = handler.path == CHAT
        make = _chat_events if chat else _message_events
        events = make(said, 11, 7, "end", 2)
        events = [e for e in events if b"text_delta" in e or b'"content"' in e][:2]
        if error and chat:
            events.append(_data({"error": {"message": "overloaded"}}))
        elif error:
            told = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
            events.append(_event(told))
        handler.events(events)

    return reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    @property
    def model(self) -> ModelServer:
        return self.server.model  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(sent)
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.model.take(Request(self.path, headers, body))
        # One call a connection: no thread is left waiting for a second one.
        self.close_connection = True
        if self.path in (MESSAGES, COUNT, CHAT):
            reply(self, body)
        else:
            self.json(404, {"type": "error", "error": {"message": "no such path"}})

    def json(self, code: int, value: object, headers: dict[str, str] | None = None) -> None:
        extra = {"Content-Type": "application/json", **(headers or {})}
        self.send(code, json.dumps(value).encode(), extra)

    def events(self, events: list[bytes]) -> None:
        self.send(200, b"".join(events), {"Content-Type": "text/event-stream"})

    def send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        return


def _message_reply(said: str, given: int, made: int, stop: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [{"type": "text", "text": said}],
        "stop_reason": {"end": "end_turn", "length": "max_tokens"}.get(stop, stop),
        "stop_sequence": None,
        "usage": {"input_tokens": given, "output_tokens": made},
    }


def _message_events(said: str, given: int, made: int, stop: str, pieces: int) -> list[bytes]:
    whole = _message_reply("", given, 1, stop)
    start = {**whole, "content": [], "stop_reason": None}
    block = {"type": "content_block_start", "index": 0}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {**block, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
    ]
    for piece in _pieces(said, pieces):
        delta = {"type": "text_delta", "text": piece}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": made}},
        {"type": "message_stop"},
    ]
    return [_event(event) for event in events]


def _chat_reply(said: str, given: int, made: int, stop: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": said}
    reason = {"end": "stop", "refusal": "content_filter"}.get(stop, stop)
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": given, "completion_tokens": made},
    }


def _chat_events(said: str, given: int, made: int, stop: str, pieces: int) -> list[bytes]:
    choice: dict[str, Any] = {"index": 0, "finish_reason": None}
    events = [
        _data({"choices": [{**choice, "delta": {"content": piece}}]})
        for piece in _pieces(said, pieces)
    ]
    reason = {"end": "stop", "refusal": "content_filter"}.get(stop, stop)
    events.append(_data({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
    usage = {"prompt_tokens": given, "completion_tokens": made}
    events.append(_data({"choices": [], "usage": usage}))
    return [*events, b"data: [DONE]\n\n"]


def _pieces(said: str, count: int) -> list[str]:
    size = max(1, -(-len(said) // count))
    return [said[i : i + size] for i in range(0, len(said), size)]


def _event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def _data(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()

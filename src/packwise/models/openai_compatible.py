"""Any server that speaks the OpenAI protocol, with only the standard library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, cast

from packwise.errors import CallFailed
from packwise.models.llm import (
    URL_VARIABLE,
    ModelReply,
    RemoteCalls,
    RemoteModel,
    StreamedReply,
    as_count,
    as_object,
    check_address,
    quotable,
)

MOST_BYTES = 16 * 1024 * 1024


class OpenAIServer(RemoteCalls):
    """A server that speaks the OpenAI protocol, and how its errors read."""

    def __init__(self, base_url: str, name: str, api_key: str, variable: str) -> None:
        super().__init__(name)
        address = check_address(base_url, variable)
        path = address.path.rstrip("/") or "/v1"
        self._base = address._replace(path=path, query="", fragment="").geturl()
        self._query = address.query
        self._host = address.hostname or ""
        self._key = api_key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._host!r}, {self.name!r})"

    def _open(self, path: str, body: dict[str, object], timeout: float) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        url = f"{self._base}/{path}" + (f"?{self._query}" if self._query else "")
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        return _OPENER.open(request, timeout=timeout)

    def _failure(self, error: Exception) -> CallFailed | None:
        if isinstance(error, urllib.error.HTTPError):
            with error:
                message = self._message(error.read(4096))
            return self._status_failure(error.code, message, error.headers.get("retry-after"))
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            return CallFailed(self.name, "no answer in time", retryable=True)
        if isinstance(error, urllib.error.URLError):
            fix = f"check that {self._base} is right and its server runs"
            return CallFailed(self.name, "the server cannot be reached", retryable=True, fix=fix)
        if isinstance(error, (OSError, http.client.HTTPException)):
            return CallFailed(self.name, "the connection broke", retryable=True)
        if isinstance(error, (ValueError, RecursionError)):
            return CallFailed(self.name, "the reply does not follow the protocol")
        return None

    def _message(self, body: bytes) -> str:
        """The server's own error message."""
        try:
            error = as_object(json.loads(body)).get("error")
        except (ValueError, RecursionError):
            return ""
        message = as_object(error).get("message") if isinstance(error, dict) else error
        return quotable(str(message or ""), self._key)


class OpenAICompatibleModel(OpenAIServer, RemoteModel):
    """A server with ``/chat/completions``: Ollama, llama.cpp, vLLM, LM Studio, OpenAI."""

    def __init__(self, base_url: str, name: str, api_key: str = "") -> None:
        super().__init__(base_url, name, api_key, URL_VARIABLE)
        self._limit = "max_tokens"

    @property
    def light(self) -> OpenAICompatibleModel:
        return self

    def close(self) -> None:
        """Nothing to do: each call has its own connection."""

    def _send(
        self, prompt: str, system: str, max_tokens: int, timeout: float, *, stream: bool
    ) -> Any:
        reply = self._post(prompt, system, max_tokens, timeout, stream=stream)
        if stream:
            return reply
        with reply:
            return reply.read(MOST_BYTES)

    def _post(
        self, prompt: str, system: str, max_tokens: int, timeout: float, *, stream: bool
    ) -> Any:
        messages = [{"role": "user", "content": prompt}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        body: dict[str, object] = {
            "model": self.name,
            "messages": messages,
            self._limit: max_tokens,
        }
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        try:
            return self._open("chat/completions", body, timeout)
        except urllib.error.HTTPError as error:
            # OpenAI's newer models use another name for the limit and refuse this one.
            if error.code != 400 or self._limit != "max_tokens":
                raise
            with error:
                body_of_error = error.read(4096)
            if b"max_completion_tokens" not in body_of_error:
                raise CallFailed(
                    self.name, "the server answered 400", detail=self._message(body_of_error)
                ) from error
        self._limit = "max_completion_tokens"
        return self._post(prompt, system, max_tokens, timeout, stream=stream)

    def _pieces(self, events: Any, streamed: StreamedReply) -> Iterator[str]:
        for line in events:
            field, _, data = line.decode("utf-8", "replace").strip().partition(":")
            if field != "data":
                continue
            if data.strip() == "[DONE]":
                streamed.finished = True
                return
            event = as_object(json.loads(data))
            if "error" in event:
                raise CallFailed(self.name, "the server broke the answer off")
            given, made = _usage(event)
            streamed.input_tokens = given or streamed.input_tokens
            streamed.output_tokens = made or streamed.output_tokens
            choice = _first(event.get("choices"))
            streamed.stop = str(choice.get("finish_reason") or streamed.stop)
            text = as_object(choice.get("delta")).get("content")
            if isinstance(text, str) and text:
                yield text
        # Some servers do not send [DONE]; a finish reason is as good.
        streamed.finished = bool(streamed.stop)

    def _read(self, reply: Any) -> ModelReply:
        try:
            content = as_object(json.loads(reply))
        except (ValueError, RecursionError) as error:
            raise CallFailed(self.name, "the reply is not JSON") from error
        choice = _first(content.get("choices"))
        text = as_object(choice.get("message")).get("content")
        if not isinstance(text, str):
            raise CallFailed(self.name, "the reply is not a message")
        return self._checked(text, *_usage(content), str(choice.get("finish_reason") or ""))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the key to a host that the user did not name."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _usage(reply: dict[str, Any]) -> tuple[int, int]:
    usage = as_object(reply.get("usage"))
    return as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))


def _first(value: object) -> dict[str, Any]:
    """The first object of a JSON array, else an empty one."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return as_object(listed[0]) if listed else {}

"""Any server that speaks the OpenAI protocol, with nothing but the standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from typing import Any

from packwise.errors import CallFailed
from packwise.models.llm import (
    PATIENCE,
    URL_VARIABLE,
    Completion,
    Heard,
    as_count,
    as_first,
    as_object,
    check_address,
    checked,
    quotable,
    status_failure,
    with_retries,
)

_MOST_BYTES = 16 * 1024 * 1024


class OpenAICompatibleModel:
    """A server with ``/chat/completions``: Ollama, llama.cpp, vLLM, LM Studio, OpenAI."""

    def __init__(self, base_url: str, name: str, api_key: str = "") -> None:
        address = check_address(base_url, URL_VARIABLE)
        path = address.path.rstrip("/") or "/v1"
        self._url = address._replace(path=f"{path}/chat/completions", fragment="").geturl()
        self._host = address.hostname or ""
        self._name = name
        self._key = api_key
        self._limit = "max_tokens"

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self._host!r}, {self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def light(self) -> OpenAICompatibleModel:
        return self

    def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        max_tokens: int,
        timeout: float = PATIENCE,
        retries: int = 0,
    ) -> Completion:
        def attempt() -> Completion:
            with (
                _http_failures(self._name, self._key),
                self._post(prompt, system, max_tokens, timeout, stream=False) as reply,
            ):
                body = reply.read(_MOST_BYTES)
            return self._completion(body)

        return with_retries(attempt, retries)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int, timeout: float = PATIENCE
    ) -> Generator[str, None, Completion]:
        heard = Heard()
        with _http_failures(self._name, self._key):
            reply = self._post(prompt, system, max_tokens, timeout, stream=True)
        with contextlib.closing(reply):
            pieces = self._pieces(reply, heard)
            while True:
                with _http_failures(self._name, self._key):
                    piece = next(pieces, None)
                if piece is None:
                    break
                yield piece
        return heard.completion(self._name)

    def close(self) -> None:
        """Nothing to do: each call has a connection of its own."""

    def _post(
        self, prompt: str, system: str, max_tokens: int, timeout: float, *, stream: bool
    ) -> Any:
        messages = [{"role": "user", "content": prompt}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        body: dict[str, object] = {
            "model": self._name,
            "messages": messages,
            self._limit: max_tokens,
        }
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        try:
            return _OPENER.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            # OpenAI's newer models know the limit by another name and refuse this one.
            if error.code != 400 or self._limit != "max_tokens":
                raise
            with error:
                told = error.read(4096)
            if b"max_completion_tokens" not in told:
                raise CallFailed(
                    self._name, "the server answered 400", detail=_server_message(told, self._key)
                ) from error
        self._limit = "max_completion_tokens"
        return self._post(prompt, system, max_tokens, timeout, stream=stream)

    def _pieces(self, lines: Any, heard: Heard) -> Iterator[str]:
        for line in lines:
            field, _, data = line.decode("utf-8", "replace").strip().partition(":")
            if field != "data":
                continue
            if data.strip() == "[DONE]":
                heard.finished = True
                return
            event = as_object(json.loads(data))
            if "error" in event:
                raise CallFailed(self._name, "the server broke the answer off")
            usage = as_object(event.get("usage"))
            heard.input_tokens = as_count(usage.get("prompt_tokens")) or heard.input_tokens
            heard.output_tokens = as_count(usage.get("completion_tokens")) or heard.output_tokens
            choice = as_first(event.get("choices"))
            heard.stop = str(choice.get("finish_reason") or heard.stop)
            text = as_object(choice.get("delta")).get("content")
            if isinstance(text, str) and text:
                heard.pieces.append(text)
                yield text
        # Some servers end without the closing word; a reason to stop says as much.
        heard.finished = bool(heard.stop)

    def _completion(self, body: bytes) -> Completion:
        try:
            reply = as_object(json.loads(body))
        except (ValueError, RecursionError) as error:
            raise CallFailed(self._name, "the reply is not JSON") from error
        choice = as_first(reply.get("choices"))
        text = as_object(choice.get("message")).get("content")
        if not isinstance(text, str):
            raise CallFailed(self._name, "the reply is not a message")
        usage = as_object(reply.get("usage"))
        return checked(
            self._name,
            text,
            as_count(usage.get("prompt_tokens")),
            as_count(usage.get("completion_tokens")),
            str(choice.get("finish_reason") or ""),
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to a host nobody named."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


@contextlib.contextmanager
def _http_failures(model: str, key: str) -> Generator[None]:
    """Whatever urllib raises, as ``CallFailed``."""
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            told = error.read(4096)
        raise status_failure(
            model, error.code, _server_message(told, key), error.headers.get("retry-after")
        ) from error
    except urllib.error.URLError as error:
        slow = isinstance(error.reason, TimeoutError)
        reason = "no answer in time" if slow else "the server cannot be reached"
        raise CallFailed(model, reason, retryable=True) from error
    except TimeoutError as error:
        raise CallFailed(model, "no answer in time", retryable=True) from error
    except (OSError, http.client.HTTPException) as error:
        raise CallFailed(model, "the connection broke", retryable=True) from error
    except (ValueError, RecursionError) as error:
        raise CallFailed(model, "the reply is not what the protocol says") from error


def _server_message(body: bytes, key: str) -> str:
    try:
        told = as_object(json.loads(body)).get("error")
    except (ValueError, RecursionError):
        return ""
    message = as_object(told).get("message") if isinstance(told, dict) else told
    return quotable(str(message or ""), key)

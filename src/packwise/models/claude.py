"""Claude, through Anthropic's own SDK, which is loaded when a client is first made."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from packwise.errors import CallFailed, ModelMissing
from packwise.models.llm import (
    CLAUDE_URL_VARIABLE,
    LIGHT_MODEL,
    PATIENCE,
    SYNTHESIS_MODEL,
    Completion,
    Heard,
    Usage,
    as_count,
    as_object,
    check_address,
    checked,
    quotable,
    status_failure,
    with_retries,
)


def connect_claude(api_key: str, base_url: str | None = None) -> Any:
    """An Anthropic client that tries each call once; retries are the caller's decision."""
    if base_url is not None:
        check_address(base_url, CLAUDE_URL_VARIABLE)
    try:
        import anthropic
    except ImportError as error:
        raise ModelMissing(
            "Claude needs the anthropic package, which is not installed",
            fix="pip install 'packwise[claude]'",
        ) from error
    return anthropic.Anthropic(api_key=api_key, base_url=base_url, max_retries=0)


@dataclass(frozen=True, slots=True)
class Structured:
    """An answer as a JSON object; ``cut`` when it was stopped by ``max_tokens``."""

    value: Mapping[str, Any]
    usage: Usage
    cut: bool = False


class ClaudeModel:
    """Claude, called through ``client.messages.create`` of an Anthropic client."""

    def __init__(self, client: Any, name: str = SYNTHESIS_MODEL) -> None:
        self.client = client
        self._name = name

    def __repr__(self) -> str:
        return f"ClaudeModel({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def light(self) -> ClaudeModel:
        return ClaudeModel(self.client, LIGHT_MODEL)

    def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        max_tokens: int,
        timeout: float = PATIENCE,
        retries: int = 0,
    ) -> Completion:
        request = self._request(prompt, system, max_tokens, timeout)

        def attempt() -> Completion:
            with _claude_failures(self._name, self.client):
                reply = self.client.messages.create(**request)
            return self._completion(reply)

        return with_retries(attempt, retries)

    def structured(
        self,
        prompt: str,
        *,
        system: str = "",
        name: str,
        schema: Mapping[str, object],
        max_tokens: int,
        timeout: float = PATIENCE,
        retries: int = 0,
    ) -> Structured:
        """The answer as an object of this JSON schema, through a tool that Claude must use.

        Claude keeps to the schema, but nothing enforces it: check what comes back.
        """
        tool = {"name": name, "description": "Give the answer.", "input_schema": schema}
        request = self._request(prompt, system, max_tokens, timeout)
        request |= {"tools": [tool], "tool_choice": {"type": "tool", "name": name}}

        def attempt() -> Structured:
            with _claude_failures(self._name, self.client):
                reply = self.client.messages.create(**request)
            return self._structured(reply)

        return with_retries(attempt, retries)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int, timeout: float = PATIENCE
    ) -> Generator[str, None, Completion]:
        request = self._request(prompt, system, max_tokens, timeout)
        heard = Heard()
        with _claude_failures(self._name, self.client):
            events = self.client.messages.create(**request, stream=True)
        with contextlib.closing(events):
            pieces = self._pieces(iter(events), heard)
            while True:
                with _claude_failures(self._name, self.client):
                    piece = next(pieces, None)
                if piece is None:
                    break
                yield piece
        return heard.completion(self._name)

    def count_tokens(self, text: str, *, timeout: float = PATIENCE, retries: int = 2) -> int:
        """How many tokens this model sees in a text, by the API's own count."""

        def attempt() -> int:
            with _claude_failures(self._name, self.client):
                counted = self.client.messages.count_tokens(
                    model=self._name,
                    messages=[{"role": "user", "content": text}],
                    timeout=timeout,
                )
            found = as_count(getattr(counted, "input_tokens", 0))
            if not found:
                raise CallFailed(self._name, "the reply is not a count of tokens")
            return found

        return with_retries(attempt, retries)

    def close(self) -> None:
        self.client.close()

    def _pieces(self, events: Iterator[Any], heard: Heard) -> Iterator[str]:
        for event in events:
            kind = getattr(event, "type", "")
            if kind == "message_start":
                heard.input_tokens = _count(event.message, "input_tokens")
            elif kind == "content_block_delta" and getattr(event.delta, "type", "") == "text_delta":
                heard.pieces.append(event.delta.text)
                yield event.delta.text
            elif kind == "message_delta":
                heard.output_tokens = _count(event, "output_tokens")
                heard.stop = event.delta.stop_reason or ""
            elif kind == "message_stop":
                heard.finished = True

    def _request(
        self, prompt: str, system: str, max_tokens: int, timeout: float
    ) -> dict[str, object]:
        request: dict[str, object] = {
            "model": self._name,
            "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": prompt}],
            "timeout": timeout,
        }
        if system:
            request["system"] = system
        return request

    def _structured(self, reply: Any) -> Structured:
        stop = getattr(reply, "stop_reason", "")
        if stop == "refusal":
            raise CallFailed(self._name, "the model declined to answer")
        used = [b for b in self._blocks(reply) if getattr(b, "type", "") == "tool_use"]
        if not used:
            raise CallFailed(self._name, "the reply holds no structured answer")
        usage = Usage(_count(reply, "input_tokens"), _count(reply, "output_tokens"), 1)
        return Structured(as_object(used[0].input), usage, cut=stop == "max_tokens")

    def _blocks(self, reply: Any) -> list[Any]:
        blocks: Any = getattr(reply, "content", None)
        if not isinstance(blocks, (list, tuple)):
            raise CallFailed(self._name, "the reply is not a message")
        return list(cast("list[Any]", blocks))

    def _completion(self, reply: Any) -> Completion:
        texts = [getattr(block, "text", None) for block in self._blocks(reply)]
        stop = getattr(reply, "stop_reason", "")
        return checked(
            self._name,
            "".join(text for text in texts if isinstance(text, str)),
            _count(reply, "input_tokens"),
            _count(reply, "output_tokens"),
            stop if isinstance(stop, str) else "",
        )


@contextlib.contextmanager
def _claude_failures(model: str, client: Any) -> Generator[None]:
    """Whatever the SDK raises, as ``CallFailed``."""
    try:
        yield
    except CallFailed:
        raise
    # The SDK lets errors of its transport and its parsers through unwrapped, and which
    # transport that is differs between its versions.
    except Exception as error:
        raise _claude_failure(model, error, getattr(client, "api_key", None)) from error


def _claude_failure(model: str, error: Exception, key: object) -> CallFailed:
    status: object = getattr(error, "status_code", None)
    name = type(error).__name__
    if isinstance(status, int):
        headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
        # Inside a stream an error arrives under the status 200 of the stream itself.
        if status < 400:
            return CallFailed(model, "the server broke the answer off", retryable=True)
        body = as_object(getattr(error, "body", None))
        detail = as_object(body.get("error")).get("message")
        told = quotable(str(detail or ""), key)
        return status_failure(model, status, told, headers.get("retry-after"))
    if "Timeout" in name or isinstance(error, TimeoutError):
        return CallFailed(model, "no answer in time", retryable=True)
    if "Connect" in name or isinstance(error, OSError):
        return CallFailed(model, "the server cannot be reached", retryable=True)
    # The text of an unknown error may quote a header, and with it the key.
    return CallFailed(model, f"the call failed with {name}")


def _count(message: Any, name: str) -> int:
    return as_count(getattr(getattr(message, "usage", None), name, 0))

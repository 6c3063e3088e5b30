"""Claude through Anthropic's SDK, which is imported when a client is created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from packwise.errors import CallFailed, ModelMissing
from packwise.models.llm import (
    CLAUDE_URL_VARIABLE,
    LIGHT_MODEL,
    SYNTHESIS_MODEL,
    TIMEOUT,
    ModelReply,
    RemoteModel,
    StreamedReply,
    Usage,
    as_count,
    as_object,
    check_address,
    quotable,
)


def connect_claude(api_key: str, base_url: str | None = None) -> Any:
    """An Anthropic client without retries of its own."""
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
class StructuredReply:
    """An answer as a JSON object; ``cut`` when ``max_tokens`` stopped it."""

    value: Mapping[str, Any]
    usage: Usage
    cut: bool = False


class ClaudeModel(RemoteModel):
    """Claude, called through ``client.messages.create`` of an Anthropic client."""

    def __init__(self, client: Any, name: str = SYNTHESIS_MODEL) -> None:
        super().__init__(name)
        self.client = client

    def __repr__(self) -> str:
        return f"ClaudeModel({self.name!r})"

    @property
    def light(self) -> ClaudeModel:
        return ClaudeModel(self.client, LIGHT_MODEL)

    def structured(
        self,
        prompt: str,
        *,
        system: str = "",
        name: str,
        schema: Mapping[str, object],
        max_tokens: int,
        timeout: float = TIMEOUT,
        retries: int = 0,
    ) -> StructuredReply:
        """The answer as an object of this JSON schema, through a tool that Claude must use.

        Claude follows the schema, but nothing enforces it: check the result.
        """
        tool = {"name": name, "description": "Give the answer.", "input_schema": schema}
        tools = {"tools": [tool], "tool_choice": {"type": "tool", "name": name}}

        def send() -> Any:
            return self._create(prompt, system, max_tokens, timeout, **tools)

        return self._call(send, self._read_structured, retries)

    def count_tokens(self, text: str, *, timeout: float = TIMEOUT, retries: int = 2) -> int:
        """How many tokens this model sees in a text, counted by the API."""
        messages = [{"role": "user", "content": text}]

        def send() -> Any:
            return self.client.messages.count_tokens(
                model=self.name, messages=messages, timeout=timeout
            )

        def read(reply: Any) -> int:
            count = as_count(getattr(reply, "input_tokens", 0))
            if not count:
                raise CallFailed(self.name, "the reply is not a count of tokens")
            return count

        return self._call(send, read, retries)

    def close(self) -> None:
        self.client.close()

    def _send(
        self, prompt: str, system: str, max_tokens: int, timeout: float, *, stream: bool
    ) -> Any:
        more = {"stream": True} if stream else {}
        return self._create(prompt, system, max_tokens, timeout, **more)

    def _create(
        self, prompt: str, system: str, max_tokens: int, timeout: float, **more: Any
    ) -> Any:
        if system:
            more["system"] = system
        return self.client.messages.create(
            model=self.name,
            max_tokens=max_tokens,
            messages=[{"role": "user", "content": prompt}],
            timeout=timeout,
            **more,
        )

    def _pieces(self, events: Any, streamed: StreamedReply) -> Iterator[str]:
        for event in events:
            kind = getattr(event, "type", "")
            if kind == "message_start":
                streamed.input_tokens = _count(event.message, "input_tokens")
            elif kind == "content_block_delta" and getattr(event.delta, "type", "") == "text_delta":
                yield event.delta.text
            elif kind == "message_delta":
                streamed.output_tokens = _count(event, "output_tokens")
                streamed.stop = event.delta.stop_reason or ""
            elif kind == "message_stop":
                streamed.finished = True

    def _read(self, reply: Any) -> ModelReply:
        texts = [getattr(block, "text", None) for block in self._blocks(reply)]
        stop = getattr(reply, "stop_reason", "")
        return self._checked(
            "".join(text for text in texts if isinstance(text, str)),
            _count(reply, "input_tokens"),
            _count(reply, "output_tokens"),
            stop if isinstance(stop, str) else "",
        )

    def _read_structured(self, reply: Any) -> StructuredReply:
        stop = getattr(reply, "stop_reason", "")
        if stop == "refusal":
            raise CallFailed(self.name, "the model declined to answer")
        used = [b for b in self._blocks(reply) if getattr(b, "type", "") == "tool_use"]
        if not used:
            raise CallFailed(self.name, "the reply has no structured answer")
        usage = Usage(_count(reply, "input_tokens"), _count(reply, "output_tokens"), 1)
        return StructuredReply(as_object(used[0].input), usage, cut=stop == "max_tokens")

    def _blocks(self, reply: Any) -> list[Any]:
        blocks: Any = getattr(reply, "content", None)
        if not isinstance(blocks, (list, tuple)):
            raise CallFailed(self.name, "the reply is not a message")
        return list(cast("list[Any]", blocks))

    def _failure(self, error: Exception) -> CallFailed:
        # The SDK lets errors of its transport and its parsers through unwrapped, and which
        # transport that is differs between its versions: the names of the classes decide.
        status: object = getattr(error, "status_code", None)
        name = type(error).__name__
        if isinstance(status, int):
            # Inside a stream an error arrives with the status 200 of the stream itself.
            if status < 400:
                return CallFailed(self.name, "the server broke the answer off", retryable=True)
            headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
            body = as_object(getattr(error, "body", None))
            detail = as_object(body.get("error")).get("message")
            message = quotable(str(detail or ""), getattr(self.client, "api_key", None))
            return self._status_failure(status, message, headers.get("retry-after"))
        if "Timeout" in name or isinstance(error, TimeoutError):
            return CallFailed(self.name, "no answer in time", retryable=True)
        if "Connect" in name or isinstance(error, OSError):
            return CallFailed(self.name, "the server cannot be reached", retryable=True)
        # The text of an unknown error may quote a header, and with it the key.
        return CallFailed(self.name, f"the call failed with {name}")


def _count(message: Any, name: str) -> int:
    return as_count(getattr(getattr(message, "usage", None), name, 0))

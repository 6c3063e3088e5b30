"""Language models: Claude, any server that speaks the OpenAI protocol, or none at all.

``load_llm`` reads the environment and returns ``None`` when nothing is configured: every part
of Packwise works without a language model. Keys are sent only to the server they belong to and
appear in no error, log or ``repr``.
"""

from __future__ import annotations

import contextlib
import os
import time
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar, cast

from packwise.errors import CallFailed, SettingError

SYNTHESIS_MODEL = "claude-opus-4-6"
LIGHT_MODEL = "claude-haiku-4-5-20251001"

KEY_VARIABLE = "ANTHROPIC_API_KEY"
CLAUDE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
URL_VARIABLE = "PACKWISE_LLM_URL"
URL_KEY_VARIABLE = "PACKWISE_LLM_KEY"
MODEL_VARIABLE = "PACKWISE_LLM_MODEL"

TIMEOUT = 120.0
"""Seconds without an answer before a call fails, unless the caller says otherwise."""

_T = TypeVar("_T")
_LONGEST_PAUSE = 8.0
_RETRYABLE = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a number of answered calls; add usages with ``+``."""

    input_tokens: int = 0
    output_tokens: int = 0
    api_calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.api_calls + other.api_calls,
        )

    def as_dict(self) -> dict[str, int]:
        """The three counts by name."""
        return asdict(self)


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The answer of a model; ``cut`` when ``max_tokens`` stopped it."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    cut: bool = False

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, 1)


class LanguageModel(Protocol):
    """Answers a prompt. Every failure is a ``ModelError`` of one line."""

    @property
    def name(self) -> str: ...

    @property
    def light(self) -> LanguageModel:
        """The server's model for small tasks; the model itself if there is only one."""
        ...

    def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        max_tokens: int,
        timeout: float = TIMEOUT,
        retries: int = 0,
    ) -> ModelReply:
        """The answer to ``prompt``. ``timeout`` is the longest silence in seconds,
        ``retries`` how often a busy or unreachable server is called again."""
        ...

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int, timeout: float = TIMEOUT
    ) -> Generator[str, None, ModelReply]:
        """The answer in pieces; the generator returns the whole answer."""
        ...

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        ...


def load_llm(
    *,
    api_key: str | None = None,
    model: str | None = None,
    url: str | None = None,
    env: Mapping[str, str] | None = None,
) -> LanguageModel | None:
    """The language model that the caller or the environment names, or ``None``.

    ``api_key`` is a key for Claude and comes first; then ``PACKWISE_LLM_URL`` (with
    ``PACKWISE_LLM_MODEL`` and ``PACKWISE_LLM_KEY``), a server that speaks the OpenAI
    protocol; then ``ANTHROPIC_API_KEY``. ``model`` and ``url`` override the names of the
    model and of that server. Nothing is sent. Raises ``ModelMissing`` when Claude is wanted
    but its SDK is not installed, ``SettingError`` for an invalid address.
    """
    from packwise.models.claude import ClaudeModel, connect_claude
    from packwise.models.openai_compatible import OpenAICompatibleModel

    environment = os.environ if env is None else env
    key = (api_key or "").strip()
    name = model or environment.get(MODEL_VARIABLE, "").strip()
    url = (url or environment.get(URL_VARIABLE, "")).strip()
    if not key and url:
        if not name:
            raise SettingError(
                f"{URL_VARIABLE} is set without the name of a model on that server",
                fix=f"set {MODEL_VARIABLE}",
            )
        return OpenAICompatibleModel(url, name, environment.get(URL_KEY_VARIABLE, "").strip())
    key = key or environment.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    base_url = environment.get(CLAUDE_URL_VARIABLE, "").strip() or None
    return ClaudeModel(connect_claude(key, base_url), name or SYNTHESIS_MODEL)


@dataclass(slots=True)
class StreamedReply:
    """A streamed answer so far; ``finished`` once the server has said so."""

    pieces: list[str] = field(default_factory=list[str])
    input_tokens: int = 0
    output_tokens: int = 0
    stop: str = ""
    finished: bool = False


class RemoteCalls(ABC):
    """Calls of a model behind a server: what a failure means, and when to try again."""

    _keys = f"{KEY_VARIABLE} or {URL_KEY_VARIABLE}"

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def _failure(self, error: Exception) -> CallFailed | None:
        """What an error of the transport means; ``None`` for errors it does not know."""

    def _call(self, send: Callable[[], Any], read: Callable[[Any], _T], retries: int) -> _T:
        """Send and read, and again after a failure that may pass."""
        pause = 0.5
        while True:
            try:
                with self._failures():
                    reply = send()
                return read(reply)
            except CallFailed as error:
                wait = pause if error.pause is None else error.pause
                if not error.retryable or retries <= 0 or wait > _LONGEST_PAUSE:
                    raise
            time.sleep(wait)
            retries -= 1
            pause *= 2

    @contextlib.contextmanager
    def _failures(self) -> Generator[None]:
        try:
            yield
        except CallFailed:
            raise
        except Exception as error:
            failure = self._failure(error)
            if failure is None:
                raise
            raise failure from error

    def _status_failure(self, status: int, detail: str, pause: object) -> CallFailed:
        """The failure behind an HTTP status of 300 or more."""
        fix = None
        if status in (401, 403):
            fix = f"check {self._keys}"
        elif status == 404:
            fix = "check the model's name and the server's address"
        try:
            seconds = max(0.0, float(str(pause)))
        except ValueError:
            seconds = None
        return CallFailed(
            self.name,
            f"the server answered {status}",
            detail=detail,
            retryable=status in _RETRYABLE,
            pause=seconds,
            status=status,
            fix=fix,
        )


class RemoteModel(RemoteCalls):
    """A language model behind a server: retries, streaming and failures are handled here."""

    @abstractmethod
    def _send(
        self, prompt: str, system: str, max_tokens: int, timeout: float, *, stream: bool
    ) -> Any:
        """The server's reply, or with ``stream`` its events, which have a ``close`` method."""

    @abstractmethod
    def _read(self, reply: Any) -> ModelReply:
        """The answer in a reply."""

    @abstractmethod
    def _pieces(self, events: Any, streamed: StreamedReply) -> Iterator[str]:
        """The pieces of text in events, which also fill in ``streamed``."""

    def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        max_tokens: int,
        timeout: float = TIMEOUT,
        retries: int = 0,
    ) -> ModelReply:
        def send() -> Any:
            return self._send(prompt, system, max_tokens, timeout, stream=False)

        return self._call(send, self._read, retries)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int, timeout: float = TIMEOUT
    ) -> Generator[str, None, ModelReply]:
        streamed = StreamedReply()
        with self._failures():
            events = self._send(prompt, system, max_tokens, timeout, stream=True)
        with contextlib.closing(events):
            pieces = self._pieces(events, streamed)
            while True:
                with self._failures():
                    piece = next(pieces, None)
                if piece is None:
                    break
                streamed.pieces.append(piece)
                yield piece
        if not streamed.finished:
            raise CallFailed(self.name, "the answer broke off", retryable=True)
        text = "".join(streamed.pieces)
        return self._checked(text, streamed.input_tokens, streamed.output_tokens, streamed.stop)

    def _checked(self, text: str, input_tokens: int, output_tokens: int, stop: str) -> ModelReply:
        """A reply; ``CallFailed`` when it has no answer."""
        if stop in ("refusal", "content_filter"):
            raise CallFailed(self.name, "the model declined to answer")
        if not text.strip():
            raise CallFailed(self.name, "the reply has no text")
        cut = stop in ("max_tokens", "length")
        return ModelReply(text, input_tokens, output_tokens, cut)


def quotable(message: str, key: object) -> str:
    """A server's message on one short line, without the key if it repeats it."""
    if isinstance(key, str) and key:
        message = message.replace(key, "[key]")
    printable = "".join(c if c.isprintable() else " " for c in message[:2000])
    return " ".join(printable.split())[:200]


def check_address(url: str, variable: str) -> urllib.parse.SplitResult:
    """The parts of a web address; ``SettingError`` naming ``variable`` if it is invalid."""
    try:
        address = urllib.parse.urlsplit(url)
        valid = address.scheme in ("http", "https") and bool(address.hostname)
        _ = address.port
    except ValueError:
        valid, address = False, urllib.parse.urlsplit("")
    if not valid:
        raise SettingError(f"{variable} is not a web address: {url[:100]!r}", fix="http://HOST/v1")
    return address


def as_object(value: object) -> dict[str, Any]:
    """``value`` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_count(value: object) -> int:
    """``value`` if it is a positive integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

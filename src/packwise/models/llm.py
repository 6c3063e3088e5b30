"""Language models: Claude, any server that speaks the OpenAI protocol, or none at all.

``load_llm`` reads the environment and answers ``None`` when nothing is configured: every
part of Packwise that would like a language model works without one. Keys are sent to the
server they belong to and appear nowhere else: not in errors, logs or ``repr``.
"""

from __future__ import annotations

import os
import time
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from packwise.errors import CallFailed, SettingError

SYNTHESIS_MODEL = "claude-opus-4-6"
LIGHT_MODEL = "claude-haiku-4-5-20251001"

KEY_VARIABLE = "ANTHROPIC_API_KEY"
CLAUDE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
URL_VARIABLE = "PACKWISE_LLM_URL"
URL_KEY_VARIABLE = "PACKWISE_LLM_KEY"
MODEL_VARIABLE = "PACKWISE_LLM_MODEL"

PATIENCE = 120.0
"""Seconds a call may stay silent unless the caller says otherwise."""

_T = TypeVar("_T")
_LONGEST_PAUSE = 8.0
_WORTH_ANOTHER_TRY = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens over a number of answered calls; add them up with ``+``."""

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
        """The three counts under their own names."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "api_calls": self.api_calls,
        }


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model said; ``cut`` when it was stopped by ``max_tokens``."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    cut: bool = False

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, 1)


class LanguageModel(Protocol):
    """Continues a prompt. Every failure is a ``ModelError`` of one line."""

    @property
    def name(self) -> str: ...

    @property
    def light(self) -> LanguageModel:
        """The model of the same server for small tasks; itself where there is one model."""
        ...

    def complete(
        self,
        prompt: str,
        *,
        system: str = "",
        max_tokens: int,
        timeout: float = PATIENCE,
        retries: int = 0,
    ) -> Completion:
        """The answer to ``prompt``. ``timeout`` is the longest silence in seconds;
        ``retries`` is how often a busy or unreachable server is asked again."""
        ...

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int, timeout: float = PATIENCE
    ) -> Generator[str, None, Completion]:
        """The answer piece by piece; the generator returns the whole of it."""
        ...

    def close(self) -> None:
        """Let go of connections; harmless when repeated."""
        ...


def load_llm(
    *,
    api_key: str | None = None,
    model: str | None = None,
    url: str | None = None,
    env: Mapping[str, str] | None = None,
) -> LanguageModel | None:
    """The language model the caller or the environment names, or ``None``.

    ``api_key`` is a key for Claude and comes first; then ``PACKWISE_LLM_URL`` (with
    ``PACKWISE_LLM_MODEL`` and ``PACKWISE_LLM_KEY``), a server that speaks the OpenAI
    protocol; then ``ANTHROPIC_API_KEY``. ``model`` and ``url`` override the names of the
    model and of that server. Nothing is sent. Raises ``ModelMissing`` when Claude is asked for
    without its SDK, ``SettingError`` for an address that is none.
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
                f"{URL_VARIABLE} is set, but not the name of a model it serves",
                fix=f"set {MODEL_VARIABLE}",
            )
        return OpenAICompatibleModel(url, name, environment.get(URL_KEY_VARIABLE, "").strip())
    key = key or environment.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    base_url = environment.get(CLAUDE_URL_VARIABLE, "").strip() or None
    return ClaudeModel(connect_claude(key, base_url), name or SYNTHESIS_MODEL)


class Heard:
    """A streamed answer so far; ``finished`` once the server has said so."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.input_tokens = 0
        self.output_tokens = 0
        self.stop = ""
        self.finished = False

    def completion(self, model: str) -> Completion:
        """The whole of it; ``CallFailed`` when it broke off."""
        if not self.finished:
            raise CallFailed(model, "the answer broke off", retryable=True)
        text = "".join(self.pieces)
        return checked(model, text, self.input_tokens, self.output_tokens, self.stop)


def with_retries(attempt: Callable[[], _T], retries: int) -> _T:
    """The first answer of ``attempt``, called again after a failure that may pass."""
    pause = 0.5
    while True:
        try:
            return attempt()
        except CallFailed as error:
            asked = pause if error.pause is None else error.pause
            if not error.retryable or retries <= 0 or asked > _LONGEST_PAUSE:
                raise
        time.sleep(asked)
        retries -= 1
        pause *= 2


def checked(model: str, text: str, given: int, made: int, stop: str) -> Completion:
    """A reply as a ``Completion``; ``CallFailed`` when it holds no answer."""
    if stop in ("refusal", "content_filter"):
        raise CallFailed(model, "the model declined to answer")
    if not text.strip():
        raise CallFailed(model, "the reply holds no text")
    return Completion(text, given, made, cut=stop in ("max_tokens", "length"))


def status_failure(model: str, status: int, detail: str, pause: object) -> CallFailed:
    """The failure a status of 300 or more stands for."""
    fix = None
    if status in (401, 403):
        fix = f"check {KEY_VARIABLE} or {URL_KEY_VARIABLE}"
    elif status == 404:
        fix = "check the model's name and the server's address"
    try:
        seconds = max(0.0, float(str(pause)))
    except ValueError:
        seconds = None
    return CallFailed(
        model,
        f"the server answered {status}",
        detail=detail,
        retryable=status in _WORTH_ANOTHER_TRY,
        pause=seconds,
        fix=fix,
    )


def quotable(message: str, key: object) -> str:
    """A server's own words on one short line, without the key should it repeat it."""
    if isinstance(key, str) and key:
        message = message.replace(key, "[key]")
    printable = "".join(c if c.isprintable() else " " for c in message[:2000])
    return " ".join(printable.split())[:200]


def check_address(url: str, variable: str) -> urllib.parse.SplitResult:
    """The parts of a web address; ``SettingError`` naming ``variable`` if it is none."""
    try:
        address = urllib.parse.urlsplit(url)
        named = address.scheme in ("http", "https") and bool(address.hostname)
        _ = address.port
    except ValueError:
        named, address = False, urllib.parse.urlsplit("")
    if not named:
        raise SettingError(f"{variable} is not a web address: {url[:100]!r}", fix="http://HOST/v1")
    return address


def as_object(value: object) -> dict[str, Any]:
    """``value`` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_first(value: object) -> dict[str, Any]:
    """The object that comes first in a JSON array, else an empty one."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return as_object(listed[0]) if listed else {}


def as_count(value: object) -> int:
    """``value`` if it counts something, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

"""Connections to Qdrant: addresses (``qdrant+http://host:port/collection``), and calls that are
retried, on another node if there is one.

Every error from a server becomes one of ``packwise.errors``, in one line.
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from packwise.errors import StoreError, StoreTimeout, StoreUnreachable, UsageError

API_KEY = "PACKWISE_QDRANT_API_KEY"
"""The environment variable with the server's API key. The key is never part of an address."""

_SCHEMES = ("qdrant+http", "qdrant+https")
_FORM = "qdrant+http://HOST:PORT/COLLECTION"
_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NODE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_OPTIONS = ("grpc", "shards", "replicas", "timeout")

_ATTEMPTS = 5
_SLOW_ATTEMPTS = 2
"""After a timeout a node gets one more chance, not four: timeouts are long."""
_SETTLING = 20.0
"""Seconds a cluster may need to agree that a node is gone; writes fail until then."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_RETRIED = frozenset({0, 429, 500, 502, 503, 504})
_GRPC_STATUS = {
    "UNAVAILABLE": 0,
    "DEADLINE_EXCEEDED": 0,
    "INTERNAL": 500,
    "RESOURCE_EXHAUSTED": 429,
    "NOT_FOUND": 404,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
}


@dataclass(frozen=True, slots=True)
class Address:
    """A collection on one server or on the nodes of a cluster.

    ``shards`` and ``replicas`` apply when the collection is created; ``grpc`` is the gRPC
    port, 0 for HTTP; ``timeout`` is in seconds.
    """

    text: str
    https: bool
    nodes: tuple[tuple[str, int], ...]
    collection: str
    grpc: int = 0
    shards: int = 1
    replicas: int = 1
    timeout: int = 30

    @property
    def api_key(self) -> str | None:
        return os.environ.get(API_KEY) or None


def parse_address(argument: str) -> Address:
    """Parse an address. Raises ``UsageError`` on a malformed one."""
    scheme, _, rest = argument.partition(":")
    parts = urlsplit(rest)
    if "@" in parts.netloc:
        raise UsageError(
            "a Qdrant address must not contain a user or a key", fix=f"put the key into {API_KEY}"
        )
    collection = parts.path.strip("/")
    if scheme not in _SCHEMES or not _COLLECTION.fullmatch(collection):
        raise UsageError(f"{argument!r} names no Qdrant collection", fix=f"write {_FORM}")
    return Address(
        text=argument,
        https=scheme.endswith("s"),
        nodes=tuple(_node(argument, node) for node in parts.netloc.split(",")),
        collection=collection,
        **_options(argument, parts.query),
    )


def _node(argument: str, text: str) -> tuple[str, int]:
    match = _NODE.fullmatch(text)
    if match is None or not 0 < int(match["port"] or 6333) < 65536:
        raise UsageError(f"{argument!r}: {text!r} is not a host and port", fix=f"write {_FORM}")
    return match["host"].strip("[]"), int(match["port"] or 6333)


def _options(argument: str, query: str) -> dict[str, int]:
    options: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS or not value.isascii() or not value.isdigit():
            raise UsageError(
                f"{argument!r}: {name}={value} is not an option",
                fix=f"use numbers for {', '.join(_OPTIONS)}",
            )
        options[name] = int(value)
        if options[name] < 1 and name != "grpc":
            raise UsageError(f"{argument!r}: {name} must be at least 1", fix=f"write {name}=1")
    return options


class CollectionMissing(Exception):
    """The server has no collection or alias of that name."""


class QdrantServer:
    """The nodes of one Qdrant; calls go to the node that answered last. Thread-safe."""

    def __init__(self, clients: Sequence[Any], name: str = "Qdrant", timeout: int = 30) -> None:
        self._clients = list(clients)
        self._name = name
        self._timeout = timeout
        self._current = 0

    @classmethod
    def connect(cls, address: Address) -> QdrantServer:
        """Make a client for every node; nothing is sent yet."""
        with warnings.catch_warnings():
            # The client warns of a key sent over plain HTTP; loopback never leaves the host.
            if all(host in ("127.0.0.1", "localhost", "::1") for host, _ in address.nodes):
                warnings.filterwarnings("ignore", message=".*insecure connection.*")
            clients = [
                QdrantClient(
                    host=host,
                    port=port,
                    https=address.https,
                    api_key=address.api_key,
                    grpc_port=address.grpc or 6334,
                    prefer_grpc=bool(address.grpc),
                    timeout=address.timeout,
                    check_compatibility=False,
                )
                for host, port in address.nodes
            ]
        nodes = ",".join(f"{host}:{port}" for host, port in address.nodes)
        return cls(clients, f"Qdrant at {nodes}", address.timeout)

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client. It is repeated after a transient failure, so it must be
        harmless to do twice. Raises ``CollectionMissing``, ``StoreUnreachable``,
        ``StoreTimeout`` or another ``StoreError``."""
        nodes = len(self._clients)
        pause = _FIRST_PAUSE
        until = time.monotonic() + (_SETTLING if nodes > 1 else 0.0)
        timeouts = 0
        for attempt in count(1):
            current = self._current
            try:
                return getattr(self._clients[current], method)(*arguments, **options)
            except Exception as error:
                failure = _failure(error)
                if failure is None:
                    raise
                status, reason = failure
                if status == 404:
                    raise CollectionMissing(reason) from error
                if status not in _RETRIED:
                    raise self._refused(status, reason) from error
                timeouts += bool(_timed_out(error))
                enough = attempt >= max(_ATTEMPTS, 2 * nodes) or timeouts >= _SLOW_ATTEMPTS * nodes
                if enough and time.monotonic() >= until:
                    raise self._given_up(error, status, reason) from error
                self._current = (current + 1) % nodes
                if attempt >= nodes:
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _refused(self, status: int, reason: str) -> StoreError:
        if status in (401, 403):
            return StoreUnreachable(
                f"{self._name} refuses the key", fix=f"set {API_KEY} to the key of that server"
            )
        return StoreError(f"{self._name} refused a request: {reason}", fix="see the server's log")

    def _given_up(self, error: Exception, status: int, reason: str) -> StoreError:
        if _timed_out(error) == "answering":
            return StoreTimeout(
                f"{self._name} took longer than the {self._timeout} s it is given",
                fix=f"ask for less, or end the address with ?timeout={2 * self._timeout}",
            )
        if status:
            return StoreError(f"{self._name} has a problem: {reason}", fix="see the server's log")
        return StoreUnreachable(
            f"{self._name} does not answer: {reason}", fix="start it, or check the address"
        )


def _timed_out(error: Exception) -> str:
    """What a node took too long for: ``connecting``, ``answering``, or nothing."""
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(cause, httpx.ConnectTimeout):
        return "connecting"
    code = getattr(error, "code", None)
    late = callable(code) and str(code()).endswith("DEADLINE_EXCEEDED")
    return "answering" if late or isinstance(cause, httpx.TimeoutException) else ""


def _failure(error: Exception) -> tuple[int, str] | None:
    """HTTP status (0: no answer) and reason of what a client raised; ``None`` for a bug."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    if isinstance(error, UnexpectedResponse):
        status, reason = error.status_code or 0, error.content.decode("utf-8", "replace")
    elif isinstance(error, ResponseHandlingException):
        status, reason = 0, str(error.source)
    elif isinstance(error, httpx.TransportError):
        status, reason = 0, str(error)
    elif isinstance(error, ValueError) and "not found" in str(error):
        status, reason = 404, str(error)
    elif callable(code) and callable(details):
        name = str(code()).rpartition(".")[2]
        status, reason = _GRPC_STATUS.get(name, 400), str(details())
    else:
        return None
    return status, " ".join(reason.split())[:300] or "no reason given"

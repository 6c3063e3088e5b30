"""Calls to a Qdrant server or cluster: tried again, on another node if need be.

Every error a server can answer with becomes one of ``packwise.errors``, in one line.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from packwise.errors import StoreError, StoreTimeout, StoreUnreachable
from packwise.stores.qdrant.address import API_KEY, Address

_T = TypeVar("_T")

_ATTEMPTS = 5
_SLOW_ATTEMPTS = 2
"""A node that let a call time out is asked once more, not five times: that is long enough."""
_SETTLING = 20.0
"""Seconds a cluster may need to agree that a node is gone; writes fail until then."""
_LONGEST_PAUSE = 1.0
_FIRST_PAUSE = 0.05
_BUSY = frozenset({429, 500, 502, 503, 504})


class CollectionMissing(Exception):
    """The server holds no collection, or no alias, of that name."""


class Server:
    """The nodes of one Qdrant, the one that answered last first. Safe to use from threads."""

    def __init__(self, clients: Sequence[Any], name: str = "Qdrant", timeout: int = 30) -> None:
        self._clients = list(clients)
        self._name = name
        self._timeout = timeout
        self._at = 0

    @classmethod
    def connect(cls, address: Address) -> Server:
        """Clients for every node; nothing is sent yet."""
        try:
            from qdrant_client import QdrantClient
        except ImportError as error:
            raise StoreError(
                "the package qdrant-client is not installed", fix="pip install 'packwise[qdrant]'"
            ) from error
        clients: list[Any] = []
        with warnings.catch_warnings():
            # It warns of a key sent over plain HTTP; a loopback address does not leave the host.
            if all(host in ("127.0.0.1", "localhost", "::1") for host, _ in address.nodes):
                warnings.filterwarnings("ignore", message=".*insecure connection.*")
            for host, port in address.nodes:
                clients.append(
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
                )
        nodes = ",".join(f"{host}:{port}" for host, port in address.nodes)
        return cls(clients, f"Qdrant at {nodes}", address.timeout)

    def call(self, work: Callable[[Any], _T]) -> _T:
        """Do ``work`` with a client. What fails for a passing reason is tried again, so it
        must be harmless to do twice. Raises ``CollectionMissing``, ``StoreUnreachable``,
        ``StoreTimeout`` or another ``StoreError``."""
        pause = _FIRST_PAUSE
        attempts = max(_ATTEMPTS, 2 * len(self._clients))
        until = time.monotonic() + (_SETTLING if len(self._clients) > 1 else 0.0)
        slow = 0
        for attempt in count():
            at = self._at
            try:
                return work(self._clients[at])
            except Exception as error:
                trouble = _trouble(error)
                if trouble is None:
                    raise
                status, reason = trouble
                if status == 404:
                    raise CollectionMissing(reason) from error
                if status not in (0, *_BUSY):
                    raise self._refused(status, reason) from error
                slow += bool(_late(error))
                enough = attempt >= attempts - 1 or slow >= _SLOW_ATTEMPTS * len(self._clients)
                if enough and time.monotonic() >= until:
                    raise self._given_up(error, status, reason) from error
                self._at = (at + 1) % len(self._clients)
                if len(self._clients) == 1 or attempt >= len(self._clients) - 1:
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
        if _late(error) == "answering":
            return StoreTimeout(
                f"{self._name} took longer than the {self._timeout} s it is given",
                fix=f"ask for less, or end the address with ?timeout={2 * self._timeout}",
            )
        if status:
            return StoreError(f"{self._name} is in trouble: {reason}", fix="see the server's log")
        return StoreUnreachable(
            f"{self._name} does not answer: {reason}", fix="start it, or check the address"
        )


def _late(error: Exception) -> str:
    """What a node was too late with: ``connecting``, ``answering``, or nothing."""
    import httpx
    from qdrant_client.http.exceptions import ResponseHandlingException

    cause = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(cause, httpx.ConnectTimeout):
        return "connecting"
    code = getattr(error, "code", None)
    late = callable(code) and str(code()).endswith("DEADLINE_EXCEEDED")
    return "answering" if late or isinstance(cause, httpx.TimeoutException) else ""


def _trouble(error: Exception) -> tuple[int, str] | None:
    """HTTP status (0: no answer) and reason of what a client raised; ``None`` for a bug."""
    import httpx
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, UnexpectedResponse):
        return error.status_code or 0, _line(error.content.decode("utf-8", "replace"))
    if isinstance(error, ResponseHandlingException):
        return 0, _line(str(error.source))
    if isinstance(error, httpx.TransportError):
        return 0, _line(str(error))
    if isinstance(error, ValueError) and "not found" in str(error):
        return 404, _line(str(error))
    code = getattr(error, "code", None)
    details = getattr(error, "details", None)
    if callable(code) and callable(details):
        return _GRPC_STATUS.get(str(code()).rpartition(".")[2], 400), _line(str(details()))
    return None


_GRPC_STATUS = {
    "UNAVAILABLE": 0,
    "DEADLINE_EXCEEDED": 0,
    "INTERNAL": 500,
    "RESOURCE_EXHAUSTED": 429,
    "NOT_FOUND": 404,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
}


def _line(text: str) -> str:
    return " ".join(text.split())[:300] or "no reason given"

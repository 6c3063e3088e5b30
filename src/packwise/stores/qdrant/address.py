"""Where a Qdrant store is: ``qdrant+http://host:port/collection``, and how it is laid out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from packwise.errors import UsageError

SCHEMES = ("qdrant+http", "qdrant+https")
API_KEY = "PACKWISE_QDRANT_API_KEY"
"""The environment variable that holds the key of the server; it is never part of an address."""

_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NODE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_NUMBERS = {"grpc": 0, "shards": 1, "replicas": 1, "timeout": 30}
_FORM = "qdrant+http://HOST:PORT/COLLECTION"


@dataclass(frozen=True, slots=True)
class Address:
    """A collection on one server or on the nodes of a cluster.

    ``shards`` and ``replicas`` count when the collection is made; ``grpc`` is the port to
    speak gRPC with, 0 for HTTP; ``timeout`` is in seconds.
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


def is_address(argument: str) -> bool:
    """Whether a STORE argument means a Qdrant store."""
    return argument.partition(":")[0] in SCHEMES


def parse(argument: str) -> Address:
    """Read an address. Raises ``UsageError`` on a malformed one."""
    scheme, _, rest = argument.partition(":")
    parts = urlsplit(rest)
    if "@" in parts.netloc:
        raise UsageError("a Qdrant address holds no user or key", fix=f"put the key into {API_KEY}")
    collection = parts.path.strip("/")
    if scheme not in SCHEMES or not _COLLECTION.fullmatch(collection):
        raise UsageError(f"{argument!r} names no Qdrant collection", fix=f"write {_FORM}")
    return Address(
        text=argument,
        https=scheme.endswith("s"),
        nodes=tuple(_node(argument, node) for node in parts.netloc.split(",")),
        collection=collection,
        **_numbers(argument, parts.query),
    )


def _node(argument: str, text: str) -> tuple[str, int]:
    match = _NODE.fullmatch(text)
    if match is None or not 0 < int(match["port"] or 6333) < 65536:
        raise UsageError(f"{argument!r}: {text!r} is no host and port", fix=f"write {_FORM}")
    return match["host"].strip("[]"), int(match["port"] or 6333)


def _numbers(argument: str, query: str) -> dict[str, int]:
    given: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _NUMBERS or not value.isascii() or not value.isdigit():
            raise UsageError(
                f"{argument!r}: {name}={value} is no option",
                fix=f"use numbers for {', '.join(_NUMBERS)}",
            )
        number = int(value)
        if number < (0 if name == "grpc" else 1):
            raise UsageError(f"{argument!r}: {name} must be at least 1", fix=f"write {name}=1")
        given[name] = number
    return given

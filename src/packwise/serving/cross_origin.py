"""Which pages of other sites may call a server (CORS)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from packwise.errors import UsageError

_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")


def checked_origins(origins: Sequence[str], *, with_keys: bool) -> tuple[str, ...]:
    """Origins as browsers send them. Raises ``UsageError`` for what is not an origin, and for
    ``*`` on a server without keys: every page would read its stores."""
    for origin in origins:
        if origin == "*":
            if not with_keys:
                raise UsageError(
                    "--cors * on a server without keys would open it to every page",
                    fix="name the origin, or packwise serve keys add --tenant T",
                )
        elif not _ORIGIN.fullmatch(origin):
            raise UsageError(
                f"{origin!r} is not an origin", fix="--cors https://app.example.com, without a path"
            )
    return tuple(dict.fromkeys(origin.lower() for origin in origins))


def is_allowed(origin: str, origins: Collection[str]) -> bool:
    """Whether a page of that origin may call the server."""
    return "*" in origins or origin in origins


def cors_middleware(origins: Collection[str]) -> list[Middleware]:
    """The middleware that tells browsers so; none if no other site may call."""
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            allow_private_network=True,
            expose_headers=["X-Request-Id", "Retry-After", "ETag"],
        )
    ]

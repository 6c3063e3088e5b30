"""Server-sent events."""

from __future__ import annotations

import json
from typing import Any

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


WAITING = b": waiting\n\n"
"""Says nothing; keeps proxies from taking silence for the end."""


def event(name: str | None, data: Any) -> bytes:
    """One event; the data is one line of ASCII JSON, so nothing in it can end the event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, allow_nan=False)}\n\n".encode("ascii")

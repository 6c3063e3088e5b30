"""Limits per request, per key and for the whole server."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from packwise.errors import UsageError
from packwise.machine import core_count
from packwise.serving.shared_state import SharedState


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server.

    body_bytes       largest request body
    question         longest question, in characters
    running          questions worked on at once
    waiting          length of the queue; further requests get 503
    rate             requests per minute and key, on average; 0: unlimited
    burst            requests a key may send at once
    deadline         seconds from a request to its answer, waiting included
    header_seconds   time for a client to send the head of a request
    body_seconds     time for a client to send the body
    write_seconds    time for a client to read a piece of the response
    idle_seconds     time a connection may stay open between requests
    connections      open connections
    drain_seconds    time for running requests to finish when the server stops
    traces           traces kept in memory
    file_bytes       largest file that can be added to a pack
    upload_bytes     all files that are added at once
    upload_seconds   time for a client to send a file
    """

    body_bytes: int = 256 * 1024
    question: int = 8000
    running: int = field(default_factory=core_count)
    waiting: int = 512
    rate: float = 600.0
    burst: int = 60
    deadline: float = 60.0
    header_seconds: float = 10.0
    body_seconds: float = 15.0
    write_seconds: float = 20.0
    idle_seconds: float = 15.0
    connections: int = 2048
    drain_seconds: float = 30.0
    traces: int = 256
    file_bytes: int = 64 << 20
    upload_bytes: int = 1 << 30
    upload_seconds: float = 600.0

    def __post_init__(self) -> None:
        above = "body_bytes question running deadline burst connections file_bytes upload_bytes"
        for name in above.split():
            if not getattr(self, name) > 0:
                raise UsageError(f"the limit {name} must be above 0")
        for name in ("waiting", "rate", "drain_seconds", "traces"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"the limit {name} must be 0 or more")

    def for_one_of(self, workers: int) -> Limits:
        """The limits of one worker process, which together keep to these.

        Each works on two questions at once if it may, so that a slow one, which the connection
        happened to bring to it, does not block the rest.
        """
        return replace(
            self,
            running=max(min(2, self.running), math.ceil(self.running / workers)),
            waiting=math.ceil(self.waiting / workers),
            connections=math.ceil(self.connections / workers),
        )


class RateLimiter:
    """A token bucket per key: ``burst`` tokens at most, refilled at ``rate`` per minute.

    At most ``capacity`` keys are remembered. The least recently used one is forgotten first and
    starts again with a full bucket.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        capacity: int = 10_000,
        shared: SharedState | None = None,
    ) -> None:
        self._rate = rate / 60.0
        self._burst = float(burst)
        self._clock = clock
        self._capacity = capacity
        self._shared = shared or SharedState()

    def take(self, key: str) -> int:
        """Take a token: 0 if the request may proceed, else the seconds to wait."""
        if self._rate <= 0:
            return 0
        with self._shared.changing() as database:
            now = self._clock()  # The same clock in every process of a machine.
            row = database.execute("SELECT tokens, since FROM buckets WHERE key = ?", (key,))
            tokens, since = row.fetchone() or (self._burst, now)
            tokens = min(self._burst, tokens + (now - since) * self._rate)
            wait = 0
            if tokens >= 1.0:
                tokens -= 1.0
            else:
                wait = max(1, math.ceil((1.0 - tokens) / self._rate))
            # A row that is replaced becomes the last one.
            database.execute("REPLACE INTO buckets VALUES (?, ?, ?)", (key, tokens, now))
            database.execute(
                "DELETE FROM buckets WHERE rowid <= (SELECT rowid FROM buckets"
                " ORDER BY rowid DESC LIMIT 1 OFFSET ?)",
                (self._capacity,),
            )
        return wait

"""Limits per request, per key and for the whole server."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from packwise.errors import UsageError


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
    """

    body_bytes: int = 256 * 1024
    question: int = 8000
    running: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
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

    def __post_init__(self) -> None:
        for name in ("body_bytes", "question", "running", "deadline", "burst", "connections"):
            if not getattr(self, name) > 0:
                raise UsageError(f"the limit {name} must be above 0")
        for name in ("waiting", "rate", "drain_seconds", "traces"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"the limit {name} must be 0 or more")


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
    ) -> None:
        self._rate = rate / 60.0
        self._burst = float(burst)
        self._clock = clock
        self._capacity = capacity
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> int:
        """Take a token: 0 if the request may proceed, else the seconds to wait."""
        if self._rate <= 0:
            return 0
        now = self._clock()
        with self._lock:
            tokens, since = self._buckets.get(key, (self._burst, now))
            tokens = min(self._burst, tokens + (now - since) * self._rate)
            wait = 0
            if tokens >= 1.0:
                tokens -= 1.0
            else:
                wait = max(1, math.ceil((1.0 - tokens) / self._rate))
            self._buckets[key] = (tokens, now)
            self._buckets.move_to_end(key)
            while len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        return wait

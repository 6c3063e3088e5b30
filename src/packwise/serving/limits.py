"""What one request, one key and all of them together may take."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from packwise.errors import UsageError


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server.

    body_bytes       largest request body
    question         longest question, in characters
    running          questions worked on at once
    waiting          questions that may wait for their turn; one more is told to come back
    rate             requests a minute for a key, on average; 0 is without limit
    burst            requests a key may send at once before the average counts
    deadline         seconds from a request to its answer, waiting included
    header_seconds   a client has to send the head of a request
    body_seconds     ... to send its body
    write_seconds    ... to take a piece of the answer
    idle_seconds     a connection may stay open between requests
    connections      open connections
    drain_seconds    what is running is given to finish when the server is told to stop
    traces           records kept in memory
    """

    body_bytes: int = 256 * 1024
    question: int = 8000
    running: int = field(default_factory=_cores)
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
                raise UsageError(f"the limit {name} is above 0")
        for name in ("waiting", "rate", "drain_seconds", "traces"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"the limit {name} is 0 or more")


class RateLimiter:
    """A bucket of tokens a key: ``burst`` deep, refilled at ``rate`` a minute.

    At most ``most`` keys are remembered; the one unused for longest is forgotten, which can
    only be in its favour.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        most: int = 10_000,
    ) -> None:
        self._rate = rate / 60.0
        self._burst = float(burst)
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> int:
        """0 when the request may go on, else the seconds after which one may."""
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
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        return wait

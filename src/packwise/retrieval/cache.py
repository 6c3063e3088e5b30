"""Repeated searches within a short time, answered from memory.

The key holds the whole query, filters included, and the version of the store: a rebuilt store
never returns what the old one held, and one tenant never sees another's results.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from packwise.candidates import Query

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """How often the cache was asked and had the answer."""

    hits: int
    misses: int
    size: int

    @property
    def hit_rate(self) -> float:
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class QueryCache(Generic[_T]):
    """Keeps the last ``size`` results for ``seconds``. Safe to use from several threads."""

    def __init__(
        self, size: int, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[tuple[str, Query], tuple[float, _T]] = OrderedDict()
        self._hits = 0
        self._misses = 0
        self._lock = threading.Lock()

    @property
    def enabled(self) -> bool:
        return self._size > 0 and self._seconds > 0

    def get(self, query: Query, version: str) -> _T | None:
        """The earlier result, unless it is too old or the store has changed."""
        key = (version, query)
        with self._lock:
            found = self._kept.get(key)
            if found is not None and self._clock() - found[0] < self._seconds:
                self._kept.move_to_end(key)
                self._hits += 1
                return found[1]
            self._kept.pop(key, None)
            self._misses += 1
            return None

    def put(self, query: Query, version: str, result: _T) -> None:
        """Keep a result; the least recently used one makes room."""
        key = (version, query)
        with self._lock:
            self._kept[key] = (self._clock(), result)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._kept))

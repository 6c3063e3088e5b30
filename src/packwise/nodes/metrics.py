"""What an adapter has done since it was opened: searches by type with their latency, and how
often the embedding of a query was cached."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

_KEPT = 1000
"""Latencies that are kept per type: the last ones."""


@dataclass(frozen=True, slots=True)
class SearchCounts:
    """Calls of one type: how many, how many failed, and the latency of the last 1,000."""

    calls: int
    failed: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class AdapterMetrics:
    """Calls by type (``direct``, ``similarity``, ``hybrid``, ``fields``, ``examples``), and the
    cache of query embeddings."""

    searches: Mapping[str, SearchCounts]
    cache_hits: int
    cache_misses: int

    @property
    def cache_hit_rate(self) -> float:
        """Share of the queries whose embedding was cached; 0 before the first one."""
        asked = self.cache_hits + self.cache_misses
        return self.cache_hits / asked if asked else 0.0


class Recorder:
    """Counts what an adapter does. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._latency: dict[str, deque[float]] = {}
        self._cache = [0, 0]

    @contextmanager
    def measured(self, kind: str) -> Generator[None]:
        """Count and time one call; a call that raises counts as failed and is not timed."""
        started = time.perf_counter()
        took: float | None = None
        try:
            yield
            took = 1000 * (time.perf_counter() - started)
        finally:
            with self._lock:
                self._calls[kind] = self._calls.get(kind, 0) + 1
                self._failed[kind] = self._failed.get(kind, 0) + (took is None)
                latency = self._latency.setdefault(kind, deque(maxlen=_KEPT))
                if took is not None:
                    latency.append(took)

    def cached(self, hit: bool) -> None:
        """Count one look-up of a query's embedding."""
        with self._lock:
            self._cache[not hit] += 1

    def read(self) -> AdapterMetrics:
        """Everything so far."""
        with self._lock:
            searches = {
                kind: SearchCounts(calls, self._failed[kind], *_percentiles(self._latency[kind]))
                for kind, calls in sorted(self._calls.items())
            }
            return AdapterMetrics(searches, *self._cache)


def _percentiles(latency: deque[float]) -> tuple[float, float, float]:
    if not latency:
        return 0.0, 0.0, 0.0
    p50, p95, p99 = np.percentile(list(latency), (50, 95, 99)).tolist()
    return round(p50, 3), round(p95, 3), round(p99, 3)

"""Counters and histograms in Prometheus' text format."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))
    total: float = 0.0


class Metrics:
    """What the server has counted. Safe to use from several threads.

    Labels are routes, statuses, stages and store names, never a caller's text: the number of
    series is bounded whatever is asked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[tuple[str, Labels], _Histogram] = {}

    def count(self, name: str, **labels: str) -> None:
        """One more of it."""
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._counters[key] = self._counters.get(key, 0.0) + 1.0

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """It took so long."""
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            histogram = self._histograms.setdefault(key, _Histogram())
            histogram.counts[bisect_left(_SECONDS, seconds)] += 1
            histogram.total += seconds

    def stages(self, timings_ms: Mapping[str, float]) -> None:
        """The stages of one question."""
        for stage, ms in timings_ms.items():
            self.observe("packwise_stage_seconds", ms / 1000.0, stage=stage)

    def exposition(self, gauges: Iterable[tuple[str, Labels, float]] = ()) -> str:
        """Everything, with the gauges as they stand now."""
        with self._lock:
            counters = dict(self._counters)
            histograms = {
                key: (list(h.counts), h.total) for key, h in sorted(self._histograms.items())
            }
        lines: list[str] = []
        typed: set[str] = set()

        def head(name: str, kind: str) -> None:
            if name not in typed:
                typed.add(name)
                lines.append(f"# HELP {name} {_HELP[name]}")
                lines.append(f"# TYPE {name} {kind}")

        for (name, labels), value in sorted(counters.items()):
            head(name, "counter")
            lines.append(f"{name}{_text(labels)} {value:g}")
        for (name, labels), (counts, total) in histograms.items():
            head(name, "histogram")
            so_far = 0
            for bound, count in zip((*map(str, _SECONDS), "+Inf"), counts, strict=True):
                so_far += count
                lines.append(f"{name}_bucket{_text((*labels, ('le', bound)))} {so_far}")
            lines.append(f"{name}_sum{_text(labels)} {total:.6f}")
            lines.append(f"{name}_count{_text(labels)} {so_far}")
        for name, labels, value in sorted(gauges):
            head(name, "counter" if name.endswith("_total") else "gauge")
            lines.append(f"{name}{_text(labels)} {value:.17g}")
        return "\n".join(lines) + "\n"


_HELP = {
    "packwise_requests_total": "Requests answered.",
    "packwise_request_seconds": "From the head of a request to the end of its answer.",
    "packwise_stage_seconds": "What each stage of a question took.",
    "packwise_refused_total": "Requests not answered, by the code they were given.",
    "packwise_answers_total": "Questions answered, by how.",
    "packwise_running": "Questions being worked on.",
    "packwise_waiting": "Questions waiting for their turn.",
    "packwise_traces": "Traces in memory.",
    "packwise_cache_hits_total": "Searches answered from memory.",
    "packwise_cache_misses_total": "Searches that were run.",
    "packwise_store_passages": "Passages a store holds.",
    "process_resident_memory_bytes": "Memory of this process.",
}


def _text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

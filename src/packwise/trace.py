"""What each stage did: how long it took, what it noted, what it dropped and why."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

TRACE_VERSION = 1


@dataclass(slots=True)
class Stage:
    """One stage of a trace; ``notes`` are plain JSON values."""

    name: str
    ms: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)

    def note(self, **values: Any) -> None:
        self.notes.update(values)


@dataclass(frozen=True, slots=True)
class DroppedCandidate:
    """A candidate that was dropped, and the one reason for it."""

    id: str
    stage: str
    reason: str


@dataclass(slots=True)
class Trace:
    """The record of one question, written by the stages as they run."""

    stages: list[Stage] = field(default_factory=list[Stage])
    dropped: list[DroppedCandidate] = field(default_factory=list[DroppedCandidate])
    degraded: list[str] = field(default_factory=list[str])

    @contextmanager
    def stage(self, name: str) -> Generator[Stage]:
        """Time a stage and record it, even if it raises."""
        stage = Stage(name)
        self.stages.append(stage)
        started = time.perf_counter()
        try:
            yield stage
        finally:
            stage.ms = (time.perf_counter() - started) * 1000.0

    def drop(self, id: str, stage: str, reason: str) -> None:
        self.dropped.append(DroppedCandidate(id, stage, reason))

    def timings_ms(self) -> dict[str, float]:
        """Milliseconds per stage, in the order in which they ran."""
        timings: dict[str, float] = {}
        for stage in self.stages:
            timings[stage.name] = round(timings.get(stage.name, 0.0) + stage.ms, 3)
        return timings

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": TRACE_VERSION,
            "stages": [{"name": s.name, "ms": round(s.ms, 3), **s.notes} for s in self.stages],
            "dropped": [{"id": d.id, "stage": d.stage, "reason": d.reason} for d in self.dropped],
            "degraded": list(self.degraded),
        }

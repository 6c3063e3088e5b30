"""What each stage did: how long it took, what it noted, what it dropped and why."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

TRACE_VERSION = 1
STAGES: Mapping[str, str] = MappingProxyType(
    {
        "cache": "answers a search that was asked before; then it is the only stage",
        "phrasings": "searches the other phrasings of the question, and joins what they find",
        "embed": "embeds the question",
        "vector": "searches the vector leg",
        "keyword": "searches the keyword leg, while the question is embedded",
        "complete": "lets each leg score what only the other one found",
        "fusion": "makes one list of the two legs",
        "fetch": "reads the passages from the store, and leaves out copies",
        "confidence": "computes the confidence and the probability",
        "cross_encoder": "reranks with the cross-encoder",
        "mmr": "reranks for variety",
        "graph": "follows names and links to further passages",
        "change_logs": "lowers lists of changes that the question does not ask for",
        "expansion": "asks a language model for other phrasings",
        "gate": "decides whether the store covers the question",
        "documents": "chooses the documents to answer from",
        "knowledge": "looks up entities, facts and relations",
        "packing": "packs passages into the budget",
        "few_shot": "finds examples for the prompt",
        "reading": "finds the parts of the passages that answer",
        "extract": "makes the answer of these parts",
        "synthesis": "lets a language model write the answer",
    }
)
"""What each stage does, in the order in which they can run."""


@dataclass(slots=True)
class Stage:
    """One stage of a trace."""

    name: str
    """the stage"""
    ms: float = 0.0
    """how long it took, in milliseconds"""
    notes: dict[str, Any] = field(default_factory=dict)
    """what it found, as plain JSON values beside its name"""
    started: int = 0
    """when it began, in nanoseconds of the clock; 0 if it ran for an earlier question"""
    error: str = ""
    """the kind of error it ended with or had to do without"""

    def note(self, **values: Any) -> None:
        self.notes.update(values)


@dataclass(frozen=True, slots=True)
class DroppedCandidate:
    """A candidate that was dropped, and the one reason for it."""

    id: str
    """the passage"""
    stage: str
    """the stage that dropped it"""
    reason: str
    """why"""


@dataclass(slots=True)
class Trace:
    """The record of one question, written by the stages as they run."""

    stages: list[Stage] = field(default_factory=list[Stage])
    """what ran, in this order"""
    dropped: list[DroppedCandidate] = field(default_factory=list[DroppedCandidate])
    """the candidates that were left out, each with one reason"""
    degraded: list[str] = field(default_factory=list[str])
    """one line for each step that failed or was skipped"""

    @contextmanager
    def stage(self, name: str) -> Generator[Stage]:
        """Time a stage and record it, even if it raises."""
        stage = Stage(name, started=time.time_ns())
        self.stages.append(stage)
        started = time.perf_counter()
        try:
            yield stage
        except Exception as error:
            stage.error = type(error).__name__
            raise
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

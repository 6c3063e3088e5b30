"""A guard for continuous integration: does a change make anything worse than it was?

A baseline file holds every question's scores. A metric has fallen when its mean, over the
questions both runs asked, is lower and the 95% interval of the paired difference leaves zero
out: what chance may do to these questions does not fail a build, a real loss does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from packwise.errors import DataError, PackwiseError
from packwise.evaluation.compare import Difference, compare
from packwise.evaluation.contexts import GARBAGE, NOISE, REDUNDANCY, TOKENS
from packwise.evaluation.experiment import Arm

FORMAT = 1
SHARED = 0.9
"""Share of the baseline's questions that must be asked again: fewer is another data set."""

_LESS_IS_BETTER = (GARBAGE, REDUNDANCY, NOISE)
_NOT_JUDGED = (TOKENS,)

_DIGITS = 6
_ROUNDED = 10.0**-_DIGITS
"""A difference that writing the baseline down can make."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What an earlier run scored, question by question, and its p95 in milliseconds."""

    dataset: str
    variant: str
    budget: int
    scores: Mapping[str, Mapping[str, float]]
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Change:
    """A metric now against the baseline; ``fell`` means worse beyond its noise."""

    metric: str
    before: float
    now: float
    difference: Difference
    fell: bool

    def as_dict(self) -> dict[str, Any]:
        d = self.difference
        return {
            "metric": self.metric,
            "before": round(self.before, 6),
            "now": round(self.now, 6),
            "difference": round(d.mean, 6),
            "interval": [round(d.low, 6), round(d.high, 6)],
            "questions": d.questions,
            "fell": self.fell,
        }


@dataclass(frozen=True, slots=True)
class Gate:
    """Every change, and how much slower p95 is as a share; ``too_slow`` only where a limit
    was set."""

    changes: tuple[Change, ...]
    slower: float
    too_slow: bool

    @property
    def passed(self) -> bool:
        return not self.too_slow and not any(change.fell for change in self.changes)


def save_baseline(path: Path, arm: Arm, dataset: str) -> None:
    """Keep what a run scored."""
    record = {
        "format": FORMAT,
        "dataset": dataset,
        "variant": arm.variant,
        "budget": arm.budget,
        "p95_ms": round(arm.latency.p95, 3),
        "scores": {
            metric: {q: round(value, _DIGITS) for q, value in arm.scores(metric).items()}
            for metric in arm.metrics
        },
    }
    try:
        path.write_text(json.dumps(record, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise PackwiseError(f"cannot write {path}: {error.strerror}") from error


def load_baseline(path: Path) -> Baseline:
    """What ``save_baseline`` kept. Raises ``DataError`` on anything else."""
    fix = f"packwise eval gate FOLDER --baseline {path} --write"
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        values = cast("dict[str, Any]", content)
        if values["format"] != FORMAT:
            raise DataError(f"{path} is a baseline of another format", fix=fix)
        return Baseline(
            dataset=str(values["dataset"]),
            variant=str(values["variant"]),
            budget=int(values["budget"]),
            scores={
                str(metric): {str(q): float(v) for q, v in by_question.items()}
                for metric, by_question in values["scores"].items()
            },
            p95_ms=float(values["p95_ms"]),
        )
    except FileNotFoundError as error:
        raise DataError(f"there is no baseline at {path}", fix=fix) from error
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is not a baseline ({error})", fix=fix) from error


def check(arm: Arm, baseline: Baseline, *, slower: float | None = None) -> Gate:
    """Hold a run against its baseline; ``slower`` limits the growth of p95, as a share.

    Raises ``DataError`` when the two did not ask the same questions.
    """
    changes: list[Change] = []
    for metric, before in baseline.scores.items():
        now = arm.scores(metric)
        shared = before.keys() & now.keys()
        if len(shared) < SHARED * len(before) or not shared:
            raise DataError(
                f"the baseline has {metric} of {len(before)} questions, this run of "
                f"{len(shared)} of them",
                fix="ask the same questions, or make the baseline anew with --write",
            )
        if metric.partition("@")[0] in _NOT_JUDGED:
            continue
        difference = compare({q: now[q] for q in shared}, {q: before[q] for q in shared})
        fell = difference.high < -_ROUNDED
        if metric.partition("@")[0] in _LESS_IS_BETTER:
            fell = difference.low > _ROUNDED
        changes.append(
            Change(
                metric,
                float(np.mean([before[q] for q in shared])),
                float(np.mean([now[q] for q in shared])),
                difference,
                fell,
            )
        )
    growth = arm.latency.p95 / baseline.p95_ms - 1.0 if baseline.p95_ms else 0.0
    return Gate(tuple(changes), growth, slower is not None and growth > slower)

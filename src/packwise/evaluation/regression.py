"""A regression gate for continuous integration: did any metric get worse?

A baseline file has every question's scores. A metric fell if its mean over the questions that
both runs asked is lower and the 95% interval of the paired difference excludes zero. Noise
does not fail a build, a real loss does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packwise.errors import DataError, PackwiseError
from packwise.evaluation.compare import Difference, compare
from packwise.evaluation.experiment import VariantResult
from packwise.evaluation.metrics import AVERAGED, TOKENS, mean

_FORMAT = 1
_SHARED = 0.9
"""Share of the baseline's questions that must be asked again: fewer is another data set."""
_DIGITS = 6
_ROUNDED = 10.0**-_DIGITS
"""A difference that rounding in the baseline file can cause."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The scores of an earlier run by metric and question, and its p95 in milliseconds."""

    budget: int
    scores: Mapping[str, Mapping[str, float]]
    p95_ms: float


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A metric now and in the baseline; ``fell`` means worse beyond its noise."""

    metric: str
    before: float
    now: float
    difference: Difference
    fell: bool


@dataclass(frozen=True, slots=True)
class RegressionResult:
    """Every change, and how much slower p95 is as a share. ``too_slow`` is set only if there
    is a limit."""

    changes: tuple[MetricChange, ...]
    slower: float
    too_slow: bool

    @property
    def passed(self) -> bool:
        return not self.too_slow and not any(change.fell for change in self.changes)


def save_baseline(path: Path, result: VariantResult, dataset: str) -> None:
    """Write the scores of a run to a file."""
    record = {
        "format": _FORMAT,
        "dataset": dataset,
        "variant": result.variant,
        "budget": result.budget,
        "p95_ms": round(result.latency.p95, 3),
        "scores": {
            metric: {q: round(value, _DIGITS) for q, value in result.scores(metric).items()}
            for metric in result.metrics
        },
    }
    try:
        path.write_text(json.dumps(record, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise PackwiseError(f"cannot write {path}: {error.strerror}") from error


def load_baseline(path: Path) -> Baseline:
    """Read what ``save_baseline`` wrote. Raises ``DataError`` on anything else."""
    fix = f"packwise eval gate FOLDER --baseline {path} --write"
    try:
        values = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
        if values["format"] != _FORMAT:
            raise DataError(f"{path} is a baseline of another format", fix=fix)
        return Baseline(
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


def check_regression(
    result: VariantResult, baseline: Baseline, *, slower: float | None = None
) -> RegressionResult:
    """Compare a run with its baseline; ``slower`` limits the growth of p95, as a share.

    Raises ``DataError`` if the two did not ask the same questions.
    """
    changes: list[MetricChange] = []
    for metric, scores in baseline.scores.items():
        now = result.scores(metric)
        shared = sorted(scores.keys() & now.keys())
        if len(shared) < _SHARED * len(scores) or not shared:
            raise DataError(
                f"the baseline has {metric} of {len(scores)} questions, this run of "
                f"{len(shared)} of them",
                fix="ask the same questions, or write the baseline again with --write",
            )
        formula = metric.partition("@")[0]
        if formula == TOKENS:
            continue
        d = compare({q: now[q] for q in shared}, {q: scores[q] for q in shared})
        changes.append(
            MetricChange(
                metric,
                mean(scores[q] for q in shared),
                mean(now[q] for q in shared),
                d,
                fell=d.low > _ROUNDED if formula in AVERAGED else d.high < -_ROUNDED,
            )
        )
    growth = result.latency.p95 / baseline.p95_ms - 1.0 if baseline.p95_ms else 0.0
    return RegressionResult(tuple(changes), growth, slower is not None and growth > slower)

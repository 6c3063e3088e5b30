"""Trials as JSON values, in the shape that ``packwise eval --json`` promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from packwise.evaluation.calibration_metrics import assess, risk_coverage
from packwise.evaluation.compare import Difference
from packwise.evaluation.contexts import ANSWER_RECALL, GARBAGE, GOLD_RECALL, NOISE, REDUNDANCY
from packwise.evaluation.data import DataSet
from packwise.evaluation.experiment import Arm
from packwise.evaluation.metrics import Metric, mean
from packwise.evaluation.runner import Latency
from packwise.evaluation.verdict import differences

_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def trial_record(dataset: DataSet, arms: Sequence[Arm]) -> dict[str, Any]:
    """One arm as it is, several with how the last differs from each other one."""
    runs = [arm_record(dataset, arm) for arm in arms]
    if len(runs) == 1:
        return runs[0]
    last = arms[-1]
    return {
        "runs": runs,
        "differences": [
            {"metric": metric, "a": last.variant, "b": other.variant, **difference_record(d)}
            for other in arms[:-1]
            for metric, d in differences(last, other).items()
        ],
    }


def arm_record(dataset: DataSet, arm: Arm) -> dict[str, Any]:
    """One variant's figures; latency is that of search and packing together."""
    return {
        "dataset": dataset.name,
        "variant": arm.variant,
        "queries": len(arm.answered),
        "metrics": {name: round(value, 6) for name, value in figures(arm).items()},
        "latency_ms": latency_record(arm.latency),
        "details": {
            "split": dataset.split,
            "half": dataset.half,
            "absent": dataset.absent,
            "budget": arm.budget,
            "errors": round(arm.errors, 6),
            "stages_ms": {name: latency_record(ms) for name, ms in arm.stages.items()},
            "gate": gate_record(arm),
        },
    }


def figures(arm: Arm) -> dict[str, float]:
    """Every metric's mean; what has a budget also comes as the mean over all budgets."""
    found = {name: arm.value(name) for name in arm.metrics}
    for formula in (GARBAGE, REDUNDANCY, NOISE):
        own = [value for name, value in found.items() if name.startswith(f"{formula}@")]
        if own:
            found[formula] = mean(own)
    return found


def gate_record(arm: Arm) -> dict[str, Any] | None:
    """What confidence and probability are worth; ``None`` unless some questions cannot be
    answered and some context holds its answer."""
    right = [found for _, found in there(arm)]
    if not any(right) or all(a.question.answerable for a in arm.answered):
        return None
    record: dict[str, Any] = {}
    for name, values in confidences(arm).items():
        points = risk_coverage(values, right)
        nearest = [min(points, key=lambda p, s=share: abs(p.coverage - s)) for share in _SHARES]
        record[name] = {
            **{key: round(value, 6) for key, value in asdict(assess(values, right)).items()},
            "risk_coverage": [
                [round(p.coverage, 4), round(p.risk, 4)] for p in dict.fromkeys(nearest)
            ],
        }
    return record


def there(arm: Arm) -> list[tuple[str, bool]]:
    """Each question's id, and whether its context held the answer (or, where no answer is
    known, a relevant passage)."""
    answer = str(Metric(ANSWER_RECALL, arm.budget))
    gold = str(Metric(GOLD_RECALL, arm.budget))
    return [
        (
            a.question.id,
            a.question.answerable and a.scores.get(answer, a.scores.get(gold, 0.0)) > 0,
        )
        for a in arm.answered
    ]


def confidences(arm: Arm) -> dict[str, list[float]]:
    """What the gate looks at, and the probability beside it where every question has one."""
    found = {"confidence": [a.confidence for a in arm.answered]}
    probabilities = [a.probability for a in arm.answered if a.probability is not None]
    if len(probabilities) == len(arm.answered):
        found["probability"] = probabilities
    return found


def difference_record(difference: Difference) -> dict[str, Any]:
    """A paired difference."""
    return {
        "difference": round(difference.mean, 6),
        "interval": [round(difference.low, 6), round(difference.high, 6)],
        "p_value": round(difference.p_value, 6),
        "wins": difference.wins,
        "ties": difference.ties,
        "losses": difference.losses,
    }


def latency_record(latency: Latency) -> dict[str, float]:
    """Percentiles in milliseconds."""
    return {name: round(value, 3) for name, value in asdict(latency).items()}

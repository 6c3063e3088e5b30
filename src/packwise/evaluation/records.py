"""Evaluation results as JSON values: what each command prints with ``--json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packwise.evaluation.calibration_metrics import assess, risk_coverage
from packwise.evaluation.compare import Difference
from packwise.evaluation.experiment import Experiment, VariantResult, differences
from packwise.evaluation.metrics import AVERAGED, Latency, mean

if TYPE_CHECKING:
    from packwise.evaluation.ablation import StageEffect
    from packwise.evaluation.calibration import Fit
    from packwise.evaluation.regression import RegressionResult
    from packwise.evaluation.traffic import Traffic
    from packwise.evaluation.verdict import Verdict

Record = dict[str, Any]
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def rankings_record(found: Experiment) -> Record:
    """Variants whose rankings alone were measured."""
    return _record(found, _ranking, None)


def contexts_record(found: Experiment) -> Record:
    """Variants that are compared by their contexts alone."""
    return _record(found, _contexts, found.results[0].context_metrics)


def variants_record(found: Experiment) -> Record:
    """Variants with rankings, contexts and the confidence gate."""
    return _record(found, _whole, None)


def whole_record(rankings: Experiment | None, contexts: Experiment, store: Record) -> Record:
    """One variant with the rankings of a deep search and the contexts of the default one.
    ``rankings`` is ``None`` if no relevant documents are known."""
    packed = variants_record(contexts)
    packed["details"]["store"] = store
    if rankings is None:
        return packed
    record = rankings_record(rankings)
    record["metrics"] = {**record["metrics"], **packed["metrics"], **record["metrics"]}
    record["details"].update(
        {name: packed["details"][name] for name in ("budget", "gate", "store")},
        context_latency_ms={str(contexts.budgets[0]): packed["latency_ms"]},
    )
    return record


def _record(
    found: Experiment,
    run: Callable[[Experiment, VariantResult], Record],
    metrics: Sequence[str] | None,
) -> Record:
    """One run as it is, several with their differences."""
    runs = [run(found, result) for result in found.results]
    if len(runs) == 1:
        return runs[0]
    compared = [
        {"metric": metric, "a": found.reference, "b": other, **difference_record(difference)}
        for metric, other, difference in found.differences(metrics)
    ]
    return {"runs": runs, "differences": compared}


def _run(
    found: Experiment, result: VariantResult, values: Record, latency: Latency, **details: Any
) -> Record:
    return {
        "dataset": found.dataset.name,
        "variant": result.variant,
        "queries": len(result.questions),
        "metrics": {name: round(value, 6) for name, value in values.items()},
        "latency_ms": latency_record(latency),
        "details": {"split": found.dataset.split, "half": found.dataset.half, **details},
    }


def _ranking(found: Experiment, result: VariantResult) -> Record:
    return _run(
        found,
        result,
        {name: result.value(name) for name in result.metrics},
        result.latency,
        unjudged=len(found.dataset.questions) - len(found.dataset.judged),
        absent=found.dataset.absent,
        depth=found.depth,
        latency_without_embedding_ms=latency_record(result.latency_without_embedding),
        stages_ms=_stages(result),
    )


def _contexts(found: Experiment, result: VariantResult) -> Record:
    latencies = {budget: Latency.of(result.times(budget)) for budget in found.budgets}
    return _run(
        found,
        result,
        {name: result.value(name) for name in result.context_metrics},
        latencies[max(found.budgets)],
        budgets=list(found.budgets),
        context_latency_ms={str(b): latency_record(ms) for b, ms in latencies.items()},
    )


def _whole(found: Experiment, result: VariantResult) -> Record:
    values = {name: result.value(name) for name in result.metrics}
    for formula in AVERAGED:
        own = [value for name, value in values.items() if name.startswith(f"{formula}@")]
        values |= {formula: mean(own)} if own else {}
    return _run(
        found,
        result,
        values,
        result.latency,
        absent=found.dataset.absent,
        budget=result.budget,
        errors=round(result.errors, 6),
        stages_ms=_stages(result),
        gate=confidence_record(result),
    )


def confidence_record(result: VariantResult) -> Record | None:
    """How good confidence and probability are; ``None`` unless some questions cannot be
    answered and some context contains its answer."""
    right = [r.answer_found for r in result.questions]
    if not any(right) or all(r.question.answerable for r in result.questions):
        return None
    record: Record = {}
    for name, values in confidences(result).items():
        points = risk_coverage(values, right)
        nearest = [min(points, key=lambda p, s=share: abs(p.coverage - s)) for share in _SHARES]
        record[name] = {
            **{key: round(value, 6) for key, value in asdict(assess(values, right)).items()},
            "risk_coverage": [
                [round(p.coverage, 4), round(p.risk, 4)] for p in dict.fromkeys(nearest)
            ],
        }
    return record


def confidences(result: VariantResult) -> dict[str, list[float]]:
    """What the gate uses, and the probability if every question has one."""
    found = {"confidence": [r.confidence for r in result.questions]}
    probabilities = [r.probability for r in result.questions if r.probability is not None]
    if len(probabilities) == len(result.questions):
        found["probability"] = probabilities
    return found


def comparison_record(found: Experiment, verdict: Verdict) -> Record:
    """``eval compare``: two variants and the verdict."""
    a, b = found.results
    return {
        "dataset": found.dataset.name,
        "a": a.variant,
        "b": b.variant,
        "questions": len(a.questions),
        "budget": a.budget,
        "metrics": {
            metric: {"a": round(a.value(metric), 6), "b": round(b.value(metric), 6)}
            for metric in a.metrics
        },
        "latency_ms": {"a": latency_record(a.latency), "b": latency_record(b.latency)},
        "differences": {metric: difference_record(d) for metric, d in differences(b, a).items()},
        **verdict_record(verdict),
    }


def traffic_record(path: str, traffic: Traffic, verdict: Verdict) -> Record:
    """``eval compare --traffic``: recorded requests and the verdict."""
    return {
        "traffic": path,
        "share": traffic.share,
        "requests": {arm: len(traffic.of_arm(arm)) for arm in ("a", "b")},
        "cache_hit_rate": {arm: traffic.cache_hits(arm) for arm in ("a", "b")},
        **verdict_record(verdict),
    }


def verdict_record(verdict: Verdict) -> Record:
    """The outcome with every rule."""
    return {
        "verdict": verdict.outcome,
        "reasons": list(verdict.reasons),
        "primary": verdict.primary,
        "rules": [asdict(rule) for rule in verdict.rules],
        "power": {"questions_needed": verdict.needed, "detectable": verdict.detectable},
    }


def ablation_record(found: Experiment, effects: Sequence[StageEffect]) -> Record:
    """``eval ablate``: the default, and what each stage changes."""
    default = found.results[0]
    return {
        "dataset": found.dataset.name,
        "questions": len(default.questions),
        "budget": default.budget,
        "default": {name: round(default.value(name), 6) for name in default.metrics},
        "parts": [
            {
                "part": effect.stage.name,
                "variant": effect.stage.variant,
                "on_by_default": not effect.stage.optional,
                "ms": {"median": round(effect.median_ms, 3), "p95": round(effect.p95_ms, 3)},
                "changes": {
                    metric: {**_interval(d), "p_value": round(d.p_value, 6), "clear": d.clear}
                    for metric, d in effect.changes.items()
                },
            }
            for effect in effects
        ],
    }


def gate_record(found: RegressionResult) -> Record:
    """``eval gate``: every metric against its baseline."""
    return {
        "passed": found.passed,
        "p95_change": round(found.slower, 6),
        "too_slow": found.too_slow,
        "metrics": [
            {
                "metric": change.metric,
                "before": round(change.before, 6),
                "now": round(change.now, 6),
                **_interval(change.difference),
                "questions": change.difference.questions,
                "fell": change.fell,
            }
            for change in found.changes
        ],
    }


def fit_record(fitted: Fit, path: Path | None) -> Record:
    """``calibrate``: how good the fit is, and where it was saved."""
    found, calibration = fitted.assessment, fitted.calibration
    model = calibration.models[0]
    return {
        "kept": None if path is None else str(path),
        "questions": found.questions,
        "answer_there": round(found.right, 6),
        "auroc": round(found.auroc, 6),
        "auroc_of_single_scores": {name: round(v, 6) for name, v in fitted.raw.items()},
        "ece": round(found.ece, 6),
        "ece_even_bins": round(found.ece_even, 6),
        "brier": round(found.brier, 6),
        "accuracy": round(found.accuracy, 6),
        "always_answering": round(found.always, 6),
        "never_answering": round(found.never, 6),
        "threshold": calibration.threshold,
        "refuse_below": calibration.refuse_below,
        "answered": round(fitted.answered.coverage, 6),
        "answered_wrongly": round(fitted.answered.risk, 6),
        "weights": dict(zip(model.signs, model.weights, strict=True)),
    }


def difference_record(difference: Difference) -> Record:
    """A paired difference."""
    return {
        **_interval(difference),
        "p_value": round(difference.p_value, 6),
        "clear": difference.clear,
        "wins": difference.wins,
        "ties": difference.ties,
        "losses": difference.losses,
    }


def latency_record(latency: Latency) -> Record:
    """Percentiles in milliseconds."""
    return {name: round(value, 3) for name, value in asdict(latency).items()}


def _stages(result: VariantResult) -> Record:
    return {name: latency_record(ms) for name, ms in result.stages.items()}


def _interval(d: Difference) -> Record:
    return {"difference": round(d.mean, 6), "interval": [round(d.low, 6), round(d.high, 6)]}

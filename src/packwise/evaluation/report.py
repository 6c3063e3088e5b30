"""Results as JSON values and as Markdown: the same numbers, the same order, every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packwise.evaluation.compare import Contrast
from packwise.evaluation.contexts import (
    ANSWER_RECALL,
    BASELINE,
    DEFAULT,
    GARBAGE,
    GOLD_RECALL,
    NOISE,
    REDUNDANCY,
    TOKENS,
    ContextEvaluation,
    ContextResults,
)
from packwise.evaluation.metrics import HEADLINE, Metric
from packwise.evaluation.runner import Evaluation, Latency

TABLE_METRICS: tuple[Metric, ...] = (
    HEADLINE,
    Metric("recall", 2),
    Metric("recall", 5),
    Metric("recall", 100),
    Metric("mrr", 10),
)
# Differences of these are shown to people: the ranking as a whole, and whether the answer
# would be among the few passages that are read.
_LEADING = (HEADLINE, Metric("recall", 5))
_SHOWN = {ANSWER_RECALL: 3, GOLD_RECALL: 3, GARBAGE: 3, REDUNDANCY: 2, NOISE: 3, TOKENS: 0}
CONTEXT_COLUMNS = (
    "budget",
    "variant",
    "answer recall",
    "gold recall",
    "garbage",
    "redundancy",
    "noise",
    "tokens",
    "p95 ms",
)
DIFFERENCE_COLUMNS = (
    "budget",
    "answer recall [95%]",
    "p",
    "answers missed",
    "garbage, relative",
    "redundancy",
    "p95",
)


@dataclass(frozen=True, slots=True)
class Results:
    """One data set: each variant's evaluation, and how they differ."""

    evaluations: tuple[Evaluation, ...]
    contrasts: tuple[Contrast, ...] = ()


def results_record(results: Results) -> dict[str, Any]:
    """What ``packwise eval --json`` prints: one run as it is, several with differences."""
    if len(results.evaluations) == 1:
        return evaluation_record(results.evaluations[0])
    return {
        "runs": [evaluation_record(evaluation) for evaluation in results.evaluations],
        "differences": [contrast_record(contrast) for contrast in results.contrasts],
    }


def evaluation_record(evaluation: Evaluation) -> dict[str, Any]:
    """One run as JSON values."""
    return {
        "dataset": evaluation.dataset,
        "variant": evaluation.variant,
        "queries": evaluation.questions,
        "metrics": {str(m): round(evaluation.value(m), 6) for m in evaluation.scores},
        "latency_ms": _latency(evaluation.latency),
        "details": {
            "split": evaluation.split,
            "half": evaluation.half,
            "unjudged": evaluation.unjudged,
            "absent": evaluation.absent,
            "depth": evaluation.depth,
            "latency_without_embedding_ms": _latency(evaluation.latency_without_embedding),
            "stages_ms": {name: _latency(ms) for name, ms in evaluation.stages.items()},
        },
    }


def contexts_record(results: ContextResults) -> dict[str, Any]:
    """What ``packwise eval --budget --json`` prints, in the shape of ``results_record``."""
    runs = [_context_record(evaluation) for evaluation in results.evaluations]
    if len(runs) == 1:
        return runs[0]
    return {"runs": runs, "differences": [contrast_record(c) for c in results.contrasts]}


def _context_record(evaluation: ContextEvaluation) -> dict[str, Any]:
    largest = max(evaluation.latency)
    return {
        "dataset": evaluation.dataset,
        "variant": evaluation.variant,
        "queries": evaluation.questions,
        "metrics": {str(m): round(evaluation.value(m), 6) for m in evaluation.scores},
        "latency_ms": _latency(evaluation.latency[largest]),
        "details": {
            "split": evaluation.split,
            "half": evaluation.half,
            "budgets": list(evaluation.latency),
            "context_latency_ms": {
                str(budget): _latency(ms) for budget, ms in evaluation.latency.items()
            },
        },
    }


def context_rows(results: ContextResults) -> list[list[str]]:
    """A row for each budget and variant: what ``CONTEXT_COLUMNS`` say."""
    rows: list[list[str]] = []
    for budget in results.budgets:
        for evaluation in results.evaluations:
            values = [
                f"{evaluation.value(Metric(formula, budget)):.{digits}f}"
                if Metric(formula, budget) in evaluation.scores
                else ""
                for formula, digits in _SHOWN.items()
            ]
            p95 = f"{evaluation.latency[budget].p95:.1f}"
            rows.append([f"{budget:,}", evaluation.variant, *values, p95])
    return rows


def context_differences(results: ContextResults) -> list[list[str]]:
    """A row for each budget: the default against the baseline, as ``DIFFERENCE_COLUMNS`` say."""
    by_name = {evaluation.variant: evaluation for evaluation in results.evaluations}
    rows: list[list[str]] = []
    if not {BASELINE, DEFAULT} <= by_name.keys():
        return rows
    before, after = by_name[BASELINE], by_name[DEFAULT]
    for budget in results.budgets:
        found = results.contrast(Metric(ANSWER_RECALL, budget), BASELINE)
        garbage = Metric(GARBAGE, budget)
        share = after.value(garbage) / before.value(garbage) - 1.0 if before.value(garbage) else 0.0
        slower = after.latency[budget].p95 / before.latency[budget].p95 - 1.0
        rows.append(
            [
                f"{budget:,}",
                interval_text(found) if found else "",
                p_text(found) if found else "",
                _misses(before, after, budget),
                f"{share:+.0%}",
                f"{after.value(Metric(REDUNDANCY, budget)):.2f}",
                f"{slower:+.0%}",
            ]
        )
    return rows


def _misses(before: ContextEvaluation, after: ContextEvaluation, budget: int) -> str:
    """How many answers the contexts lack, before and after."""
    metric = Metric(ANSWER_RECALL, budget)
    if metric not in before.scores:
        return ""
    lacking = [sum(1 - score for score in e.scores[metric].values()) for e in (before, after)]
    return f"{lacking[0]:.0f} → {lacking[1]:.0f}"


def contexts_markdown(all_results: Sequence[ContextResults], command: str) -> str:
    """Two tables: every variant at every budget, and the default against the baseline."""
    lines = [f"Made by `{command}`.", ""]
    lines += _table(
        ["data set", *CONTEXT_COLUMNS],
        "lrl" + "r" * len(CONTEXT_COLUMNS[2:]),
        [[r.evaluations[0].dataset, *row] for r in all_results for row in context_rows(r)],
    )
    lines += ["", "The default minus the baseline, question by question:", ""]
    lines += _table(
        ["data set", *DIFFERENCE_COLUMNS],
        "l" + "r" * len(DIFFERENCE_COLUMNS),
        [[r.evaluations[0].dataset, *row] for r in all_results for row in context_differences(r)],
    )
    return "\n".join(lines) + "\n"


def contrast_record(contrast: Contrast) -> dict[str, Any]:
    """One paired difference as JSON values."""
    difference = contrast.difference
    return {
        "metric": str(contrast.metric),
        "a": contrast.a,
        "b": contrast.b,
        "difference": round(difference.mean, 6),
        "interval": [round(difference.low, 6), round(difference.high, 6)],
        "p_value": round(difference.p_value, 6),
        "wins": difference.wins,
        "ties": difference.ties,
        "losses": difference.losses,
    }


def leading(contrasts: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """The contrasts of the metrics that people are shown."""
    return tuple(c for c in contrasts if c.metric in _LEADING)


def interval_text(contrast: Contrast) -> str:
    """A difference and its interval, as in ``+0.021 [+0.008, +0.034]``."""
    d = contrast.difference
    return f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"


def p_text(contrast: Contrast) -> str:
    """A p-value to three digits; what is smaller is said to be smaller."""
    p = contrast.difference.p_value
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def tally_text(contrast: Contrast) -> str:
    """Questions won, tied and lost."""
    d = contrast.difference
    return f"{d.wins} / {d.ties} / {d.losses}"


def markdown(all_results: Sequence[Results], command: str) -> str:
    """Two tables: every variant on every data set, and the paired differences."""
    lines = [f"Made by `{command}`.", ""]
    lines += _table(
        ["data set", "queries", "variant", *(str(m) for m in TABLE_METRICS)],
        "lrl" + "r" * len(TABLE_METRICS),
        [
            [e.dataset, str(e.questions), e.variant, *(f"{e.value(m):.3f}" for m in TABLE_METRICS)]
            for results in all_results
            for e in results.evaluations
        ],
    )
    lines += [
        "",
        "Paired differences, with 95% bootstrap interval and the p-value of a paired "
        "permutation test:",
        "",
    ]
    lines += _table(
        ["data set", "metric", "variants", "difference", "p", "won / tied / lost"],
        "lllrrr",
        [
            [
                results.evaluations[0].dataset,
                str(c.metric),
                f"{c.a} − {c.b}",
                interval_text(c),
                p_text(c),
                tally_text(c),
            ]
            for results in all_results
            for c in leading(results.contrasts)
        ],
    )
    return "\n".join(lines) + "\n"


def _table(headings: list[str], alignments: str, rows: list[list[str]]) -> list[str]:
    rules = ["---:" if side == "r" else "---" for side in alignments]
    cells = [[_cell(value) for value in row] for row in (headings, *rows)]
    return [f"| {' | '.join(row)} |" for row in (cells[0], rules, *cells[1:])]


def _cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")


def _latency(latency: Latency) -> dict[str, float]:
    return {
        "p50": round(latency.p50, 3),
        "p95": round(latency.p95, 3),
        "p99": round(latency.p99, 3),
    }

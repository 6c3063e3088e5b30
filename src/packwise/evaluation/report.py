"""Results as JSON values and as Markdown: the same numbers, the same order, every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packwise.evaluation.compare import Contrast
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

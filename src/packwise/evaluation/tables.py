"""The rows of the tables that are shown on a terminal and written as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from packwise.evaluation.experiment import Experiment, VariantResult
from packwise.evaluation.metrics import (
    ANSWER_RECALL,
    GARBAGE,
    GOLD_RECALL,
    HEADLINE,
    NOISE,
    REDUNDANCY,
    TOKENS,
    Latency,
)
from packwise.evaluation.variants import BASELINE, DEFAULT

RANKING_METRICS = (str(HEADLINE), "recall@2", "recall@5", "recall@100", "mrr@10")
# The ranking as a whole, and whether the answer is among the few passages that are read.
_COMPARED = (str(HEADLINE), "recall@5")
_DIGITS = {ANSWER_RECALL: 3, GOLD_RECALL: 3, GARBAGE: 3, REDUNDANCY: 2, NOISE: 3, TOKENS: 0}
CONTEXT_COLUMNS = (
    *("budget", "variant", "answer recall", "gold recall", "garbage", "redundancy", "noise"),
    *("tokens", "p95 ms"),
)
CONTEXT_DIFFERENCE_COLUMNS = (
    *("budget", "answer recall [95%]", "p", "answers missed", "garbage, relative", "redundancy"),
    "p95",
)


def ranking_rows(found: Experiment) -> list[list[str]]:
    """Data set, number of queries, variant and ``RANKING_METRICS``: one row per variant."""
    return [
        [
            found.dataset.name,
            str(len(result.questions)),
            result.variant,
            *(f"{result.value(metric):.3f}" for metric in RANKING_METRICS),
        ]
        for result in found.results
    ]


def difference_rows(found: Experiment) -> list[tuple[list[str], bool]]:
    """Other variant, metric, difference, p and tally: one row per comparison of the leading
    metrics, with whether the difference is clear."""
    return [
        ([b, metric, d.interval_text(), d.p_text(), f"{d.wins} / {d.ties} / {d.losses}"], d.clear)
        for metric, b, d in found.differences(_COMPARED)
    ]


def context_rows(found: Experiment) -> list[list[str]]:
    """``CONTEXT_COLUMNS``: one row per budget and variant."""
    rows: list[list[str]] = []
    for budget in found.budgets:
        for result in found.results:
            values = [
                f"{result.value(f'{formula}@{budget}'):.{digits}f}"
                if result.scores(f"{formula}@{budget}")
                else ""
                for formula, digits in _DIGITS.items()
            ]
            rows.append([f"{budget:,}", result.variant, *values, f"{_p95(result, budget):.1f}"])
    return rows


def context_difference_rows(found: Experiment) -> list[list[str]]:
    """``CONTEXT_DIFFERENCE_COLUMNS``, default against baseline: one row per budget."""
    old, new = found.result(BASELINE), found.result(DEFAULT)
    if old is None or new is None:
        return []
    rows: list[list[str]] = []
    for budget in found.budgets:
        answers, garbage = f"{ANSWER_RECALL}@{budget}", f"{GARBAGE}@{budget}"
        compared = [d for _, other, d in found.differences([answers]) if other == BASELINE]
        missed = [sum(1 - v for v in result.scores(answers).values()) for result in (old, new)]
        share = new.value(garbage) / old.value(garbage) - 1.0 if old.value(garbage) else 0.0
        rows.append(
            [
                f"{budget:,}",
                *([compared[0].interval_text(), compared[0].p_text()] if compared else ["", ""]),
                f"{missed[0]:.0f} → {missed[1]:.0f}" if compared else "",
                f"{share:+.0%}",
                f"{new.value(f'{REDUNDANCY}@{budget}'):.2f}",
                f"{_p95(new, budget) / _p95(old, budget) - 1.0:+.0%}",
            ]
        )
    return rows


def rankings_markdown(experiments: Sequence[Experiment], command: str) -> str:
    """Every variant on every data set, and the paired differences."""
    differences = [
        [found.dataset.name, metric, f"{found.reference} − {other}", *rest]
        for found in experiments
        for (other, metric, *rest), _ in difference_rows(found)
    ]
    return (
        f"Made by `{command}`.\n\n"
        + markdown_table(
            ["data set", "queries", "variant", *RANKING_METRICS],
            "lrl" + "r" * len(RANKING_METRICS),
            [row for found in experiments for row in ranking_rows(found)],
        )
        + "\nPaired differences, with 95% bootstrap interval and the p-value of a paired "
        "permutation test:\n\n"
        + markdown_table(
            ["data set", "metric", "variants", "difference", "p", "won / tied / lost"],
            "lllrrr",
            differences,
        )
    )


def markdown_table(headings: Sequence[str], alignments: str, rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; ``alignments`` has ``l`` or ``r`` for each column."""
    rules = ["---:" if side == "r" else "---" for side in alignments]
    cells = [[" ".join(c.split()).replace("|", "\\|") for c in row] for row in (headings, *rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (cells[0], rules, *cells[1:]))


def _p95(result: VariantResult, budget: int) -> float:
    return Latency.of(result.times(budget)).p95

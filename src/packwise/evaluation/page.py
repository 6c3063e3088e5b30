"""An evaluation as one HTML page: charts, a verdict, and every question down to its trace.

The page is a single file that loads nothing and runs no script; all text on it is escaped. The
first variant is the one that the others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from packwise.evaluation import charts
from packwise.evaluation.calibration_metrics import assess, reliability, risk_coverage
from packwise.evaluation.charts import BarChart, ChartLine, LineChart, Points
from packwise.evaluation.experiment import Experiment, VariantResult, differences
from packwise.evaluation.metrics import (
    ANSWER_RECALL,
    GARBAGE,
    GOLD_RECALL,
    HEADLINE,
    TOKENS,
    mean,
    recall,
)
from packwise.evaluation.records import confidences
from packwise.evaluation.verdict import judge

BUDGETS = (250, 500, 1000, 2000, 4000, 8000)
"""The budgets of the curves."""

_MOST_SHOWN = 40
"""Questions shown of each kind, so that the page stays at a few megabytes."""
_DEPTHS = (1, 2, 3, 5, 7, 10, 15, 20)
_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def render(experiment: Experiment, command: str, size_bytes: int = 0) -> str:
    """The page as HTML. ``command`` is the command line that makes it."""
    environment = Environment(
        loader=PackageLoader("packwise.evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    results = experiment.results
    first, last = results[0], results[-1]
    elsewhere = {f"@{budget}" for budget in BUDGETS if budget != last.budget}
    return environment.get_template("report.html").render(
        frame=charts,
        experiment=experiment,
        results=results,
        command=command,
        size_bytes=size_bytes,
        tiles={
            "answer recall": f"{ANSWER_RECALL}@{last.budget}",
            "gold recall": f"{GOLD_RECALL}@{last.budget}",
            "nDCG@10": str(HEADLINE),
            "recall@5": "recall@5",
            "garbage in the context": f"{GARBAGE}@{last.budget}",
        },
        verdict=judge(last, first) if len(results) == 2 else None,
        line_charts=[*_ranking_charts(experiment), *_confidence_charts(last)],
        latency_chart=BarChart(
            "Latency by stage",
            "Medians of each stage; the keyword leg runs while the question is embedded.",
            [(r.variant, {name: ms.p50 for name, ms in r.stages.items()}) for r in results],
            "ms",
        ),
        # The other budgets are in the charts.
        metrics=[m for m in last.metrics if "_" not in m or m[m.index("@") :] not in elsewhere],
        changes=differences(last, first) if first is not last else {},
        question_lists=_question_lists(first, last),
    )


def _ranking_charts(experiment: Experiment) -> Iterator[LineChart]:
    relevant, results = experiment.dataset.relevant, experiment.results
    # Grey for the first, which the others are compared with; a single one has a colour.
    tones = [1] if len(results) == 1 else [min(i, 4) for i in range(len(results))]

    def lines(points: list[Points]) -> list[ChartLine]:
        return [
            ChartLine(r.variant, line, tone)
            for r, line, tone in zip(results, points, tones, strict=True)
        ]

    judged = [[q for q in r.questions if q.question.id in relevant] for r in results]
    if judged[0]:
        points = [
            tuple(
                (float(k), mean(recall(q.documents, relevant[q.question.id], k) for q in own))
                for k in _DEPTHS
            )
            for own in judged
        ]
        yield LineChart(
            "Recall by depth",
            "Share of the relevant documents among the first k.",
            lines(points),
            x="documents",
            y="recall",
            marks_x=(1, 5, 10, 15, 20),
        )
    for title, note, formula in (
        ("Answers by budget", "Share of contexts that hold the answer.", ANSWER_RECALL),
        ("Gold by budget", "Share of contexts with a judged-relevant passage.", GOLD_RECALL),
        ("Garbage by budget", "Tokens of passages that are not relevant.", GARBAGE),
        ("Tokens by budget", "What a context takes of its budget.", TOKENS),
    ):
        points = [
            tuple(
                (float(budget), r.value(f"{formula}@{budget}"))
                for budget in BUDGETS
                if r.scores(f"{formula}@{budget}")
            )
            for r in results
        ]
        if all(points):
            yield LineChart(
                title,
                note,
                lines(points),
                x="tokens of budget",
                y=title.lower(),
                log_x=True,
                percent_y=formula != TOKENS,
                marks_x=BUDGETS,
            )


def _confidence_charts(result: VariantResult) -> Iterator[LineChart]:
    """Risk and reliability, if some questions cannot be answered."""
    right = [r.answer_found for r in result.questions]
    if not any(right) or all(r.question.answerable for r in result.questions):
        return
    found = confidences(result)
    lines: list[ChartLine] = []
    for tone, (name, values) in enumerate(found.items()):
        curve = risk_coverage(values, right)
        nearest = [min(curve, key=lambda p, s=share: abs(p.coverage - s)) for share in _SHARES]
        points = tuple(dict.fromkeys((p.coverage, p.risk) for p in nearest))
        label = f"{name}, AUROC {assess(values, right).auroc:.3f}"
        lines.append(ChartLine(label, points, tone, dashed=not tone))
    yield LineChart(
        "Risk by coverage",
        "Answer the surest questions first: how many of them have no answer there.",
        lines,
        x="share of questions answered",
        y="risk",
        percent_x=True,
    )
    if "probability" in found:
        values = found["probability"]
        bins = reliability(values, right)
        yield LineChart(
            "Does the probability mean what it says?",
            "Questions of like probability: how often the answer is there.",
            [
                ChartLine("what it should be", ((0.0, 0.0), (1.0, 1.0)), 0, True, dots=False),
                ChartLine(
                    f"probability, error {assess(values, right).ece:.3f}",
                    tuple((b.confidence, b.right) for b in bins),
                    1,
                ),
            ],
            x="probability",
            y="answer there",
            percent_x=True,
            whole_y=True,
        )


def _question_lists(first: VariantResult, last: VariantResult) -> list[dict[str, Any]]:
    """Wins and losses of the last variant against the first, then what neither found.

    Questions are won by answer recall or, if no answers are known, by nDCG.
    """
    metric = f"{ANSWER_RECALL}@{last.budget}"
    metric = metric if last.scores(metric) else str(HEADLINE)
    paired = [
        (a, b, b.scores[metric] - a.scores[metric])
        for a, b in zip(first.questions, last.questions, strict=True)
        if metric in b.scores and metric in a.scores
    ]
    missed = [p for p in paired if not p[2] and p[1].scores[metric] < 0.5]
    if first is last:
        lists = [("Not found", "", missed)]
    else:
        wins = sorted((p for p in paired if p[2] > 0), key=lambda p: -p[2])
        losses = sorted((p for p in paired if p[2] < 0), key=lambda p: p[2])
        lists = [
            (f"Won by {last.variant}", "good", wins),
            (f"Lost by {last.variant}", "bad", losses),
            ("Found by neither", "", missed),
        ]
    return [
        {
            "title": title,
            "tone": tone,
            "metric": metric if tone == "good" else "",
            "number": len(rows),
            "more": max(0, len(rows) - _MOST_SHOWN),
            "rows": [
                (b.question, change, [b] if first is last else [a, b])
                for a, b, change in rows[:_MOST_SHOWN]
            ],
        }
        for title, tone, rows in lists
    ]

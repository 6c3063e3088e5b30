"""The page: one file, nothing from outside, every text escaped, questions down to the trace."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from packwise.evaluation.charts import ChartLine, LineChart
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.experiment import Experiment, QuestionResult, VariantResult
from packwise.evaluation.page import render

EVIL = '<script>alert("x")</script>'


class Outline(HTMLParser):
    """Checks that tags close in order and notes what the page would load."""

    VOID = frozenset({"meta", "br", "line", "circle", "path"})

    def __init__(self):
        super().__init__()
        self.open = []
        self.loads = []
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [v for name, v in attrs if name in ("src", "href", "data", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def answered(i, good, ms, answerable=True, error=""):
    scores = {"ndcg@10": good, "recall@5": good, "gold_recall@1000": good}
    for budget in (250, 500, 1000, 2000, 4000, 8000):
        scores |= {f"answer_recall@{budget}": good, f"garbage_fraction@{budget}": 0.5}
    trace = {
        "search": {"stages": [{"name": "embed", "ms": 1.0, "note": EVIL}]},
        "hits": [
            {
                "id": f"d{i}#0",
                "document": f"d{i}",
                "title": EVIL,
                "text": EVIL,
                "score": 0.5,
                "vector": None,
                "keyword": 0.25,
                "right": bool(good),
            }
        ],
        "selected": {f"d{i}#0": 12},
        "dropped": {},
        "tokens": 12,
    }
    return QuestionResult(
        Question(str(i), f"question {i} {EVIL}", (EVIL,), answerable),
        (f"d{i}",) if good else ("x",),
        scores if answerable else {},
        ms,
        {"embed": 10.0, "packing": 2.0},
        0.3 + 0.5 * good,
        0.2 + 0.6 * good,
        error=error,
        trace=trace,
    )


def experiment(variants=2, n=20):
    rows = [[answered(i, float(i % 3 > v), 10.0 + v, i % 7 != 0) for i in range(n)] for v in (1, 0)]
    results = tuple(
        VariantResult(name, 1000, tuple(own))
        for name, own in zip(("baseline", "default"), rows, strict=True)
    )[:variants]
    relevant = {str(i): {f"d{i}": 1} for i in range(n) if i % 7 != 0}
    data = DataSet("set " + EVIL, Path("x"), "test", tuple(a.question for a in rows[0]), relevant)
    return Experiment(data, results, results[-1].variant, budgets=(1000,))


def page_of(found):
    return render(found, f"packwise eval {EVIL}", 1_000_000)


@pytest.mark.parametrize("variants", [1, 2])
def test_the_page_is_whole_and_loads_nothing(variants):
    page = page_of(experiment(variants))
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.loads == []
    assert "script" not in outline.tags
    assert EVIL not in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)


def test_it_shows_curves_a_verdict_and_the_questions():
    page = page_of(experiment())
    for heading in (
        "Recall by depth",
        "Answers by budget",
        "Garbage by budget",
        "Risk by coverage",
        "Latency by stage",
        "Won by default",
        "Lost by default",
    ):
        assert heading in page
    assert "in place of baseline" in page
    assert page.count('<details class="q good">') == sum(
        i % 3 == 1 and i % 7 != 0 for i in range(20)
    )
    assert "what each stage noted" in page


def test_many_questions_are_cut_and_counted():
    page = page_of(experiment(n=300))
    assert page.count('<details class="q good">') == 40
    assert re.search(r"Won by default: \d+, \d+ more not shown", page)


def test_without_unanswerable_questions_there_is_no_risk_to_draw():
    whole = experiment()
    assert "Risk by coverage" in page_of(whole)
    found = tuple(r for r in whole.results[1].questions if r.scores.get("ndcg@10") == 1.0)
    alone = Experiment(whole.dataset, (VariantResult("default", 1000, found),), "default")
    assert "Risk by coverage" not in page_of(alone)


def test_a_question_that_failed_says_why():
    failed = answered(1, 0.0, 5.0, error="the store went away")
    broken = VariantResult("default", 1000, (failed,))
    fine = VariantResult("baseline", 1000, (answered(1, 1.0, 5.0),))
    page = page_of(Experiment(experiment().dataset, (fine, broken), "default"))
    assert "the store went away" in page


@pytest.mark.parametrize(
    "points", [((1, 0.5),), ((1, 0.5), (10, 0.5)), ((1, 0.0), (100, 1.0)), ((1, 1e-9), (2, 2e-9))]
)
def test_a_chart_stays_inside_its_frame(points):
    chart = LineChart("title", "note", [ChartLine("one", points)], x="k", y="recall")
    for x, y in points:
        assert 46 <= chart.at_x(x) <= 436
        assert 12 <= chart.at_y(y) <= 230
    assert all(12 <= chart.at_y(tick) <= 230 for tick in chart.ticks_y)


def test_nothing_to_draw_is_said():
    whole = experiment(1)
    (result,) = whole.results
    bare = replace(result, questions=tuple(replace(r, stages={}) for r in result.questions))
    assert "Nothing to draw" in page_of(replace(whole, results=(bare,)))
    assert "Nothing to draw" not in page_of(whole)

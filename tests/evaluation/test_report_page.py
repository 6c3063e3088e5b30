"""The page: one file, nothing from outside, every text escaped, questions down to the trace."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from packwise.evaluation.charts import Line, lines, stacks
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.experiment import Answered, Arm
from packwise.evaluation.page import BUDGETS, MOST_SHOWN, Report, render

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
    for budget in BUDGETS:
        scores |= {f"answer_recall@{budget}": good, f"garbage_fraction@{budget}": 0.5}
    record = {
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
        "selected": [{"id": f"d{i}#0", "tokens": 12, "marker": 1}],
        "dropped": [],
        "tokens": 12,
    }
    return Answered(
        Question(str(i), f"question {i} {EVIL}", (EVIL,), answerable),
        (f"d{i}",) if good else ("x",),
        scores if answerable else {},
        ms,
        {"embed": 10.0, "packing": 2.0},
        0.3 + 0.5 * good,
        0.2 + 0.6 * good,
        error,
        record,
    )


def report(variants=2, n=20):
    rows = [[answered(i, float(i % 3 > v), 10.0 + v, i % 7 != 0) for i in range(n)] for v in (1, 0)]
    arms = (Arm("baseline", 1000, tuple(rows[0])), Arm("default", 1000, tuple(rows[1])))
    relevant = {str(i): {f"d{i}": 1} for i in range(n) if i % 7 != 0}
    data = DataSet("set " + EVIL, Path("x"), "test", tuple(a.question for a in rows[0]), relevant)
    return Report(data, arms[:variants], f"packwise eval {EVIL}", 1_000_000)


@pytest.mark.parametrize("variants", [1, 2])
def test_the_page_is_whole_and_loads_nothing(variants):
    page = render(report(variants))
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.loads == []
    assert "script" not in outline.tags
    assert EVIL not in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)


def test_it_shows_curves_a_verdict_and_the_questions():
    page = render(report())
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
    page = render(report(n=300))
    assert page.count('<details class="q good">') == MOST_SHOWN
    assert re.search(r"Won by default: \d+, \d+ more not shown", page)


def test_without_unanswerable_questions_there_is_no_risk_to_draw():
    whole = report()
    arms = tuple(
        Arm(arm.variant, 1000, tuple(a for a in arm.answered if a.scores.get("ndcg@10") == 1.0))
        for arm in whole.arms[1:]
    )
    assert "Risk by coverage" not in render(Report(whole.dataset, arms, "x"))


def test_a_question_that_failed_says_why():
    whole = report()
    broken = Arm("default", 1000, (answered(1, 0.0, 5.0, error="the store went away"),))
    fine = Arm("baseline", 1000, (answered(1, 1.0, 5.0),))
    assert "the store went away" in render(Report(whole.dataset, (fine, broken), "x"))


@pytest.mark.parametrize(
    "points", [((1, 0.5),), ((1, 0.5), (10, 0.5)), ((1, 0.0), (100, 1.0)), ((1, 1e-9), (2, 2e-9))]
)
def test_a_chart_stays_inside_its_frame(points):
    drawn = lines([Line("one", points)], x="k", y="recall")
    for x, y in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', drawn):
        assert 0 <= float(x) <= 460
        assert 0 <= float(y) <= 270


def test_nothing_to_draw_is_said():
    assert "Nothing to draw" in lines([Line("one", ())], x="k", y="recall")
    assert "Nothing to draw" in stacks([], unit="ms")

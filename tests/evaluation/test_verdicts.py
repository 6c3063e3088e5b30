"""The specification's success and rollback rules, rule by rule."""

import numpy as np
import pytest

from packwise.evaluation.compare import p95_change
from packwise.evaluation.data import Question
from packwise.evaluation.experiment import QuestionResult, VariantResult, differences
from packwise.evaluation.records import verdict_record
from packwise.evaluation.verdict import detectable, judge, mcnemar, questions_needed

N = 400


def result(
    name, *, recall=0.7, garbage=0.5, ms=100.0, errors=0.0, redundancy=1.0, answers=True, n=N
):
    """A result with the answer for the first share of its questions."""
    rows = []
    for i in range(n):
        scores = {"garbage_fraction@1000": garbage, "redundancy_ratio@1000": redundancy}
        scores["answer_recall@1000" if answers else "gold_recall@1000"] = float(i < recall * n)
        failed = "broken" if i < errors * n else ""
        question = Question(str(i), "q")
        rows.append(QuestionResult(question, (), scores, ms + i % 10, error=failed))
    return VariantResult(name, 1000, tuple(rows))


OLD = result("old")


def outcome(**changes):
    return judge(result("new", **changes), OLD).outcome


def test_a_clear_gain_with_less_garbage_ships():
    verdict = judge(result("new", recall=0.8, garbage=0.45), OLD)
    assert verdict.outcome == "ship"
    assert any("answer recall" in reason for reason in verdict.reasons)


def test_nothing_changed_is_no_difference():
    assert outcome() == "no difference"


def test_a_gain_without_less_garbage_is_not_enough():
    verdict = judge(result("new", recall=0.8, garbage=0.485), OLD)
    assert verdict.outcome == "no difference"
    assert verdict.reasons == (
        "garbage fraction: -1.5 points [-1.5, -1.5] (needs: down by more than 2 points)",
    )


@pytest.mark.parametrize(("recall", "expected"), [(0.66, "no difference"), (0.64, "rollback")])
def test_more_than_five_points_of_recall_lost_rolls_back(recall, expected):
    assert outcome(recall=recall, garbage=0.3) == expected


@pytest.mark.parametrize(
    ("ms", "expected"), [(104, "ship"), (112, "ship"), (119, "no difference"), (130, "rollback")]
)
def test_latency_may_grow_by_fifteen_percent_and_twenty_rolls_back(ms, expected):
    assert outcome(recall=0.8, garbage=0.4, ms=ms) == expected


def test_more_than_five_percent_slower_asks_for_a_look():
    verdict = judge(result("new", recall=0.8, garbage=0.4, ms=110), OLD)
    assert any("look at it before shipping" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(("errors", "expected"), [(0.01, "ship"), (0.0125, "rollback")])
def test_errors_roll_back_beyond_one_point(errors, expected):
    assert outcome(recall=0.8, garbage=0.4, errors=errors) == expected


def test_a_context_that_says_things_twice_does_not_ship():
    assert outcome(recall=0.8, garbage=0.4, redundancy=1.3) == "no difference"


def test_without_answers_gold_recall_stands_in():
    new, old = result("new", recall=0.8, garbage=0.4, answers=False), result("old", answers=False)
    verdict = judge(new, old)
    assert (verdict.outcome, verdict.primary) == ("ship", "gold_recall@1000")


def test_a_single_slow_answer_does_not_roll_back():
    fast = result("old", n=20)
    slow = list(result("new", n=20).questions)
    slow[0] = QuestionResult(slow[0].question, (), slow[0].scores, 5000.0)
    assert judge(VariantResult("new", 1000, tuple(slow)), fast).outcome == "no difference"


def test_few_questions_show_no_significance_and_the_power_says_how_many_would():
    verdict = judge(result("new", recall=0.75, garbage=0.4, n=20), result("old", n=20))
    assert verdict.outcome == "no difference"
    assert verdict.needed > 100
    assert verdict.detectable > 0.05


def test_power_is_that_of_a_paired_test():
    # Simulated: with the number it names, four of five trials are significant.
    spread, difference = 0.5, 0.1
    n = questions_needed(spread, difference)
    assert n == pytest.approx(196, abs=1)
    chance = np.random.default_rng(1)
    draws = chance.normal(difference, spread, size=(4000, n))
    z = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / np.sqrt(n))
    assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.8, abs=0.03)
    assert detectable(spread, n) == pytest.approx(difference, rel=0.01)
    assert questions_needed(0.0, 0.1) is None
    assert questions_needed(0.5, 0.0) is None


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(0, 0, 1.0), (5, 0, 0.0625), (6, 1, 0.125), (10, 10, 1.0)]
)
def test_mcnemar_is_the_exact_binomial(wins, losses, p):
    assert mcnemar(wins, losses) == pytest.approx(p)


def test_the_p95_change_is_a_share_with_an_interval():
    change, low, high = p95_change([110.0] * 50, [100.0] * 50)
    assert (change, low, high) == pytest.approx((0.1, 0.1, 0.1))


def test_metrics_that_only_one_variant_has_are_not_compared():
    new = result("new")
    bare = tuple(QuestionResult(r.question, (), {}, 1.0) for r in new.questions)
    assert differences(new, VariantResult("old", 1000, bare)) == {}


def test_a_verdict_as_json_holds_every_rule():
    record = verdict_record(judge(OLD, OLD))
    assert record["verdict"] == "no difference"
    assert {rule["rule"] for rule in record["rules"]} == {
        "answer recall@1000",
        "garbage fraction",
        "p95 latency",
        "error rate",
        "redundancy ratio",
    }

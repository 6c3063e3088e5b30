"""What a confidence is worth, held to definitions written out the long way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.errors import DataError
from packwise.evaluation.calibration_metrics import (
    answer_from,
    assess,
    aurc,
    auroc,
    ece,
    refuse_below,
    reliability,
    risk_coverage,
)

# Few distinct values, so that ties are common.
PAIRS = st.lists(
    st.tuples(st.integers(0, 12).map(lambda n: n / 12), st.booleans()), min_size=2, max_size=40
).filter(lambda rows: len({right for _, right in rows}) == 2)


def split(rows):
    return [p for p, _ in rows], [right for _, right in rows]


def auroc_by_pairs(p, y):
    there = [v for v, right in zip(p, y, strict=True) if right]
    not_there = [v for v, right in zip(p, y, strict=True) if not right]
    wins = sum((a > b) + 0.5 * (a == b) for a in there for b in not_there)
    return wins / (len(there) * len(not_there))


def ece_by_hand(p, y, bins=10):
    total = 0.0
    for i in range(bins):
        held = [
            (v, right) for v, right in zip(p, y, strict=True) if min(int(v * bins), bins - 1) == i
        ]
        if held:
            sure = sum(v for v, _ in held) / len(held)
            share = sum(right for _, right in held) / len(held)
            total += len(held) / len(p) * abs(sure - share)
    return total


@given(PAIRS)
@settings(max_examples=80)
def test_auroc_is_the_share_of_pairs_in_the_right_order(rows):
    p, y = split(rows)
    assert auroc(p, y) == pytest.approx(auroc_by_pairs(p, y))


@given(PAIRS)
@settings(max_examples=80)
def test_ece_is_the_weighted_gap_of_the_bins(rows):
    p, y = split(rows)
    assert ece(p, y) == pytest.approx(ece_by_hand(p, y))


@given(PAIRS)
@settings(max_examples=80)
def test_risk_at_each_threshold_is_that_of_the_questions_from_there_on(rows):
    p, y = split(rows)
    points = risk_coverage(p, y)
    assert [point.threshold for point in points] == sorted(set(p), reverse=True)
    for point in points:
        answered = [right for v, right in zip(p, y, strict=True) if v >= point.threshold]
        assert point.coverage == pytest.approx(len(answered) / len(p))
        assert point.risk == pytest.approx(1 - sum(answered) / len(answered))
    assert points[-1].coverage == 1.0


@given(PAIRS, st.sampled_from([0.6, 0.75, 0.9]))
@settings(max_examples=80)
def test_a_threshold_for_a_precision_is_the_lowest_that_keeps_it(rows, wanted):
    p, y = split(rows)

    def precision(threshold):
        answered = [right for v, right in zip(p, y, strict=True) if v >= threshold]
        return sum(answered) / len(answered)

    good = [v for v in set(p) if precision(v) >= wanted]
    point = answer_from(p, y, wanted)
    assert (point.threshold if point else None) == (min(good) if good else None)


def test_refusing_below_a_threshold_is_as_precise_as_asked_for():
    p, y = [0.1, 0.2, 0.3, 0.6, 0.9], [False, False, True, True, True]
    assert refuse_below(p, y, 0.99) == 0.3
    assert refuse_below(p, y, 0.6) == 0.6
    assert refuse_below([0.5, 0.5], [True, False], 0.9) == 0.0


def test_a_confidence_that_knows_all_has_no_risk_until_the_answers_are_out():
    p, y = [0.9, 0.8, 0.2, 0.1], [True, True, False, False]
    assert auroc(p, y) == 1.0
    assert [point.risk for point in risk_coverage(p, y)] == pytest.approx([0, 0, 1 / 3, 0.5])
    assert aurc(p, y) == pytest.approx((1 / 3 + 0.5) / 4)


def test_even_bins_hold_equally_many_questions():
    p = np.linspace(0, 0.1, 100).tolist()
    found = reliability(p, [True] * 100, even=True)
    assert [b.questions for b in found] == [10] * 10
    assert len(reliability(p, [True] * 100)) <= 2


def test_even_bins_never_part_equal_confidences():
    found = reliability([0.5] * 7 + [0.7] * 3, [True] * 10, even=True)
    assert sorted(b.questions for b in found) == [3, 7]


def test_always_and_never_answering_stand_beside_the_accuracy():
    found = assess([0.9, 0.8, 0.6, 0.1], [True, True, False, False])
    assert (found.always, found.never, found.accuracy) == (0.5, 0.5, 0.75)
    assert found.brier == pytest.approx((0.01 + 0.04 + 0.36 + 0.01) / 4)


def test_questions_of_one_kind_cannot_be_ranked():
    with pytest.raises(DataError, match="with and without"):
        auroc([0.1, 0.2], [True, True])
    with pytest.raises(DataError, match="2 confidences for 1"):
        ece([0.1, 0.2], [True])

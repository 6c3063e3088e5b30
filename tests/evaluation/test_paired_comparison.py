"""Interval, p-value and counts against closed forms and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from packwise.errors import DataError
from packwise.evaluation.compare import bootstrap_interval, compare, permutation_p_value


def scores(values) -> dict[str, float]:
    return {f"q{i}": float(value) for i, value in enumerate(values)}


def test_the_same_scores_differ_by_nothing():
    same = scores([0.1, 0.5, 1.0])
    result = compare(same, dict(same))
    assert (result.mean, result.low, result.high, result.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert (result.wins, result.ties, result.losses) == (0, 3, 0)
    assert not result.clear


def test_a_constant_gain_has_no_spread_and_the_smallest_exact_p_value():
    result = compare(scores([0.75] * 8), scores([0.5] * 8))
    assert (result.mean, result.low, result.high) == (0.25, 0.25, 0.25)
    assert result.p_value == 2 / 2**8
    assert (result.wins, result.ties, result.losses) == (8, 0, 0)
    assert result.clear


def test_wins_ties_and_losses_are_counted_by_question():
    result = compare(scores([1, 0, 0.5, 1]), scores([0, 1, 0.5, 0.5]))
    assert (result.wins, result.ties, result.losses) == (2, 1, 1)
    assert result.questions == 4
    assert result.mean == pytest.approx(0.125)


def test_coin_flips_give_the_sign_test():
    # Differences of +1 and -1 only: the permutation test is then the binomial sign test.
    differences = np.array([1.0] * 9 + [-1.0] * 3)
    assert permutation_p_value(differences) == pytest.approx(stats.binomtest(9, 12).pvalue)


def test_questions_without_difference_do_not_change_the_p_value():
    moved = np.array([0.3, 0.1, -0.05, 0.2])
    padded = np.concatenate([moved, np.zeros(500)])
    assert permutation_p_value(padded) == permutation_p_value(moved)


def test_drawn_patterns_agree_with_all_of_them():
    differences = np.random.default_rng(5).normal(0.25, 1.0, size=12)
    exact = permutation_p_value(differences, resamples=2**12)
    drawn = permutation_p_value(differences, resamples=2**12 - 1)
    assert exact != drawn
    # Four standard errors of a share estimated from 4,095 draws.
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4095))


def test_a_drawn_p_value_is_never_zero():
    assert permutation_p_value(np.ones(200), resamples=999) == 1 / 1000


@pytest.fixture(scope="module")
def differences():
    random = np.random.default_rng(11)
    # Like nDCG differences: mostly ties, a few moves either way, a small gain.
    moves = random.choice([0.0, 0.37, 0.13, -0.37, -0.2], p=[0.6, 0.15, 0.1, 0.08, 0.07], size=300)
    return moves.astype(np.float64)


def test_the_interval_agrees_with_scipy(differences):
    reference = stats.bootstrap(
        (differences,),
        np.mean,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    low, high = bootstrap_interval(differences)
    spread = reference.high - reference.low
    assert low == pytest.approx(reference.low, abs=0.05 * spread)
    assert high == pytest.approx(reference.high, abs=0.05 * spread)


def test_the_interval_is_that_of_the_normal_law_on_many_questions():
    sample = np.random.default_rng(3).normal(0.1, 1.0, size=2_000)
    low, high = bootstrap_interval(sample)
    error = 1.959964 * sample.std() / math.sqrt(sample.size)
    assert low == pytest.approx(sample.mean() - error, abs=0.1 * error)
    assert high == pytest.approx(sample.mean() + error, abs=0.1 * error)


@pytest.mark.parametrize("size", [9, 300])
def test_the_p_value_agrees_with_scipy(differences, size):
    sample = differences[:size] + np.linspace(-0.02, 0.03, size)
    reference = stats.permutation_test(
        (sample, np.zeros_like(sample)),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9_999,
        rng=np.random.default_rng(2),
    ).pvalue
    error = 4 * math.sqrt(reference * (1 - reference) * 2 / 10_000)
    # With nine questions both try every pattern, and must agree exactly.
    tolerance = 1e-12 if size == 9 else error
    assert permutation_p_value(sample) == pytest.approx(reference, abs=tolerance)


def test_chunks_do_not_change_the_result(differences, monkeypatch):
    whole = bootstrap_interval(differences), permutation_p_value(differences)
    monkeypatch.setattr("packwise.evaluation.compare._CHUNK_CELLS", 300 * 7)
    assert (bootstrap_interval(differences), permutation_p_value(differences)) == whole


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=25))
def test_laws_of_a_comparison(pairs):
    a, b = scores(p[0] for p in pairs), scores(p[1] for p in pairs)
    one = compare(a, b)
    assert one == compare(dict(reversed(a.items())), b), "order is irrelevant"
    other = compare(b, a)
    assert other.mean == -one.mean
    assert (other.wins, other.ties, other.losses) == (one.losses, one.ties, one.wins)
    assert other.low == pytest.approx(-one.high)
    assert other.p_value == one.p_value
    assert 0.0 < one.p_value <= 1.0
    assert one.low <= one.high
    assert one.wins + one.ties + one.losses == one.questions == len(pairs)


def test_variants_scored_on_other_questions_cannot_be_compared():
    with pytest.raises(DataError, match="1 only in the first, 2 only in the second"):
        compare({"a": 1.0, "b": 1.0}, {"b": 1.0, "c": 1.0, "d": 1.0})
    with pytest.raises(DataError, match="no questions"):
        compare({}, {})


def test_a_difference_on_four_questions_is_not_called_clear():
    result = compare(dict.fromkeys("abcd", 1.0), dict.fromkeys("abcd", 0.5))
    assert result.low > 0
    assert result.p_value == 0.125
    assert not result.clear

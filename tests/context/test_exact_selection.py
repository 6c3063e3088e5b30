"""The exact choice is the best there is."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.context.coverage_policy import choose_exactly
from packwise.context.layout import Pick

picks = st.builds(Pick, st.just(0), st.just(1), st.integers(-3, 9).map(float), st.integers(0, 9))
groups = st.tuples(st.integers(0, 6), st.lists(st.lists(picks, max_size=3), max_size=2))


def pick(cost, value):
    return Pick(0, 1, value, cost)


def every_choice(all_groups, price):
    """Cost and gain of each choice there is."""
    each = [product(*([None, *item] for item in items)) for _, items in all_groups]
    for choice in product(*map(list, each)):
        cost = gain = 0
        for (opening, _), items in zip(all_groups, choice, strict=True):
            taken = [one for one in items if one is not None]
            cost += opening * bool(taken) + sum(one.cost for one in taken)
            gain += sum(one.value for one in taken)
        yield cost, gain - price * cost


@settings(deadline=None, max_examples=150)
@given(st.lists(groups, max_size=3), st.integers(0, 25), st.sampled_from([0.0, 0.25, 1.0]))
def test_no_other_choice_within_the_budget_gains_more(all_groups, budget, price):
    chosen = choose_exactly(all_groups, budget, price)
    opened = [
        opening
        for opening, items in all_groups
        if any(one is taken for item in items for one in item for taken in chosen)
    ]
    cost = sum(one.cost for one in chosen) + sum(opened)
    gain = sum(one.value for one in chosen) - price * cost
    assert cost <= budget
    best = max(found for needed, found in every_choice(all_groups, price) if needed <= budget)
    assert gain == pytest.approx(best)


def test_a_shared_opening_is_paid_once():
    a, b, c = pick(5, 3.0), pick(5, 3.0), pick(9, 4.0)
    groups = [(10, [[a], [b]]), (1, [[c]])]
    assert choose_exactly(groups, 20, 0.0) == [b, a]
    assert choose_exactly(groups, 19, 0.0) == [c]


def test_what_is_not_worth_its_price_is_not_chosen():
    groups = [(2, [[pick(4, 0.5), pick(8, 0.9)]])]
    assert choose_exactly(groups, 20, 0.0) == [pick(8, 0.9)]
    assert choose_exactly(groups, 20, 0.1) == []
    assert choose_exactly(groups, 20, 0.08) == [pick(8, 0.9)]


def test_without_anything_to_choose_nothing_is_chosen():
    assert choose_exactly([], 10, 0.0) == []
    assert choose_exactly([(0, [])], 0, 0.0) == []

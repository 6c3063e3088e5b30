"""The exact choice is the best there is."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.context.knapsack import NOTHING, Group, Option, choose

options = st.builds(Option, st.integers(0, 9), st.integers(-3, 9).map(float))
groups = st.builds(
    Group,
    st.integers(0, 6),
    st.integers(-2, 0).map(float),
    st.lists(st.lists(options, max_size=3).map(tuple), max_size=2).map(tuple),
)


def cost_and_worth(all_groups, picks):
    cost = worth = 0
    for group, chosen in zip(all_groups, picks, strict=True):
        taken = [
            items[pick] for items, pick in zip(group.items, chosen, strict=True) if pick != NOTHING
        ]
        if taken:
            cost += group.cost + sum(option.cost for option in taken)
            worth += group.worth + sum(option.worth for option in taken)
    return cost, worth


def every_choice(all_groups):
    each = [product(*(range(NOTHING, len(items)) for items in group.items)) for group in all_groups]
    return product(*map(list, each))


@settings(deadline=None, max_examples=150)
@given(st.lists(groups, max_size=3), st.integers(0, 25))
def test_no_other_choice_within_the_budget_is_worth_more(all_groups, budget):
    picks = choose(all_groups, budget)
    cost, worth = cost_and_worth(all_groups, picks)
    assert cost <= budget
    rivals = (cost_and_worth(all_groups, rival) for rival in every_choice(all_groups))
    assert worth >= max(w for c, w in rivals if c <= budget)


def test_a_shared_opening_is_paid_once():
    shared = Group(10, 0.0, ((Option(5, 3.0),), (Option(5, 3.0),)))
    apart = Group(1, 0.0, ((Option(9, 4.0),),))
    assert choose([shared, apart], 20) == [(0, 0), (NOTHING,)]
    assert choose([shared, apart], 19) == [(NOTHING, NOTHING), (0,)]


def test_without_anything_to_choose_nothing_is_chosen():
    assert choose([], 10) == []
    assert choose([Group(0, 0.0, ())], 0) == [()]

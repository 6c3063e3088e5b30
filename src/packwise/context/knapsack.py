"""The best choice under a budget, exactly: for pools small enough to try every size.

Groups open at a fixed cost (a document with its title), hold items (passages), and of each
item at most one option (some of its units) is taken. Time and memory go with the number of
options times the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NOTHING = -1
"""Stands for no option of an item."""


@dataclass(frozen=True, slots=True)
class Option:
    """Something that can be taken, at a cost of 0 or more."""

    cost: int
    worth: float


@dataclass(frozen=True, slots=True)
class Group:
    """Items that share what it costs to open them; opening is worth 0 or less."""

    cost: int
    worth: float
    items: tuple[tuple[Option, ...], ...]


def choose(groups: Sequence[Group], budget: int) -> list[tuple[int, ...]]:
    """For each group the option taken of each item, ``NOTHING`` where none is.

    No other choice within the budget is worth more in sum. Of equal ones the cheapest is
    taken.
    """
    closed = np.zeros(budget + 1)
    steps: list[tuple[NDArray[np.bool_], list[NDArray[np.int16]]]] = []
    for group in groups:
        opened = np.full(budget + 1, -np.inf)
        if group.cost <= budget:
            opened[group.cost :] = closed[: budget + 1 - group.cost] + group.worth
        taken: list[NDArray[np.int16]] = []
        for options in group.items:
            best, which = opened.copy(), np.full(budget + 1, NOTHING, dtype=np.int16)
            for number, option in enumerate(options):
                if option.cost > budget:
                    continue
                with_it = opened[: budget + 1 - option.cost] + option.worth
                better = with_it > best[option.cost :]
                best[option.cost :][better] = with_it[better]
                which[option.cost :][better] = number
            opened = best
            taken.append(which)
        open_ = opened > closed
        closed = np.where(open_, opened, closed)
        steps.append((open_, taken))

    room = int(np.argmax(closed))
    chosen: list[tuple[int, ...]] = []
    for group, (open_, taken) in zip(reversed(groups), reversed(steps), strict=True):
        picks = [NOTHING] * len(group.items)
        if open_[room]:
            for i in range(len(group.items) - 1, -1, -1):
                picks[i] = int(taken[i][room])
                if picks[i] != NOTHING:
                    room -= group.items[i][picks[i]].cost
            room -= group.cost
        chosen.append(tuple(picks))
    return chosen[::-1]

"""A context in the making: which units of which entries are in, and its exact size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from packwise.context.layout import Layout, Part, lay_out
from packwise.context.pool import Entry
from packwise.models.base import TokenCounter


class Step(NamedTuple):
    """Units that were put in together, what they are worth and what they cost.

    ``worth`` is whatever the policy maximises; when too much was put in, the step of the
    lowest worth per token goes first.
    """

    entry: int
    units: int
    worth: float
    cost: int


class Draft:
    """The entries and the units chosen of each; keeps itself within the budget."""

    def __init__(self, entries: Iterable[Entry], counter: TokenCounter, budget: int) -> None:
        self.entries = list(entries)
        self.units = [0] * len(self.entries)
        self.steps: list[Step] = []
        self.budget = budget
        self._counter = counter
        self._layout: Layout | None = None
        self._tokens: int | None = None

    def add(self, entry: Entry) -> int:
        """Take one more entry into the running; returns its index."""
        self.entries.append(entry)
        self.units.append(0)
        return len(self.entries) - 1

    def put(self, step: Step) -> None:
        """Put a step in."""
        self.units[step.entry] |= step.units
        self.steps.append(step)
        self._changed()

    def take_back(self, step: Step) -> None:
        """Take a step out; units that another step put in too stay."""
        self.steps.remove(step)
        others = 0
        for other in self.steps:
            if other.entry == step.entry:
                others |= other.units
        self.units[step.entry] = others
        self._changed()

    def chosen(self) -> list[int]:
        """The entries that have something in, by index."""
        return [i for i, units in enumerate(self.units) if units]

    def layout(self) -> Layout:
        """The draft as it reads."""
        if self._layout is None:
            self._layout = lay_out(Part(self.entries[i], self.units[i]) for i in self.chosen())
        return self._layout

    def tokens(self) -> int:
        """The tokens of the draft, its pieces counted one by one."""
        if self._tokens is None:
            self._tokens = sum(self._counter.count_many(self.layout().pieces))
        return self._tokens

    def _changed(self) -> None:
        self._layout = self._tokens = None

    def settle(self) -> int:
        """Take out the steps of lowest worth per token until it fits; returns the tokens
        that are left."""
        while (used := self.tokens()) > self.budget:
            self.take_back(self.lowest())
        return self.budget - used

    def lowest(self) -> Step:
        """The step of the lowest worth per token; of equal ones the latest."""
        return min(reversed(self.steps), key=lambda step: step.worth / max(step.cost, 1))

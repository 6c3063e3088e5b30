"""Buying units with tokens, the best worth per token first.

What an entry can offer only shrinks as others are bought, but for the titles they pay. So
bounds on the offers are kept in a heap and only those at its top are worked out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from packwise.context.caps import WITHIN, Beyond, beyond_caps, cap_of
from packwise.context.covered_text import Told
from packwise.context.draft_context import Draft, Step
from packwise.context.evidence import Evidence
from packwise.context.knapsack import Group, Option
from packwise.context.layout import block_cost, section_line, title_line, unit_costs
from packwise.context.novelty import Likeness, novelty
from packwise.context.pool import Entry
from packwise.context.trace import Cap, Reason
from packwise.models.base import TokenCounter, Vectors
from packwise.settings import Settings

# A gap between two sentences is shown by a mark of so many tokens.
_GAP_COST = 2
# What the whole budget must bring, in units of the price of a thousand tokens.
_BUDGET_PRICE = 10 / 3


def token_price(settings: Settings, budget: int) -> float:
    """The share of the answer a single token must bring."""
    return settings.packing_token_price * (0.001 + _BUDGET_PRICE / max(budget, 1))


class Offer(NamedTuple):
    """The best that can be bought of an entry now."""

    step: Step
    ratio: float


class _Option(NamedTuple):
    """A unit with those it leans on: what can be bought at the least."""

    units: int
    density: float


class Buyer:
    """Fills a draft, best worth per token first."""

    def __init__(
        self,
        draft: Draft,
        evidence: Evidence,
        vectors: Vectors,
        counter: TokenCounter,
        settings: Settings,
    ) -> None:
        self.draft = draft
        self.price = token_price(settings, draft.budget)
        self._counter = counter
        self._settings = settings
        self._vectors = vectors
        self._evidence = evidence
        self._worth: list[Sequence[float]] = list(evidence.units)
        self._costs = [unit_costs(counter, entry.passage.text) for entry in draft.entries]
        self._block = block_cost(counter)
        self._densest, self._bounds = offer_bounds(self._worth, self._costs, self._block)
        self._lines: dict[str, int] = {}
        self._headers: dict[int, tuple[int, int]] = {}
        self._sorted: dict[int, list[_Option]] = {}
        self._told = Told(draft.entries)
        self._mates: dict[str, list[int]] = {}
        for i, entry in enumerate(draft.entries):
            self._mates.setdefault(entry.passage.document, []).append(i)
        self._recall()

    def attach(self, neighbours: Iterable[tuple[Entry, Sequence[float]]]) -> None:
        """Take neighbours into the running, each with what its units are worth."""
        first = len(self.draft.entries)
        for entry, worth in neighbours:
            index = self.draft.add(entry)
            self._worth.append(worth)
            self._costs.append(unit_costs(self._counter, entry.passage.text))
            self._mates.setdefault(entry.passage.document, []).append(index)
        densest, bounds = offer_bounds(self._worth[first:], self._costs[first:], self._block)
        self._densest += densest
        self._bounds += bounds
        self._told = Told(self.draft.entries)
        self._recall()

    def buy(self) -> None:
        """Buy until the budget is full or nothing is worth its price any more."""
        while True:
            before = len(self.draft.steps)
            self._run()
            bought = len(self.draft.steps)
            if bought == before:
                return
            self._left = self.draft.settle()
            if len(self.draft.steps) < bought:
                self._recall()
                return

    def afresh(self) -> Buyer:
        """Another buyer with the same means that has bought nothing yet."""
        draft = Draft(self.draft.entries, self._counter, self.draft.budget)
        return Buyer(draft, self._evidence, self._vectors, self._counter, self._settings)

    def take(self, steps: Iterable[Step]) -> None:
        """Buy these steps, whatever they are worth now, and then what still fits."""
        for step in steps:
            units = step.units & ~self._told.units(step.entry)
            worth, _ = self._sum(step.entry, units, 0)
            factor = self.novelty(step.entry) * self.beyond(step.entry).factor
            if units:
                self._put(Step(step.entry, units, worth * factor, step.cost))
        self._left = self.draft.settle()
        self._recall()
        self.buy()

    def gain(self) -> float:
        """What was bought, less its price."""
        return sum(step.worth for step in self.draft.steps) - self.price * self.draft.tokens()

    def groups(self) -> tuple[list[Group], list[list[list[Step]]]]:
        """The entries as a knapsack problem, by document, and the step behind each option."""
        likeness = Likeness(self._vectors)
        alike: list[float] = []
        for i in range(len(self._vectors)):
            alike.append(novelty(likeness.to_taken(i), self._settings.packing_novelty_alpha))
            likeness.take(i)
        groups: list[Group] = []
        steps: list[list[list[Step]]] = []
        for members in self._mates.values():
            opening = self._line(title_line(self.draft.entries[members[0]].passage))
            offered = [self._nested(i, alike[i]) for i in members]
            items = tuple(
                tuple(Option(s.cost, s.worth - self.price * s.cost) for s in nested)
                for nested in offered
            )
            groups.append(Group(opening, -self.price * opening, items))
            steps.append(offered)
        return groups, steps

    def _nested(self, index: int, factor: float) -> list[Step]:
        """Ever more of an entry, the densest units first, to its whole."""
        passage = self.draft.entries[index].passage
        fixed = self._block + self._line(section_line(passage))
        units, worth, cost = 0, 0.0, fixed
        nested: list[Step] = []
        for option in self._options(index, 0):
            added = option.units & ~units
            if added:
                more_worth, more_cost = self._sum(index, added, units)
                units, worth, cost = units | added, worth + more_worth * factor, cost + more_cost
                nested.append(Step(index, units, worth, cost))
        return nested

    def novelty(self, index: int) -> float:
        """What likeness to the chosen leaves of an entry's worth."""
        if index in self._factor or index >= len(self._vectors):
            return self._factor.get(index, 1.0)
        likeness = self._likeness.to_taken(index)
        return novelty(likeness, self._settings.packing_novelty_alpha) if likeness else 1.0

    def beyond(self, index: int) -> Beyond:
        """How an entry stands to the caps; one that is in, or a neighbour, is within them."""
        entry = self.draft.entries[index]
        mates = self._open.get(entry.passage.document)
        if not mates or index in mates or entry.attached_to is not None:
            return WITHIN
        return beyond_caps(entry, (self.draft.entries[i] for i in sorted(mates)), self._settings)

    def caps(self) -> list[Cap]:
        """The caps that touched an entry, chosen or not."""
        found: list[Cap] = []
        for index, entry in enumerate(self.draft.entries):
            if entry.passage.document not in self._open:
                continue
            cap = cap_of(entry, self._beyond.get(index) or self.beyond(index), self._settings)
            if cap is not None:
                found.append(cap)
        return found

    def values(self) -> list[float]:
        """The worth of what is chosen of each entry."""
        values = [0.0] * len(self.draft.entries)
        for step in self.draft.steps:
            values[step.entry] += step.worth
        return values

    def costs(self) -> list[int]:
        """What all of each entry would cost, roughly."""
        return [sum(units) + self._block for units in self._costs]

    def novelties(self) -> list[float]:
        """What likeness to the chosen leaves of each entry's worth."""
        alpha = self._settings.packing_novelty_alpha
        left = [novelty(alike, alpha) for alike in self._likeness.highest.tolist()]
        left += [1.0] * (len(self.draft.entries) - len(left))
        for index, factor in self._factor.items():
            left[index] = factor
        return left

    def reason(self, index: int) -> tuple[Reason, str | None]:
        """Why nothing of an entry was bought."""
        teller = self._told.by(index)
        if teller and self._told.units(index) == self.draft.entries[index].reading.everything:
            return teller[0], self.draft.entries[teller[1]].id
        offer = self._offer(index, limit=None)
        if offer is None:
            return Reason.LOW_VALUE, None
        if offer.ratio >= self.price:
            return Reason.OVER_BUDGET, None
        beyond = self.beyond(index)
        if beyond.reason is not None and offer.ratio / beyond.factor >= self.price:
            return beyond.reason, None
        if offer.ratio / self.novelty(index) >= self.price:
            likest = self._likeness.likest(index)
            return Reason.LOW_NOVELTY, self.draft.entries[likest].id if likest is not None else None
        return Reason.LOW_VALUE, None

    def _run(self) -> None:
        heap = [(-self._bound(i), i) for i in range(len(self.draft.entries))]
        if self.draft.steps or -min(heap, default=(0.0, 0))[0] >= self.price:
            heap = [bound for bound in heap if -bound[0] >= self.price]
        heapq.heapify(heap)
        latest = {index: bound for bound, index in heap}

        def push(ratio: float, index: int) -> None:
            latest[index] = -ratio
            heapq.heappush(heap, (-ratio, index))

        while heap:
            bound, index = heapq.heappop(heap)
            if bound != latest[index]:
                continue
            if -bound < self.price and self.draft.steps:
                return
            offer = self._offer(index, self._left)
            if offer is None:
                continue
            if heap and (-offer.ratio, index) > heap[0]:
                push(offer.ratio, index)
                continue
            if offer.ratio < self.price and self.draft.steps:
                return
            passage = self.draft.entries[index].passage
            paid = passage.section_path in self._sections.get(passage.document, ())
            self._put(offer.step)
            push(offer.ratio, index)
            if not paid:
                # Title and section are paid for now: the others there have become cheaper.
                for mate in self._mates[passage.document]:
                    push(self._bound(mate), mate)

    def _bound(self, index: int) -> float:
        """No offer of this entry has a better ratio."""
        return self._densest[index] if self.draft.units[index] else self._bounds[index]

    def _offer(self, index: int, limit: int | None) -> Offer | None:
        """The units with the best worth per token, what opens them included."""
        chosen = self.draft.units[index]
        fixed = 0 if chosen else self._opening(index)
        state = (chosen, self._told.units(index), fixed)
        known = self._best.get(index)
        if known is None or known[0] != state:
            known = (state, self._densest_units(index, fixed, None))
            self._best[index] = known
        best = known[1]
        if best is not None and limit is not None and best.cost > limit:
            best = self._densest_units(index, fixed, limit - fixed)
        if best is None:
            return None
        worth = best.worth * self.novelty(index) * self.beyond(index).factor
        return Offer(Step(index, best.units, worth, best.cost), worth / best.cost)

    def _densest_units(self, index: int, fixed: int, room: int | None) -> Step | None:
        """The units of the best worth per token with what it costs to open them, by their
        own worth alone."""
        chosen = self.draft.units[index]
        options = self._options(index, chosen | self._told.units(index))
        units, worth, cost = 0, 0.0, 0
        for option in options:
            added = option.units & ~units
            if not added:
                continue
            more_worth, more_cost = self._sum(index, added, chosen | units)
            if room is not None and cost + more_cost > room:
                continue
            if units and (worth + more_worth) * (fixed + cost) < worth * (fixed + cost + more_cost):
                break
            units, worth, cost = units | added, worth + more_worth, cost + more_cost
        return Step(index, units, worth, max(1, fixed + cost)) if units else None

    def _options(self, index: int, taken: int) -> list[_Option]:
        """The units that can be bought, the densest first."""
        reading = self.draft.entries[index].reading
        if not reading.leaning:
            return [o for o in self._alone(index) if not o.units & taken]
        options: list[_Option] = []
        for unit in range(len(reading.units)):
            if taken >> unit & 1:
                continue
            units = 1 << unit
            while reading.leaning >> unit & 1 and unit and not taken >> (unit - 1) & 1:
                unit -= 1
                units |= 1 << unit
            worth, cost = self._sum(index, units, 0)
            options.append(_Option(units, worth / max(1, cost)))
        options.sort(key=_densest_first)
        return options

    def _alone(self, index: int) -> list[_Option]:
        """The units of an entry none of which leans on another, the densest first."""
        if index not in self._sorted:
            pairs = zip(self._worth[index], self._costs[index], strict=True)
            options = [
                _Option(1 << u, worth / max(1, cost)) for u, (worth, cost) in enumerate(pairs)
            ]
            options.sort(key=_densest_first)
            self._sorted[index] = options
        return self._sorted[index]

    def _sum(self, index: int, units: int, beside: int) -> tuple[float, int]:
        """Worth and tokens of units, with the mark for a gap where they stand apart."""
        worths, costs = self._worth[index], self._costs[index]
        worth, cost = 0.0, 0
        rest = units
        while rest:
            lowest = rest & -rest
            unit = lowest.bit_length() - 1
            worth += worths[unit]
            cost += costs[unit]
            rest ^= lowest
        if beside and not (units << 1 | units >> 1) & beside:
            cost += _GAP_COST
        return worth, cost

    def _opening(self, index: int) -> int:
        """What the first unit of an entry costs beside itself: marker, title, section."""
        passage = self.draft.entries[index].passage
        if index not in self._headers:
            title, section = title_line(passage), section_line(passage)
            self._headers[index] = self._line(title), self._line(section)
        title_cost, section_cost = self._headers[index]
        sections = self._sections.get(passage.document)
        if sections is None:
            return self._block + title_cost + section_cost
        return self._block + (0 if passage.section_path in sections else section_cost)

    def _line(self, line: str) -> int:
        if line not in self._lines:
            self._lines[line] = self._counter.count(line) if line else 0
        return self._lines[line]

    def _put(self, step: Step) -> None:
        if not self.draft.units[step.entry]:
            self._factor[step.entry] = self.novelty(step.entry)
            self._beyond[step.entry] = self.beyond(step.entry)
        self.draft.put(step)
        self._left -= step.cost
        self._note(step.entry)

    def _note(self, index: int) -> None:
        """Remember what the chosen units of an entry tell."""
        passage = self.draft.entries[index].passage
        self._open.setdefault(passage.document, set()).add(index)
        self._sections.setdefault(passage.document, set()).add(passage.section_path)
        self._told.tell(index, self.draft.units[index])
        if index < len(self._vectors):
            self._likeness.take(index)

    def _recall(self) -> None:
        """Start from what the draft holds, forgetting the rest."""
        self._likeness = Likeness(self._vectors)
        self._told.forget()
        self._best: dict[int, tuple[tuple[int, int, int], Step | None]] = {}
        self._factor: dict[int, float] = {}
        self._beyond: dict[int, Beyond] = {}
        self._open: dict[str, set[int]] = {}
        self._sections: dict[str, set[tuple[str, ...]]] = {}
        for index in self.draft.chosen():
            self._factor[index] = self.novelty(index)
            self._note(index)
        self._left = self.draft.budget - (self.draft.tokens() if self.draft.steps else 0)


def _densest_first(option: _Option) -> tuple[float, int]:
    return -option.density, option.units


def offer_bounds(
    worth: Sequence[Sequence[float]], costs: Sequence[Sequence[int]], opening: int
) -> tuple[list[float], list[float]]:
    """What no offer of an entry can exceed in worth per token: its densest unit once it is
    open; before, also all its worth at the cost of opening it with the cheapest unit."""
    counts = np.array([len(units) for units in costs], dtype=np.int64)
    densest, bounds = np.zeros(len(counts)), np.zeros(len(counts))
    some = np.flatnonzero(counts)
    if len(some):
        starts = (np.cumsum(counts) - counts)[some]
        flat = np.array([value for units in worth for value in units])
        tokens = np.maximum(1, np.array([cost for units in costs for cost in units]))
        densest[some] = np.maximum.reduceat(flat / tokens, starts)
        whole = np.add.reduceat(flat, starts) / (opening + np.minimum.reduceat(tokens, starts))
        bounds[some] = np.minimum(densest[some], whole)
    return densest.tolist(), bounds.tolist()

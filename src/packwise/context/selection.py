"""Greedy selection of units under a token budget, and what a policy takes and returns."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from packwise.context.candidate_pool import (
    CandidatePool,
    EntryBuilder,
    EntryValue,
    PoolEntry,
    Relevance,
)
from packwise.context.layout import ContextDraft, Pick, block_cost, entry_costs, header_costs
from packwise.context.redundancy import (
    WITHIN_CAPS,
    CapExcess,
    CoveredText,
    SelectedSimilarity,
    cap_excess,
    cap_trace,
    novelty,
)
from packwise.context.trace import Cap, Dropped, DropReason
from packwise.models.base import TokenCounter, Vectors
from packwise.settings import Settings
from packwise.stores.base import Store

# Tokens of the mark that stands for a gap between two sentences.
_GAP_COST = 2
# The setting is the price in a budget of this many tokens. It falls with the cube root of the
# budget, so it is twice as high at an eighth of it, and no higher below that.
_USUAL_BUDGET, _SMALL_BUDGET = 8000, 1000


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """What a policy works with; ``relevance`` goes by the entries of the pool."""

    builder: EntryBuilder
    pool: CandidatePool
    relevance: Relevance
    store: Store
    counter: TokenCounter
    settings: Settings
    budget: int


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """A filled draft and the reasons for it; ``values`` go by the draft's entries.

    ``reasons`` has one for each candidate that nothing was selected from, with the id of the
    passage selected instead, if any. ``skipped`` are those that were not considered.
    """

    draft: ContextDraft
    method: str
    values: Sequence[EntryValue]
    reasons: Mapping[int, tuple[DropReason, str | None]]
    caps: Sequence[Cap]
    skipped: Sequence[Dropped] = ()


def token_price(settings: Settings, budget: int) -> float:
    """The share of the answer that a single token must add: more where room is scarce."""
    scarcity = _USUAL_BUDGET / max(budget, _SMALL_BUDGET)
    return settings.packing_token_price / 1000 * scarcity ** (1 / 3)


class GreedySelection:
    """Fills a draft with units, best value per token first.

    What an entry can add only shrinks as others are selected, except when they pay for its
    title. So bounds are kept in a heap, and only those at its top are worked out.
    """

    def __init__(
        self,
        entries: Sequence[PoolEntry],
        relevance: Relevance,
        vectors: Vectors,
        counter: TokenCounter,
        settings: Settings,
        budget: int,
    ) -> None:
        self.draft = ContextDraft((), counter, budget)
        self.price = token_price(settings, budget)
        self._counter = counter
        self._settings = settings
        self._vectors = vectors
        self._values: list[Sequence[float]] = []
        self._costs: list[Sequence[int]] = []
        self._leads: list[int] = []
        self._block = block_cost(counter)
        self._densest: list[float] = []
        self._bounds: list[float] = []
        self._sorted: dict[int, list[tuple[float, int]]] = {}
        self._by_document: dict[str, list[int]] = {}
        self.offer(zip(entries, relevance.units, strict=True))

    def offer(self, entries: Iterable[tuple[PoolEntry, Sequence[float]]]) -> None:
        """Add entries to choose from, each with the values of its units."""
        first = len(self.draft.entries)
        for entry, values in entries:
            index = self.draft.add_entry(entry)
            self._values.append(values)
            self._costs.append(entry_costs(self._counter, entry))
            lead = entry.passage.lead
            self._leads.append(self._counter.count(lead) if lead else 0)
            self._by_document.setdefault(entry.passage.document, []).append(index)
        new = density_bounds(self._values[first:], self._costs[first:], self._block)
        self._densest += new[0]
        self._bounds += new[1]
        self._covered = CoveredText(self.draft.entries)
        self._restore()

    def fill(self) -> None:
        """Add units until the budget is full or nothing left is worth its price.

        The first are of the first entry, the best ranked, whatever they are worth.
        """
        self._start()
        while True:
            before = len(self.draft.picks)
            self._run()
            added = len(self.draft.picks)
            if added == before:
                return
            self._left = self.draft.shrink()
            if len(self.draft.picks) < added:
                self._restore()
                return

    def novelty(self, index: int) -> float:
        """What similarity to the selected leaves of an entry's value."""
        if index in self._novelty or index >= len(self._vectors):
            return self._novelty.get(index, 1.0)
        return novelty(self._similarity.cosine(index), self._settings.packing_novelty_alpha)

    def _excess(self, index: int) -> CapExcess:
        """How an entry stands to the caps; selected ones and neighbours are within them."""
        entry = self.draft.entries[index]
        selected = self._selected.get(entry.passage.document)
        if not selected or index in selected or entry.attached_to is not None:
            return WITHIN_CAPS
        return cap_excess(entry, (self.draft.entries[i] for i in sorted(selected)), self._settings)

    def caps(self) -> list[Cap]:
        """The caps that applied to an entry, selected or not."""
        found = (
            cap_trace(entry, self._excesses.get(index) or self._excess(index), self._settings)
            for index, entry in enumerate(self.draft.entries)
            if entry.passage.document in self._selected
        )
        return [cap for cap in found if cap is not None]

    def entry_values(self, masses: Iterable[float]) -> list[EntryValue]:
        """How each entry is valued, given its mass."""
        selected = [0.0] * len(self.draft.entries)
        for pick in self.draft.picks:
            selected[pick.entry] += pick.value
        return [
            EntryValue(mass, selected[i], self.novelty(i), sum(self._costs[i]) + self._block)
            for i, mass in enumerate(masses)
        ]

    def reason(self, index: int) -> tuple[DropReason, str | None]:
        """Why nothing of an entry was selected."""
        entries = self.draft.entries
        if index == 0 and entries[0].reading.units:
            return DropReason.OVER_BUDGET, None
        covered = self._covered.by.get(index)
        if covered and self._covered.units[index] == entries[index].reading.all_units:
            return covered[0], entries[covered[1]].id
        pick = self._best_pick(index, limit=None)
        if pick is None:
            return DropReason.LOW_VALUE, None
        if pick.density >= self.price:
            return DropReason.OVER_BUDGET, None
        excess = self._excess(index)
        if excess.reason is not None and pick.density / excess.factor >= self.price:
            return excess.reason, None
        if pick.density / self.novelty(index) >= self.price:
            nearest = self._similarity.nearest(index)
            return DropReason.LOW_NOVELTY, None if nearest is None else entries[nearest].id
        return DropReason.LOW_VALUE, None

    def _start(self) -> None:
        """Begin with the best of the first entry."""
        if not self.draft.picks and self.draft.entries:
            pick = self._best_pick(0, self._left)
            if pick is not None:
                self._add(pick)

    def _run(self) -> None:
        heap = [(-self._bound(i), i) for i in range(len(self.draft.entries))]
        if self.draft.picks:
            heap = [bound for bound in heap if -bound[0] >= self.price]
        heapq.heapify(heap)
        latest = {index: bound for bound, index in heap}

        def push(density: float, index: int) -> None:
            latest[index] = -density
            heapq.heappush(heap, (-density, index))

        while heap:
            bound, index = heapq.heappop(heap)
            if bound != latest[index]:
                continue
            if -bound < self.price and self.draft.picks:
                return
            pick = self._best_pick(index, self._left)
            if pick is None:
                continue
            if heap and (-pick.density, index) > heap[0]:
                push(pick.density, index)
                continue
            if pick.density < self.price and self.draft.picks:
                return
            passage = self.draft.entries[index].passage
            paid = passage.section_path in self._sections.get(passage.document, ())
            self._add(pick)
            push(pick.density, index)
            if not paid:
                # Title and section are paid for: other passages there have become cheaper.
                for other in self._by_document[passage.document]:
                    push(self._bound(other), other)

    def _bound(self, index: int) -> float:
        """No pick of this entry has a higher density."""
        return self._densest[index] if self.draft.units[index] else self._bounds[index]

    def _best_pick(self, index: int, limit: int | None) -> Pick | None:
        """The units of the highest value per token, with the cost of their headers."""
        selected = self.draft.units[index]
        fixed = 0 if selected else self._opening(index)
        state = (selected, self._covered.units[index], fixed)
        known = self._best.get(index)
        if known is None or known[0] != state:
            known = (state, self._densest_units(index, fixed, None))
            self._best[index] = known
        best = known[1]
        if best is not None and limit is not None and best.cost > limit:
            best = self._densest_units(index, fixed, limit - fixed)
        if best is None:
            return None
        value = best.value * self.novelty(index) * self._excess(index).factor
        return Pick(index, best.units, value, best.cost)

    def _densest_units(self, index: int, fixed: int, room: int | None) -> Pick | None:
        """The same by the units' own value alone, within ``room`` tokens."""
        selected = self.draft.units[index]
        units, value, cost = 0, 0.0, 0
        for _, more in self._options(index, selected, self._covered.units[index]):
            added = more & ~units & ~selected
            if not added:
                continue
            more_value, more_cost = self._sum(index, added, selected | units)
            if room is not None and cost + more_cost > room:
                continue
            if units and (value + more_value) * (fixed + cost) < value * (fixed + cost + more_cost):
                break
            units, value, cost = units | more, value + more_value, cost + more_cost
        return Pick(index, units, value, max(1, fixed + cost)) if units else None

    def _options(self, index: int, selected: int, covered: int) -> list[tuple[float, int]]:
        """The units that can be added, each with those it brings, by density: pairs of the
        negative density and the units."""
        brings, taken = self.draft.entries[index].reading.brings, selected | covered
        if not any(brings):
            if index not in self._sorted:
                pairs = zip(self._values[index], self._costs[index], strict=True)
                self._sorted[index] = sorted(
                    (-(value / max(1, cost)), 1 << unit) for unit, (value, cost) in enumerate(pairs)
                )
            return [option for option in self._sorted[index] if not option[1] & taken]
        options: list[tuple[float, int]] = []
        for unit in range(len(self._costs[index])):
            if taken >> unit & 1:
                continue
            units = 1 << unit | brings[unit] & ~covered
            value, cost = self._sum(index, units & ~selected, 0)
            options.append((-(value / max(1, cost)), units))
        return sorted(options)

    def _sum(self, index: int, units: int, beside: int) -> tuple[float, int]:
        """Value and tokens of units, with the mark for a gap where they stand apart."""
        values, costs = self._values[index], self._costs[index]
        value, cost = 0.0, 0
        rest = units
        while rest:
            lowest = rest & -rest
            unit = lowest.bit_length() - 1
            value += values[unit]
            cost += costs[unit]
            rest ^= lowest
        if beside and not (units << 1 | units >> 1) & beside:
            cost += _GAP_COST
        return value, cost

    def _header(self, index: int) -> tuple[int, int]:
        passage = self.draft.entries[index].passage
        return header_costs(self._counter, passage.doc_title, passage.section_path)

    def _opening(self, index: int) -> int:
        """What the first unit of an entry costs beside itself: marker, title, section."""
        passage = self.draft.entries[index].passage
        title, section = self._header(index)
        shown = self._sections.get(passage.document)
        opening = self._block + self._leads[index]
        if shown is None:
            return opening + title + section
        return opening + (0 if passage.section_path in shown else section)

    def _add(self, pick: Pick) -> None:
        if not self.draft.units[pick.entry]:
            self._novelty[pick.entry] = self.novelty(pick.entry)
            self._excesses[pick.entry] = self._excess(pick.entry)
        self.draft.add(pick)
        self._left -= pick.cost
        self._note(pick.entry)

    def _note(self, index: int) -> None:
        """Remember what the selected units of an entry cover."""
        passage = self.draft.entries[index].passage
        self._selected.setdefault(passage.document, set()).add(index)
        self._sections.setdefault(passage.document, set()).add(passage.section_path)
        mates = self._by_document[passage.document]
        self._covered.add(index, self.draft.units[index], mates)
        if index < len(self._vectors):
            self._similarity.select(index)

    def _restore(self) -> None:
        """Work out again what follows from the draft alone."""
        self._similarity = SelectedSimilarity(self._vectors)
        self._covered.clear()
        self._best: dict[int, tuple[tuple[int, int, int], Pick | None]] = {}
        self._novelty: dict[int, float] = {}
        self._excesses: dict[int, CapExcess] = {}
        self._selected: dict[str, set[int]] = {}
        self._sections: dict[str, set[tuple[str, ...]]] = {}
        for index in self.draft.selected():
            self._novelty[index] = self.novelty(index)
            self._note(index)
        self._left = self.draft.budget - (self.draft.tokens() if self.draft.picks else 0)


def density_bounds(
    values: Sequence[Sequence[float]], costs: Sequence[Sequence[int]], opening: int
) -> tuple[list[float], list[float]]:
    """Upper bounds on the value per token of each entry: its densest unit once it is open;
    before, also all its value at the cost of opening it with the cheapest unit."""
    counts = np.array([len(units) for units in costs], dtype=np.int64)
    densest, bounds = np.zeros(len(counts)), np.zeros(len(counts))
    some = np.flatnonzero(counts)
    if len(some):
        starts = (np.cumsum(counts) - counts)[some]
        flat = np.array([value for units in values for value in units])
        tokens = np.maximum(1, np.array([cost for units in costs for cost in units]))
        densest[some] = np.maximum.reduceat(flat / tokens, starts)
        whole = np.add.reduceat(flat, starts) / (opening + np.minimum.reduceat(tokens, starts))
        bounds[some] = np.minimum(densest[some], whole)
    return densest.tolist(), bounds.tolist()

"""The policy ``coverage``: buy the most of the expected answer with the tokens there are.

What a set of units is worth is the evidence mass it holds, less what repeats something that
is in already; that is a submodular function, and taking the best worth per token first is
within a constant of the best there is. Bounds on what an entry can offer are kept in a heap
and only those at its top are worked out.

It stops before the budget is full when what is left is not worth its tokens: a thousand
tokens must bring ``PACKWISE_PACKING_TOKEN_PRICE`` of the answer, more in a small budget.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from packwise.context.caps import WITHIN, Beyond, beyond_caps, cap_of
from packwise.context.draft import Draft, Step
from packwise.context.evidence import Evidence
from packwise.context.layout import block_cost, section_line, title_line, unit_costs
from packwise.context.novelty import Likeness, novelty
from packwise.context.outcome import Judgement, Outcome
from packwise.context.pool import Entry, Pool, Reader
from packwise.context.reunion import MOST_REUNIONS, border_worth, neighbours, touches
from packwise.context.trace import Cap, Reason
from packwise.models.base import TokenCounter, Vectors
from packwise.settings import Settings
from packwise.stores.base import Store

# A gap between two sentences is shown by a mark of so many tokens.
_GAP_COST = 2
# What the whole budget must bring, in units of the price of a thousand tokens.
_BUDGET_PRICE = 10 / 3


def token_price(settings: Settings, budget: int) -> float:
    """The share of the answer a single token must bring."""
    return settings.packing_token_price * (0.001 + _BUDGET_PRICE / max(budget, 1))


@dataclass(frozen=True, slots=True)
class Offer:
    """The best that can be bought of an entry now."""

    step: Step
    ratio: float


@dataclass(frozen=True, slots=True)
class _Option:
    """A unit with those it leans on: what can be bought at the least."""

    units: int
    density: float


def fill_by_coverage(
    reader: Reader,
    pool: Pool,
    evidence: Evidence,
    store: Store,
    counter: TokenCounter,
    settings: Settings,
    budget: int,
) -> Outcome:
    """Fill a draft of ``budget`` tokens with what covers most of the expected answer."""
    draft = Draft(pool.entries, counter, budget)
    buyer = Buyer(draft, evidence, pool.vectors, counter, settings)
    buyer.buy()
    if settings.section_reunification:
        _reunite(buyer, reader, pool, evidence, store)
    masses = (*evidence.masses, *[0.0] * (len(draft.entries) - len(pool.entries)))
    return Outcome(
        draft=draft,
        method="greedy",
        judgements=tuple(
            Judgement(mass, buyer.value(i), buyer.novelty(i), buyer.cost(i))
            for i, mass in enumerate(masses)
        ),
        reasons={i: buyer.reason(i) for i in range(len(pool.entries)) if not draft.units[i]},
        caps=tuple(buyer.caps()),
    )


def _reunite(buyer: Buyer, reader: Reader, pool: Pool, evidence: Evidence, store: Store) -> None:
    """Offer the neighbours of what was bought, as far as it reaches their border."""
    draft = buyer.draft
    known = {entry.id for entry in pool.entries} | {d.id for d in pool.dropped}
    hosts = sorted(draft.chosen(), key=lambda i: (-evidence.masses[i], i))[:MOST_REUNIONS]
    for index in hosts:
        host = draft.entries[index]
        for entry, after in neighbours(store, reader, host, known):
            if touches(host, draft.units[index], after):
                known.add(entry.id)
                worth = border_worth(host, evidence.masses[index], entry, after)
                buyer.attach(entry, worth)
    if len(draft.entries) > len(pool.entries):
        buyer.buy()


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
        self._worth = [list(units) for units in evidence.units]
        self._costs = [unit_costs(counter, entry.passage.text) for entry in draft.entries]
        self._mates: dict[str, list[int]] = {}
        for i, entry in enumerate(draft.entries):
            self._mates.setdefault(entry.passage.document, []).append(i)
        self._recall()

    def attach(self, entry: Entry, worth: Sequence[float]) -> int:
        """Take a neighbour into the running, its units worth so much; returns its index."""
        index = self.draft.add(entry)
        self._worth.append(list(worth))
        self._costs.append(unit_costs(self._counter, entry.passage.text))
        self._mates.setdefault(entry.passage.document, []).append(index)
        return index

    def buy(self) -> None:
        """Buy until the budget is full or nothing is worth its price any more."""
        while True:
            before = len(self.draft.steps)
            self._run()
            bought = len(self.draft.steps)
            self._left = self.draft.settle()
            if len(self.draft.steps) < bought:
                self._recall()
                return
            if bought == before:
                return

    def novelty(self, index: int) -> float:
        """What likeness to the chosen leaves of an entry's worth."""
        if index in self._factor or index >= len(self._vectors):
            return self._factor.get(index, 1.0)
        return novelty(self._likeness.to_taken(index), self._settings.packing_novelty_alpha)

    def beyond(self, index: int) -> Beyond:
        """How an entry stands to the caps; one that is in, or a neighbour, is within them."""
        entry = self.draft.entries[index]
        mates = self._spans.get(entry.passage.document)
        if not mates or index in mates or entry.attached_to is not None:
            return WITHIN
        return beyond_caps(entry, (self.draft.entries[i] for i in mates), self._settings)

    def caps(self) -> list[Cap]:
        """The caps that touched an entry, chosen or not."""
        found: list[Cap] = []
        for index, entry in enumerate(self.draft.entries):
            cap = cap_of(entry, self._beyond.get(index) or self.beyond(index), self._settings)
            if cap is not None:
                found.append(cap)
        return found

    def value(self, index: int) -> float:
        """The worth of what is chosen of an entry."""
        return sum(step.worth for step in self.draft.steps if step.entry == index)

    def cost(self, index: int) -> int:
        """What all of an entry would cost, roughly."""
        return sum(self._costs[index]) + block_cost(self._counter)

    def reason(self, index: int) -> tuple[Reason, str | None]:
        """Why nothing of an entry was bought."""
        told = self._told(index)
        if told == self.draft.entries[index].reading.everything:
            return self._teller(index)
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
        heapq.heapify(heap)
        while heap:
            _, index = heapq.heappop(heap)
            offer = self._offer(index, self._left)
            if offer is None:
                continue
            if heap and (-offer.ratio, index) > heap[0]:
                heapq.heappush(heap, (-offer.ratio, index))
                continue
            if offer.ratio < self.price and self.draft.steps:
                return
            first = not self.draft.units[index]
            self._put(offer.step)
            heapq.heappush(heap, (-offer.ratio, index))
            if first:
                # Its document's title is paid for now: the others there have become cheaper.
                for mate in self._mates[self.draft.entries[index].passage.document]:
                    heapq.heappush(heap, (-self._bound(mate), mate))

    def _bound(self, index: int) -> float:
        """No offer of this entry has a better ratio."""
        pairs = zip(self._worth[index], self._costs[index], strict=True)
        return max((worth / max(cost, 1) for worth, cost in pairs), default=0.0)

    def _offer(self, index: int, limit: int | None) -> Offer | None:
        """The units with the best worth per token, what opens them included."""
        entry, chosen = self.draft.entries[index], self.draft.units[index]
        told = self._told(index)
        options = self._options(index, chosen | told)
        if not options:
            return None
        fixed = 0 if chosen else self._opening(entry)
        room = None if limit is None else limit - fixed
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
        if not units:
            return None
        worth *= self.novelty(index) * self.beyond(index).factor
        total = max(1, fixed + cost)
        return Offer(Step(index, units, worth, total), worth / total)

    def _options(self, index: int, taken: int) -> list[_Option]:
        """The units that can be bought, the densest first."""
        reading = self.draft.entries[index].reading
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
        options.sort(key=lambda option: (-option.density, option.units))
        return options

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

    def _opening(self, entry: Entry) -> int:
        """What the first unit of an entry costs beside itself: marker, title, section."""
        cost = block_cost(self._counter)
        if entry.passage.document not in self._open_documents:
            cost += self._line(title_line(entry.passage))
        if (entry.passage.document, entry.passage.section_path) not in self._open_sections:
            cost += self._line(section_line(entry.passage))
        return cost

    def _line(self, line: str) -> int:
        return self._counter.count(line) if line else 0

    def _put(self, step: Step) -> None:
        if not self.draft.units[step.entry]:
            self._factor[step.entry] = self.novelty(step.entry)
            self._beyond[step.entry] = self.beyond(step.entry)
        self.draft.put(step)
        self._left -= step.cost
        self._note(step.entry)

    def _note(self, index: int) -> None:
        """Remember what the chosen units of an entry tell."""
        entry, units = self.draft.entries[index], self.draft.units[index]
        passage, reading = entry.passage, entry.reading
        self._open_documents.add(passage.document)
        self._open_sections.add((passage.document, passage.section_path))
        if index < len(self._vectors):
            self._likeness.take(index)
        spans = [
            (passage.start + a, passage.start + b)
            for i, (a, b) in enumerate(reading.units)
            if units >> i & 1
        ]
        self._spans.setdefault(passage.document, {})[index] = spans
        for i, print_ in enumerate(reading.prints):
            if print_ and units >> i & 1:
                self._prints.setdefault(print_, index)

    def _recall(self) -> None:
        """Start from what the draft holds, forgetting the rest."""
        self._likeness = Likeness(self._vectors)
        self._factor: dict[int, float] = {}
        self._beyond: dict[int, Beyond] = {}
        self._prints: dict[int, int] = {}
        self._spans: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self._open_documents: set[str] = set()
        self._open_sections: set[tuple[str, tuple[str, ...]]] = set()
        for index in self.draft.chosen():
            self._factor[index] = self.novelty(index)
            self._note(index)
        self._left = self.draft.budget - (self.draft.tokens() if self.draft.steps else 0)

    def _told(self, index: int) -> int:
        """The units of an entry that stand in the context already, as bits."""
        entry = self.draft.entries[index]
        told = 0
        for i, print_ in enumerate(entry.reading.prints):
            if print_ and self._prints.get(print_, index) != index:
                told |= 1 << i
        for other in self._spans.get(entry.passage.document, ()):
            if other != index:
                told |= self._told_by(other, entry)
        return told

    def _told_by(self, other: int, entry: Entry) -> int:
        """The units of an entry that lie within what is shown of another of its document."""
        told = 0
        teller, passage = self.draft.entries[other].passage, entry.passage
        spans = self._spans[passage.document][other]
        for i, (a, b) in enumerate(entry.reading.units):
            start, end = passage.start + a, passage.start + b
            if any(first <= start and end <= last for first, last in spans):
                same = teller.text[start - teller.start : end - teller.start]
                told |= (same == passage.text[a:b]) << i
        return told

    def _teller(self, index: int) -> tuple[Reason, str | None]:
        """Which chosen entry tells what this one would."""
        entry = self.draft.entries[index]
        for other in self._spans.get(entry.passage.document, ()):
            if self._told_by(other, entry):
                return Reason.MERGED_INTO, self.draft.entries[other].id
        for print_ in entry.reading.prints:
            if print_ in self._prints:
                return Reason.DUPLICATE_OF, self.draft.entries[self._prints[print_]].id
        return Reason.LOW_VALUE, None

"""The policy ``seed``: the specification's own rules, whole passages only.

Passages are picked by marginal relevance (final score and answerability bonus against
likeness to those picked), within the caps. When that is too much, what is worth least per
token goes first, low in score or like the others. The neighbours of what stays are attached
while they fit.
"""

from __future__ import annotations

import numpy as np

from packwise.context.caps import beyond_caps, cap_of
from packwise.context.draft_context import Draft, Step
from packwise.context.evidence import Evidence
from packwise.context.layout import block_cost, unit_costs
from packwise.context.novelty import SAME_THING, Likeness, novelty, shared_characters
from packwise.context.policy_result import Judgement, Outcome
from packwise.context.pool import Pool, Reader, vectors_of
from packwise.context.reunion import MOST_REUNIONS, neighbours
from packwise.context.selection import Buyer
from packwise.context.trace import Cap, Reason
from packwise.models.base import TokenCounter
from packwise.settings import Settings
from packwise.stores.base import Store

# Passages are picked up to this many times the budget, so that there is something to drop.
_PICK_BEYOND = 2


def fill_by_seed(
    reader: Reader,
    pool: Pool,
    evidence: Evidence,
    store: Store,
    counter: TokenCounter,
    settings: Settings,
    budget: int,
) -> Outcome:
    """Fill a draft of ``budget`` tokens by the specification's rules."""
    return _Filling(reader, pool, evidence, store, counter, settings, budget).fill()


class _Filling:
    """One draft in the making."""

    def __init__(
        self,
        reader: Reader,
        pool: Pool,
        evidence: Evidence,
        store: Store,
        counter: TokenCounter,
        settings: Settings,
        budget: int,
    ) -> None:
        self._reader, self._pool, self._evidence = reader, pool, evidence
        self._store, self._counter, self._settings = store, counter, settings
        self._draft = Draft(pool.entries, counter, budget)
        self._vectors = vectors_of(pool.entries, store)
        self._likeness = Likeness(self._vectors)
        self._relevance = np.array(
            [e.final + e.answer.bonus for e in pool.entries], dtype=np.float64
        )
        self._reasons: dict[int, tuple[Reason, str | None]] = {}
        self._caps: list[Cap] = []
        self._novelty = [1.0] * len(pool.entries)
        opening = block_cost(counter)
        self._costs = [opening + sum(unit_costs(counter, e.passage.text)) for e in pool.entries]

    def fill(self) -> Outcome:
        """Pick, drop what is too much, attach what still fits."""
        best = self._pick()
        if best is not None:
            self._fit(best)
        if self._settings.section_reunification:
            self._reunite()
        return self._outcome()

    def _pick(self) -> int | None:
        """Put passages in by marginal relevance; returns the first, which is the best."""
        waiting = list(range(len(self._draft.entries)))
        best: int | None = None
        spent = 0
        while waiting:
            if spent > _PICK_BEYOND * self._draft.budget:
                self._reasons.update((i, (Reason.OVER_BUDGET, None)) for i in waiting)
                break
            index = self._next(waiting)
            waiting.remove(index)
            if self._barred(index):
                continue
            best = index if best is None else best
            likeness = self._likeness.to_taken(index)
            self._novelty[index] = novelty(likeness, self._settings.packing_novelty_alpha)
            worth = float("inf") if best == index else self._relevance[index]
            self._draft.put(Step(index, self._everything(index), worth, self._costs[index]))
            self._likeness.take(index)
            spent += self._costs[index]
        return best

    def _next(self, waiting: list[int]) -> int:
        alpha = self._settings.packing_novelty_alpha
        likeness = self._likeness.highest[waiting]
        marginal = (1.0 - alpha) * self._relevance[waiting] - alpha * likeness
        return waiting[int(np.argmax(marginal))]

    def _barred(self, index: int) -> bool:
        """Whether a passage says what is said already, or its caps are reached."""
        entry = self._draft.entries[index]
        likest = self._likeness.likest(index)
        if likest is not None and self._likeness.to_taken(index) >= SAME_THING:
            self._reasons[index] = (Reason.LOW_NOVELTY, self._draft.entries[likest].id)
            return True
        mates = [
            self._draft.entries[i]
            for i in self._draft.chosen()
            if self._draft.entries[i].passage.document == entry.passage.document
        ]
        beyond = beyond_caps(entry, mates, self._settings)
        cap = cap_of(entry, beyond, self._settings)
        if cap is not None:
            self._caps.append(cap)
        if beyond.reason is not None:
            self._reasons[index] = (beyond.reason, None)
        return beyond.reason is not None

    def _fit(self, best: int) -> None:
        """Drop what is worth least per token until the rest fits; then put back what fits
        after all. The best passage goes last, and then in parts."""
        draft = self._draft
        out: list[Step] = []
        while len(draft.steps) > 1 and (excess := draft.tokens() - draft.budget) > 0:
            # Counting is the slow part: it is done again when enough may be out.
            while excess > 0 and len(draft.steps) > 1:
                out.append(self._lowest())
                draft.take_back(out[-1])
                excess -= out[-1].cost
        if draft.tokens() > draft.budget:
            draft.take_back(draft.steps[0])
            self._reduce(best)
        for step in sorted(out, key=lambda s: -s.worth / max(1, s.cost)):
            if not self._may_fit(step):
                self._reasons[step.entry] = (Reason.OVER_BUDGET, None)
                continue
            draft.put(step)
            if draft.tokens() > draft.budget:
                draft.take_back(step)
                self._reasons[step.entry] = (Reason.OVER_BUDGET, None)

    def _may_fit(self, step: Step) -> bool:
        """Whether counting is worth while: what overlaps a passage that is in may cost less
        than it would alone."""
        if step.cost <= self._draft.budget - self._draft.tokens():
            return True
        passage = self._draft.entries[step.entry].passage
        others = (self._draft.entries[i].passage for i in self._draft.chosen())
        return any(shared_characters(passage, other) for other in others)

    def _lowest(self) -> Step:
        """The step of the lowest worth per token beside all the others; of equal ones the
        latest."""
        steps = self._draft.steps
        vectors = self._vectors[[step.entry for step in steps]]
        alike = vectors @ vectors.T
        np.fill_diagonal(alike, 0.0)
        alpha = self._settings.packing_novelty_alpha
        likest: list[float] = alike.max(axis=1).tolist()
        marginal = [
            step.worth * novelty(likeness, alpha) / max(1, step.cost)
            for step, likeness in zip(steps, likest, strict=True)
        ]
        return steps[min(reversed(range(len(steps))), key=marginal.__getitem__)]

    def _reduce(self, best: int) -> None:
        """The best whole sentences of a passage that is too long by itself."""
        entry = self._draft.entries[best]
        alone = Draft([entry], self._counter, self._draft.budget)
        units = self._evidence.units[best]
        own = Evidence(self._evidence.weights, (sum(units),), (units,), 0.0)
        Buyer(alone, own, self._vectors[best : best + 1], self._counter, self._settings).buy()
        if alone.units[0]:
            self._draft.put(Step(best, alone.units[0], float("inf"), alone.tokens()))
        else:
            self._reasons[best] = (Reason.OVER_BUDGET, None)

    def _reunite(self) -> None:
        """Attach the neighbours of what is in, the best first, while they fit."""
        draft = self._draft
        known = {entry.id for entry in draft.entries} | {d.id for d in self._pool.dropped}
        hosts = sorted(draft.chosen(), key=lambda i: draft.entries[i].rank)[:MOST_REUNIONS]
        for host in hosts:
            if draft.units[host] != self._everything(host):
                continue
            for entry, _ in neighbours(self._store, self._reader, draft.entries[host], known):
                known.add(entry.id)
                index = draft.add(entry)
                self._costs.append(sum(unit_costs(self._counter, entry.passage.text)))
                step = Step(index, entry.reading.everything, 0.0, self._costs[index])
                draft.put(step)
                if draft.tokens() > draft.budget:
                    draft.take_back(step)

    def _everything(self, index: int) -> int:
        return self._draft.entries[index].reading.everything

    def _outcome(self) -> Outcome:
        draft, count = self._draft, len(self._pool.entries)
        for i in range(count):
            if not draft.units[i]:
                self._reasons.setdefault(i, (Reason.OVER_BUDGET, None))
        return Outcome(
            draft=draft,
            method="mmr",
            judgements=tuple(map(self._judgement, range(len(draft.entries)))),
            reasons={i: r for i, r in self._reasons.items() if not draft.units[i]},
            caps=tuple(self._caps),
        )

    def _judgement(self, index: int) -> Judgement:
        if index >= len(self._pool.entries):
            return Judgement(cost=self._costs[index])
        chosen = self._draft.units[index]
        value = sum(
            worth for unit, worth in enumerate(self._evidence.units[index]) if chosen >> unit & 1
        )
        mass = self._evidence.masses[index]
        return Judgement(mass, value, self._novelty[index], self._costs[index])

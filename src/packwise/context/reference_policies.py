"""The policies ``seed`` and ``baseline``, kept for comparison with the default.

``seed`` follows the specification: whole passages, picked by marginal relevance (final score
and answerability bonus against similarity to those picked) within the caps. When they exceed
the budget, those with the least value per token are dropped, low in score or similar to
others. Neighbours of the rest are attached while they fit.

``baseline`` does what earlier systems did: it counts four characters as a token, adds
passages by score until the estimate is full, overlaps included, and cuts the last one off.
The estimate can be too low, so the result is cut again until it fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packwise.context.candidate_pool import (
    EntryValue,
    PoolEntry,
    Relevance,
    entry_vectors,
    neighbours,
)
from packwise.context.coverage_policy import MOST_HOSTS
from packwise.context.duplicates import shared_characters
from packwise.context.layout import (
    ContextDraft,
    Excerpt,
    Layout,
    Pick,
    SelectedUnits,
    block,
    block_cost,
    entry_costs,
    section_line,
    title_line,
)
from packwise.context.redundancy import (
    SAME_MEANING,
    SelectedSimilarity,
    cap_excess,
    cap_trace,
    novelty,
)
from packwise.context.selection import GreedySelection, PolicyInput, PolicyResult
from packwise.context.trace import Cap, DropReason
from packwise.models.base import TokenCounter

# Passages are picked up to this many times the budget, so that there is something to drop.
_PICK_BEYOND = 2
_CHARACTERS_PER_TOKEN = 4
_OVER_BUDGET = (DropReason.OVER_BUDGET, None)


def select_by_seed(given: PolicyInput) -> PolicyResult:
    """Fill a draft by the specification's rules."""
    selection = _SeedSelection(given)
    best = selection.pick()
    if best is not None:
        selection.fit(best)
    if given.settings.section_reunification:
        selection.attach_neighbours()
    return selection.result()


class _SeedSelection:
    def __init__(self, given: PolicyInput) -> None:
        self._given = given
        self._entries = given.pool.entries
        self._alpha = given.settings.packing_novelty_alpha
        self._draft = ContextDraft(self._entries, given.counter, given.budget)
        self._vectors = entry_vectors(self._entries, given.store)
        self._similarity = SelectedSimilarity(self._vectors)
        self._relevance = np.array([e.final + e.answer.bonus for e in self._entries], np.float64)
        self._reasons: dict[int, tuple[DropReason, str | None]] = {}
        self._caps: list[Cap] = []
        self._novelty = [1.0] * len(self._entries)
        opening = block_cost(given.counter)
        self._costs = [opening + sum(entry_costs(given.counter, e)) for e in self._entries]

    def pick(self) -> int | None:
        """Pick the best passage and then others by marginal relevance; returns the best."""
        waiting = list(range(len(self._entries)))
        best: int | None = None
        spent = 0
        while waiting and spent <= _PICK_BEYOND * self._draft.budget:
            similarity = self._similarity.highest[waiting]
            marginal = (1.0 - self._alpha) * self._relevance[waiting] - self._alpha * similarity
            index = waiting.pop(0 if best is None else int(np.argmax(marginal)))
            if self._excluded(index):
                continue
            best = index if best is None else best
            self._novelty[index] = novelty(self._similarity.cosine(index), self._alpha)
            value = float("inf") if best == index else self._relevance[index]
            self._draft.add(Pick(index, self._all_units(index), value, self._costs[index]))
            self._similarity.select(index)
            spent += self._costs[index]
        return best

    def _excluded(self, index: int) -> bool:
        """Whether a passage repeats a picked one or exceeds its caps."""
        entry, settings = self._entries[index], self._given.settings
        nearest = self._similarity.nearest(index)
        if nearest is not None and self._similarity.cosine(index) >= SAME_MEANING:
            self._reasons[index] = (DropReason.LOW_NOVELTY, self._entries[nearest].id)
            return True
        selected = [self._entries[i] for i in self._draft.selected()]
        same = [e for e in selected if e.passage.document == entry.passage.document]
        excess = cap_excess(entry, same, settings)
        cap = cap_trace(entry, excess, settings)
        if cap is not None:
            self._caps.append(cap)
        if excess.reason is not None:
            self._reasons[index] = (excess.reason, None)
        return excess.reason is not None

    def fit(self, best: int) -> None:
        """Drop the picks of least value per token until the rest fits, then put back what
        fits after all. The best passage goes last, and then in parts."""
        draft = self._draft
        removed: list[Pick] = []
        while len(draft.picks) > 1 and (excess := draft.tokens() - draft.budget) > 0:
            # Counting is slow: count again only when enough may be removed.
            while excess > 0 and len(draft.picks) > 1:
                removed.append(self._lowest())
                draft.remove(removed[-1])
                excess -= removed[-1].cost
        if draft.tokens() > draft.budget:
            draft.remove(draft.picks[0])
            self._reduce(best)
        for pick in sorted(removed, key=lambda pick: -pick.density):
            if self._may_fit(pick):
                self._add_if_fits(pick)

    def _add_if_fits(self, pick: Pick) -> None:
        self._draft.add(pick)
        if self._draft.tokens() > self._draft.budget:
            self._draft.remove(pick)

    def _may_fit(self, pick: Pick) -> bool:
        """Whether to count at all: text that overlaps a selected passage may cost less than
        it would alone."""
        if pick.cost <= self._draft.budget - self._draft.tokens():
            return True
        passage = self._entries[pick.entry].passage
        others = (self._entries[i].passage for i in self._draft.selected())
        return any(shared_characters(passage, other) for other in others)

    def _lowest(self) -> Pick:
        """The pick of the lowest density beside all the others; of equal ones the latest."""
        picks = self._draft.picks
        vectors = self._vectors[[pick.entry for pick in picks]]
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, 0.0)
        highest: list[float] = cosines.max(axis=1).tolist()
        marginal = [
            pick.value * novelty(cosine, self._alpha) / max(1, pick.cost)
            for pick, cosine in zip(picks, highest, strict=True)
        ]
        return picks[min(reversed(range(len(picks))), key=marginal.__getitem__)]

    def _reduce(self, best: int) -> None:
        """Show the best whole sentences of a passage that is too long by itself."""
        units = self._given.relevance.units[best]
        alone = GreedySelection(
            [self._entries[best]],
            Relevance([sum(units)], [units]),
            self._vectors[best : best + 1],
            self._given.counter,
            self._given.settings,
            self._draft.budget,
        )
        alone.fill()
        if alone.draft.units[0]:
            tokens = alone.draft.tokens()
            self._draft.add(Pick(best, alone.draft.units[0], float("inf"), tokens))

    def attach_neighbours(self) -> None:
        """Attach the neighbours of what is selected, the best first, while they fit into the
        budget and the document's cap; that of the section does not apply to them."""
        draft, given = self._draft, self._given
        most = given.settings.packing_per_doc_cap
        known = {entry.id for entry in draft.entries} | {d.id for d in given.pool.dropped}
        hosts = sorted(draft.selected(), key=lambda i: draft.entries[i].rank)[:MOST_HOSTS]
        for host in hosts:
            if draft.units[host] != self._all_units(host):
                continue
            for entry, _ in neighbours(given.store, given.builder, draft.entries[host], known):
                known.add(entry.id)
                shown = (draft.entries[i].passage.document for i in draft.selected())
                if sum(name == entry.passage.document for name in shown) >= most:
                    break
                index = draft.add_entry(entry)
                self._costs.append(sum(entry_costs(given.counter, entry)))
                self._add_if_fits(Pick(index, self._all_units(index), 0.0, self._costs[index]))

    def _all_units(self, index: int) -> int:
        return self._draft.entries[index].reading.all_units

    def result(self) -> PolicyResult:
        draft = self._draft
        return PolicyResult(
            draft=draft,
            method="mmr",
            values=[self._value(i) for i in range(len(draft.entries))],
            reasons={
                i: self._reasons.get(i, _OVER_BUDGET)
                for i in range(len(self._entries))
                if not draft.units[i]
            },
            caps=self._caps,
        )

    def _value(self, index: int) -> EntryValue:
        if index >= len(self._entries):
            return EntryValue(cost=self._costs[index])
        relevance, selected = self._given.relevance, self._draft.units[index]
        units = enumerate(relevance.units[index])
        value = sum(share for unit, share in units if selected >> unit & 1)
        return EntryValue(relevance.masses[index], value, self._novelty[index], self._costs[index])


def lay_out_by_characters(
    entries: Sequence[PoolEntry], counter: TokenCounter, budget: int
) -> Layout:
    """As many of the entries, which come best first, as the estimate allows."""
    room = budget * _CHARACTERS_PER_TOKEN
    while True:
        layout = _cut_at(entries, room)
        tokens = counter.count(layout.text)
        if tokens <= budget:
            return layout
        room = min(room - 1, room * budget // tokens)


def _cut_at(entries: Sequence[PoolEntry], room: int) -> Layout:
    excerpts: list[Excerpt] = []
    pieces: list[str] = []
    for marker, entry in enumerate(entries, start=1):
        passage, title = entry.passage, entry.passage.doc_title
        lines = title_line(title) + section_line(title, passage.section_path)
        text = passage.text[: max(0, room - len(lines) - len(block(marker, "")))]
        if not text.strip():
            break
        shown = sum(end <= len(text) for _, end in entry.reading.units)
        part = SelectedUnits(entry, (1 << shown) - 1)
        span = (passage.start, passage.start + len(text))
        excerpts.append(Excerpt((part,), (span,), text, (text,), (shown,)))
        pieces.append(lines + block(marker, text))
        room -= len(pieces[-1])
    return Layout(tuple(excerpts), tuple(pieces), tuple(range(len(pieces))))

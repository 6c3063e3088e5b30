"""The policy ``coverage``: cover as much of the expected answer as the tokens allow.

The value of a set of units is the mass it holds, less what repeats a selected passage. That
is a submodular function: adding the best value per token first comes within a constant factor
of the optimum. The best ranked passage comes first of all.

Selection stops before the budget is full when nothing left is worth its tokens: a thousand
tokens must add ``PACKWISE_PACKING_TOKEN_PRICE`` of the answer, more in a small budget.
"""

from __future__ import annotations

from packwise.context.candidate_pool import PoolEntry, Relevance, entry_vectors, neighbours
from packwise.context.layout import block_cost, entry_costs
from packwise.context.selection import (
    GreedySelection,
    PolicyInput,
    PolicyResult,
    density_bounds,
    token_price,
)
from packwise.context.trace import Dropped, DropReason

MOST_HOSTS = 8
"""Passages whose neighbours are looked up, the best first: each is a read from the store."""

# The share of a passage's mass given to the nearest sentence of its neighbour, and the factor
# by which it falls with each sentence further away.
_NEIGHBOUR_SHARE = 0.05
_NEIGHBOUR_DECAY = 0.5


def select_by_coverage(given: PolicyInput) -> PolicyResult:
    """Fill a draft with what covers most of the expected answer."""
    entries, relevance, skipped = _worth_considering(given)
    vectors = entry_vectors(entries, given.store)
    selection = GreedySelection(
        entries, relevance, vectors, given.counter, given.settings, given.budget
    )
    selection.fill()
    draft = selection.draft
    if given.settings.section_reunification:
        _add_neighbours(selection, given, relevance)
    masses = [*relevance.masses, *[0.0] * (len(draft.entries) - len(entries))]
    return PolicyResult(
        draft=draft,
        method="greedy",
        values=selection.entry_values(masses),
        reasons={i: selection.reason(i) for i in range(len(entries)) if not draft.units[i]},
        caps=selection.caps(),
        skipped=skipped,
    )


def _worth_considering(
    given: PolicyInput,
) -> tuple[list[PoolEntry], Relevance, list[Dropped]]:
    """The best entry and those of which something may be worth its price, their relevance,
    and the trace of the others. If there are none, all are considered: something is better
    than nothing."""
    entries, relevance = given.pool.entries, given.relevance
    costs = [entry_costs(given.counter, entry) for entry in entries]
    opening = block_cost(given.counter)
    _, bounds = density_bounds(relevance.units, costs, opening)
    price = token_price(given.settings, given.budget)
    kept = [i for i, bound in enumerate(bounds) if bound >= price] or range(len(entries))
    kept = sorted({0, *kept}) if entries else []
    skipped = [
        entries[i].dropped(
            DropReason.LOW_VALUE, mass=relevance.masses[i], tokens=sum(costs[i]) + opening
        )
        for i in sorted(set(range(len(entries))).difference(kept))
    ]
    masses, units = [relevance.masses[i] for i in kept], [relevance.units[i] for i in kept]
    return [entries[i] for i in kept], Relevance(masses, units), skipped


def _add_neighbours(selection: GreedySelection, given: PolicyInput, relevance: Relevance) -> None:
    """Offer the neighbours of selected passages, where the selection reaches their border."""
    draft = selection.draft
    known = {entry.id for entry in given.pool.entries} | {d.id for d in given.pool.dropped}
    hosts = sorted(draft.selected(), key=lambda i: (-relevance.masses[i], i))[:MOST_HOSTS]
    found: list[tuple[PoolEntry, list[float]]] = []
    for index in hosts:
        host, share = draft.entries[index], relevance.masses[index] * _NEIGHBOUR_SHARE
        units, last = draft.units[index], len(host.reading.units) - 1
        sides = units & 1, units >> last & 1
        for entry, after in neighbours(given.store, given.builder, host, known, *sides):
            known.add(entry.id)
            found.append((entry, _neighbour_values(host, share, entry, after)))
    if found:
        selection.offer(found)
        selection.fill()


def _neighbour_values(host: PoolEntry, share: float, entry: PoolEntry, after: bool) -> list[float]:
    """The value of each unit of a neighbour, by its distance from the host; 0 for sentences
    that the host holds too."""
    values = [0.0] * len(entry.reading.units)
    start = entry.passage.start
    for i in range(len(values)) if after else reversed(range(len(values))):
        a, b = entry.reading.units[i]
        if not (host.passage.start <= start + a and start + b <= host.passage.end):
            values[i] = share
            share *= _NEIGHBOUR_DECAY
    return values

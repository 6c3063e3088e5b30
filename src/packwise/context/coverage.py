"""The policy ``coverage``: buy the most of the expected answer with the tokens there are.

What a set of units is worth is the evidence mass it holds, less what repeats something that
is in already; that is a submodular function, and taking the best worth per token first is
within a constant of the best there is. For small pools the best there is is tried too.

It stops before the budget is full when what is left is not worth its tokens: a thousand
tokens must bring ``PACKWISE_PACKING_TOKEN_PRICE`` of the answer, more in a small budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packwise.context.draft_context import Draft
from packwise.context.evidence import Evidence
from packwise.context.knapsack import NOTHING, choose
from packwise.context.layout import block_cost, unit_costs
from packwise.context.policy_result import Judgement, Outcome
from packwise.context.pool import Entry, Pool, Reader, drop, vectors_of
from packwise.context.reunion import MOST_REUNIONS, border_worth, neighbours, touches
from packwise.context.selection import Buyer, offer_bounds, token_price
from packwise.context.trace import Dropped, Reason
from packwise.models.base import TokenCounter
from packwise.settings import Settings
from packwise.stores.base import Store

# Options times budget up to which the best choice is tried: about a millisecond.
_SMALL = 40_000


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
    known = {entry.id for entry in pool.entries} | {d.id for d in pool.dropped}
    entries, evidence, aside = _in_the_running(pool.entries, evidence, counter, settings, budget)
    draft = Draft(entries, counter, budget)
    buyer = Buyer(draft, evidence, vectors_of(entries, store), counter, settings)
    buyer.buy()
    method = "greedy"
    exact = _exactly(buyer)
    if exact is not None and exact.gain() > buyer.gain():
        buyer, draft, method = exact, exact.draft, "exact"
    if settings.section_reunification:
        _reunite(buyer, reader, known, evidence, store)
    masses = (*evidence.masses, *[0.0] * (len(draft.entries) - len(entries)))
    return Outcome(
        draft=draft,
        method=method,
        judgements=tuple(map(Judgement, masses, buyer.values(), buyer.novelties(), buyer.costs())),
        reasons={i: buyer.reason(i) for i in range(len(entries)) if not draft.units[i]},
        caps=tuple(buyer.caps()),
        aside=aside,
    )


def _in_the_running(
    entries: Sequence[Entry],
    evidence: Evidence,
    counter: TokenCounter,
    settings: Settings,
    budget: int,
) -> tuple[list[Entry], Evidence, tuple[Dropped, ...]]:
    """The entries of which something may be worth its price, their evidence, and the record
    of the others. Where none is, all are: something is better than nothing."""
    costs = [unit_costs(counter, entry.passage.text) for entry in entries]
    opening = block_cost(counter)
    _, bounds = offer_bounds(evidence.units, costs, opening)
    price = token_price(settings, budget)
    running = [i for i, bound in enumerate(bounds) if bound >= price] or range(len(entries))
    aside = set(range(len(entries))).difference(running)
    return (
        [entries[i] for i in running],
        replace(
            evidence,
            masses=tuple(evidence.masses[i] for i in running),
            units=[evidence.units[i] for i in running],
        ),
        tuple(
            drop(
                entries[i],
                Reason.LOW_VALUE,
                mass=evidence.masses[i],
                tokens=sum(costs[i]) + opening,
            )
            for i in sorted(aside)
        ),
    )


def _exactly(buyer: Buyer) -> Buyer | None:
    """A buyer that took the best choice there is; ``None`` where that is too much work.

    What a unit is worth beside others is not a sum, so the exact choice is made with the
    likeness to better ranked entries, whether they are chosen or not, and then reckoned
    anew. It need not be the better one.
    """
    units = sum(len(entry.reading.units) for entry in buyer.draft.entries)
    if units * buyer.draft.budget > _SMALL:
        return None
    groups, steps = buyer.groups()
    picks = choose(groups, buyer.draft.budget)
    taken = [
        options[pick]
        for items, chosen in zip(steps, picks, strict=True)
        for options, pick in zip(items, chosen, strict=True)
        if pick != NOTHING
    ]
    other = buyer.afresh()
    other.take(sorted(taken, key=lambda step: (-step.worth / max(1, step.cost), step.entry)))
    return other


def _reunite(
    buyer: Buyer, reader: Reader, known: set[str], evidence: Evidence, store: Store
) -> None:
    """Offer the neighbours of what was bought, as far as it reaches their border; ``known``
    are the ids that were offered already."""
    draft = buyer.draft
    hosts = sorted(draft.chosen(), key=lambda i: (-evidence.masses[i], i))[:MOST_REUNIONS]
    found: list[tuple[Entry, list[float]]] = []
    for index in hosts:
        host = draft.entries[index]
        for entry, after in neighbours(store, reader, host, known):
            if touches(host, draft.units[index], after):
                known.add(entry.id)
                found.append((entry, border_worth(host, evidence.masses[index], entry, after)))
    if found:
        buyer.attach(found)
        buyer.buy()

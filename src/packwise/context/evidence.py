"""Where the answer is expected: how likely each candidate holds it, and each of its units.

The expected answer is a mass of 1 spread over the candidates and, within each, over its
units. Packing then is buying mass with tokens.

A candidate's share falls with its rank and its relative score, never with the absolute one:
cosines, blends and reciprocal ranks live on different scales. A unit's share within its
passage rises with the question's words it holds, rare ones counting more, and with holding
the kind of thing that is asked for.

How far words may overrule the ranking depends on whether the question is answered in one
place. Where some unit holds nearly all its words, that unit is most likely it, whichever
passage it is in. Where none does (two facts from two documents, other words), the mass stays
with the ranking.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packwise.context.pool import Entry
from packwise.models.words import terms
from packwise.stores import bm25
from packwise.stores.base import Store

# Fitted on the even questions of squad2, hotpotqa-100, musique-100 and spans; the optimum is
# flat, so they are rounded. A conditional logit over sentences gave 1.4 for the rank, 7 to 9
# for the words and 1 to 1.5 for the kind on each of the sets.
_RANK_DECAY = 1.2
_SCORE_POWER = 2.0
_WORDS = 7.0
_FITS = 1.0
_SCATTERED, _IN_ONE_PLACE = 0.4, 0.8

_MOST_TERMS = 512
_LEAST = 1e-3


@dataclass(frozen=True, slots=True)
class Evidence:
    """The mass of each entry and of each of its units; all units together have 1.

    ``weights`` are the question's terms with their share of its meaning (they sum to 1).
    ``in_one_place`` is 1 where one unit holds the question's words, 0 where none does.
    """

    weights: Mapping[str, float]
    masses: tuple[float, ...]
    units: tuple[tuple[float, ...], ...]
    in_one_place: float


def term_weights(question: str, store: Store) -> dict[str, float]:
    """The index terms of a question with their share of its meaning, by rarity."""
    asked = list(dict.fromkeys(terms(question)))[:_MOST_TERMS]
    if not asked:
        return {}
    known = store.term_statistics(asked)
    rarity = {t: bm25.idf(known.passages, known.frequency.get(t, 0)) for t in asked}
    total = sum(rarity.values())
    return {term: value / total for term, value in rarity.items()}


def weigh(entries: Sequence[Entry], weights: Mapping[str, float]) -> Evidence:
    """Spread the expected answer over the entries, which come best first."""
    prior = _priors(entries)
    held = [unit_words(entry, weights) for entry in entries]
    best = max((max(units, default=0.0) for units in held), default=0.0)
    local = min(1.0, max(0.0, (best - _SCATTERED) / (_IN_ONE_PLACE - _SCATTERED)))

    strengths = [_strengths(entry, units) for entry, units in zip(entries, held, strict=True)]
    everywhere = sum(p * sum(s) for p, s in zip(prior, strengths, strict=True)) or 1.0
    spread: list[tuple[float, ...]] = []
    for share, strength in zip(prior, strengths, strict=True):
        factor = (1.0 - local) * share / (sum(strength) or 1.0) + local * share / everywhere
        spread.append(tuple(factor * s for s in strength))
    return Evidence(weights, tuple(map(sum, spread)), tuple(spread), local)


def unit_words(entry: Entry, weights: Mapping[str, float]) -> list[float]:
    """The share of the question's words that each unit holds together with its heading."""
    heading = _heading_terms(entry.passage.heading)
    base = 0.0
    held = [0.0] * len(entry.reading.units)
    where = entry.reading.where
    for term, weight in weights.items():
        if term in heading:
            base += weight
            continue
        bits = where.get(term, 0)
        while bits:
            lowest = bits & -bits
            held[lowest.bit_length() - 1] += weight
            bits ^= lowest
    return [base + value for value in held]


def _priors(entries: Sequence[Entry]) -> list[float]:
    """The share of each entry by rank and relative score; they sum to 1."""
    if not entries:
        return []
    best = max(entry.final for entry in entries)
    shares: list[float] = []
    for place, entry in enumerate(entries, start=1):
        relative = entry.final / best if best > 0 else 1.0
        worth = 1.0 + entry.answer.bonus
        shares.append(place**-_RANK_DECAY * max(relative, _LEAST) ** _SCORE_POWER * worth)
    total = sum(shares)
    return [share / total for share in shares]


def _strengths(entry: Entry, held: Sequence[float]) -> list[float]:
    return [
        math.exp(_WORDS * words + (_FITS if entry.fitting >> i & 1 else 0.0))
        for i, words in enumerate(held)
    ]


@lru_cache(maxsize=4096)
def _heading_terms(heading: str) -> frozenset[str]:
    return frozenset(terms(heading))

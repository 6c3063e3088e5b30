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
with the ranking. And a passage that graph ranking or a reranker raised above the score search
gave it never has less than its rank says: it was not found by the question's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packwise.context.pool import Entry
from packwise.language.analyzer import terms
from packwise.stores import bm25
from packwise.stores.base import Store

_MOST_TERMS = 512
_LEAST = 1e-3


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Strengths:
    """How the expected answer is spread.

    First fitted on every second question of squad2, spans, hotpotqa-100 and musique-100, then
    held against other values on their half ``tune`` by ``benchmarks/evidence.py``. Only
    ``rank_decay`` was changed by that; the others stay, since nothing tried was better beyond
    chance. The optimum is flat.

    rank_decay    power of a candidate's rank by which its share falls
    score_power   power of its score, over the best one's, by which it rises
    words         how much a unit gains that holds all of the question's words
    fits          how much one gains that holds the kind of thing that is asked for
    surroundings  share of a passage's mass that goes to all of it, by length
    scattered     share of the question's words in the best unit up to which ranking decides
    in_one_place  the share from which on words decide
    """

    rank_decay: float = 0.9
    score_power: float = 2.0
    words: float = 7.0
    fits: float = 1.0
    surroundings: float = 0.3
    scattered: float = 0.4
    in_one_place: float = 0.8


STRENGTHS = Strengths()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The mass of each entry and of each of its units; all units together have 1.

    ``weights`` are the question's terms with their share of its meaning (they sum to 1).
    ``in_one_place`` is 1 where one unit holds the question's words, 0 where none does.
    """

    weights: Mapping[str, float]
    masses: tuple[float, ...]
    units: Sequence[Sequence[float]]
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


def weigh(
    entries: Sequence[Entry], weights: Mapping[str, float], strengths: Strengths = STRENGTHS
) -> Evidence:
    """Spread the expected answer over the entries, which come best first."""
    counts = [len(entry.reading.units) for entry in entries]
    if not any(counts):
        return Evidence(weights, (0.0,) * len(entries), ((),) * len(entries), 0.0)
    ends = np.cumsum(counts)
    owners = np.repeat(np.arange(len(entries)), counts)
    held, fits = _held(entries, weights)
    between = strengths.in_one_place - strengths.scattered
    local = float(np.clip((held.max() - strengths.scattered) / between, 0.0, 1.0))

    prior = _priors(entries, strengths)
    speaking = np.exp(strengths.words * held + strengths.fits * fits)
    own = _sums(speaking, owners, len(entries))
    everywhere = float(prior @ own) or 1.0
    by_rank = prior / np.where(own > 0.0, own, 1.0)
    factors = (1.0 - local) * by_rank + local * prior / everywhere
    factors = np.where(_lifted(entries), np.maximum(factors, by_rank), factors)
    factors /= float(factors @ own) or 1.0
    masses = factors * own
    lengths = np.concatenate([entry.reading.lengths for entry in entries])
    whole = _sums(lengths, owners, len(entries))
    # What stands around an answer helps to understand it.
    around = strengths.surroundings
    even = around * masses / np.where(whole > 0.0, whole, 1.0)
    spread = (1.0 - around) * factors[owners] * speaking + even[owners] * lengths
    flat: list[float] = spread.tolist()
    units = [flat[end - n : end] for end, n in zip(ends.tolist(), counts, strict=True)]
    return Evidence(weights, tuple(masses.tolist()), units, local)


def _held(
    entries: Sequence[Entry], weights: Mapping[str, float]
) -> tuple[Floats, NDArray[np.int64]]:
    """For each unit of each entry the share of the question's words that it holds together
    with its heading, and 1 where it holds what is asked for."""
    asked = tuple(weights.items())
    held: list[float] = []
    fits: list[int] = []
    for entry in entries:
        passage, reading = entry.passage, entry.reading
        heading = _heading_terms(passage.doc_title, passage.section_path)
        where = reading.where
        base = 0.0
        found: list[tuple[int, float]] = []
        for term, weight in asked:
            if term in heading:
                base += weight
            elif term in where:
                found.append((where[term], weight))
        units = [base] * len(reading.units)
        for bits, weight in found:
            while bits:
                lowest = bits & -bits
                units[lowest.bit_length() - 1] += weight
                bits ^= lowest
        held += units
        fitting = entry.fitting
        fits += [fitting >> i & 1 for i in range(len(units))] if fitting else [0] * len(units)
    return np.array(held), np.array(fits)


def _sums(values: NDArray[Any], owners: NDArray[np.int64], count: int) -> Floats:
    sums = np.zeros(count)
    np.add.at(sums, owners, values)
    return sums


def _lifted(entries: Sequence[Entry]) -> NDArray[np.bool_]:
    """Which entries a later stage ranks above what search itself found: they were reached by
    a name or read with the question, so that the question's words cannot speak against them."""
    return np.array([entry.final > entry.scores.combined + _LEAST for entry in entries])


def _priors(entries: Sequence[Entry], strengths: Strengths) -> Floats:
    """The share of each entry by rank and relative score; they sum to 1."""
    finals = np.array([entry.final for entry in entries])
    best = float(finals.max())
    # Scores next to nothing say nothing: their ratios may be anything.
    relative = np.maximum(finals / best, _LEAST) if best > _LEAST else np.ones(len(entries))
    worth = 1.0 + np.array([entry.answer.bonus for entry in entries])
    by_rank = np.arange(1.0, len(entries) + 1) ** -strengths.rank_decay
    shares = by_rank * relative**strengths.score_power * worth
    return shares / shares.sum()


@lru_cache(maxsize=4096)
def _heading_terms(title: str, section_path: tuple[str, ...]) -> frozenset[str]:
    return frozenset(terms(" ".join((title, *section_path))))

"""One ranking out of the rankings of several stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packwise.candidates import Candidate
from packwise.retrieval.ranking import Ranking


@dataclass(frozen=True, slots=True)
class StoreHit:
    """A passage and the name of the store that holds it."""

    store: str
    hit: Candidate
    score: float


def merge_rankings(rankings: Mapping[str, Ranking], k: int) -> list[StoreHit]:
    """The ``k`` best passages of all stores; each text once.

    Scores of different embedders, and reciprocal ranks, cannot be compared. So a passage counts
    as its share of the best score of its own store, times how close that store came to the
    question (its confidence).
    """
    merged: list[StoreHit] = []
    for store, ranking in rankings.items():
        best = max((hit.scores.final for hit in ranking.hits), default=0.0)
        for hit in ranking.hits:
            share = hit.scores.final / best if best > 0 else 0.0
            merged.append(StoreHit(store, hit, share * ranking.confidence))
    merged.sort(key=lambda found: -found.score)
    distinct: dict[str, StoreHit] = {}
    for found in merged:
        distinct.setdefault(found.hit.passage.text, found)
    return list(distinct.values())[:k]

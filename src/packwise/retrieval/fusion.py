"""How two legs become one list: ranks by a strategy, scores that stay what they are.

``combined`` is absolute: cosine clipped to 0..1 and BM25 over the highest BM25 this
question can reach, averaged by weight. It does not depend on what else was found, so it
can be compared across questions and with a threshold. Reciprocal ranks cannot (their
best is 1/61), which is why ``rrf`` only orders the list and never replaces ``combined``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from packwise.candidates import Fusion, Scores
from packwise.stores.base import Key


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each leg counts; only their ratio matters."""

    vector: float
    keyword: float

    def normalised(self) -> Weights:
        total = self.vector + self.keyword
        return Weights(self.vector / total, self.keyword / total) if total else Weights(0.5, 0.5)


@dataclass(frozen=True, slots=True)
class Leg:
    """What one leg brought: raw score by key. ``ran`` is false for a leg not asked."""

    scores: Mapping[Key, float]
    ran: bool = True

    def ranks(self) -> dict[Key, int]:
        """Rank by key, 1 is best; equal scores are ordered by key."""
        ordered = sorted(self.scores, key=lambda key: (-self.scores[key], key))
        return {key: rank for rank, key in enumerate(ordered, start=1)}


NOT_ASKED = Leg({}, ran=False)


@dataclass(frozen=True, slots=True)
class Fused:
    """A key in the fused list with every score it has."""

    key: Key
    scores: Scores


def fuse(
    vector: Leg,
    keyword: Leg,
    *,
    bound: float,
    weights: Weights,
    fusion: Fusion,
    similarity: Callable[[float], float],
    rrf_k: int = 60,
) -> list[Fused]:
    """Every key of either leg with its scores, best first.

    A passage that holds no term of the question has a keyword score of 0. With one leg
    the other has no say: its scores are ``None`` and ``combined`` is the one leg's own.
    """
    share = weights.normalised()
    if not (vector.ran and keyword.ran):
        share = Weights(1.0, 0.0) if vector.ran else Weights(0.0, 1.0)
    by_rank = _reciprocal_ranks(vector, keyword, share, rrf_k) if fusion == "rrf" else {}

    fused: list[Fused] = []
    for key in vector.scores.keys() | keyword.scores.keys():
        cosine = vector.scores.get(key)
        bm25 = keyword.scores.get(key, 0.0) if keyword.ran else None
        relative = None if bm25 is None else min(1.0, bm25 / bound) if bound > 0 else 0.0
        clipped = min(1.0, max(0.0, cosine)) if cosine is not None else 0.0
        combined = share.vector * clipped + share.keyword * (relative or 0.0)
        reciprocal = by_rank.get(key)
        scores = Scores(
            vector=cosine,
            similarity=None if cosine is None else similarity(cosine),
            bm25=bm25,
            keyword=relative,
            combined=combined,
            rrf=reciprocal,
            final=combined if reciprocal is None else reciprocal,
        )
        fused.append(Fused(key, scores))
    fused.sort(key=lambda entry: (-entry.scores.final, entry.key))
    return fused


def _reciprocal_ranks(vector: Leg, keyword: Leg, share: Weights, k: int) -> dict[Key, float]:
    totals: dict[Key, float] = {}
    for leg, weight in ((vector, share.vector), (keyword, share.keyword)):
        for key, rank in leg.ranks().items():
            totals[key] = totals.get(key, 0.0) + weight / (k + rank)
    return totals

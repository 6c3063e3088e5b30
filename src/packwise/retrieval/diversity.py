"""Maximal marginal relevance: a list in which each passage adds something.

Each place goes to the passage of highest ``alpha * relevance + (1 - alpha) * novelty``,
where novelty is 1 minus the cosine to the nearest passage already placed. Relevance is the
score over the best one's. As places fill, nothing becomes more novel, so these values only
fall and serve as the new scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from packwise.candidates import Candidate
from packwise.models.base import Vectors


def mmr(candidates: Sequence[Candidate], vectors: Vectors, alpha: float) -> list[Candidate]:
    """All candidates in the order in which they add most; one row of ``vectors`` each."""
    if not candidates:
        return []
    scores = np.array([hit.scores.final for hit in candidates], dtype=np.float64)
    relevance = scores / max(float(scores.max()), 1e-12)
    nearest = np.zeros(len(candidates))
    cosines = np.clip(vectors @ vectors.T, 0.0, 1.0).astype(np.float64)
    left = np.ones(len(candidates), dtype=bool)
    placed: list[Candidate] = []
    while left.any():
        value = alpha * relevance + (1.0 - alpha) * (1.0 - nearest)
        at = int(np.argmax(np.where(left, value, -np.inf)))
        left[at] = False
        nearest = np.maximum(nearest, cosines[at])
        hit = candidates[at]
        placed.append(replace(hit, scores=replace(hit.scores, final=float(value[at]))))
    return placed

"""Stages that reorder a list: the cross-encoder, maximal marginal relevance, PageRank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from packwise.candidates import Candidate
from packwise.models.base import CrossEncoder, Vectors
from packwise.stores.base import Key

LEAST_LINKS = 2.0
"""Links per article below which PageRank mostly measures chance."""
_SIMILARITY, _PAGERANK = 0.7, 0.3
"""The specification's weights."""


def cross_encode(
    question: str,
    candidates: Sequence[Candidate],
    encoder: CrossEncoder,
    *,
    pool: int,
    weight: float,
) -> list[Candidate]:
    """The candidates, best first, after a cross-encoder read the first ``pool`` of them.

    It sees negations and comparisons that two separate vectors cannot. Alone it is worse where
    passage and question share few words, so its score is averaged with that of the first stage.
    Candidates it did not read count as if they did not fit.
    """
    read = list(candidates[:pool])
    said = encoder.score(question, [hit.passage.indexed_text for hit in read]) if read else []
    judged = [_blended(hit, float(score), weight) for hit, score in zip(read, said, strict=True)]
    judged += [_blended(hit, None, weight) for hit in candidates[pool:]]
    return sorted(judged, key=lambda hit: (-hit.scores.final, str(hit.key)))


def _blended(hit: Candidate, said: float | None, weight: float) -> Candidate:
    final = (1.0 - weight) * hit.scores.final + weight * (said or 0.0)
    return replace(hit, scores=replace(hit.scores, cross=said, final=final))


def mmr(candidates: Sequence[Candidate], vectors: Vectors, alpha: float) -> list[Candidate]:
    """All candidates in the order in which they add most; one row of ``vectors`` each.

    Each place goes to the passage of highest ``alpha * relevance + (1 - alpha) * novelty``,
    where novelty is 1 minus the cosine to the nearest passage already placed and relevance is
    the score over the best one's. These values only fall, and become the new scores.
    """
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


def blend_pagerank(
    similarities: Mapping[Key, float],
    documents: Mapping[Key, str],
    pagerank: Mapping[str, float],
    *,
    links: int,
    articles: int,
) -> tuple[Mapping[Key, float] | None, str]:
    """0.7 times the similarity and 0.3 times the normalised PageRank, and a note.

    ``documents`` says which article each passage belongs to; its PageRank counts relative to
    the highest among them. With fewer than two links per article there are no new scores.
    """
    density = links / articles if articles else 0.0
    if density < LEAST_LINKS:
        return None, f"PageRank is off: {density:.2f} links per article, below {LEAST_LINKS:g}"
    ranks = {key: pagerank.get(documents.get(key, ""), 0.0) for key in similarities}
    highest = max(ranks.values(), default=0.0)
    if highest <= 0.0:
        return None, "PageRank is off: no article here is linked to"
    blended = {
        key: _SIMILARITY * similarity + _PAGERANK * ranks[key] / highest
        for key, similarity in similarities.items()
    }
    return blended, f"{_SIMILARITY:g}/{_PAGERANK:g} with PageRank"

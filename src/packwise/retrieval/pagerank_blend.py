"""The older use of the graph: a weighted average of similarity and how much a document is
linked to. Not the default; see docs/graph.md for what it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packwise.stores.base import Key

LEAST_LINKS = 2.0
"""Links an article below which PageRank mostly measures chance."""


@dataclass(frozen=True, slots=True)
class Blend:
    """Scores by key, blended with PageRank or, as ``note`` says, left as they were."""

    scores: Mapping[Key, float]
    applied: bool
    note: str


def blend_pagerank(
    similarities: Mapping[Key, float],
    documents: Mapping[Key, str],
    pagerank: Mapping[str, float],
    *,
    links: int,
    articles: int,
    similarity_weight: float = 0.7,
    pagerank_weight: float = 0.3,
) -> Blend:
    """``similarity_weight * similarity + pagerank_weight * normalised PageRank``.

    ``documents`` says which article each passage belongs to; its PageRank counts relative
    to the highest among them. With fewer than ``LEAST_LINKS`` links an article the scores
    stay as they are.
    """
    density = links / articles if articles else 0.0
    if density < LEAST_LINKS:
        note = f"PageRank is off: {density:.2f} links an article, below {LEAST_LINKS:g}"
        return Blend(dict(similarities), False, note)
    ranks = {key: pagerank.get(documents.get(key, ""), 0.0) for key in similarities}
    highest = max(ranks.values(), default=0.0)
    if highest <= 0.0:
        return Blend(dict(similarities), False, "PageRank is off: no article here is linked to")
    blended = {
        key: similarity_weight * similarity + pagerank_weight * ranks[key] / highest
        for key, similarity in similarities.items()
    }
    return Blend(blended, True, f"{similarity_weight:g}/{pagerank_weight:g} with PageRank")

"""Confidence: whether what was found is about what was asked.

It is read off the raw scores, before anything is cut from the list, and never off a fused
rank. The scale is that of the specification's table: 0.7 and above is a direct match,
0.5 to 0.7 loosely related, below 0.5 another topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from packwise.candidates import Scores


def confidence(scores: Sequence[Scores]) -> float:
    """The best similarity of the vector leg, 0..1; of an empty list, 0.

    Without a vector leg it is the best keyword score: the share of the question's
    weight, by rarity of its words, that the best passage holds.
    """
    similarities = [s.similarity for s in scores if s.similarity is not None]
    if similarities:
        return max(0.0, min(1.0, max(similarities)))
    return max((s.keyword for s in scores if s.keyword is not None), default=0.0)

"""Step 4: question and passage read together, and what that says blended in.

The cross-encoder sees negations and comparisons that two separate vectors cannot. Alone
it is worse where passage and question share few words, so its score is averaged with the
first stage's. What it was not given to read counts as if it did not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packwise.candidates import Candidate
from packwise.models.base import CrossEncoder


def cross_encode(
    question: str,
    candidates: Sequence[Candidate],
    encoder: CrossEncoder,
    *,
    pool: int,
    weight: float,
) -> list[Candidate]:
    """The candidates, best first, after the first ``pool`` of them were read."""
    read = list(candidates[:pool])
    said = encoder.score(question, [hit.passage.indexed_text for hit in read]) if read else []
    judged = [_blended(hit, float(score), weight) for hit, score in zip(read, said, strict=True)]
    judged += [_blended(hit, None, weight) for hit in candidates[pool:]]
    return sorted(judged, key=lambda hit: (-hit.scores.final, str(hit.key)))


def _blended(hit: Candidate, said: float | None, weight: float) -> Candidate:
    final = (1.0 - weight) * hit.scores.final + weight * (said or 0.0)
    return replace(hit, scores=replace(hit.scores, cross=said, final=final))

"""Scores of several data sets, compared question by question. Used by other benchmarks."""

from __future__ import annotations

from collections.abc import Mapping

from packwise.evaluation.compare import Difference, compare
from packwise.evaluation.metrics import mean

Scores = Mapping[str, Mapping[str, float]]
"""Of each set, of each question."""


def difference(a: Scores, b: Scores) -> Difference:
    """The mean difference over the sets, which count alike, with its interval."""
    return compare(_alike(a), _alike(b))


def means(scores: Scores) -> list[float]:
    """The mean of each set."""
    return [mean(own.values()) for own in scores.values()]


def _alike(scores: Scores) -> dict[str, float]:
    """All questions, each weighed so that the plain mean is the mean of the sets' means."""
    number = sum(map(len, scores.values()))
    return {
        f"{name}:{question}": value * number / (len(scores) * len(own))
        for name, own in scores.items()
        for question, value in own.items()
    }

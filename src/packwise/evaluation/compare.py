"""Whether one variant is better than another, on the same questions.

Everything is paired: a question's difficulty cancels out, so far fewer questions are
needed than for two independent means. Equal input gives equal output, to the digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from packwise.errors import DataError
from packwise.evaluation.metrics import Metric

RESAMPLES = 10_000
SEED = 20_240_229
LEVEL = 0.95
_CHUNK_CELLS = 2_000_000
"""Numbers held at once while resampling: 16 MB, whatever the number of questions."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of ``a - b`` over the questions, with its uncertainty.

    ``low`` and ``high`` bound the 95% bootstrap interval; ``p_value`` is two-sided, of a
    paired permutation test. Wins are questions on which ``a`` scores higher.
    """

    questions: int
    mean: float
    low: float
    high: float
    p_value: float
    wins: int
    ties: int
    losses: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0.0 or self.high < 0.0


def compare(
    a: Mapping[str, float],
    b: Mapping[str, float],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Difference:
    """Compare two variants by their score of each question.

    Raises ``DataError`` unless both were scored on the same, at least one, questions.
    """
    if a.keys() != b.keys():
        raise DataError(
            f"the variants were scored on different questions "
            f"({len(a.keys() - b.keys())} only in the first, {len(b.keys() - a.keys())} only "
            f"in the second)"
        )
    if not a:
        raise DataError("there are no questions to compare on")
    # Sorted, so that the result does not depend on the order in which questions were asked.
    differences = np.array([a[q] - b[q] for q in sorted(a)], dtype=np.float64)
    low, high = bootstrap_interval(differences, resamples=resamples, seed=seed)
    wins, losses = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    return Difference(
        questions=differences.size,
        mean=float(differences.mean()),
        low=low,
        high=high,
        p_value=permutation_p_value(differences, resamples=resamples, seed=seed),
        wins=wins,
        ties=differences.size - wins - losses,
        losses=losses,
    )


@dataclass(frozen=True, slots=True)
class Contrast:
    """One metric of variant ``a`` against variant ``b``."""

    metric: Metric
    a: str
    b: str
    difference: Difference


class Scored(Protocol):
    """A variant with the score of each question, by metric."""

    @property
    def variant(self) -> str: ...

    @property
    def scores(self) -> Mapping[Metric, Mapping[str, float]]: ...


def contrasts(
    evaluations: Sequence[Scored], reference: str, metrics: Sequence[Metric]
) -> tuple[Contrast, ...]:
    """The variant named ``reference`` against each other one, metric by metric."""
    chosen = next(e for e in evaluations if e.variant == reference)
    return tuple(
        Contrast(
            metric,
            chosen.variant,
            other.variant,
            compare(chosen.scores[metric], other.scores[metric]),
        )
        for other in evaluations
        if other.variant != reference
        for metric in metrics
    )


def bootstrap_interval(
    differences: Floats, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of paired differences."""
    random = np.random.default_rng(seed)
    n = differences.size
    means = np.empty(resamples, dtype=np.float64)
    for start, stop in _chunks(resamples, n):
        drawn = random.integers(0, n, size=(stop - start, n))
        means[start:stop] = differences[drawn].mean(axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return float(low), float(high)


def permutation_p_value(
    differences: Floats, *, resamples: int = RESAMPLES, seed: int = SEED
) -> float:
    """Two-sided p-value under the hypothesis that each difference's sign is chance.

    All sign patterns are tried when there are no more of them than ``resamples``, so small
    samples get the exact value; otherwise that many are drawn, and the pattern that was
    observed counts as one of them (a p-value of zero cannot come out).
    """
    moved = differences[differences != 0.0]
    observed = abs(float(moved.sum()))
    # Sums of the same numbers in another order differ in the last bits: those are ties.
    reached = observed * (1.0 - 1e-12) - 1e-15
    if moved.size < 63 and 2**moved.size <= resamples:
        patterns = np.arange(2**moved.size, dtype=np.int64)[:, None] >> np.arange(moved.size)
        sums = np.abs((1.0 - 2.0 * (patterns & 1)) @ moved)
        return float(np.mean(sums >= reached))
    random = np.random.default_rng(seed)
    extreme = 0
    for start, stop in _chunks(resamples, moved.size):
        signs = np.where(random.random((stop - start, moved.size)) < 0.5, 1.0, -1.0)
        extreme += int(np.sum(np.abs(signs @ moved) >= reached))
    return (extreme + 1) / (resamples + 1)


def _chunks(rows: int, columns: int) -> list[tuple[int, int]]:
    """Row ranges whose tables stay within the cell limit."""
    step = max(1, _CHUNK_CELLS // max(1, columns))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]

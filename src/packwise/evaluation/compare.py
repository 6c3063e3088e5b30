"""Whether one variant is better than another, on the same questions.

Everything is paired: a question's difficulty cancels out, so far fewer questions are needed
than for two independent means. All resampling is seeded, so equal input gives equal output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packwise.errors import DataError

RESAMPLES = 10_000
SEED = 20_240_229
LEVEL = 0.95
_CHUNK_CELLS = 2_000_000
"""Numbers held at once while resampling: 16 MB, whatever the number of questions."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of ``a - b`` over the questions, with its uncertainty.

    ``low`` and ``high`` bound the 95% bootstrap interval; ``p_value`` is that of a two-sided
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
        """Whether the difference is beyond chance: the interval excludes zero, and the test agrees.
        With few questions an interval excludes zero too easily."""
        return (self.low > 0.0 or self.high < 0.0) and self.p_value < 1.0 - LEVEL

    def interval_text(self, digits: int = 3) -> str:
        """The difference with its interval, as in ``+0.021 [+0.008, +0.034]``."""
        return f"{self.mean:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"

    def p_text(self) -> str:
        """The p-value to three digits, ``< 0.001`` below that."""
        return f"{self.p_value:.3f}" if self.p_value >= 0.001 else "< 0.001"


def compare(a: Mapping[str, float], b: Mapping[str, float]) -> Difference:
    """Compare two variants by their score on each question.

    Raises ``DataError`` unless both were scored on the same questions, at least one.
    """
    if a.keys() != b.keys():
        raise DataError(
            f"the variants were scored on different questions "
            f"({len(a.keys() - b.keys())} only in the first, {len(b.keys() - a.keys())} only "
            f"in the second)"
        )
    if not a:
        raise DataError("there are no questions to compare on")
    # Sorted, so that the result does not depend on the order of the questions.
    differences = np.array([a[q] - b[q] for q in sorted(a)], dtype=np.float64)
    low, high = bootstrap_interval(differences)
    wins, losses = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    return Difference(
        questions=differences.size,
        mean=float(differences.mean()),
        low=low,
        high=high,
        p_value=permutation_p_value(differences),
        wins=wins,
        ties=differences.size - wins - losses,
        losses=losses,
    )


def bootstrap_interval(differences: Floats) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of paired differences."""
    random = np.random.default_rng(SEED)
    n = differences.size
    means = np.empty(RESAMPLES, dtype=np.float64)
    for start, stop in _chunks(RESAMPLES, n):
        drawn = random.integers(0, n, size=(stop - start, n))
        means[start:stop] = differences[drawn].mean(axis=1)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return float(low), float(high)


def permutation_p_value(differences: Floats, *, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value under the hypothesis that each difference's sign is random.

    All sign patterns are tried if there are no more of them than ``resamples``, so small
    samples get the exact value. Otherwise that many are drawn, and the observed pattern counts
    as one of them, so the p-value is never zero.
    """
    moved = differences[differences != 0.0]
    observed = abs(float(moved.sum()))
    # Sums of the same numbers in another order differ in the last bits: those are ties.
    reached = observed * (1.0 - 1e-12) - 1e-15
    if moved.size < 63 and 2**moved.size <= resamples:
        patterns = np.arange(2**moved.size, dtype=np.int64)[:, None] >> np.arange(moved.size)
        sums = np.abs((1.0 - 2.0 * (patterns & 1)) @ moved)
        return float(np.mean(sums >= reached))
    random = np.random.default_rng(SEED)
    extreme = 0
    for start, stop in _chunks(resamples, moved.size):
        signs = np.where(random.random((stop - start, moved.size)) < 0.5, 1.0, -1.0)
        extreme += int(np.sum(np.abs(signs @ moved) >= reached))
    return (extreme + 1) / (resamples + 1)


def p95_change(
    a: Sequence[float], b: Sequence[float], *, resamples: int = 2000
) -> tuple[float, float, float]:
    """How much higher the p95 of ``a`` is than that of ``b``, as a share of it, with the 95%
    bootstrap interval (paired if both have the same length)."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    change = float(np.percentile(first, 95) / np.percentile(second, 95) - 1.0)
    random = np.random.default_rng(7)
    drawn = np.empty(resamples, dtype=np.float64)
    for i in range(resamples):
        rows = random.integers(0, first.size, first.size)
        others = rows if first.size == second.size else random.integers(0, second.size, second.size)
        drawn[i] = np.percentile(first[rows], 95) / np.percentile(second[others], 95) - 1.0
    low, high = np.quantile(drawn, (0.025, 0.975))
    return change, float(low), float(high)


def _chunks(rows: int, columns: int) -> list[tuple[int, int]]:
    """Row ranges whose tables stay within the cell limit."""
    step = max(1, _CHUNK_CELLS // max(1, columns))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]

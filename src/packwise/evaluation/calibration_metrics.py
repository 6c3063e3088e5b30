"""What a confidence is worth: does it rank, does it mean what it says, what does refusing buy.

Each function takes one confidence a question (0..1) and whether the answer was there. Higher
must mean surer. Ties are never broken by chance: questions of equal confidence are answered or
refused together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packwise.errors import DataError

BINS = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Point:
    """Answering the questions from ``threshold`` on answers ``coverage`` of them, and
    ``risk`` of those wrongly."""

    threshold: float
    coverage: float
    risk: float


@dataclass(frozen=True, slots=True)
class Bin:
    """Questions of like confidence: how sure it was on average, and how often it was right."""

    questions: int
    confidence: float
    right: float


@dataclass(frozen=True, slots=True)
class Assessment:
    """A confidence in figures.

    ``ece`` is over ten bins of equal width, ``ece_even`` over ten of equally many questions.
    ``aurc`` is the mean risk over all coverages. ``accuracy`` is that of answering from 0.5
    on; ``always`` and ``never`` are those of answering everything and nothing.
    """

    questions: int
    right: float
    auroc: float
    ece: float
    ece_even: float
    brier: float
    aurc: float
    accuracy: float
    always: float
    never: float


def assess(confidences: Sequence[float], right: Sequence[bool]) -> Assessment:
    """All figures of a confidence. Raises ``DataError`` without questions of both kinds."""
    p, y = _arrays(confidences, right)
    share = float(y.mean())
    return Assessment(
        questions=p.size,
        right=share,
        auroc=auroc(confidences, right),
        ece=ece(confidences, right),
        ece_even=ece(confidences, right, even=True),
        brier=float(np.mean((p - y) ** 2)),
        aurc=aurc(confidences, right),
        accuracy=float(np.mean((p >= 0.5) == (y > 0.5))),
        always=share,
        never=1.0 - share,
    )


def auroc(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """The chance that a question whose answer is there gets the higher confidence of two;
    equal ones count half."""
    p, y = _arrays(confidences, right)
    there = y > 0.5
    positives, negatives = int(there.sum()), int((~there).sum())
    if not positives or not negatives:
        raise DataError("ranking needs questions with and without an answer")
    _, inverse, counts = np.unique(p, return_inverse=True, return_counts=True)
    # The mean rank of each group of equal confidences.
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    above = float(ranks[there].sum()) - positives * (positives + 1) / 2.0
    return above / (positives * negatives)


def reliability(
    confidences: Sequence[float], right: Sequence[bool], *, bins: int = BINS, even: bool = False
) -> tuple[Bin, ...]:
    """The questions in bins of confidence, lowest first; empty bins are left out.

    With ``even`` the bins hold equally many questions (but never part equal confidences),
    else they are equally wide.
    """
    p, y = _arrays(confidences, right)
    if even:
        order = np.argsort(p, kind="stable")
        first = {float(p[i]): rank for rank, i in reversed(list(enumerate(order)))}
        places = np.array([min(bins - 1, first[float(v)] * bins // p.size) for v in p])
    else:
        places = np.minimum((p * bins).astype(np.int64), bins - 1)
    return tuple(
        Bin(int(held.sum()), float(p[held].mean()), float(y[held].mean()))
        for held in (places == place for place in range(bins))
        if held.any()
    )


def ece(
    confidences: Sequence[float], right: Sequence[bool], *, bins: int = BINS, even: bool = False
) -> float:
    """Expected calibration error: how far confidence and truth lie apart, bin by bin."""
    found = reliability(confidences, right, bins=bins, even=even)
    total = sum(b.questions for b in found)
    return sum(b.questions * abs(b.confidence - b.right) for b in found) / total


def risk_coverage(confidences: Sequence[float], right: Sequence[bool]) -> tuple[Point, ...]:
    """One point for each threshold that changes anything, the surest questions first."""
    p, y = _arrays(confidences, right)
    order = np.argsort(-p, kind="stable")
    wrong = np.cumsum(1.0 - y[order])
    answered = np.arange(1, p.size + 1)
    last = np.append(np.flatnonzero(np.diff(p[order])), p.size - 1)
    return tuple(
        Point(float(p[order[i]]), float(answered[i] / p.size), float(wrong[i] / answered[i]))
        for i in last
    )


def aurc(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Mean risk over all coverages: the area under the risk-coverage curve."""
    total, before = 0.0, 0.0
    for point in risk_coverage(confidences, right):
        total += (point.coverage - before) * point.risk
        before = point.coverage
    return total


def answer_from(
    confidences: Sequence[float], right: Sequence[bool], precision: float, *, least: int = 1
) -> Point | None:
    """The lowest threshold from which on at least ``precision`` of the answered questions
    have their answer there; ``None`` if none has, with ``least`` questions answered."""
    found = [
        point
        for point in risk_coverage(confidences, right)
        if 1.0 - point.risk >= precision - 1e-12 and round(point.coverage * len(right)) >= least
    ]
    return found[-1] if found else None


def refuse_below(
    confidences: Sequence[float], right: Sequence[bool], precision: float, *, least: int = 1
) -> float:
    """The highest confidence below which at least ``precision`` of the questions have no
    answer there; 0 if there is none."""
    p, y = _arrays(confidences, right)
    best = 0.0
    for threshold in np.unique(p):
        below = p < threshold
        if below.sum() >= least and float((1.0 - y[below]).mean()) >= precision - 1e-12:
            best = float(threshold)
    return best


def _arrays(confidences: Sequence[float], right: Sequence[bool]) -> tuple[Floats, Floats]:
    p = np.asarray(confidences, dtype=np.float64)
    y = np.asarray(right, dtype=np.float64)
    if p.size != y.size or not p.size:
        raise DataError(f"{p.size} confidences for {y.size} questions")
    return p, y

"""How good a confidence is: ranking, calibration, and the effect of refusing to answer.

Each function takes one confidence (0 to 1) per question, and whether the answer was found.
Higher means surer. Questions with equal confidence are answered or refused together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packwise.errors import DataError

_BINS = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RiskPoint:
    """Answering from ``threshold`` on answers the share ``coverage`` of the questions, and the
    share ``risk`` of those wrongly."""

    threshold: float
    coverage: float
    risk: float


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Questions of similar confidence: its mean, and how often the answer was found."""

    questions: int
    confidence: float
    right: float


@dataclass(frozen=True, slots=True)
class Assessment:
    """The figures of a confidence.

    ``ece`` is over ten bins of equal width, ``ece_even`` over ten with the same number of
    questions. ``aurc`` is the mean risk over all coverages. ``accuracy`` is that of answering
    from 0.5 on; ``always`` and ``never`` are those of answering everything and nothing.
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
    """All figures. Raises ``DataError`` unless there are questions of both kinds."""
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
    """The probability that of two questions, the one with an answer has the higher confidence;
    ties count half."""
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
    confidences: Sequence[float], right: Sequence[bool], *, even: bool = False
) -> tuple[ReliabilityBin, ...]:
    """The questions in bins of confidence, lowest first, without empty bins.

    With ``even`` the bins have the same number of questions (but never split equal
    confidences), otherwise the same width.
    """
    p, y = _arrays(confidences, right)
    if even:
        order = np.argsort(p, kind="stable")
        first = {float(p[i]): rank for rank, i in reversed(list(enumerate(order)))}
        places = np.array([min(_BINS - 1, first[float(v)] * _BINS // p.size) for v in p])
    else:
        places = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
    return tuple(
        ReliabilityBin(int(held.sum()), float(p[held].mean()), float(y[held].mean()))
        for held in (places == place for place in range(_BINS))
        if held.any()
    )


def ece(confidences: Sequence[float], right: Sequence[bool], *, even: bool = False) -> float:
    """Expected calibration error: the mean gap between confidence and truth in the bins."""
    found = reliability(confidences, right, even=even)
    total = sum(b.questions for b in found)
    return sum(b.questions * abs(b.confidence - b.right) for b in found) / total


def risk_coverage(confidences: Sequence[float], right: Sequence[bool]) -> tuple[RiskPoint, ...]:
    """One point for each distinct confidence, the surest questions first."""
    p, y = _arrays(confidences, right)
    order = np.argsort(-p, kind="stable")
    wrong = np.cumsum(1.0 - y[order])
    answered = np.arange(1, p.size + 1)
    last = np.append(np.flatnonzero(np.diff(p[order])), p.size - 1)
    return tuple(
        RiskPoint(float(p[order[i]]), float(answered[i] / p.size), float(wrong[i] / answered[i]))
        for i in last
    )


def aurc(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Mean risk over all coverages: the area under the risk-coverage curve."""
    points = risk_coverage(confidences, right)
    widths = np.diff([0.0, *(point.coverage for point in points)])
    return float(widths @ np.array([point.risk for point in points]))


def answer_from(
    confidences: Sequence[float], right: Sequence[bool], precision: float, *, least: int = 1
) -> RiskPoint | None:
    """The lowest threshold at which at least ``precision`` of the answered questions have their
    answer; ``None`` if there is none with at least ``least`` questions answered."""
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
    answer; 0 if there is none."""
    p, y = _arrays(confidences, right)
    found = [
        float(threshold)
        for threshold in np.unique(p)
        if (p < threshold).sum() >= max(1, least)
        and float(1.0 - y[p < threshold].mean()) >= precision - 1e-12
    ]
    return found[-1] if found else 0.0


def _arrays(confidences: Sequence[float], right: Sequence[bool]) -> tuple[Floats, Floats]:
    p = np.asarray(confidences, dtype=np.float64)
    y = np.asarray(right, dtype=np.float64)
    if p.size != y.size or not p.size:
        raise DataError(f"{p.size} confidences for {y.size} questions")
    return p, y

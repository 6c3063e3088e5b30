"""What a ranking is worth against judgements, equal to ``ir_measures`` and trec_eval.

A ranking is a list of distinct document ids, best first. Grades above zero are relevant;
documents without a grade, or with one of zero or less, are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from packwise.errors import UsageError

Grades = Mapping[str, int]


def ndcg(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """Discounted gain of the first ``k`` over that of the ideal order.

    The gain is the grade itself, discounted by log2(rank + 1).
    """
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k]
    if not ideal:
        return 0.0
    return _discounted(max(grades.get(d, 0), 0) for d in ranking[:k]) / _discounted(ideal)


def recall(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """Share of the relevant documents that stand among the first ``k``."""
    relevant = sum(grade > 0 for grade in grades.values())
    return _found(ranking, grades, k) / relevant if relevant else 0.0


def precision(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """Share of the first ``k`` places that hold a relevant document; empty places count."""
    return _found(ranking, grades, k) / k


def mrr(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """One over the rank of the first relevant document, 0 when the first ``k`` hold none."""
    for rank, document in enumerate(ranking[:k], start=1):
        if grades.get(document, 0) > 0:
            return 1.0 / rank
    return 0.0


_FORMULAS: Mapping[str, Callable[[Sequence[str], Grades, int], float]] = {
    "ndcg": ndcg,
    "recall": recall,
    "precision": precision,
    "mrr": mrr,
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A formula and its cut-off, written ``ndcg@10``; for contexts the cut-off is the token
    budget, and 0 stands for all budgets together (``garbage_fraction``)."""

    formula: str
    k: int

    @classmethod
    def parse(cls, text: str) -> Metric:
        """The metric a name such as ``recall@5`` stands for; ``UsageError`` if none."""
        formula, _, k = text.partition("@")
        if formula not in _FORMULAS or not k.isascii() or not k.isdecimal() or int(k) < 1:
            known = ", ".join(f"{name}@K" for name in _FORMULAS)
            raise UsageError(f"no such metric: {text!r}", fix=f"use one of {known}")
        return cls(formula, int(k))

    def __str__(self) -> str:
        return f"{self.formula}@{self.k}" if self.k else self.formula

    def score(self, ranking: Sequence[str], grades: Grades) -> float:
        """The metric of one question's ranking."""
        return _FORMULAS[self.formula](ranking, grades, self.k)


HEADLINE = Metric("ndcg", 10)
STANDARD: tuple[Metric, ...] = (
    HEADLINE,
    Metric("recall", 2),
    Metric("recall", 5),
    Metric("recall", 10),
    Metric("recall", 100),
    Metric("precision", 10),
    Metric("mrr", 10),
)


def score_all(
    rankings: Mapping[str, Sequence[str]], relevant: Mapping[str, Grades], metric: Metric
) -> dict[str, float]:
    """The metric of each judged question; one that was not ranked scores 0."""
    return {
        question: metric.score(rankings.get(question, ()), grades)
        for question, grades in relevant.items()
    }


def mean(values: Iterable[float]) -> float:
    """The plain mean; 0 when there are no values."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else 0.0


def fold_to_documents(documents: Iterable[str], depth: int | None = None) -> tuple[str, ...]:
    """Distinct documents in the order of their best passage.

    ``documents`` holds the document of each ranked passage; ``depth`` limits the result.
    """
    return tuple(islice(dict.fromkeys(documents), depth))


def _discounted(gains: Iterable[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _found(ranking: Sequence[str], grades: Grades, k: int) -> int:
    return sum(grades.get(document, 0) > 0 for document in ranking[:k])

"""Scores of rankings and of contexts against what is known to be right.

Ranking metrics equal those of ``ir_measures`` and trec_eval. A ranking is a list of distinct
document ids, best first. A grade above zero is relevant; a document without a grade is not.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from packwise.context.duplicates import shingle_hashes
from packwise.context.quality import STUB_WORDS
from packwise.evaluation.data import Question
from packwise.language.words import words

if TYPE_CHECKING:
    from packwise.context.packer import Context, PackedPassage

Grades = Mapping[str, int]

ANSWER_RECALL = "answer_recall"
GOLD_RECALL = "gold_recall"
GARBAGE = "garbage_fraction"
REDUNDANCY = "redundancy_ratio"
NOISE = "context_noise"
TOKENS = "context_tokens"
CONTEXT_FORMULAS: Mapping[str, str] = {
    ANSWER_RECALL: "Share of the questions whose context of at most B tokens holds a gold answer, "
    "compared as SQuAD does: no case, punctuation or articles; whole words. Questions answered by "
    "yes or no are left out.",
    GOLD_RECALL: "Share of the questions whose context holds a relevant passage.",
    GARBAGE: "Share of a context's tokens in passages that are neither relevant nor hold a gold "
    "answer. Lower is better.",
    REDUNDANCY: "Distinct 5-word shingles summed over the passages, divided by those of the whole "
    "context: 1 if nothing is repeated. Lower is better.",
    NOISE: "Share of passages under 20 words. Lower is better.",
    TOKENS: "Tokens of the context.",
}
"""In display order, with their meanings."""
AVERAGED = (GARBAGE, REDUNDANCY, NOISE)
"""Also reported as the mean over all budgets, under the bare name. Lower is better."""

# Yes and no: either no text contains the answer, or almost every text does.
_NOT_IN_TEXTS = frozenset({"yes", "no", "noanswer"})
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARKER = re.compile(r"^\[\d+\]\s", re.MULTILINE)


def ndcg(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """Discounted gain of the first ``k`` documents over that of the ideal order.

    The gain is the grade itself, discounted by log2(rank + 1).
    """
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k]
    if not ideal:
        return 0.0
    return _discounted(max(grades.get(d, 0), 0) for d in ranking[:k]) / _discounted(ideal)


def recall(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """Share of the relevant documents among the first ``k``."""
    relevant = sum(grade > 0 for grade in grades.values())
    return _found(ranking, grades, k) / relevant if relevant else 0.0


def precision(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """Share of the first ``k`` ranks with a relevant document; empty ranks count."""
    return _found(ranking, grades, k) / k


def mrr(ranking: Sequence[str], grades: Grades, k: int) -> float:
    """One over the rank of the first relevant document, 0 if none is in the first ``k``."""
    ranks = (rank for rank, d in enumerate(ranking[:k], start=1) if grades.get(d, 0) > 0)
    return 1.0 / next(ranks, math.inf)


RANKING_FORMULAS: Mapping[str, Callable[[Sequence[str], Grades, int], float]] = {
    "ndcg": ndcg,
    "recall": recall,
    "precision": precision,
    "mrr": mrr,
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A ranking formula with its cut-off, written ``ndcg@10``."""

    formula: str
    k: int

    def __str__(self) -> str:
        return f"{self.formula}@{self.k}"

    def score(self, ranking: Sequence[str], grades: Grades) -> float:
        """The metric of one question's ranking."""
        return RANKING_FORMULAS[self.formula](ranking, grades, self.k)


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
SHALLOW: tuple[Metric, ...] = (HEADLINE, STANDARD[2], STANDARD[3], STANDARD[6])
"""Those that the few passages searched for a context are enough for."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles over the questions, in milliseconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Latency:
        """The interpolated percentiles of at least one measurement."""
        p50, p95, p99 = np.percentile(np.asarray(milliseconds, dtype=np.float64), (50, 95, 99))
        return cls(float(p50), float(p95), float(p99))


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean; 0 if there are no values."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else 0.0


def fold_to_documents(documents: Iterable[str]) -> tuple[str, ...]:
    """Distinct documents, each at its best passage; the input has one document per passage."""
    return tuple(dict.fromkeys(documents))


def normalised(text: str) -> str:
    """A text as SQuAD compares it: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def gold_answers(question: Question) -> tuple[str, ...]:
    """The normalised answers that a text can contain."""
    found = dict.fromkeys(map(normalised, question.answers))
    return tuple(answer for answer in found if answer and answer not in _NOT_IN_TEXTS)


def holds(text: str, answers: Sequence[str]) -> bool:
    """Whether a text contains one of the normalised answers, as whole words."""
    padded = f" {normalised(text)} "
    return any(f" {answer} " in padded for answer in answers)


def score_context(context: Context, question: Question, grades: Grades) -> dict[str, float]:
    """The context metrics of one question, by formula. Answer recall is present only for
    questions whose answer a text can contain."""
    answers = gold_answers(question)
    answering = {p.marker for p in context.passages if holds(_whole_text(p), answers)}
    tokens = good = 0
    gold = False
    for selected in context.trace.selected:
        relevant = grades.get(selected.document, 0) > 0
        if relevant and question.spans:
            relevant = any(
                span.document == selected.document and span.overlaps(*selected.span)
                for span in question.spans
            )
        gold = gold or relevant
        tokens += selected.tokens
        good += selected.tokens if relevant or selected.marker in answering else 0
    texts = [words(passage.text) for passage in context.passages]
    shingles = [shingle_hashes(text) for text in texts]
    distinct = len(frozenset[int]().union(*shingles))
    found = {
        GOLD_RECALL: float(gold),
        GARBAGE: 1.0 - good / tokens if tokens else 0.0,
        REDUNDANCY: sum(map(len, shingles)) / distinct if distinct else 1.0,
        NOISE: mean(float(len(text) < STUB_WORDS) for text in texts),
        TOKENS: float(context.tokens),
    }
    if question.answerable and answers:
        # A marker is never part of an answer; a title may be.
        found[ANSWER_RECALL] = float(holds(_MARKER.sub("", context.text), answers))
    return found


def _whole_text(passage: PackedPassage) -> str:
    return " ".join((passage.title, *passage.section_path, passage.text))


def _discounted(gains: Iterable[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _found(ranking: Sequence[str], grades: Grades, k: int) -> int:
    return sum(grades.get(document, 0) > 0 for document in ranking[:k])

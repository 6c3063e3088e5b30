"""Puts a data set's questions to a ranker, one at a time, and measures what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from packwise.errors import DataError
from packwise.evaluation.data import DataSet, Half, Question
from packwise.evaluation.metrics import STANDARD, Metric, fold_to_documents, mean, score_all

DEPTH = 100
MOST_PASSAGES = 1000
"""No ranker is asked for more: recall@100 over longer documents ends there."""

EMBEDDING = "embed"
"""The stage of a trace in which the question becomes a vector."""

# Not a question of any data set: one that were would be measured while it is still cached.
WARM_UP = "What is known about this?"


@dataclass(frozen=True, slots=True)
class Ranked:
    """The document of each passage found, best passage first, and the time each stage took."""

    documents: tuple[str, ...]
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])


Ranker = Callable[[str, int], Ranked]
"""Finds, for a question, the given number of passages."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles over the questions, in milliseconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Latency:
        """The percentiles of at least one measurement, interpolated."""
        p50, p95, p99 = np.percentile(np.asarray(milliseconds, dtype=np.float64), (50, 95, 99))
        return cls(float(p50), float(p95), float(p99))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one variant did on one data set.

    ``rankings`` holds each question's documents, best first. ``scores`` holds each
    metric's value for each question. ``unjudged`` counts the questions left out because
    nothing is known about their right documents, ``absent`` the relevant documents that
    could not be found because they are not there.
    """

    dataset: str
    split: str
    half: Half | None
    variant: str
    depth: int
    rankings: Mapping[str, tuple[str, ...]]
    scores: Mapping[Metric, Mapping[str, float]]
    unjudged: int
    absent: int
    latency: Latency
    latency_without_embedding: Latency
    stages: Mapping[str, Latency]

    @property
    def questions(self) -> int:
        return len(self.rankings)

    def value(self, metric: Metric) -> float:
        """The metric's mean over the questions."""
        return mean(self.scores[metric].values())


def run(
    dataset: DataSet,
    ranker: Ranker,
    *,
    variant: str = "",
    depth: int = DEPTH,
    limit: int | None = None,
    metrics: Sequence[Metric] = STANDARD,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Ask every judged question (the first ``limit`` of them) and score the answers.

    ``depth`` is how many documents are ranked a question; metrics cut off beyond it count
    what lies deeper as not found. Latency is that of one search for ``depth`` passages,
    after a warm-up that is not counted. ``progress`` is called with the number of questions
    just done. Raises ``DataError`` when no question is judged.
    """
    judged = dataset.judged
    questions = judged[:limit]
    if not questions:
        raise DataError(
            f"{dataset.name} has no judged questions in {_place(dataset)}",
            fix="choose another split or leave --half out",
        )
    ranker(WARM_UP, depth)
    asked = [_Asked.by(ranker, question, depth, progress) for question in questions]
    rankings = {a.question.id: a.documents for a in asked}
    relevant = {question.id: dataset.relevant[question.id] for question in questions}
    names = list(dict.fromkeys(name for a in asked for name in a.timings_ms))
    return Evaluation(
        dataset=dataset.name,
        split=dataset.split,
        half=dataset.half,
        variant=variant,
        depth=depth,
        rankings=rankings,
        scores={metric: score_all(rankings, relevant, metric) for metric in metrics},
        unjudged=len(dataset.questions) - len(judged),
        absent=dataset.absent,
        latency=Latency.of([a.ms for a in asked]),
        latency_without_embedding=Latency.of([a.ms_without_embedding for a in asked]),
        stages={
            name: Latency.of([a.timings_ms[name] for a in asked if name in a.timings_ms])
            for name in names
        },
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    documents: tuple[str, ...]
    ms: float
    timings_ms: Mapping[str, float]

    @classmethod
    def by(
        cls,
        ranker: Ranker,
        question: Question,
        depth: int,
        progress: Callable[[int], None] | None,
    ) -> _Asked:
        started = time.perf_counter()
        first = ranker(question.text, depth)
        ms = (time.perf_counter() - started) * 1000.0
        documents = _deepen(ranker, question.text, first, depth)
        if progress:
            progress(1)
        return cls(question, documents, ms, first.timings_ms)

    @property
    def ms_without_embedding(self) -> float:
        """What remains without the embedding, never less than the other stages together:
        a leg that runs while the question is embedded is not free without it."""
        rest = sum(ms for name, ms in self.timings_ms.items() if name != EMBEDDING)
        return max(self.ms - self.timings_ms.get(EMBEDDING, 0.0), rest)


def _deepen(ranker: Ranker, text: str, first: Ranked, depth: int) -> tuple[str, ...]:
    """``depth`` documents: those of the measured search, then what deeper searches add.

    Several passages of one document fold into one place, so as many passages as
    documents are seldom enough. A search is exhausted when a deeper one finds no more
    passages, not when it returns fewer than asked: repeated texts are left out of a result.
    """
    documents = fold_to_documents(first.documents)
    found, k = len(first.documents), depth
    while found and len(documents) < depth and k < MOST_PASSAGES:
        k = min(k * 2, MOST_PASSAGES)
        deeper = ranker(text, k)
        if len(deeper.documents) <= found:
            break
        found = len(deeper.documents)
        documents = fold_to_documents((*documents, *deeper.documents))
    return documents[:depth]


def _place(dataset: DataSet) -> str:
    half = f", half {dataset.half!r}" if dataset.half else ""
    return f"split {dataset.split!r}{half}"

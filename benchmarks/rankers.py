"""Scores of a function that ranks documents, question by question. Used by other benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from packwise.evaluation.data import DataSet
from packwise.evaluation.metrics import Metric, fold_to_documents, mean
from packwise.library import Library

MOST_PASSAGES = 1000
WARM_UP = "What is known about this?"


@dataclass(frozen=True, slots=True)
class Ranked:
    """The document of each passage found, best first, and the milliseconds of each stage."""

    documents: tuple[str, ...]
    timings_ms: Mapping[str, float] = field(default_factory=dict)


Ranker = Callable[[str, int], Ranked]
"""Finds the given number of passages for a question."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The scores of each question by metric, and the median time without the embedding."""

    scores: Mapping[Metric, Mapping[str, float]]
    median_ms: float

    def value(self, metric: Metric) -> float:
        """The metric's mean over the questions."""
        return mean(self.scores[metric].values())


def run(dataset: DataSet, ranker: Ranker, depth: int, metrics: Sequence[Metric]) -> Ranking:
    """Rank ``depth`` documents for every judged question and score them."""
    ranker(WARM_UP, depth)
    documents: dict[str, tuple[str, ...]] = {}
    took: list[float] = []
    for question in dataset.judged:
        started = time.perf_counter()
        first = ranker(question.text, depth)
        ms = (time.perf_counter() - started) * 1000.0
        rest = sum(ms for name, ms in first.timings_ms.items() if name != "embed")
        took.append(max(ms - first.timings_ms.get("embed", 0.0), rest))
        documents[question.id] = deepened(ranker, question.text, first, depth)
    scores = {
        metric: {q: metric.score(found, dataset.relevant[q]) for q, found in documents.items()}
        for metric in metrics
    }
    return Ranking(scores, float(np.median(took)))


def deepened(ranker: Ranker, text: str, first: Ranked, depth: int) -> tuple[str, ...]:
    """The documents of the first search, then what deeper searches add."""
    documents = fold_to_documents(first.documents)
    found, k = len(first.documents), depth
    while found and len(documents) < depth and k < MOST_PASSAGES:
        k = min(k * 2, MOST_PASSAGES)
        deeper = ranker(text, k).documents
        if len(deeper) <= found:
            break
        found = len(deeper)
        documents = fold_to_documents((*documents, *deeper))
    return documents[:depth]


def library_ranker(library: Library, **options: str) -> Ranker:
    """A ranker that searches a library; options are those of ``Library.search``."""

    def rank(question: str, k: int) -> Ranked:
        found = library.search(question, k, **options)  # type: ignore[arg-type]
        return Ranked(tuple(hit.passage.document for hit in found.hits), found.trace.timings_ms())

    return rank

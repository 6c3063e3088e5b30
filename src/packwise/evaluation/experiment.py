"""Variants side by side: each question is put to every one of them in turn.

So the differences are paired, and a slow moment of the machine meets them all. They take turns
in going first: who is the first to read a passage pays for it, each as often as the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from packwise.errors import DataError, PackwiseError
from packwise.evaluation.contexts import GOLD_RECALL, MEASURED, measure
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.knobs import Setup
from packwise.evaluation.metrics import HEADLINE, Metric, fold_to_documents, mean
from packwise.evaluation.runner import WARM_UP, Latency

if TYPE_CHECKING:
    from packwise.library import Library

RANKED = 10
"""Passages a ranking is judged on: as many as a search shows."""

RANKING_METRICS: tuple[Metric, ...] = (
    HEADLINE,
    Metric("recall", 5),
    Metric("recall", 10),
    Metric("mrr", 10),
)


@dataclass(frozen=True, slots=True)
class Answered:
    """What one variant did with one question.

    ``scores`` go by metric name; one that does not apply is not there. ``error`` is empty
    unless it failed. ``record`` is the trace of the search and of the packing.
    """

    question: Question
    documents: tuple[str, ...]
    scores: Mapping[str, float]
    ms: float
    stages: Mapping[str, float]
    confidence: float
    probability: float | None = None
    error: str = ""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Arm:
    """One variant over all questions, in their order."""

    variant: str
    budget: int
    answered: tuple[Answered, ...]

    def scores(self, metric: str) -> dict[str, float]:
        """The metric by question, where it applies."""
        return {a.question.id: a.scores[metric] for a in self.answered if metric in a.scores}

    def value(self, metric: str) -> float:
        return mean(self.scores(metric).values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that applies to at least one question."""
        return tuple(dict.fromkeys(name for a in self.answered for name in a.scores))

    @property
    def latency(self) -> Latency:
        """Of the whole: search and packing."""
        return Latency.of([a.ms for a in self.answered])

    @property
    def stages(self) -> dict[str, Latency]:
        names = dict.fromkeys(name for a in self.answered for name in a.stages)
        return {
            name: Latency.of([a.stages[name] for a in self.answered if name in a.stages])
            for name in names
        }

    @property
    def errors(self) -> float:
        """Share of the questions it failed on."""
        return mean(float(bool(a.error)) for a in self.answered)


def run_trial(
    dataset: DataSet,
    store: str,
    setups: Sequence[Setup],
    *,
    budget: int,
    limit: int | None = None,
    curve: Sequence[int] = (),
    keep: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[Arm, ...]:
    """Put the questions (the first ``limit``) to every variant.

    Rankings are judged on judged questions, contexts of ``budget`` tokens on answerable
    ones. With ``keep`` the traces stay with the results. A question that a variant fails on
    scores 0 and counts as an error. ``curve`` are further budgets, packed from the same
    search and not timed. Raises ``DataError`` when there is nothing to ask.
    """
    from packwise.library import open_library

    questions = asked(dataset)[:limit]
    if not questions:
        raise DataError(
            f"{dataset.name} has no judged questions", fix="choose another split or half"
        )
    answered: list[list[Answered]] = [[] for _ in setups]
    with ExitStack() as stack:
        libraries = [
            stack.enter_context(open_library(store, settings=setup.settings)) for setup in setups
        ]
        for setup, library in zip(setups, libraries, strict=True):
            library.context(WARM_UP, budget, mode=setup.mode)
        for place, question in enumerate(questions):
            for turn in range(len(setups)):
                i = (place + turn) % len(setups)
                budgets = (budget, *(b for b in curve if b != budget))
                answered[i].append(_ask(libraries[i], setups[i], question, dataset, budgets, keep))
            if progress:
                progress(len(setups))
    return tuple(
        Arm(setup.name, budget, tuple(rows)) for setup, rows in zip(setups, answered, strict=True)
    )


def asked(dataset: DataSet) -> list[Question]:
    """The questions of which something is known: what is right, or that nothing is."""
    return [
        q for q in dataset.questions if q.id in dataset.relevant or q.answers or not q.answerable
    ]


def _ask(
    library: Library,
    setup: Setup,
    question: Question,
    dataset: DataSet,
    budgets: Sequence[int],
    keep: bool,
) -> Answered:
    from packwise.context.packer import pack

    settings, budget = setup.settings, budgets[0]
    reranked = settings.reranker != "off"
    most = settings.rerank_topk if reranked else settings.context_candidates
    grades = dataset.relevant.get(question.id, {})
    started = time.perf_counter()
    try:
        ranking = library.search(question.text, most, mode=setup.mode)
        searched = time.perf_counter()
        context = pack(
            question.text, ranking.hits, store=library.store, settings=settings, budget=budget
        )
    except PackwiseError as error:
        ms = (time.perf_counter() - started) * 1000.0
        names = _applying(question, dataset, budget)
        return Answered(question, (), dict.fromkeys(names, 0.0), ms, {}, 0.0, error=str(error))
    ended = time.perf_counter()
    documents = fold_to_documents(hit.passage.document for hit in ranking.hits)
    scores: dict[str, float] = {}
    if grades:
        scores = {str(metric): metric.score(documents, grades) for metric in RANKING_METRICS}
    if question.answerable:
        packed = {budget: context}
        for other in budgets[1:]:
            packed[other] = pack(
                question.text, ranking.hits, store=library.store, settings=settings, budget=other
            )
        for size, made in packed.items():
            found = measure(made, question, grades)
            if not grades:
                del found[GOLD_RECALL]
            for name in (name for name in MEASURED if name in found):
                scores[str(Metric(name, size))] = found[name]
    stages = ranking.trace.timings_ms()
    stages["packing"] = (ended - searched) * 1000.0
    record: dict[str, Any] = {}
    if keep:
        record = {
            "search": ranking.trace.as_dict(),
            "hits": [
                {
                    "id": hit.passage.id,
                    "document": hit.passage.document,
                    "title": hit.passage.doc_title,
                    "text": hit.passage.text[:_SHOWN],
                    "score": round(hit.scores.final, 4),
                    "vector": _rounded(hit.scores.vector),
                    "keyword": _rounded(hit.scores.keyword),
                    "right": grades.get(hit.passage.document, 0) > 0,
                }
                for hit in ranking.hits[:RANKED]
            ],
            "selected": [
                {"id": s.id, "tokens": s.tokens, "marker": s.marker} for s in context.trace.selected
            ],
            "dropped": [{"id": d.id, "reason": d.reason.value} for d in context.trace.dropped],
            "tokens": context.tokens,
        }
    return Answered(
        question,
        documents,
        scores,
        (ended - started) * 1000.0,
        stages,
        ranking.confidence,
        ranking.probability,
        record=record,
    )


_SHOWN = 240


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _applying(question: Question, dataset: DataSet, budget: int) -> list[str]:
    """The metrics a failed question scores 0 on."""
    names: list[str] = []
    if question.id in dataset.relevant:
        names += [str(metric) for metric in RANKING_METRICS]
    if question.answerable and question.answers:
        names.append(str(Metric(MEASURED[0], budget)))
    return names


def p95_change(
    a: Sequence[float], b: Sequence[float], *, resamples: int = 2000, seed: int = 7
) -> tuple[float, float, float]:
    """How much higher the p95 of ``a`` is than that of ``b``, as a share of it, with the 95%
    interval of a bootstrap over the questions (paired where they are as many)."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    change = float(np.percentile(first, 95) / np.percentile(second, 95) - 1.0)
    random = np.random.default_rng(seed)
    drawn = np.empty(resamples, dtype=np.float64)
    for i in range(resamples):
        rows = random.integers(0, first.size, first.size)
        others = rows if first.size == second.size else random.integers(0, second.size, second.size)
        drawn[i] = np.percentile(first[rows], 95) / np.percentile(second[others], 95) - 1.0
    low, high = np.quantile(drawn, (0.025, 0.975))
    return change, float(low), float(high)

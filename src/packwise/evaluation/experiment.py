"""The experiment: variants side by side, each question put to every variant in turn.

Differences are therefore paired, and a slow moment of the machine affects all variants equally.
The variants take turns at going first, because the first to read a passage from disk pays for
it. Every ``packwise eval`` command is a view of one experiment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packwise.errors import DataError, PackwiseError
from packwise.evaluation.compare import Difference, compare
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.metrics import (
    ANSWER_RECALL,
    AVERAGED,
    CONTEXT_FORMULAS,
    GOLD_RECALL,
    SHALLOW,
    STANDARD,
    Grades,
    Latency,
    fold_to_documents,
    mean,
    score_context,
)
from packwise.evaluation.variants import Variant

if TYPE_CHECKING:
    from packwise.context.packer import Context
    from packwise.library import Library
    from packwise.retrieval.ranking import Ranking

DEPTH = 100
"""Documents that a measured ranking has."""

# Part of no data set: a question of one would be measured while it is still cached.
_WARM_UP = "What is known about this?"
_MOST_PASSAGES = 1000
_TRACED_HITS = 10
_SNIPPET_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """What one variant did with one question.

    ``scores`` has the metrics that apply, by name. ``packing_ms`` is by budget. ``error`` is
    empty unless the question failed; ``trace`` is empty unless traces were asked for.
    """

    question: Question
    documents: tuple[str, ...]
    scores: Mapping[str, float]
    search_ms: float
    stages: Mapping[str, float] = field(default_factory=dict[str, float])
    confidence: float = 0.0
    probability: float | None = None
    packing_ms: Mapping[int, float] = field(default_factory=dict[int, float])
    error: str = ""
    trace: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def ms(self, budget: int) -> float:
        """Milliseconds of the search and of packing to a budget."""
        return self.search_ms + self.packing_ms.get(budget, 0.0)

    @property
    def answer_found(self) -> bool:
        """Whether its context (of the first budget) has the answer or, if no answer is known,
        a relevant passage."""
        found = (
            value > 0
            for formula in (ANSWER_RECALL, GOLD_RECALL)
            for name, value in self.scores.items()
            if name.startswith(f"{formula}@")
        )
        return self.question.answerable and next(found, False)


@dataclass(frozen=True, slots=True)
class VariantResult:
    """One variant over all questions, in their order. ``budget`` is the one that contexts are
    judged by, 0 if only rankings were measured."""

    variant: str
    budget: int
    questions: tuple[QuestionResult, ...]

    def scores(self, metric: str) -> dict[str, float]:
        """The metric by question, where it applies. The bare name of a context metric
        (``garbage_fraction``) is the mean over the budgets."""
        if metric not in AVERAGED:
            return {r.question.id: r.scores[metric] for r in self.questions if metric in r.scores}
        own = {
            r.question.id: [v for name, v in r.scores.items() if name.startswith(f"{metric}@")]
            for r in self.questions
        }
        return {question: mean(values) for question, values in own.items() if values}

    def value(self, metric: str) -> float:
        """The metric's mean over the questions."""
        return mean(self.scores(metric).values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that applies to at least one question."""
        return tuple(dict.fromkeys(name for r in self.questions for name in r.scores))

    @property
    def context_metrics(self) -> tuple[str, ...]:
        """The context metrics by formula, each mean over the budgets after its budgets."""
        names: list[str] = []
        for formula in CONTEXT_FORMULAS:
            own = [name for name in self.metrics if name.startswith(f"{formula}@")]
            names += [*own, formula] if own and formula in AVERAGED else own
        return tuple(names)

    def times(self, budget: int | None = None) -> list[float]:
        """Milliseconds per question, with the packing to a budget."""
        return [r.ms(self.budget if budget is None else budget) for r in self.questions]

    @property
    def latency(self) -> Latency:
        return Latency.of(self.times())

    @property
    def latency_without_embedding(self) -> Latency:
        """Never less than the other stages together: a leg that runs while the question is
        embedded would not be free without the embedding."""
        embedding = [r.stages.get("embed", 0.0) for r in self.questions]
        times = [
            max(r.search_ms - embed, sum(r.stages.values()) - embed)
            for r, embed in zip(self.questions, embedding, strict=True)
        ]
        return Latency.of(times)

    @property
    def stages(self) -> dict[str, Latency]:
        """The latency of each stage, in the order in which they ran."""
        names = dict.fromkeys(name for r in self.questions for name in r.stages)
        return {
            name: Latency.of([r.stages[name] for r in self.questions if name in r.stages])
            for name in names
        }

    @property
    def errors(self) -> float:
        """Share of the questions that failed."""
        return mean(float(bool(r.error)) for r in self.questions)


@dataclass(frozen=True, slots=True)
class Experiment:
    """The results of each variant on one data set. ``reference`` names the variant that is
    compared with each other one."""

    dataset: DataSet
    results: tuple[VariantResult, ...]
    reference: str
    depth: int = 0
    budgets: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        half = f", {self.dataset.half} half" if self.dataset.half else ""
        number = len(self.results[0].questions)
        return f"{self.dataset.name}, {self.dataset.split}{half}, {number} questions"

    def result(self, variant: str) -> VariantResult | None:
        return next((r for r in self.results if r.variant == variant), None)

    def differences(
        self, metrics: Sequence[str] | None = None
    ) -> Iterator[tuple[str, str, Difference]]:
        """Metric, other variant and difference: the reference minus each other variant."""
        reference = self.result(self.reference)
        assert reference is not None
        for other in self.results:
            if other is not reference:
                for metric, found in differences(reference, other, metrics).items():
                    yield metric, other.variant, found


def differences(
    new: VariantResult, old: VariantResult, metrics: Sequence[str] | None = None
) -> dict[str, Difference]:
    """New minus old, for each metric that both have on the same questions."""
    scores = {m: (new.scores(m), old.scores(m)) for m in metrics or new.metrics}
    return {m: compare(a, b) for m, (a, b) in scores.items() if a and a.keys() == b.keys()}


def run_experiment(
    dataset: DataSet,
    store: str,
    variants: Sequence[Variant],
    questions: Sequence[Question],
    *,
    depth: int = 0,
    budgets: Sequence[int] = (),
    reference: str = "",
    keep_traces: bool = False,
    count_errors: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Experiment:
    """Put the questions to every variant and score the results.

    With ``depth``, that many documents are ranked. Contexts are packed for each of
    ``budgets``, from one search; they are judged by the first. The reference is the last
    variant unless named. With ``count_errors``, a question that fails scores 0 instead of
    ending the experiment. ``progress`` is called with the number of answers just received.
    Raises ``DataError`` if there are no questions.
    """
    from packwise.library import open_library

    if not questions:
        half = f", half {dataset.half!r}" if dataset.half else ""
        raise DataError(
            f"{dataset.name} has no judged questions in split {dataset.split!r}{half}",
            fix="choose another split or leave --half out",
        )
    budgets = tuple(dict.fromkeys(budgets))
    found: list[list[QuestionResult]] = [[] for _ in variants]
    with ExitStack() as stack:
        # Variants with the same settings share a library.
        libraries = {
            settings: stack.enter_context(open_library(store, settings=settings))
            for settings in dict.fromkeys(variant.settings for variant in variants)
        }
        askers = [_Asker(libraries[v.settings], v, dataset, depth, budgets) for v in variants]
        for asker in askers:
            asker.warm_up()
        for place, question in enumerate(questions):
            for turn in range(len(variants)):
                i = (place + turn) % len(variants)
                found[i].append(askers[i].ask(question, keep_traces, count_errors))
            if progress:
                progress(len(variants))
    return Experiment(
        dataset=dataset,
        results=tuple(
            VariantResult(variant.name, budgets[0] if budgets else 0, tuple(results))
            for variant, results in zip(variants, found, strict=True)
        ),
        reference=reference or variants[-1].name,
        depth=depth,
        budgets=budgets,
    )


@dataclass(frozen=True, slots=True)
class _Asker:
    """Puts questions to one variant."""

    library: Library
    variant: Variant
    dataset: DataSet
    depth: int
    budgets: tuple[int, ...]

    def search(self, text: str, k: int = 0) -> Ranking:
        """As ``Library.context`` does, or as deep as documents are ranked."""
        settings, mode, fusion = self.variant.settings, self.variant.mode, self.variant.fusion
        wide = settings.rerank_topk if settings.reranker != "off" else settings.context_candidates
        legs = 0 if k or self.depth else settings.context_depth
        k = k or self.depth or wide
        return self.library.search(text, k, mode=mode, fusion=fusion, depth=legs)

    def pack(self, text: str, ranking: Ranking, budget: int) -> Context:
        from packwise.context.packer import pack

        store, settings = self.library.store, self.variant.settings
        return pack(text, ranking.hits, store=store, settings=settings, budget=budget)

    def warm_up(self) -> None:
        ranking = self.search(_WARM_UP)
        for budget in self.budgets[:1]:
            self.pack(_WARM_UP, ranking, budget)

    def ask(self, question: Question, keep_trace: bool, count_error: bool) -> QuestionResult:
        grades = self.dataset.relevant.get(question.id, {})
        contexts: dict[int, Context] = {}
        packing_ms: dict[int, float] = {}
        began = time.perf_counter()
        try:
            ranking = self.search(question.text)
            search_ms = (time.perf_counter() - began) * 1000.0
            # Of an unanswerable question, only the time of one context is of interest.
            for budget in self.budgets if question.answerable else self.budgets[:1]:
                started = time.perf_counter()
                contexts[budget] = self.pack(question.text, ranking, budget)
                packing_ms[budget] = (time.perf_counter() - started) * 1000.0
        except PackwiseError as error:
            if not count_error:
                raise
            ms = (time.perf_counter() - began) * 1000.0
            return QuestionResult(question, (), self._zeros(question, grades), ms, error=str(error))
        documents = self._documents(question.text, ranking)
        packing = {"packing": packing_ms[self.budgets[0]]} if self.budgets else {}
        return QuestionResult(
            question,
            documents,
            self._scores(question, grades, documents, contexts),
            search_ms,
            {**ranking.trace.timings_ms(), **packing},
            ranking.confidence,
            ranking.probability,
            packing_ms,
            trace=_trace(ranking, contexts[self.budgets[0]], grades) if keep_trace else {},
        )

    def _documents(self, text: str, ranking: Ranking) -> tuple[str, ...]:
        """The ranked documents: those of the measured search, then what deeper searches add.

        Several passages of one document count as one rank, so ``depth`` passages are seldom
        enough. A search is exhausted when a deeper one finds no more passages, not when it
        returns fewer than asked for: repeated texts are left out of a result.
        """
        hits, k = ranking.hits, self.depth
        documents = fold_to_documents(hit.passage.document for hit in hits)
        while hits and len(documents) < self.depth and k < _MOST_PASSAGES:
            k = min(k * 2, _MOST_PASSAGES)
            deeper = self.search(text, k).hits
            if len(deeper) <= len(hits):
                break
            hits = deeper
            documents = fold_to_documents((*documents, *(hit.passage.document for hit in hits)))
        return documents[: self.depth or None]

    def _scores(
        self,
        question: Question,
        grades: Grades,
        documents: Sequence[str],
        contexts: Mapping[int, Context],
    ) -> dict[str, float]:
        metrics = (STANDARD if self.depth else SHALLOW) if grades else ()
        scores = {str(metric): metric.score(documents, grades) for metric in metrics}
        for budget, context in contexts.items() if question.answerable else ():
            found = score_context(context, question, grades)
            for formula in CONTEXT_FORMULAS:
                if formula in found and (grades or formula != GOLD_RECALL):
                    scores[f"{formula}@{budget}"] = found[formula]
        return scores

    def _zeros(self, question: Question, grades: Grades) -> dict[str, float]:
        """The scores of a question that failed."""
        scores = self._scores(question, grades, (), {})
        if question.answerable and question.answers:
            scores |= {f"{ANSWER_RECALL}@{budget}": 0.0 for budget in self.budgets[:1]}
        return scores


def _trace(ranking: Ranking, context: Context, grades: Grades) -> dict[str, Any]:
    """What a report shows of one question."""

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 4)

    return {
        "search": ranking.trace.as_dict(),
        "hits": [
            {
                "id": hit.passage.id,
                "document": hit.passage.document,
                "title": hit.passage.doc_title,
                "text": hit.passage.text[:_SNIPPET_CHARACTERS],
                "score": rounded(hit.scores.final),
                "vector": rounded(hit.scores.vector),
                "keyword": rounded(hit.scores.keyword),
                "right": grades.get(hit.passage.document, 0) > 0,
            }
            for hit in ranking.hits[:_TRACED_HITS]
        ],
        "selected": {s.id: s.tokens for s in context.trace.selected},
        "dropped": {d.id: d.reason.value for d in context.trace.dropped},
        "tokens": context.tokens,
    }

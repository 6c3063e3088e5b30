"""What a context is worth: whether it holds the answer, and what else it holds.

Each question is put to every variant in turn, at every budget, as ``Library.context`` is
called; the differences are then paired, and a slow moment of the machine meets them all.
"""

from __future__ import annotations

import re
import string
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packwise.context.quality import STUB_WORDS, words
from packwise.context.reading import shingle_hashes
from packwise.errors import DataError
from packwise.evaluation.compare import Contrast, contrasts
from packwise.evaluation.data import DataSet, Half, Question
from packwise.evaluation.metrics import Metric, mean
from packwise.evaluation.runner import WARM_UP, Latency

if TYPE_CHECKING:
    from packwise.context.packer import Context, PackedPassage
    from packwise.library import Library
    from packwise.settings import Settings

BASELINE, SEED, DEFAULT = "baseline", "seed", "default"
CONTEXT_VARIANTS = (BASELINE, SEED, DEFAULT)

ANSWER_RECALL = "answer_recall"
GOLD_RECALL = "gold_recall"
GARBAGE = "garbage_fraction"
REDUNDANCY = "redundancy_ratio"
NOISE = "context_noise"
TOKENS = "context_tokens"
MEASURED = (ANSWER_RECALL, GOLD_RECALL, GARBAGE, REDUNDANCY, NOISE, TOKENS)
"""In the order in which they are shown."""

# The answer is the question's own yes or no: no text holds it, or nearly every text does.
_NOT_IN_TEXTS = frozenset({"yes", "no", "noanswer"})
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARKER = re.compile(r"^\[\d+\] ", re.MULTILINE)


def settings_of(variant: str, settings: Settings) -> Settings:
    """The settings a variant runs with.

    ``baseline`` is what the systems before did: fixed weights, nothing after fusion, four
    characters taken for a token, repetitions and all, cut at the end. ``seed`` is the
    default search with the specification's packing. No variant remembers searches.
    """
    if variant == BASELINE:
        return settings.override(
            vector_weight=0.7,
            keyword_weight=0.3,
            fusion="weighted",
            query_adaptive_weights=False,
            graph_ranking="off",
            reranker="off",
            packing_policy="baseline",
            query_cache=0,
        )
    policy = "seed" if variant == SEED else settings.packing_policy
    return settings.override(packing_policy=policy, query_cache=0)


@dataclass(frozen=True, slots=True)
class ContextEvaluation:
    """What one variant's contexts were worth, by metric and question.

    Metrics go by budget (``answer_recall@500``) and, with 0 for the budget, as the mean over
    all of them. ``latency`` is that of a whole call, by budget.
    """

    dataset: str
    split: str
    half: Half | None
    variant: str
    questions: int
    scores: Mapping[Metric, Mapping[str, float]]
    latency: Mapping[int, Latency]

    def value(self, metric: Metric) -> float:
        """The metric's mean over the questions."""
        return mean(self.scores[metric].values())


@dataclass(frozen=True, slots=True)
class ContextResults:
    """One data set: what each variant's contexts are worth, and how they differ."""

    budgets: tuple[int, ...]
    evaluations: tuple[ContextEvaluation, ...]
    contrasts: tuple[Contrast, ...] = ()

    def contrast(self, metric: Metric, other: str) -> Contrast | None:
        """The default's difference from another variant."""
        return next((c for c in self.contrasts if c.metric == metric and c.b == other), None)


def compare_contexts(
    dataset: DataSet,
    store: str,
    variants: Sequence[str],
    budgets: Sequence[int],
    settings: Settings,
    *,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> ContextResults:
    """Run the variants on one store; the default is compared with each other one."""
    from packwise.library import open_library

    with ExitStack() as opened:
        libraries = {
            name: opened.enter_context(open_library(store, settings=settings_of(name, settings)))
            for name in variants
        }
        evaluations = run_contexts(dataset, libraries, budgets, limit=limit, progress=progress)
    reference = DEFAULT if DEFAULT in variants else variants[-1]
    compared = contrasts(evaluations, reference, tuple(evaluations[0].scores))
    return ContextResults(tuple(budgets), evaluations, compared)


def normalised(text: str) -> str:
    """A text as SQuAD compares it: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def gold_answers(question: Question) -> tuple[str, ...]:
    """The normalised answers that a text can hold."""
    found = dict.fromkeys(map(normalised, question.answers))
    return tuple(answer for answer in found if answer and answer not in _NOT_IN_TEXTS)


def holds(text: str, answers: Sequence[str]) -> bool:
    """Whether a text holds one of the normalised answers, as whole words."""
    padded = f" {normalised(text)} "
    return any(f" {answer} " in padded for answer in answers)


def measure(context: Context, question: Question, grades: Mapping[str, int]) -> dict[str, float]:
    """What one context is worth. Answer recall is there only for questions whose answer a
    text can hold."""
    answers = gold_answers(question)
    answering = {p.marker for p in context.passages if holds(_told(p), answers)}
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
    shingles = [shingle_hashes(words(passage.text)) for passage in context.passages]
    distinct = len(frozenset[int]().union(*shingles))
    stubs = sum(len(words(passage.text)) < STUB_WORDS for passage in context.passages)
    found = {
        GOLD_RECALL: float(gold),
        GARBAGE: 1.0 - good / tokens if tokens else 0.0,
        REDUNDANCY: sum(map(len, shingles)) / distinct if distinct else 1.0,
        NOISE: stubs / len(context.passages) if context.passages else 0.0,
        TOKENS: float(context.tokens),
    }
    if question.answerable and answers:
        # Markers are no part of any answer; titles may be.
        found[ANSWER_RECALL] = float(holds(_MARKER.sub("", context.text), answers))
    return found


def run_contexts(
    dataset: DataSet,
    libraries: Mapping[str, Library],
    budgets: Sequence[int],
    *,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[ContextEvaluation, ...]:
    """Ask each variant's library for contexts and measure them.

    Questions that are not answerable are left out: there is nothing their context should
    hold. Raises ``DataError`` when none is left.
    """
    questions = [q for q in dataset.judged if q.answerable][:limit]
    if not questions:
        raise DataError(
            f"{dataset.name} has no judged questions that can be answered",
            fix="choose another split or leave --half out",
        )
    scores: dict[str, dict[Metric, dict[str, float]]] = {name: {} for name in libraries}
    took: dict[str, dict[int, list[float]]] = {name: {} for name in libraries}
    for library in libraries.values():
        library.context(WARM_UP, max(budgets))
    for budget in budgets:
        for question in questions:
            for name, library in libraries.items():
                started = time.perf_counter()
                context = library.context(question.text, budget)
                ms = (time.perf_counter() - started) * 1000.0
                took[name].setdefault(budget, []).append(ms)
                found = measure(context, question, dataset.relevant[question.id])
                for formula, value in found.items():
                    scores[name].setdefault(Metric(formula, budget), {})[question.id] = value
            if progress:
                progress(1)
    return tuple(
        ContextEvaluation(
            dataset=dataset.name,
            split=dataset.split,
            half=dataset.half,
            variant=name,
            questions=len(questions),
            scores=_with_means(scores[name], budgets),
            latency={budget: Latency.of(ms) for budget, ms in took[name].items()},
        )
        for name in libraries
    )


def _with_means(
    scores: Mapping[Metric, Mapping[str, float]], budgets: Sequence[int]
) -> dict[Metric, Mapping[str, float]]:
    """The scores in the order they are shown, each formula's mean over the budgets last."""
    ordered: dict[Metric, Mapping[str, float]] = {}
    for formula in MEASURED:
        own = [Metric(formula, b) for b in budgets if Metric(formula, b) in scores]
        ordered.update((metric, scores[metric]) for metric in own)
        if own and formula in (GARBAGE, REDUNDANCY, NOISE):
            ordered[Metric(formula, 0)] = {
                question: mean(scores[metric][question] for metric in own)
                for question in scores[own[0]]
            }
    return ordered


def _told(passage: PackedPassage) -> str:
    return " ".join((passage.title, *passage.section_path, passage.text))

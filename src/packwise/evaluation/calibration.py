"""Fitting a confidence: the probability that the context holds the answer.

Every question is searched and packed as it would be to answer it; whether the context holds
the answer is what the probability is fitted to, on the signs of the result list
(``retrieval/calibration.py``). The error that is reported is that on questions the fit has
not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from packwise.documents import content_hash
from packwise.errors import DataError
from packwise.evaluation.calibration_metrics import (
    Assessment,
    Point,
    answer_from,
    assess,
    auroc,
    refuse_below,
)
from packwise.evaluation.contexts import gold_answers, holds
from packwise.evaluation.data import DataSet, Question
from packwise.retrieval.calibration import CROSS, SIGNS, Calibration, LogisticModel, Signs, signs

if TYPE_CHECKING:
    from packwise.candidates import Candidate
    from packwise.library import Library

Floats = NDArray[np.float64]

FOLDS = 5
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
LEAST = 30
"""Questions of each kind, with and without an answer, below which nothing is fitted."""
_LEAST_ABOVE = 20
RAW = ("similarity", "keyword", "held", "together")
"""Single scores that the calibrated one is compared with."""


@dataclass(frozen=True, slots=True)
class Example:
    """The signs of one question's result list, and whether its context held the answer.

    ``made`` marks a twin: the question of another example, its answer taken out of the list.
    """

    id: str
    signs: Signs
    right: bool
    answerable: bool
    made: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted calibration and how well it does on what it has not seen: ``assessment`` is
    over out-of-fold probabilities, ``raw`` holds the AUROC of single scores beside it.
    ``answered`` is what the threshold does: the share it answers, and wrongly."""

    calibration: Calibration
    assessment: Assessment
    answered: Point
    raw: Mapping[str, float]
    penalty: float
    probabilities: Mapping[str, float]


def gather(
    library: Library,
    dataset: DataSet,
    *,
    others: Sequence[Question] = (),
    limit: int | None = None,
    twins: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Example]:
    """The questions as examples. ``others`` are questions on other topics: the store cannot
    answer them. Questions nothing is known about are left out.

    With ``twins`` each question whose answer was found comes a second time, with the
    documents and passages that hold the answer taken out of its list: what a question looks
    like whose answer is missing, for sets in which every question has one.
    """
    examples: list[Example] = []
    known = [q for q in dataset.questions if _judged(q, dataset)]
    for question in known[:limit]:
        hits, found = _search(library, question.text)
        right = _holds_answer(library, question, dataset, hits)
        if found:
            examples.append(Example(question.id, found, right, question.answerable))
        if twins and right and found:
            twin = _twin(library, question, dataset, hits)
            if twin:
                examples.append(Example(question.id, twin, False, False, made=True))
        if progress:
            progress(1)
    for question in others:
        _, found = _search(library, question.text)
        if found:
            examples.append(Example(f"other:{question.id}", found, False, False))
        if progress:
            progress(1)
    return examples


def _judged(question: Question, dataset: DataSet) -> bool:
    if not question.answerable:
        return True
    grades = dataset.relevant.get(question.id, {})
    return bool(gold_answers(question)) or any(grade > 0 for grade in grades.values())


def _search(library: Library, text: str) -> tuple[tuple[Candidate, ...], dict[str, float]]:
    settings = library.settings
    most = settings.rerank_topk if settings.reranker != "off" else settings.context_candidates
    ranking = library.search(text, most)
    return ranking.hits, dict(ranking.signs)


def _holds_answer(
    library: Library, question: Question, dataset: DataSet, hits: Sequence[Candidate]
) -> bool:
    """Whether the context made of these hits holds an answer, or else a right passage."""
    from packwise.context.packer import pack

    if not question.answerable or not hits:
        return False
    context = pack(question.text, hits, store=library.store, settings=library.settings)
    answers = gold_answers(question)
    if answers:
        return holds(context.text, answers)
    grades = dataset.relevant.get(question.id, {})
    return any(grades.get(passage.document, 0) > 0 for passage in context.passages)


def _twin(
    library: Library, question: Question, dataset: DataSet, hits: Sequence[Candidate]
) -> dict[str, float]:
    from packwise.language.analyzer import terms

    grades = dataset.relevant.get(question.id, {})
    answers = gold_answers(question)
    rest = [
        hit
        for hit in hits
        if grades.get(hit.passage.document, 0) <= 0 and not holds(hit.passage.text, answers)
    ]
    statistics = library.store.term_statistics(list(dict.fromkeys(terms(question.text))))
    return signs(question.text, [hit.scores for hit in rest], rest, statistics)


def fit(
    examples: Sequence[Example],
    *,
    precision: float | None = None,
    prior: LogisticModel | None = None,
    facts: Mapping[str, Any] | None = None,
    embedder_version: str = "",
) -> Fit:
    """Fit a calibration, choosing the penalty by cross-validation.

    The penalty holds the weights near those of ``prior``, or else near zero: few questions
    move them little, many find their own.

    With ``precision`` the thresholds are those at which that share of the answered
    questions have their answer, and of the refused ones do not; else both are 0.5. Raises
    ``DataError`` on too few questions of a kind, or a precision that is out of reach.
    """
    right = [bool(example.right) for example in examples]
    for what, number in (("with", sum(right)), ("without", len(right) - sum(right))):
        if number < LEAST:
            raise DataError(
                f"{number} questions {what} their answer in the store are too few to "
                f"calibrate on: {LEAST} are needed",
                fix="add questions" if what == "with" else 'add questions with "answerable": false',
            )
    names = _weighed(examples)
    table = np.array([[example.signs[name] for name in names] for example in examples])
    truth = np.array(right, dtype=np.float64)
    folds = _folds(examples)
    scored = {
        penalty: _out_of_fold(names, table, truth, folds, penalty, prior) for penalty in PENALTIES
    }
    penalty = min(PENALTIES, key=lambda one: _log_loss(scored[one], truth))
    probabilities = scored[penalty].tolist()
    models = [_model(names, table, truth, penalty, prior)]
    if CROSS in names:
        # Searches without the cross-encoder still get a probability.
        kept = [i for i, name in enumerate(names) if name != CROSS]
        plain = tuple(names[i] for i in kept)
        models.append(_model(plain, table[:, kept], truth, penalty, prior))
    threshold = refuse = 0.5
    if precision is not None:
        point = answer_from(probabilities, right, precision, least=_LEAST_ABOVE)
        if point is None:
            best = max(
                (
                    b
                    for b in (
                        answer_from(probabilities, right, p / 100, least=_LEAST_ABOVE)
                        for p in range(50, 100)
                    )
                    if b
                ),
                key=lambda b: 1 - b.risk,
                default=None,
            )
            reached = f"; {1 - best.risk:.2f} is the highest" if best else ""
            raise DataError(
                f"no threshold reaches a precision of {precision} on these questions{reached}",
                fix="lower --precision or add questions",
            )
        threshold = point.threshold
        refuse = min(threshold, refuse_below(probabilities, right, precision, least=_LEAST_ABOVE))
    assessment = assess(probabilities, right)
    answered = _answered(probabilities, right, threshold)
    raw = {
        name: auroc([e.signs[name] for e in examples], right)
        for name in (*RAW, CROSS)
        if name in names
    }
    stored = {
        **(facts or {}),
        "questions": len(examples),
        "answer_there": sum(right),
        "ece": round(assessment.ece, 4),
        "auroc": round(assessment.auroc, 4),
        "brier": round(assessment.brier, 4),
        "penalty": penalty,
        "precision": precision,
        "answered": round(answered.coverage, 4),
        "answered_wrongly": round(answered.risk, 4),
    }
    calibration = Calibration(
        models=tuple(models),
        threshold=threshold,
        refuse_below=refuse,
        embedder_version=embedder_version,
        facts=stored,
    )
    held_out = {
        f"{e.id}{'#twin' if e.made else ''}": p
        for e, p in zip(examples, probabilities, strict=True)
    }
    return Fit(calibration, assessment, answered, raw, penalty, held_out)


def _answered(probabilities: Sequence[float], right: Sequence[bool], threshold: float) -> Point:
    above = [there for p, there in zip(probabilities, right, strict=True) if p >= threshold]
    risk = 1.0 - sum(above) / len(above) if above else 0.0
    return Point(threshold, len(above) / len(right), risk)


def data_hash(examples: Sequence[Example]) -> str:
    """Names the questions and their outcomes: the same data gives the same hash."""
    return content_hash(*(f"{e.id}\t{int(e.right)}\t{int(e.made)}" for e in examples))


def logistic(
    table: Floats, truth: Floats, penalty: float, prior: Floats | None = None
) -> tuple[Floats, float]:
    """Weights and bias of a logistic regression with an L2 penalty on how far the weights are
    from ``prior`` (zero without one), by Newton's method on standardised columns."""
    columns = np.column_stack((np.ones(len(table)), table))
    ridge = np.full(columns.shape[1], penalty)
    ridge[0] = 0.0
    centre = np.zeros(columns.shape[1])
    if prior is not None:
        centre[1:] = prior
    found = centre.copy()

    def cost(at: Floats) -> float:
        logits = columns @ at
        # log(1 + e^x) - y x, without overflow.
        loss = np.logaddexp(0.0, logits) - truth * logits
        return float(loss.sum() + 0.5 * (ridge * (at - centre) ** 2).sum())

    for _ in range(100):
        p = _sigmoid(columns @ found)
        slope = columns.T @ (p - truth) + ridge * (found - centre)
        curve = (columns * (p * (1.0 - p) + 1e-12)[:, None]).T @ columns + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        # A full step may overshoot from far away: shorten it until it leads down.
        length, now = 1.0, cost(found)
        while length > 1e-6 and cost(found - length * step) > now:
            length /= 2.0
        found = found - length * step
        if float(np.abs(step).max()) < 1e-10:
            break
    return found[1:], float(found[0])


def _model(
    names: Sequence[str], table: Floats, truth: Floats, penalty: float, prior: LogisticModel | None
) -> LogisticModel:
    means, scales = table.mean(axis=0), table.std(axis=0)
    scales = np.where(scales > 1e-9, scales, 1.0)
    centre = _centre(names, scales, prior)
    weights, bias = logistic((table - means) / scales, truth, penalty, centre)
    return LogisticModel(
        signs=tuple(names),
        means=tuple(round(float(v), 6) for v in means),
        scales=tuple(round(float(v), 6) for v in scales),
        weights=tuple(round(float(v), 6) for v in weights),
        bias=round(bias, 6),
    )


def _out_of_fold(
    names: Sequence[str],
    table: Floats,
    truth: Floats,
    folds: NDArray[np.int64],
    penalty: float,
    prior: LogisticModel | None,
) -> Floats:
    found = np.zeros(len(truth))
    for fold in range(FOLDS):
        out = folds == fold
        kept = ~out
        means, scales = table[kept].mean(axis=0), table[kept].std(axis=0)
        scales = np.where(scales > 1e-9, scales, 1.0)
        centre = _centre(names, scales, prior)
        weights, bias = logistic((table[kept] - means) / scales, truth[kept], penalty, centre)
        found[out] = _sigmoid((table[out] - means) / scales @ weights + bias)
    return found


def _centre(names: Sequence[str], scales: Floats, prior: LogisticModel | None) -> Floats | None:
    """The prior's weights on other scales; a sign it does not know starts at zero."""
    if prior is None:
        return None
    known = {
        name: weight / scale
        for name, weight, scale in zip(prior.signs, prior.weights, prior.scales, strict=True)
    }
    return np.array([known.get(name, 0.0) for name in names]) * scales


def _folds(examples: Sequence[Example]) -> NDArray[np.int64]:
    """A fold for each example, by a hash of its question: twins stay together."""
    return np.array([int(content_hash(e.id)[:8], 16) % FOLDS for e in examples])


def _weighed(examples: Sequence[Example]) -> tuple[str, ...]:
    """The signs that every example has."""
    names = tuple(SIGNS)
    return (*names, CROSS) if all(CROSS in e.signs for e in examples) else names


def _log_loss(p: Floats, truth: Floats) -> float:
    safe = np.clip(p, 1e-12, 1.0 - 1e-12)
    return float(-np.mean(truth * np.log(safe) + (1.0 - truth) * np.log(1.0 - safe)))


def _sigmoid(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -500, 500)))

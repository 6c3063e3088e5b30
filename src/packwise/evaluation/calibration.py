"""Fitting a calibration: the probability that the context contains the answer.

Every question is searched and packed as if to answer it. The probability is fitted to whether
the context contains the answer, from the signs of the result list
(``retrieval/calibration.py``). The reported error is that on questions the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from packwise.documents import content_hash
from packwise.errors import DataError
from packwise.evaluation.calibration_metrics import (
    Assessment,
    RiskPoint,
    answer_from,
    assess,
    auroc,
    refuse_below,
    risk_coverage,
)
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.feedback import answer_key
from packwise.evaluation.metrics import Grades, gold_answers, holds
from packwise.retrieval.calibration import CROSS, SIGNS, Calibration, LogisticModel, Signs, signs
from packwise.stores.languages import language_of, question_terms

if TYPE_CHECKING:
    from packwise.candidates import Candidate
    from packwise.library import Library

Floats = NDArray[np.float64]

SINGLE_SCORES = ("similarity", "keyword", "held", "together")
"""Scores that the calibrated probability is compared with."""
_FOLDS = 5
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_LEAST = 30
"""Questions needed of each kind: with and without an answer."""
_LEAST_ABOVE = 20
"""Questions that must be left on either side of a threshold."""


@dataclass(frozen=True, slots=True)
class CalibrationExample:
    """The signs of one question's result list, and whether its context has the answer.

    ``made`` marks a twin: the same question with its answer removed from the list.
    """

    id: str
    signs: Signs
    right: bool
    made: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted calibration and how good it is on unseen questions.

    ``assessment`` is of the out-of-fold ``probabilities``, one per example; ``raw`` has the
    AUROC of single scores. ``answered`` is the effect of the threshold.
    """

    calibration: Calibration
    assessment: Assessment
    answered: RiskPoint
    raw: Mapping[str, float]
    probabilities: Sequence[float]


def gather(
    library: Library,
    dataset: DataSet,
    *,
    others: Sequence[Question] = (),
    limit: int | None = None,
    twins: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[CalibrationExample]:
    """Search for the questions and make an example of each. ``others`` are questions on other
    topics, which the store cannot answer. Questions without answers or judgements are left out.

    With ``twins``, each question whose answer was found comes a second time without the
    documents and passages that have the answer. It shows what a missing answer looks like, for
    data sets in which every question has one.
    """
    settings = library.settings
    most = settings.rerank_topk if settings.reranker != "off" else settings.context_candidates
    grades = {q.id: dataset.relevant.get(q.id, {}) for q in dataset.questions}
    known = [
        q
        for q in dataset.questions
        if not q.answerable or gold_answers(q) or any(g > 0 for g in grades[q.id].values())
    ]
    asked = [(q.id, q) for q in known[:limit]]
    asked += [(f"other:{q.id}", replace(q, answerable=False)) for q in others]
    examples: list[CalibrationExample] = []
    for name, question in asked:
        ranking = library.search(question.text, most, depth=settings.context_depth)
        if ranking.signs:
            own = grades[name] if question.answerable else {}
            right = _has_answer(library, question, own, ranking.hits)
            examples.append(CalibrationExample(name, dict(ranking.signs), right))
            twin = _twin(library, question, own, ranking.hits) if twins and right else None
            if twin:
                examples.append(CalibrationExample(name, twin, False, made=True))
        if progress:
            progress(1)
    return examples


def _has_answer(
    library: Library, question: Question, grades: Grades, hits: Sequence[Candidate]
) -> bool:
    """Whether the context has an answer or, if none is known, a relevant passage."""
    from packwise.context.packer import pack

    if not question.answerable or not hits:
        return False
    context = pack(question.text, hits, store=library.store, settings=library.settings)
    answers = gold_answers(question)
    if answers:
        return holds(context.text, answers)
    return any(grades.get(passage.document, 0) > 0 for passage in context.passages)


def _twin(
    library: Library, question: Question, grades: Grades, hits: Sequence[Candidate]
) -> dict[str, float]:
    answers = gold_answers(question)
    rest = [
        hit
        for hit in hits
        if grades.get(hit.passage.document, 0) <= 0 and not holds(hit.passage.text, answers)
    ]
    statistics = library.store.term_statistics(question_terms(question.text, library.store))
    lang = language_of(question.text, library.store)
    return signs(question.text, [hit.scores for hit in rest], rest, statistics, lang)


def fit(
    examples: Sequence[CalibrationExample],
    *,
    precision: float | None = None,
    prior: LogisticModel | None = None,
    facts: Mapping[str, Any] | None = None,
    embedder_version: str = "",
) -> Fit:
    """Fit a calibration; the penalty is chosen by cross-validation.

    The penalty pulls the weights towards those of ``prior``, or towards zero: the fewer the
    questions, the more.

    With ``precision``, the thresholds are those at which this share of the answered questions
    have their answer, and of the refused ones do not; otherwise both are 0.5. Raises
    ``DataError`` on too few questions of a kind or an unattainable precision.
    """
    right = [bool(example.right) for example in examples]
    for what, number in (("with", sum(right)), ("without", len(right) - sum(right))):
        if number < _LEAST:
            raise DataError(
                f"{number} questions {what} their answer in the store are too few to "
                f"calibrate on: {_LEAST} are needed",
                fix="add questions" if what == "with" else 'add questions with "answerable": false',
            )
    names = (*SIGNS, CROSS) if all(CROSS in e.signs for e in examples) else tuple(SIGNS)
    table = np.array([[example.signs[name] for name in names] for example in examples])
    truth = np.array(right, dtype=np.float64)
    folds = _folds(examples)
    scored = {
        penalty: _out_of_fold(names, table, truth, folds, penalty, prior) for penalty in _PENALTIES
    }
    penalty = min(_PENALTIES, key=lambda one: _log_loss(scored[one], truth))
    probabilities = scored[penalty].tolist()
    models = [_model(names, table, truth, penalty, prior)]
    gated = probabilities
    if CROSS in names:
        # Searches without the cross-encoder get a probability too. The gate uses it: it decides
        # before the cross-encoder runs.
        plain = len(SIGNS)
        models.append(_model(names[:plain], table[:, :plain], truth, penalty, prior))
        without = _out_of_fold(names[:plain], table[:, :plain], truth, folds, penalty, prior)
        gated = without.tolist()
    threshold, refuse = _thresholds(gated, right, precision)
    assessment = assess(probabilities, right)
    above = [there for p, there in zip(gated, right, strict=True) if p >= threshold]
    answered = RiskPoint(
        threshold, len(above) / len(right), 1.0 - sum(above) / len(above) if above else 0.0
    )
    calibration = Calibration(
        models=tuple(models),
        threshold=threshold,
        refuse_below=refuse,
        embedder_version=embedder_version,
        facts={
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
        },
    )
    raw = {
        name: auroc([e.signs[name] for e in examples], right)
        for name in (*SINGLE_SCORES, CROSS)
        if name in names
    }
    return Fit(calibration, assessment, answered, raw, probabilities)


def gather_answers(
    library: Library, dataset: DataSet, *, limit: int | None = None
) -> list[tuple[float, bool]]:
    """For each question whose answers are known or judged, or that has none: how likely the
    answer without a language model is right before any correction, and whether it is."""
    found: list[tuple[float, bool]] = []
    for question in dataset.questions[:limit]:
        golds = gold_answers(question)
        if question.answerable and not golds and not question.verdicts:
            continue
        answer = library.ask(question.text, synthesis=False, threshold=0.0)
        stages = answer.trace.stages if answer.trace else ()
        notes = [stage.notes for stage in stages if stage.name == "extract"]
        right = question.verdicts.get(answer_key(answer.text))
        if right is None and (golds or not question.answerable):
            right = question.answerable and holds(answer.text, golds)
        if notes and right is not None:
            found.append((float(notes[0]["probability"]), right))
    return found


def fit_answers(calibration: Calibration, answers: Sequence[tuple[float, bool]]) -> Calibration:
    """The calibration with the correction that makes the probabilities of answers true. With
    too few right or wrong answers it stays as it is."""
    right = [is_right for _, is_right in answers]
    if min(sum(right), len(right) - sum(right)) < _LEAST:
        return calibration
    chances = np.clip(np.array([chance for chance, _ in answers]), 1e-4, 1 - 1e-4)
    odds = np.log(chances / (1 - chances))
    weights, shift = logistic(odds[:, None], np.array(right, dtype=float), 1.0, np.ones(1))
    corrected = replace(
        calibration, answer_scale=round(float(weights[0]), 4), answer_shift=round(shift, 4)
    )
    after = [corrected.answer_probability(chance) for chance in chances.tolist()]
    facts = {
        **calibration.facts,
        "answers": len(answers),
        "answers_right": sum(right),
        "answer_ece_before": round(assess(chances.tolist(), right).ece, 4),
        "answer_ece": round(assess(after, right).ece, 4),
    }
    return replace(corrected, facts=facts)


def _thresholds(
    probabilities: Sequence[float], right: Sequence[bool], precision: float | None
) -> tuple[float, float]:
    """From where on to answer, and below what to refuse."""
    if precision is None:
        return 0.5, 0.5
    point = answer_from(probabilities, right, precision, least=_LEAST_ABOVE)
    if point is None:
        reached = [
            1 - point.risk
            for point in risk_coverage(probabilities, right)
            if round(point.coverage * len(right)) >= _LEAST_ABOVE
        ]
        highest = f"; {max(reached):.2f} is the highest" if reached else ""
        raise DataError(
            f"no threshold reaches a precision of {precision} on these questions{highest}",
            fix="lower --precision or add questions",
        )
    refuse = refuse_below(probabilities, right, precision, least=_LEAST_ABOVE)
    return point.threshold, min(point.threshold, refuse)


def data_hash(examples: Sequence[CalibrationExample]) -> str:
    """A hash of the questions and their outcomes."""
    return content_hash(*(f"{e.id}\t{int(e.right)}\t{int(e.made)}" for e in examples))


def logistic(
    table: Floats, truth: Floats, penalty: float, prior: Floats | None = None
) -> tuple[Floats, float]:
    """Weights and bias of a logistic regression with an L2 penalty on the distance of the
    weights from ``prior`` (default zero), by Newton's method on standardised columns."""
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
        # A full step may overshoot from far away: shorten it until the cost falls.
        length, now = 1.0, cost(found)
        while length > 1e-6 and cost(found - length * step) > now:
            length /= 2.0
        found = found - length * step
        if float(np.abs(step).max()) < 1e-10:
            break
    return found[1:], float(found[0])


def _regression(
    names: Sequence[str], table: Floats, truth: Floats, penalty: float, prior: LogisticModel | None
) -> tuple[Floats, Floats, Floats, float]:
    """Means, scales, weights and bias. A sign that the prior lacks is pulled towards zero."""
    means, scales = table.mean(axis=0), table.std(axis=0)
    scales = np.where(scales > 1e-9, scales, 1.0)
    centre = None
    if prior is not None:
        known = {
            name: weight / scale
            for name, weight, scale in zip(prior.signs, prior.weights, prior.scales, strict=True)
        }
        centre = np.array([known.get(name, 0.0) for name in names]) * scales
    weights, bias = logistic((table - means) / scales, truth, penalty, centre)
    return means, scales, weights, bias


def _model(
    names: Sequence[str], table: Floats, truth: Floats, penalty: float, prior: LogisticModel | None
) -> LogisticModel:
    *found, bias = _regression(names, table, truth, penalty, prior)
    means, scales, weights = (tuple(round(float(v), 6) for v in values) for values in found)
    return LogisticModel(tuple(names), means, scales, weights, round(bias, 6))


def _out_of_fold(
    names: Sequence[str],
    table: Floats,
    truth: Floats,
    folds: NDArray[np.int64],
    penalty: float,
    prior: LogisticModel | None,
) -> Floats:
    found = np.zeros(len(truth))
    for fold in range(_FOLDS):
        out = folds == fold
        means, scales, weights, bias = _regression(names, table[~out], truth[~out], penalty, prior)
        found[out] = _sigmoid((table[out] - means) / scales @ weights + bias)
    return found


def _folds(examples: Sequence[CalibrationExample]) -> NDArray[np.int64]:
    """A fold for each example, by a hash of its question: twins stay together."""
    return np.array([int(content_hash(e.id)[:8], 16) % _FOLDS for e in examples])


def _log_loss(p: Floats, truth: Floats) -> float:
    safe = np.clip(p, 1e-12, 1.0 - 1e-12)
    return float(-np.mean(truth * np.log(safe) + (1.0 - truth) * np.log(1.0 - safe)))


def _sigmoid(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -500, 500)))

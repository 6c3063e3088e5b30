"""Fitting: the regression finds what was planted, and says how far it can be trusted."""

import json
import random

import numpy as np
import pytest

from packwise.errors import DataError
from packwise.evaluation.calibration import (
    CalibrationExample,
    data_hash,
    fit,
    fit_answers,
    logistic,
)
from packwise.retrieval.calibration import CROSS, SIGNS, Calibration, default_calibration, parse


def made_up(number, seed=1, cross=False):
    """Examples whose truth depends on two signs only."""
    chance = random.Random(seed)
    found = []
    for i in range(number):
        signs = {name: chance.random() for name in SIGNS}
        if cross:
            signs[CROSS] = chance.random()
        logit = 6 * (signs["together"] - 0.5) - 6 * (signs["names_missing"] - 0.5)
        right = chance.random() < 1 / (1 + np.exp(-logit))
        found.append(CalibrationExample(f"q{i}", signs, right))
    return found


def test_the_regression_stands_where_its_slope_is_zero():
    chance = np.random.default_rng(3)
    table = chance.normal(size=(200, 4))
    truth = (table[:, 0] - table[:, 2] + chance.normal(size=200) > 0).astype(float)
    weights, bias = logistic(table, truth, 2.0)
    p = 1 / (1 + np.exp(-(table @ weights + bias)))
    assert table.T @ (p - truth) + 2.0 * weights == pytest.approx(np.zeros(4), abs=1e-6)
    assert (p - truth).sum() == pytest.approx(0, abs=1e-6)


def test_a_prior_holds_the_weights_until_the_data_speak():
    chance = np.random.default_rng(3)
    table = chance.normal(size=(60, 3))
    truth = (table[:, 0] + chance.normal(size=60) > 0).astype(float)
    prior = np.array([1.0, -2.0, 0.5])
    held, _ = logistic(table, truth, 1e6, prior)
    free, _ = logistic(table, truth, 1e-6, prior)
    alone, _ = logistic(table, truth, 1e-6)
    assert held == pytest.approx(prior, abs=1e-3)
    assert free == pytest.approx(alone, abs=1e-3)


def test_few_questions_do_better_with_a_prior_that_knows():
    prior = fit(made_up(1500)).calibration.models[0]
    few, rest = made_up(80, seed=9), made_up(800, seed=10)

    def loss(model):
        p = np.array([model.probability(e.signs) for e in rest])
        y = np.array([e.right for e in rest])
        return -np.mean(np.log(np.where(y, p, 1 - p)))

    with_prior, without = (fit(few, prior=p).calibration.models[0] for p in (prior, None))
    assert loss(with_prior) < loss(without)


def test_separable_data_does_not_blow_it_up():
    table = np.linspace(-1, 1, 60)[:, None]
    weights, bias = logistic(table, (table[:, 0] > 0).astype(float), 1.0)
    assert np.isfinite(weights).all()
    assert np.isfinite(bias)


def test_it_finds_the_signs_that_matter():
    found = fit(made_up(1500))
    model = found.calibration.models[0]
    weights = dict(zip(model.signs, model.weights, strict=True))
    assert max(weights, key=lambda name: weights[name]) == "together"
    assert min(weights, key=lambda name: weights[name]) == "names_missing"
    assert found.assessment.auroc > found.raw["together"] + 0.05
    assert found.assessment.ece < 0.05


def test_noise_gets_no_credit_out_of_fold():
    chance = random.Random(5)
    noise = [CalibrationExample(e.id, e.signs, chance.random() < 0.5) for e in made_up(600)]
    found = fit(noise)
    assert 0.42 < found.assessment.auroc < 0.58
    assert found.assessment.ece < 0.1


def test_twins_share_a_fold_so_the_fit_never_sees_a_question_it_is_judged_on():
    from packwise.evaluation.calibration import _folds

    pair = [
        CalibrationExample("same", {}, right=True),
        CalibrationExample("same", {}, False, made=True),
    ]
    first, second = _folds(pair)
    assert first == second


def test_a_wanted_precision_sets_two_thresholds_that_keep_it():
    examples = made_up(1500)
    found = fit(examples, precision=0.85)
    rows = list(zip(examples, found.probabilities, strict=True))
    answered = [e.right for e, p in rows if p >= found.calibration.threshold]
    refused = [e.right for e, p in rows if p < found.calibration.refuse_below]
    assert sum(answered) / len(answered) >= 0.85
    assert 1 - sum(refused) / len(refused) >= 0.85
    assert found.calibration.refuse_below <= found.calibration.threshold


def test_a_precision_out_of_reach_is_said_with_what_is_in_reach():
    chance = random.Random(5)
    noise = [CalibrationExample(e.id, e.signs, chance.random() < 0.5) for e in made_up(400)]
    with pytest.raises(DataError, match=r"no threshold reaches .* 0.99"):
        fit(noise, precision=0.99)


@pytest.mark.parametrize(("right", "what"), [(True, "without"), (False, "with")])
def test_too_few_questions_of_a_kind_are_refused(right, what):
    examples = [CalibrationExample(e.id, e.signs, right) for e in made_up(100)]
    with pytest.raises(DataError, match=f"0 questions {what} their answer .* too few"):
        fit(examples)


def test_with_a_cross_encoder_searches_without_it_still_get_a_probability():
    calibration = fit(made_up(300, cross=True)).calibration
    signs = dict(made_up(1)[0].signs)
    assert CROSS in calibration.models[0].signs
    assert CROSS not in calibration.models[1].signs
    assert calibration.probability(signs) == calibration.models[1].probability(signs)
    assert calibration.probability({}) is None


def test_a_calibration_comes_back_from_its_file_as_it_was():
    calibration = fit(made_up(200), facts={"date": "2026-01-01", "data": "mine"}).calibration
    back = parse(json.loads(json.dumps(calibration.as_dict())), "x.json")
    assert isinstance(back, Calibration)
    assert back == calibration
    assert back.facts["data"] == "mine"


def test_the_data_hash_names_questions_and_outcomes():
    examples = made_up(50)
    assert data_hash(examples) == data_hash(made_up(50))
    flipped = [CalibrationExample(e.id, e.signs, not e.right) for e in examples]
    assert data_hash(examples) != data_hash(flipped)


def test_the_probability_of_answers_is_corrected_by_which_were_right():
    # Answers called 90% right of which half are: the correction says so.
    answers = [(0.9, n % 2 == 0) for n in range(200)] + [(0.2, n % 10 == 0) for n in range(200)]
    corrected = fit_answers(default_calibration(), answers)
    assert corrected.answer_probability(0.9) == pytest.approx(0.5, abs=0.03)
    assert corrected.answer_probability(0.2) == pytest.approx(0.1, abs=0.03)
    assert corrected.facts["answer_ece"] < 0.03 < corrected.facts["answer_ece_before"]
    stored = parse(json.loads(json.dumps(corrected.as_dict())), "calibration.json")
    assert stored.answer_probability(0.9) == corrected.answer_probability(0.9)


def test_too_few_answers_correct_nothing():
    few = [(0.9, n < 29) for n in range(100)]
    assert fit_answers(default_calibration(), few) == default_calibration()
    assert default_calibration().answer_probability(0.42) == 0.42

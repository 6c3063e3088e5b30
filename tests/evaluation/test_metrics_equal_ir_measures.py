"""Every metric is what ir_measures (trec_eval) makes of the same ranking."""

from __future__ import annotations

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.evaluation.metrics import (
    STANDARD,
    Metric,
    fold_to_documents,
    mean,
    mrr,
    ndcg,
    precision,
    recall,
)

ORACLES = {
    "ndcg": ir_measures.nDCG,
    "recall": ir_measures.R,
    "precision": ir_measures.P,
    "mrr": ir_measures.RR,
}
METRICS = (*STANDARD, *(Metric(formula, k) for formula in ORACLES for k in (1, 3)))

Judgements = dict[str, dict[str, int]]
Rankings = dict[str, tuple[str, ...]]


def oracle(metrics: tuple[Metric, ...], relevant: Judgements, rankings: Rankings):
    measures = {ORACLES[m.formula] @ m.k: m for m in metrics}
    qrels = [
        ir_measures.Qrel(q, d, grade)
        for q, grades in relevant.items()
        for d, grade in grades.items()
    ]
    run = [
        ir_measures.ScoredDoc(q, d, float(len(ranking) - i))
        for q, ranking in rankings.items()
        for i, d in enumerate(ranking)
    ]
    evaluator = ir_measures.evaluator(list(measures), qrels)
    each = {(measures[m.measure], m.query_id): m.value for m in evaluator.iter_calc(run)}
    means = {measures[m]: value for m, value in evaluator.calc_aggregate(run).items()}
    return each, means


def assert_equal_to_oracle(relevant: Judgements, rankings: Rankings) -> None:
    each, means = oracle(METRICS, relevant, rankings)
    for metric in METRICS:
        # A question that was not ranked scores 0.
        ours = {q: metric.score(rankings.get(q, ()), grades) for q, grades in relevant.items()}
        for question, value in ours.items():
            assert value == pytest.approx(each[metric, question], abs=1e-9), (metric, question)
        assert mean(ours.values()) == pytest.approx(means[metric], abs=1e-9), metric


def test_equal_to_ir_measures_on_graded_binary_missing_and_unjudged():
    relevant = {
        "graded": {"a": 3, "b": 1, "c": 2, "d": 0, "e": -1},
        "binary": {"x": 1, "y": 1},
        "never ranked": {"a": 1},
        "nothing relevant": {"a": 0, "b": -2},
        "many": {f"m{i}": 1 for i in range(150)},
    }
    rankings = {
        "graded": ("e", "b", "z", "a", "d", "c"),
        "binary": ("p", "q", "r", "y"),
        "nothing relevant": ("a", "b"),
        "many": tuple(f"m{i}" if i % 3 else f"n{i}" for i in range(120)),
        "unjudged": ("a", "b"),
    }
    assert_equal_to_oracle(relevant, rankings)


documents = st.sampled_from([f"d{i}" for i in range(14)])
questions = st.sampled_from(["q1", "q2", "q3"])


@settings(max_examples=60, deadline=None)
@given(
    relevant=st.dictionaries(
        questions, st.dictionaries(documents, st.integers(-1, 4), min_size=1), min_size=1
    ),
    rankings=st.dictionaries(
        questions, st.lists(documents, unique=True, min_size=1).map(tuple), min_size=1
    ),
)
def test_equal_to_ir_measures_whatever_is_judged_and_ranked(relevant, rankings):
    assert_equal_to_oracle(relevant, rankings)


def test_values_that_can_be_checked_by_hand():
    grades = {"a": 2, "b": 1}
    assert ndcg(("b", "a"), grades, 10) == pytest.approx((1 + 2 / 1.5849625) / (2 + 1 / 1.5849625))
    assert recall(("x", "a"), grades, 2) == 0.5
    assert recall(("x", "a"), grades, 1) == 0.0
    assert precision(("a",), grades, 10) == 0.1
    assert mrr(("x", "y", "b"), grades, 10) == pytest.approx(1 / 3)
    assert mrr(("x", "y", "b"), grades, 2) == 0.0


def test_documents_stand_where_their_best_passage_stands():
    assert fold_to_documents(["b", "a", "b", "c", "a"]) == ("b", "a", "c")
    assert fold_to_documents([]) == ()


@settings(max_examples=50, deadline=None)
@given(st.lists(documents))
def test_folding_keeps_each_document_once_in_order_of_first_sight(passages):
    folded = fold_to_documents(passages)
    assert sorted(folded) == sorted(set(passages))
    assert [passages.index(d) for d in folded] == sorted(passages.index(d) for d in folded)
    assert fold_to_documents(folded) == folded


def test_a_metric_is_written_with_its_cut_off():
    assert [str(metric) for metric in STANDARD] == [
        "ndcg@10",
        "recall@2",
        "recall@5",
        "recall@10",
        "recall@100",
        "precision@10",
        "mrr@10",
    ]

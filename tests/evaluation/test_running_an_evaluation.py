"""The runner: depth, warm-up, limits, latency and what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from packwise.errors import DataError
from packwise.evaluation import runner
from packwise.evaluation.compare import contrasts
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.metrics import HEADLINE, Metric
from packwise.evaluation.runner import WARM_UP, Latency, Ranked, run

# Passages by document, three to a document, so that folding matters.
TEXTS = {
    "tea": ["tea is a drink", "green tea from leaves", "tea has caffeine"],
    "coffee": ["coffee is a drink", "beans make coffee", "coffee has caffeine"],
    "water": ["water is a drink", "rain is water", "ice is water"],
}
PASSAGES = [(document, text) for document, texts in TEXTS.items() for text in texts]


def overlap(question: str, k: int) -> Ranked:
    """Ranks passages by the number of shared words; finds those that share one."""
    words = set(question.lower().split())
    scored = [(len(words & set(text.split())), i) for i, (_, text) in enumerate(PASSAGES)]
    best = sorted((-score, i) for score, i in scored if score)
    return Ranked(tuple(PASSAGES[i][0] for _, i in best[:k]))


class Recorder:
    """Passes questions on and remembers them."""

    def __init__(self, ranker=overlap):
        self.ranker = ranker
        self.calls: list[tuple[str, int]] = []

    def __call__(self, question: str, k: int) -> Ranked:
        self.calls.append((question, k))
        return self.ranker(question, k)


class Clock:
    """Stands in for ``time``: nothing takes any time but what is said to take it."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def takes(self, ms: float) -> None:
        self.now += ms / 1000


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(runner, "time", made)
    return made


@pytest.fixture
def dataset():
    questions = (
        Question("1", "green leaves"),
        Question("2", "caffeine drink"),
        Question("3", "who built the pyramids", answerable=False),
        Question("4", "rain"),
    )
    relevant = {"1": {"tea": 1}, "2": {"coffee": 2, "tea": 1}, "4": {"coffee": 1}}
    return DataSet("drinks", Path("drinks"), "test", questions, relevant)


def test_metrics_are_means_over_the_judged_questions(dataset):
    result = run(dataset, overlap, variant="overlap")
    assert (result.dataset, result.variant, result.split) == ("drinks", "overlap", "test")
    assert (result.questions, result.unjudged) == (3, 1)
    assert result.rankings["1"] == ("tea",)
    assert result.rankings["4"] == ("water",)
    assert result.scores[Metric("mrr", 10)] == {"1": 1.0, "2": 1.0, "4": 0.0}
    assert result.value(Metric("mrr", 10)) == pytest.approx(2 / 3)
    assert result.value(Metric("recall", 2)) == pytest.approx(2 / 3)


def test_each_question_is_asked_alone_after_a_warm_up(dataset):
    ranker = Recorder()
    run(dataset, ranker, depth=1)
    assert ranker.calls == [
        (WARM_UP, 1),
        ("green leaves", 1),
        ("caffeine drink", 1),
        ("rain", 1),
    ]


def test_the_warm_up_is_not_measured(dataset, clock):
    def slow_start(question: str, k: int) -> Ranked:
        clock.takes(250 if question == WARM_UP else 20)
        return Ranked(("tea",))

    assert run(dataset, slow_start, depth=1).latency.p99 == pytest.approx(20)


def test_limit_takes_the_first_judged_questions(dataset):
    assert list(run(dataset, overlap, limit=2).rankings) == ["1", "2"]


def test_progress_counts_the_questions(dataset):
    done: list[int] = []
    run(dataset, overlap, progress=done.append)
    assert sum(done) == 3


def test_without_judged_questions_there_is_nothing_to_measure(dataset):
    unjudged = DataSet("none", Path("none"), "test", dataset.questions, {}, half="tune")
    with pytest.raises(DataError, match="no judged questions in split 'test', half 'tune'"):
        run(unjudged, overlap)


def many_passages(question: str, k: int) -> Ranked:
    """Ten documents of seven passages each, document by document."""
    return Ranked(tuple(f"d{i // 7}" for i in range(70))[:k])


def test_search_goes_deeper_until_enough_documents_are_found(dataset):
    ranker = Recorder(many_passages)
    result = run(dataset, ranker, depth=8, limit=1)
    assert result.rankings["1"] == tuple(f"d{i}" for i in range(8))
    assert [k for _, k in ranker.calls] == [8, 8, 16, 32, 64]


def test_search_stops_when_deeper_finds_no_more(dataset):
    ranker = Recorder(many_passages)
    result = run(dataset, ranker, depth=40, limit=1)
    assert len(result.rankings["1"]) == 10
    assert [k for _, k in ranker.calls] == [40, 40, 80, 160]


def test_a_result_cleared_of_repeated_texts_is_not_taken_for_exhausted(dataset):
    def repeating(question: str, k: int) -> Ranked:
        # Every fifth passage repeats a text and is left out: fewer than asked come back.
        return Ranked(tuple(f"d{i // 2}" for i in range(min(k, 60)) if i % 5))

    assert len(run(dataset, repeating, depth=20, limit=1).rankings["1"]) == 20


def test_no_more_than_a_thousand_passages_are_asked_for(dataset):
    ranker = Recorder(lambda question, k: Ranked(("only one",) * k))
    result = run(dataset, ranker, depth=100, limit=1)
    assert result.rankings["1"] == ("only one",)
    assert [k for _, k in ranker.calls][1:] == [100, 200, 400, 800, 1000]


def test_the_measured_search_heads_the_ranking(dataset):
    def reordering(question: str, k: int) -> Ranked:
        # Deeper candidate pools may reorder what is on top.
        return Ranked(("a", "a", "b") if k == 3 else ("c", "b", "a", "d"))

    assert run(dataset, reordering, depth=3, limit=1).rankings["1"] == ("a", "b", "c")


def test_an_empty_result_is_asked_for_once(dataset):
    ranker = Recorder(lambda question, k: Ranked(()))
    result = run(dataset, ranker, limit=1)
    assert result.rankings["1"] == ()
    assert result.value(HEADLINE) == 0.0
    assert len(ranker.calls) == 2


def test_latency_is_by_stage_and_with_and_without_embedding(dataset, clock):
    def timed(question: str, k: int) -> Ranked:
        clock.takes(20)
        return Ranked(("tea",), {"embed": 15.0, "vector": 1.0, "fusion": 0.5})

    result = run(dataset, timed, depth=1)
    assert result.latency.p50 == pytest.approx(20)
    assert result.latency_without_embedding.p50 == pytest.approx(5)
    assert result.stages == {
        "embed": Latency(15.0, 15.0, 15.0),
        "vector": Latency(1.0, 1.0, 1.0),
        "fusion": Latency(0.5, 0.5, 0.5),
    }


def test_a_leg_hidden_behind_the_embedding_is_not_free(dataset, clock):
    def overlapping(question: str, k: int) -> Ranked:
        clock.takes(10)
        return Ranked(("tea",), {"embed": 10.0, "keyword": 9.0, "vector": 4.0})

    assert run(dataset, overlapping, depth=1).latency_without_embedding.p50 == 13.0


def test_percentiles_are_interpolated():
    latency = Latency.of([float(i) for i in range(101)])
    assert (latency.p50, latency.p95, latency.p99) == (50.0, 95.0, 99.0)
    assert Latency.of([7.0]) == Latency(7.0, 7.0, 7.0)


def test_a_failing_ranker_is_not_swallowed(dataset):
    def broken(question: str, k: int) -> Ranked:
        raise RuntimeError("the store went away")

    with pytest.raises(RuntimeError, match="went away"):
        run(dataset, broken)


def test_variants_are_contrasted_with_the_reference(dataset):
    nothing = run(dataset, lambda q, k: Ranked(("x",)), variant="nothing")
    best = run(dataset, overlap, variant="overlap")
    found = contrasts([nothing, best], "overlap", [HEADLINE, Metric("recall", 2)])
    assert [(c.a, c.b, str(c.metric)) for c in found] == [
        ("overlap", "nothing", "ndcg@10"),
        ("overlap", "nothing", "recall@2"),
    ]
    assert found[0].difference.mean == pytest.approx(best.value(HEADLINE))
    assert (found[0].difference.wins, found[0].difference.ties) == (2, 1)

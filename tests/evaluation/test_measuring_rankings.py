"""Measuring rankings: depth, warm-up, latency and which questions count."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import packwise.library
from packwise.errors import DataError, StoreError
from packwise.evaluation import experiment
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.experiment import run_experiment
from packwise.evaluation.metrics import Latency
from packwise.evaluation.variants import Variant
from packwise.settings import Settings

WARM_UP = "What is known about this?"

# Passages by document, three to a document, so that folding matters.
TEXTS = {
    "tea": ["tea is a drink", "green tea from leaves", "tea has caffeine"],
    "coffee": ["coffee is a drink", "beans make coffee", "coffee has caffeine"],
    "water": ["water is a drink", "rain is water", "ice is water"],
}
PASSAGES = [(document, text) for document, texts in TEXTS.items() for text in texts]


def overlap(question: str, k: int) -> list[str]:
    """Ranks passages by the number of shared words; finds those that share one."""
    words = set(question.lower().split())
    scored = [(len(words & set(text.split())), i) for i, (_, text) in enumerate(PASSAGES)]
    best = sorted((-score, i) for score, i in scored if score)
    return [PASSAGES[i][0] for _, i in best[:k]]


class FakeLibrary:
    """A library whose search returns the documents that a function ranks."""

    def __init__(self, rank, timings=None):
        self.rank = rank
        self.timings = timings or {}
        self.calls: list[tuple[str, int]] = []

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        pass

    def search(self, question, k, *, mode, fusion, depth=0):
        self.calls.append((question, k))
        return SimpleNamespace(
            hits=[
                SimpleNamespace(passage=SimpleNamespace(document=d)) for d in self.rank(question, k)
            ],
            trace=SimpleNamespace(timings_ms=lambda: dict(self.timings)),
            confidence=0.5,
            probability=None,
        )


@pytest.fixture
def rank(monkeypatch, dataset):
    """Runs an experiment with one variant, whose library ranks as given."""

    def run(ranker=overlap, *, depth=100, limit=None, timings=None, data=None, **options):
        library = FakeLibrary(ranker, timings)
        monkeypatch.setattr(packwise.library, "open_library", lambda *_, **__: library)
        data = data or dataset
        questions = data.judged[:limit]
        variants = [Variant("only", Settings())]
        found = run_experiment(data, "store", variants, questions, depth=depth, **options)
        (result,) = found.results
        return result, library.calls

    return run


def rankings(result):
    return {r.question.id: r.documents for r in result.questions}


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
    monkeypatch.setattr(experiment, "time", made)
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


def test_metrics_are_means_over_the_judged_questions(rank):
    result, _ = rank()
    assert rankings(result)["1"] == ("tea",)
    assert rankings(result)["4"] == ("water",)
    assert result.scores("mrr@10") == {"1": 1.0, "2": 1.0, "4": 0.0}
    assert result.value("mrr@10") == pytest.approx(2 / 3)
    assert result.value("recall@2") == pytest.approx(2 / 3)


def test_each_question_is_asked_alone_after_a_warm_up(rank):
    _, calls = rank(depth=1)
    assert calls == [
        (WARM_UP, 1),
        ("green leaves", 1),
        ("caffeine drink", 1),
        ("rain", 1),
    ]


def test_the_warm_up_is_not_measured(rank, clock):
    def slow_start(question: str, k: int) -> list[str]:
        clock.takes(250 if question == WARM_UP else 20)
        return ["tea"]

    result, _ = rank(slow_start, depth=1)
    assert result.latency.p99 == pytest.approx(20)


def test_progress_counts_the_questions(rank):
    done: list[int] = []
    rank(progress=done.append)
    assert sum(done) == 3


def test_without_judged_questions_there_is_nothing_to_measure(rank, dataset):
    unjudged = DataSet("none", Path("none"), "test", dataset.questions, {}, half="tune")
    with pytest.raises(DataError, match="no judged questions in split 'test', half 'tune'"):
        rank(data=unjudged)


def many_passages(question: str, k: int) -> list[str]:
    """Ten documents of seven passages each, document by document."""
    return [f"d{i // 7}" for i in range(70)][:k]


def test_search_goes_deeper_until_enough_documents_are_found(rank):
    result, calls = rank(many_passages, depth=8, limit=1)
    assert rankings(result)["1"] == tuple(f"d{i}" for i in range(8))
    assert [k for _, k in calls] == [8, 8, 16, 32, 64]


def test_search_stops_when_deeper_finds_no_more(rank):
    result, calls = rank(many_passages, depth=40, limit=1)
    assert len(rankings(result)["1"]) == 10
    assert [k for _, k in calls] == [40, 40, 80, 160]


def test_a_result_cleared_of_repeated_texts_is_not_taken_for_exhausted(rank):
    def repeating(question: str, k: int) -> list[str]:
        # Every fifth passage repeats a text and is left out: fewer than asked come back.
        return [f"d{i // 2}" for i in range(min(k, 60)) if i % 5]

    result, _ = rank(repeating, depth=20, limit=1)
    assert len(rankings(result)["1"]) == 20


def test_no_more_than_a_thousand_passages_are_asked_for(rank):
    result, calls = rank(lambda question, k: ["only one"] * k, depth=100, limit=1)
    assert rankings(result)["1"] == ("only one",)
    assert [k for _, k in calls][1:] == [100, 200, 400, 800, 1000]


def test_the_measured_search_heads_the_ranking(rank):
    def reordering(question: str, k: int) -> list[str]:
        # Deeper candidate pools may reorder what is on top.
        return ["a", "a", "b"] if k == 3 else ["c", "b", "a", "d"]

    result, _ = rank(reordering, depth=3, limit=1)
    assert rankings(result)["1"] == ("a", "b", "c")


def test_an_empty_result_is_asked_for_once(rank):
    result, calls = rank(lambda question, k: [], limit=1)
    assert rankings(result)["1"] == ()
    assert result.value("ndcg@10") == 0.0
    assert len(calls) == 2


def test_latency_is_by_stage_and_with_and_without_embedding(rank, clock):
    def timed(question: str, k: int) -> list[str]:
        clock.takes(20)
        return ["tea"]

    result, _ = rank(timed, depth=1, timings={"embed": 15.0, "vector": 1.0, "fusion": 0.5})
    assert result.latency.p50 == pytest.approx(20)
    assert result.latency_without_embedding.p50 == pytest.approx(5)
    assert result.stages == {
        "embed": Latency(15.0, 15.0, 15.0),
        "vector": Latency(1.0, 1.0, 1.0),
        "fusion": Latency(0.5, 0.5, 0.5),
    }


def test_a_leg_hidden_behind_the_embedding_is_not_free(rank, clock):
    def overlapping(question: str, k: int) -> list[str]:
        clock.takes(10)
        return ["tea"]

    timings = {"embed": 10.0, "keyword": 9.0, "vector": 4.0}
    result, _ = rank(overlapping, depth=1, timings=timings)
    assert result.latency_without_embedding.p50 == 13.0


def test_percentiles_are_interpolated():
    latency = Latency.of([float(i) for i in range(101)])
    assert (latency.p50, latency.p95, latency.p99) == (50.0, 95.0, 99.0)
    assert Latency.of([7.0]) == Latency(7.0, 7.0, 7.0)


@pytest.mark.parametrize("error", [RuntimeError, StoreError])
def test_a_failing_search_ends_the_measurement(rank, error):
    def broken(question: str, k: int) -> list[str]:
        raise error("the store went away")

    with pytest.raises(error, match="went away"):
        rank(broken)


def test_every_variant_is_compared_with_the_reference(monkeypatch, dataset):
    libraries = {"off": FakeLibrary(lambda q, k: ["x"]), "names": FakeLibrary(overlap)}
    monkeypatch.setattr(
        packwise.library, "open_library", lambda _, settings: libraries[settings.graph_ranking]
    )
    variants = [
        Variant("overlap", Settings(graph_ranking="names")),
        Variant("nothing", Settings(graph_ranking="off")),
    ]
    found = run_experiment(
        dataset, "store", variants, dataset.judged, depth=10, reference="overlap"
    )
    compared = list(found.differences(["ndcg@10", "recall@2"]))
    assert [(metric, other) for metric, other, _ in compared] == [
        ("ndcg@10", "nothing"),
        ("recall@2", "nothing"),
    ]
    first = compared[0][2]
    assert first.mean == pytest.approx(found.results[0].value("ndcg@10"))
    assert (first.wins, first.ties) == (2, 1)

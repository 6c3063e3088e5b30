"""What reranking does to a list: the cross-encoder's word blended in, or variety."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import packwise
from packwise.candidates import Candidate, Scores
from packwise.documents import Passage
from packwise.errors import UsageError
from packwise.retrieval.reranking import cross_encode, mmr
from packwise.settings import Settings


def hit(key: int, final: float, text: str = "") -> Candidate:
    passage = Passage(f"d{key}#0", f"d{key}", "", (), 0, text, 0, len(text), str(key))
    return Candidate(key, passage, Scores(combined=final, final=final))


class Says:
    """A cross-encoder that says what the test wants; it keeps what it was given."""

    name = "says"

    def __init__(self, **scores: float) -> None:
        self.scores = scores
        self.read: list[str] = []

    def score(self, question, texts):
        self.read = list(texts)
        return np.array([self.scores[text] for text in texts], dtype=np.float32)


def test_the_cross_encoder_is_blended_with_the_first_stage():
    hits = [hit(1, 0.8, "a"), hit(2, 0.6, "b"), hit(3, 0.5, "c")]
    encoder = Says(a=0.0, b=1.0)
    ranked = cross_encode("q", hits, encoder, pool=2, weight=0.5)
    assert encoder.read == ["a", "b"]
    assert [h.key for h in ranked] == [2, 1, 3]
    assert ranked[0].scores.final == pytest.approx(0.8)
    assert ranked[0].scores.cross == 1.0
    assert ranked[2].scores.cross is None
    assert ranked[2].scores.final == pytest.approx(0.25)
    assert [h.scores.combined for h in ranked] == [0.6, 0.8, 0.5]


def test_a_weight_of_nothing_leaves_the_order():
    hits = [hit(1, 0.8, "a"), hit(2, 0.6, "b")]
    ranked = cross_encode("q", hits, Says(a=0.0, b=1.0), pool=9, weight=0.0)
    assert [(h.key, h.scores.final) for h in ranked] == [(1, 0.8), (2, 0.6)]
    assert cross_encode("q", [], Says(), pool=9, weight=0.5) == []


def test_mmr_puts_what_is_new_before_what_repeats():
    same = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    ranked = mmr([hit(1, 0.9), hit(2, 0.89), hit(3, 0.7)], same, alpha=0.5)
    assert [h.key for h in ranked] == [1, 3, 2]
    ranked = mmr([hit(1, 0.9), hit(2, 0.89), hit(3, 0.7)], same, alpha=1.0)
    assert [h.key for h in ranked] == [1, 2, 3]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.01, 1), max_size=12), st.floats(0, 1), st.integers(0, 1000))
def test_mmr_keeps_everything_and_its_scores_fall(finals, alpha, seed):
    vectors = np.random.default_rng(seed).normal(size=(len(finals), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) if len(finals) else 1
    hits = [hit(i, final) for i, final in enumerate(finals)]
    ranked = mmr(hits, vectors, alpha)
    assert sorted(h.key for h in ranked) == [h.key for h in hits]
    values = [h.scores.final for h in ranked]
    assert all(a >= b - 1e-12 for a, b in pairwise(values))


@pytest.fixture(scope="module")
def library(notes_pack):
    with packwise.open(str(notes_pack)) as opened:
        yield opened


QUESTION = "what to do when a credential was compromised"


def test_the_real_cross_encoder_reads_the_pool_and_is_on_record(library):
    ranking = library.search(QUESTION, k=3, rerank="crossencoder")
    assert [h.scores.cross is not None for h in ranking.hits] == [True] * 3
    assert ranking.hits[0].passage.header == "A lost key"
    (stage,) = [s for s in ranking.trace.stages if s.name == "cross_encoder"]
    assert stage.notes["read"] >= 3
    assert ranking.confidence == library.search(QUESTION, k=3).confidence


def test_graph_ranking_does_not_throw_the_cross_encoder_away(library):
    ranking = library.search(QUESTION, k=3, rerank="crossencoder", graph="names")
    plain = library.search(QUESTION, k=3, rerank="crossencoder", graph="off")
    assert ranking.hits[0].scores.cross == plain.hits[0].scores.cross


def nothing_there(pack, tmp_path, **more):
    """The pack opened where the cross-encoder cannot be found."""
    library = packwise.open(str(pack), settings=Settings.load({}, **more))

    def missing():
        from packwise.models.cross_encoder import load_cross_encoder

        return load_cross_encoder(library.settings, folder=tmp_path / "empty")

    library._load_cross_encoder = missing
    return library


def test_without_the_model_an_asked_for_cross_encoder_changes_nothing(notes_pack, tmp_path):
    with nothing_there(notes_pack, tmp_path) as library:
        ranking = library.search(QUESTION, k=3, rerank="crossencoder")
        plain = library.search(QUESTION, k=3)
    assert [h.key for h in ranking.hits] == [h.key for h in plain.hits]
    assert any(line.startswith("no cross-encoder:") for line in ranking.trace.degraded)
    assert "mmr" not in ranking.trace.timings_ms()


def test_without_the_model_a_configured_cross_encoder_falls_back_to_mmr(notes_pack, tmp_path):
    with nothing_there(notes_pack, tmp_path, reranker="crossencoder") as library:
        ranking = library.search(QUESTION, k=3)
    assert "mmr" in ranking.trace.timings_ms()
    assert any(line.startswith("no cross-encoder:") for line in ranking.trace.degraded)


def test_mmr_is_chosen_by_its_variable(notes_pack):
    settings = Settings.load({"RERANKER": "mmr", "MMR_ALPHA": "0.3"})
    with packwise.open(str(notes_pack), settings=settings) as library:
        trace = library.search(QUESTION, k=3).trace
    (stage,) = [s for s in trace.stages if s.name == "mmr"]
    assert stage.notes["alpha"] == 0.3


@pytest.mark.parametrize("wrong", [{"rerank": "best"}, {"graph": "big"}])
def test_unknown_stages_are_refused(library, wrong):
    with pytest.raises(UsageError, match="is one of"):
        library.search("x", **wrong)

"""The confidence gate comes before the stages that cost most."""

import pytest

import packwise
from packwise.settings import Settings

ON_TOPIC = "how do I rotate the signing key?"
OFF_TOPIC = "which wine goes with roast duck?"
LATER = {"cross_encoder", "graph", "mmr"}


@pytest.fixture(scope="module")
def library(notes_pack):
    with packwise.open(str(notes_pack), settings=Settings.load(query_cache=0)) as opened:
        yield opened


def names(found):
    return [stage.name for stage in found.trace.stages]


@pytest.mark.parametrize("rerank", ["crossencoder", "mmr", "off"])
def test_what_the_gate_refuses_is_not_reranked(library, rerank):
    refused = library.ask(OFF_TOPIC, rerank=rerank, synthesis=False)
    assert refused.query_type == "confidence_gated_fallback"
    assert LATER.isdisjoint(names(refused))
    (gate,) = [s for s in refused.trace.stages if s.name == "gate"]
    assert gate.notes["passed"] is False
    assert gate.notes["confidence"] < gate.notes["threshold"] == 0.5


def test_what_passes_the_gate_is_reranked_after_it(library):
    answer = library.ask(ON_TOPIC, rerank="crossencoder", synthesis=False)
    ran = [name for name in names(answer) if name in LATER | {"fusion", "confidence", "gate"}]
    assert ran == ["fusion", "confidence", "gate", "cross_encoder", "graph"]


def test_a_refused_search_still_has_its_hits_in_fused_order(library):
    refused = library.search(OFF_TOPIC, 5, gated=True, rerank="crossencoder")
    plain = library.search(OFF_TOPIC, 5, graph="off")
    assert refused.refused
    assert [h.key for h in refused.hits] == [h.key for h in plain.hits]
    assert refused.confidence == plain.confidence
    assert refused.probability == plain.probability


@pytest.mark.parametrize("question", [ON_TOPIC, OFF_TOPIC])
def test_a_search_without_a_gate_runs_every_stage(library, question):
    open_gate = library.search(question, 5, gated=True, threshold=0.0)
    plain = library.search(question, 5)
    assert not plain.refused
    assert "gate" not in names(plain)
    assert "graph" in names(plain)
    assert open_gate.hits == plain.hits


def test_an_answer_from_the_cache_shows_the_decision_of_the_gate(notes_pack):
    with packwise.open(str(notes_pack)) as library:
        first, second = (library.search(OFF_TOPIC, gated=True) for _ in range(2))
    assert second.refused
    assert names(second) == ["cache", "gate"]
    assert second.trace.stages[1].notes == first.trace.stages[names(first).index("gate")].notes


@pytest.mark.parametrize("mode", ["vector", "keyword"])
def test_one_leg_alone_is_gated_by_its_own_confidence(library, mode):
    found = library.search(ON_TOPIC, mode=mode, gated=True, threshold=1.0)
    assert found.refused == (found.confidence < 1.0)
    assert found.threshold == 1.0


def test_a_context_is_chosen_from_as_many_candidates_as_k_base_says(notes_pack):
    sizes = []
    for k_base in (1, 2, 4):
        settings = Settings.load(k_base=k_base, graph_ranking="off", query_adaptive_weights=False)
        with packwise.open(str(notes_pack), settings=settings) as library:
            packed = library.context(ON_TOPIC)
            answer = library.ask(ON_TOPIC, synthesis=False)
        assert packed.trace.candidates <= 2 * k_base
        found = [s.notes["found"] for s in answer.trace.stages if s.name in ("vector", "keyword")]
        assert found == [k_base, k_base]
        sizes.append(packed.trace.candidates)
    assert sizes == sorted(set(sizes))

"""The probability that a node is relevant: its map, its bands, and the ranking with it."""

import math

import numpy as np
import pytest
from nodes_world import DIM, field

from packwise.nodes.adapter import default_ranking
from packwise.nodes.records import FoundNode
from packwise.nodes.relevance import fitted_maps

VERSION = "bge-small-en-v1.5+a93f80e98116.r1"


def test_the_maps_say_what_they_were_fitted_on_and_never_fall():
    maps = {m["node_type"]: m for m in fitted_maps()}
    assert maps.keys() == {"field", "qa_example"}
    for found in maps.values():
        assert found["embedder_version"] == VERSION
        assert "half tune" in found["origin"]
        assert min(found["keyword"], found["vector"], found["bend"]) >= 0


def probability(node_type, keyword, vector):
    (m,) = (m for m in fitted_maps() if m["node_type"] == node_type)
    logit = m["bias"] + m["keyword"] * keyword + m["vector"] * vector
    return 1 / (1 + math.exp(-(logit + m["bend"] * max(vector - m["bend_at"], 0))))


@pytest.fixture
def judged(database):
    """Nodes whose vectors are said to be those of the default embedder."""
    adapter = database.adapter()
    nodes = [field("acme", f"customer email {i}") for i in range(6)]
    nodes += [field("acme", "customer email", node_type="qa_example")]
    nodes += [field("acme", "customer email", node_type="term")]
    vectors = np.eye(DIM)[: len(nodes)] + 0.8
    adapter.add_nodes(nodes, vectors, embedder_version=VERSION)
    return adapter


def test_the_database_computes_the_map(database, judged):
    asked = np.ones(DIM)
    hits = judged.hybrid_search("customer email", asked, ["acme"])
    assert {hit.node.node_type for hit in hits} == {"field", "qa_example", "term"}
    for hit in hits:
        if hit.node.node_type == "term":
            assert hit.relevance is None
            assert hit.score == hit.combined
        else:
            expected = probability(hit.node.node_type, hit.keyword, hit.vector)
            assert hit.relevance == pytest.approx(expected, abs=1e-9)
            assert hit.score == hit.relevance
        assert hit.combined == pytest.approx(0.4 * hit.keyword + 0.6 * hit.vector, abs=1e-6)
    with database.connect(role=True, tenants=["acme"]) as connection:
        rows = connection.execute(
            "SELECT node_id, relevance FROM hybrid_search_nodes('customer email', %s,"
            " ARRAY['acme'], NULL)",
            (str(asked.tolist()),),
        ).fetchall()
    assert dict(rows) == {hit.node.node_id: hit.relevance for hit in hits}


def test_the_least_score_is_one_of_relevance(judged):
    every = judged.hybrid_search("customer email", np.ones(DIM), ["acme"], ["field", "qa_example"])
    least = sorted(hit.relevance for hit in every)[3]
    kept = judged.hybrid_search(
        "customer email", np.ones(DIM), ["acme"], ["field", "qa_example"], min_score=least
    )
    assert [hit.node for hit in kept] == [h.node for h in every if h.relevance >= least]


def test_a_search_by_one_leg_has_no_relevance(judged):
    assert judged.get_similar_nodes(np.ones(DIM), "acme")[0].relevance is None
    assert judged.store.search("email", None, ["acme"], k=1)[0].relevance is None


def test_the_band_is_that_of_the_relevance():
    node = field("acme", "x")
    bands = [FoundNode(node, 0.1, relevance=p).band for p in (0.85, 0.84, 0.7, 0.5, 0.49)]
    assert bands == ["high", "good", "good", "partial", "low"]
    assert FoundNode(node, 0.9).band == "high"


def test_each_type_has_its_ranking_and_a_caller_may_choose_another():
    assert default_ranking("field") == {
        "bm25_weight": 0.7,
        "vector_weight": 0.3,
        "fusion": "rrf",
    }
    examples = {"bm25_weight": 0.0, "vector_weight": 1.0, "fusion": "weighted"}
    assert default_ranking(["qa_example"]) == examples
    for types in (None, ["term"], ["field", "qa_example"]):
        assert default_ranking(types) == {
            "bm25_weight": 0.4,
            "vector_weight": 0.6,
            "fusion": "weighted",
        }
    assert default_ranking("field", "weighted", 0.2)["vector_weight"] == pytest.approx(0.8)
    assert default_ranking("field", None, None, 1.0)["bm25_weight"] == 0.0

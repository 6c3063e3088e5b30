"""Similarity blended with PageRank, as the specification has it."""

import pytest

from packwise.retrieval.reranking import blend_pagerank

SIMILAR = {"fluctuation": 0.95, "mechanics": 0.90}
DOCUMENTS = {"fluctuation": "f", "mechanics": "m"}


def test_the_specifications_example_changes_places():
    ranks = {"f": 0.02, "m": 0.85}
    scores, _ = blend_pagerank(SIMILAR, DOCUMENTS, ranks, links=10, articles=2)
    assert scores["mechanics"] == pytest.approx(0.7 * 0.90 + 0.3)
    assert scores["fluctuation"] == pytest.approx(0.7 * 0.95 + 0.3 * 0.02 / 0.85)


def test_weights_are_the_callers():
    scores, note = blend_pagerank(
        SIMILAR,
        DOCUMENTS,
        {"f": 0.5, "m": 0.25},
        links=4,
        articles=2,
        similarity_weight=1.0,
        pagerank_weight=0.5,
    )
    assert note == "1/0.5 with PageRank"
    assert scores == {"fluctuation": 1.45, "mechanics": 1.15}


@pytest.mark.parametrize(
    ("links", "articles", "ranks"), [(3, 2, {"f": 1.0}), (0, 0, {}), (9, 2, {})]
)
def test_too_few_links_leave_scores_alone_and_say_so(links, articles, ranks):
    scores, note = blend_pagerank(SIMILAR, DOCUMENTS, ranks, links=links, articles=articles)
    assert scores is None
    assert note.startswith("PageRank is off")

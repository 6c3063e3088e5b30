"""Similarity blended with PageRank, as the specification has it."""

import pytest

from packwise.retrieval.reranking import blend_pagerank

SIMILAR = {"fluctuation": 0.95, "mechanics": 0.90}
DOCUMENTS = {"fluctuation": "f", "mechanics": "m"}


def test_the_specifications_example_changes_places():
    ranks = {"f": 0.02, "m": 0.85}
    scores, note = blend_pagerank(SIMILAR, DOCUMENTS, ranks, links=10, articles=2)
    assert note == "0.7/0.3 with PageRank"
    assert scores["mechanics"] == pytest.approx(0.7 * 0.90 + 0.3)
    assert scores["fluctuation"] == pytest.approx(0.7 * 0.95 + 0.3 * 0.02 / 0.85)


@pytest.mark.parametrize(
    ("links", "articles", "ranks"), [(3, 2, {"f": 1.0}), (0, 0, {}), (9, 2, {})]
)
def test_too_few_links_leave_scores_alone_and_say_so(links, articles, ranks):
    scores, note = blend_pagerank(SIMILAR, DOCUMENTS, ranks, links=links, articles=articles)
    assert scores is None
    assert note.startswith("PageRank is off")

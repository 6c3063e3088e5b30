"""The graph's scorer gives passages the scores that search gives them."""

import pytest

import packwise
from packwise.candidates import EVERYTHING, Filter
from packwise.language.analyzer import terms as index_terms
from packwise.models.embedder import load_embedder
from packwise.retrieval.fusion import PassageScorer, Weights
from packwise.stores import bm25

QUESTION = "tenant restore after a full disk"


@pytest.fixture(scope="module")
def library(notes_pack):
    settings = packwise.Settings.load({}, query_adaptive_weights=False)
    with packwise.open(str(notes_pack), settings=settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def embedder(library):
    return load_embedder(library.settings.embedder, library.settings)


@pytest.fixture
def scorer_for(library, embedder):
    def make(
        where: Filter = EVERYTHING, *, vector: bool = True, keyword: bool = True
    ) -> PassageScorer:
        terms = list(dict.fromkeys(index_terms(QUESTION)))
        return PassageScorer(
            store=library.store,
            similarity=embedder.similarity,
            vector=embedder.embed_query(QUESTION) if vector else None,
            terms=terms,
            bound=bm25.bound(terms, library.store.term_statistics(terms)) if keyword else 0.0,
            weights=Weights(0.7, 0.3),
            where=where,
        )

    return make


def test_scores_equal_those_of_a_search(library, scorer_for):
    hits = library.search(QUESTION, k=8).hits
    scorer = scorer_for()
    scores = scorer.scores([hit.key for hit in hits])
    assert scores == {hit.key: pytest.approx(hit.scores.combined) for hit in hits}
    assert scorer.found(hits[0].key).bm25 == pytest.approx(hits[0].scores.bm25)


def test_passages_outside_the_filter_are_left_out(library, scorer_for):
    hits = library.search(QUESTION, k=8).hits
    inside = {hit.key for hit in hits if hit.passage.document.startswith("operations/")}
    scores = scorer_for(Filter(path_prefix="operations/")).scores([hit.key for hit in hits])
    assert 0 < len(inside) < len(hits)
    assert scores.keys() == inside


def test_each_leg_can_score_alone(library, scorer_for):
    keys = [hit.key for hit in library.search(QUESTION, k=8).hits]
    assert scorer_for(keyword=False).scores(keys).keys() == set(keys)
    assert scorer_for(vector=False).scores(keys).keys() < set(keys)


def test_terms_and_shares_tell_what_a_passage_holds(library, scorer_for):
    hits = library.search(QUESTION, k=8).hits
    keys = [hit.key for hit in hits]
    scorer = scorer_for()
    held = scorer.terms_of(keys)
    disk = scorer.share(keys, ["disk"])
    assert {key for key in keys if "disk" in held[key]} == {k for k, v in disk.items() if v > 0}
    assert all(0 <= share < 1 for share in disk.values())
    assert scorer.share(keys, []) == {}
    assert scorer_for(keyword=False).share(keys, ["disk"]) == {}

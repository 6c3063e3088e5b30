"""Copies of one page never take the places of other passages, in any store."""

import pytest

import packwise
from packwise.candidates import FUSIONS, MODES
from packwise.settings import Settings

COPIES, OTHERS = 45, 20
QUESTION = "how is the harbour crane greased in winter?"
COPY = "# Crane\n\nIn winter the harbour crane is greased twice a week, with thin grease.\n"


@pytest.fixture(scope="module")
def location(shared_place, tmp_path_factory):
    source = tmp_path_factory.mktemp("copies")
    for n in range(COPIES):
        (source / f"copy{n}.md").write_text(COPY)
    for n in range(OTHERS):
        (source / f"other{n}.md").write_text(
            f"# Crane {n}\n\nThe harbour crane {n} is greased by team {n} before winter begins.\n"
        )
    place = shared_place()
    packwise.build([str(source)], place.location)
    return place.location


@pytest.fixture(scope="module")
def library(location):
    with packwise.open(location, settings=Settings.load(query_cache=0)) as opened:
        yield opened


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("k", [1, 10, 21, 40])
def test_copies_take_one_place(library, mode, fusion, k):
    ranking = library.search(QUESTION, k, mode=mode, fusion=fusion)
    texts = [hit.passage.indexed_text for hit in ranking.hits]
    assert len(texts) == len(set(texts)) == min(k, OTHERS + 1)
    dropped = [drop.id for drop in ranking.trace.dropped]
    assert len(dropped) == len(set(dropped))
    assert all(drop.reason.startswith("same text as ") for drop in ranking.trace.dropped)
    if k > 1:
        assert len(dropped) == COPIES - 1


@pytest.mark.parametrize("rerank", ["mmr", "crossencoder"])
def test_copies_take_no_place_of_a_reranker(library, rerank):
    ranking = library.search(QUESTION, 10, rerank=rerank)
    assert len({hit.passage.indexed_text for hit in ranking.hits}) == 10


@pytest.mark.parametrize("completion", [True, False])
def test_both_legs_hold_the_same_copy_and_count_it_once(location, completion):
    settings = Settings.load(completion=completion, graph_ranking="off")
    with packwise.open(location, settings=settings) as library:
        best, *others = library.search(QUESTION, 21, fusion="rrf").hits
    assert best.passage.indexed_text.startswith("Crane\n")
    assert best.scores.rrf == pytest.approx(1 / 61)
    assert len(others) == OTHERS
    assert all(hit.scores.rrf <= 1 / 62 + 1e-9 for hit in others)

"""A search asked again is answered from memory, and never with what is stale or foreign."""

from dataclasses import fields, replace

import pytest

import packwise
from packwise.candidates import Filter, Query
from packwise.retrieval.cache import QueryCache
from packwise.settings import Settings


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_an_answer_is_kept_for_a_while(clock):
    cache = QueryCache(8, clock=clock)
    cache.put(Query("q"), "v1", "answer")
    assert cache.get(Query("q"), "v1") == "answer"
    clock.now = 59.9
    assert cache.get(Query("q"), "v1") == "answer"
    clock.now = 60.0
    assert cache.get(Query("q"), "v1") is None
    assert (cache.info().hits, cache.info().misses, cache.info().size) == (2, 1, 0)
    assert cache.info().hit_rate == pytest.approx(2 / 3)


BASE = Query("q", where=Filter(tenant="a"))


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, text="other"),
        replace(BASE, k=9),
        replace(BASE, depth=9),
        replace(BASE, mode="vector"),
        replace(BASE, fusion="rrf"),
        replace(BASE, alternatives=("p",)),
        replace(BASE, graph="names"),
        replace(BASE, rerank="mmr"),
        replace(BASE, gated=True),
        replace(BASE, threshold=0.5),
        replace(BASE, where=Filter(tenant="b")),
        replace(BASE, where=Filter(tenant="a", acl=("staff",))),
        replace(BASE, where=Filter(tenant="a", space="s")),
        replace(BASE, where=Filter(tenant="a", lang="de")),
        replace(BASE, where=Filter(tenant="a", node_type="field")),
        replace(BASE, where=Filter(tenant="a", documents=("d",))),
        replace(BASE, where=Filter(tenant="a", path_prefix="p")),
        replace(BASE, where=Filter(tenant="a", metadata={"team": "x"})),
    ],
)
def test_no_other_query_gets_the_answer(other):
    cache = QueryCache(8, 60.0)
    cache.put(BASE, "v1", "answer")
    assert cache.get(BASE, "v1") == "answer"
    assert cache.get(other, "v1") is None


def test_every_field_of_a_query_and_its_filter_is_in_the_cases_above():
    assert [field.name for field in fields(Query)] == (
        "text k depth mode fusion where alternatives graph rerank gated threshold".split()
    )
    assert [field.name for field in fields(Filter)] == (
        "tenant space acl lang node_type documents path_prefix metadata".split()
    )


def test_another_version_of_the_store_does_not_get_it():
    cache = QueryCache(8, 60.0)
    cache.put(Query("q"), "v1", "answer")
    assert cache.get(Query("q"), "v2") is None


def test_the_one_unused_for_longest_makes_room():
    cache = QueryCache(2, 60.0)
    for name in ("a", "b"):
        cache.put(Query(name), "v", name)
    cache.get(Query("a"), "v")
    cache.put(Query("c"), "v", "c")
    assert cache.get(Query("b"), "v") is None
    assert cache.get(Query("a"), "v") == "a"
    assert cache.info().size == 2


def test_a_repeated_search_is_a_hit_and_says_so(notes_pack):
    with packwise.open(str(notes_pack)) as library:
        first = library.search("signing key")
        second = library.search("signing key")
        assert second.hits == first.hits
        assert second.confidence == first.confidence
        assert [stage.name for stage in second.trace.stages] == ["cache"]
        assert library.cache_info().hits == 1


def test_a_rebuilt_pack_never_serves_what_it_held_before(tmp_path):
    source = tmp_path / "notes"
    source.mkdir()
    (source / "key.md").write_text("# Keys\n\nThe key hangs on the hook by the door, as ever.\n")
    pack = str(tmp_path / "pack")
    packwise.build([str(source)], pack)
    with packwise.open(pack) as library:
        assert "hook" in library.search("where is the key?").hits[0].passage.text
        (source / "key.md").write_text("# Keys\n\nThe key lies in the blue bowl since Monday.\n")
        packwise.build([str(source)], pack)
        assert "bowl" in library.search("where is the key?").hits[0].passage.text
        assert library.cache_info().hits == 0


def test_the_cache_can_be_switched_off(notes_pack):
    settings = Settings.load({"PACKWISE_QUERY_CACHE": "0"})
    with packwise.open(str(notes_pack), settings=settings) as library:
        library.search("signing key")
        library.search("signing key")
        assert library.cache_info() == type(library.cache_info())(0, 0, 0)

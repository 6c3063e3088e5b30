"""What every store does, whichever it is. A new store joins by its line in ``PLACES``."""

import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from store_world import (
    DIM,
    EMBEDDER,
    fill,
    found,
    keyword,
    make,
    near,
    snapshot,
    vector_of,
    vectors_of,
)

from packwise.candidates import Filter
from packwise.errors import EmbedderMismatch, StoreBusy
from packwise.language.analyzer import terms
from packwise.library import Library
from packwise.reading.passage_reading import READING_RULES, reading_of, stored_reading
from packwise.stores import bm25
from packwise.stores.base import DirectScores, supports
from tests_world import PATIENCE

APPLE = make("fruit/apple.md", "Apples grow on trees.", "An orchard holds many apple trees.")
PEAR = make("fruit/pear.md", "Pears are green.", links=["fruit/apple.md", "https://quince.example"])
QUINCE = make("quince", "Quinces are hard and sour.", url="https://quince.example", lang="de")
FRUITS = [APPLE, PEAR, QUINCE]


@pytest.fixture(scope="module")
def fruits(shared_place):
    place = shared_place()
    fill(place.build(), FRUITS)
    return place.read()


def test_documents_come_back_as_they_were_given(fruits):
    for document, passages in FRUITS:
        stored = fruits.document(document.id)
        assert stored is not None
        assert replace(stored, links=()) == replace(document, links=())
        assert [link.href for link in stored.links] == [link.href for link in document.links]
        assert [passage for _, passage in fruits.document_passages(document.id)] == passages
    assert [summary.id for summary in fruits.documents()] == sorted(d.id for d, _ in FRUITS)
    assert [summary.passages for summary in fruits.documents()] == [2, 1, 1]
    assert fruits.document("fruit") is None
    assert fruits.document_passages("fruit") == []


def test_passages_come_back_with_their_readings(fruits):
    for summary in fruits.documents():
        for _, passage in fruits.document_passages(summary.id):
            unread = replace(passage, reading="")
            assert passage.reading.startswith(f"{READING_RULES}:")
            assert passage.reading == stored_reading(unread)
            assert reading_of(passage).units == reading_of(unread).units


def test_info_tells_what_is_held(fruits):
    info = fruits.info()
    assert (info.documents, info.passages, info.links) == (3, 4, 2)
    assert (info.embedder, info.embedder_version, info.dim) == ("made-up", "made-up-1", DIM)
    assert info.size_bytes > 0


def test_the_version_changes_when_the_content_does(place):
    store = place.build()
    fill(store, FRUITS)
    first = store.version()
    assert first == store.info().version
    fill(store, FRUITS)
    assert store.version() == first
    fill(store, FRUITS[:2])
    assert store.version() != first
    assert store.version() == store.info().version


def test_commit_counts_what_it_changed(place):
    store = place.build()
    first = fill(store, FRUITS)
    assert (first.added, first.changed, first.removed, first.unchanged) == (3, 0, 0, 0)
    changed = make("quince", "Quinces make jelly.")
    second = fill(store, [APPLE, changed, make("new", "Something else.")])
    assert (second.added, second.changed, second.removed, second.unchanged) == (1, 1, 1, 1)
    assert second.passages == store.info().passages == 4


def test_a_replaced_document_is_found_by_its_new_text_only(place):
    store = place.build()
    fill(store, FRUITS)
    jelly = make("quince", "Quinces make a fine jelly.")
    fill(store, [APPLE, PEAR, jelly])
    assert keyword(store, "jelly") == ["quince#0"]
    assert keyword(store, "sour") == []
    assert near(store, jelly[1][0])[0] == "quince#0"
    (old,) = store.vector_search(vector_of(QUINCE[1][0].indexed_text), 1)
    assert old.score < 0.9


def test_a_removed_document_is_gone(place):
    store = place.build()
    fill(store, FRUITS)
    (key,) = [match.key for match in store.keyword_search(terms("sour"), 5)]
    fill(store, [APPLE, PEAR])
    assert store.document("quince") is None
    assert store.passages([key]) == [None]
    assert not store.vectors([key]).any()
    assert store.neighbours(key) == []
    assert store.keyword_search(terms("sour"), 5) == []
    assert key not in [match.key for match in store.vector_search(vector_of("x"), 10)]
    assert [link.target for _, link in store.links(["fruit/pear.md"])] == ["fruit/apple.md"]


def test_without_prune_what_was_not_mentioned_stays(place):
    store = place.build()
    fill(store, [APPLE, PEAR])
    fill(store, [QUINCE], prune=False)
    assert [summary.id for summary in store.documents()] == [
        "fruit/apple.md",
        "fruit/pear.md",
        "quince",
    ]


def test_a_key_never_comes_to_mean_another_passage(place):
    store = place.build()
    fill(store, FRUITS)
    old = {key for document, _ in FRUITS for key, _ in store.document_passages(document.id)}
    fill(store, [make("a", "First."), make("b", "Second.")])
    new = {key for name in "ab" for key, _ in store.document_passages(name)}
    assert not old & new


def test_vector_search_gives_cosines_best_first(fruits):
    passages = [passage for _, ps in FRUITS for passage in ps]
    question = vector_of(APPLE[1][1].indexed_text)
    matches = fruits.vector_search(question, 10)
    expected = sorted(
        ((float(vector_of(p.indexed_text) @ question), p.id) for p in passages), reverse=True
    )
    assert found(fruits, matches) == [name for _, name in expected]
    assert [m.score for m in matches] == pytest.approx([s for s, _ in expected], abs=2e-3)
    assert found(fruits, fruits.vector_search(3 * question, 2)) == [n for _, n in expected[:2]]
    assert fruits.vector_search(question, 0) == []


def test_vectors_come_back_normalised_in_the_order_asked(fruits):
    keys = [key for document, _ in FRUITS for key, _ in fruits.document_passages(document.id)]
    expected = [vector_of(p.indexed_text) for _, ps in FRUITS for p in ps]
    vectors = fruits.vectors(keys[::-1])
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert np.allclose(vectors, expected[::-1], atol=1e-3)
    assert fruits.vectors([]).shape == (0, DIM)


def test_equal_scores_are_ordered_by_key(place):
    store = place.build()
    fill(store, [make(f"twin-{i}", "The same words.", title="Twin") for i in range(9)])
    for matches in (
        store.vector_search(vector_of("anything"), 5),
        store.keyword_search(terms("same words"), 5),
    ):
        assert len({match.score for match in matches}) == 1
        assert found(store, matches) == [f"twin-{i}#0" for i in range(5)]


def test_keyword_search_finds_only_what_holds_a_term(fruits):
    assert keyword(fruits, "orchard") == ["fruit/apple.md#1"]
    assert set(keyword(fruits, "trees green")) == {
        "fruit/apple.md#0",
        "fruit/apple.md#1",
        "fruit/pear.md#0",
    }
    assert keyword(fruits, "volcano") == []
    assert fruits.keyword_search([], 5) == []
    assert fruits.keyword_search(terms("trees"), 0) == []


def test_headings_are_searched_too(fruits):
    assert keyword(fruits, "about quince")[0] == "quince#0"


def test_keyword_scores_follow_the_one_formula(fruits):
    asked = terms("apple orchard trees volcano apples orchards")
    assert len(set(asked)) < len(asked)
    statistics = fruits.term_statistics(asked)
    texts = {p.id: terms(p.indexed_text, p.lang) for _, ps in FRUITS for p in ps}
    average = sum(map(len, texts.values())) / len(texts)
    assert statistics.passages == 4
    assert statistics.average_length == pytest.approx(average)
    for term in asked:
        assert statistics.frequency[term] == sum(term in held for held in texts.values())
    matches = fruits.keyword_search(asked, 10)
    for match, name in zip(matches, found(fruits, matches), strict=True):
        expected = 0.0
        for term in dict.fromkeys(asked):
            count = texts[name].count(term)
            norm = bm25.K1 * (1 - bm25.B + bm25.B * len(texts[name]) / average)
            weight = bm25.idf(4, statistics.frequency[term]) * (bm25.K1 + 1)
            expected += weight * count / (count + norm)
        assert match.score == pytest.approx(expected, rel=1e-6)
        assert 0 < match.score < bm25.bound(asked, statistics)


def test_terms_are_those_of_the_documents_language(place):
    store = place.build()
    german = make("haus", "Viele Häuser stehen am Fluss.", lang="de")
    chinese = make("zh", "河边的房子建于1890年。", lang="zh")
    fill(store, [german, chinese, make("english", "Many houses stand here.")])
    assert store.languages() == {"de": 1, "zh": 1, "en": 1}
    assert found(store, store.keyword_search(terms("Haus", "de"), 5)) == ["haus#0"]
    assert found(store, store.keyword_search(terms("房子", "zh"), 5)) == ["zh#0"]
    assert found(store, store.keyword_search(terms("房子", "zh"), 5, Filter(lang="de"))) == []
    fill(store, [german])
    assert store.languages() == {"de": 1}


def test_statistics_follow_what_is_stored(place):
    store = place.build()
    fill(store, FRUITS)
    fill(store, [PEAR, QUINCE])
    (stem,) = terms("apple")
    assert store.term_statistics([stem]).frequency == {stem: 0}
    assert store.term_statistics([stem]).passages == 2


@pytest.fixture(scope="module")
def library(shared_place):
    """Documents that differ in everything a filter can ask for."""
    documents = [
        make("docs/a_1.md", "shared text one", metadata={"tenant": "red", "space": "s1"}),
        make("docs/a-1.md", "shared text two", metadata={"tenant": "red", "acl": "staff, board"}),
        make("docs/b%.md", "shared text three", metadata={"tenant": "blue", "acl": "board"}),
        make("docs/b2.md", "shared text four", lang="de", metadata={"node_type": "table"}),
        make("other/é.md", "shared text five", lang="de", metadata={"k'; --": "v%"}),
    ]
    place = shared_place()
    fill(place.build(), documents)
    return place.read()


FILTERS = [
    (Filter(tenant="red"), ["docs/a-1.md", "docs/a_1.md"]),
    (Filter(space="s1"), ["docs/a_1.md"]),
    (Filter(lang="de"), ["docs/b2.md", "other/é.md"]),
    (Filter(node_type="table"), ["docs/b2.md"]),
    (Filter(documents=("docs/b2.md", "nothing", "other/é.md")), ["docs/b2.md", "other/é.md"]),
    (Filter(path_prefix="docs/a_"), ["docs/a_1.md"]),
    (Filter(path_prefix="docs/b%"), ["docs/b%.md"]),
    (Filter(path_prefix="docs/b*"), []),
    (Filter(path_prefix="other/é"), ["other/é.md"]),
    (Filter(metadata={"k'; --": "v%"}), ["other/é.md"]),
    (Filter(metadata={"tenant": "%"}), []),
    (Filter(tenant="red", acl=("guests",)), ["docs/a_1.md"]),
    (Filter(acl=("guests",)), ["docs/a_1.md", "docs/b2.md", "other/é.md"]),
    (Filter(acl=("staff",)), ["docs/a-1.md", "docs/a_1.md", "docs/b2.md", "other/é.md"]),
    (Filter(acl=("x", "board"), path_prefix="docs/b"), ["docs/b%.md", "docs/b2.md"]),
    (Filter(lang="de", path_prefix="docs/"), ["docs/b2.md"]),
    (Filter(tenant="green"), []),
]


@pytest.mark.parametrize(("where", "expected"), FILTERS, ids=lambda value: repr(value)[:60])
def test_a_filter_holds_in_both_legs(library, where, expected):
    names = sorted(f"{name}#0" for name in expected)
    by_keyword = library.keyword_search(terms("shared text"), 10, where)
    by_vector = library.vector_search(vector_of("anything"), 10, where)
    assert sorted(found(library, by_keyword)) == names
    assert sorted(found(library, by_vector)) == names
    everything = {m.key: m.score for m in library.keyword_search(terms("shared text"), 10)}
    assert all(match.score == everything[match.key] for match in by_keyword)


def test_among_limits_a_search_and_leaves_the_scores(library):
    every = library.keyword_search(terms("shared text"), 10)
    chosen = [every[3].key, every[1].key, 10**12, "no such key"]
    among = library.keyword_search(terms("shared text"), 10, among=chosen)
    assert among == [every[1], every[3]]
    near_all = library.vector_search(vector_of("anything"), 10)
    chosen = [near_all[4].key, near_all[0].key]
    assert library.vector_search(vector_of("anything"), 10, among=chosen) == [
        near_all[0],
        near_all[4],
    ]
    assert library.vector_search(vector_of("anything"), 1, among=chosen) == near_all[:1]
    assert library.vector_search(vector_of("anything"), 10, among=[]) == []
    assert library.keyword_search(terms("shared"), 10, among=[]) == []
    where = Filter(documents=("docs/a_1.md",))
    keys = [match.key for match in every]
    assert found(library, library.keyword_search(terms("shared"), 9, where, keys)) == [
        "docs/a_1.md#0"
    ]


def test_neighbours_are_those_before_and_after(place):
    store = place.build()
    fill(store, [make("book", *(f"Chapter {i}." for i in range(6))), make("other", "Alone.")])
    keys = [key for key, _ in store.document_passages("book")]
    order = {key: i for i, key in enumerate(keys)}

    def around(i, **reach):
        return [order[key] for key, _ in store.neighbours(keys[i], **reach)]

    assert around(2) == [1, 3]
    assert around(0) == [1]
    assert around(5) == [4]
    assert around(3, before=2, after=0) == [1, 2]
    assert around(0, before=9, after=9) == [1, 2, 3, 4, 5]
    (alone,) = store.document_passages("other")
    assert store.neighbours(alone[0]) == []


def test_a_gap_left_by_the_guard_is_skipped_over(place):
    document, passages = make("book", *(f"Chapter {i}." for i in range(4)))
    store = place.build()
    fill(store, [(document, [passages[0], passages[3]])])
    (first, _), (last, _) = store.document_passages("book")
    assert [key for key, _ in store.neighbours(first)] == [last]


def test_passages_come_in_the_order_asked(fruits):
    keys = [key for key, _ in fruits.document_passages("fruit/apple.md")]
    asked = [keys[1], 10**15, keys[0], "elsewhere", keys[1]]
    assert [p.order_index if p else None for p in fruits.passages(asked)] == [1, None, 0, None, 1]


def test_of_two_documents_at_one_url_links_lead_to_the_first_by_id(place):
    store = place.build()
    url = "https://twice.example/page"
    later, first = make("b", "Later.", url=url), make("a", "First.", url=url)
    source = make("source", "See there.", links=[url, f"{url}#part"])
    fill(store, [source, later])
    assert {link.target for _, link in store.links(["source"])} == {"b"}
    fill(store, [source, later, first])
    assert [link.target for _, link in store.links(["source"])] == ["a", "a"]
    fill(store, [source, first, later])
    assert [link.target for _, link in store.links(["source"])] == ["a", "a"]


def test_links_lead_to_documents_by_id_or_url(fruits):
    assert [(s, link.href, link.target) for s, link in fruits.links(["fruit/pear.md"])] == [
        ("fruit/pear.md", "fruit/apple.md", "fruit/apple.md"),
        ("fruit/pear.md", "https://quince.example", "quince"),
    ]
    assert fruits.links(["fruit/apple.md", "nothing"]) == []


def test_a_link_is_resolved_once_its_target_arrives(place):
    store = place.build()
    links = ["b", "b#part", "https://b.example/page#x", "#here", "a", "https://nowhere.example"]
    a = make("a", "Text.", links=links)
    fill(store, [a])
    assert store.links(["a"]) == []
    assert store.info().links == 0
    fill(store, [a, make("b", "Text.", url="https://b.example/page")])
    assert [(link.href, link.target) for _, link in store.links(["a"])] == [
        ("b", "b"),
        ("b#part", "b"),
        ("https://b.example/page#x", "b"),
    ]
    fill(store, [a, make("b", "Text.", url="https://moved.example")])
    assert [link.href for _, link in store.links(["a"])] == ["b", "b#part"]
    fill(store, [a])
    assert store.links(["a"]) == []


def test_pagerank_is_stored_and_sums_to_one(place):
    store = place.build()
    hub = make("hub", "Hub.")
    leaves = [make(f"leaf-{i}", "Leaf.", links=["hub", "hub"]) for i in range(4)]
    fill(store, [hub, *leaves])
    names = [summary.id for summary in store.documents()]
    ranks = store.pagerank([*names, "nothing"])
    assert set(ranks) == set(names)
    assert sum(ranks.values()) == pytest.approx(1)
    assert max(ranks, key=ranks.__getitem__) == "hub"
    assert {s.id: s.pagerank for s in store.documents()} == dict(ranks)


def test_the_version_changes_with_the_content_and_only_then(place):
    store = place.build()
    fill(store, FRUITS)
    first = store.info().version
    fill(store, FRUITS)
    assert store.info().version == first
    fill(store, FRUITS[:2])
    assert store.info().version != first


def test_a_reader_sees_a_finished_build_at_its_next_call(place):
    store = place.build()
    fill(store, FRUITS)
    reader = place.read()
    assert keyword(reader, "jelly") == []
    fill(store, [*FRUITS, make("jelly", "Jelly is sweet.")])
    assert keyword(reader, "jelly") == ["jelly#0"]


def test_nothing_is_seen_before_the_commit(place):
    store = place.build()
    fill(store, FRUITS)
    before = snapshot(store)
    document, passages = make("jelly", "Jelly is sweet.")
    with store.writer(**EMBEDDER) as writer:
        writer.stage(document, passages, np.ones((1, DIM), np.float32))
        assert snapshot(store) == before
    assert snapshot(store) == before
    assert keyword(store, "jelly") == []


def test_staged_work_is_found_by_the_next_writer(place):
    store = place.build()
    fill(store, [APPLE])
    document, passages = PEAR
    with store.writer(**EMBEDDER) as writer:
        writer.stage(document, passages, [vector_of(p.indexed_text) for p in passages])
    with store.writer(**EMBEDDER) as writer:
        assert writer.source_hashes() == {
            "fruit/apple.md": APPLE[0].source_hash,
            "fruit/pear.md": PEAR[0].source_hash,
        }
        assert list(writer.known_vectors([passages[0].content_hash])) == [passages[0].content_hash]
        writer.keep("fruit/apple.md")
        writer.keep("fruit/pear.md")
        summary = writer.commit()
    assert (summary.added, summary.unchanged) == (1, 1)
    assert keyword(store, "pears") == ["fruit/pear.md#0"]


def test_staged_work_nobody_claims_is_dropped_by_a_pruning_commit(place):
    store = place.build()
    fill(store, [APPLE])
    with store.writer(**EMBEDDER) as writer:
        writer.stage(PEAR[0], PEAR[1], [vector_of(p.indexed_text) for p in PEAR[1]])
    fill(store, [APPLE])
    with store.writer(**EMBEDDER) as writer:
        assert set(writer.source_hashes()) == {"fruit/apple.md"}


def test_vectors_of_unchanged_text_are_known_in_a_changed_document(place):
    store = place.build()
    fill(store, FRUITS)
    hashes = [passage.content_hash for passage in APPLE[1]]
    with store.writer(**EMBEDDER) as writer:
        known = writer.known_vectors([*hashes, "nothing"])
    assert set(known) == set(hashes)
    assert np.allclose(known[hashes[0]], vector_of(APPLE[1][0].indexed_text), atol=1e-3)


def test_another_embedder_is_refused(place):
    store = place.build()
    fill(store, FRUITS)
    for other in ({"embedder_version": "made-up-2"}, {"dim": 8}, {"embedder": "else"}):
        with pytest.raises(EmbedderMismatch, match="reembed"):
            store.writer(**{**EMBEDDER, **other})
    assert fill(store, FRUITS).unchanged == 3


def test_a_passage_of_another_embedder_is_refused(place):
    store = place.build()
    document, passages = APPLE
    strangers = [replace(passage, embedder_version="older") for passage in passages]
    with store.writer(**EMBEDDER) as writer, pytest.raises(EmbedderMismatch):
        writer.stage(document, strangers, np.ones((2, DIM), np.float32))


class MadeUp:
    """An embedder whose vectors are those of ``fill``, or with ``salt`` are others."""

    name, window = "made-up", 512

    def __init__(self, version="made-up-1", dim=DIM, salt=""):
        self.version, self.dim, self.salt = version, dim, salt

    def embed_passages(self, texts, progress=None):
        return np.array([vector_of(text + self.salt, self.dim) for text in texts], np.float32)

    def embed_query(self, text):
        return vector_of(text + self.salt, self.dim)

    def similarity(self, cosine):
        return max(cosine, 0.0)


def first_hit(store, embedder) -> str:
    """What a search by vector finds first, asked for the very text of a passage."""
    library = Library(store, embedder=embedder)
    (hit,) = library.search(APPLE[1][0].indexed_text, 1, mode="vector").hits
    return hit.passage.id


@pytest.mark.parametrize(
    ("embedder", "said"),
    [
        (MadeUp("made-up-2"), "made-up-1, these are of made-up-2"),
        (MadeUp(dim=8), "16 dimensions, those of made-up have 8"),
    ],
    ids=["version", "dimension"],
)
def test_a_library_refuses_an_embedder_the_store_was_not_built_with(fruits, embedder, said):
    assert first_hit(fruits, MadeUp()) == APPLE[1][0].id
    with pytest.raises(EmbedderMismatch, match=said) as caught:
        first_hit(fruits, embedder)
    assert caught.value.fix
    assert "\n" not in str(caught.value)


def test_a_store_without_a_recorded_version_is_held_to_its_vectors_and_says_so(place, caplog):
    fill(place.build(), FRUITS, embedder="", embedder_version="")
    store = place.read()
    assert store.info().embedder_version == ""
    assert first_hit(store, MadeUp("any-9")) == APPLE[1][0].id
    assert "does not record which embedder" in caplog.text
    for wrong, said in (
        (MadeUp(dim=8), "16 dimensions, those of made-up have 8"),
        (MadeUp(salt="!"), "not those of made-up: their cosine"),
    ):
        with pytest.raises(EmbedderMismatch, match=said):
            first_hit(store, wrong)
    with pytest.raises(EmbedderMismatch, match="an unnamed embedder"):
        store.writer(**EMBEDDER)


def test_an_open_library_notices_that_its_store_was_embedded_anew(place):
    store = place.build()
    fill(store, FRUITS)
    library = Library(place.read(), embedder=MadeUp())
    assert library.search("apples", 1, mode="vector").hits
    with store.writer(**{**EMBEDDER, "embedder_version": "2"}, allow_mismatch=True) as writer:
        for document, passages in FRUITS:
            unversioned = [replace(passage, embedder_version="") for passage in passages]
            writer.stage(document, unversioned, vectors_of(passages)[:, ::-1])
        writer.commit()
    with pytest.raises(EmbedderMismatch, match="holds vectors of embedder 2"):
        library.search("apples", 1, mode="vector")


def test_a_question_of_another_dimension_is_refused(fruits):
    with pytest.raises(EmbedderMismatch):
        fruits.vector_search(np.ones(DIM + 1, np.float32), 5)


def test_only_one_build_at_a_time(place):
    store = place.build()
    fill(store, FRUITS)
    with store.writer(**EMBEDDER), pytest.raises(StoreBusy, match="another build"):
        place.build().writer(**EMBEDDER)
    with store.writer(**EMBEDDER) as writer:
        for document, _ in FRUITS:
            writer.keep(document.id)
        writer.commit()


def test_an_empty_store_answers_with_nothing(place):
    fill(place.build(), [])
    store = place.read()
    assert store.info().documents == 0
    assert list(store.documents()) == []
    assert store.vector_search(vector_of("x"), 5) == []
    assert store.vector_search(vector_of("x"), 5, Filter(lang="en")) == []
    assert store.keyword_search(["x"], 5) == []
    assert store.term_statistics(["x"]).frequency == {"x": 0}
    assert store.passages([1]) == [None]
    assert store.pagerank(["x"]) == {}
    assert store.vectors([1]).shape == (1, DIM)


def test_a_store_can_be_emptied_and_filled_again(place):
    store = place.build()
    fill(store, FRUITS)
    assert fill(store, []).removed == 3
    assert store.keyword_search(terms("apple"), 5) == []
    fill(store, FRUITS)
    assert keyword(store, "orchard") == ["fruit/apple.md#1"]


def test_a_document_without_passages_is_still_a_document(place):
    store = place.build()
    fill(store, [make("empty"), APPLE])
    assert store.document("empty") is not None
    assert store.document_passages("empty") == []
    assert [summary.passages for summary in store.documents()] == [0, 2]


def test_what_was_built_is_there_when_opened_again(place):
    store = place.build()
    fill(store, FRUITS)
    before, matches = snapshot(store), store.vector_search(vector_of("x"), 4)
    store.close()
    store.close()
    again = place.read()
    assert snapshot(again) == before
    assert again.vector_search(vector_of("x"), 4) == matches


HOSTILE = [
    "Robert'); DROP TABLE passages; --",
    'title:apple AND NOT (pear OR *) "unbalanced ^2 ~ [a TO b] {x} \\ / ?',
    "nul \0 inside, and a bell \a, and an escape \x1b[31m",
    "日本語の文章です。漢字と仮名。",
    "Ünïcödé 🦜 naïve café ﬁ ligature \u202e reversed \ufeff mark",
    "% _ * ? [a-z] LIKE GLOB",
    "lone \ud800 surrogate",
    "x" * 600 + " end",
    "<script>alert(1)</script> &amp; {{ template }} ${shell} `backtick`",
    "\n\n   \t ",
]


def test_hostile_text_is_text(place):
    names = [f"{i} {text[:40]}".replace("\ud800", "?") for i, text in enumerate(HOSTILE)]
    store = place.build()
    fill(
        store,
        [
            make(name, text, title=text, url=f"u:{text}", metadata={text: text}, links=[text])
            for name, text in zip(names, HOSTILE, strict=True)
        ],
    )
    for name, text in zip(names, HOSTILE, strict=True):
        stored = text.replace("\ud800", "\ufffd")
        document = store.document(name)
        assert document is not None
        assert (document.title, document.text) == (stored, f"{stored}\n\n")
        assert document.metadata == {stored: stored}
        ((key, passage),) = store.document_passages(name)
        assert document.text[passage.start : passage.end] == passage.text == stored
        assert found(store, store.vector_search(vector_of("q"), 99, Filter(metadata={text: text})))
        assert found(store, store.vector_search(vector_of("q"), 1, Filter(path_prefix=name))) == [
            passage.id
        ]
        for match in store.keyword_search([*terms(text), text, "", "a b"], 99):
            assert match.score > 0
        if terms(text):
            hits = store.keyword_search(terms(text), 99)
            assert key in [match.key for match in hits]


def test_accents_and_case_do_not_hide_a_word(place):
    store = place.build()
    fill(store, [make("a", "Ein Café in Zürich."), make("b", "os.path.join joins paths")])
    assert keyword(store, "ZURICH cafe") == ["a#0"]
    assert keyword(store, "os.path.join")[0] == "b#0"


def rounds(number: int) -> list:
    """A state of a store in which every document tells which one it is."""
    return [
        make(f"doc-{i}", f"common words of round {number}", metadata={"round": str(number)})
        for i in range(20)
    ]


def look(store) -> tuple[str, ...]:
    """What one look at a store finds wrong, as short names; nothing when all agrees."""
    wrong = []
    if len(store.keyword_search(terms("common"), 99)) != 20:
        wrong.append("keyword")
    if len({match.key for match in store.vector_search(vector_of("q"), 99)}) != 20:
        wrong.append("vector")
    if len(store.vector_search(vector_of("q"), 99, Filter(lang="en"))) != 20:
        wrong.append("filter")
    if len({summary.metadata["round"] for summary in store.documents()}) != 1:
        wrong.append("documents")
    return tuple(wrong)


def test_threads_read_while_one_builds(place):
    store = place.build()
    fill(store, rounds(0))
    reader = place.read()
    stop, wrong, looks = threading.Event(), [], []

    def read() -> None:
        try:
            while not looks or not stop.is_set():
                wrong.extend(look(reader))
                looks.append(1)
                time.sleep(0.01)  # leaves the builder a core on a small machine
        except Exception as error:
            wrong.append(repr(error))
            raise

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 7):
        fill(store, rounds(number))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert looks
    assert {s.metadata["round"] for s in reader.documents()} == {"6"}


READ_ALONG = """
import sys, time
sys.path[:0] = sys.argv[2:]
from packwise.stores.locate import open_store
from test_store_conformance import look
store = open_store(sys.argv[1])
print("ready", flush=True)
while True:
    wrong = look(store)
    if wrong:
        sys.exit(f"wrong: {wrong}")
    if next(store.documents()).metadata["round"] == "last":
        break
    time.sleep(0.01)  # leaves the builder a core on a small machine
print("saw the last round", flush=True)
"""


def test_processes_read_while_one_builds(place):
    store = place.build()
    fill(store, rounds(0))
    here = [path for path in sys.path if path]
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READ_ALONG, place.location, *here],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        for number in range(1, 5):
            fill(store, rounds(number))
        fill(store, rounds("last"))
        for reader in readers:
            out, err = reader.communicate(timeout=PATIENCE)
            assert (reader.returncode, out) == (0, "saw the last round\n"), err
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


def test_given_passages_score_as_in_a_search(fruits):
    """A store that scores them directly gives what both of its searches give."""
    if not supports(fruits, DirectScores):
        pytest.skip("it scores passages by searching among them")
    keys = [key for d, _ in FRUITS for key, _ in fruits.document_passages(d.id)]
    vector, asked = vector_of("a question"), terms("green apples grow", "en")
    missing = 999_999_999
    for where in (Filter(), Filter(path_prefix="fruit/")):
        there, near, words = fruits.score_passages(vector, asked, [*keys, missing], where)
        cosines = {match.key: match.score for match in fruits.vector_search(vector, 10, where)}
        scores = {match.key: match.score for match in fruits.keyword_search(asked, 10, where)}
        assert [key for key, shown in zip(keys, there, strict=False) if shown] == sorted(cosines)
        assert near.tolist() == pytest.approx([cosines.get(key, 0.0) for key in [*keys, missing]])
        assert words.tolist() == pytest.approx([scores.get(key, 0.0) for key in [*keys, missing]])
        assert not there[-1]
    there, near, words = fruits.score_passages(None, asked, keys, Filter())
    assert there.all()
    assert not near.any()
    assert words.any()
    assert fruits.score_passages(vector, (), [], Filter())[0].tolist() == []


def test_a_store_tells_which_terms_given_passages_hold(fruits):
    if not supports(fruits, DirectScores):
        pytest.skip("it scores passages by searching among them")
    ((apple, _), _) = fruits.document_passages("fruit/apple.md")
    ((pear, _),) = fruits.document_passages("fruit/pear.md")
    grow, green, tree = terms("grow green trees", "en")
    held = fruits.terms_held([apple, pear, 999_999_999], [grow, green, tree])
    assert held == {apple: {grow, tree}, pear: {green}}
    assert fruits.terms_held([], [grow]) == {}

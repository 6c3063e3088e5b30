"""A passage that is stored twice is found once."""

import json

import pytest

import packwise
from packwise.candidates import FUSIONS, MODES
from packwise.retrieval.copies import DistinctPassages
from packwise.stores.base import Match

ROWS = [
    {"id": "a", "title": "A", "url": "https://x.test/keys", "text": "Keys hang by the door."},
    {"id": "b", "title": "B", "url": "https://x.test/keys", "text": "Keys hang near the door."},
    {"id": "c", "title": "C", "url": "https://x.test/more", "text": "Keys hang above the door."},
    {"id": "d", "title": "D", "url": "", "text": "Keys hang by the door."},
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeated")
    source = folder / "rows.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    packwise.build([str(source)], str(folder / "pack"))
    with packwise.open(str(folder / "pack")) as opened:
        yield opened


def test_one_place_of_one_page_and_one_text_are_shown_once(library):
    ranking = library.search("Where do the keys hang?")
    found = [hit.passage for hit in ranking.hits]
    assert [p.url for p in found].count("https://x.test/keys") == 1
    assert [p.text for p in found].count("Keys hang by the door.") <= 1
    assert "https://x.test/more" in [p.url for p in found]
    dropped = {drop.id.partition("#")[0] for drop in ranking.trace.dropped}
    assert dropped | {p.document for p in found} >= {"c"}
    assert len(dropped) == len(ROWS) - len(found)
    assert all(drop.reason.startswith("same text as ") for drop in ranking.trace.dropped)


@pytest.fixture
def copies(tmp_path):
    """The keys of three copies of one text and of one other text, with their store."""
    texts = dict.fromkeys("abc", "Keys hang by the door.") | {"d": "Doors open at noon."}
    rows = [{"id": name, "title": "T", "text": text} for name, text in texts.items()]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    packwise.build([str(source)], str(tmp_path / "pack"))
    with packwise.open(str(tmp_path / "pack")) as library:
        keys = [library.store.document_passages(name)[0][0] for name in "abcd"]
        yield keys, library.store


def test_a_leg_is_searched_deeper_only_for_copies(copies):
    keys, store = copies
    asked = []

    def search(depth):
        asked.append(depth)
        return [Match(key, 1.0) for key in keys][:depth]

    a, _, c, d = keys
    assert list(DistinctPassages(store).best(search, 2, search(2))) == [a, d]
    assert asked == [2, 8]
    found = [Match(c, 0.9), Match(d, 0.8)]
    assert DistinctPassages(store).best(search, 2, found) == {c: 0.9, d: 0.8}
    assert asked == [2, 8]


def test_both_legs_hold_the_same_copy(copies):
    (a, b, _, d), store = copies
    passages = DistinctPassages(store)
    passages.first([a, b, d], 3)
    keyword = {a: 5.0, d: 2.0}
    passages.align({b: 0.9}, keyword)
    assert keyword == {b: 5.0, d: 2.0}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fusion", FUSIONS)
def test_versions_of_one_page_take_one_place(tmp_path, mode, fusion):
    versions = [
        {"id": f"v{n}", "url": "https://x.test/crane", "text": f"The crane is greased {n} times."}
        for n in range(40)
    ]
    others = [
        {"id": f"o{n}", "url": f"https://x.test/{n}", "text": f"A crane of team {n} was greased."}
        for n in range(15)
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in (*versions, *others)))
    packwise.build([str(source)], str(tmp_path / "pack"))
    with packwise.open(str(tmp_path / "pack")) as library:
        ranking = library.search("how often is the crane greased?", mode=mode, fusion=fusion)
    urls = [hit.passage.url for hit in ranking.hits]
    assert len(urls) == len(set(urls)) == 10
    dropped = [drop.id for drop in ranking.trace.dropped]
    assert len(set(dropped)) == len(dropped) == (39 if versions[0]["url"] in urls else 0)

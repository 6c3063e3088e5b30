"""A small change writes a segment beside the whole indexes; searches find the same as ever."""

import json
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_world import DIM, fill, make, vector_of

from packwise.candidates import Filter
from packwise.errors import StoreError
from packwise.language.analyzer import terms
from packwise.stores.pack import index as pack_index
from packwise.stores.pack import index_writer
from packwise.stores.pack.copy import copy_pack
from packwise.stores.pack.repair import repair
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate

PEOPLE = ["Raoul Walsh", "Miriam Cooper", "Xenia Markov"]
TITLES = ["Jump for Glory", "Blue Harbour", "Red Mill", "Blue Harbour (film)"]
QUESTIONS = ["who directed blue harbour", "raoul walsh wed", "note red mill 3"]


@pytest.fixture(autouse=True)
def small_graphs(monkeypatch):
    monkeypatch.setattr(pack_index, "EXACT_LIMIT", 8)
    monkeypatch.setattr(index_writer, "MOST_GONE", 0.5)


def note(number: int, version: int = 0):
    """A document that names people and other titles, and links to others; versions differ in
    text, every third in title and address too."""
    who = PEOPLE[(number + version) % 3]
    other = TITLES[(number + 2 * version) % 4]
    title = TITLES[(number + version // 3) % 4] if number % 2 else f"Note {number}"
    links = [f"note-{(number + version + 1) % 12:02}"] if number % 3 else ["at/3"]
    return make(
        f"note-{number:02}",
        f"{who} directed {other} in {number}.",
        *(f"Note {i} on {who}, version {version}." for i in range(version % 3)),
        title=title,
        links=links,
        url=f"at/{number + version // 3}",
        metadata={"tenant": f"t{number % 2}"},
    )


def answers(store) -> list:
    """What every search finds, scores included, and what the store says of each passage."""
    keys = [key for s in store.documents() for key, _ in store.document_passages(s.id)]
    graph = store.name_graph()
    names = [name.lower() for name in (*PEOPLE, *TITLES)]
    found = []
    for question in QUESTIONS:
        asked, vector = terms(question), vector_of(question)
        there, near, words = store.score_passages(vector, asked, [*keys, 10**6], Filter())
        found += [
            *(store.vector_search(vector, k) for k in (1, 5, 99)),
            store.vector_search(vector, 5, Filter(tenant="t1")),
            store.vector_search(vector, 5, among=keys[::3]),
            *(store.keyword_search(asked, k) for k in (1, 5, 99)),
            store.keyword_search(asked, 5, Filter(tenant="t1")),
            store.keyword_search(asked, 5, among=[1, 2, 3, *keys[::3]]),
            store.term_statistics(asked),
            store.terms_held(keys, asked),
            (there.tolist(), near.tolist(), words.tolist()),
        ]
    return [
        *found,
        store.vectors(keys).tolist(),
        store.vector_search(np.zeros(DIM, np.float32), 4),
        {k: sorted_name(v) for k, v in graph.names(names).items()},
        dict(sorted(graph.surroundings([1, 2, *keys], frozenset(), 4).items())),
    ]


def sorted_name(name):
    return name.id, name.key, name.documents, name.edges


def content(folder) -> list:
    """What the tables say, without the keys of rows."""
    with closing(sqlite3.connect(folder / "pack.sqlite")) as connection:
        return [
            sorted(connection.execute(query).fetchall())
            for query in (
                "SELECT name, passages, known FROM entities",
                "SELECT d.id, p.position, e.name, m.sure, m.linked FROM mentions AS m"
                " JOIN passages AS p ON p.key = m.passage JOIN documents AS d"
                " ON d.key = p.document JOIN entities AS e ON e.key = m.entity",
                "SELECT e.name, d.id, a.position FROM aliases AS a JOIN documents AS d"
                " ON d.key = a.document JOIN entities AS e ON e.key = a.entity",
                "SELECT d.id, t.id FROM links AS k JOIN documents AS d ON d.key = k.document"
                " JOIN documents AS t ON t.key = k.target",
                "SELECT d.id, round(r.pagerank, 9) FROM ranks AS r JOIN documents AS d"
                " ON d.key = r.document",
                "SELECT content_hash FROM vectors",
            )
        ]


def bases(folder) -> dict[str, str]:
    """Each folder of indexes, and what it belongs to."""
    return {
        path.parent.name: json.loads(path.read_text()).get("base", "")
        for path in (folder / "index").glob("*/index.json")
    }


def expect_as_made_anew(folder, versions, scratch) -> None:
    assert validate(folder) == []
    shutil.copytree(folder, scratch / "again")
    shutil.rmtree(scratch / "again" / "index")
    with open_pack(folder) as changed, open_pack(scratch / "again") as anew:
        for mine, other in zip(answers(changed), answers(anew), strict=True):
            assert mine == other
    with create_or_open_pack(scratch / "fresh") as store:
        fill(store, [note(n, v) for n, v in sorted(versions.items())])
    assert content(folder) == content(scratch / "fresh")


STEPS = st.lists(
    st.tuples(st.integers(0, 11), st.sampled_from(["gone", 1, 2, 3, 4])), min_size=1, max_size=3
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=2, max_size=4))
def test_any_changes_leave_what_a_fresh_build_would(tmp_path_factory, steps):
    scratch = tmp_path_factory.mktemp("steps")
    folder, versions = scratch / "pack", dict.fromkeys(range(1, 12), 0)
    for changes in [[], *steps]:
        for number, version in changes:
            versions[number] = version
            if version == "gone":
                del versions[number]
        with create_or_open_pack(folder) as store:
            fill(store, [note(n, v) for n, v in sorted(versions.items())])
    expect_as_made_anew(folder, versions, scratch)


@pytest.fixture
def pack(tmp_path):
    """A pack with whole indexes of generation 1 and a segment of generation 3."""
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(store, [note(n) for n in range(12)])
        fill(store, [note(n, int(n == 4)) for n in range(12)])
        fill(store, [note(n, int(n in (4, 5))) for n in range(12)])
    return tmp_path / "pack"


VERSIONS = {n: int(n in (4, 5)) for n in range(12)}


def test_small_changes_write_segments_and_keep_the_whole_indexes(pack, tmp_path):
    whole = (pack / "index" / "1" / "vectors.usearch").stat()
    found = bases(pack)
    assert found.keys() == {"1", "3"}
    assert found["3"].startswith("1-")
    assert not (pack / "index" / "3" / "keywords").exists()
    assert (pack / "index" / "1" / "vectors.usearch").stat() == whole
    expect_as_made_anew(pack, VERSIONS, tmp_path)


@pytest.mark.parametrize(("limit", "value"), [("MOST_RECENT", 3), ("MOST_GONE", 0.1)])
def test_a_segment_that_is_no_longer_small_is_merged(pack, tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(index_writer, limit, value)
    versions = {**VERSIONS, 6: 1}
    with create_or_open_pack(pack) as store:
        fill(store, [note(n, v) for n, v in versions.items()])
    assert bases(pack) == {"4": ""}
    expect_as_made_anew(pack, versions, tmp_path)


def test_few_passages_have_no_segment(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_index, "EXACT_LIMIT", 5000)
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(store, [note(n) for n in range(12)])
        fill(store, [note(n, int(n == 4)) for n in range(12)])
    assert bases(tmp_path / "pack") == {"2": ""}


@pytest.mark.parametrize("name", ["1/vectors.f16", "1/index.json", "3/keys.i64", "3/names.bin"])
def test_damage_in_either_part_is_found_and_made_good(pack, tmp_path, name):
    with open_pack(pack) as store:
        expected = answers(store)
    path = pack / "index" / name
    held = path.read_bytes()
    path.write_bytes(held[:-9] + bytes([held[-9] ^ 1]) + held[-8:])
    assert any("index" in problem for problem in validate(pack))
    with open_pack(pack) as store:
        assert answers(store) == expected
    assert validate(pack) == []
    # The next build removes what is no longer needed.
    versions = {**VERSIONS, 6: 1}
    with create_or_open_pack(pack) as store:
        fill(store, [note(n, v) for n, v in versions.items()])
    assert bases(pack).keys() == {"3", "4"}
    expect_as_made_anew(pack, versions, tmp_path)


def test_a_reader_goes_from_segment_to_segment(pack):
    with open_pack(pack) as reader:
        answers(reader)
        for version in (2, 3, 4):
            versions = {**VERSIONS, 6: version}
            with create_or_open_pack(pack) as store:
                fill(store, [note(n, v) for n, v in versions.items()])
                assert answers(reader) == answers(store)


def test_a_copy_has_both_parts(pack, tmp_path):
    copy_pack(pack, tmp_path / "copy")
    assert bases(tmp_path / "copy") == bases(pack)
    assert validate(tmp_path / "copy") == []
    with open_pack(pack) as store, open_pack(tmp_path / "copy") as copy:
        assert answers(store) == answers(copy)


def test_a_repair_writes_whole_indexes(pack, tmp_path):
    repair(pack)
    assert bases(pack) == {"4": ""}
    expect_as_made_anew(pack, VERSIONS, tmp_path)


def disk_trouble(*_):
    raise OSError(5, "the disk is gone")


def test_a_build_that_fails_before_its_commit_leaves_both_parts(pack, monkeypatch):
    with open_pack(pack) as store:
        expected = answers(store)
    monkeypatch.setattr("packwise.stores.pack.writer.prepare_manifest", disk_trouble)
    with create_or_open_pack(pack) as store, pytest.raises(StoreError, match="the disk is gone"):
        fill(store, [note(n, 2 * v) for n, v in VERSIONS.items()])
    assert bases(pack).keys() == {"1", "3"}
    with open_pack(pack) as store:
        assert answers(store) == expected


def test_what_a_build_left_after_its_commit_is_removed_by_the_next(pack, tmp_path):
    versions = {**VERSIONS, 6: 1}
    notes = [note(n, v) for n, v in versions.items()]
    with create_or_open_pack(pack) as store:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("packwise.stores.pack.writer.PackWriter._tidy", lambda *_: None)
            fill(store, notes)
        assert bases(pack).keys() == {"1", "3", "4"}
        fill(store, notes)
    assert bases(pack).keys() == {"1", "4"}
    expect_as_made_anew(pack, versions, tmp_path)

"""What only a real server can show."""

import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from more_places import QdrantGrpcPlace, QdrantPlace
from store_world import EMBEDDER, fill, found, keyword, make, snapshot, vector_of, vectors_of

from packwise.candidates import Filter
from packwise.errors import StoreBusy, StoreError, StoreMissing
from packwise.language.analyzer import terms
from packwise.language.names import ExtractedEntity, ExtractedRelation, Extraction
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.pack.store import create_or_open_pack
from packwise.stores.qdrant import commit, lease
from packwise.stores.qdrant.commit import QdrantCommit
from qdrant_server import Qdrant, Unavailable

APPLE = make("fruit/apple", "Apples grow on trees.", "An orchard holds many apple trees.")
PEAR = make("fruit/pear", "Pears are green.", metadata={"tenant": "t", "acl": "a, b", "space": "s"})


@pytest.fixture
def place(tmp_path):
    place = QdrantPlace(tmp_path)
    yield place
    place.close()


@pytest.fixture
def client(place):
    from qdrant_client import QdrantClient

    url = place.location.removeprefix("qdrant+").rpartition("/")[0]
    client = QdrantClient(url=url, check_compatibility=False)
    yield client
    client.close()


def name_of(place) -> str:
    return place.location.rpartition("/")[2]


def test_points_carry_what_a_context_builder_asks_for(place, client):
    fill(place.build(), [APPLE, PEAR])
    about = client.get_collection(name_of(place))
    assert {"tenant", "spaceId", "acl", "lang"} <= set(about.payload_schema)
    assert about.payload_schema["tenant"].params.is_tenant
    assert about.config.params.vectors["dense"].distance == "Cosine"
    assert about.config.params.sparse_vectors["terms"].modifier == "idf"
    points, _ = client.scroll(name_of(place), limit=1000)
    (pear,) = [
        p.payload
        for p in points
        if p.payload.get("document") == "fruit/pear" and "text" in p.payload
    ]
    expected = {
        "sectionPath": ["Part 0"],
        "orderIndex": 0,
        "header": "Part 0",
        "docTitle": "About fruit/pear",
        "embedderVersion": "made-up-1",
        "tenant": "t",
        "spaceId": "s",
        "acl": ["a", "b"],
        "lang": "en",
    }
    assert {name: pear[name] for name in expected} == expected


def test_both_legs_in_one_request_find_what_either_finds(place):
    store = place.build()
    fill(store, [APPLE, PEAR, make("quince", "Quinces are hard.")])
    question = vector_of(PEAR[1][0].indexed_text)
    matches = store.hybrid_search(question, terms("orchard"), 2)
    assert set(found(store, matches)) == {"fruit/pear#0", "fruit/apple#1"}
    assert [m.score for m in matches] == sorted((m.score for m in matches), reverse=True)
    only = store.hybrid_search(question, terms("orchard"), 5, Filter(acl=("x",)))
    assert "fruit/pear#0" not in found(store, only)
    assert found(store, store.hybrid_search(question, [], 1)) == ["fruit/pear#0"]


def test_grpc_answers_as_http_does(place, tmp_path):
    fill(place.build(), [APPLE, PEAR])
    other = QdrantGrpcPlace(tmp_path)
    port = other.location.partition("grpc=")[2]
    with open_store(f"{place.location}?grpc={port}") as grpc, open_store(place.location) as http:
        assert snapshot(grpc) == snapshot(http)
        asked = terms("apple trees green")
        assert grpc.keyword_search(asked, 5) == http.keyword_search(asked, 5)
        near = grpc.vector_search(vector_of("x"), 5)
        assert [m.key for m in near] == [m.key for m in http.vector_search(vector_of("x"), 5)]
    fill(other.build(), [APPLE])
    assert keyword(other.read(), "orchard") == ["fruit/apple#1"]
    with pytest.raises(StoreMissing):
        open_store(f"{other.location}".replace("/test-", "/none-"))
    other.close()


def corpus(count: int) -> list:
    """Passages of very unequal length over few words, so that BM25 has much to tell apart."""
    random = np.random.default_rng(7)
    words = [f"word{i}" for i in range(40)]
    weights = 1 / np.arange(1, 41)
    weights /= weights.sum()
    return [
        make(f"d{i:03}", " ".join(random.choice(words, random.integers(3, 120), p=weights)))
        for i in range(count)
    ]


def test_keyword_search_equals_the_packs_through_every_change(place, tmp_path):
    store, pack = place.build(), create_or_open_pack(tmp_path / "pack")
    documents = corpus(240)
    short = [make(f"s{i}", f"word{i} word1") for i in range(60)]
    for state in (documents[:120], documents[60:] + short, documents[:40] + short):
        fill(store, state)
        fill(pack, state)
        for asked in (["word1"], ["word3", "word30"], ["word39", "word2", "word17", "none"]):
            for k in (1, 10, 500):
                ours, theirs = store.keyword_search(asked, k), pack.keyword_search(asked, k)
                # Equal scores are ordered by key, which stores give out in different order.
                assert [m.score for m in ours] == pytest.approx([m.score for m in theirs])
                if k == 500:
                    assert set(found(store, ours)) == set(found(pack, theirs))
    pack.close()


def test_sparse_vectors_are_weighed_again_when_the_average_moves(place):
    store = place.build()
    fill(store, [make(f"s{i}", f"word{i} tail") for i in range(20)])
    before = store.state().weighed
    fill(store, [make(f"l{i}", "long " * 400 + f"word{i}") for i in range(20)])
    assert store.state().weighed > 2 * before
    assert store.state().weighed == pytest.approx(store.state().average_length)


BUILD_UNTIL_KILLED = """
import sys
sys.path[:0] = sys.argv[2:]
from store_world import EMBEDDER, make, vectors_of
from packwise.stores.locate import create_or_open_store
writer = create_or_open_store(sys.argv[1]).writer(**EMBEDDER)
for i in range(10**6):
    document, passages = make(f"doc-{i}", f"Text number {i}.")
    writer.stage(document, passages, vectors_of(passages))
    if i % 10 == 0:
        writer.known_vectors([])
        print(i, flush=True)
"""


def test_a_killed_build_loses_nothing_and_the_next_goes_on(place):
    fill(place.build(), [APPLE])
    here = [path for path in sys.path if path]
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD_UNTIL_KILLED, place.location, *here],
        stdout=subprocess.PIPE,
        text=True,
    )
    while int(process.stdout.readline()) < 30:
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store = place.build()
    assert [summary.id for summary in store.documents()] == ["fruit/apple"]
    with store.writer(**EMBEDDER) as writer:  # at once: the holder of the lease is dead
        staged = [name for name in writer.source_hashes() if name.startswith("doc-")]
        assert len(staged) >= 30
        for name in ("fruit/apple", *staged[:20]):
            writer.keep(name)
        summary = writer.commit()
    assert (summary.added, summary.unchanged) == (20, 1)
    assert store.info().documents == 21
    assert len(store.keyword_search(terms("text number"), 99)) == 20


@pytest.mark.parametrize("step", ["_write_ranks", "_mark", "_reweigh", "_switch"])
def test_a_commit_that_dies_on_the_way_changes_nothing(place, monkeypatch, step):
    store = place.build()
    fill(store, [APPLE, PEAR])
    before = snapshot(store)
    whole = getattr(QdrantCommit, step)

    def die(self, *arguments):
        if step == "_mark":
            whole(self, *arguments)
        raise StoreError("the machine is gone")

    jelly = make("jelly", "Jelly is made of About fruit/apple.")
    with monkeypatch.context() as patch:
        patch.setattr(QdrantCommit, step, die)
        with pytest.raises(StoreError, match="gone"):
            fill(store, [APPLE, jelly])
    assert snapshot(store) == before
    assert keyword(store, "jelly") == []
    assert fill(store, [APPLE, jelly]).added == 1
    assert [summary.id for summary in store.documents()] == ["fruit/apple", "jelly"]
    assert keyword(store, "green") == []
    assert store.term_statistics(terms("apple")).passages == 3


def test_what_died_is_swept_away_once_nobody_can_read_it(place, client, monkeypatch):
    store = place.build()
    monkeypatch.setattr(commit, "_GRACE", -1.0)
    counts = []
    for number in range(6):
        fill(store, [make("a", f"Round {number} of many."), make("b", "Always the same.")])
        counts.append(client.count(name_of(place)).count)
    assert counts[-1] == counts[-2] == counts[-3]


def test_a_rebuild_with_another_embedder_swaps_the_alias(place, client):
    store = place.build()
    fill(store, [APPLE, PEAR])
    reader = place.read()
    with store.writer(**{**EMBEDDER, "dim": 8}, allow_mismatch=True) as writer:
        for document, passages in (APPLE, PEAR):
            writer.stage(document, passages, vectors_of(passages, 8))
        assert len(reader.vector_search(vector_of("x"), 9)) == 3
        writer.commit()
    assert len(reader.vector_search(vector_of("x", 8), 9)) == 3
    assert keyword(reader, "orchard") == ["fruit/apple#1"]
    (alias,) = [a for a in client.get_aliases().aliases if a.alias_name == name_of(place)]
    names = [c.name for c in client.get_collections().collections]
    mine = [name for name in names if name.startswith(f"{name_of(place)}--")]
    assert sorted(mine) == sorted([alias.collection_name, f"{name_of(place)}--build"])


def test_another_machines_build_is_waited_for_until_its_lease_ends(place, monkeypatch):
    store = place.build()
    fill(store, [APPLE])
    late = 0.0
    monkeypatch.setattr(lease, "time", SimpleNamespace(time=lambda: time.time() + late))
    monkeypatch.setattr(lease, "_RENEWAL", 3600.0)  # it is as good as dead
    monkeypatch.setattr(lease.socket, "gethostname", lambda: "elsewhere")
    held = store.writer(**EMBEDDER)
    monkeypatch.setattr(lease.socket, "gethostname", lambda: "here")
    with pytest.raises(StoreBusy, match=r"from elsewhere.*lease ends in"):
        place.build().writer(**EMBEDDER)
    late = 61.0
    with place.build().writer(**EMBEDDER) as writer:
        # The first one came back to life: it must not overwrite what the second does.
        held.stage(*PEAR, vectors_of(PEAR[1]))
        with pytest.raises(StoreBusy, match="took over"):
            held.commit(prune=False)
        writer.keep("fruit/apple")
        writer.commit()
    assert [summary.id for summary in store.documents()] == ["fruit/apple"]


def test_extractions_are_kept_and_handed_out(place):
    store = place.build()
    read = Extraction(
        0,
        (ExtractedEntity("Golden Delicious", "cultivar", "a yellow apple"),),
        relations=(ExtractedRelation("Golden Delicious", "is a kind of", "Apple", "said so"),),
    )
    with store.writer(**EMBEDDER) as writer:
        writer.stage(APPLE[0], APPLE[1], vectors_of(APPLE[1]), [read])
        writer.commit()
    keys = [key for key, _ in store.document_passages("fruit/apple")]
    assert store.extractions(keys) == {keys[0]: read}
    assert store.entities_named(["golden delicious"])["golden delicious"].kind == "cultivar"
    assert [tie.relation for tie in store.relations_of(["apple"], 5)] == ["is a kind of"]


def test_a_key_is_asked_for_and_never_shown(monkeypatch):
    try:
        server = Qdrant(api_key="very-secret")
    except Unavailable as reason:
        pytest.skip(f"no Qdrant server to test on: {reason}")
    try:
        location = f"qdrant+{server.url}/locked"
        with pytest.raises(StoreError, match="PACKWISE_QDRANT_API_KEY") as caught:
            open_store(location)
        assert "very-secret" not in str(caught.value)
        monkeypatch.setenv("PACKWISE_QDRANT_API_KEY", "very-secret")
        with create_or_open_store(location) as store:
            fill(store, [APPLE])
            assert "very-secret" not in repr(store.info())
    finally:
        server.stop()

"""Quick tests on the client's own in-memory mode: no server, no network."""

import numpy as np
import pytest
from store_world import EMBEDDER, fill, keyword, make, near, vector_of

from packwise.errors import EmbedderMismatch, StoreMissing
from packwise.language.analyzer import terms
from packwise.stores import entity_extraction
from packwise.stores.bm25 import term_hash
from packwise.stores.qdrant.points import indexed_prefixes, is_indexed_prefix
from packwise.stores.qdrant.server import QdrantServer, parse_address
from packwise.stores.qdrant.statistics import (
    bm25_scores,
    pack_part,
    pack_terms,
    sparse_vector,
    unpack_part,
    unpack_terms,
)
from packwise.stores.qdrant.store import QdrantStore


@pytest.fixture
def store():
    from qdrant_client import QdrantClient

    client = QdrantClient(":memory:")
    with QdrantStore(
        QdrantServer([client]), parse_address("qdrant+http://localhost/docs")
    ) as opened:
        yield opened


pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]


def test_a_store_is_built_searched_and_changed(store):
    with pytest.raises(StoreMissing, match="packwise build"):
        store.info()
    apple, pear = make("apple", "Apples grow on trees."), make("pear", "Pears are green.")
    assert fill(store, [apple, pear]).added == 2
    assert keyword(store, "trees") == ["apple#0"]
    assert near(store, pear[1][0], 1) == ["pear#0"]
    assert fill(store, [apple, make("pear", "Pears are yellow.")]).changed == 1
    assert keyword(store, "green yellow") == ["pear#0"]
    assert fill(store, [apple]).removed == 1
    assert [summary.id for summary in store.documents()] == ["apple"]


def test_another_embedder_gets_a_collection_of_its_own(store):
    apple = make("apple", "Apples grow on trees.")
    fill(store, [apple])
    first = store.info().details["collection"]
    other = {**EMBEDDER, "embedder_version": "made-up-2", "dim": 8}
    with pytest.raises(EmbedderMismatch):
        store.writer(**other)
    with store.writer(**other, allow_mismatch=True) as writer:
        assert writer.source_hashes() == {}
        writer.stage(apple[0], [], np.zeros((0, 8), np.float32))
        assert store.info().dim == 16
        writer.commit()
    assert store.info().dim == 8
    assert store.info().details["collection"] != first


def test_entities_are_found_again_when_the_rules_change(store, monkeypatch):
    curie = make("curie", "Marie Curie worked in Paris.", "Marie Curie was born in Warsaw.")
    others = [make("paris", "Paris is a city.", title="Paris")]
    fill(store, [curie, *others])
    before, version = entities(store), store.info().version
    assert before["marie curie"] == 2
    fill(store, [curie, *others])
    assert store.info().version == version
    monkeypatch.setattr(entity_extraction, "RULES", "other rules")
    fill(store, [curie, *others])
    assert store.info().version != version
    assert store.state().rules == "other rules"
    assert entities(store) == before
    fill(store, [curie])
    assert entities(store) == {**before, "paris": before["paris"] - 1}


def entities(store) -> dict:
    found = store.entities_named(["marie curie", "paris", "warsaw"])
    return {key: entity.passages for key, entity in found.items()}


def test_terms_are_weighed_as_bm25_is():
    words = terms("a rose is a rose, and the thorns are many roses' thorns")
    blob, length = pack_terms(words)
    entries = unpack_terms(blob)
    assert length == len(words)
    assert dict(zip(entries["hash"].tolist(), entries["count"].tolist(), strict=True)) == {
        term_hash(term): words.count(term) for term in set(words)
    }
    frequencies = dict.fromkeys(set(words), 3)
    (exact,) = bm25_scores([blob], [length], frequencies, 100, 20.0)
    values = sparse_vector(blob, length, 20.0).values
    from packwise.stores.bm25 import idf

    assert exact == pytest.approx(idf(100, 3) * sum(values))
    assert bm25_scores([blob], [length], {"absent": 2}, 100, 20.0).tolist() == [0.0]
    assert bm25_scores([], [], frequencies, 100, 20.0).tolist() == []


def test_a_table_comes_back_as_it_was():
    values = {term_hash(str(i)): i / 7 for i in range(100)}
    assert unpack_part(pack_part(values)) == values
    assert unpack_part(pack_part({})) == {}


@pytest.mark.parametrize("name", ["a", "docs/a_1.md", "x" * 200, "deep/er/still/é.md", "日本/語"])
def test_every_beginning_is_indexed_or_lies_under_one_that_is(name):
    indexed = set(indexed_prefixes(name))
    for length in range(1, len(name) + 1):
        prefix = name[:length]
        if is_indexed_prefix(prefix):
            assert prefix in indexed
        else:
            assert indexed_prefixes(prefix)[-2] in indexed


def test_a_vector_without_direction_is_as_far_from_everything(store):
    fill(store, [make(f"d{i}", f"text {i}") for i in range(3)])
    matches = store.vector_search(np.zeros_like(vector_of("x")), 2)
    assert [match.score for match in matches] == [0.0, 0.0]
    assert [match.key for match in matches] == sorted(match.key for match in matches)


def test_points_go_in_batches_that_a_server_takes(monkeypatch):
    from qdrant_client import models

    from packwise.stores.qdrant import layout

    monkeypatch.setattr(layout, "_MOST_BYTES", 100_000)

    class Client:
        """Writes down how many points came together."""

        def __init__(self):
            self.batches = []

        def upsert(self, collection, points, wait):
            self.batches.append([point.id for point in points])

    def point(number, length):
        return models.PointStruct(id=number, vector={}, payload={"text": "x" * length})

    client = Client()
    sizes = [10, 10, 200_000, 10, 30_000, 30_000]
    upsert = layout.upsert
    upsert(QdrantServer([client]), "docs", [point(i, size) for i, size in enumerate(sizes)])
    assert client.batches == [[0, 1], [2], [3, 4], [5]]
    client.batches.clear()
    monkeypatch.setattr(layout, "_MOST_BYTES", 1 << 40)
    upsert(QdrantServer([client]), "docs", [point(i, 1) for i in range(600)])
    assert [len(batch) for batch in client.batches] == [256, 256, 88]
    upsert(QdrantServer([client]), "docs", [])

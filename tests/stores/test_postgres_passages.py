"""What only the store in PostgreSQL does: its vector index, whole packs, other embedders."""

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import psycopg
import pytest
from store_world import EMBEDDER, fill, found, make, near, vector_of

from packwise.candidates import Filter
from packwise.errors import EmbedderMismatch
from packwise.library import open_library
from packwise.packs.build import build_pack
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.postgres import commit, search
from postgres_servers import Schema
from tests_world import PATIENCE


@pytest.fixture
def schema():
    made = Schema()
    yield made
    made.drop()


def test_a_pack_is_built_and_searched_like_a_folder(schema, notes, notes_pack):
    first = build_pack([str(notes)], schema.url)
    assert first.changes.added == 5
    again = build_pack([str(notes)], schema.url)
    assert (again.changes.unchanged, again.embedded) == (5, 0)
    question = "how do I rotate the signing key?"
    with open_library(schema.url) as there, open_library(str(notes_pack)) as here:
        ours, theirs = here.search(question, 5), there.search(question, 5)
        assert [h.passage for h in ours.hits] == [h.passage for h in theirs.hits]
        for a, b in zip(ours.hits, theirs.hits, strict=True):
            assert a.scores.bm25 == pytest.approx(b.scores.bm25, rel=1e-5)
            assert a.scores.vector == pytest.approx(b.scores.vector, abs=2e-3)
        assert "rotate" in there.context(question, 500).text


def test_tables_from_before_blocks_were_stored_are_read_and_get_them_at_the_next_build(schema):
    document, passages = make("note", "Two ports:", "9999")
    with closing(create_or_open_store(schema.url)) as store:
        fill(store, [(document, passages)])
    with psycopg.connect(schema.url, autocommit=True) as connection:
        connection.execute("ALTER TABLE packwise_passages DROP COLUMN layout")
        connection.execute("DELETE FROM packwise_migrations WHERE name = 'layouts'")
    with closing(open_store(schema.url)) as store:
        found = [passage for _, passage in store.document_passages("note")]
        assert found == [replace(passage, lead="", blocks=(), place="") for passage in passages]
    with closing(create_or_open_store(schema.url)) as store:
        fill(store, [(replace(document, source_hash="read again"), passages)])
        assert [passage for _, passage in store.document_passages("note")] == passages


def test_the_commands_take_the_database_for_a_store(schema, notes):
    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "packwise", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert (
        run("build", notes, "--out", schema.url, "--dry-run", "--json")["documents"]["added"] == 5
    )
    assert run("build", notes, "--out", schema.url, "--json")["documents"]["added"] == 5
    hits = run("search", schema.url, "nightly backups", "--json")["hits"]
    assert hits[0]["document"] == "operations/backups.md"
    none = run("search", schema.url, "nightly backups", "--tenant", "nobody", "--json")
    assert none["hits"] == []


def test_many_passages_are_found_by_the_index(schema, monkeypatch):
    monkeypatch.setattr(commit, "INDEXED_PASSAGES", 500)
    monkeypatch.setattr(search, "EXACT_PASSAGES", 400)
    documents = [
        make(f"d{i:04}", f"text number {i}", lang="en" if i % 2 else "de") for i in range(1000)
    ]
    store = create_or_open_store(schema.url)
    fill(store, documents)
    assert store.info().details["vector_index"] == "hnsw"
    for at in (3, 400, 999):
        assert near(store, documents[at][1][0], 1) == [f"d{at:04}#0"]
    german = store.vector_search(vector_of("question"), 50, Filter(lang="de"))
    assert len(german) == 50
    assert all(int(name[1:5]) % 2 == 0 for name in found(store, german))
    everything = store.vector_search(vector_of("question"), 1000)
    assert len(everything) == 1000
    best = {match.key for match in everything[:20]}
    assert len(best & {m.key for m in store.vector_search(vector_of("question"), 20)}) >= 19
    fill(store, documents[:100])
    assert len(store.vector_search(vector_of("question"), 1000)) == 100
    store.close()


def test_another_embedder_replaces_the_first_on_request(schema):
    documents = [make("a", "First."), make("b", "Second.")]
    store = create_or_open_store(schema.url)
    fill(store, documents)
    other = {"embedder": "other", "embedder_version": "other-1", "dim": 8}
    with pytest.raises(EmbedderMismatch):
        store.writer(**other)
    with store.writer(**other, allow_mismatch=True) as writer:
        assert writer.source_hashes() == {}
        document, passages = make("a", "First.")
        passages = [p.__class__(**{**_fields(p), "embedder_version": ""}) for p in passages]
        writer.stage(document, passages, np.ones((1, 8), np.float32))
        assert writer.commit().removed == 1
    assert (store.info().dim, store.info().embedder) == (8, "other")
    assert len(store.vector_search(np.ones(8, np.float32), 5)) == 1
    store.close()


def _fields(passage):
    return {name: getattr(passage, name) for name in passage.__slots__}


def test_two_schemas_of_a_database_are_two_stores(schema):
    second = Schema()
    try:
        for place, text in ((schema, "Apples."), (second, "Pears.")):
            with closing(create_or_open_store(place.url)) as store:
                fill(store, [make("only", text)])
        for place, text in ((schema, "Apples."), (second, "Pears.")):
            with closing(open_store(place.url)) as store:
                assert store.document("only").text == f"{text}\n\n"
    finally:
        second.drop()


def test_an_id_too_long_for_an_index_is_refused(schema):
    from packwise.errors import StoreError

    store = create_or_open_store(schema.url)
    document, passages = make("x" * 3000, "Text.")
    with store.writer(**EMBEDDER) as writer, pytest.raises(StoreError, match="longer than"):
        writer.stage(document, passages, np.ones((1, EMBEDDER["dim"]), np.float32))
    store.close()

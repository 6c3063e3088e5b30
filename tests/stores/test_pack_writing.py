"""What a pack's writer refuses, what it takes over, and how a pack changes its embedder."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from store_world import DIM, EMBEDDER, fill, keyword, make, vectors_of

from packwise.errors import EmbedderMismatch, StoreError, UsageError
from packwise.stores.pack.entity_rows import _COUNT, _SCOPE
from packwise.stores.pack.store import create_or_open_pack
from packwise.stores.pack.validation import validate

NOTE = make("note", "A first part.", "A second part.")
OTHER = {"embedder": "other", "embedder_version": "other-1", "dim": 8}


@pytest.fixture
def store(tmp_path):
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(store, [NOTE, make("more", "More text.")])
        yield store


def broken(**changes):
    document, passages = NOTE
    return document, [replace(passages[0], **changes), passages[1]]


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "Something else."},
        {"start": 1},
        {"id": "note#7"},
        {"document": "elsewhere"},
        {"doc_title": "Another title"},
        {"lang": "fr"},
        {"metadata": {"tenant": "theirs"}},
        {"content_hash": ""},
        {"order_index": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_passage_that_breaks_a_law_is_refused(store, changes):
    with store.writer(**EMBEDDER) as writer, pytest.raises(StoreError, match="note"):
        writer.stage(*broken(**changes), vectors_of(NOTE[1]))
    assert store.info().documents == 2


def test_two_passages_in_one_place_are_refused(store):
    document, passages = NOTE
    with store.writer(**EMBEDDER) as writer, pytest.raises(StoreError, match="order 0"):
        writer.stage(document, [passages[0], passages[0]], vectors_of(passages))


@pytest.mark.parametrize(
    "vectors",
    [np.ones((1, DIM)), np.ones((2, DIM + 1)), np.full((2, DIM), np.nan), np.ones(2 * DIM)],
    ids=["few", "wide", "nan", "flat"],
)
def test_vectors_that_do_not_fit_are_refused(store, vectors):
    with store.writer(**EMBEDDER) as writer, pytest.raises(StoreError, match="note"):
        writer.stage(*NOTE, vectors.astype(np.float32))


def test_only_what_is_there_can_be_kept(store):
    with store.writer(**EMBEDDER) as writer, pytest.raises(StoreError, match="does not hold it"):
        writer.keep("nothing")


def test_a_build_ends_with_its_commit(store):
    with store.writer(**EMBEDDER) as writer:
        writer.keep("note")
        writer.commit()
        with pytest.raises(UsageError, match="ended"):
            writer.stage(*NOTE, vectors_of(NOTE[1]))
        with store.writer(**EMBEDDER):
            pass


def test_a_vector_of_zeros_is_stored_and_found_last(store):
    document, passages = make("zero", "Nothing.")
    with store.writer(**EMBEDDER) as writer:
        for name in writer.source_hashes():
            writer.keep(name)
        writer.stage(document, passages, np.zeros((1, DIM), np.float32))
        writer.commit()
    assert len(store.vector_search(np.ones(DIM, np.float32), 10)) == 4


def count(store, table: str) -> int:
    connection = sqlite3.connect(f"{store.info().location}/pack.sqlite")
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        connection.close()


def test_vectors_nobody_uses_are_removed(store):
    assert count(store, "vectors") == 3
    fill(store, [NOTE])
    assert count(store, "vectors") == 2
    with store.writer(**EMBEDDER) as writer:
        writer.stage(*make("left behind", "Never kept."), np.ones((1, DIM), np.float32))
    assert count(store, "vectors") == 3
    fill(store, [NOTE])
    assert (count(store, "vectors"), count(store, "staged")) == (2, 0)


def test_staged_work_of_another_source_outlives_a_commit_that_does_not_prune(store):
    waiting = make("waiting", "Waiting for its build.")
    with store.writer(**EMBEDDER) as writer:
        writer.stage(*waiting, vectors_of(waiting[1]))
    fill(store, [make("added", "Added meanwhile.")], prune=False)
    assert keyword(store, "waiting") == []
    with store.writer(**EMBEDDER) as writer:
        assert "waiting" in writer.source_hashes()
        assert list(writer.known_vectors([waiting[1][0].content_hash]))
        writer.keep("waiting")
        writer.commit(prune=False)
    assert keyword(store, "waiting") == ["waiting#0"]


def test_an_unchanged_build_writes_nothing(store, tmp_path):
    def files():
        return {
            path: path.stat().st_mtime_ns
            for path in (tmp_path / "pack").rglob("*")
            if path.suffix in (".json", ".idx", ".i64")
        }

    before = files()
    assert fill(store, [NOTE, make("more", "More text.")]).unchanged == 2
    assert files() == before


def test_counting_a_common_name_again_reads_an_index_of_its_sure_mentions(store, tmp_path):
    with closing(sqlite3.connect(tmp_path / "pack" / "pack.sqlite")) as connection:
        steps = connection.execute(f"EXPLAIN QUERY PLAN {_COUNT.format(scope=_SCOPE)}".replace(
            "temp.changed_entities", "entities"
        )).fetchall()  # fmt: skip
    read = [step[3] for step in steps if "mentions" in step[3]]
    assert ["mentions_entity" in step for step in read] == [True, False]
    assert "mentions_sure (entity=?)" in read[1]


def test_another_embedder_takes_over_when_it_stages_everything(store):
    documents = [make("note", "A first part.", "A second part."), make("more", "More text.")]
    with pytest.raises(EmbedderMismatch, match="--reembed"):
        store.writer(**OTHER)
    with store.writer(**OTHER, allow_mismatch=True) as writer:
        assert writer.source_hashes() == {}
        assert writer.known_vectors(p.content_hash for p in NOTE[1]) == {}
        for document, passages in documents:
            bare = [replace(p, embedder_version="") for p in passages]
            writer.stage(document, bare, vectors_of(passages, OTHER["dim"]))
        writer.commit()
    info = store.info()
    assert (info.embedder, info.embedder_version, info.dim) == ("other", "other-1", 8)
    assert {p.embedder_version for _, p in store.document_passages("note")} == {"other-1"}
    assert store.vector_search(np.ones(8, np.float32), 10)
    assert count(store, "vectors") == 3
    assert validate(info.location) == []


def test_vectors_of_two_embedders_never_mix(store):
    bare = [replace(p, embedder_version="") for p in NOTE[1]]
    for prune in (False, True):
        with store.writer(**OTHER, allow_mismatch=True) as writer:
            with pytest.raises(StoreError, match="does not hold it"):
                writer.keep("more")
            writer.stage(NOTE[0], bare, vectors_of(bare, OTHER["dim"]))
            if not prune:
                with pytest.raises(EmbedderMismatch, match="1 documents still have"):
                    writer.commit(prune=False)
            else:
                assert writer.commit().removed == 1
    assert store.info().embedder == "other"
    assert validate(store.info().location) == []


def test_staged_work_of_another_embedder_is_not_resumed(store):
    waiting = make("waiting", "Waiting.")
    with store.writer(**EMBEDDER) as writer:
        writer.stage(*waiting, vectors_of(waiting[1]))
    with store.writer(**OTHER, allow_mismatch=True) as writer:
        assert writer.source_hashes() == {}
    with store.writer(**EMBEDDER) as writer:
        assert "waiting" not in writer.source_hashes()


def test_an_emptied_pack_takes_any_embedder(store):
    fill(store, [])
    fill(store, [], **OTHER)
    fill(store, [make("note", "Text.")], **OTHER)
    assert store.info().dim == 8

"""Opening packs, and things that are not packs: one line that says what to do."""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from store_world import DIM, EMBEDDER, fill, make, vectors_of

from packwise.errors import NotAStore, StoreBusy, StoreError, StoreMissing
from packwise.stores.pack import schema
from packwise.stores.pack.database import (
    connect_reader,
    connect_writer,
    migrate,
    schema_version,
    tables,
)
from packwise.stores.pack.folder import PackFolder
from packwise.stores.pack.manifest import read_manifest
from packwise.stores.pack.schema import KNOWLEDGE_SCHEMA, MIGRATIONS, SchemaMigration
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate

NOTE = make("note", "A note.")


@pytest.fixture
def pack(tmp_path):
    folder = tmp_path / "pack"
    with create_or_open_pack(folder) as store:
        fill(store, [NOTE])
    return folder


def said(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert error.value.fix
    return text


def test_a_place_where_nothing_is(tmp_path):
    with pytest.raises(StoreMissing) as error:
        open_pack(tmp_path / "nothing")
    assert "packwise build" in said(error)


def test_an_empty_folder_can_be_built_into_but_not_read(tmp_path):
    with pytest.raises(StoreMissing) as error:
        open_pack(tmp_path)
    said(error)
    with create_or_open_pack(tmp_path) as store:
        assert fill(store, [NOTE]).added == 1


def test_a_file_is_not_a_pack(tmp_path):
    (tmp_path / "file").write_text("hello")
    for open_it in (open_pack, create_or_open_pack):
        with pytest.raises(NotAStore) as error:
            open_it(tmp_path / "file")
        said(error)


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for open_it in (open_pack, create_or_open_pack):
        with pytest.raises(NotAStore) as error:
            open_it(tmp_path)
        assert "thesis.txt" in said(error)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_database_that_is_no_database(tmp_path):
    (tmp_path / "pack.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(NotAStore) as error:
        open_pack(tmp_path)
    said(error)
    with pytest.raises(NotAStore):
        create_or_open_pack(tmp_path).writer(**EMBEDDER)
    assert (tmp_path / "pack.sqlite").read_bytes().startswith(b"not a database")


def test_a_database_of_another_program_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "pack.sqlite") as connection:
        connection.execute("CREATE TABLE pack (name TEXT)")
    connection.close()
    before = (tmp_path / "pack.sqlite").read_bytes()
    with pytest.raises(NotAStore) as error:
        open_pack(tmp_path)
    said(error)
    with pytest.raises(NotAStore):
        create_or_open_pack(tmp_path).writer(**EMBEDDER)
    assert (tmp_path / "pack.sqlite").read_bytes() == before


def test_a_build_that_stages_nothing_leaves_nothing(tmp_path):
    folder = tmp_path / "deep" / "pack"
    with create_or_open_pack(folder) as store:
        with store.writer(**EMBEDDER) as writer:
            assert writer.source_hashes() == {}
            assert writer.known_vectors(["x"]) == {}
        with store.writer(**EMBEDDER) as writer, pytest.raises(StoreError):
            writer.stage(*NOTE, np.ones((1, DIM + 1), np.float32))
    assert not folder.exists()


def test_a_second_first_build_leaves_the_first_alone(tmp_path):
    folder = tmp_path / "pack"
    with create_or_open_pack(folder) as one, create_or_open_pack(folder) as two:
        first, second = one.writer(**EMBEDDER), two.writer(**EMBEDDER)
        first.stage(*NOTE, vectors_of(NOTE[1]))
        with second, pytest.raises(StoreBusy):
            second.stage(*NOTE, vectors_of(NOTE[1]))
        assert first.commit().added == 1
        assert two.info().documents == 1


def test_an_unfinished_first_build_is_no_pack_yet(tmp_path):
    folder = tmp_path / "pack"
    store = create_or_open_pack(folder)
    with store.writer(**EMBEDDER) as writer:
        writer.stage(*NOTE, vectors_of(NOTE[1]))
    for read in (open_pack, validate):
        with pytest.raises(StoreMissing) as error:
            read(folder)
        assert "unfinished" in said(error)
    with pytest.raises(StoreMissing, match="unfinished"):
        store.keyword_search(["note"], 5)
    assert fill(store, [NOTE]).added == 1
    assert validate(folder) == []
    store.close()


def test_a_closed_store_says_so(pack):
    store = open_pack(pack)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.info()


def set_version(folder, version: int) -> None:
    (folder / "checksums.json").unlink(missing_ok=True)
    with sqlite3.connect(folder / "pack.sqlite") as connection:
        connection.execute(
            "INSERT INTO migrations (version, applied_at) VALUES (?, '')", (version,)
        )
    connection.close()


def test_a_pack_of_a_newer_packwise_asks_for_an_upgrade(pack):
    set_version(pack, MIGRATIONS[-1].version + 1)
    with pytest.raises(StoreError, match="upgrade packwise"):
        open_pack(pack)
    with pytest.raises(StoreError, match="upgrade packwise"):
        create_or_open_pack(pack).writer(**EMBEDDER)


NEXT = MIGRATIONS[-1].version + 1
LONGER = (
    *MIGRATIONS,
    SchemaMigration(NEXT, ("ALTER TABLE documents ADD COLUMN author TEXT NOT NULL DEFAULT ''",)),
    SchemaMigration(NEXT + 1, ("CREATE INDEX documents_author ON documents (author)",)),
)


def test_an_older_pack_is_read_as_it_is_and_brought_up_to_date_by_a_build(pack, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", LONGER)
    with open_pack(pack) as store:
        assert store.info().details["schema"] == str(NEXT - 1)
        assert store.document("note") is not None
    with create_or_open_pack(pack) as store:
        fill(store, [NOTE, make("more", "More.")])
        assert store.info().details["schema"] == str(NEXT + 1)
        assert [summary.id for summary in store.documents()] == ["more", "note"]


def drop_checksums(connection) -> None:
    for table in ("documents", "passages", "vectors"):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")


def test_a_pack_from_before_there_were_entities_finds_them_at_its_next_build(pack):
    film = make("film", "Jump for Glory was directed by Raoul Walsh.", title="Jump for Glory")
    with create_or_open_pack(pack) as store:
        fill(store, [NOTE, film])
    first = {migration.version: migration for migration in MIGRATIONS}[KNOWLEDGE_SCHEMA]
    made = [re.match("CREATE TABLE ([a-z]+)", statement) for statement in first.statements]
    (pack / "checksums.json").unlink()
    with sqlite3.connect(pack / "pack.sqlite") as connection:
        for match in made:
            if match:
                connection.execute(f"DROP TABLE {match[1]}")
        drop_checksums(connection)
        connection.execute("ALTER TABLE passages DROP COLUMN layout")
        connection.execute("DELETE FROM migrations WHERE version >= ?", (KNOWLEDGE_SCHEMA,))
    connection.close()
    with open_pack(pack) as store:
        assert store.entities_named(["raoul walsh"]) == {}
        assert store.entities_like("walsh", 5) == []
        assert store.document("film") is not None
    with create_or_open_pack(pack) as store:
        summary = fill(store, [NOTE, film])
        assert summary.unchanged == 2
        assert store.entities_named(["raoul walsh"])["raoul walsh"].passages == 1


def test_a_pack_from_before_blocks_were_stored_is_read_and_gets_them_at_its_next_build(pack):
    document, passages = make("note", "Two ports:", "9999")
    with create_or_open_pack(pack) as store:
        fill(store, [(document, passages)])
    (pack / "checksums.json").unlink()
    with sqlite3.connect(pack / "pack.sqlite") as connection:
        drop_checksums(connection)
        connection.execute("ALTER TABLE passages DROP COLUMN layout")
        connection.execute("DROP INDEX mentions_sure")
        connection.execute("DELETE FROM migrations WHERE version >= 3")
    connection.close()
    bare = [replace(passage, lead="", blocks=(), place="") for passage in passages]
    with open_pack(pack) as store:
        found = store.document_passages("note")
        assert [passage for _, passage in found] == bare
        assert store.passages([key for key, _ in found]) == bare
        assert [passage for _, passage in store.neighbours(found[0][0])] == bare[1:]
    with create_or_open_pack(pack) as store:
        fill(store, [(replace(document, source_hash="read again"), passages)])
        assert [passage for _, passage in store.document_passages("note")] == passages


def test_migrations_run_in_order_and_once(pack, monkeypatch):
    connection = connect_writer(PackFolder(pack))
    assert migrate(connection) == []
    monkeypatch.setattr(schema, "MIGRATIONS", LONGER)
    assert migrate(connection) == [NEXT, NEXT + 1]
    assert migrate(connection) == []
    assert schema_version(connection) == NEXT + 1
    connection.close()


def test_a_migration_that_fails_changes_nothing(pack, monkeypatch):
    broken = (
        *LONGER,
        SchemaMigration(NEXT + 2, ("CREATE TABLE t (x)", "SELECT nothing FROM nowhere")),
    )
    connection = connect_writer(PackFolder(pack))
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection)
    assert schema_version(connection) == NEXT - 1
    assert "t" not in tables(connection)
    connection.close()


def test_the_manifest_tells_what_the_pack_is(pack):
    manifest = read_manifest(PackFolder(pack))
    assert (manifest.documents, manifest.passages, manifest.generation) == (1, 1, 1)
    assert (manifest.embedder, manifest.embedder_version) == ("made-up", "made-up-1")
    with open_pack(pack) as store:
        assert manifest.version == store.info().version
    assert [path.name for path in pack.glob(".manifest*")] == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "one"}', "\0"])
def test_a_pack_works_without_its_manifest(pack, content):
    (pack / "manifest.json").write_text(content)
    with pytest.raises(NotAStore):
        read_manifest(PackFolder(pack))
    assert validate(pack) != []
    (pack / "manifest.json").unlink()
    with pytest.raises(StoreMissing):
        read_manifest(PackFolder(pack))
    with create_or_open_pack(pack) as store:
        assert store.info().documents == 1
        fill(store, [NOTE, make("more", "More.")])
    assert validate(pack) == []


def test_a_manifest_of_another_state_does_not_count(pack):
    manifest = json.loads((pack / "manifest.json").read_text())
    (pack / "manifest.json").write_text(json.dumps({**manifest, "passages": 99}))
    with open_pack(pack) as store:
        assert store.info().passages == 1
    assert validate(pack) == ["manifest.json says passages 99, pack.sqlite 1"]


def test_a_build_keeps_more_pages_in_memory_than_a_reader(pack):
    folder = PackFolder(pack)
    with closing(connect_writer(folder)) as writer, closing(connect_reader(folder)) as reader:
        (more,), (usual,) = (c.execute("PRAGMA cache_size").fetchone() for c in (writer, reader))
    assert more < 10 * usual < 0

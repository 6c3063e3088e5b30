"""Damage is found wherever it is, never changes a result silently, and is repaired."""

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from store_world import fill, make, snapshot, vector_of

from packwise import file_hashes
from packwise.candidates import Filter
from packwise.errors import StoreDamaged, StoreError
from packwise.language.analyzer import terms
from packwise.stores.pack import index
from packwise.stores.pack.repair import repair
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate

NOTES = [
    make(
        f"note-{i:02}",
        f"Note number {i} on topic {i % 5}.",
        f"More of {i} by Raoul Walsh.",
        links=[f"note-{(i + 1) % 30:02}"],
        metadata={"tenant": f"t{i % 3}", "acl": f"g{i % 2}"},
    )
    for i in range(30)
]
FLIPS = 40


@pytest.fixture(scope="module", params=[5000, 20], ids=["exact", "graph"])
def sound(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "EXACT_LIMIT", request.param)
        folder = tmp_path_factory.mktemp("sound") / "pack"
        with create_or_open_pack(folder) as store:
            fill(store, NOTES)
        yield folder


@pytest.fixture
def pack(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "pack")


def results(store) -> list:
    return [
        store.vector_search(vector_of("q"), 10),
        store.vector_search(vector_of("q"), 10, Filter(tenant="t1", acl=("g1",))),
        store.keyword_search(terms("note topic 3"), 10),
        store.entities_named(["raoul walsh"]),
        snapshot(store),
    ]


def flip(path: Path, at: int, bit: int, *, keep_times: bool) -> None:
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))
    if keep_times:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def pack_files(pack: Path) -> list[Path]:
    skipped = (".lock", "-shm", "-wal")
    files = [path for path in sorted(pack.rglob("*")) if path.is_file()]
    return [path for path in files if not path.name.endswith(skipped) and path.stat().st_size]


@pytest.mark.slow
def test_every_flipped_bit_is_found_and_none_changes_a_result(sound, tmp_path):
    place = random.Random(7)
    with open_pack(sound) as store:
        expected = results(store)
    for number in range(FLIPS):
        copy = shutil.copytree(sound, tmp_path / str(number))
        path = place.choice(pack_files(copy))
        at = place.randrange(path.stat().st_size)
        flip(path, at, place.randrange(8), keep_times=number % 2 == 0)
        where = f"{path.relative_to(copy)} at {at}"
        file_hashes.forget()
        try:
            problems = validate(copy)
        except StoreError as error:
            problems = [str(error)]
        assert problems, where
        file_hashes.forget()
        try:
            with open_pack(copy) as store:
                assert results(store) == expected, where
        except StoreError as error:
            assert len(str(error).splitlines()) == 1, where  # noqa: PT017
        shutil.rmtree(copy)


def change(pack: Path, statement: str) -> None:
    with sqlite3.connect(pack / "pack.sqlite") as connection:
        connection.execute(statement)
    connection.close()


REPAIRABLE = [
    "UPDATE passages SET text = 'other' WHERE key = 3",
    "UPDATE passages SET text = CAST(x'41ff' AS TEXT) WHERE key = 3",
    "UPDATE vectors SET content_hash = 'other' WHERE key = 3",
    "UPDATE entities SET name = CAST(x'41ff' AS TEXT) WHERE key = 1",
    "UPDATE links SET target = 1",
    "UPDATE ranks SET pagerank = 0.5",
    "DELETE FROM document_groups",
    "DELETE FROM mentions",
    "UPDATE document_metadata SET value = 't2'",
]


@pytest.mark.parametrize("statement", REPAIRABLE)
def test_what_follows_from_the_documents_is_restored(pack, statement):
    with open_pack(pack) as store:
        expected = results(store)
    change(pack, statement)
    with pytest.raises(StoreDamaged):
        open_pack(pack)
    assert validate(pack) != []
    assert repair(pack).removed == ()
    assert validate(pack) == []
    with open_pack(pack) as store:
        assert results(store) == expected


def test_text_that_is_not_utf_8_is_found_by_its_table(pack):
    change(pack, "UPDATE documents SET title = CAST(x'41ff' AS TEXT) WHERE key = 3")
    assert validate(pack) == ["the table documents holds text that is not UTF-8"]


def test_indexes_manifest_and_checksums_are_restored(pack):
    with open_pack(pack) as store:
        expected = results(store)
    for path in pack_files(pack):
        if path.name != "pack.sqlite":
            path.write_bytes(b"junk")
    repair(pack)
    assert validate(pack) == []
    with open_pack(pack) as store:
        assert results(store) == expected


LOST = [
    "UPDATE documents SET title = 'other' WHERE id = 'note-03'",
    "UPDATE documents SET text = x'00' WHERE id = 'note-03'",
    "UPDATE documents SET source_hash = CAST(x'41ff' AS TEXT) WHERE id = 'note-03'",
    "UPDATE passages SET section_path = CAST(x'ff' AS TEXT) WHERE document = (SELECT key FROM"
    " documents WHERE id = 'note-03')",
    "UPDATE links SET anchor = CAST(x'ff' AS TEXT) WHERE document = (SELECT key FROM documents"
    " WHERE id = 'note-03')",
    "UPDATE passages SET first = 1 WHERE document = (SELECT key FROM documents"
    " WHERE id = 'note-03') AND position = 1",
    "UPDATE vectors SET vector = zeroblob(32) WHERE key = (SELECT vector FROM passages WHERE"
    " document = (SELECT key FROM documents WHERE id = 'note-03') AND position = 0)",
    "UPDATE sections SET blocks = '[' WHERE document = (SELECT key FROM documents"
    " WHERE id = 'note-03')",
]


@pytest.mark.parametrize("statement", LOST, ids=range(len(LOST)))
def test_a_document_that_is_lost_is_named_and_comes_back_with_the_next_build(pack, statement):
    with open_pack(pack) as store:
        expected = results(store)[2:]
    change(pack, statement)
    assert repair(pack).removed == ("note-03",)
    assert validate(pack) == []
    with create_or_open_pack(pack) as store:
        fill(store, NOTES)
        found = results(store)[2:]
    assert len(found[0]) == len(expected[0])
    assert found[2].keys() == expected[2].keys()
    assert validate(pack) == []

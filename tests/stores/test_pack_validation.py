"""Validation finds what was tampered with, by name."""

import shutil
import sqlite3

import pytest
from store_world import fill, make

from packwise.errors import StoreError
from packwise.stores.pack.schema import row_checksum
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "pack"
    with create_or_open_pack(folder) as store:
        fill(store, [make("a", "One.", "Two.", links=["b"]), make("b", "Three.")])
    return folder


@pytest.fixture
def pack(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "pack")


TAMPERING = {
    "UPDATE passages SET text = 'other' WHERE key = 1": "offsets do not fit the text of a",
    "UPDATE sections SET past = 999": "offsets do not fit",
    "UPDATE documents SET text = x'00' WHERE id = 'b'": "text of document b cannot be read",
    "UPDATE vectors SET vector = x'0000'": "do not have 16 dimensions",
    "UPDATE vectors SET vector = CAST(zeroblob(30) || x'007c' AS BLOB)": "not finite",
    "UPDATE vectors SET vector = 'text of just 32 letters in a row'": "do not have 16 dimensions",
    "UPDATE passages SET vector = (SELECT max(key) FROM vectors)": "vector of another",
    "DELETE FROM vectors WHERE key = 1": "refer to rows of vectors that are not there",
    "DELETE FROM passages WHERE key = 3": "counts 3 passages but holds 2",
    "DELETE FROM ranks WHERE document = 1": "1 of 2 documents have a PageRank",
    "UPDATE ranks SET pagerank = 2": "sums to 4",
    "UPDATE pack SET token = 'other'": "belongs to another state",
    "UPDATE links SET target = NULL": "counts 1 links but holds 0",
}


def test_a_sound_pack_has_no_problems(pack):
    assert validate(pack) == []


@pytest.mark.parametrize(("statement", "problem"), TAMPERING.items(), ids=range(len(TAMPERING)))
def test_tampering_is_found(pack, statement, problem):
    with sqlite3.connect(pack / "pack.sqlite") as connection:
        connection.execute(statement)
    connection.close()
    assert any(problem in line for line in validate(pack)), validate(pack)


def read_all(pack):
    with open_pack(pack) as store:
        return [store.document_passages(summary.id) for summary in store.documents()]


@pytest.mark.parametrize("first_page", [1, 3, 12])
def test_a_torn_database_is_found(pack, first_page):
    database = pack / "pack.sqlite"
    content = bytearray(database.read_bytes())
    for page in range(first_page, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    database.write_bytes(bytes(content))
    assert any("damaged" in line for line in validate(pack))
    with pytest.raises(StoreError) as error:
        read_all(pack)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("row", "stored"),
    [
        (("keys.md", 3, None, b"\x00\x01", 0.5), 3022912083),
        (("3",), 1321254940),
        ((3,), 3820368158),
        (("Schlüssel", -1), 2291770466),
    ],
)
def test_the_checksum_of_a_row_is_the_one_that_packs_hold(row, stored):
    assert row_checksum(*row) == stored

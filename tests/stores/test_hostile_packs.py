"""A pack from someone else is data: whatever it holds, reading it ends and touches nothing else."""

import hashlib
import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

import pytest
from store_world import EMBEDDER, fill, make, vector_of

from packwise.errors import NotAStore, StoreError
from packwise.language.analyzer import terms
from packwise.stores import records
from packwise.stores.pack import index as pack_index
from packwise.stores.pack import rows
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate

NOTES = [make(f"note-{i:02}", f"Note number {i} on topic {i % 7}.") for i in range(40)]
LIMIT = 20
"""Passages above which the packs here have a graph."""

READ = """
import sys
sys.path[:0] = sys.argv[3:]
from test_hostile_packs import read_all
read_all(sys.argv[1], int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "home" / "packs" / "pack"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_index, "EXACT_LIMIT", LIMIT)
        with create_or_open_pack(folder) as store:
            fill(store, NOTES)
    return folder


@pytest.fixture
def pack(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(pack_index, "EXACT_LIMIT", LIMIT)
    shutil.copytree(sound.parent.parent, tmp_path / "home")
    return tmp_path / "home" / "packs" / "pack"


def change(pack: Path, *statements: str) -> None:
    (pack / "checksums.json").unlink(missing_ok=True)
    connection = sqlite3.connect(pack / "pack.sqlite", isolation_level=None)
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


@contextmanager
def fair():
    """What may end in a ``StoreError`` of one line."""
    try:
        yield
    except StoreError as error:
        if "\n" in str(error):
            raise AssertionError(str(error)) from error


def read_all(folder: str, limit: int = LIMIT) -> list:
    """Everything a reader does; a ``StoreError`` of one line is a fair answer."""
    pack_index.EXACT_LIMIT = limit
    found = []
    with fair(), open_pack(folder) as store:
        found = [store.vector_search(vector_of(f"q{i}"), 10) for i in range(20)]
        found.append(store.keyword_search(terms("note topic 3"), 10))
        store.passages([m.key for m in found[0]])
        for summary in store.documents():
            store.document(summary.id)
            store.document_passages(summary.id)
        store.entities_like("note", 5)
        store.links([document.id for document, _ in NOTES])
    with fair():
        assert all("\n" not in line for line in validate(folder))
    return found


def read_in_a_process(pack: Path, seconds: float = 60) -> None:
    """Read a pack where a crash or a hang can be seen."""
    here = [path for path in sys.path if path]
    done = subprocess.run(
        [sys.executable, "-c", READ, str(pack), str(LIMIT), *here],
        timeout=seconds,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def precious(pack):
    """Files outside the pack, which must be the same when the test ends."""
    for folder in (pack.parent.parent / "Documents", pack.parent.parent / "src"):
        folder.mkdir()
        (folder / "thesis.txt").write_text("years of work")
        (folder / "3").mkdir()
        (folder / "3" / "chapter.txt").write_text("more")
    before = {name: tree(pack.parent.parent / name) for name in ("Documents", "src")}
    yield pack.parent.parent / "Documents"
    assert {name: tree(pack.parent.parent / name) for name in ("Documents", "src")} == before


@pytest.mark.parametrize(
    "generation",
    ["'Documents'", "'../../Documents'", "'git/../../../../src'", "x'2e2e'", "-1", "1.5"],
)
def test_a_generation_that_is_no_number_never_becomes_a_path(pack, precious, generation):
    (pack / "index" / "git").mkdir()
    change(pack, f"UPDATE pack SET generation = {generation}")
    read_all(str(pack))
    with pytest.raises(StoreError):
        open_pack(pack)


def test_a_linked_index_folder_is_not_followed_by_a_search(pack, precious):
    shutil.rmtree(pack / "index")
    (pack / "index").symlink_to("../..")
    change(pack, "UPDATE pack SET generation = 'Documents'")
    with pytest.raises(StoreError):
        open_pack(pack)


@pytest.mark.parametrize("name", ["index", "index/1", "index/1/keywords"])
def test_a_linked_index_folder_is_not_followed_by_a_build(pack, precious, name):
    shutil.rmtree(pack / name)
    (pack / name).symlink_to(precious)
    with fair(), create_or_open_pack(pack) as store:
        fill(store, [*NOTES, make("new", "New.")])
    read_all(str(pack))


@pytest.mark.parametrize(
    "name",
    ["pack.sqlite", "pack.sqlite-wal", "manifest.json", "build.lock", "index/1/keys.i64"],
)
def test_a_linked_file_is_not_followed(pack, precious, name):
    kept = precious.parent / "kept"
    if (pack / name).exists():
        shutil.move(pack / name, kept)
    else:
        kept.write_bytes(b"")
    before = kept.read_bytes()
    (pack / name).symlink_to(kept)
    read_all(str(pack))
    with fair(), create_or_open_pack(pack) as store:
        fill(store, [*NOTES, make("new", "New.")])
    assert kept.read_bytes() == before


def test_a_build_leaves_what_it_did_not_make_in_the_index_folder(pack):
    (pack / "index" / "holiday").mkdir()
    (pack / "index" / "holiday" / "photo.jpg").write_text("sun")
    (pack / "index" / "7").mkdir()
    (pack / "index" / "7" / "photo.jpg").write_text("sun")
    with create_or_open_pack(pack) as store:
        fill(store, [*NOTES, make("new", "New.")])
    assert (pack / "index" / "holiday" / "photo.jpg").exists()
    assert (pack / "index" / "7" / "photo.jpg").exists()


def test_a_journal_that_names_a_file_elsewhere_does_not_get_it_deleted(pack, precious):
    # SQLite removes the "super-journal" that a journal names once it has rolled back.
    named = str(precious / "thesis.txt").encode()
    header = bytes.fromhex("d9d505f920a163d7") + (0).to_bytes(4) + bytes(4) + (1).to_bytes(4)
    body = (header + (512).to_bytes(4) + (4096).to_bytes(4)).ljust(512, b"\0")
    trailer = (0x40000000 // 4096 + 1).to_bytes(4) + named
    trailer += len(named).to_bytes(4) + sum(named).to_bytes(4) + header[:8]
    (pack / "pack.sqlite-journal").write_bytes(body + trailer)
    with fair(), create_or_open_pack(pack) as store:
        fill(store, [*NOTES, make("new", "New.")])


def reseal(folder: Path) -> None:
    """Make the list of index files fit them, as anyone can who edits a pack."""
    seal = folder / "index.json"
    content = json.loads(seal.read_text())
    for name, entry in content["files"].items():
        data = (folder / name).read_bytes()
        entry[:] = [len(data), hashlib.sha256(data).hexdigest()]
    signature, _ = content.pop("signature"), content.pop("checksum")
    checksum = hashlib.sha256(f"{json.dumps(content)} {signature}".encode()).hexdigest()
    whole = {**content, "checksum": checksum, "signature": signature}
    seal.write_text(json.dumps(whole, indent=1) + "\n")


@pytest.mark.parametrize("seed", range(6))
def test_a_crafted_graph_is_never_searched(pack, seed):
    import random

    place = random.Random(seed)
    graph = pack / "index" / "1" / "vectors.usearch"
    content = bytearray(graph.read_bytes())
    # The lists of neighbours come last.
    for _ in range(200):
        content[place.randrange(len(content) * 2 // 3, len(content))] = place.choice((0xFF, 0x7F))
    graph.write_bytes(content)
    reseal(graph.parent)
    read_in_a_process(pack)


def test_a_crafted_keyword_index_is_never_searched(pack):
    folder = pack / "index" / "1"
    for file in (folder / "keywords").iterdir():
        if file.suffix in (".idx", ".term", ".fast", ".store"):
            content = bytearray(file.read_bytes())
            content[: len(content) // 2] = b"\xff" * (len(content) // 2)
            file.write_bytes(content)
    reseal(folder)
    with open_pack(pack) as store:
        assert len(store.keyword_search(terms("note"), 99)) == 40


def test_an_index_that_names_files_elsewhere_is_not_read(pack):
    seal = pack / "index" / "1" / "index.json"
    content = json.loads(seal.read_text())
    content["files"]["/dev/zero"] = [0, 0, 0][: len(next(iter(content["files"].values())))]
    seal.write_text(json.dumps(content, indent=1))
    read_in_a_process(pack)


@pytest.mark.parametrize("wrong", [{"drift": math.inf}, {"files": {"keys.i64": [math.inf, ""]}}])
def test_an_index_with_numbers_without_end_is_made_again(pack, wrong):
    file = pack / "index" / "1" / "index.json"
    content = json.loads(file.read_text())
    signature, _ = content.pop("signature"), content.pop("checksum")
    content |= wrong
    checksum = hashlib.sha256(f"{json.dumps(content)} {signature}".encode()).hexdigest()
    content |= {"checksum": checksum, "signature": signature}
    file.write_text(json.dumps(content, indent=1) + "\n")
    with open_pack(pack) as store:
        assert len(store.keyword_search(terms("note"), 99)) == 40


def test_checksums_without_end_are_one_line(pack):
    content = {"format": math.inf, "files": {"pack.sqlite": [math.inf, ""]}}
    (pack / "checksums.json").write_text(json.dumps(content))
    assert len(read_all(str(pack))[-1]) > 5
    assert any("checksums.json" in line for line in validate(pack))


HANGING_VIEW = (
    "CREATE VIEW {0} AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    " SELECT 1 AS only, 1 AS generation, '' AS token, 1 AS embedder, 1 AS documents, 1 AS passages,"
    " 1 AS links, '' AS created_at, '' AS updated_at, x AS key FROM n WHERE x < 0"
)


@pytest.mark.parametrize("name", ["pack", "documents", "staged", "migrations"])
def test_a_view_in_the_place_of_a_table_is_refused(pack, name):
    change(
        pack,
        "PRAGMA foreign_keys = OFF",
        "PRAGMA legacy_alter_table = ON",
        f"DROP TABLE {name}",
        HANGING_VIEW.format(name),
    )
    read_in_a_process(pack)
    with pytest.raises(NotAStore):
        open_pack(pack)


SCHEMAS = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END",
    "view": "CREATE VIEW v AS SELECT 1",
    "table": "CREATE TABLE more (x)",
    "index": "CREATE INDEX i ON documents (length(title))",
    "column": "ALTER TABLE documents ADD COLUMN x AS (length(title))",
    "virtual table": "CREATE VIRTUAL TABLE f USING fts5 (x)",
}


@pytest.mark.parametrize("statement", SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_that_is_not_ours_is_refused(pack, statement):
    change(pack, statement)
    for use in (open_pack, validate, lambda folder: create_or_open_pack(folder).writer(**EMBEDDER)):
        with pytest.raises(NotAStore) as error:
            use(pack)
        assert "\n" not in str(error.value)


def bomb(expanded: int) -> bytes:
    packer = zlib.compressobj(9)
    block = b" " * (1 << 20)
    parts = [packer.compress(block) for _ in range(expanded >> 20)]
    return b"".join([*parts, packer.flush()])


def test_a_text_that_expands_beyond_all_measure_is_not_expanded(pack, monkeypatch):
    import resource

    monkeypatch.setattr(rows, "MOST_TEXT", 4 << 20)
    (pack / "checksums.json").unlink()
    connection = sqlite3.connect(pack / "pack.sqlite")
    with connection:
        connection.execute("UPDATE documents SET text = ? WHERE id = 'note-03'", (bomb(1 << 28),))
    connection.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_pack(pack) as store, pytest.raises(StoreError, match="note-03"):
        store.document("note-03")
    assert any("note-03" in line for line in validate(pack))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


ROWS = {
    "UPDATE documents SET metadata = '[1' WHERE id = 'note-03'": "note-03",
    "UPDATE documents SET metadata = '[1, 2]' WHERE id = 'note-03'": "note-03",
    "UPDATE documents SET metadata = '{\"a\": 1}' WHERE id = 'note-03'": "note-03",
    "UPDATE documents SET title = x'ff00' WHERE id = 'note-03'": "note-03",
    "UPDATE documents SET text = 7 WHERE id = 'note-03'": "note-03",
    "UPDATE passages SET section_path = '{}}' WHERE key = 4": "passage 4",
    "UPDATE passages SET section_path = '7' WHERE key = 4": "passage 4",
    "UPDATE passages SET text = x'00' WHERE key = 4": "passage 4",
    "UPDATE passages SET layout = '[[[[' WHERE key = 4": "passage 4",
    "UPDATE passages SET first = 'x' WHERE key = 4": "passage 4",
    "UPDATE sections SET path = 'x' WHERE document = 4": "note-03",
    "UPDATE sections SET blocks = '[[1]]' WHERE document = 4": "note-03",
    "UPDATE sections SET blocks = '[[\"new\", 1, 2]]' WHERE document = 4": "note-03",
    "UPDATE vectors SET vector = x'0000' WHERE key = 4": "vector",
    "UPDATE vectors SET vector = 'text' WHERE key = 4": "vector",
    "UPDATE vectors SET key = -4 WHERE key = 4": "no vector",
    "UPDATE sections SET blocks = '[[\"text\", 9e999, 2]]' WHERE document = 4": "note-03",
    "UPDATE passages SET checksum = NULL,"
    ' layout = \'["", [["text", 9e999, 2]]]\' WHERE key = 4': "passage 4",
    "UPDATE passages SET checksum = NULL,"
    f' layout = \'["", [["text", 1, {10**24}]]]\' WHERE key = 4': "passage 4",
    "UPDATE ranks SET pagerank = 9e999 WHERE document = 4": "note-03",
    "UPDATE ranks SET pagerank = 'x' WHERE document = 4": "note-03",
    "UPDATE entities SET name = CAST(name AS BLOB)": "is damaged",
    "UPDATE entities SET label = x'ff'": "names",
    "INSERT INTO links (document, position, href, page, target, anchor, first, kind)"
    " VALUES (4, 0, 'a', 'a', 5, x'ff', 0, 'link')": "note-03",
    "INSERT INTO links (document, position, href, page, target, anchor, first, kind)"
    " VALUES (4, 0, 'a', 'a', 5, 'a', 'x', 'link')": "note-03",
}


def read_note(pack):
    with open_pack(pack) as store:
        store.document("note-03")
        store.document_passages("note-03")
        list(store.documents())
        store.vector_search(vector_of("q"), 99)
        store.links(["note-03"])
        store.pagerank(["note-03"])
        store.entities_of(list(range(1, 41)))
        store.entities_like("note", 5)


@pytest.mark.parametrize(("statement", "named"), ROWS.items(), ids=range(len(ROWS)))
def test_a_row_that_cannot_be_read_is_one_line_that_names_it(pack, statement, named):
    change(pack, statement)
    shutil.rmtree(pack / "index")
    with pytest.raises(StoreError) as error:
        read_note(pack)
    said = str(error.value)
    assert "\n" not in said
    assert any(named in line for line in [said, *validate(pack)]), (said, validate(pack))


def test_a_language_that_is_no_text_is_one_line(pack):
    change(pack, "UPDATE documents SET lang = x'ff' WHERE key = 4")
    with open_pack(pack) as store, pytest.raises(StoreError, match="language"):
        store.languages()


@pytest.mark.parametrize("name", ["manifest.json", "pack.sqlite", "index/1/index.json"])
def test_a_pipe_in_the_place_of_a_file_does_not_hang(pack, name):
    (pack / name).unlink()
    os.mkfifo(pack / name)
    read_in_a_process(pack)


BUILT_UPON = [
    "UPDATE documents SET title = x'ff00'",
    "UPDATE documents SET id = x'ff' WHERE key = 4",
    "UPDATE passages SET text = x'00'",
    "UPDATE vectors SET vector = x'00'",
    "UPDATE passages SET document = document + 99999",
    "INSERT INTO extractions SELECT key, '[1' FROM passages",
    "INSERT INTO staged SELECT 'new', 'x', key, x'00' FROM embedders",
    "INSERT INTO staged SELECT 'new', 'x', key, 7 FROM embedders",
    "INSERT INTO staged SELECT 'new', 'x', key, ? FROM embedders",
]


@pytest.mark.parametrize("statement", BUILT_UPON, ids=range(len(BUILT_UPON)))
def test_a_build_upon_rows_that_cannot_be_read_is_one_line(pack, statement, monkeypatch):
    monkeypatch.setattr(records, "_MOST_PAYLOAD", 4 << 20)
    (pack / "checksums.json").unlink()
    connection = sqlite3.connect(pack / "pack.sqlite")
    with connection:
        connection.execute(statement, (bomb(1 << 28),) if "?" in statement else ())
    connection.close()
    shutil.rmtree(pack / "index")
    read_all(str(pack))
    with fair(), create_or_open_pack(pack) as store:
        fill(store, [*NOTES, make("other", "Another note on topic 3.")])

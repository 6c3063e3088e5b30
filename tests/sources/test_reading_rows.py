"""What becomes of JSON Lines and BEIR folders."""

import gzip
import json
import tracemalloc
from array import array

import pytest

from packwise import file_hashes
from packwise.errors import SourceError
from packwise.sources import Item, SourceFile, jsonl, open_source, row_listing
from packwise.sources.readers import reader_of
from packwise.sources.row_listing import RowListing


def write_rows(path, rows):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def test_a_row_becomes_a_document(tmp_path, opened):
    row = {
        "id": "a",
        "title": " The\ntitle ",
        "text": "One\nline.\n\n\nTwo.",
        "url": "https://example.org/a",
        "language": "en",
        "year": 1999,
        "nested": {"left": "out"},
        "metadata": {"kind": "note", "tags": ["x", "y"], "links": ["b", 3, "a"]},
        "links": ["https://example.org/b", None, True],
    }
    document = opened(write_rows(tmp_path / "rows.jsonl", [row])).documents["a"]
    assert (document.title, document.url, document.lang) == (
        "The title",
        "https://example.org/a",
        "en",
    )
    assert document.text == "One\nline.\n\nTwo."
    assert [section.path for section in document.sections] == [()]
    assert dict(document.metadata) == {"year": "1999", "kind": "note", "tags": "x, y"}
    assert [link.href for link in document.links] == ["https://example.org/b", "b", "3"]


def test_ids_fall_back_to_the_address_and_the_line(tmp_path, opened):
    rows = [{"text": "x", "url": "https://example.org/"}, {"text": "y"}, {"_id": 0, "text": "z"}]
    found = opened(write_rows(tmp_path / "rows.jsonl", rows))
    assert list(found.items) == ["https://example.org/", "rows.jsonl:2", "0"]
    assert [document.title for document in found.documents.values()] == ["", "", ""]


def test_a_plain_corpus_is_preferred_to_a_gzipped_one_and_queries_are_not_read(tmp_path, opened):
    write_rows(tmp_path / "corpus.jsonl.gz", [{"_id": "zipped", "text": "x"}])
    write_rows(tmp_path / "queries.test.jsonl", [{"_id": "q", "text": "x?"}])
    assert list(opened(tmp_path).items) == ["zipped"]
    write_rows(tmp_path / "corpus.jsonl", [{"_id": "plain", "text": "x"}])
    found = opened(tmp_path)
    assert list(found.items) == ["plain"]
    assert found.sources[0].name == tmp_path.name


def test_rows_are_streamed(tmp_path):
    path = write_rows(
        tmp_path / "corpus.jsonl.gz", ({"_id": n, "text": "x" * 20_000} for n in range(500))
    )
    tracemalloc.start()
    count = sum(
        len(entry.id) > 0 for entry in jsonl.rows(SourceFile(path, "", "corpus", reader_of("rows")))
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 500
    assert peak < 2_000_000


def test_a_source_can_be_read_again(tmp_path):
    source = open_source(str(write_rows(tmp_path / "rows.jsonl", [{"id": "a", "text": "x"}])))
    assert list(source.items()) == list(source.items())
    assert list(source.ids()) == ["a"]


@pytest.fixture
def parsed(monkeypatch):
    """The texts that are parsed from here on."""
    found = []
    load = jsonl.json.loads
    monkeypatch.setattr(jsonl, "_own_ids", {})
    monkeypatch.setattr(jsonl.json, "loads", lambda text: found.append(text) or load(text))
    return found


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_a_row_is_parsed_once_for_its_id_and_keeps_it(tmp_path, parsed, name):
    same = {"text": "Twice the same, without an id."}
    path = write_rows(tmp_path / name, [{"id": "a", "text": "One."}, same, same])
    source = open_source(str(path))
    ids = list(source.ids())
    assert ids == ["a", f"{name}:2", f"{name}:3"]
    assert len(parsed) <= 3
    parsed.clear()
    items = list(source.items())
    assert [item.id for item in items] == ids
    assert not parsed
    assert items[2].read().text == same["text"]


def test_a_plain_file_is_read_once(tmp_path, monkeypatch):
    opened = []
    open_rows = jsonl._opened
    monkeypatch.setattr(jsonl, "_opened", lambda path: opened.append(path) or open_rows(path))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"id": "a", "text": "x"}\n\nno row\n{"text": "\xff"}\n{"text": "y"}')
    source = open_source(str(path))
    opened.clear()
    ids = list(source.ids())
    again = list(source.items())
    assert len(opened) == 1
    first = list(jsonl.rows(SourceFile(path, "", str(path), reader_of("rows"))))
    assert again == first
    assert ids == ["a", "rows.jsonl:4", "rows.jsonl:5"]
    documents = [item for item in again if isinstance(item, Item)]
    assert [item.read().text for item in documents] == ["x", "\ufffd", "y"]


def test_a_row_that_changes_during_a_build_is_not_read_as_another(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}])
    source = open_source(str(path))
    assert list(source.ids()) == ["a", "b"]
    first, second = source.items()
    write_rows(path, [{"id": "a", "text": "x"}, {"id": "c", "text": "z"}, {"id": "d", "text": "x"}])
    assert first.read().text == "x"
    with pytest.raises(SourceError, match="changed"):
        second.read()
    assert [item.id for item in source.items()] == ["a", "c", "d"]


def test_ids_of_more_rows_than_are_remembered_stay_right(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "_MOST_IDS", 3)
    monkeypatch.setattr(jsonl, "_own_ids", {})
    rows = [{"id": str(n), "text": f"Row {n}."} for n in range(10)]
    source = open_source(str(write_rows(tmp_path / "rows.jsonl.gz", rows)))
    expected = [row["id"] for row in rows]
    assert list(source.ids()) == [item.id for item in source.items()] == expected
    assert len(jsonl._own_ids) <= 3


@pytest.fixture
def listings(tmp_path, monkeypatch):
    """What is found in any file is kept, however small and new it is."""
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jsonl, "_KEPT_BYTES", 1)
    monkeypatch.setattr(file_hashes, "_KEPT_BYTES", 1)
    monkeypatch.setattr(file_hashes, "_SETTLED_NS", -60_000_000_000)
    file_hashes.forget()
    return tmp_path / "cache" / "rows"


def in_a_new_process(path):
    """What a build finds in a file: the ids, the items with their texts, and the problems."""
    file_hashes.forget()
    source = open_source(str(path))
    ids, entries = list(source.ids()), list(source.items())
    return ids, entries, [entry.read() for entry in entries if isinstance(entry, Item)]


ODD = b"""{"id": "a", "text": "One."}

no row
{"text": "No id, \xff."}
{"id": "\\ud800", "text": "Two."}
{"id": "a", "text": "One again."}
{"id": "b", "text": "Who.", "acl": []}
"""


def test_a_file_that_stays_is_not_read_again_by_another_process(tmp_path, listings, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ODD)
    expected = in_a_new_process(path)
    assert expected[0] == ["a", "rows.jsonl:4", "\ufffd", "a"]
    monkeypatch.setattr(jsonl, "_opened", None)
    assert in_a_new_process(path) == expected


def test_only_new_rows_of_a_file_that_changed_are_parsed(tmp_path, listings, parsed):
    rows = [{"id": "a", "text": "One."}, {"id": "b", "text": "Two."}, {"text": "Without."}]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    in_a_new_process(path)
    changed = [rows[1], {"id": "c", "text": "New."}, rows[0], rows[2]]
    write_rows(path, changed)
    file_hashes.forget()
    parsed.clear()
    # The id of a row without one is its line, which is another now.
    assert list(open_source(str(path)).ids()) == ["b", "c", "a", "rows.jsonl:4"]
    assert len([row for row in parsed if isinstance(row, str)]) == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "writable by others"])
def test_a_listing_that_cannot_be_believed_is_made_again(tmp_path, listings, damage):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ODD)
    expected = in_a_new_process(path)
    (listing,) = listings.iterdir()
    content = listing.read_bytes()
    if damage == "flipped":
        listing.write_bytes(content.replace(b'"a"', b'"z"', 1))
    elif damage == "cut":
        listing.write_bytes(content[:-8])
    elif damage == "empty":
        listing.write_bytes(b"")
    else:
        listing.write_bytes(content.replace(b'"a"', b'"z"', 1))
        listing.chmod(0o666)
    assert in_a_new_process(path) == expected
    assert in_a_new_process(path) == expected


def test_a_listing_of_an_earlier_state_of_the_file_is_made_again(tmp_path, listings):
    """A slower process may keep its own last."""
    path = write_rows(tmp_path / "rows.jsonl", [{"id": "a", "text": "One."}])
    in_a_new_process(path)
    (listing,) = listings.iterdir()
    earlier = listing.read_bytes()
    write_rows(path, [{"id": "b", "text": "Another one."}])
    assert in_a_new_process(path)[0] == ["b"]
    listing.write_bytes(earlier)
    assert in_a_new_process(path)[0] == ["b"]


def test_a_listing_by_other_rules_is_not_used(monkeypatch):
    listing = RowListing(["a"], bytearray([1]), bytearray(16), array("q", [1, 0, 5]))
    content = listing.content("")
    assert RowListing.of(content, "") == listing
    assert RowListing.of(content, "folder/") is None
    monkeypatch.setattr(row_listing, "_FORMAT", "rows of later rules")
    assert RowListing.of(content, "") is None


def test_rows_read_with_another_prefix_have_ids_of_their_own(tmp_path, listings):
    (tmp_path / "folder").mkdir()
    write_rows(tmp_path / "folder" / "rows.jsonl", [{"id": "a", "text": "One."}])
    assert in_a_new_process(tmp_path / "folder" / "rows.jsonl")[0] == ["a"]
    other = in_a_new_process(tmp_path / "folder")[0]
    assert other == in_a_new_process(tmp_path / "folder")[0]
    assert in_a_new_process(tmp_path / "folder" / "rows.jsonl")[0] == ["a"]


def test_a_file_that_could_not_be_read_to_its_end_is_read_again(tmp_path, listings, monkeypatch):
    path = write_rows(tmp_path / "rows.jsonl", [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}])
    monkeypatch.setattr(jsonl, "_ROW_LIMIT", 10)
    assert in_a_new_process(path)[0] == []
    assert not listings.exists()
    monkeypatch.undo()
    assert in_a_new_process(path)[0] == ["a", "b"]

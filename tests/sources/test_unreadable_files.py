"""What cannot be read is named with a reason, and the rest goes on."""

import gzip
import json
import os
from pathlib import Path

import pytest

from packwise.errors import SourceError
from packwise.sources import Item, Problem, decoding, open_source


def reasons(found):
    return {Path(p.location).name: p.reason for p in found.problems}


def test_binary_files_are_reported_whatever_they_are_called(folder, opened):
    root = folder(
        {
            "nul.md": b"text\0more",
            "noise.txt": bytes(range(1, 256)) * 20,
            "latin.txt": ("ä" * 50 + "o" * 100).encode("latin-1"),
            "fine.md": "text",
        }
    )
    found = opened(root)
    assert list(found.documents) == ["fine.md"]
    assert "NUL" in reasons(found)["nul.md"]
    assert "control" in reasons(found)["noise.txt"]
    assert "not UTF-8" in reasons(found)["latin.txt"]


def test_a_few_broken_bytes_are_replaced_with_a_warning(folder, opened):
    broken = "Größe über alles, ".encode() + b"\xff and more words of text"
    found = opened(folder({"a.md": broken, "b.md": "fine"}))
    assert not found.problems
    assert found.items["a.md"].warning == "one byte is not UTF-8: replaced"
    assert found.items["b.md"].warning == ""
    assert found.documents["a.md"].text == "Größe über alles, \ufffd and more words of text"


def test_marks_and_declarations_say_the_encoding(folder, opened):
    html = "<meta charset='windows-1252'><p>café – Größe"
    found = opened(
        folder(
            {
                "bom.md": "\ufeff# Título\n\ntext".encode(),
                "wide.txt": "Grüße".encode("utf-16"),
                "old.html": html.encode("windows-1252"),
                "wrong.html": b"<meta charset=no-such><p>caf\xe9 in a longer text than this",
                "crlf.txt": b"one\r\ntwo\r\n\r\nthree",
            }
        )
    )
    texts = {id: document.text for id, document in found.documents.items()}
    assert found.documents["bom.md"].title == "Título"
    assert texts["wide.txt"] == "Grüße"
    assert texts["old.html"] == "café – Größe"
    assert texts["crlf.txt"] == "one\ntwo\n\nthree"
    assert found.items["wrong.html"].warning
    assert not found.items["old.html"].warning


def test_a_file_over_the_limit_is_reported(folder, opened, monkeypatch):
    monkeypatch.setattr(decoding, "SIZE_LIMIT", 2 << 20)
    found = opened(folder({"big.txt": b"word " * (1 << 19), "small.txt": "text"}))
    assert list(found.items) == ["small.txt"]
    assert reasons(found) == {"big.txt": "is larger than 2 MiB (2 MiB)"}


def test_a_pipe_is_not_waited_for(folder, opened):
    root = folder({"a.md": "text"})
    os.mkfifo(root / "pipe.md")
    found = opened(root)
    assert list(found.items) == ["a.md"]
    assert reasons(found) == {"pipe.md": "is not a regular file"}


def test_a_file_that_vanishes_is_reported(folder):
    root = folder({"a.md": "text", "b.md": "text"})
    source = open_source(str(root))
    (root / "a.md").unlink()
    entries = list(source.items())
    assert [type(entry) for entry in entries] == [Problem, Item]
    assert str(entries[0]) == f"{root}/a.md: cannot be read (No such file or directory)"
    (root / "b.md").write_bytes(b"\0")
    with pytest.raises(SourceError, match=r"b\.md: is not text"):
        entries[1].read()
    (root / "b.md").unlink()
    with pytest.raises(SourceError, match=r"b\.md: No such file"):
        entries[1].read()


def test_a_parser_that_fails_names_the_file_and_the_fault():
    def fail():
        raise KeyError("x")

    with pytest.raises(SourceError, match=r"^a\.md: cannot be parsed \(KeyError\)$") as failed:
        Item("a.md", "h", "a.md", fail).read()
    assert isinstance(failed.value.__cause__, KeyError)


def test_bad_rows_are_reported_by_line_and_the_rest_is_read(tmp_path, opened):
    path = tmp_path / "rows.jsonl"
    lines = [
        b'\xef\xbb\xbf{"id": "bom", "text": "x"}',
        b"",
        b"{not json}",
        b"[1]",
        b'{"id": "t"}',
        b'{"id": 1.5, "text": "x"}',
        b'{"id": "e", "text": " "}',
        b"[" * 100_000,
        b'{"id": "caf\xe9", "text": "x"}',
        b'{"id": "bom", "text": "again"}',
        b'{"id": "half \\ud800", "text": "a \\udfff b"}',
        b'{"title": "only", "text": "", "_id": 7}',
    ]
    path.write_bytes(b"\n".join(lines))
    found = opened(path)
    assert [document.text for document in found.documents.values()] == [
        "x",
        "x",
        "a \ufffd b",
        "only",
    ]
    assert list(found.items) == ["bom", "caf\ufffd", "half \ufffd", "7"]
    assert found.items["caf\ufffd"].warning
    assert {p.location.rpartition(":")[2]: p.reason for p in found.problems} == {
        "3": "is not JSON (Expecting property name enclosed in double quotes at column 2)",
        "4": "is not a JSON object",
        "5": 'has no "text"',
        "6": 'has an "id" that is neither text nor a whole number',
        "7": "has neither text nor a title",
        "8": "is not JSON that can be read",
        "10": 'has the id "bom" a second time',
    }


def test_a_file_with_no_row_that_fits_is_given_up(tmp_path, opened):
    path = tmp_path / "log.jsonl"
    path.write_text("not json\n" * 10_000)
    found = opened(path)
    assert not found.items
    assert len(found.problems) == 101
    assert "given up" in found.problems[-1].reason


def test_a_cut_off_archive_yields_what_it_has_and_a_problem(tmp_path, opened):
    rows = "".join(json.dumps({"id": n, "text": f"text {n * 7919}"}) + "\n" for n in range(5000))
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(gzip.compress(rows.encode())[:-2000])
    found = opened(tmp_path)
    assert 100 < len(found.items) < 5000
    assert len(found.problems) == 1
    assert "cannot be read after line" in found.problems[0].reason


@pytest.mark.parametrize("name", ["missing.md", "missing", "a\0b.md", "x" * 5000, "loop"])
def test_what_does_not_exist_is_an_error_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SourceError) as refused:
        open_source(name)
    assert "\n" not in str(refused.value)
    assert refused.value.fix


def test_only_the_running_pythons_reference_is_known():
    with pytest.raises(SourceError, match="python:reference"):
        open_source("python:library")

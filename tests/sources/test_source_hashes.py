"""A hash changes when, and only when, what would be read changes."""

import pytest

from packwise.sources import source_items


def test_a_hash_depends_on_the_bytes_and_the_readers_version(folder, opened, monkeypatch):
    root = folder({"a.md": "one", "b.md": "two"})
    before = opened(root).hashes
    (root / "a.md").write_text("one!")
    after = opened(root).hashes
    assert after["a.md"] != before["a.md"]
    assert after["b.md"] == before["b.md"]
    monkeypatch.setattr(source_items, "PARSER_VERSION", "next")
    assert opened(root).hashes["b.md"] != before["b.md"]


def test_the_same_bytes_in_another_format_are_another_document(folder, opened):
    hashes = opened(folder({"a.md": "same", "a.txt": "same"})).hashes
    assert hashes["a.md"] != hashes["a.txt"]


@pytest.mark.parametrize(
    ("name", "text", "appears"),
    [
        ("a.md", "see [[Plan]]", "sub/plan.md"),
        ("a.md", "see [plan](plan)", "plan.md"),
        ("a.md", "see [plan][p]\n\n[p]: plan/\n", "plan/index.md"),
        ("a.html", "see <a href=plan.html>it</a>", "plan.md"),
        ("a.rst", "see :doc:`plan`", "plan.rst"),
        ("a.rst", ".. toctree::\n\n   plan\n", "plan.rst"),
    ],
)
def test_a_file_elsewhere_changes_the_hash_of_those_whose_links_it_changes(
    name, text, appears, folder, opened
):
    root = folder({name: text, "other.md": "no links here"})
    before = opened(root)
    folder({appears: "text"})
    after = opened(root)
    (old,), (new,) = before.documents[name].links, after.documents[name].links
    assert (old.href, new.href) != (appears, old.href)
    assert new.href == appears
    assert after.hashes[name] != before.hashes[name]
    assert after.hashes["other.md"] == before.hashes["other.md"]


def test_a_plain_link_does_not_tie_a_file_to_others(folder, opened):
    root = folder({"a.md": "see [plan](plan.md)"})
    before = opened(root).hashes["a.md"]
    folder({"plan.md": "text"})
    assert opened(root).hashes["a.md"] == before


def test_a_document_carries_its_items_hash(folder, opened):
    found = opened(folder({"a.md": "x", "rows.jsonl": '{"id": 1, "text": "y"}\n'}))
    assert {id: document.source_hash for id, document in found.documents.items()} == found.hashes

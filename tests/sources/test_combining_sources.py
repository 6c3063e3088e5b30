"""Several sources make one build, and every id is there once."""

from packwise.sources import combine, combined_ids


def hrefs(document):
    return [link.href for link in document.links]


def test_a_later_source_gives_way_and_its_links_follow(folder, opened):
    one = folder({"README.md": "first", "a.md": "[r](README.md)"}, name="one")
    two = folder({"README.md": "[b](b.md)", "b.md": "[r](README.md)"}, name="two")
    found = opened(one, two)
    documents = found.documents
    assert list(documents) == ["README.md", "a.md", "two/README.md", "b.md"]
    assert documents["two/README.md"].text == "b"
    assert hrefs(documents["two/README.md"]) == ["b.md"]
    assert hrefs(documents["b.md"]) == ["two/README.md"]
    assert hrefs(documents["a.md"]) == ["README.md"]
    assert {id: document.source_hash for id, document in documents.items()} == found.hashes


def test_links_between_files_named_one_by_one_hold(folder, opened):
    root = folder({"a.md": "[b](b.md)", "b.md": "[a](a.md)"})
    documents = opened(root / "a.md", root / "b.md").documents
    assert hrefs(documents["a.md"]) == ["b.md"]
    assert hrefs(documents["b.md"]) == ["a.md"]


def test_a_link_to_what_only_the_other_source_has_is_left_alone(folder, opened):
    one = folder({"x.md": "x", "same.md": "x"}, name="one")
    two = folder({"y.md": "[x](x.md)", "same.md": "y"}, name="two")
    assert hrefs(opened(one, two).documents["y.md"]) == ["x.md"]


def test_the_new_name_is_free(folder, opened):
    one = folder({"a.md": "1", "two/a.md": "2"}, name="one")
    two = folder({"a.md": "3", "two-2/a.md": "4"}, name="two")
    found = opened(one, two)
    assert {id: document.text for id, document in found.documents.items()} == {
        "a.md": "1",
        "two/a.md": "2",
        "two-3/a.md": "3",
        "two-2/a.md": "4",
    }


def test_a_new_clash_changes_the_hashes_of_the_later_source_only(folder, opened):
    one = folder({"a.md": "1"}, name="one")
    two = folder({"b.md": "2", "c.md": "[b](b.md)"}, name="two")
    before = opened(one, two).hashes
    folder({"b.md": "3"}, name="one")
    after = opened(one, two).hashes
    assert after["a.md"] == before["a.md"]
    assert after["c.md"] != before["c.md"]


def test_the_same_place_is_read_once(folder, opened, monkeypatch):
    root = folder({"a.md": "x"})
    monkeypatch.chdir(root)
    assert list(opened(root, ".", f"{root}/../docs").items) == ["a.md"]


def test_sources_of_every_kind_go_together(folder, opened):
    root = folder({"a.md": "x", "rows.jsonl": '{"id": "a.md", "text": "row"}\n'})
    found = opened(root / "a.md", root / "rows.jsonl", "python:reference")
    assert not found.problems
    assert list(found.items)[:2] == ["a.md", "rows/a.md"]
    assert "python:if" in found.items


def test_ids_do_not_depend_on_what_can_be_read(folder, opened):
    roots = [folder({"x.md": f"text {n}"}, name=f"{n}/docs") for n in "abc"]
    expected = {"x.md", "docs/x.md", "docs-2/x.md"}
    found = opened(*roots)
    assert {*found.documents} == expected
    assert combined_ids(found.sources) == expected
    for root in roots[:2]:
        (root / "x.md").write_bytes(b"\0\0")
    broken = opened(*roots)
    assert [document.text for document in broken.documents.values()] == ["text c"]
    assert list(broken.items) == ["docs-2/x.md"]
    assert len(broken.problems) == 2
    assert combined_ids(broken.sources) == expected
    assert broken.hashes["docs-2/x.md"] == found.hashes["docs-2/x.md"]


def test_ids_of_one_source_and_of_the_same_place_twice(folder, opened):
    root = folder({"a.md": "x", "rows.jsonl": '{"id": "r", "text": "row"}\n', "bad.md": b"\0"})
    assert combined_ids(opened(root).sources) == {"a.md", "bad.md", "rows.jsonl/r"}
    assert combined_ids(opened(root, root).sources) == {"a.md", "bad.md", "rows.jsonl/r"}


def test_no_source_holds_nothing():
    assert list(combine([])) == []
    assert combined_ids([]) == set()

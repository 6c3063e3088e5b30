"""What becomes of documents of each format, seen from outside: open_source and combine."""

import gzip
import json
import time

import pytest

from packwise.documents import BlockKind
from packwise.errors import SourceError
from packwise.sources import Item, Problem, combine, open_source


def read(tmp_path, name, content, *others):
    """The document of one file, in a folder that may hold others."""
    for other, text in [(name, content), *others]:
        path = tmp_path / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (item,) = [e for e in combine([open_source(str(tmp_path))]) if e.id == name]
    return keeps_the_law(item.read())


def keeps_the_law(document):
    """Every offset counts characters of the document's text."""
    for section in document.sections:
        assert 0 <= section.start <= section.end <= len(document.text)
        for block in section.blocks:
            assert section.start <= block.start < block.end <= section.end
            assert document.text[block.start : block.end].strip()
    for link in document.links:
        assert document.text[link.start : link.start + len(link.anchor)] == link.anchor
    return document


def paths(document):
    return [section.path for section in document.sections]


def body(document):
    return "\n".join(
        document.text[b.start : b.end] for section in document.sections for b in section.blocks
    )


MARKDOWN = """---
title: From the front
team: core
---
# The first heading

Some *marked up* text with a [link](other.md#part) in it.

## Steps

- one
- two

```python
def f():

    return 1
```

| name | value |
|------|-------|
| a    | 1     |

### Deeper

The end.
"""


def test_markdown_has_title_sections_metadata_and_links(tmp_path):
    document = read(tmp_path, "page.md", MARKDOWN, ("other.md", "# Other\n\nText.\n"))
    assert document.title == "From the front"
    assert document.metadata["team"] == "core"
    assert ("The first heading", "Steps", "Deeper") in paths(document)
    assert "Some marked up text with a link in it." in body(document)
    assert [(link.href, link.anchor) for link in document.links] == [("other.md", "link")]


def test_markdown_code_and_tables_are_blocks_of_their_own(tmp_path):
    document = read(tmp_path, "page.md", MARKDOWN)
    blocks = {b.kind: document.text[b.start : b.end] for s in document.sections for b in s.blocks}
    assert blocks[BlockKind.CODE] == "def f():\n\n    return 1"
    assert "a | 1" in blocks[BlockKind.TABLE]
    assert "- one" in blocks[BlockKind.LIST]


def test_the_only_first_heading_is_the_title_and_not_part_of_the_paths(tmp_path):
    document = read(tmp_path, "page.md", "# Whole page\n\nIntro.\n\n## Part\n\nText.\n")
    assert document.title == "Whole page"
    assert paths(document) == [(), ("Part",)]


def test_html_keeps_the_article_and_drops_what_surrounds_it(tmp_path):
    page = """<html lang="en"><head><title>Site title</title><style>p {}</style></head><body>
    <nav><a href="/">Home</a></nav><main><h1>Article</h1><p>First &amp; <b>bold</b>.</p>
    <h2>Part</h2><p>See <a href="other.html">the other page</a>.</p><pre>x = 1</pre></main>
    <script>alert(1)</script></body></html>"""
    document = read(tmp_path, "page.html", page, ("other.html", "<p>Other page text.</p>"))
    assert document.title == "Article"
    assert document.lang == "en"
    assert "First & bold." in body(document)
    assert "alert" not in document.text
    assert "Home" not in document.text
    assert [link.href for link in document.links] == ["other.html"]
    assert ("Part",) in paths(document)


def test_rst_knows_sections_and_tolerates_what_sphinx_adds(tmp_path, capfd):
    text = """Title
=====

Some *text* with :func:`os.walk` and ``code``.

Part
----

.. versionadded:: 3.2
   Something new.

.. include:: /etc/passwd

.. raw:: html

   <script>alert(1)</script>
"""
    document = read(tmp_path, "page.rst", text)
    assert document.title == "Title"
    assert ("Part",) in paths(document)
    assert "os.walk" in document.text
    assert "root:" not in document.text
    assert "<script>" not in document.text
    assert capfd.readouterr().err == ""


def test_plain_text_is_one_section(tmp_path):
    document = read(tmp_path, "shopping-list.txt", "Eggs and milk.\n\nBread.\n")
    assert document.title.lower().replace("-", " ") == "shopping list"
    assert body(document) == "Eggs and milk.\nBread."


def test_jsonl_is_a_document_a_line_and_a_bad_line_is_a_problem_with_its_number(tmp_path):
    rows = [
        json.dumps({"id": "a", "title": "A", "text": "Text of a.", "metadata": {"kind": "x"}}),
        "{not json",
        json.dumps({"_id": "b", "title": "B", "text": "Text of b.", "links": ["a"]}),
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    entries = list(combine([open_source(str(tmp_path / "rows.jsonl"))]))
    documents = [keeps_the_law(entry.read()) for entry in entries if isinstance(entry, Item)]
    (problem,) = [entry for entry in entries if isinstance(entry, Problem)]
    assert [document.id for document in documents] == ["a", "b"]
    assert documents[0].metadata["kind"] == "x"
    assert [link.href for link in documents[1].links] == ["a"]
    assert "2" in str(problem)


def test_a_beir_folder_is_read_row_by_row(tmp_path):
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt") as corpus:
        for number in range(3):
            row = {"_id": str(number), "title": f"T{number}", "text": "Some text.", "metadata": {}}
            corpus.write(json.dumps(row) + "\n")
    source = open_source(str(tmp_path))
    assert list(source.ids()) == ["0", "1", "2"]
    assert [entry.read().title for entry in combine([source])] == ["T0", "T1", "T2"]


def test_the_python_reference_is_there_on_every_machine():
    documents = [
        keeps_the_law(entry.read()) for entry in combine([open_source("python:reference")])
    ]
    assert len(documents) > 50
    titles = {document.title for document in documents}
    assert any("exception" in title.lower() for title in titles)
    assert sum(bool(document.links) for document in documents) > 5


def test_ignored_and_hidden_files_are_passed_over(tmp_path):
    for name in ("keep.md", "drafts/no.md", "drafts/yes.md", ".hidden.md", "node_modules/x.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# Page\n\nText.\n")
    (tmp_path / "photo.jpg").write_bytes(b"jpeg")
    (tmp_path / ".packwiseignore").write_text("drafts/*\n!drafts/yes.md\n")
    source = open_source(str(tmp_path))
    assert list(source.ids()) == ["drafts/yes.md", "keep.md"]
    assert source.skipped == {".jpg": 1}


def test_an_unchanged_file_has_the_same_hash_and_a_changed_one_another(tmp_path):
    def source_hash():
        (entry,) = combine([open_source(str(tmp_path))])
        return entry.source_hash

    page = tmp_path / "page.md"
    page.write_text("# A\n\nText.\n")
    first = source_hash()
    assert source_hash() == first
    page.write_text("# A\n\nOther text.\n")
    assert source_hash() != first


HOSTILE = {
    # what to repeat, how often, and the text that comes out of n repetitions
    "quotes": (lambda n: "> " * n + "deep", 20_000, lambda n: "deep"),
    "lists": (lambda n: "- " * n + "deep", 20_000, lambda n: "deep"),
    "brackets": (lambda n: "[" * n + "word", 50_000, lambda n: "[" * n + "word"),
    "stars": (lambda n: "*" * n + "x", 20_000, lambda n: "*" * n + "x"),
    "one word": (lambda n: "x" * n, 1_000_000, lambda n: "x" * n),
    "bars": (lambda n: "|" * n, 100_000, lambda n: "|" * n),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_markdown_is_read_whole_in_linear_time(tmp_path, name):
    text, size, expected = HOSTILE[name]

    def seconds(size):
        started = time.thread_time()
        document = read(tmp_path, "page.md", text(size))
        taken = time.thread_time() - started
        # Nesting deeper than the parser goes leaves its marks in the text.
        assert document.text.lstrip("-> \n") == expected(size)
        return taken

    seconds(100)  # imports and caches
    small = seconds(size)
    # Linear time gives 4, quadratic time 16; a slow machine slows both alike.
    assert seconds(4 * size) < 8 * small + 0.5


def test_hostile_html_does_not_exhaust_the_stack(tmp_path):
    document = read(tmp_path, "page.html", "<div>" * 20000 + "deep" + "<b>" * 5000)
    assert document.text == "deep"


@pytest.mark.parametrize("name", ["nowhere", "python:cookbook", "https://"])
def test_what_is_no_source_is_said_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as error:
        open_source(name)
    assert "\n" not in str(error.value)


def test_a_format_nobody_reads_is_refused_by_name(tmp_path):
    (tmp_path / "film.mp4").write_bytes(b"mp4")
    with pytest.raises(SourceError, match=r"film\.mp4"):
        open_source(str(tmp_path / "film.mp4"))

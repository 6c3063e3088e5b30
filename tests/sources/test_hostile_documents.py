"""Input made to hang a parser or to exhaust its stack is read, in good time, without loss."""

import gzip
import time
import tracemalloc
import zipfile

import pytest

from packwise.errors import SourceError
from packwise.language.names import names_in
from packwise.sources import open_source, wikitext
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.ignore import IgnoreRules
from packwise.sources.jsonl import may_hold_documents, rows
from packwise.sources.links import LinkResolver
from packwise.sources.readers import SourceFile, reader_of
from packwise.sources.source_items import Problem

DEEP = 10_000
SECONDS = 20  # each takes less than 1.5 on an idle core; a parser gone quadratic takes minutes

MARKDOWN = {
    "quotes": ">" * DEEP + " word",
    "quote lines": "\n".join(">" * n + " word" for n in range(500)),
    "lists in a line": "- " * DEEP + "word",
    "lists in lines": "\n".join("  " * n + "- word" for n in range(500)),
    "brackets": "[" * 300_000 + "word",
    "images": "![" * 150_000 + "word",
    "stars": "*a " * 300_000 + "word",
    "a long link": "[a](" + "x" * 300_000 + " [" * 3000 + " word",
    "tags": "<div>" * DEEP + "word",
    "a megabyte in a line": "some " * 200_000 + "word",
    "blanks": "word" + " " * 1_000_000 + "word",
    "blank lines": "\n" * 500_000 + "word",
}
HTML = {
    "divisions": "<div>" * 100_000 + "word",
    "lists": "<ul><li>" * DEEP + "word",
    "tables": "<table><tr><td>" * 3000 + "word",
    "bold": "<b>" * DEEP + "word",
    "links": "<a href=x>" * DEEP + "word",
    "terms": "<dl><dt>" * 3000 + "word",
    "scripts": "word" + "<div>" * 5000 + "<script>" * 50_000,
    "open tags": "word" + "<div>" * 5000 + "<p" * 100_000,
    "a megabyte in a line": "some " * 200_000 + "word",
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(150_000)) + ">word",
    "quoted attributes": "<p " + " ".join(f"a{n}='>'" for n in range(100_000)) + ">word",
}
RST = {
    "lists in a line": "- " * 1000 + "word",
    "bullets in bullets": "\n".join(" " * n + "- x\n" for n in range(0, 400, 2)) + "\nword",
    "quotes in quotes": "\n\n".join(" " * n + "word" for n in range(300)),
    "stars": ("*a " * 1000 + "\n") * 30 + "word",
    "quotes": ("`a " * 1000 + "\n") * 30 + "word",
    "a long line": "some " * 200_000 + "word",
    "a role with blanks": ":role:`a" + " " * 300_000 + "word`",
    "an open role with blanks": ":role:`a" + " " * 300_000 + "word",
    "colons": ":a" * 150_000 + " word",
    "long words": ("'" * 5000 + "\n\n") * 100 + "word",
    "paragraphs of stars": ("*a " * 1600 + "\n\n") * 100 + "word",
}
CODE = {
    "comments that never end": (".c", "\n/**(AB) " * 20_000),
    "less than": (".hpp", "On a wrote:\n" + "+---+\n<" * 20_000),
    "open brackets": (".cs", "\n/**![" * 20_000),
}


@pytest.mark.parametrize(
    ("format", "text"),
    [
        pytest.param(format, text, id=f"{format}-{name}")
        for format, texts in (("markdown", MARKDOWN), ("html", HTML), ("rst", RST))
        for name, text in texts.items()
    ],
)
def test_nothing_hangs_and_nothing_is_lost(format, text, read):
    started = time.thread_time()
    document = read(format, text)
    assert "word" in document.text
    assert time.thread_time() - started < SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "== " + " " * 20_000 + "word",
        "{|\n|-\n| " + "a=b" * 3000 + " word\n|}",
        "word " + "[//a" * 30_000,
        "word " + "[//a b " * 20_000,
    ],
    ids=["heading", "cell", "links", "links with labels"],
)
def test_headings_cells_and_links_of_wikis_are_read_in_linear_time(text):
    started = time.thread_time()
    builder = DocumentBuilder()
    wikitext.read(builder, text)
    assert "word" in builder.build("a", LinkResolver(())).text
    assert time.thread_time() - started < SECONDS


@pytest.mark.parametrize(("suffix", "text"), CODE.values(), ids=CODE)
def test_a_grammar_gives_up_on_what_is_no_code(suffix, text, tmp_path):
    (tmp_path / f"a{suffix}").write_text(text + " word")
    started = time.thread_time()
    (item,) = open_source(str(tmp_path / f"a{suffix}")).items()
    assert "word" in item.read().text
    assert time.thread_time() - started < SECONDS


@pytest.mark.parametrize("suffix", [".ini", ".toml", ".yaml"])
def test_blanks_in_the_name_of_a_section_hold_up_nothing(suffix, tmp_path):
    (tmp_path / f"a{suffix}").write_text("[" + "\t" * 3000 + "x\nword: 1\n[ last ] # one\nb = 2\n")
    started = time.thread_time()
    (item,) = open_source(str(tmp_path / f"a{suffix}")).items()
    document = item.read()
    assert "word" in document.text
    assert document.sections[-1].path[-1:] == ("last",)
    assert time.thread_time() - started < SECONDS


@pytest.mark.parametrize("format", ["markdown", "html", "rst", "text"])
def test_large_files_take_time_in_proportion(format, read):
    paragraph = "Some words of a paragraph, with a [link](other.md) in it.\n\n"
    if format == "html":
        paragraph = "<p>Some words of a paragraph, with a <a href=x.html>link</a> in it.</p>\n"
    document = read(format, paragraph * (1_200_000 // len(paragraph)))
    assert len(document.sections[0].blocks) == 1_200_000 // len(paragraph)


def test_names_are_found_in_linear_time():
    letters = "http://example.org " + "a" * 400_000 + " by Ada Lovelace."
    started = time.thread_time()
    assert [name.text for name in names_in(letters)] == ["Ada Lovelace"]
    assert time.thread_time() - started < SECONDS


@pytest.mark.parametrize(
    ("pattern", "hit", "miss"),
    [
        ("*a" * 12 + "*b", "a" * 254 + "b", "a" * 255),
        ("**/a/" * 12 + "b", "a/" * 1000 + "b", "a/" * 1000 + "c"),
        ("/**/a" * 12 + "/b/**", "a/" * 1000 + "b/c", "a/" * 1000 + "c"),
    ],
)
def test_ignore_rules_are_matched_in_linear_time(pattern, hit, miss):
    rules = IgnoreRules().with_lines([pattern])
    started = time.thread_time()
    assert rules.ignored(hit, folder=False)
    assert not rules.ignored(miss, folder=False)
    assert time.thread_time() - started < SECONDS


@pytest.mark.parametrize("blank", [b" ", b"\n", b"\r\n"])
def test_gzipped_blanks_cost_little_memory(blank, tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(200):
            file.write(blank * ((1 << 20) // len(blank)))
        file.write(b'{"text": "word"}\n')
    tracemalloc.start()
    entries = list(rows(SourceFile(path, "rows", "rows", reader_of("rows"))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert may_hold_documents(path)
    assert [type(entry) for entry in entries] == [Problem, Problem]
    assert "given up at line" in entries[1].reason
    assert peak < 300 << 20


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_parts_that_no_office_program_packs_so_are_not_unpacked(packed, tmp_path):
    # zipfile unpacks these two without bounds: 10 kB became 1 GB.
    path = tmp_path / "a.docx"
    with zipfile.ZipFile(path, "w", packed) as file:
        file.writestr("word/document.xml", b" " * (200 << 20))
    tracemalloc.start()
    (item,) = open_source(str(path)).items()
    with pytest.raises(SourceError, match="is packed as"):
        item.read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20


def test_nested_mail_neither_ends_nor_holds_up_a_build(tmp_path):
    start = b"From a@b Mon Jan  1 00:00:00 2024\n"
    nested = b"--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 900
    path = tmp_path / "list.mbox"
    path.write_bytes(
        start + b"Message-ID: " + b"(" * 5000 + b"\nFrom: a@b\nTo: " + b"(" * 5000 + b"\n\nword\n\n"
        + start + b"From: a@b\n" + nested.removeprefix(b"--b\n") + b"--b\n\nx\n" * 20_000
        + b"\n" + start + b"From: a@b\n\nlast\n"
    )  # fmt: skip
    started = time.thread_time()
    first, second, third = open_source(str(path)).items()
    assert "word" in first.read().text
    with pytest.raises(SourceError, match="more than 200 messages in one another"):
        second.read()
    assert "last" in third.read().text
    assert time.thread_time() - started < SECONDS

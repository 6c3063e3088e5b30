"""Input made to hang a parser or to exhaust its stack is read, in good time, without loss."""

import time

import pytest

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
}
RST = {
    "lists in a line": "- " * 1000 + "word",
    "bullets in bullets": "\n".join(" " * n + "- x\n" for n in range(0, 400, 2)) + "\nword",
    "quotes in quotes": "\n\n".join(" " * n + "word" for n in range(300)),
    "stars": ("*a " * 1000 + "\n") * 30 + "word",
    "quotes": ("`a " * 1000 + "\n") * 30 + "word",
    "a long line": "some " * 200_000 + "word",
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


@pytest.mark.parametrize("format", ["markdown", "html", "rst", "text"])
def test_large_files_take_time_in_proportion(format, read):
    paragraph = "Some words of a paragraph, with a [link](other.md) in it.\n\n"
    if format == "html":
        paragraph = "<p>Some words of a paragraph, with a <a href=x.html>link</a> in it.</p>\n"
    document = read(format, paragraph * (1_200_000 // len(paragraph)))
    assert len(document.sections[0].blocks) == 1_200_000 // len(paragraph)

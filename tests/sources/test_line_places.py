"""Passages know on which lines of their file they are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.documents import joined_places, line_range, located
from packwise.sources.files import open_source
from packwise.sources.line_places import line_places

MARKDOWN = """---
title: Keys
---

# Keys

Rotate the signing key
every ninety days, or at once
if it leaked.

| key | kept in |
|---|---|
| signing | vault |
| backup | **blue** safe |

- first, [revoke](https://example.com/revoke) it
- then tell the team

```sh
packwise build notes
```

Rotate the signing key again after a year.
"""
HTML = """<html><head><title>Keys</title></head><body>
<nav><a href="a.html">Rotation</a></nav>
<h1>Keys</h1>
<p
  class="lead">Salt &amp; pepper are kept
in the <em>blue</em> safe.</p>
<p>Rotation happens every year.</p>
</body></html>
"""
RST = """Keys
====

Rotation
--------

Rotate the ``signing`` key
every ninety days.

.. note:: Tell the team first.
"""
PYTHON = '''"""About keys."""

import os


def rotate(days):
    """Replace the signing key."""
    age = days + 1

    return age
'''
CONFIG = "[server]\nport = 80\n\n[keys]\n# days\nage = 90\n"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "keys.md",
            MARKDOWN,
            {
                "Rotate the signing": 7,
                "leaked": 9,
                "vault": 13,
                "blue": 14,
                "revoke": 16,
                "then tell": 17,
                "packwise build": 20,
                "Rotate the signing key again": 23,
                "a year": 23,
            },
        ),
        ("keys.html", HTML, {"pepper": 5, "blue": 6, "Rotation happens": 7}),
        ("keys.rst", RST, {"Rotate": 7, "ninety": 8, "Tell": 10}),
        ("keys.txt", "Keys\n\nRotate the key\nevery year.\n", {"Rotate": 3, "year": 4}),
        ("keys.py", PYTHON, {"Replace": 7, "age = days": 8, "return age": 10}),
        ("keys.toml", CONFIG, {"port": 2, "days": 5, "90": 6}),
    ],
)
def test_text_is_found_on_its_line(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    (entry,) = open_source(str(tmp_path / name)).items()
    document = entry.load()

    def line_of(part):
        at = document.text.index(part)
        return document.place(at, at + 1)

    assert {part: line_of(part) for part in expected} == {
        part: f"line {number}" for part, number in expected.items()
    }


WORDS = st.lists(st.sampled_from("the a key safe is in and rotate 7 keys".split()), max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=12))
def test_a_text_that_is_its_source_is_aligned_line_by_line(lines):
    text = "\n".join(" ".join(line) for line in lines)
    found = {place.start: place.name for place in line_places(text, text)}
    starts = {
        match.start(): f"line {text.count(chr(10), 0, match.start()) + 1}"
        for match in re.finditer(r"(?m)^\w+", text)
    }
    assert found == starts


@given(st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=12))
def test_a_line_holds_the_word_that_is_said_to_be_on_it(lines, others):
    source, text = ("\n".join(map(" ".join, part)) for part in (lines, others))
    for place in line_places(source, text):
        number, _ = line_range(place.name)
        assert text[place.start :].split()[0] in source.split("\n")[number - 1].split()


def test_text_that_a_reader_moved_keeps_its_lines(tmp_path):
    (tmp_path / "keys.py").write_text(PYTHON)
    (entry,) = open_source(str(tmp_path / "keys.py")).items()
    document = entry.load()
    start = document.text.index("Replace")
    assert document.place(start, len(document.text)) == "lines 6-10"


def test_places_are_written_as_one():
    assert joined_places(["lines 3-8", "line 9", "", "lines 11-14"]) == "lines 3-14"
    assert joined_places(["lines 3-8", "lines 30-31"]) == "lines 3-8, lines 30-31"
    assert joined_places(["page 3", "page 3", "page 4"]) == "page 3, page 4"
    assert located("keys.md", "lines 3-8") == "keys.md:3-8"
    assert located("keys.md", "line 3") == "keys.md:3"
    assert located("report.pdf", "page 3") == "report.pdf, page 3"
    assert located("keys.md", "") == "keys.md"
    assert located("https://a.example/keys", "lines 3-8") == "https://a.example/keys"
    assert located("https://a.example/keys.pdf", "page 3") == "https://a.example/keys.pdf, page 3"


def test_words_that_a_source_repeats_fix_no_place():
    source, text = "one two three\nfour five six\none two three", "four five six one two three"
    assert [(p.start, p.name) for p in line_places(source, text)] == [(0, "line 2"), (14, "line 3")]

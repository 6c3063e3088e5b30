"""The law of offsets holds for whatever people write, and no word of theirs is lost."""

import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.sources import SourceFile, jsonl
from packwise.sources.readers import reader_of

WORDS = [
    first + middle + last for first in "bdgklm" for middle in ("an", "ero", "il") for last in "ktz"
]
TROUBLE = "*_`[](){}<>!#-+|\\~&;:=\"' \n\t\r\0\f\u2028é€😀.0"

FRAGMENTS = {
    "markdown": [
        "# {}\n",
        "## {}\n",
        "{}\n===\n",
        "{}\n{}  \n{}\n",
        "**{}** and *{}* and `{}`\n",
        "[{}](page.md) [{}][ref]\n\n[ref]: other.md\n",
        "[[{}]] and [[{}|{}]]\n",
        "![{}](x.png) <b>{}</b> <br> {}\n",
        "- {}\n- {}\n  - {}\n",
        "1. {}\n\n   {}\n2. {}\n",
        "- {}\n\n  ```\n  {}\n    {}\n  ```\n- {}\n",
        "> {}\n> # {}\n",
        "```py\n{}\n\n  {}\n```\n",
        "    {}\n",
        "| {} | {} |\n|---|---|\n| {} | [{}](x.md) |\n",
        "<div><p>{}</p><ul><li>{}</li></ul></div>\n",
        "---\n",
    ],
    "html": [
        "<h1>{}</h1>",
        "<h2>{} <a href='x.html'>{}</a></h2>",
        "<p>{} <b>{}</b><br>{}<br><br>{}</p>",
        "<div>{}<p>{}</p>{}</div>",
        "<a href='y.html'>{}<p>{}</p></a>",
        "<ul><li>{}<ul><li>{}</li></ul></li><li><p>{}</p></li></ul>",
        "<ol start=4><li>{}</ol>",
        "<pre>{}\n  {}</pre>",
        "<table><caption>{}</caption><tr><th>{}<th>{}<tr><td>{}<td><a href=z>{}</a></table>",
        "<table><tr><td><h3>{}</h3>{}</td></tr></table>",
        "<dl><dt>{}<dd>{}<dt>{}<dd><p>{}</p></dl>",
        "<blockquote>{}</blockquote>",
        "{}\n  {}",
    ],
    "rst": [
        "{}\n==========================================================\n",
        "{}\n----------------------------------------------------------\n",
        "{} *{}* **{}** ``{}``\n",
        "`{} <x.rst>`_ and :doc:`{}` and :func:`{}`\n",
        "* {}\n* {}\n\n  1. {}\n",
        "{}::\n\n    {}\n\n      {}\n",
        "{}\n    {}\n\n    {}\n",
        ".. note:: {}\n\n   {}\n",
        ".. tab:: {}\n\n   {}\n",
        ".. code-block:: python\n   :emphasize-lines: 1\n\n   {}\n",
        "+------------------------------------------------------------+\n"
        "| {:58} |\n+------------------------------------------------------------+\n",
        "| {}\n| {}\n",
        ":{}: {}\n",
    ],
    "text": ["{}\n", "{}\n   {}\n", "{}\n\n\n{}\n"],
}


def texts(format):
    """Documents put together from everything the format knows."""

    @st.composite
    def build(draw):
        chosen = draw(st.lists(st.sampled_from(FRAGMENTS[format]), max_size=8))
        random = draw(st.randoms(use_true_random=False))
        return "\n".join(piece.format(*lines(random, piece.count("{"))) for piece in chosen)

    return build()


def lines(random, count):
    return [" ".join(random.sample(WORDS, random.randint(1, 6))) for _ in range(count)]


@pytest.mark.parametrize("format", list(FRAGMENTS))
def test_offsets_hold_and_no_word_is_lost(format, read):
    @settings(max_examples=40)
    @given(texts(format))
    def holds(text):
        document = read(format, text)
        shown = re.findall(r"[a-z]+", " ".join((document.title, document.text)))
        headings = " ".join(heading for s in document.sections for heading in s.path)
        known = {*shown, *re.findall(r"[a-z]+", headings)}
        written = re.findall(r"[a-z]+", _visible(format, text))
        assert {word for word in written if word in WORDS} <= known

    holds()


def _visible(format, text):
    """A text without the parts that are not for reading."""
    if format == "markdown":
        return re.sub(r"\[\[[^|\]]*\|", "", text)
    # A field list at the head of a file is metadata.
    return re.sub(r"(?m)^:.*$", "", text) if format == "rst" else text


@pytest.mark.parametrize("format", list(FRAGMENTS))
def test_offsets_hold_for_noise(format, read):
    @settings(max_examples=60)
    @given(st.text(alphabet=TROUBLE + "ab", max_size=200))
    def holds(text):
        document = read(format, text)
        assert "\0" not in document.text
        assert "\r" not in document.text

    holds()


@settings(max_examples=40)
@given(
    st.text(max_size=200),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5)),
)
def test_rows_of_any_text_are_documents_or_problems(text, title, metadata):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.jsonl"
        path.write_text(
            json.dumps({"id": 1, "text": text, "title": title, "metadata": metadata}) + "\n"
        )
        (entry,) = jsonl.rows(SourceFile(path, "", "rows.jsonl", reader_of("rows")))
    if (text.strip() or title.strip()) == "":
        assert "neither text nor a title" in str(entry)
        return
    document = entry.read()
    for section in document.sections:
        for block in section.blocks:
            assert document.text[block.start : block.end].strip()
    document.text.encode("utf-8")
    document.title.encode("utf-8")
    for key, value in document.metadata.items():
        assert value
        (key + value).encode("utf-8")


def test_every_suffix_has_a_reader(read):
    for format in ("markdown", "html", "text", "rst"):
        assert "hello" in read(format, "hello").text

"""What a search and a context return can be read like a list, a table or a data frame."""

import asyncio
import threading

import pytest

import packwise
from model_folders import POOLING, write_model
from packwise import Filter, Settings, UsageError
from packwise.candidates import EVERYTHING
from tests_world import write_notes

QUESTION = "How do I rotate the signing key?"
SCRIPT = "<script>alert('x')</script> & more about the tea pot"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The notes and one hostile document, with a small embedder."""
    folder = tmp_path_factory.mktemp("people")
    model = write_model(folder / "model", 32, **{"1_Pooling__config": POOLING})
    settings = Settings.load(env={}, embedder=str(model), threads=1)
    notes = write_notes(folder / "notes")
    (notes / "tea.txt").write_text(f"{SCRIPT} {'tea ' * 300}")
    packwise.build(notes, out=folder / "pack", settings=settings)
    with packwise.open(folder / "pack", settings=settings) as opened:
        yield opened


def test_a_ranking_is_a_sequence_of_its_hits(library):
    ranking = library.search(QUESTION, 4)
    assert len(ranking) == 4
    assert list(ranking) == list(ranking.hits)
    assert ranking[0] is ranking.hits[0]
    assert ranking[-2:] == ranking.hits[2:]
    assert ranking.hits[1] in ranking
    with pytest.raises(IndexError):
        _ = ranking[4]


def test_a_context_is_a_sequence_of_its_passages_and_its_text(library):
    context = library.context(QUESTION, 500)
    assert len(context) == len(context.passages) > 0
    assert list(context) == list(context.passages)
    assert context[0].marker == 1
    assert str(context) == context.text
    assert context.as_dict()["passages"] == context.to_dicts()


def test_an_empty_result_is_false_and_still_a_table(library):
    ranking = library.search("tea", where={"path": "nowhere/"})
    assert not ranking
    assert ranking.to_dicts() == []
    assert "<tbody></tbody>" in ranking._repr_html_()


def test_dictionaries_have_what_the_command_line_prints(library):
    first = library.search(QUESTION, 2).to_dicts()[0]
    assert list(first) == (
        "rank id document title section_path url place suspicious text start end scores".split()
    )
    assert first["rank"] == 1
    assert first["scores"]["final"] == pytest.approx(
        library.search(QUESTION)[0].scores.final, abs=1e-6
    )


def test_a_data_frame_has_a_row_per_result_and_a_column_per_score(library):
    frame = library.search(QUESTION, 3).to_pandas()
    assert list(frame["rank"]) == [1, 2, 3]
    assert {"document", "text", "vector", "keyword", "final"} <= set(frame.columns)
    assert "scores" not in frame.columns
    assert 1 in set(library.context(QUESTION).to_pandas()["marker"])


def test_without_pandas_there_is_one_line(library, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UsageError) as caught:
        library.search(QUESTION).to_pandas()
    assert str(caught.value) == "pandas is not installed -> pip install pandas"


@pytest.mark.parametrize("method", ["search", "context"])
def test_the_table_of_a_notebook_shows_text_as_text(library, method):
    html = getattr(library, method)("<b>tea pot</b>")._repr_html_()
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; more" in html
    assert "<script" not in html
    assert "&lt;b&gt;tea pot&lt;/b&gt;" in html
    assert "<b>" not in html
    assert max(len(cell) for cell in html.split("<td")) < 1500


def test_a_filter_may_be_a_dictionary(library):
    found = library.search("key", where={"path": "guides/"})
    assert {hit.passage.document for hit in found} == {"guides/keys.md", "guides/releases.md"}
    one = {"document": ["operations/backups.md"]}
    assert {p.document for p in library.context("restore a backup", where=one)} == set(
        one["document"]
    )
    answer = library.ask("restore a backup", synthesis=False, where=one, threshold=0.0)
    assert set(answer.sources) <= {"Backups"}
    assert Filter.of(None) is Filter.of(EVERYTHING) is EVERYTHING
    assert Filter.of({"team": "security"}) == Filter(metadata={"team": "security"})


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (3, "where takes a Filter or a dictionary, not 3"),
        ("guides/", "where takes a Filter or a dictionary, not 'guides/'"),
        ({"path": 3}, "where.path takes one text"),
        ({"document": 3}, "where.document takes one text or several, not 3"),
    ],
)
def test_another_filter_is_a_usage_error(library, where, line):
    for call in (library.search, library.context, library.ask):
        with pytest.raises(UsageError) as caught:
            call("key", where=where)
        assert str(caught.value) == line


def test_wrong_types_are_one_line(library):
    for call, line in (
        (lambda: library.search(None), "a query is text, not None"),
        (lambda: library.search("key", k="3"), "k is a whole number of 1 to 1000, not '3'"),
        (lambda: library.context("key", "9"), "a token budget is a whole number, not '9'"),
        (lambda: library.search("key", k=2.5), "k is a whole number of 1 to 1000, not 2.5"),
        (lambda: library.context(b"key"), "a query is text, not b'key'"),
        (lambda: library.ask(3), "a question is text, not 3"),
        (lambda: next(library.ask_stream(3)), "a question is text, not 3"),
        (lambda: packwise.open(None), "open takes the path, name or address of a store, not None"),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == line


def test_the_async_calls_give_the_same_and_run_elsewhere(library, monkeypatch):
    threads = []
    search = type(library).search

    async def both():
        return await asyncio.gather(
            library.asearch(QUESTION, 2, where={"path": "guides/"}),
            library.acontext(QUESTION, 500),
            library.aask(QUESTION, synthesis=False, threshold=0.0),
        )

    ranking, context, answer = asyncio.run(both())
    assert ranking.hits == library.search(QUESTION, 2, where={"path": "guides/"}).hits
    assert context.text == library.context(QUESTION, 500).text
    assert answer.text == library.ask(QUESTION, synthesis=False, threshold=0.0).text
    monkeypatch.setattr(
        type(library),
        "_follow_rebuilds",
        lambda self: threads.append(threading.current_thread()),
    )
    asyncio.run(library.asearch(QUESTION))
    assert threading.main_thread() not in threads
    assert search.__doc__ == library.asearch.__doc__


def test_an_async_call_raises_what_the_call_raises(library):
    with pytest.raises(UsageError, match="the query is empty"):
        asyncio.run(library.asearch(" "))

"""Short documents and questions in twelve languages: found, answered, and refused off-topic."""

import tomllib
from pathlib import Path

import pytest

import packwise
from packwise.packs.build import build_pack

DATA = tomllib.loads(
    (Path(__file__).parent / "data" / "small_documents.toml").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module", params=DATA)
def language(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    rows = DATA[request.param]
    (folder / "notes").mkdir()
    for number, text in enumerate(rows["documents"]):
        (folder / "notes" / f"{number:02}.md").write_text(text, encoding="utf-8")
    report = build_pack([str(folder / "notes")], str(folder / "pack"))
    with packwise.open(str(folder / "pack")) as library:
        yield request.param, rows, report, library


def found(library, rows, **options):
    """How many questions have their document among the first three."""
    return sum(
        f"{number:02}.md" in [hit.passage.document for hit in library.search(q, 3, **options).hits]
        for number, q in enumerate(rows["questions"])
    )


@pytest.mark.slow
def test_short_questions_find_their_document(language):
    _, rows, _, library = language
    assert len(rows["documents"]) == 12
    assert len(rows["questions"]) == 10
    assert found(library, rows, mode="keyword") >= 9
    assert found(library, rows) >= 9
    assert len(library.search(rows["questions"][0], 3, mode="vector").hits) == 3


@pytest.mark.slow
def test_answers_quote_the_document_and_off_topic_questions_are_refused(language):
    _, rows, _, library = language
    answers = [library.ask(question) for question in rows["questions"]]
    right = [
        answer.citations[0].document
        for number, answer in enumerate(answers)
        if answer.citations and answer.citations[0].document == f"{number:02}.md"
    ]
    assert len(right) >= 8
    for question in rows["off_topic"]:
        refused = library.ask(question)
        assert refused.query_type == "confidence_gated_fallback"
        assert refused.citations == ()


@pytest.mark.slow
def test_it_is_said_that_the_embedder_does_not_read_the_language(language):
    code, rows, report, library = language
    assert library.store.languages()[code] >= 10
    (warning,) = report.warnings
    assert "bge-small-en-v1.5 does not read it" in str(warning)
    (line,) = library.search(rows["questions"][0]).trace.degraded
    assert line.startswith("bge-small-en-v1.5 does not read ")


@pytest.mark.slow
def test_an_answer_in_another_language_is_not_refused_by_the_probability_of_english(
    language, monkeypatch
):
    _, rows, _, library = language
    monkeypatch.setattr("packwise.answering.asking.NOT_COVERED", 1.0)
    answers = [library.ask(question) for question in rows["questions"]]
    assert sum(answer.certainty == "unsure" for answer in answers) >= 8

"""Library.context and `packwise context`, on a real pack with the real models."""

import json

import pytest
from click.testing import CliRunner

import packwise
from packwise.cli import app
from packwise.models.tokens import token_counter
from packwise.settings import Settings


@pytest.fixture(scope="module")
def library(notes_pack):
    with packwise.open(str(notes_pack)) as opened:
        yield opened


@pytest.mark.parametrize("budget", [0, 5, 40, 120, 400, 8000])
def test_the_text_never_exceeds_the_budget(library, budget):
    packed = library.context("how do I rotate the signing key?", budget)
    assert token_counter().count(packed.text) == packed.tokens <= budget


def test_the_answer_is_in_and_the_search_says_how_sure_it_is(library):
    packed = library.context("how long does the old signing key stay valid?", 150)
    assert "thirty days" in packed.text
    assert (
        packed.confidence
        == library.search("how long does the old signing key stay valid?", 30).confidence
    )


def test_every_candidate_is_in_or_out_for_one_reason(library):
    question = "how are backups tested?"
    packed = library.context(question, 100)
    candidates = {hit.passage.id for hit in library.search(question, 30).hits}
    chosen = {s.id for s in packed.trace.selected if s.attached_to is None}
    dropped = [d.id for d in packed.trace.dropped]
    assert len(dropped) == len(set(dropped))
    assert chosen | set(dropped) == candidates
    assert not chosen & set(dropped)


def test_the_record_is_written_when_the_setting_asks_for_it(notes_pack, tmp_path):
    settings = Settings.load(retrieval_trace=True, trace_folder=str(tmp_path / "traces"))
    with packwise.open(str(notes_pack), settings=settings) as opened:
        packed = opened.context("what is a mirror?", 100)
        opened.context("what is a mirror?", 100)
    (path,) = (tmp_path / "traces").iterdir()
    record = json.loads(path.read_text())
    search = record.pop("search")
    assert record == packed.trace.as_dict()
    stages = {stage["name"]: stage for stage in search["stages"]}
    assert stages["fusion"].keys() >= {"intent", "weights", "ms"}


def test_a_trace_folder_that_cannot_be_written_is_a_warning(notes_pack, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    settings = Settings.load(retrieval_trace=True, trace_folder=str(tmp_path / "file" / "traces"))
    with packwise.open(str(notes_pack), settings=settings) as opened:
        assert opened.context("what is a mirror?", 100).passages
    (warning,) = caplog.messages
    assert "the trace was not saved" in warning


def test_the_command_prints_the_promised_json(notes_pack):
    done = CliRunner().invoke(
        app, ["context", str(notes_pack), "what is a mirror?", "--budget", "80", "--json"]
    )
    result = json.loads(done.stdout)
    assert list(result) == [
        "question",
        "text",
        "tokens",
        "budget",
        "passages",
        "trace",
        "confidence",
        "probability",
    ]
    assert {"selected", "dropped"} <= result["trace"].keys()


def test_the_command_shows_the_trace_and_writes_its_page(notes_pack, tmp_path):
    page = tmp_path / "trace.html"
    arguments = ["context", str(notes_pack), "what is a mirror?", "--trace", "--html", str(page)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "why each passage is in or out" in done.output
    assert "<html" in page.read_text(encoding="utf-8")


def test_the_command_counts_one_passage_as_one(notes_pack):
    arguments = ["context", str(notes_pack), "what is a mirror?", "--budget", "30"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert " of 30 tokens, 1 passage, confidence " in done.stderr

"""What people said about answers is kept, and read by eval and calibrate."""

import json
import multiprocessing
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

from packwise.answering.answer import EXTRACTIVE, VECTOR_SEARCH, Answer
from packwise.cli import app
from packwise.errors import DataError, StoreError
from packwise.evaluation.answers import outcome_of, read_questions
from packwise.evaluation.calibration import gather_answers
from packwise.evaluation.feedback import (
    Feedback,
    feedback_path,
    judged_questions,
    load_feedback,
    save_feedback,
)
from packwise.evaluation.goldens import load_questions
from packwise.library import open_library
from packwise.packs.installed import install
from packwise.stores.locate import open_store
from read_only import read_only

RIGHT = Feedback("How long?", "Thirty days. [1]", "right", passages=("guides/keys.md#0",))


@pytest.fixture
def pack(notes_pack, tmp_path):
    return shutil.copytree(notes_pack, tmp_path / "my-pack")


@pytest.fixture
def info(pack):
    with open_store(str(pack)) as store:
        return store.info()


def test_a_verdict_is_one_line_of_the_packs_eval_folder(pack, info):
    saved = save_feedback(info, RIGHT)
    (line,) = (pack / "eval" / "feedback.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "question": "How long?",
        "answer": "Thirty days. [1]",
        "verdict": "right",
        "passages": ["guides/keys.md#0"],
        "at": saved.at,
    }
    assert load_feedback(feedback_path(info)) == [saved]


def _save_many(info, who):
    for number in range(25):
        save_feedback(info, Feedback(f"{who} {number}?", "x" * 3000, "wrong"))


def test_writers_at_the_same_time_lose_no_verdict(info):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_save_many, args=(info, who)) for who in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = load_feedback(feedback_path(info))
    assert {entry.question for entry in found} == {f"{w} {n}?" for w in "abcd" for n in range(25)}
    assert len(found) == 100


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (b'{"question": "cut o', 1),
        (json.dumps({"question": "q", "answer": "a", "verdict": "right"}).encode(), 2),
    ],
)
def test_a_line_that_a_killed_writer_left_does_not_spoil_the_next(info, tail, kept):
    save_feedback(info, RIGHT)
    with feedback_path(info).open("ab") as file:
        file.write(tail)
    save_feedback(info, RIGHT)
    assert len(load_feedback(feedback_path(info))) == kept + 1


def test_a_read_only_pack_says_so_and_stays_as_it_is(pack, info):
    with read_only(pack), pytest.raises(StoreError, match="cannot write to"):
        save_feedback(info, RIGHT)
    assert not (pack / "eval").exists()


def test_a_link_in_the_pack_is_not_written_through(pack, info, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("mine")
    (pack / "eval").mkdir()
    (pack / "eval" / "feedback.jsonl").symlink_to(other)
    with pytest.raises(StoreError):
        save_feedback(info, RIGHT)
    assert other.read_text() == "mine"


def test_the_latest_verdict_on_an_answer_counts(info):
    wrong = Feedback("How long?", "thirty days", "wrong", "ninety days")
    (judged,) = judged_questions([RIGHT, wrong])
    assert (judged.right, judged.wrong, judged.documents) == (
        ("ninety days",),
        ("thirty days",),
        (),
    )
    (judged,) = judged_questions([wrong, RIGHT])
    assert (judged.right, judged.wrong) == (("Thirty days.",), ())
    assert judged.documents == ("guides/keys.md",)


def test_eval_reads_the_feedback_beside_the_questions_of_a_pack(pack, info):
    save_feedback(info, RIGHT)
    save_feedback(info, Feedback("Who?", "Nobody", "wrong", "The release captain"))
    data = load_questions(pack)
    assert [q.answers for q in data.questions] == [("Thirty days.",), ("The release captain",)]
    assert data.relevant == {data.questions[0].id: {"guides/keys.md": 1}}
    (pack / "eval" / "questions.jsonl").write_text(
        json.dumps({"id": "mine", "question": "how  long?", "answers": ["a month"]}) + "\n"
    )
    data = load_questions(pack)
    assert (data.questions[0].id, data.questions[0].answers) == ("mine", ("a month",))
    assert data.questions[0].verdicts == {"thirty days": True}
    assert len(data.questions) == 2
    result = CliRunner().invoke(app, ["eval", str(pack), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["queries"] == 2


def test_a_question_with_only_a_wrong_answer_is_not_called_unanswerable(pack, info):
    save_feedback(info, Feedback("Who?", "Nobody", "wrong"))
    data = load_questions(pack)
    assert data.questions[0].answerable
    assert data.known == ()
    with pytest.raises(DataError, match="holds no questions"):
        read_questions(feedback_path(info))


def test_calibrate_learns_from_verdicts_on_the_answers_given(pack, info):
    question = "How often is the signing key rotated?"
    with open_library(str(pack)) as library:
        given = library.ask(question, synthesis=False, threshold=0.0)
        for verdict, right in (("wrong", False), ("right", True)):
            save_feedback(info, Feedback(question, given.text, verdict))
            ((chance, found),) = gather_answers(library, load_questions(pack))
            assert found is right
            assert 0 < chance < 1


def test_calibrate_with_feedback_says_how_many_are_missing(pack, info):
    runner = CliRunner()
    result = runner.invoke(app, ["calibrate", str(pack), "--feedback"])
    assert "there is no feedback on this store yet" in str(result.exception)
    save_feedback(info, RIGHT)
    result = runner.invoke(app, ["calibrate", str(pack), "--feedback"])
    assert "30 are needed" in str(result.exception)


def test_the_command_lists_the_verdicts(pack, info):
    runner = CliRunner()
    assert "no answer has been judged" in runner.invoke(app, ["feedback", str(pack)]).stdout
    save_feedback(info, RIGHT)
    listed = runner.invoke(app, ["feedback", str(pack)]).stdout
    assert "1 right, 0 wrong" in " ".join(listed.split())
    found = json.loads(runner.invoke(app, ["feedback", str(pack), "--json"]).stdout)
    assert found["feedback"][0]["verdict"] == "right"


def test_feedback_stays_when_an_installed_pack_is_replaced_and_does_not_travel(
    pack, tmp_path, monkeypatch
):
    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path / "home"))
    target = install(pack)
    with open_store(str(target)) as store:
        save_feedback(store.info(), RIGHT)
    install(pack, replace=True)
    assert len(load_feedback(target / "eval" / "feedback.jsonl")) == 1
    assert not (install(target, "copy") / "eval" / "feedback.jsonl").exists()


def test_a_line_that_is_no_verdict_is_named(info):
    save_feedback(info, RIGHT)
    with feedback_path(info).open("a") as file:
        file.write('{"question": "q", "answer": "a", "verdict": "maybe"}\n')
    with pytest.raises(DataError, match=r"feedback\.jsonl:2"):
        load_feedback(feedback_path(info))


def test_an_answer_of_several_parts_that_was_judged_right_stays_right(info):
    text = "Keys last thirty days. [1]\n\nThe old one stays valid for a day. [2]"
    save_feedback(info, Feedback("How long do keys last?", text, "right"))
    (question,) = read_questions(feedback_path(info))
    same = Answer(question.question, text, VECTOR_SEARCH, EXTRACTIVE, probability=0.9)
    other = replace(same, text="Keys last a year. [1]\n\nThe old one stays valid for a day. [2]")
    assert (outcome_of(question, same), outcome_of(question, other)) == ("right", "wrong")

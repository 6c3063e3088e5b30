"""``packwise eval answers``: what a person reads, counted."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from packwise.cli.evaluate import evaluate
from packwise.errors import DataError
from packwise.evaluation.answers import (
    AnswerQuestion,
    AnswerReport,
    AnswerResult,
    evaluate_answers,
    read_questions,
)
from packwise.library import open_library

QUESTIONS = [
    {"question": "How do I rotate the signing key?", "holds": [["rotate"]], "kind": "sentence"},
    {"question": "How do I rotate the signing key?", "holds": [["no such words"]]},
    {"question": "Who won the football world cup in 1998?", "kind": "off"},
]


def written(tmp_path, *rows):
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


def test_an_answer_is_right_if_it_holds_all_texts_of_one_alternative():
    asked = AnswerQuestion("1", "?", holds=(("Port", "`9999`"), ("none",)))
    assert asked.held_by('The "port"\n  is **9999**.')
    assert asked.held_by("There is none.")
    assert not asked.held_by("The port is open.")
    assert not AnswerQuestion("2", "?").held_by("anything")


def test_answers_or_alternatives_can_be_given(tmp_path):
    path = written(tmp_path, {"question": "a", "answers": ["x", "y"]}, {"question": "b"})
    first, second = read_questions(path)
    assert first.holds == (("x",), ("y",))
    assert (second.id, second.holds) == ("2", ())


@pytest.mark.parametrize(
    "line", ["not json", "[]", '{"holds": [["x"]]}', '{"question": "a", "holds": 3}']
)
def test_a_line_that_is_no_question_is_named(tmp_path, line):
    path = tmp_path / "questions.jsonl"
    path.write_text(f'{{"question": "fine"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"jsonl:2: "):
        read_questions(path)


def test_a_file_without_questions_is_an_error(tmp_path):
    (tmp_path / "none.jsonl").write_text("\n", encoding="utf-8")
    for name in ("none.jsonl", "missing.jsonl"):
        with pytest.raises(DataError):
            read_questions(tmp_path / name)


def test_questions_of_a_real_pack_are_asked_and_counted(notes_pack, tmp_path):
    asked = read_questions(written(tmp_path, *QUESTIONS))
    seen = []
    with open_library(notes_pack) as library:
        report = evaluate_answers(library, asked, synthesis=False, seen=seen.append)
    right, other, off = report.results
    assert (right.outcome, right.found) == ("right", True)
    assert other.outcome in ("wrong", "unsure")
    assert not other.found
    assert (off.outcome, off.certainty) == ("refused", "not covered")
    assert len(seen) == 3
    counts = report.counts()
    assert counts["answerable"]["questions"] == 2
    assert counts["off"]["refused"] == 1


def result(outcome, certainty, probability, holds=(("x",),), kind=""):
    asked = AnswerQuestion("1", "?", kind, holds)
    return AnswerResult(asked, outcome, certainty, probability, False, "")


def test_wrong_answers_that_are_called_likely_are_counted():
    report = AnswerReport(
        (
            result("right", "likely", 0.9),
            result("wrong", "likely", 0.8),
            result("unsure", "unsure", 0.3),
            result("refused", "not covered", 0.0),
        )
    )
    assert report.counts()["answerable"] == {
        "questions": 4,
        "right": 1,
        "unsure": 1,
        "wrong": 1,
        "refused": 1,
        "wrong, likely": 1,
        "in the top three": 0,
    }
    found = report.reliability()
    assert found is not None
    assert found.questions == 3
    assert found.ece == pytest.approx((0.1 + 0.8 + 0.3) / 3)
    assert AnswerReport((result("right", "likely", 0.9),)).reliability() is None


def test_a_kind_that_is_named_like_the_total_is_counted_once():
    question = AnswerQuestion("1", "Which?", kind="answerable", holds=(("x",),))
    report = AnswerReport((replace(result("right", "likely", 0.9), question=question),))
    assert report.counts()["answerable"]["questions"] == 1


def test_the_command_prints_a_table_the_figures_and_what_was_wrong(notes_pack, tmp_path):
    path = written(tmp_path, *QUESTIONS)
    done = CliRunner().invoke(evaluate, ["answers", str(notes_pack), str(path), "--wrong"])
    assert done.exit_code == 0, done.output
    for text in ("answerable", "refused", "top 3", "ECE", "How do I rotate"):
        assert text in done.output
    done = CliRunner().invoke(evaluate, ["answers", str(notes_pack), str(path), "--json"])
    record = json.loads(done.output)
    assert record["counts"]["off"]["refused"] == 1
    assert {row["outcome"] for row in record["results"]} >= {"right", "refused"}

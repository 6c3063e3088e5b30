"""What `packwise eval --budget` says of contexts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import packwise
from packwise.candidates import Scores
from packwise.cli import app
from packwise.context.packer import Context, PackedPassage
from packwise.context.trace import PackingTrace, Selected
from packwise.errors import DataError
from packwise.evaluation.data import GoldSpan, Question, load_dataset
from packwise.evaluation.metrics import gold_answers, holds, normalised, score_context
from packwise.evaluation.variants import parse_variant
from packwise.settings import Settings

LONG = " ".join(f"word{i}" for i in range(30))


def context(*pieces, tokens=100, question="who?"):
    """A context of (document, text, tokens, span) pieces, a passage each."""
    passages, selected, text = [], [], ""
    for marker, (document, said, count, span) in enumerate(pieces, start=1):
        identity = f"{document}#{marker}"
        passages.append(
            PackedPassage(
                marker,
                identity,
                (identity,),
                document,
                "",
                (),
                "",
                said,
                (span,),
                count,
                0.5,
                False,
            )
        )
        selected.append(
            Selected(
                identity, marker, document, count, marker, Scores(), 0.5, None, 0.0, (), 1.0, 0.1,
                0.1, (1, 1), False, None, span,
            )
        )  # fmt: skip
        text += f"[{marker}] {said}\n\n"
    trace = PackingTrace(
        question, "other", "coverage", "greedy", "o200k_base", True, 500, tokens, 0, 0.5, False,
        {}, tuple(selected), (), (),
    )  # fmt: skip
    return Context(question, text, tokens, 500, tuple(passages), trace)


def test_answers_are_compared_as_squad_does():
    assert normalised("The  Eiffel-Tower, (Paris)!") == "eiffeltower paris"
    assert holds("It stands in Paris, the capital.", ("paris",))
    assert not holds("It stands in Parisian style.", ("paris",))
    assert gold_answers(Question("q", "?", ("The", "yes", "An Owl", "owl"))) == ("owl",)


def test_garbage_is_the_share_of_tokens_that_are_neither_relevant_nor_hold_the_answer():
    question = Question("q", "who?", ("Ada",))
    found = score_context(
        context(
            ("right", LONG, 40, (0, 9)),
            ("other", f"Ada wrote {LONG} x", 20, (0, 9)),
            ("third", f"nobody {LONG} y", 40, (0, 9)),
        ),
        question,
        {"right": 1, "third": 0},
    )
    assert found["garbage_fraction"] == pytest.approx(0.4)
    assert found["answer_recall"] == found["gold_recall"] == 1.0
    assert found["context_noise"] == 0.0


def test_redundancy_counts_what_stands_twice_and_noise_what_is_short():
    twice = score_context(
        context(("a", LONG, 30, (0, 9)), ("b", LONG, 30, (0, 9))), Question("q", "?"), {}
    )
    assert twice["redundancy_ratio"] == pytest.approx(2.0)
    once = score_context(
        context(("a", LONG, 30, (0, 9)), ("b", "short", 2, (0, 9))), Question("q", "?"), {}
    )
    assert once["redundancy_ratio"] == pytest.approx(1.0)
    assert once["context_noise"] == 0.5
    assert "answer_recall" not in once


def test_a_marker_is_no_answer():
    question = Question("q", "how many?", ("1",))
    assert (
        score_context(context(("a", LONG, 30, (0, 9))), question, {"a": 1})["answer_recall"] == 0.0
    )


def test_with_spans_only_the_passages_that_touch_one_are_relevant():
    question = Question("q", "?", ("never said",), spans=(GoldSpan("a", 100, 200),))
    found = score_context(
        context(("a", LONG, 30, (0, 100)), ("a", LONG + " z", 30, (150, 300))), question, {"a": 1}
    )
    assert found["garbage_fraction"] == pytest.approx(0.5)
    assert found["gold_recall"] == 1.0


def test_an_empty_context_has_nothing_wrong_and_nothing_right():
    found = score_context(context(tokens=0), Question("q", "?", ("Ada",)), {"a": 1})
    assert (found["answer_recall"], found["gold_recall"], found["garbage_fraction"]) == (0, 0, 0)
    assert found["redundancy_ratio"] == 1.0


def test_the_baseline_is_the_plain_search_cut_at_the_end():
    plain = parse_variant("baseline", Settings(vector_weight=0.2, keyword_weight=0.9)).settings
    assert (plain.vector_weight, plain.keyword_weight) == (0.7, 0.3)
    assert (plain.packing_policy, plain.graph_ranking, plain.reranker) == ("baseline", "off", "off")
    assert not plain.query_adaptive_weights
    assert parse_variant("seed", Settings()).settings.packing_policy == "seed"


TEXT = (
    "The lighthouse was built in 1871 by two brothers. It stands on a rock off the coast.\n\n"
    "Its lamp burned whale oil until 1902. Then it was lit by electricity from the village.\n\n"
    "Nobody lives there now. The seals sleep on the landing in summer, and the gulls nest."
)


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    root = tmp_path / "lamps"
    root.mkdir()
    (root / "lighthouse.md").write_text(TEXT, encoding="utf-8")
    asked = {"When was the lighthouse built?": "built in 1871", "What lit the lamp?": "whale oil"}
    (root / "questions.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "id": str(number),
                    "corpus": "lighthouse",
                    "question": question,
                    "spans": [
                        {
                            "text": answer,
                            "start": TEXT.index(answer),
                            "end": TEXT.index(answer) + len(answer),
                        }
                    ],
                }
            )
            + "\n"
            for number, (question, answer) in enumerate(asked.items())
        ),
        encoding="utf-8",
    )
    return root


def test_questions_with_spans_are_read(spans):
    data = load_dataset(spans)
    assert (data.name, data.documents, len(data.judged)) == ("lamps", 1, 2)
    span = data.questions[0].spans[0]
    assert TEXT[span.start : span.end] == data.questions[0].answers[0] == "built in 1871"


def test_spans_of_a_text_that_is_not_there_are_refused(spans):
    (spans / "lighthouse.md").unlink()
    with pytest.raises(DataError, match=r"questions\.jsonl:1: names 'lighthouse'"):
        load_dataset(spans)


def test_the_command_measures_every_budget_and_compares(spans):
    arguments = ["eval", str(spans), "--budget", "20", "--budget", "60", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [run["variant"] for run in result["runs"]] == ["baseline", "default"]
    for run in result["runs"]:
        assert {"dataset", "variant", "queries", "metrics", "latency_ms"} <= run.keys()
        for name in ("answer_recall", "gold_recall", "garbage_fraction", "redundancy_ratio"):
            assert {f"{name}@20", f"{name}@60"} <= run["metrics"].keys()
        assert {"garbage_fraction", "redundancy_ratio", "context_noise"} <= run["metrics"].keys()
        assert run["metrics"]["context_tokens@20"] <= 20
        assert run["details"]["context_latency_ms"].keys() == {"20", "60"}
    assert result["runs"][1]["metrics"]["answer_recall@60"] == 1.0
    compared = {entry["metric"]: entry for entry in result["differences"]}
    assert (compared["answer_recall@20"]["a"], compared["answer_recall@20"]["b"]) == (
        "default",
        "baseline",
    )


def test_the_command_shows_a_table_and_takes_one_variant(spans):
    shown = CliRunner().invoke(app, ["eval", str(spans), "--budget", "60"])
    assert shown.exit_code == 0, shown.output
    assert "default minus baseline" in shown.output
    alone = ["eval", str(spans), "--budget", "60", "--variant", "seed", "--json"]
    record = json.loads(CliRunner().invoke(app, alone).stdout)
    assert (record["variant"], record["queries"]) == ("seed", 2)


def test_rankings_and_contexts_are_not_compared_in_one_go(spans):
    done = CliRunner().invoke(app, ["eval", str(spans), "--budget", "60", "--mode", "all"])
    assert done.exit_code != 0


def test_the_context_of_a_library_is_what_is_measured(notes_pack):
    settings = parse_variant("baseline", Settings.load()).settings
    with packwise.open(str(notes_pack), settings=settings) as library:
        assert library.context("what is a mirror?", 60).trace.policy == "baseline"

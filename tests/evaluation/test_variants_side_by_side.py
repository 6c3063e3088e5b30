"""Variants by name and knob, trials, ablations and the regression guard, on a real pack."""

import json
from dataclasses import replace

import pytest

from packwise.errors import DataError, SettingError, UsageError
from packwise.evaluation.ablation import PARTS, ablate, ablation_record, parts
from packwise.evaluation.experiment import run_trial
from packwise.evaluation.goldens import load_questions
from packwise.evaluation.knobs import LEGS, NAMES, SWITCHES, setup
from packwise.evaluation.records import trial_record
from packwise.evaluation.regression import check, load_baseline, save_baseline
from packwise.settings import Settings

ROWS = [
    ("how long is the old key valid?", "thirty days", "guides/keys.md"),
    ("how do I revoke a stolen key?", "vaultctl revoke", "guides/keys.md"),
    ("when is a release cut?", "first Tuesday", "guides/releases.md"),
    ("how long are backups kept?", "ninety days", "operations/backups.md"),
    ("how fast does the person on call answer?", "fifteen minutes", "operations/on-call.md"),
    ("what is a mirror?", "server", "glossary.txt"),
]


@pytest.fixture
def dataset(tmp_path):
    path = tmp_path / "goldens.jsonl"
    rows = [
        {"id": f"q{i}", "question": q, "answers": [a], "relevant": [d]}
        for i, (q, a, d) in enumerate(ROWS)
    ]
    rows.append({"id": "no", "question": "which wine goes with duck?", "answerable": False})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_questions(path)


@pytest.fixture(scope="module")
def usual():
    return Settings.load({})


def test_a_variant_is_a_name_knobs_or_both(usual):
    assert setup("default", usual).settings == replace(usual, query_cache=0)
    mixed = setup("seed,graph_ranking=off", usual, ["RETRIEVAL_K_BASE=20"])
    assert mixed.name == "seed,graph_ranking=off,RETRIEVAL_K_BASE=20"
    assert mixed.settings.packing_policy == "seed"
    assert (mixed.settings.graph_ranking, mixed.settings.k_base) == ("off", 20)
    assert setup("keyword", usual).mode == "keyword"
    assert setup("baseline", usual).settings.packing_policy == "baseline"


def test_every_named_variant_differs_from_the_default(usual):
    default = setup("default", usual)
    for name in NAMES:
        if name != "default":
            found = setup(name, usual)
            assert (found.settings, found.mode) != (default.settings, default.mode), name
    assert {part.variant for part in PARTS} <= {*SWITCHES, *LEGS, "baseline", "seed"}


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("psychic", UsageError, "no such variant"),
        ("none=1", UsageError, "no such knob"),
        ("k_base=many", SettingError, "k_base takes a whole number"),
        ("graph_ranking=sideways", SettingError, "takes one of"),
    ],
)
def test_a_variant_that_is_none_is_said(usual, text, error, says):
    with pytest.raises(error, match=says):
        setup(text, usual)


@pytest.fixture(scope="module")
def arms(notes_pack, usual, tmp_path_factory):
    path = tmp_path_factory.mktemp("goldens") / "goldens.jsonl"
    rows = [
        {"id": f"q{i}", "question": q, "answers": [a], "relevant": [d]}
        for i, (q, a, d) in enumerate(ROWS)
    ]
    rows.append({"id": "no", "question": "which wine goes with duck?", "answerable": False})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    setups = [setup("baseline", usual), setup("default", usual)]
    return run_trial(
        load_questions(path), str(notes_pack), setups, budget=200, curve=(100, 400), keep=True
    )


def test_each_question_is_put_to_every_variant(arms):
    old, new = arms
    assert [a.question.id for a in old.answered] == [a.question.id for a in new.answered]
    assert set(new.metrics) >= {"ndcg@10", "answer_recall@200", "answer_recall@100"}
    assert new.scores("answer_recall@200").keys() == {f"q{i}" for i in range(len(ROWS))}
    assert new.value("answer_recall@200") >= 0.8
    assert new.value("answer_recall@400") >= new.value("answer_recall@100")
    assert new.errors == 0
    assert "packing" in new.stages


def test_the_record_has_the_promised_shape(arms, dataset):
    record = trial_record(dataset, arms[1:])
    assert set(record) == {"dataset", "variant", "queries", "metrics", "latency_ms", "details"}
    assert set(record["latency_ms"]) == {"p50", "p95", "p99"}
    assert {"garbage_fraction", "redundancy_ratio", "answer_recall@200"} <= set(record["metrics"])
    gate = record["details"]["gate"]
    assert gate["confidence"]["auroc"] == 1.0, "the wine is the least similar of all"
    assert gate["probability"]["risk_coverage"][-1][0] == 1.0
    both = trial_record(dataset, arms)
    assert {d["b"] for d in both["differences"]} == {"baseline"}


def test_a_failing_question_scores_zero_and_counts_as_an_error(dataset, notes_pack, usual):
    broken = replace(dataset.questions[0], text="   ")
    data = replace(dataset, questions=(broken, *dataset.questions[1:]))
    (arm,) = run_trial(data, str(notes_pack), [setup("default", usual)], budget=200)
    assert arm.errors == pytest.approx(1 / 7)
    assert arm.scores("answer_recall@200")["q0"] == 0.0


def test_without_questions_there_is_nothing_to_try(dataset, notes_pack, usual):
    with pytest.raises(DataError, match="no judged questions"):
        run_trial(
            replace(dataset, questions=()), str(notes_pack), [setup("default", usual)], budget=9
        )


def test_an_ablation_says_what_each_part_is_worth_and_costs(dataset, notes_pack, usual):
    chosen = parts(["vector leg", "no-graph", "mmr"])
    found = ablate(dataset, str(notes_pack), usual, chosen, budget=200)
    by_name = {worth.part.name: worth for worth in found.worths}
    assert list(by_name) == ["vector leg", "graph ranking", "MMR"]
    assert by_name["vector leg"].median_ms > 0, "embedding a question takes time"
    record = ablation_record(found)
    assert [p["on_by_default"] for p in record["parts"]] == [True, True, False]
    assert "ndcg@10" in record["parts"][0]["changes"]


def test_slow_parts_are_left_out_unless_named():
    assert "cross-encoder" not in {part.name for part in parts()}
    assert [part.name for part in parts(["crossencoder", "cross-encoder"])] == ["cross-encoder"]
    with pytest.raises(UsageError, match="no such part"):
        parts(["engine"])


def test_an_unchanged_run_passes_its_own_baseline(arms, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, arms[1], "notes")
    gate = check(arms[1], load_baseline(path), slower=0.2)
    assert gate.passed
    assert all(not change.fell for change in gate.changes)


def harmed(arm, metric, value, share=1.0):
    """The arm with a worse score on the first share of its questions."""
    most = share * len(arm.answered)
    rows = [
        replace(a, scores={**a.scores, metric: value}) if metric in a.scores and i < most else a
        for i, a in enumerate(arm.answered)
    ]
    return replace(arm, answered=tuple(rows))


@pytest.mark.parametrize(("metric", "value"), [("ndcg@10", 0.1), ("garbage_fraction@200", 0.99)])
def test_a_real_loss_fails_the_gate(arms, tmp_path, metric, value):
    path = tmp_path / "baseline.json"
    save_baseline(path, arms[1], "notes")
    gate = check(harmed(arms[1], metric, value), load_baseline(path))
    assert not gate.passed
    assert [change.metric for change in gate.changes if change.fell] == [metric]


def test_one_question_of_many_is_within_the_noise(arms, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, arms[1], "notes")
    assert check(harmed(arms[1], "ndcg@10", 0.0, share=0.2), load_baseline(path)).passed


def test_slower_fails_only_where_a_limit_is_set(arms, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, arms[1], "notes")
    slow = replace(arms[1], answered=tuple(replace(a, ms=a.ms * 2) for a in arms[1].answered))
    assert check(slow, load_baseline(path)).passed
    assert not check(slow, load_baseline(path), slower=0.5).passed


def test_other_questions_are_no_comparison(arms, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, arms[1], "notes")
    fewer = replace(arms[1], answered=arms[1].answered[:2])
    with pytest.raises(DataError, match="the baseline has ndcg@10 of 6 questions, this run of 2"):
        check(fewer, load_baseline(path))


@pytest.mark.parametrize("content", ["oops", "[]", '{"format": 2}', '{"format": 1}'])
def test_a_file_that_is_no_baseline_is_said(tmp_path, content):
    path = tmp_path / "baseline.json"
    path.write_text(content)
    with pytest.raises(DataError, match="baseline"):
        load_baseline(path)
    with pytest.raises(DataError, match=r"there is no baseline .*--write"):
        load_baseline(tmp_path / "none.json")

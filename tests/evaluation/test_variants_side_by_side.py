"""Variants by name and setting, experiments, ablations and the gate, on a real pack."""

import json
from dataclasses import replace

import pytest

from packwise.errors import DataError, SettingError, UsageError
from packwise.evaluation.ablation import STAGES, choose_stages, stage_effects
from packwise.evaluation.experiment import run_experiment
from packwise.evaluation.goldens import load_questions
from packwise.evaluation.records import ablation_record, variants_record
from packwise.evaluation.regression import check_regression, load_baseline, save_baseline
from packwise.evaluation.variants import LEGS, OVERRIDES, parse_variant
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
    assert parse_variant("default", usual).settings == replace(usual, query_cache=0)
    mixed = parse_variant("seed,graph_ranking=off", usual, ["RETRIEVAL_K_BASE=20"])
    assert mixed.name == "seed,graph_ranking=off,RETRIEVAL_K_BASE=20"
    assert mixed.settings.packing_policy == "seed"
    assert (mixed.settings.graph_ranking, mixed.settings.k_base) == ("off", 20)
    assert parse_variant("keyword", usual).mode == "keyword"
    assert parse_variant("baseline", usual).settings.packing_policy == "baseline"


def test_every_named_variant_differs_from_the_default(usual):
    default = parse_variant("default", usual)
    for name in (*OVERRIDES, *LEGS):
        if name != "default":
            found = parse_variant(name, usual)
            assert (found.settings, found.mode) != (default.settings, default.mode), name
    assert {stage.variant for stage in STAGES} <= {*OVERRIDES, *LEGS}


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("psychic", UsageError, "no such variant"),
        ("none=1", UsageError, "no such setting"),
        ("k_base=many", SettingError, "k_base takes a whole number"),
        ("graph_ranking=sideways", SettingError, "takes one of"),
    ],
)
def test_a_variant_that_is_none_is_said(usual, text, error, says):
    with pytest.raises(error, match=says):
        parse_variant(text, usual)


def run(data, store, variants, settings, *budgets, **options):
    chosen = [parse_variant(name, settings) for name in variants]
    return run_experiment(
        data, str(store), chosen, data.known, budgets=budgets, count_errors=True, **options
    )


@pytest.fixture(scope="module")
def found(notes_pack, usual, tmp_path_factory):
    path = tmp_path_factory.mktemp("goldens") / "goldens.jsonl"
    rows = [
        {"id": f"q{i}", "question": q, "answers": [a], "relevant": [d]}
        for i, (q, a, d) in enumerate(ROWS)
    ]
    rows.append({"id": "no", "question": "which wine goes with duck?", "answerable": False})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load_questions(path)
    variants = ["baseline", "default"]
    return run(data, notes_pack, variants, usual, 200, 100, 400, keep_traces=True)


@pytest.fixture(scope="module")
def new(found):
    return found.results[1]


def test_each_question_is_put_to_every_variant(found):
    old, new = found.results
    assert [r.question.id for r in old.questions] == [r.question.id for r in new.questions]
    assert set(new.metrics) >= {"ndcg@10", "answer_recall@200", "answer_recall@100"}
    assert new.scores("answer_recall@200").keys() == {f"q{i}" for i in range(len(ROWS))}
    assert new.value("answer_recall@200") >= 0.8
    assert new.value("answer_recall@400") >= new.value("answer_recall@100")
    assert new.errors == 0
    assert "packing" in new.stages


def test_the_record_has_the_promised_shape(found):
    record = variants_record(replace(found, results=found.results[1:]))
    assert set(record) == {"dataset", "variant", "queries", "metrics", "latency_ms", "details"}
    assert set(record["latency_ms"]) == {"p50", "p95", "p99"}
    assert {"garbage_fraction", "redundancy_ratio", "answer_recall@200"} <= set(record["metrics"])
    gate = record["details"]["gate"]
    assert gate["confidence"]["auroc"] == 1.0, "the wine is the least similar of all"
    assert gate["probability"]["risk_coverage"][-1][0] == 1.0
    both = variants_record(found)
    assert {d["b"] for d in both["differences"]} == {"baseline"}


def test_a_failing_question_scores_zero_and_counts_as_an_error(dataset, notes_pack, usual):
    broken = replace(dataset.questions[0], text="   ")
    data = replace(dataset, questions=(broken, *dataset.questions[1:]))
    (result,) = run(data, notes_pack, ["default"], usual, 200).results
    assert result.errors == pytest.approx(1 / 7)
    assert result.scores("answer_recall@200")["q0"] == 0.0


def test_without_questions_there_is_nothing_to_try(dataset, notes_pack, usual):
    with pytest.raises(DataError, match="no judged questions"):
        run(replace(dataset, questions=()), notes_pack, ["default"], usual, 9)


def test_an_ablation_says_what_each_stage_is_worth_and_costs(dataset, notes_pack, usual):
    stages = choose_stages(["vector leg", "no-graph", "mmr"])
    variants = ["default", *(stage.variant for stage in stages)]
    found = run(dataset, notes_pack, variants, usual, 200)
    effects = stage_effects(found, stages)
    by_name = {effect.stage.name: effect for effect in effects}
    assert list(by_name) == ["vector leg", "graph ranking", "MMR"]
    assert by_name["vector leg"].median_ms > 0, "embedding a question takes time"
    record = ablation_record(found, effects)
    assert [p["on_by_default"] for p in record["parts"]] == [True, True, False]
    assert "ndcg@10" in record["parts"][0]["changes"]


def test_slow_stages_are_left_out_unless_named():
    assert "cross-encoder" not in {stage.name for stage in choose_stages()}
    named = choose_stages(["crossencoder", "cross-encoder"])
    assert [stage.name for stage in named] == ["cross-encoder"]
    with pytest.raises(UsageError, match="no such part"):
        choose_stages(["engine"])


def test_an_unchanged_run_passes_its_own_baseline(new, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, new, "notes")
    gate = check_regression(new, load_baseline(path), slower=0.2)
    assert gate.passed
    assert all(not change.fell for change in gate.changes)


def harmed(result, metric, value, share=1.0):
    """The result with a worse score on the first share of its questions."""
    most = share * len(result.questions)
    rows = [
        replace(r, scores={**r.scores, metric: value}) if metric in r.scores and i < most else r
        for i, r in enumerate(result.questions)
    ]
    return replace(result, questions=tuple(rows))


@pytest.mark.parametrize(("metric", "value"), [("ndcg@10", 0.1), ("garbage_fraction@200", 0.99)])
def test_a_real_loss_fails_the_gate(new, tmp_path, metric, value):
    path = tmp_path / "baseline.json"
    save_baseline(path, new, "notes")
    gate = check_regression(harmed(new, metric, value), load_baseline(path))
    assert not gate.passed
    assert [change.metric for change in gate.changes if change.fell] == [metric]


def test_one_question_of_many_is_within_the_noise(new, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, new, "notes")
    assert check_regression(harmed(new, "ndcg@10", 0.0, share=0.2), load_baseline(path)).passed


def test_slower_fails_only_where_a_limit_is_set(new, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, new, "notes")
    slow = tuple(replace(r, search_ms=3 * r.search_ms + 100) for r in new.questions)
    slow = replace(new, questions=slow)
    assert check_regression(slow, load_baseline(path)).passed
    assert not check_regression(slow, load_baseline(path), slower=0.5).passed


def test_other_questions_are_no_comparison(new, tmp_path):
    path = tmp_path / "baseline.json"
    save_baseline(path, new, "notes")
    fewer = replace(new, questions=new.questions[:2])
    with pytest.raises(DataError, match="the baseline has ndcg@10 of 6 questions, this run of 2"):
        check_regression(fewer, load_baseline(path))


@pytest.mark.parametrize("content", ["oops", "[]", '{"format": 2}', '{"format": 1}'])
def test_a_file_that_is_no_baseline_is_said(tmp_path, content):
    path = tmp_path / "baseline.json"
    path.write_text(content)
    with pytest.raises(DataError, match="baseline"):
        load_baseline(path)
    with pytest.raises(DataError, match=r"there is no baseline .*--write"):
        load_baseline(tmp_path / "none.json")

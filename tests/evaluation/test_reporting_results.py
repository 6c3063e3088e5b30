"""Results as JSON values and Markdown."""

from __future__ import annotations

import json
from pathlib import Path

from packwise.evaluation.compare import contrasts
from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.metrics import STANDARD
from packwise.evaluation.report import Results, evaluation_record, markdown, results_record
from packwise.evaluation.runner import Ranked, run
from packwise.evaluation.variants import Variant, combinations, default_variant
from packwise.settings import Settings

DATA = DataSet(
    "pipes | and\nlines",
    Path("odd"),
    "test",
    tuple(Question(f"q{i}", f"question {i}") for i in range(20)),
    {f"q{i}": {"right": 1} for i in range(20)},
)


def results() -> Results:
    good = run(DATA, lambda q, k: Ranked(("right",), {"embed": 1.0}), variant="good")
    bad = run(DATA, lambda q, k: Ranked(("wrong", "right")), variant="bad")
    return Results((bad, good), contrasts((bad, good), "good", STANDARD))


def test_markdown_is_a_valid_table_whatever_the_names():
    lines = markdown([results()], "packwise eval table odd").splitlines()
    assert lines[0] == "Made by `packwise eval table odd`."
    tables = [line for line in lines if line.startswith("|")]
    assert tables[0].count("|") == tables[1].count("|") == 9
    assert r"| pipes \| and lines | 20 | bad | 0.631 | 1.000 | 1.000 | 1.000 | 0.500 |" in tables
    assert (
        r"| pipes \| and lines | ndcg@10 | good − bad | +0.369 [+0.369, +0.369] | < 0.001 "
        r"| 20 / 0 / 0 |" in tables
    )


def test_markdown_is_the_same_every_time():
    assert markdown([results()], "x") == markdown([results()], "x")


def test_records_are_json():
    both = results_record(results())
    assert json.loads(json.dumps(both)) == both
    assert list(both) == ["runs", "differences"]
    assert len(both["differences"]) == len(STANDARD)
    one = results_record(Results(results().evaluations[1:]))
    assert list(one) == ["dataset", "variant", "queries", "metrics", "latency_ms", "details"]
    assert one["details"]["stages_ms"] == {"embed": {"p50": 1.0, "p95": 1.0, "p99": 1.0}}
    assert evaluation_record(results().evaluations[0])["metrics"]["mrr@10"] == 0.5


def test_modes_and_fusions_combine_where_a_fusion_applies():
    settings = Settings()
    assert combinations((), (), settings) == (Variant("hybrid", "weighted"),)
    assert [v.name for v in combinations(("vector", "hybrid"), ("rrf", "weighted"), settings)] == [
        "vector",
        "hybrid-rrf",
        "hybrid-weighted",
    ]
    assert combinations(("keyword", "keyword"), ("rrf",), settings) == (Variant("keyword"),)
    assert default_variant(Settings(fusion="rrf")) == Variant("hybrid", "rrf")

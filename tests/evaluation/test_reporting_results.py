"""Results as JSON values and Markdown."""

from __future__ import annotations

import json
from pathlib import Path

from packwise.evaluation.data import DataSet, Question
from packwise.evaluation.experiment import Experiment, QuestionResult, VariantResult
from packwise.evaluation.metrics import STANDARD
from packwise.evaluation.records import rankings_record
from packwise.evaluation.tables import rankings_markdown
from packwise.evaluation.variants import search_variants
from packwise.settings import Settings

DATA = DataSet(
    "pipes | and\nlines",
    Path("odd"),
    "test",
    tuple(Question(f"q{i}", f"question {i}") for i in range(20)),
    {f"q{i}": {"right": 1} for i in range(20)},
)


def result(name: str, documents: tuple[str, ...]) -> VariantResult:
    scores = {str(metric): metric.score(documents, {"right": 1}) for metric in STANDARD}
    stages = {"embed": 1.0} if name == "good" else {}
    rows = [QuestionResult(q, documents, scores, 2.0, stages) for q in DATA.questions]
    return VariantResult(name, 0, tuple(rows))


def experiment() -> Experiment:
    results = (result("bad", ("wrong", "right")), result("good", ("right",)))
    return Experiment(DATA, results, "good", depth=100)


def test_markdown_is_a_valid_table_whatever_the_names():
    lines = rankings_markdown([experiment()], "packwise eval table odd").splitlines()
    assert lines[0] == "Made by `packwise eval table odd`."
    tables = [line for line in lines if line.startswith("|")]
    assert tables[0].count("|") == tables[1].count("|") == 9
    assert r"| pipes \| and lines | 20 | bad | 0.631 | 1.000 | 1.000 | 1.000 | 0.500 |" in tables
    assert (
        r"| pipes \| and lines | ndcg@10 | good − bad | +0.369 [+0.369, +0.369] | < 0.001 "
        r"| 20 / 0 / 0 |" in tables
    )


def test_markdown_is_the_same_every_time():
    assert rankings_markdown([experiment()], "x") == rankings_markdown([experiment()], "x")


def test_records_are_json():
    both = rankings_record(experiment())
    assert json.loads(json.dumps(both)) == both
    assert list(both) == ["runs", "differences"]
    assert len(both["differences"]) == 7
    one = rankings_record(Experiment(DATA, experiment().results[1:], "good", depth=100))
    assert list(one) == ["dataset", "variant", "queries", "metrics", "latency_ms", "details"]
    assert one["details"]["stages_ms"] == {"embed": {"p50": 1.0, "p95": 1.0, "p99": 1.0}}
    assert both["runs"][0]["metrics"]["mrr@10"] == 0.5


def test_modes_and_fusions_combine_where_a_fusion_applies():
    def names(*given):
        return [variant.name for variant in search_variants(*given)]

    settings = Settings()
    assert names((), (), settings) == ["hybrid-weighted"]
    assert names(("vector", "hybrid"), ("rrf", "weighted"), settings) == [
        "vector",
        "hybrid-rrf",
        "hybrid-weighted",
    ]
    assert names(("keyword", "keyword"), ("rrf",), settings) == ["keyword"]
    assert names((), (), Settings(fusion="rrf")) == ["hybrid-rrf"]

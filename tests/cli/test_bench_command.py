"""``packwise bench`` measures what it says; how fast it is does not matter here."""

import json
import sys
from xml.etree import ElementTree

from click.testing import CliRunner

from packwise.cli import bench as commands
from packwise.cli.bench import bench
from packwise.cli.bench_scale import _ratio
from packwise.context.quality import keywords
from packwise.errors import UsageError
from packwise.evaluation import scale
from packwise.evaluation.synthetic import SyntheticDocuments, SyntheticEmbedder, questions
from packwise.packs.build import build_pack
from packwise.stores.pack import index as pack_index
from packwise.stores.pack.validation import validate


def test_contexts_are_timed_cold_warm_and_by_the_baseline(notes_pack):
    given = ["context", str(notes_pack), "--questions", "2", "--budget", "200", "--json"]
    result = CliRunner().invoke(bench, given)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output)
    assert (figures["contexts"], figures["budget"]) == (2, 200)
    times = figures["cpu_ms"]
    assert all(value["p50"] > 0.0 for value in times.values())
    context = times["search"]["p50"] + times["packing, cold"]["p50"]
    assert abs(times["context"]["p50"] - context) < context / 2
    assert figures["cold_over_warm"] > 0.0


def test_searches_are_timed_by_stage_and_by_the_processor(notes_pack):
    given = ["search", str(notes_pack), "--queries", "3", "--json"]
    result = CliRunner().invoke(bench, given)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output)
    assert figures["searches"] == 3
    times = figures["latency_ms"]
    assert times["all but embed"]["p50"] < times["all"]["p50"] + times["keyword"]["p50"]
    assert times["processor time"]["p50"] > 0.0


def test_cold_means_that_no_result_is_cached():
    keywords("what is a bench?")
    assert keywords.cache_info().currsize > 0
    commands._empty_caches()
    assert keywords.cache_info().currsize == 0


def test_growth_is_measured_and_drawn(tmp_path):
    chart = tmp_path / "growth.svg"
    given = ["scale", "--passages", "40,0.1k", "--queries", "2"]
    refused = CliRunner().invoke(bench, given)
    assert isinstance(refused.exception, UsageError)
    given = ["scale", "--passages", "20,40", "--queries", "2", "--chart", str(chart), "--json"]
    result = CliRunner().invoke(bench, given)
    assert result.exit_code == 0, result.output
    small, large = json.loads(result.output)
    assert 15 < small["build"]["passages"] < 30 < large["build"]["passages"] < 60
    assert abs(small["changed"]["passages"] - small["unchanged"]["passages"]) <= 2
    assert large["unchanged"]["cpu_seconds"] < large["build"]["cpu_seconds"]
    assert {"vector", "keyword", "graph", "all but embed"} <= large["search"]["latency_ms"].keys()
    if sys.platform == "linux":
        assert 0 < large["build"]["own_peak_bytes"] < large["build"]["peak_bytes"]
    picture = ElementTree.parse(chart).getroot()
    assert len(picture.findall(".//{*}polyline")) == 6


def test_a_search_is_compared_with_usearch_and_tantivy_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_index, "EXACT_LIMIT", 8)
    pack = tmp_path / "pack"
    build_pack(SyntheticDocuments(3), pack, embedder=SyntheticEmbedder())
    latency = scale._search(str(pack), questions(12, 3)).latency_ms
    assert 0.0 < latency[scale.BARE][0] < latency["all but embed"][0]
    assert float(_ratio(latency, scale.BARE)) > 1.0
    assert _ratio({"all but embed": (1.0, 2.0)}, scale.BARE) == "-"
    assert validate(pack) == []

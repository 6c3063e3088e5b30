"""``packwise eval`` from the command line: its shape, its errors, and the whole path once."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

import packwise.cli
from packwise.cli.evaluate import evaluate

DOCUMENTS = {
    "tea": "Tea is a drink made from the leaves of a shrub. Green tea is not fermented.",
    "coffee": "Coffee is brewed from roasted beans. An espresso is a small strong coffee.",
    "glacier": "A glacier is a body of ice that moves under its own weight down a valley.",
    "volcano": "A volcano is an opening in the crust of a planet from which lava escapes.",
    "violin": "The violin is a wooden instrument with four strings, played with a bow.",
}
QUESTIONS = {
    "q1": ("Which drink is made from leaves?", "tea"),
    "q2": ("What is a small strong cup brewed from roasted beans?", "coffee"),
    "q3": ("Which mass of frozen water creeps downhill?", "glacier"),
    "q4": ("Where does molten rock come out of the earth?", "volcano"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tiny"
    (root / "qrels").mkdir(parents=True)
    corpus = [{"_id": i, "title": i.title(), "text": text} for i, text in DOCUMENTS.items()]
    queries = [{"_id": i, "text": text} for i, (text, _) in QUESTIONS.items()]
    queries.append({"_id": "q5", "text": "Who won the race?", "metadata": {"answerable": False}})
    for name, records in (("corpus.jsonl", corpus), ("queries.test.jsonl", queries)):
        (root / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    (root / "qrels/test.tsv").write_text(
        "".join(f"{i}\t{document}\t1\n" for i, (_, document) in QUESTIONS.items())
    )
    return root


@pytest.fixture
def packwise_command(monkeypatch, capfd):
    """Runs the command line as a user does; gives exit code, output and error output."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["packwise", *arguments])
        try:
            packwise.cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.mark.parametrize(
    ("change", "arguments", "code", "says"),
    [
        (None, ["none-such"], 1, "none-such does not exist"),
        (None, ["{folder}", "--split", "dev"], 2, "has no split 'dev' -> --split test"),
        ("qrels/test.tsv", ["{folder}"], 1, "test.tsv:1: has 1 columns"),
        ("queries.test.jsonl", ["{folder}"], 1, "queries.test.jsonl:1: is not JSON"),
        ("corpus.jsonl", ["table", "{folder}"], 1, "corpus.jsonl:1: is not JSON"),
        (None, ["table", "{folder}", "--markdown", "no/such/out.md"], 2, "no folder to write"),
        (None, ["{folder}", "--store", "none-such"], 1, "no pack at 'none-such'"),
    ],
)
def test_a_failure_is_one_line_with_the_right_exit_code(
    packwise_command, folder, change, arguments, code, says
):
    if change:
        (folder / change).write_text("oops\n")
    arguments = [argument.format(folder=folder) for argument in arguments]
    returned, output, errors = packwise_command("eval", *arguments)
    assert says in errors
    assert (returned, output) == (code, "")
    assert errors.count("\n") == 1
    assert errors.startswith("packwise: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["--json"],
        ["table"],
        ["{folder}", "--limit", "0"],
        ["{folder}", "--mode", "psychic"],
        ["{folder}", "--half", "third"],
        ["{folder}", "another"],
        ["{folder}", "--none-such"],
    ],
)
def test_wrong_usage_exits_with_two(folder, arguments):
    arguments = [argument.format(folder=folder) for argument in arguments]
    result = CliRunner().invoke(evaluate, arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr


def test_a_missing_corpus_asks_for_a_store(packwise_command, folder):
    (folder / "corpus.jsonl").unlink()
    code, _, errors = packwise_command("eval", str(folder))
    assert code == 1
    assert "-> add --store STORE" in errors


def test_the_first_argument_names_a_command_or_is_a_folder():
    both = CliRunner().invoke(evaluate, ["--help"])
    assert both.exit_code == 0
    assert "FOLDER [OPTIONS] | COMMAND" in both.output
    short = CliRunner().invoke(evaluate, ["some-folder", "--help"])
    long = CliRunner().invoke(evaluate, ["run", "--help"])
    assert short.output == long.output
    assert CliRunner().invoke(evaluate, ["table", "--help"]).output != long.output


def test_nothing_at_all_shows_the_help(packwise_command):
    code, _, errors = packwise_command("eval")
    assert code == 2
    assert "Commands:" in errors


class TestWithTheRealLibrary:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "cache"))
        self.kept = tmp_path / "cache" / "eval"

    def stores(self):
        return [path for path in self.kept.iterdir() if path.suffix != ".lock"]

    def test_one_run_prints_the_promised_json(self, packwise_command, folder):
        code, output, _ = packwise_command("eval", str(folder), "--json")
        assert code == 0
        record = json.loads(output)
        assert list(record)[:5] == ["dataset", "variant", "queries", "metrics", "latency_ms"]
        assert (record["dataset"], record["variant"]) == ("tiny", "hybrid-weighted")
        assert record["queries"] == 4
        assert record["details"]["unjudged"] == 1
        assert record["details"]["absent"] == 0
        assert list(record["latency_ms"]) == ["p50", "p95", "p99"]
        assert {"ndcg@10", "recall@2", "recall@5", "recall@10", "recall@100", "mrr@10"} <= set(
            record["metrics"]
        )
        # Five documents and a hundred places: everything is found.
        assert record["metrics"]["recall@100"] == 1.0
        assert record["metrics"]["ndcg@10"] > 0.9
        assert record["details"]["stages_ms"]["embed"]["p50"] > 0

    def test_several_variants_are_compared_with_the_default(self, packwise_command, folder):
        code, output, _ = packwise_command(
            "eval", str(folder), "--mode", "all", "--fusion", "all", "--json"
        )
        assert code == 0
        record = json.loads(output)
        assert [run["variant"] for run in record["runs"]] == [
            "keyword",
            "vector",
            "hybrid-weighted",
            "hybrid-rrf",
        ]
        assert {d["a"] for d in record["differences"]} == {"hybrid-weighted"}
        assert {d["b"] for d in record["differences"]} == {"keyword", "vector", "hybrid-rrf"}
        values = {run["variant"]: run["metrics"] for run in record["runs"]}
        for d in record["differences"]:
            gain = values[d["a"]][d["metric"]] - values[d["b"]][d["metric"]]
            assert d["difference"] == pytest.approx(gain, abs=2e-6)
            assert d["wins"] + d["ties"] + d["losses"] == 4

    def test_the_store_is_built_once(self, packwise_command, folder):
        assert packwise_command("eval", str(folder), "--mode", "keyword")[0] == 0
        (place,) = self.stores()
        before = {path: path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}
        assert packwise_command("eval", str(folder), "--mode", "vector", "--limit", "1")[0] == 0
        assert self.stores() == [place]
        manifest = place / "manifest.json"
        assert manifest.stat().st_mtime_ns == before[manifest]

    def test_a_changed_corpus_gets_its_own_store(self, packwise_command, folder):
        assert packwise_command("eval", str(folder), "--mode", "keyword")[0] == 0
        with (folder / "corpus.jsonl").open("a") as corpus:
            corpus.write(json.dumps({"_id": "oboe", "title": "Oboe", "text": "A reed."}) + "\n")
        assert packwise_command("eval", str(folder), "--mode", "keyword")[0] == 0
        assert len(self.stores()) == 2

    def test_a_store_of_another_corpus_is_refused(self, packwise_command, folder):
        assert packwise_command("eval", str(folder), "--mode", "keyword")[0] == 0
        (place,) = self.stores()
        (folder / "qrels/test.tsv").write_text("q1\tsomething else\t1\n")
        code, _, errors = packwise_command("eval", str(folder), "--store", str(place))
        assert code == 1
        assert "holds none of the 1 relevant documents" in errors

    def test_documents_that_are_not_there_are_remarked(self, packwise_command, folder):
        with (folder / "qrels/test.tsv").open("a") as qrels:
            qrels.write("q1\tgone\t1\n")
        code, output, errors = packwise_command("eval", str(folder), "--mode", "keyword", "--json")
        assert code == 0
        assert json.loads(output)["details"]["absent"] == 1
        assert "relevant documents missing from the store: 1" in errors

    def test_the_table_is_written_with_its_command(
        self, packwise_command, folder, tmp_path, monkeypatch
    ):
        monkeypatch.setenv("PACKWISE_DATA", str(tmp_path))
        out = tmp_path / "results.md"
        arguments = ["eval", "table", str(folder), "--limit", "3", "--markdown", str(out)]
        code, shown, _ = packwise_command(*arguments)
        assert code == 0
        assert "hybrid-rrf" in shown
        text = out.read_text()
        assert text.splitlines()[0] == (
            'Made by `packwise eval table "$PACKWISE_DATA"/tiny --limit 3`.'
        )
        assert str(tmp_path) not in text
        rows = [line for line in text.splitlines() if line.startswith("| tiny | 3 |")]
        assert len(rows) == 4
        packwise_command(*arguments)
        assert out.read_text() == text


def test_an_evaluation_waits_while_another_prepares_the_same_set(tmp_path, monkeypatch):
    from filelock import FileLock

    from packwise.evaluation import cache

    place, built, waiting = tmp_path / "eval" / "set", [], threading.Event()
    place.parent.mkdir()
    monkeypatch.setattr(cache, "store_path", lambda *_: place)
    monkeypatch.setattr(cache, "_exists", lambda *_: place.exists())
    monkeypatch.setattr(cache, "_build", lambda *_: built.append("twice"))
    acquire = FileLock.acquire

    def spy(self, *arguments, **options):
        waiting.set()
        return acquire(self, *arguments, **options)

    with ThreadPoolExecutor(1) as pool:
        with FileLock(f"{place}.lock"):
            monkeypatch.setattr(FileLock, "acquire", spy)
            found = pool.submit(cache.cached_store, None, None)
            assert waiting.wait(60)
            assert not found.done()
            place.mkdir()
        assert found.result(60) == place
    assert built == []

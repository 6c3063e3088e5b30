"""The commands beside ``eval run``, from the command line, on a real pack."""

import json
import shutil
import sys

import pytest

import packwise.cli
from packwise.retrieval.calibration import SIGNS


@pytest.fixture
def run(monkeypatch, capfd):
    """Runs the command line as a user does; gives exit code, output and error output."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["packwise", *map(str, arguments)])
        try:
            packwise.cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def goldens(tmp_path):
    rows = [
        ("how long is the old key valid?", "thirty days", "Signing keys"),
        ("when is a release cut?", "first Tuesday", "Releases"),
        ("how long are backups kept?", "ninety days", "operations/backups.md"),
        ("how fast does the person on call answer?", "fifteen minutes", "On call"),
    ]
    path = tmp_path / "mine.jsonl"
    lines = [{"question": q, "answers": [a], "relevant": [d]} for q, a, d in rows]
    lines.append({"question": "which wine goes with roast duck?", "answerable": False})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_goldens_are_evaluated_on_a_store(run, goldens, notes_pack):
    code, out, _ = run("eval", goldens, "--store", notes_pack, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["queries"] == 4
    assert {"ndcg@10", "recall@100", "answer_recall@8000", "garbage_fraction"} <= set(
        record["metrics"]
    )
    assert record["metrics"]["answer_recall@8000"] == 1.0
    assert record["details"]["gate"]["confidence"]["auroc"] == 1.0
    assert record["details"]["store"]["bytes"] > 0


def test_answers_alone_are_enough(run, tmp_path, notes_pack):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"question": "how long are backups kept?", "answers": ["ninety days"]}\n')
    code, out, _ = run("eval", path, "--store", notes_pack, "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["answer_recall@8000"] == 1.0
    code, out, _ = run("eval", path, "--store", notes_pack)
    assert code == 0
    assert "answer_recall@8000" in out


def test_a_pack_is_evaluated_on_its_own_questions_and_leaks_are_said(run, tmp_path, notes_pack):
    pack = shutil.copytree(notes_pack, tmp_path / "pack")
    (pack / "eval").mkdir()
    (pack / "eval" / "questions.jsonl").write_text(
        '{"question": "How long are backups kept?", "ground_truth": "ninety days", '
        '"source": "Backups"}\n'
    )
    code, out, err = run("eval", pack, "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["recall@5"] == 1.0
    assert "questions that are few-shot examples too (left out of their own prompts): 1" in err


def test_variants_and_knobs_are_compared_and_reported(run, goldens, notes_pack, tmp_path):
    page = tmp_path / "out.html"
    code, out, err = run(
        *("eval", goldens, "--store", notes_pack, "--variant", "no-graph", "--variant", "default"),
        *("--set", "k_base=20", "--budget", "300", "--report", page, "--json"),
    )
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert [r["variant"] for r in record["runs"]] == ["no-graph,k_base=20", "default,k_base=20"]
    assert "answer_recall@300" in record["runs"][0]["metrics"]
    assert "--set k_base=20" in page.read_text()


def test_compare_gives_a_verdict(run, goldens, notes_pack):
    arguments = ("eval", "compare", goldens, "--store", notes_pack, "--budget", "300")
    code, out, _ = run(*arguments, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["verdict"] in ("ship", "no difference", "rollback")
    assert (record["a"], record["b"]) == ("baseline", "default")
    code, out, _ = run(*arguments)
    assert code == 0
    assert "p95 latency" in out


def test_recorded_traffic_is_judged(run, tmp_path):
    path = tmp_path / "traffic.jsonl"
    path.write_text("".join(f'{{"id": "u{i}", "latency_ms": {10 + i % 5}}}\n' for i in range(300)))
    code, out, _ = run("eval", "compare", "--traffic", path, "--share", "0.5", "--json")
    assert code == 0
    assert json.loads(out)["verdict"] == "no difference"
    assert "not measured" in run("eval", "compare", "--traffic", path)[1]


def test_ablate_lists_what_parts_are_worth(run, goldens, notes_pack):
    arguments = ("eval", "ablate", goldens, "--store", notes_pack, "--part", "no-graph")
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    assert [p["part"] for p in json.loads(out)["parts"]] == ["graph ranking"]
    assert "graph ranking" in run(*arguments)[1]


def test_the_gate_passes_what_is_unchanged_and_fails_what_got_worse(
    run, goldens, notes_pack, tmp_path
):
    kept = tmp_path / "baseline.json"
    arguments = ("eval", "gate", goldens, "--store", notes_pack, "--baseline", kept)
    code, _, err = run(*arguments)
    assert code == 1
    assert "there is no baseline" in err
    assert run(*arguments, "--write")[0] == 0
    code, out, _ = run(*arguments)
    assert code == 0
    assert "passed" in out
    record = json.loads(kept.read_text())
    record["scores"]["mrr@10"] = dict.fromkeys(record["scores"]["mrr@10"], 1.5)
    kept.write_text(json.dumps(record))
    code, out, _ = run(*arguments, "--json")
    assert code == 1
    failed = json.loads(out)
    assert [m["metric"] for m in failed["metrics"] if m["fell"]] == ["mrr@10"]


def test_questions_can_be_made_and_measured_with(run, notes_pack, tmp_path):
    path = tmp_path / "made.jsonl"
    code, _, err = run("eval", "questions", notes_pack, "--n", "60", "--out", path)
    assert code == 0
    assert "the store gives only" in err
    code, out, _ = run("eval", path, "--store", notes_pack, "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["recall@5"] > 0.7


def many(tmp_path):
    """Enough questions to calibrate on, all of which the notes answer."""
    subjects = ["signing key", "old key", "lost key", "release", "backup", "restore", "mirror"]
    shapes = ["what of the {}?", "tell me about the {}", "{}: what is known?", "is there a {}?"]
    path = tmp_path / "many.jsonl"
    documents = ["guides/keys.md"] * 3 + ["guides/releases.md"] + ["operations/backups.md"] * 2
    documents += ["glossary.txt"]
    rows = [
        {"question": shape.format(subject), "relevant": [document]}
        for shape in shapes
        for subject, document in zip(subjects, documents, strict=True)
    ]
    rows += [{**row, "question": f"please, {row['question']}"} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_pack_is_calibrated_shown_and_set_back(run, tmp_path, notes_pack):
    pack = shutil.copytree(notes_pack, tmp_path / "pack")
    code, out, _ = run("calibrate", pack, many(tmp_path), "--json")
    record = json.loads(out)
    assert code == 0
    assert record["kept"] == str(pack / "calibration.json")
    assert set(record["weights"]) == set(SIGNS)
    assert record["questions"] > 60, "each question came again without its answer"
    stored = json.loads((pack / "calibration.json").read_text())
    assert {"date", "data_hash", "ece", "auroc", "twins", "store_version"} <= set(stored)
    assert "its own" in run("calibrate", pack)[1]
    found = json.loads(run("search", pack, "signing key", "--json", "--trace")[1])
    stage = next(s for s in found["trace"]["stages"] if s["name"] == "confidence")
    assert (stage["calibration"], stage["probability"]) == ("pack", found["confidence"])
    assert "the default" in run("calibrate", pack, "--remove")[1]
    assert not (pack / "calibration.json").exists()


def test_a_dry_run_keeps_nothing(run, tmp_path, notes_pack):
    code, out, err = run("calibrate", notes_pack, many(tmp_path), "--dry-run")
    assert code == 0
    assert "expected calibration error" in out
    assert "nothing was saved" in err
    assert not (notes_pack / "calibration.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["eval", "compare"], 2, "name a FOLDER"),
        (["eval", "compare", "x", "--traffic", "y"], 2, "exclude each other"),
        (["eval", "compare", "x", "--a", "seed", "--b", "seed"], 2, "the same variant"),
        (["eval", "compare", "x", "--b", "psychic"], 2, "no such variant"),
        (["eval", "ablate", "x", "--part", "engine"], 2, "no such part"),
        (["eval", "none.jsonl"], 1, "none.jsonl does not exist"),
        (["eval", "{goldens}"], 1, "add --store STORE"),
        (["eval", "{goldens}", "--report", "no/such/x.html"], 2, "no folder to write"),
        (["eval", "{goldens}", "--set", "x=1", "--mode", "vector"], 2, "compare rankings"),
        (["eval", "questions", "none-such"], 1, "no pack at 'none-such'"),
        (["eval", "questions", "{pack}", "--out", "no/such/x"], 2, "no folder to write"),
        (["calibrate", "{pack}", "{goldens}"], 1, "too few to calibrate on"),
        (["calibrate", "{pack}", "{goldens}", "--remove"], 2, "takes no GOLDENS"),
    ],
)
def test_a_mistake_is_one_line_with_the_right_exit_code(
    run, goldens, notes_pack, arguments, code, says
):
    arguments = [a.format(goldens=goldens, pack=notes_pack) for a in arguments]
    returned, out, err = run(*arguments)
    assert (returned, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1

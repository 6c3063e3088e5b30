"""Installing and copying packs: all or nothing, only what belongs to a pack, and no links."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from packwise.cli import app
from packwise.errors import StoreError, StoreFull
from packwise.language.analyzer import terms
from packwise.packs.installed import install, installed_packs, remove
from packwise.packs.skill import write_skill
from packwise.stores import replacing
from packwise.stores.locate import installed, pack_folder
from packwise.stores.pack.store import open_pack
from packwise.stores.pack.validation import validate


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "packs"


@pytest.fixture
def pack(notes_pack, tmp_path):
    return shutil.copytree(notes_pack, tmp_path / "notes")


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "id_rsa").write_text("PRIVATE KEY")
    return tmp_path / "secret"


def holds_secret(folder: Path) -> bool:
    return any(
        path.is_symlink() or (path.is_file() and b"PRIVATE KEY" in path.read_bytes())
        for path in folder.rglob("*")
    )


PLACES = ["few_shot_examples.json", "SKILL.md", "eval/questions.jsonl", "holiday.jpg", "index/1/x"]


def test_only_what_belongs_to_a_pack_is_copied(pack, home, secret, tmp_path):
    (pack / "eval").mkdir(exist_ok=True)
    for place in PLACES:
        (pack / place).unlink(missing_ok=True)
        (pack / place).symlink_to(secret / "id_rsa")
    (pack / "more").symlink_to(secret)
    (pack / "diary.txt").write_text("mine")
    target = install(pack)
    written = write_skill(str(pack), tmp_path / "skills", with_pack=True)
    for copy in (target, written.folder / "pack"):
        assert not holds_secret(copy)
        assert not (copy / "diary.txt").exists()
        assert validate(copy) == []


def test_a_linked_folder_in_a_pack_is_one_line_that_names_it(pack, home, secret):
    (pack / "eval").symlink_to(secret)
    (secret / "questions.jsonl").write_text("PRIVATE KEY")
    with pytest.raises(StoreError, match="eval is a link"):
        install(pack)
    assert not installed("notes").exists()


def test_what_belongs_to_a_pack_comes_along(pack, home):
    (pack / "calibration.json").write_text("{}")
    (pack / "eval").mkdir()
    (pack / "eval" / "questions.jsonl").write_text("{}\n")
    target = install(pack)
    assert (target / "calibration.json").read_text() == "{}"
    assert (target / "eval" / "questions.jsonl").read_text() == "{}\n"
    with open_pack(pack) as one, open_pack(target) as other:
        assert one.version() == other.version()
        assert list(one.documents()) == list(other.documents())


def search(folder: Path) -> list:
    with open_pack(folder) as store:
        return store.keyword_search(terms("keep the log"), 3)


def test_a_pack_of_another_machine_gets_its_index_made_again_once(pack, home, monkeypatch, caplog):
    expected = search(pack)
    monkeypatch.setenv("PACKWISE_HOME", str(home.parent / "elsewhere"))
    assert validate(pack) == []
    caplog.clear()
    assert search(pack) == expected
    assert caplog.text.count("was not written by this installation") == 1
    caplog.clear()
    assert search(pack) == expected
    assert caplog.text == ""


def test_installing_makes_the_index_of_another_machine_again(pack, home, monkeypatch, caplog):
    monkeypatch.setenv("PACKWISE_HOME", str(home.parent / "elsewhere"))
    expected = search(pack)
    caplog.clear()
    target = install(pack)
    assert search(target) == expected
    assert caplog.text == ""
    assert validate(target) == []


def test_machines_that_share_a_key_share_indexes(pack, home, monkeypatch, caplog):
    monkeypatch.setenv("PACKWISE_SEAL_KEY", "of our fleet")
    search(pack)
    caplog.clear()
    monkeypatch.setenv("PACKWISE_HOME", str(home.parent / "elsewhere"))
    search(pack)
    assert caplog.text == ""


def left_over(home: Path) -> list[str]:
    return [path.name for path in home.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("exchange", [True, False])
def test_replacing_a_pack_leaves_nothing_behind(pack, home, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(replacing, "_exchange", lambda one, other: False)
    install(pack)
    before = (installed("notes") / "pack.sqlite").stat().st_ino
    install(pack, replace=True)
    assert (installed("notes") / "pack.sqlite").stat().st_ino != before
    assert left_over(home) == []


def test_a_pack_that_cannot_be_put_in_place_is_the_old_one(pack, home, monkeypatch):
    install(pack)
    before = (installed("notes") / "pack.sqlite").stat().st_ino
    monkeypatch.setattr(replacing, "_exchange", lambda one, other: False)
    rename = Path.rename

    def failing(path, target):
        if path.name == "new":
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StoreError, match="Input/output error"):
        install(pack, replace=True)
    assert (installed("notes") / "pack.sqlite").stat().st_ino == before
    assert left_over(home) == []


def test_a_pack_moved_aside_by_a_killed_install_comes_back(pack, home):
    install(pack)
    scratch = home / ".packwise-abcd_123"
    scratch.mkdir()
    (scratch / "target").write_text("notes")
    installed("notes").rename(scratch / "old")
    (scratch / "new").mkdir()
    assert pack_folder("notes") == installed("notes")
    with open_pack(installed("notes")) as store:
        assert store.info().documents > 0
    assert left_over(home) == []


def test_what_a_killed_install_left_is_removed_by_the_next_command(pack, home):
    (home / ".packwise-abcd_123" / "new" / "index").mkdir(parents=True)
    assert installed_packs() == []
    assert left_over(home) == []


INSTALL = """
import sys
from pathlib import Path
from packwise.packs.installed import install
print('go', flush=True)
install(Path(sys.argv[1]), 'notes', replace=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_an_install_killed_at_any_moment_leaves_a_whole_pack(pack, home, moment):
    install(pack)
    process = subprocess.Popen(
        [sys.executable, "-c", INSTALL, str(pack)], stdout=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert validate(pack_folder("notes")) == []
    assert [entry.problem for entry in installed_packs()] == [""]
    assert left_over(home) == []


def test_removing_a_linked_pack_removes_the_link_alone(pack, home):
    home.mkdir(parents=True)
    installed("linked").symlink_to(pack)
    remove("linked")
    assert not installed("linked").is_symlink()
    assert validate(pack) == []


def test_a_full_disk_is_one_line(pack, home, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    (pack / "SKILL.md").write_text("skill")
    with pytest.raises(StoreFull):
        install(pack)
    assert not installed("notes").exists()
    assert left_over(home) == []


def test_a_calibration_that_is_a_link_is_not_followed(pack, secret):
    kept = secret / "calibration.json"
    kept.write_text(json.dumps({"threshold": 0.9}))
    (pack / "calibration.json").symlink_to(kept)
    result = CliRunner().invoke(app, ["calibrate", str(pack), "--remove"])
    assert result.exit_code == 1
    assert "is a link" in str(result.exception)
    assert kept.exists()

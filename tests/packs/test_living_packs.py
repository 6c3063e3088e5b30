import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner

import packwise
from packwise.cli import app
from packwise.errors import StoreError, StoreMissing, UsageError
from packwise.packs.build import build_pack
from packwise.packs.remembered_sources import recall
from packwise.packs.watching import file_states
from tests_world import wait_until, write_notes

ZEBRA = "# Zebra\n\nThe zebra sleeps standing up in the tall grass.\n"


@pytest.fixture
def source(tmp_path):
    return write_notes(tmp_path / "notes")


@pytest.fixture
def pack(source, tmp_path):
    build_pack([source], tmp_path / "pack")
    return tmp_path / "pack"


def ids(pack):
    with packwise.open(str(pack)) as library:
        return {document.id for document in library.store.documents()}


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_pack_remembers_its_sources_and_update_follows_them(pack, source):
    assert recall(str(pack)) == [str(source)]
    (source / "zebra.md").write_text(ZEBRA)
    (source / "glossary.txt").unlink()
    found = run("update", pack, "--json")
    assert found.exit_code == 0, found.output
    changes = json.loads(found.stdout)["documents"]
    assert (changes["added"], changes["removed"], changes["unchanged"]) == (1, 1, 4)
    assert "zebra.md" in ids(pack)
    assert "glossary.txt" not in ids(pack)


def test_sources_named_from_another_folder_are_found_again(pack, source, tmp_path, monkeypatch):
    monkeypatch.chdir(source)
    assert run("build", ".", "--out", pack).exit_code == 0
    monkeypatch.chdir(tmp_path)
    assert recall(str(pack)) == [str(source)]
    assert run("update", pack).exit_code == 0


def test_added_documents_join_what_is_there(pack, source, tmp_path):
    before = ids(pack)
    (tmp_path / "zebra.md").write_text(ZEBRA)
    assert run("add", pack, tmp_path / "zebra.md").exit_code == 0
    assert ids(pack) == before | {"zebra.md"}
    assert recall(str(pack)) == [str(source), str(tmp_path / "zebra.md")]
    report = build_pack(recall(str(pack)), pack)
    assert report.changes.unchanged == 6, "an update after an addition changes nothing"


def test_an_added_document_does_not_take_the_id_of_another(pack, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "glossary.txt").write_text("An otter is a swimming mammal.\n")
    build_pack([tmp_path / "other"], pack, add=True)
    assert {"glossary.txt", "other/glossary.txt"} <= ids(pack)
    assert build_pack(recall(str(pack)), pack).changes.unchanged == 6


def test_a_file_of_a_known_folder_is_updated_rather_than_added_twice(pack, source):
    (source / "glossary.txt").write_text("A gannet dives into the sea from a great height.\n")
    report = build_pack([source / "glossary.txt"], pack, add=True)
    assert (report.changes.added, report.changes.changed) == (0, 1)
    assert recall(str(pack)) == [str(source)]


def test_adding_works_when_an_earlier_source_has_gone(pack, source, tmp_path):
    before = ids(pack)
    source.rename(tmp_path / "moved")
    (tmp_path / "zebra.md").write_text(ZEBRA)
    build_pack([tmp_path / "zebra.md"], pack, add=True)
    assert ids(pack) == before | {"zebra.md"}


def test_an_update_without_one_of_its_sources_changes_nothing_and_names_it(pack, source, tmp_path):
    before = ids(pack)
    source.rename(tmp_path / "moved")
    found = run("update", pack)
    assert found.exit_code == 1
    assert str(source) in str(found.exception)
    assert ids(pack) == before


def test_a_forgotten_source_goes_with_its_documents(pack, source, tmp_path):
    (tmp_path / "zebra.md").write_text(ZEBRA)
    build_pack([tmp_path / "zebra.md"], pack, add=True)
    assert run("update", pack, "--forget", tmp_path / "zebra.md").exit_code == 0
    assert "zebra.md" not in ids(pack)
    assert recall(str(pack)) == [str(source)]
    unknown = run("update", pack, "--forget", "nothing").exception
    assert isinstance(unknown, UsageError)
    assert str(source) in str(unknown)


def test_a_build_that_would_remove_most_documents_asks_first(pack, tmp_path):
    before = ids(pack)
    (tmp_path / "zebra.md").write_text(ZEBRA)
    found = run("build", tmp_path / "zebra.md", "--out", pack)
    assert isinstance(found.exception, UsageError)
    assert "5 of 5 documents would be removed" in str(found.exception)
    assert ids(pack) == before
    assert run("build", tmp_path / "zebra.md", "--out", pack, "--yes").exit_code == 0
    assert ids(pack) == {"zebra.md"}


def test_a_build_that_removes_half_of_the_documents_does_not_ask(pack, source):
    for name in ("glossary.txt", "guides/keys.md"):
        (source / name).unlink()
    assert run("build", source, "--out", pack).exit_code == 0
    assert len(ids(pack)) == 3


def test_a_pack_that_does_not_know_its_sources_says_what_to_run(pack):
    (pack / "sources.json").unlink()
    found = run("update", pack)
    assert isinstance(found.exception, UsageError)
    assert "packwise build SOURCE... --out" in str(found.exception)


@pytest.mark.parametrize("command", [("update",), ("add",), ("watch",)])
def test_what_is_not_a_pack_cannot_be_updated(command, tmp_path):
    extra = ["x.md"] if command == ("add",) else []
    found = run(*command, tmp_path / "nothing", *extra)
    assert isinstance(found.exception, StoreMissing)


def test_files_that_change_appear_or_go_are_noticed(source, tmp_path):
    states = [file_states([str(source)], str(tmp_path / "pack"))]

    def look():
        states.append(file_states([str(source)], str(tmp_path / "pack")))
        return states[-1] != states[-2]

    assert not look()
    (source / "zebra.md").write_text(ZEBRA)
    assert look()
    (source / "zebra.md").write_text(ZEBRA + "More.\n")
    assert look()
    (source / "zebra.md").unlink()
    assert look()


def test_a_pack_inside_its_own_source_does_not_wake_the_watch(source):
    build_pack([source], source / "pack")
    before = file_states([str(source)], str(source / "pack"))
    (source / "pack" / "new").write_text("x")
    assert file_states([str(source)], str(source / "pack")) == before


def test_a_watched_pack_follows_its_files(pack, source):
    command = [sys.executable, "-m", "packwise", "watch", str(pack), "--every", "0.1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert b"watching" in process.stderr.readline()
        (source / "zebra.md").write_text(ZEBRA)
        wait_until(lambda: "zebra.md" in ids(pack), "the pack holds the new file")
        process.send_signal(signal.SIGINT)
        assert b"stopped" in process.stderr.read()


def test_a_killed_build_of_one_large_document_keeps_what_it_embedded(tmp_path):
    lines = (f"Station {n} lies {n * 13 % 97} miles beyond the harbour wall." for n in range(900))
    text = "\n\n".join(lines)
    (tmp_path / "large.md").write_text(f"# Stations\n\n{text}\n")
    pack = tmp_path / "pack"
    command = [sys.executable, "-m", "packwise", "build", tmp_path / "large.md", "--out", pack]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:

        def saved():
            assert process.poll() is None, "the build ended before it could be killed"
            if not (pack / "pack.sqlite").exists():
                return False
            with closing(sqlite3.connect(f"file:{pack}/pack.sqlite?mode=ro", uri=True)) as db:
                tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
                return "vectors" in tables and db.execute("SELECT 1 FROM vectors").fetchone()

        wait_until(saved, "the build saves its first vectors")
        process.send_signal(signal.SIGKILL)
    report = build_pack([tmp_path / "large.md"], pack)
    assert report.reused >= 16
    assert report.embedded + report.reused == report.changes.passages


def test_documents_lists_what_a_pack_holds(pack):
    found = run("pack", "documents", pack, "--json")
    assert found.exit_code == 0, found.output
    rows = {row["id"]: row for row in json.loads(found.stdout)}
    assert set(rows) == ids(pack)
    assert rows["guides/keys.md"]["passages"] >= 1
    assert rows["guides/keys.md"]["title"]
    assert "guides/keys.md" in run("pack", "documents", pack).output


def test_several_packs_are_searched_as_one(pack, tmp_path):
    (tmp_path / "zebra.md").write_text(ZEBRA)
    build_pack([tmp_path / "zebra.md"], tmp_path / "animals")
    for question, first in (
        ("how does the zebra sleep", "animals"),
        ("how do I rotate the signing key?", "pack"),
    ):
        found = run("search", pack, tmp_path / "animals", *question.split(), "--json", "-k", "3")
        assert found.exit_code == 0, found.output
        result = json.loads(found.stdout)
        assert result["query"] == question
        assert result["hits"][0]["store"] == str(tmp_path / first)
        assert [hit["rank"] for hit in result["hits"]] == [1, 2, 3]
        assert set(result["confidence"]) == {str(pack), str(tmp_path / "animals")}


def test_a_text_in_two_packs_is_one_hit(pack, source, tmp_path):
    build_pack([source], tmp_path / "copy")
    found = run("search", pack, tmp_path / "copy", "rotate the signing key", "--json", "-k", "4")
    texts = [hit["text"] for hit in json.loads(found.stdout)["hits"]]
    assert len(texts) == len(set(texts)) == 4


def test_a_word_that_names_no_pack_belongs_to_the_question(pack, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("search", "pack", "notes", "about", "keys", "--json")
    assert json.loads(found.stdout)["query"] == "notes about keys"


def test_sources_that_another_installation_named_are_not_read(pack, tmp_path, monkeypatch, caplog):
    (tmp_path / "private.md").write_text("# Private\n\nThe diary of the keeper.\n")
    listed = json.loads((pack / "sources.json").read_text())
    listed["sources"] = [str(tmp_path / "private.md")]
    (pack / "sources.json").write_text(json.dumps(listed))
    found = run("update", pack, "--yes")
    assert isinstance(found.exception, UsageError)
    assert "was not written by this installation" in caplog.text
    assert "private.md" not in ids(pack)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_sources_that_are_no_file_are_one_line(pack, make):
    (pack / "sources.json").unlink()
    make(pack / "sources.json")
    found = run("update", pack)
    assert isinstance(found.exception, StoreError)
    assert "sources.json" in str(found.exception)


def killed_before(step, *arguments):
    """Run a command in a process that is killed when it reaches a step of a build."""
    module, _, name = step.rpartition(".")
    program = (
        f"import os, signal, sys, {module}\n"
        f"{module}.{name} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from packwise.cli import app\napp(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_an_update_after_a_killed_add_removes_nothing(pack, source, tmp_path):
    more = tmp_path / "more"
    more.mkdir()
    (more / "zebra.md").write_text(ZEBRA)
    step = "packwise.packs.build.update_profile"
    assert killed_before(step, "add", pack, more) == -signal.SIGKILL
    held = ids(pack)
    assert any("zebra" in name for name in held)
    assert recall(str(pack)) == [str(source), str(more)]
    assert run("update", pack).exit_code == 0
    assert ids(pack) == held


def test_an_update_after_a_killed_build_of_other_sources_removes_nothing(pack, source, tmp_path):
    more = tmp_path / "more"
    more.mkdir()
    (more / "zebra.md").write_text(ZEBRA)
    step = "packwise.packs.build.update_profile"
    assert killed_before(step, "build", source, more, "--out", pack) == -signal.SIGKILL
    held = ids(pack)
    assert run("update", pack).exit_code == 0
    assert ids(pack) == held

"""The commands as a user meets them: in a process of their own."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from tests_world import PATIENCE, wait_for_staged_work


def packwise(*arguments, cwd=None, **options):
    return subprocess.run(
        [sys.executable, "-m", "packwise", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=PATIENCE,
        **options,
    )


def one_line(done):
    """The error a user saw: one line, no traceback."""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def test_search_prints_hits_with_scores_and_confidence(notes_pack):
    done = packwise("search", notes_pack, "how do I rotate the signing key?")
    assert done.returncode == 0, done.stderr
    assert "1. Signing keys > Rotating the signing key" in done.stdout
    assert "confidence" in done.stdout


def test_search_json_has_the_promised_shape(notes_pack):
    done = packwise("search", notes_pack, "how do we test a restore?", "-k", "2", "--json")
    result = json.loads(done.stdout)
    assert list(result) == ["query", "hits", "confidence", "probability", "timings_ms"]
    assert [hit["rank"] for hit in result["hits"]] == [1, 2]
    assert result["hits"][0]["title"] == "Backups"
    assert result["hits"][0]["section_path"] == ["Testing a restore"]
    assert {"vector", "keyword", "combined"} <= result["hits"][0]["scores"].keys()


def test_search_takes_a_filter_and_shows_the_trace(notes_pack):
    done = packwise(
        "search", notes_pack, "signing key", "--where", "path=operations/", "--trace", "--full"
    )
    assert done.returncode == 0, done.stderr
    assert "operations/" in done.stdout
    assert "guides/" not in done.stdout
    assert "what each stage did" in done.stdout


def test_build_json_tells_what_was_done(notes, tmp_path):
    done = packwise("build", notes, "--out", tmp_path / "pack", "--json")
    result = json.loads(done.stdout)
    assert result["documents"] == {"added": 5, "changed": 0, "removed": 0, "unchanged": 0}
    assert result["problems"] == []


def test_a_dry_run_says_what_would_be_done(notes, tmp_path):
    done = packwise("build", notes, "--out", tmp_path / "pack", "--dry-run")
    assert done.returncode == 0
    assert "nothing was written" in done.stdout
    assert not (tmp_path / "pack").exists()


def test_pack_info_and_validate(notes_pack):
    shown = packwise("pack", "info", notes_pack).stdout
    assert "bge-small-en-v1.5" in shown
    labels = {line.split("│")[1].strip() for line in shown.splitlines() if line.count("│") == 3}
    assert labels >= {"vector index", "index size", "unresolved links", "created", "updated"}
    info = json.loads(packwise("pack", "info", notes_pack, "--json").stdout)
    assert info["documents"] == 5
    done = packwise("pack", "validate", notes_pack)
    assert (done.returncode, done.stdout.strip().endswith("nothing wrong")) == (0, True)


def test_an_installed_pack_opens_by_its_name(notes_pack, tmp_path):
    env = {**os.environ, "PACKWISE_HOME": str(tmp_path / "home")}
    assert packwise("pack", "install", notes_pack, "--name", "notes", env=env).returncode == 0
    done = packwise("search", "notes", "vaultctl", "--mode", "keyword", env=env, cwd=tmp_path)
    assert "Signing keys" in done.stdout
    assert "notes" in packwise("pack", "list", env=env).stdout
    again = packwise("pack", "install", notes_pack, "--name", "notes", env=env)
    assert again.returncode == 2
    assert "--replace" in one_line(again)
    assert packwise("pack", "remove", "notes", env=env).returncode == 0
    assert packwise("search", "notes", "key", env=env, cwd=tmp_path).returncode == 1


def test_settings_show_where_a_value_comes_from(tmp_path):
    env = {**os.environ, "RETRIEVAL_K_BASE": "16"}
    rows = json.loads(packwise("settings", "--json", env=env).stdout)
    (row,) = [row for row in rows if row["variable"] == "PACKWISE_RETRIEVAL_K_BASE"]
    assert (row["value"], row["origin"]) == (16, "RETRIEVAL_K_BASE")
    assert row["alias"] == "RETRIEVAL_K_BASE"
    shown = packwise("settings", env=env).stdout
    assert "RETRIEVAL_K_BASE" in shown


@pytest.mark.parametrize(
    ("value", "why"),
    [("many", "takes a whole number"), ("0", "takes 1 to 1000"), ("1.5", "takes a whole number")],
)
def test_a_bad_setting_is_named_with_what_it_takes(notes_pack, value, why):
    env = {**os.environ, "RETRIEVAL_K_BASE": value}
    done = packwise("search", notes_pack, "key", env=env)
    assert done.returncode == 2
    assert "RETRIEVAL_K_BASE" in one_line(done)
    assert why in done.stderr


class TestBadInput:
    def test_no_such_source(self, tmp_path):
        done = packwise("build", tmp_path / "nowhere", "--out", tmp_path / "pack")
        assert done.returncode == 1
        assert "nowhere" in one_line(done)
        assert not (tmp_path / "pack").exists()

    def test_an_empty_folder(self, tmp_path):
        (tmp_path / "empty").mkdir()
        done = packwise("build", tmp_path / "empty", "--out", tmp_path / "pack")
        assert done.returncode == 1
        assert "empty" in one_line(done)
        assert not (tmp_path / "pack").exists()

    def test_no_such_pack(self, tmp_path):
        done = packwise("search", tmp_path / "nothing", "key")
        assert done.returncode == 1
        assert "packwise build" in one_line(done)

    def test_a_folder_that_is_no_pack(self, notes):
        done = packwise("search", notes, "key")
        assert done.returncode == 1
        assert "not a pack" in one_line(done)

    def test_building_over_something_else(self, notes, tmp_path):
        (tmp_path / "letter.odt").write_text("dear")
        done = packwise("build", notes, "--out", tmp_path)
        assert done.returncode == 1
        assert "letter.odt" in one_line(done)
        assert [path.name for path in tmp_path.iterdir()] == ["letter.odt"]

    def test_an_empty_query(self, notes_pack):
        done = packwise("search", notes_pack, "  ")
        assert done.returncode == 2
        assert "empty" in one_line(done)

    def test_a_filter_that_is_none(self, notes_pack):
        done = packwise("search", notes_pack, "key", "--where", "path")
        assert done.returncode == 2
        assert "key=value" in one_line(done)

    def test_an_unknown_command_and_a_missing_argument(self):
        assert packwise("serch").returncode == 2
        assert packwise("search").returncode == 2

    def test_an_unknown_embedder(self, notes, tmp_path):
        done = packwise("build", notes, "--out", tmp_path / "pack", "--embedder", "word2vec")
        assert done.returncode != 0
        assert "word2vec" in one_line(done)
        assert not (tmp_path / "pack").exists()

    def test_a_binary_file_and_broken_utf8_are_named_and_the_rest_is_built(self, tmp_path):
        source = tmp_path / "source"
        source.mkdir()
        (source / "image.md").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
        (source / "latin.txt").write_bytes("Das Café liegt am Ende der Straße.\n".encode("latin-1"))
        (source / "good.md").write_text("# Good\n\nA page that can be read without any trouble.\n")
        done = packwise("build", source, "--out", tmp_path / "pack")
        assert done.returncode == 1
        assert "image.md" in done.stderr
        assert "latin.txt" in done.stderr
        assert "Traceback" not in done.stderr
        assert "Good" in packwise("search", tmp_path / "pack", "page without trouble").stdout

    def test_a_directory_loop_is_walked_once(self, tmp_path):
        source = tmp_path / "source"
        (source / "inner").mkdir(parents=True)
        (source / "inner" / "page.md").write_text("# Page\n\nThis page sits inside of a loop.\n")
        (source / "inner" / "again").symlink_to(source)
        done = packwise("build", source, "--out", tmp_path / "pack", "--json")
        assert json.loads(done.stdout)["documents"]["added"] == 1

    def test_a_50_mb_file_is_read(self, tmp_path):
        source = tmp_path / "big.txt"
        # Padded like a column: reading is what is tried here, and words cost far more than that.
        line = "The quick brown fox jumps over the lazy dog, again and again.".ljust(499) + "\n"
        source.write_text(line * (50_000_000 // len(line)))
        done = packwise("build", source, "--out", tmp_path / "pack", "--dry-run", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["documents"]["added"] == 1

    def test_text_from_documents_cannot_drive_the_terminal(self, tmp_path):
        page = tmp_path / "page.md"
        page.write_text(
            "# Escape\n\nBefore \x1b[31mred\x1b[0m \x1b]0;title\x07 [bold]after[/bold].\n"
        )
        packwise("build", page, "--out", tmp_path / "pack")
        done = packwise("search", tmp_path / "pack", "before after", "--full")
        assert "\x1b" not in done.stdout
        assert "[bold]after[/bold]" in done.stdout

    def test_ctrl_c_ends_with_one_line_and_the_old_pack(self, notes, tmp_path):
        pack = tmp_path / "pack"
        assert packwise("build", notes, "--out", pack).returncode == 0
        many = tmp_path / "many"
        many.mkdir()
        for number in range(400):
            (many / f"{number}.md").write_text(
                f"# Page {number}\n\n" + f"All about {number} things. " * 20
            )
        with subprocess.Popen(
            [sys.executable, "-m", "packwise", "build", many, "--out", pack, "--yes"],
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            wait_for_staged_work(pack, process)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert errors.strip().splitlines()[-1].startswith("packwise: stopped")
        assert "Traceback" not in errors
        assert json.loads(packwise("pack", "info", pack, "--json").stdout)["documents"] == 5

    def test_output_that_nobody_reads_any_more_is_no_failure(self, notes_pack):
        command = f"{sys.executable} -m packwise search {notes_pack} key --json | head -c 1"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert done.stdout == "{"
        assert done.stderr == ""


class TestPipes:
    """Text in a pipe stays on one line, however long the paths in it are."""

    @pytest.fixture
    def long_folder(self, tmp_path):
        folder = tmp_path / ("a-long-folder-name-" * 6) / ("and another one " * 8).strip()
        folder.mkdir(parents=True)
        return folder

    def test_a_note_of_a_build(self, long_folder, tmp_path):
        (long_folder / "page.md").write_text("# Page\n\nThis page can be read.\n")
        (long_folder / "broken.md").write_bytes(bytes(range(256)) * 20)
        done = packwise("build", long_folder, "--out", long_folder / "the pack")
        assert [line for line in done.stderr.splitlines() if "broken.md" in line] == [
            line for line in done.stderr.splitlines() if line.startswith("not read: ")
        ]
        assert done.stdout.splitlines()[0] == str(long_folder / "the pack")

    def test_an_error_and_a_result(self, long_folder, notes_pack):
        missing = long_folder / "no pack is here"
        assert str(missing) in one_line(packwise("search", missing, "key"))
        done = packwise("copy", notes_pack, long_folder / "copy")
        assert done.stdout.startswith(f"{long_folder / 'copy'}: 5 documents")
        assert len(done.stdout.splitlines()) == 1

    def test_a_passage_and_its_scores(self, long_folder):
        text = (
            "This page has one long sentence " + "that goes on and on and on " * 9 + "to the end."
        )
        (long_folder / "page.md").write_text(f"# Page\n\n{text}\n")
        pack = long_folder / "pack"
        packwise("build", long_folder, "--out", pack)
        done = packwise("search", pack, "long sentence", "--full")
        assert text in done.stdout.splitlines()


def test_too_many_open_files_are_one_line_wherever_that_happens(monkeypatch, capsys):
    from packwise import cli

    def no_more(**options):
        raise OSError(errno.EMFILE, "Too many open files", "some/library.py")

    monkeypatch.setattr(cli.app, "main", no_more)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "packwise: too many files are open -> ulimit -n 1024, then again\n"
    )


@pytest.mark.parametrize("command", ["context", "ask"])
def test_a_budget_of_no_tokens_is_wrong_usage(notes_pack, command):
    done = packwise(command, notes_pack, "how do I rotate the key?", "--budget", "0")
    assert done.returncode == 2
    assert "0 is not in the range x>=1" in done.stderr

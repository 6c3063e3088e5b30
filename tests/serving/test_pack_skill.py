"""A pack's skill keeps to the format's rules and its commands work."""

import json
import re
import shlex

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from packwise.cli import app
from packwise.errors import UsageError
from packwise.packs import skill as skills
from packwise.packs.build import build_pack
from packwise.packs.skill import write_skill
from serving_world import copy_calibrated

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def read(folder):
    text = (folder / "SKILL.md").read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def test_the_head_keeps_to_the_rules_and_the_body_tells_what_there_is(notes_pack, tmp_path):
    written = write_skill(str(notes_pack), tmp_path)
    head, body = read(written.folder)
    assert head["name"] == written.folder.name == "my-pack"
    assert NAME.fullmatch(head["name"])
    assert head["description"] == written.description
    assert 0 < len(head["description"]) <= 1024
    assert "Signing keys" in head["description"]
    assert set(head) <= {"name", "description", "license", "compatibility", "metadata"}
    assert len(head["compatibility"]) <= 500
    assert len(body.splitlines()) < 500
    for title in ("Signing keys", "Releases", "Backups", "On call"):
        assert f"- {title}" in body
        assert f"- {title}" in (written.folder / "references/articles.md").read_text()


def test_its_commands_run_as_they_stand(notes_pack, tmp_path, monkeypatch):
    written = write_skill(str(notes_pack), tmp_path, with_pack=True)
    monkeypatch.chdir(written.folder)
    _, body = read(written.folder)
    commands = [c for c in re.findall(r"```\n(packwise .+)\n```", body) if " mcp " not in c]
    assert {shlex.split(c)[1] for c in commands} == {"ask", "context", "search"}
    for command in commands:
        asked = command.replace("QUESTION", "How is a key rotated?").replace("WORDS OR ", "")
        _, *arguments = shlex.split(asked)
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert "vaultctl" in done.stdout


def test_it_says_what_the_pack_is_about(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(
        "# Welcome\n\nVaultctl is a tool that signs releases. Press CTRL to go on.\n"
    )
    for name in ("Mirrors", "Backups", "Releases"):
        (docs / f"{name}.md").write_text(
            f"# {name}\n\nWith Vaultctl, {name.lower()} take a minute. Press CTRL to go on.\n"
        )
    build_pack([str(docs)], str(tmp_path / "pack"))
    made = write_skill(str(tmp_path / "pack"), tmp_path / "made")
    assert made.description.startswith("Vaultctl is a tool that signs releases. ")
    assert "4 articles about Vaultctl" in made.description
    assert "Mirrors" in made.description
    assert "CTRL" not in (made.folder / "SKILL.md").read_text()
    given = write_skill(
        str(tmp_path / "pack"), tmp_path / "given", description="All of *our*\nkeys"
    )
    assert read(given.folder)[0]["description"] == "All of our keys"
    for wrong in ("", "x" * 1100):
        with pytest.raises(UsageError):
            write_skill(str(tmp_path / "pack"), tmp_path / "wrong", description=wrong)


@given(st.text(max_size=100))
def test_a_name_made_of_any_folder_is_a_good_name(folder):
    name = skills._name_from(folder)
    assert NAME.fullmatch(name)
    assert len(name) <= 64
    assert "claude" not in name
    assert "anthropic" not in name


@given(st.lists(st.text(max_size=300), max_size=60))
def test_a_list_never_outgrows_its_room(items):
    assert len(skills._listed(items, 200)) <= 200


@given(st.text(max_size=300))
def test_a_title_is_one_plain_line(title):
    plain = skills._plain(title)
    assert "\n" not in plain
    assert not set(plain) & set("`<>[]#*|\\\x1b")
    assert len(plain) <= 80


@pytest.mark.parametrize("name", ["", "My-Pack", "a--b", "-a", "a_b", "x" * 65, "claude-x", "é"])
def test_a_name_the_format_does_not_allow_is_refused(notes_pack, tmp_path, name):
    with pytest.raises(UsageError):
        write_skill(str(notes_pack), tmp_path, name=name)
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_replaces_and_says_where(notes_pack, tmp_path):
    def run(*more):
        return CliRunner().invoke(
            app, ["pack", "skill", str(notes_pack), "--out", str(tmp_path), *more]
        )

    assert "SKILL.md" in run("--name", "our-notes").output
    again = run("--name", "our-notes")
    assert isinstance(again.exception, UsageError)
    done = json.loads(run("--name", "our-notes", "--replace", "--json").output)
    assert done["name"] == "our-notes"
    assert [path.name for path in tmp_path.iterdir()] == ["our-notes"]


def test_a_skill_tells_the_threshold_that_counts_and_no_name_where_there_is_none(
    notes_pack, tmp_path
):
    plain = (write_skill(str(notes_pack), tmp_path / "a").folder / "SKILL.md").read_text("utf-8")
    assert "Below 0.5 the pack has little" in plain
    own = copy_calibrated(notes_pack, tmp_path / "own", says=0.4, threshold=0.72)
    text = (write_skill(str(own), tmp_path / "b").folder / "SKILL.md").read_text("utf-8")
    assert "Below 0.72 the pack is unlikely" in text
    (tmp_path / "one.md").write_text("# Backups\n\nThe database is backed up every night.\n")
    build_pack([str(tmp_path / "one.md")], str(tmp_path / "nameless"))
    nameless = write_skill(str(tmp_path / "nameless"), tmp_path / "c")
    assert nameless.description.endswith("questions on Backups.")

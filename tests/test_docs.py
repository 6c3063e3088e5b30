"""The docs keep up with the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import packwise
from packwise.trace import STAGES

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", ["commands", "endpoints", "metrics", "trace"])
def test_the_reference_is_as_the_code_is_now(page):
    # In a process of its own: click remembers a command's help option from its first use.
    command = [sys.executable, "-m", "packwise.cli.reference", page]
    now = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    written = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert written == now, f"run: python -m packwise.cli.reference {page} > docs/{page}.md"


def test_every_stage_that_runs_is_in_the_reference():
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r"\.stage\(\"(\w+)\"", sources)) == set(STAGES)


def test_every_field_of_a_real_trace_is_in_the_reference(notes_pack):
    page = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    with packwise.open(str(notes_pack)) as library:
        trace = library.ask("how do I rotate the signing key?").as_dict()["trace"]
    packing = trace["packing"]
    assert packing["selected"]
    for record in (packing, *packing["selected"], *packing["dropped"], *packing["caps"]):
        for name in record:
            assert f"| `{name}` |" in page, name
    for stage in trace["stages"]:
        assert f"| `{stage['name']}` |" in page


def test_every_field_of_the_reference_has_a_meaning():
    for page in ("endpoints", "metrics", "trace"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        assert "| |" not in text.replace("|  |", "|x|")
        assert not re.findall(r"(?m)^\| `.*\|  \|$", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_linked_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme


def test_contributing_fits_one_screen():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 40

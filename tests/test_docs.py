"""The docs keep up with the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def test_every_command_and_flag_is_in_the_reference_as_it_is_now():
    # In a process of its own: click remembers a command's help option from its first use.
    command = [sys.executable, "-m", "packwise.cli.reference"]
    now = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == now, "run: python -m packwise.cli.reference > docs/commands.md"


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

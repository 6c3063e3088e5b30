"""``packwise demo``: build a pack from documents that every machine has, search it and ask it."""

from __future__ import annotations

import shutil
import sys
from importlib import resources
from pathlib import Path

import click

from packwise.cli.console import out

QUESTIONS = (
    "How does Python decide which except clause handles an exception?",
    "What is the difference between a list and a tuple display?",
    "How are two search legs fused into one ranking in Packwise?",
)
ASKED = "When are default parameter values evaluated?"


@click.command()
@click.option(
    "--out",
    "target",
    default="demo-pack",
    show_default=True,
    metavar="PACK",
    help="The pack to build.",
)
@click.option("-k", default=3, show_default=True, help="Hits to show per question.")
def demo(target: str, k: int) -> None:
    """Build a pack from Python's own reference and Packwise's docs, then search and ask it."""
    from rich.rule import Rule

    from packwise.cli.ask import show as show_answer
    from packwise.cli.build import show as show_build
    from packwise.cli.progress import ProgressBars
    from packwise.cli.search import show as show_search
    from packwise.library import open_library
    from packwise.packs.build import build_pack

    console = out()
    with ProgressBars("building") as progress:
        report = build_pack(_sources(), target, progress=progress)
    show_build(report)
    with open_library(target) as library:
        for question in QUESTIONS:
            console.print(Rule(f" {question} ", style="cyan"))
            show_search(library.search(question, k))
        console.print(Rule(f" asked: {ASKED} ", style="cyan"))
        show_answer(library.ask(ASKED, synthesis=False))
    console.print(Rule(style="cyan"))
    command = "packwise" if shutil.which("packwise") else sys.argv[0]
    console.print("Now ask it something yourself, or build a pack from your own documents:\n")
    console.print(f'  {command} search {target} "how do decorators work?"')
    console.print(f'  {command} ask {target} "what is a generator expression?"')
    console.print(f"  {command} pack info {target}")
    console.print(f"  {command} build ~/notes --out my-pack")


def _sources() -> list[str]:
    """The reference that comes with Python, and our own docs if they are installed."""
    docs = Path(str(resources.files("packwise"))).parent.parent / "docs"
    return ["python:reference", *([str(docs)] if (docs / "sources.md").is_file() else [])]

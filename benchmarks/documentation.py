"""What a reader of real documentation gets: right answers, wrong ones and refusals.

    python benchmarks/documentation.py [FOLDER]

Fetches the source archives of three projects with pip, builds a pack from the documentation of
each in FOLDER (else a temporary one), and asks the questions in ``benchmarks/documentation``
without a language model. An answerable question is right if the answer shown holds every text of
one of its alternatives. Near misses and off-topic questions should be refused.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import packwise

QUESTIONS = Path(__file__).parent / "documentation"
TREES = {
    "coverage": ("coverage==7.17.2", "doc"),
    "gunicorn": ("gunicorn==27.0.0", "docs/content"),
    "scrapy": ("scrapy==2.19.0", "docs"),
}
GATED = "confidence_gated_fallback"
OUTCOMES = ("right", "in the top three", "wrong", "refused")


def main(folder: Path) -> None:
    """Build what is missing, ask every question, print one row per kind of question."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tree in TREES:
        rows = (QUESTIONS / f"{tree}.jsonl").read_text(encoding="utf-8").splitlines()
        with packwise.open(pack(tree, folder)) as library:
            for row in map(json.loads, rows):
                for outcome in outcomes(library, row):
                    counts[row["kind"]][outcome] += 1
                counts[row["kind"]]["questions"] += 1
    head = ("kind", "questions", *OUTCOMES)
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for kind, found in counts.items():
        lines.append(f"| {kind} | {' | '.join(str(found[name]) for name in head[1:])} |")
    sys.stdout.write("\n".join(lines) + "\n")


def pack(tree: str, folder: Path) -> str:
    """The pack of a tree's documentation, built if it is not there yet."""
    target = folder / tree
    if not (target / "pack.sqlite").exists():
        requirement, inside = TREES[tree]
        archive = fetched(requirement, folder)
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        source = folder / archive.name.removesuffix(".tar.gz") / inside
        packwise.build([str(source)], str(target))
    return str(target)


def fetched(requirement: str, folder: Path) -> Path:
    """The source archive of a project, as pip downloads it."""
    name = requirement.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", name, "--dest", str(folder), requirement]
    subprocess.run(command, check=True)
    return next(folder.glob(f"{name}-*.tar.gz"))


def outcomes(library: packwise.Library, row: dict[str, Any]) -> list[str]:
    """What became of a question; whether the answer was in the first three passages counts too."""
    answer = library.ask(row["question"], synthesis=False)
    hits = library.search(row["question"], 3).hits
    found = ["in the top three"] if holds(" ".join(h.passage.text for h in hits), row) else []
    if answer.query_type == GATED:
        return [*found, "refused"]
    return [*found, "right" if holds(answer.text, row) else "wrong"]


def holds(text: str, row: dict[str, Any]) -> bool:
    """Whether a text holds all of one alternative, ignoring case, quotes and spacing."""
    shown = folded(text)
    return any(all(folded(part) in shown for part in parts) for parts in row.get("holds", ()))


def folded(text: str) -> str:
    """A text to compare: lower case, without code marks and quotes, single spaces."""
    return " ".join(re.sub(r"[`*\"'“”‘’]+", "", text).lower().split())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))

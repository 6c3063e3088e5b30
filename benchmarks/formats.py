"""Real files of every format in one pack: what was read, and whether questions are answered.

python benchmarks/formats.py FOLDER [--embedder NAME] [--show]

Fetches the files (``format_files.py``), builds one pack of them all and prints, per format, how
many sections, blocks and passages there are, for how many questions of ``format_questions.toml``
one of the three best passages holds the answer, and for how many the text that ``packwise ask``
shows does, without a language model. ``--show`` prints every question with what was answered and
where, and the three best passages of those that were missed.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from format_files import FILES, fetch

import packwise

QUESTIONS = Path(__file__).with_name("format_questions.toml")


@dataclass
class Row:
    """The figures of one format."""

    documents: int = 0
    sections: int = 0
    blocks: Counter[str] = field(default_factory=Counter[str])
    passages: int = 0
    asked: int = 0
    found: int = 0
    answered: int = 0
    placed: int = 0


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def holds(text: str, answer: str) -> bool:
    """Whether a text holds the answer; letter case and line breaks do not count."""
    return answer.casefold() in " ".join(text.casefold().split())


def count(library: packwise.Library, rows: dict[str, Row]) -> None:
    """Count what was read."""
    for summary in library.store.documents():
        document = library.store.document(summary.id)
        row = rows[summary.id.partition("/")[0]]
        row.documents += 1
        row.sections += len(document.sections)
        row.blocks.update(block.kind.value for part in document.sections for block in part.blocks)
        row.passages += summary.passages


def ask(library: packwise.Library, format: str, row: Row, *, show: bool) -> None:
    """Ask the questions about one format."""
    for question, answer in tomllib.loads(QUESTIONS.read_text("utf-8"))[format]:
        own = [
            hit.passage
            for hit in library.search(question, k=3)
            if hit.passage.document.startswith(f"{format}/")
        ]
        said = library.ask(question)
        row.asked += 1
        found = any(holds(passage.indexed_text, answer) for passage in own)
        # A refusal quotes the closest passage, which is not an answer.
        answered = said.certainty != "not covered" and holds(said.text, answer)
        places = [f"{cited.document} {cited.place}".strip() for cited in said.citations]
        row.found += found
        row.answered += answered
        row.placed += any(cited.place for cited in said.citations)
        if show:
            say(f"\n## {format}: {question} [{answer}]")
            say(f"found: {found}, answered: {answered}, {said.certainty}; {'; '.join(places)}")
            say(said.text)
            if not found:
                for hit in library.search(question, k=3):
                    say(f"> {hit.passage.id}: {hit.passage.text[:200]!r}")


def main() -> None:
    """Fetch, build, count and ask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", help="another embedder than the default")
    parser.add_argument("--show", action="store_true", help="print every question")
    given = parser.parse_args()
    for name in FILES:
        if name.startswith("files/"):
            fetch(given.folder, name)
    pack = given.folder / f"pack-{given.embedder or 'default'}"
    started = time.perf_counter()
    report = packwise.build([given.folder / "files"], pack, embedder=given.embedder)
    say(f"{report.changes.passages} passages, {time.perf_counter() - started:.0f} s")
    for problem in report.problems:
        say(f"left out: {problem.location}: {problem.reason}")
    rows: dict[str, Row] = defaultdict(Row)
    with packwise.open(pack) as library:
        count(library, rows)
        for format in tomllib.loads(QUESTIONS.read_text("utf-8")):
            ask(library, format, rows[format], show=given.show)
    say("\n| format | documents | sections | blocks | passages | found | answered | with a place |")
    say("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for format, row in rows.items():
        blocks = ", ".join(f"{number:,} {kind}" for kind, number in row.blocks.most_common())
        say(
            f"| {format} | {row.documents} | {row.sections:,} | {blocks} | {row.passages:,} "
            f"| {row.found}/{row.asked} | {row.answered}/{row.asked} | {row.placed} |"
        )


if __name__ == "__main__":
    main()

"""Short questions in many languages: found by keywords, found by default, answered, refused.

    python benchmarks/languages.py [LANGUAGE ...] [--show] [--embedder NAME]

Builds one pack per language of the documents in ``languages.toml`` and prints, in Markdown, for
how many questions the right document is among the three best of the keyword leg and of the
default search, how many ``packwise ask`` answers from that document, how many questions on other
topics it refuses, and how many it answers as likely. ``--show`` prints what went wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from pathlib import Path

import packwise

DATA = Path(__file__).with_name("languages.toml")


def main() -> None:
    """Build, ask and print one row per language."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("languages", nargs="*")
    parser.add_argument("--embedder", help="another embedder than the default")
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    given = parser.parse_args()
    data = tomllib.loads(DATA.read_text("utf-8"))
    sys.stdout.write(
        "| language | questions | keyword, top 3 | default, top 3 | answered from it | refused "
        "| other topics | refused | likely |\n|" + " --- |" + " ---: |" * 8 + "\n"
    )
    totals = [0] * 8
    for language in given.languages or data:
        with tempfile.TemporaryDirectory() as folder:
            figures = measured(data[language], Path(folder), given.embedder, show=given.show)
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
        sys.stdout.write(row(language, figures))
        sys.stdout.flush()
    sys.stdout.write(row("all", totals))


def measured(rows: dict[str, list], folder: Path, embedder: str | None, *, show: bool) -> list[int]:
    """The figures of one language, in the order of the columns."""
    documents = [packwise.Document(f"{at}", "", text) for at, text in enumerate(rows["documents"])]
    packwise.build(documents, folder / "pack", embedder=embedder)
    keyword = default = answered = refused = off_refused = likely = 0
    with packwise.open(folder / "pack") as library:
        for question, at in rows["questions"]:
            by_keyword = best(library, question, "keyword")
            by_default = best(library, question, "hybrid")
            said = library.ask(question)
            cited = said.citations[0].document if said.citations else ""
            keyword += f"{at}" in by_keyword
            default += f"{at}" in by_default
            answered += said.certainty != "not covered" and cited == f"{at}"
            refused += said.certainty == "not covered"
            if show and (f"{at}" not in by_keyword or cited != f"{at}"):
                sys.stdout.write(
                    f"{question} [{at}]: keyword {by_keyword}, default {by_default}, "
                    f"{said.certainty}, cited {cited!r}\n"
                )
        for question in rows["off_topic"]:
            said = library.ask(question)
            off_refused += said.certainty == "not covered"
            likely += said.certainty == "likely"
            if show and said.certainty != "not covered":
                sys.stdout.write(f"{question}: {said.certainty}: {said.text}\n")
    asked = len(rows["questions"])
    off_topic = len(rows["off_topic"])
    return [asked, keyword, default, answered, refused, off_topic, off_refused, likely]


def best(library: packwise.Library, question: str, mode: str) -> list[str]:
    """The documents of the three best passages."""
    return [hit.passage.document for hit in library.search(question, 3, mode=mode).hits]


def row(name: str, figures: list[int]) -> str:
    """One line of the table."""
    return f"| {name} | {' | '.join(str(figure) for figure in figures)} |\n"


if __name__ == "__main__":
    main()

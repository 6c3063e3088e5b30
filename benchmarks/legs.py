"""Whether the default is at or above its better leg, set by set.

    python benchmarks/legs.py FOLDER... [--most 300] [--metric recall@5]
        [--documentation FOLDER [--parts third ...]] [--tatqa FOLDER]

Each FOLDER is a BEIR-style data set. Prints Markdown: nDCG@10 (or another metric) of the keyword
leg, the vector leg, fixed weights of 0.7/0.3 and 0.5/0.5, the weights of a store that was not
measured, and the default; the difference of the default to the better leg, paired over the
questions, with its interval; and what the build measured. Graph ranking is off, so that only the
weights differ.
Of a set with more than ``--most`` questions those at even steps are asked.

With ``--documentation``, packs of real documentation are built in that folder as
``documentation.py`` does; their rows have the mean reciprocal rank of the first of ten passages
that holds the answer, and one row has the questions of all. ``--parts`` takes other projects of
``documentation.py``, as ``third`` for its ``--third``. With ``--tatqa``, all documents of TAT-QA
are one pack in that folder, and the one that a question was written for is relevant
(``PACKWISE_DATA`` is the folder of ``tatqa``).
``PACKWISE_EMBEDDER`` chooses the embedder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import documentation
from answer_model import data, tatqa_pack
from rankers import library_ranker, run
from strengths import Remembering, sampled

from packwise.candidates import Mode
from packwise.evaluation.answers import read_questions
from packwise.evaluation.cache import cached_store
from packwise.evaluation.compare import compare
from packwise.evaluation.data import DataSet, load_dataset
from packwise.evaluation.metrics import HEADLINE, STANDARD, Metric, fold_to_documents, mean
from packwise.library import Library
from packwise.models.embedder import load_embedder
from packwise.retrieval.profile import load_profile
from packwise.settings import Settings
from packwise.stores.locate import open_store

DEPTH = 10
Scores = Mapping[str, float]
VARIANTS: dict[str, tuple[dict[str, object], Mode]] = {
    "keyword": ({}, "keyword"),
    "vector": ({}, "vector"),
    "0.7/0.3": ({"query_adaptive_weights": False}, "hybrid"),
    "0.5/0.5": (
        {"query_adaptive_weights": False, "vector_weight": 0.5, "keyword_weight": 0.5},
        "hybrid",
    ),
    "not measured": ({}, "hybrid"),
    "default": ({}, "hybrid"),
}


class NotMeasured(Library):
    """A library that does not read the profile of its store."""

    def _profile(self) -> None:
        return None


def main() -> None:
    """Measure every variant on every set and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--documentation", type=Path)
    parser.add_argument("--parts", nargs="*", default=["", "tune"])
    parser.add_argument("--tatqa", type=Path)
    known = {str(metric): metric for metric in STANDARD}
    parser.add_argument("--metric", choices=list(known), default=str(HEADLINE))
    given = parser.parse_args()
    sys.stdout.write(
        f"| set | questions | {' | '.join(VARIANTS)} | default to the better leg | probes "
        "| vector, keyword found |\n"
        f"| --- | ---: |{' ---: |' * (len(VARIANTS) + 2)} --- |\n"
    )
    for folder in given.folders:
        sys.stdout.write(row(sampled(load_dataset(folder), given.most), known[given.metric]))
        sys.stdout.flush()
    if given.documentation is not None:
        given.documentation.mkdir(parents=True, exist_ok=True)
        pooled: dict[str, dict[str, float]] = {variant: {} for variant in VARIANTS}
        for part in given.parts:
            for tree, (requirement, inside) in documentation.PARTS.get(
                part, documentation.TREES
            ).items():
                place = documentation.pack(tree, requirement, inside, given.documentation)
                questions = documentation.QUESTIONS / part / f"{tree}.jsonl"
                found = documentation_scores(place, questions)
                sys.stdout.write(shown(tree, found, probed(place)))
                sys.stdout.flush()
                for variant, own in found.items():
                    pooled[variant] |= {f"{tree} {id}": score for id, score in own.items()}
        sys.stdout.write(shown("all of these", pooled, " | "))
    if given.tatqa is not None:
        sys.stdout.write(tatqa_row(given.tatqa, given.most, known[given.metric]))


def row(dataset: DataSet, metric: Metric) -> str:
    """The figures of one set."""
    place = str(cached_store(dataset, Settings.load()))

    def scores(library: Library, mode: Mode) -> Scores:
        ranker = library_ranker(library, mode=mode, graph="off")
        return run(dataset, ranker, DEPTH, [metric]).scores[metric]

    return shown(dataset.name, measured(place, scores), probed(place))


def tatqa_row(folder: Path, most: int, metric: Metric) -> str:
    """The figures of TAT-QA; many of its questions fit several documents."""
    place = tatqa_pack(folder)
    lines = (data("tatqa") / "questions.jsonl").read_text("utf-8").splitlines()
    asked = [json.loads(line) for line in lines[:: -(-len(lines) // most)]]

    def scores(library: Library, mode: Mode) -> Scores:
        found: dict[str, float] = {}
        for row in asked:
            hits = library.search(row["question"], 3 * DEPTH, mode=mode, graph="off").hits
            ranked = fold_to_documents(hit.passage.document for hit in hits)[:DEPTH]
            found[row["id"]] = metric.score(ranked, {f"{row['document']}.md": 1})
        return found

    return shown("tatqa", measured(place, scores), probed(place))


def documentation_scores(place: str, path: Path) -> dict[str, Scores]:
    """The scores of every variant on one tree of documentation."""
    asked = [question for question in read_questions(path) if question.holds]

    def scores(library: Library, mode: Mode) -> Scores:
        found: dict[str, float] = {}
        for question in asked:
            hits = library.search(question.question, DEPTH, mode=mode, graph="off").hits
            right = [question.held_by(hit.passage.text) for hit in hits]
            found[question.id] = 1.0 / (1 + right.index(True)) if any(right) else 0.0
        return found

    return measured(place, scores)


def measured(place: str, scores: Callable[[Library, Mode], Scores]) -> dict[str, Scores]:
    """The scores of every variant on one pack."""
    base = Settings.load()
    embedder = Remembering(load_embedder(base.embedder, base))
    found: dict[str, Scores] = {}
    for variant, (settings, mode) in VARIANTS.items():
        kind = NotMeasured if variant == "not measured" else Library
        used = Settings.load(query_cache=0, **settings)
        with kind(open_store(place), settings=used, embedder=embedder) as library:
            found[variant] = scores(library, mode)
    return found


def shown(name: str, found: Mapping[str, Scores], legs: str) -> str:
    """One row: the scores of every variant, and the default beside the better leg."""
    better = max(found["keyword"], found["vector"], key=lambda leg: mean(leg.values()))
    change = compare(found["default"], better).interval_text()
    scores = " | ".join(f"{mean(one.values()):.3f}" for one in found.values())
    return f"| {name} | {len(better)} | {scores} | {change} | {legs} |\n"


def probed(place: str) -> str:
    """What the build measured, in two cells."""
    with open_store(place) as store:
        profile = load_profile(store.info())
    legs = profile.legs("") if profile else None
    return f"{legs.probes} | {legs.vector:.2f}, {legs.keyword:.2f}" if legs else "0 | "


if __name__ == "__main__":
    main()

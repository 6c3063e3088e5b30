"""What weighing the legs and ranking along the graph are worth, set by set.

    python benchmarks/ranking.py DATA [--sets hotpotqa-100,musique-100] [--half report]
        [--cross-encoder]

DATA holds the data sets, one BEIR-style folder each. Prints Markdown. A figure is that of all
questions, then those of the half ``tune``, on which settings are chosen, and of the half
``report``; with ``--half`` of that half alone. The difference to the better single leg is paired
over the questions of ``report``, or of the half that is asked for.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from random_walk import random_walk
from rankers import Ranker, Ranking, library_ranker, run

from packwise.evaluation.cache import cached_store
from packwise.evaluation.compare import compare
from packwise.evaluation.data import HALVES, DataSet, Half, half_of, load_dataset
from packwise.evaluation.metrics import HEADLINE, Metric, mean
from packwise.library import Library, open_library
from packwise.settings import Settings

SETS = ("hotpotqa-100", "musique-100", "squad2", "scifact", "cisi", "stackfaq")
DEPTH = 10
METRICS = (Metric("recall", 2), Metric("recall", 5), HEADLINE)

# Name, settings, and what to ask of a search.
Variant = tuple[str, dict[str, object], dict[str, str]]
VARIANTS: tuple[Variant, ...] = (
    ("keyword leg", {}, {"mode": "keyword"}),
    ("vector leg", {}, {"mode": "vector"}),
    ("0.7/0.3, no graph", {"query_adaptive_weights": False}, {"graph": "off"}),
    ("adaptive weights, no graph", {}, {"graph": "off"}),
    ("**default**: adaptive weights, names", {}, {"graph": "names"}),
    ("0.7/0.3, names", {"query_adaptive_weights": False}, {"graph": "names"}),
    ("adaptive weights, random walk", {}, {"graph": "random walk"}),
    ("adaptive weights, PageRank 0.7/0.3", {}, {"graph": "pagerank"}),
)
CROSS_ENCODER = ("default and cross-encoder", {}, {"graph": "names", "rerank": "crossencoder"})


def main() -> None:
    """Measure every variant on every set and print a table a set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--half", choices=(*HALVES, "both"), default="both")
    parser.add_argument("--cross-encoder", action="store_true", help="read passages too: slow")
    given = parser.parse_args()
    variants = (*VARIANTS, CROSS_ENCODER) if given.cross_encoder else VARIANTS
    half: Half | None = None if given.half == "both" else given.half
    for name in given.sets.split(","):
        sys.stdout.write(table(load_dataset(given.data / name, half=half), variants))
        sys.stdout.flush()


def table(dataset: DataSet, variants: tuple[Variant, ...] = VARIANTS) -> str:
    """One set's figures as Markdown."""
    store = str(cached_store(dataset, Settings.load()))
    found = {name: measure(dataset, store, settings, how) for name, settings, how in variants}
    legs = [found["keyword leg"], found["vector leg"]]
    better = max(legs, key=lambda leg: leg.value(HEADLINE))
    compared = dataset.half or "report"
    lines = [
        f"\n### {dataset.name}\n\n",
        f"{len(dataset.judged)} questions, {len(scores(better, HEADLINE, compared))} of them "
        f"`{compared}`.\n\n",
        "| search | recall@2 | recall@5 | nDCG@10 | to the better leg "
        "| p50 ms without embedding |\n",
        "| --- | ---: | ---: | ---: | ---: | ---: |\n",
    ]
    for name, ranking in found.items():
        cells = [cell(ranking, metric, dataset.half) for metric in METRICS]
        own, other = (scores(each, HEADLINE, compared) for each in (ranking, better))
        cells.append("" if ranking in legs else compare(own, other).interval_text())
        lines.append(f"| {name} | {' | '.join(cells)} | {ranking.median_ms:.1f} |\n")
    return "".join(lines)


def cell(ranking: Ranking, metric: Metric, asked: Half | None) -> str:
    """The figure of all questions, with those of the halves if both were asked."""
    whole = f"{ranking.value(metric):.3f}"
    if asked:
        return whole
    parts = (mean(scores(ranking, metric, half).values()) for half in HALVES)
    return f"{whole} ({' / '.join(f'{part:.3f}' for part in parts)})"


def scores(ranking: Ranking, metric: Metric, half: Half) -> dict[str, float]:
    """The score of each question of one half."""
    own = ranking.scores[metric]
    return {question: score for question, score in own.items() if half_of(question) == half}


def measure(
    dataset: DataSet, store: str, settings: dict[str, object], how: dict[str, str]
) -> Ranking:
    """One variant over all questions of a set."""
    with open_library(store, settings=Settings.load(query_cache=0, **settings)) as library:
        return run(dataset, ranker(library, how), DEPTH, METRICS)


def ranker(library: Library, how: dict[str, str]) -> Ranker:
    """A ranker that searches in one way."""
    if how.get("graph") == "random walk":
        return lambda question, k: random_walk(library, question, k)
    return library_ranker(library, **how)


if __name__ == "__main__":
    main()

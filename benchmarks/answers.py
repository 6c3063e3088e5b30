"""What each step of answering is worth: exact match and token F1 of extractive answers.

python benchmarks/answers.py DATA [--store PACK] [--only NAME ...] [--every N] [--markdown FILE]

DATA is the folder of SQuAD 2.0 in BEIR's layout, with paragraphs as rows. They are put
together again: an article is one document. The questions are the answerable ones; what was
fitted (answering/span_weights.json and block_weights.json) and chosen saw those at even places
in the file only, so the odd ones are the report. What is chosen by the halves ``tune`` and
``report`` (the default calibration, the packing strengths) saw half of them, but not their short
answers. No language model is asked.

EM and F1 are of the best short answer, shown or not, with SQuAD's normalisation. `short` is
the share of questions for which it was sure enough to be shown, `right` the share of those
with an F1 of at least 0.5. `holds` is the share of questions for which the text shown holds a
gold answer, `context` the share for which the packed context does.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packwise.answering.answer import Answer
from packwise.documents import content_hash
from packwise.evaluation.cache import cached_store
from packwise.evaluation.data import DataSet, Question, load_dataset
from packwise.evaluation.metrics import mean, normalised
from packwise.library import Library, open_library
from packwise.settings import Settings, cache_folder


@dataclass(frozen=True)
class Variant:
    """One way to answer: what differs from the default."""

    name: str
    how: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


COLUMNS = ("EM even", "F1 even", "EM odd", "F1 odd", "holds", "context", "short", "right", "ms")
VARIANTS = (
    Variant("default"),
    Variant("vector leg alone", {"mode": "vector"}),
    Variant("keyword leg alone", {"mode": "keyword"}),
    Variant("reciprocal ranks", {"fusion": "rrf"}),
    Variant("no graph ranking", {"graph": False}),
    Variant("PageRank blend", {"graph": "pagerank"}),
    Variant("local expansion", {"expansion": "local"}),
    Variant("no documents step", {"documents": False}),
    Variant("1 article", {"max_results": 1}),
    Variant("10 articles", {"max_results": 10}),
    Variant("no quality filter", {}, {"packing_quality_threshold": 0.0}),
    Variant("packing: seed", {"policy": "seed"}),
    Variant("packing: baseline", {"policy": "baseline"}),
    Variant("budget 500", {"budget": 500}),
    Variant("words alone", {}, {"answer_judge": "words"}),
    Variant("cross-encoder", {"rerank": "crossencoder"}),
)


def main() -> None:
    """Measure the variants and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data")
    options.add_argument("--store", default=None, help="a pack of the articles, built before")
    options.add_argument("--only", action="append", default=[], help="this variant; repeatable")
    options.add_argument("--every", type=int, default=1, help="every n-th question of each half")
    options.add_argument("--markdown", default=None, help="write the table there as well")
    given = options.parse_args()
    dataset = load_dataset(given.data)
    store = given.store or str(cached_store(as_articles(dataset), Settings.load()))
    halves = {
        name: [q for q in dataset.questions[parity::2] if q.answerable and q.answers][
            :: given.every
        ]
        for parity, name in enumerate(("even", "odd"))
    }
    chosen = [v for v in VARIANTS if not given.only or v.name in given.only]
    lines = [
        f"| variant | {' | '.join(COLUMNS)} |\n",
        f"| --- |{' ---: |' * len(COLUMNS)}\n",
    ]
    sys.stdout.writelines(lines)
    for variant in chosen:
        line = row(variant, store, halves)
        lines.append(line)
        sys.stdout.write(line)
        sys.stdout.flush()
    sys.stdout.write(f"{len(halves['even'])} even and {len(halves['odd'])} odd questions\n")
    if given.markdown:
        Path(given.markdown).write_text("".join(lines), encoding="utf-8")


def as_articles(dataset: DataSet) -> DataSet:
    """The data set with its corpus as articles: paragraphs of one title joined in order."""
    assert dataset.corpus is not None
    opened: Callable[..., Any] = gzip.open if dataset.corpus.suffix == ".gz" else open
    articles: dict[str, list[str]] = {}
    with opened(dataset.corpus, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            articles.setdefault(record["title"], []).append(record["text"])
    rows = [
        json.dumps({"_id": title, "title": title, "text": "\n\n".join(paragraphs)})
        for title, paragraphs in articles.items()
    ]
    folder = cache_folder() / "eval" / f"articles-{content_hash(*rows)}"
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "corpus.jsonl"
    corpus.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return replace(dataset, name=f"{dataset.name}-articles", folder=folder, corpus=corpus)


def row(variant: Variant, store: str, halves: dict[str, list[Question]]) -> str:
    """One line of the table."""
    settings = Settings.load(**variant.settings)
    scores: dict[str, list[Scored]] = {}
    started = time.perf_counter()
    with open_library(store, settings=settings) as library:
        for half, questions in halves.items():
            scores[half] = [measure(library, question, variant.how) for question in questions]
    took = (time.perf_counter() - started) / max(1, sum(map(len, halves.values())))
    cells = [mean([s.em for s in scores["even"]]), mean([s.f1 for s in scores["even"]])]
    for name in ("em", "f1", "holds", "context"):
        cells.append(mean([getattr(s, name) for s in scores["odd"]]))
    shorts = [s for s in scores["odd"] if s.shown]
    cells += [len(shorts) / max(1, len(scores["odd"])), mean([float(s.f1 >= 0.5) for s in shorts])]
    shown = " | ".join(f"{100 * cell:.1f}" for cell in cells)
    return f"| {variant.name} | {shown} | {1000 * took:.0f} |\n"


@dataclass(frozen=True)
class Scored:
    """How good the answer to one question is."""

    em: float
    f1: float
    holds: float
    context: float
    shown: bool


def measure(library: Library, question: Question, how: dict[str, Any]) -> Scored:
    """Ask, and compare with the gold answers."""
    answer = library.ask(question.text, synthesis=False, threshold=0.0, **how)
    said = best_short(answer)
    em = max(float(normalised(said) == normalised(gold)) for gold in question.answers)
    f1 = max(overlap(said, gold) for gold in question.answers)
    context = answer.context.text if answer.context else ""
    steps = answer.trace.stages if answer.trace else []
    shown = any(step.notes.get("short") for step in steps if step.name == "extract")
    holds = held(answer.text, question.answers)
    return Scored(em, f1, holds, held(context, question.answers), shown)


def best_short(answer: Answer) -> str:
    """The best few words, whether or not they were sure enough to be shown."""
    steps = answer.trace.stages if answer.trace else []
    return next((str(s.notes.get("best_short", "")) for s in steps if s.name == "extract"), "")


def held(text: str, golds: Sequence[str]) -> float:
    """Whether a text holds one of the answers, as whole words."""
    inside = f" {normalised(text)} "
    return float(any(f" {normalised(gold)} " in inside for gold in golds if normalised(gold)))


def overlap(said: str, gold: str) -> float:
    """Token F1 with SQuAD's normalisation."""
    ours, theirs = normalised(said).split(), normalised(gold).split()
    same = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * same / (len(ours) + len(theirs)) if same else float(ours == theirs)


if __name__ == "__main__":
    main()

"""Each figure the specifications promise beside the one that is measured.

    python benchmarks/targets.py DATA [--limit 400] [--pack PACK]

DATA holds the data sets, one BEIR-style folder each. "Before" is the baseline variant: fixed
weights, nothing after fusion, four characters taken for a token. Prints a Markdown table; a
promise that is not kept says so. PACK is one of articles with short sections (`packwise bench
build ARTICLES --out PACK`): what the quality filter does shows there, on questions made from it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from packwise.context.quality import section_quality
from packwise.evaluation.cache import cached_store
from packwise.evaluation.compare import compare, p95_change
from packwise.evaluation.data import DataSet, Question, load_dataset
from packwise.evaluation.experiment import VariantResult, run_experiment
from packwise.evaluation.goldens import load_questions
from packwise.evaluation.metrics import Metric, fold_to_documents, gold_answers, holds, mean
from packwise.evaluation.questions import as_lines, make_goldens
from packwise.evaluation.variants import parse_variant
from packwise.library import Library, open_library
from packwise.retrieval.expansion import feedback_terms, hit_terms
from packwise.retrieval.pipeline import Ranking
from packwise.settings import Settings
from packwise.stores.locate import open_store

BUDGETS = (250, 500, 1000, 2000, 8000)
TIGHT = (250, 500)
MEASUREMENT = re.compile(r"\bhow (?:long|many|much|far|old|tall|often)\b|\bwhen\b", re.IGNORECASE)
RECALL_5 = Metric("recall", 5)
STUBBY = ("hotpotqa-100", "musique-100")
NOISE = "context_noise@8000"


Pair = tuple[VariantResult, VariantResult]


@dataclass(frozen=True)
class Row:
    """One promise."""

    target: str
    promised: str
    measured: str
    met: bool


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, default=400, help="questions of each set")
    parser.add_argument("--pack", help="a pack of articles with short sections")
    given = parser.parse_args()
    squad = side_by_side(load_dataset(given.data / "squad2"), given.limit)
    rows = [
        *recall_at_budget(squad),
        measurement_questions(given.data / "squad2"),
        *shares(squad),
        noise_over_all(squad),
        *(noise_by_filter(load_dataset(given.data / name)) for name in STUBBY),
        *([noise_of_pack(given.pack)] if given.pack else []),
        latency(squad),
        quality_cost(given.data / "squad2"),
        *multi_query(given.data, given.limit),
    ]
    write = sys.stdout.write
    write("| target | promised | measured | met |\n| --- | --- | --- | --- |\n")
    for row in rows:
        met = "yes" if row.met else "**no**"
        write(f"| {row.target} | {row.promised} | {row.measured} | {met} |\n")


def side_by_side(dataset: DataSet, limit: int) -> Pair:
    """Baseline and default side by side on the answerable questions of a set."""
    settings = Settings.load()
    answerable = tuple(q for q in dataset.questions if q.answerable)
    step = max(1, len(answerable) // limit)
    dataset = replace(dataset, questions=answerable[::step][:limit])
    store = str(cached_store(dataset, settings))
    return compared(dataset, store, ("baseline", "default"), settings, 1000, *BUDGETS)


def compared(
    dataset: DataSet, store: str, names: Sequence[str], settings: Settings, *budgets: int
) -> Pair:
    """Two variants, each question put to both."""
    variants = [parse_variant(name, settings) for name in names]
    found = run_experiment(
        dataset, store, variants, dataset.known, budgets=budgets, count_errors=True
    )
    old, new = found.results
    return old, new


def recall_at_budget(pair: Pair) -> list[Row]:
    """Answer recall within tight budgets."""
    old, new = pair
    rows: list[Row] = []
    for budget in TIGHT:
        metric = f"answer_recall@{budget}"
        d = compare(new.scores(metric), old.scores(metric))
        rows.append(
            Row(
                f"answer recall at {budget} tokens, squad2",
                "+10 to +20 points",
                f"{old.value(metric):.1%} to {new.value(metric):.1%}: {100 * d.mean:+.1f} points "
                f"[{100 * d.low:+.1f}, {100 * d.high:+.1f}]",
                d.mean >= 0.10,
            )
        )
    return rows


def measurement_questions(folder: Path) -> Row:
    """Whether "how long", "how many" and "when" find their answer in 8,000 tokens."""
    dataset = load_dataset(folder)
    asked = [q for q in dataset.questions if q.answerable and MEASUREMENT.search(q.text)]
    found = holding(dataset, asked, 8000)
    return Row(
        "answers of measurement questions at 8,000 tokens, squad2",
        "at least 95%",
        f"{found:.1%} of {len(asked)} questions",
        found >= 0.95,
    )


def holding(dataset: DataSet, questions: Sequence[Question], budget: int) -> float:
    """Share of questions whose context holds an answer."""
    settings = Settings.load(query_cache=0)
    with open_library(str(cached_store(dataset, settings)), settings=settings) as library:
        return mean(
            float(holds(library.context(q.text, budget).text, gold_answers(q))) for q in questions
        )


def shares(pair: Pair) -> list[Row]:
    """Garbage and redundancy."""
    old, new = pair
    rows: list[Row] = []
    for budget in (1000, 8000):
        metric = f"garbage_fraction@{budget}"
        change = new.value(metric) / old.value(metric) - 1
        rows.append(
            Row(
                f"garbage at {budget:,} tokens, squad2",
                "-30%",
                f"{old.value(metric):.1%} to {new.value(metric):.1%}: {change:+.0%}",
                change <= -0.30,
            )
        )
    highest = max(new.value(f"redundancy_ratio@{budget}") for budget in BUDGETS)
    rows.append(
        Row("redundancy, any budget, squad2", "at most 1.2", f"{highest:.2f}", highest <= 1.2)
    )
    return rows


def noise_over_all(pair: Pair) -> Row:
    """Pieces under twenty words, before and now. The default takes single sentences out of
    passages, and each of those that is short counts."""
    return noise_row("context noise at 8,000 tokens, before and now, squad2", *pair)


def noise_by_filter(dataset: DataSet) -> Row:
    """The same without and with the quality filter alone, whole passages packed."""
    settings = Settings.load()
    return noise_row(
        f"context noise by the quality filter, {dataset.name}",
        *filtered(dataset, str(cached_store(dataset, settings)), settings),
    )


def noise_of_pack(pack: str) -> Row:
    """The same on a pack of articles, asked questions that are made from it by rule."""
    with open_store(pack) as store, tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "made.jsonl"
        path.write_text(as_lines(make_goldens(store, 100)), encoding="utf-8")
        dataset = load_questions(path)
    return noise_row(
        f"context noise by the quality filter, {Path(pack).name}, synthetic questions",
        *filtered(dataset, pack, Settings.load()),
    )


def filtered(dataset: DataSet, store: str, settings: Settings) -> Pair:
    """The specification's packing without and with the quality filter."""
    return compared(dataset, store, ("seed,no-quality-filter", "seed"), settings, 8000)


def noise_row(target: str, old: VariantResult, new: VariantResult) -> Row:
    """Noise before and after; where there was hardly any, the relative change says little."""
    before, after = old.value(NOISE), new.value(NOISE)
    d = compare(new.scores(NOISE), old.scores(NOISE))
    change = f"{after / before - 1:+.0%}, " if before >= 0.001 else ""
    points = f"{100 * d.mean:+.1f} points [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"
    met = before > 0 and after / before - 1 <= -0.30 and d.high < 0
    return Row(target, "-30%", f"{before:.1%} to {after:.1%}: {change}{points}", met)


def latency(pair: Pair) -> Row:
    """p95 of search and packing."""
    old, new = pair
    change, low, high = p95_change(new.times(), old.times())
    return Row(
        "p95 of search and packing, squad2",
        "at most +15%",
        f"{old.latency.p95:.0f} to {new.latency.p95:.0f} ms: {change:+.0%} "
        f"[{low:+.0%}, {high:+.0%}]",
        change <= 0.15,
    )


def quality_cost(folder: Path) -> Row:
    """How long scoring one section takes."""
    dataset = load_dataset(folder)
    settings = Settings.load(query_cache=0)
    with open_library(str(cached_store(dataset, settings)), settings=settings) as library:
        question = dataset.questions[0].text
        texts = [hit.passage.text for hit in library.search(question, 100).hits]
    took: list[float] = []
    for text in texts:
        started = time.perf_counter()
        section_quality(text, question)
        took.append((time.perf_counter() - started) * 1000)
    return Row(
        "scoring a section's quality",
        "under 1 ms",
        f"{np.median(took):.3f} ms (p95 {np.percentile(took, 95):.3f})",
        float(np.percentile(took, 95)) < 1,
    )


def multi_query(data: Path, limit: int) -> list[Row]:
    """Other phrasings of a question: two that people wrote, or one from the store itself."""
    return [
        phrased(load_dataset(data / "stackfaq"), limit, "two human rephrasings", rephrasings),
        phrased(load_dataset(data / "scifact"), limit, "local expansion", feedback),
        phrased(load_dataset(data / "musique-100"), limit, "local expansion", feedback),
    ]


Phrasings = Callable[[Library, DataSet, Question, Ranking], tuple[str, ...]]


def rephrasings(
    library: Library, dataset: DataSet, question: Question, first: Ranking
) -> tuple[str, ...]:
    """Two others of the questions that people wrote for the same entry."""
    topic = question.id.rpartition("-")[0]
    others = (q.text for q in dataset.questions if q.id.rpartition("-")[0] == topic)
    return tuple(text for text in others if text != question.text)[:2]


def feedback(
    library: Library, dataset: DataSet, question: Question, first: Ranking
) -> tuple[str, ...]:
    """The question with terms of what it found."""
    known = library.store.term_statistics(hit_terms(first.hits))
    found = feedback_terms(question.text, first.hits, known)
    return (f"{question.text} {' '.join(found)}",) if found else ()


def phrased(dataset: DataSet, limit: int, what: str, others: Phrasings) -> Row:
    """Recall@5 of a question alone and with other phrasings of it."""
    step = max(1, len(dataset.judged) // limit)
    settings = Settings.load(query_cache=0)
    alone: list[float] = []
    joined: list[float] = []
    with open_library(str(cached_store(dataset, settings)), settings=settings) as library:
        for question in dataset.judged[::step][:limit]:
            first = library.search(question.text, 20)
            more = others(library, dataset, question, first)
            second = library.search(question.text, 20, alternatives=more) if more else first
            for found, scores in ((first, alone), (second, joined)):
                documents = fold_to_documents(hit.passage.document for hit in found.hits)
                scores.append(RECALL_5.score(documents, dataset.relevant[question.id]))
    before, after = mean(alone), mean(joined)
    change = after / before - 1
    room = f"; {1 / before - 1:+.1%} is the most there is" if before > 1 / 1.15 else ""
    return Row(
        f"recall@5 with {what}, {dataset.name}",
        "+15% to +25%",
        f"{before:.1%} to {after:.1%}: {change:+.1%}{room}",
        change >= 0.15,
    )


if __name__ == "__main__":
    main()

"""Writes docs/results.md: every figure we state, each with the command that prints it.

    python benchmarks/results.py DATA docs/results.md

DATA holds the data sets, one BEIR-style folder each, and a folder of Markdown articles.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from rankers import library_ranker, run
from ranking import SETS as RANKED

from packwise.evaluation.cache import cached_store
from packwise.evaluation.compare import compare
from packwise.evaluation.data import load_dataset
from packwise.evaluation.experiment import Experiment, run_experiment
from packwise.evaluation.metrics import HEADLINE
from packwise.evaluation.tables import (
    CONTEXT_COLUMNS,
    CONTEXT_DIFFERENCE_COLUMNS,
    context_difference_rows,
    context_rows,
    markdown_table,
)
from packwise.evaluation.variants import parse_variant
from packwise.library import open_library
from packwise.settings import Settings

SETS = ("scifact", "squad2", "hotpotqa-100", "musique-100", "cisi", "stackfaq")
READ = "scifact"
"""The set whose passages the cross-encoder reads."""
ARTICLES = "wikispeedia"

OPENING = """\
# Results

Each section names the command that prints its figures; `PACKWISE_DATA=folder make results` writes
this page again. The data sets are public and not part of this repository: SciFact, SQuAD 2.0
(paragraphs as documents), HotpotQA and MuSiQue (100 questions each), CISI, StackExchange FAQ.
Times were measured on two cores; compare them with one another rather than with other machines.

## Finding the right document

The vector leg is bge-small-en-v1.5 (int8), the keyword leg BM25 (k1 1.2, b 0.75).
`hybrid-weighted` is the default: weights that depend on the question, then graph ranking along
names. `hybrid-rrf` has the weights but no graph ranking. The section after the next shows the
effect of each. Published for SciFact, nDCG@10: BM25 .679 to .687, all-MiniLM-L6-v2 .645, BM25
with a MiniLM cross-encoder .688, reciprocal ranks of BM25 and bge-base .742.

"""

COMPLETION = """
## The effect of completion

Each leg returns 12 passages for a list of 10. Without completion, a passage that only one leg
returned has no score from the other. nDCG@10, `PACKWISE_COMPLETION=off` against `on`, made by
`make results`:

| data set | off | on | difference |
| --- | ---: | ---: | ---: |
"""

BUDGETS = (250, 500, 1000, 2000, 8000)
CONTEXT_SETS = ("squad2", "spans", "hotpotqa-100")

CONTEXTS = """
## What a context holds

`baseline` is the plain search (0.7 and 0.3, nothing after fusion) that counts four characters as
a token and cuts the last passage; `default` is what `packwise context` does. These are the
questions of the half `report`. The parameters of the default policy were first fitted on every
second question, some of these among them, and then compared with others on the half `tune` alone,
by `python benchmarks/evidence.py "$PACKWISE_DATA"`, which changed one of them.

Answer recall is the share of contexts that hold a gold answer, gold recall a relevant passage.
Garbage is the share of tokens in passages that are neither. Redundancy is 1 if nothing is
repeated. Noise is the share of pieces under 20 words. Times are those of whole calls.

"""

RANKING = """
## The effect of weights and graph ranking

Made by `python benchmarks/ranking.py "$PACKWISE_DATA"`, ten passages per question. Each figure is
that of all questions, followed in brackets by those of the half `tune`, on which settings are
chosen, and of the half `report`; the difference is that on `report`. Published for the full
multi-hop sets, recall@5 (HotpotQA / MuSiQue): BM25 72.2 / 41.2, ColBERTv2 79.3 / 49.2, HippoRAG
77.7 / 51.9, HippoRAG 2 96.3 / 74.7; ours are subsets of 100 questions. The last row of SciFact is
made with `--sets scifact --cross-encoder`, which reads 24 passages for each of 300 questions and
takes minutes.
"""

STRENGTHS = """
## How much graph ranking depends on its parameters

The parameters were chosen with these sets in view. `python benchmarks/strengths.py
"$PACKWISE_DATA" --only graph` sets each in turn to about half and twice its value. Figures are
those of the half `tune` / the half `report`, with at most 300 questions per set. The last two
columns are the mean difference over the sets, weighted equally, with its 95% interval. On `tune`
no other value is better beyond chance, so none was changed; half the bonus and twice `whole` are
worse. Measure on your own documents before you rely on these figures.

"""

ABLATIONS = """
## The effect of each stage

The default compared with the default without the stage (or with it, if it is off by default),
question by question, on the half `report`: what the stage changes, and the milliseconds it adds
to a context of 500 tokens. A star means that the 95% interval of the difference excludes zero.
Made by `packwise eval ablate "$PACKWISE_DATA"/NAME --half report --budget 500`, with the first
300 questions of each set.
"""
ABLATED = ("squad2", "hotpotqa-100")
ABLATION_METRICS = {
    "ndcg@10": "nDCG@10",
    "recall@5": "recall@5",
    "answer_recall@500": "answer recall",
    "garbage_fraction@500": "garbage",
}

TARGETS = """
## Targets of the specifications

Made by `python benchmarks/targets.py "$PACKWISE_DATA"`. Before is the variant `baseline`.

"""

CALIBRATION = """
## Knowing when not to answer

Made by `python benchmarks/calibration.py "$PACKWISE_DATA"`, on the half of the questions that the
default calibration was not fitted on. Near misses are SQuAD's unanswerable questions beside its
answerable ones; [calibration](calibration.md) explains the columns.

"""

SPEED = """
## Building and searching

Three hundred encyclopedia articles, built from Markdown, compared with the bare embedder on an even
sample of the same texts in the same run. Made by `packwise bench build
"$PACKWISE_DATA"/wikispeedia --limit 300 --out PACK` and `packwise bench search PACK`, which asks
{searches} questions made from the headings of the pack itself.

| what | figure |
| --- | ---: |
{rows}

| stage of a search, ms | p50 | p95 | p99 |
| --- | ---: | ---: | ---: |
{stages}
"""


def main(data: str, target: str) -> None:
    """Measure everything and write the page."""
    folders = [Path(data) / name for name in SETS]
    pages = [
        OPENING,
        retrieval(folders),
        completion(folders),
        RANKING + ranking(data),
        STRENGTHS + script("strengths.py", data, "--only", "graph"),
        contexts(Path(data)),
        ABLATIONS + "".join(ablation(Path(data) / name) for name in ABLATED),
        TARGETS + script("targets.py", data),
        CALIBRATION + script("calibration.py", data),
        speed(*measure(Path(data))),
    ]
    Path(target).write_text("".join(pages), encoding="utf-8")


def retrieval(folders: list[Path]) -> str:
    """The table of ``packwise eval table``."""
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "table.md"
        packwise("eval", "table", *map(str, folders), "--markdown", str(page))
        return page.read_text(encoding="utf-8")


def completion(folders: list[Path]) -> str:
    """The default search for ten passages, with and without completion."""
    rows: list[str] = []
    for folder in folders:
        dataset = load_dataset(folder)
        store = str(cached_store(dataset, Settings.load()))
        runs = []
        for switched_on in (False, True):
            settings = Settings.load(completion=switched_on)
            with open_library(store, settings=settings) as library:
                runs.append(run(dataset, library_ranker(library), 10, [HEADLINE]))
        off, on = runs
        found = compare(on.scores[HEADLINE], off.scores[HEADLINE])
        rows.append(
            f"| {dataset.name} | {off.value(HEADLINE):.3f} | {on.value(HEADLINE):.3f} "
            f"| {found.interval_text()} |\n"
        )
    return COMPLETION + "".join(rows)


def ranking(data: str) -> str:
    """What ``ranking.py`` prints; only one set is read by the cross-encoder, which is slow."""
    others = ",".join(name for name in RANKED if name != READ)
    return script("ranking.py", data, "--sets", others) + script(
        "ranking.py", data, "--sets", READ, "--cross-encoder"
    )


def contexts(data: Path) -> str:
    """The tables of ``packwise eval --budget``, of the half that is reported."""
    settings = Settings.load()
    found = []
    for name in CONTEXT_SETS:
        dataset = load_dataset(data / name, half="report")
        store = str(cached_store(dataset, settings))
        variants = [parse_variant(name, settings) for name in ("baseline", "default")]
        questions = [q for q in dataset.judged if q.answerable]
        found.append(run_experiment(dataset, store, variants, questions, budgets=BUDGETS))
    options = " ".join(f"--budget {budget}" for budget in BUDGETS)
    command = f'packwise eval "$PACKWISE_DATA"/NAME --half report {options}'
    return CONTEXTS + contexts_markdown(found, command)


def contexts_markdown(experiments: list[Experiment], command: str) -> str:
    """Every variant at every budget, and the default against the baseline."""
    return (
        f"Made by `{command}`.\n\n"
        + markdown_table(
            ["data set", *CONTEXT_COLUMNS],
            "lrl" + "r" * len(CONTEXT_COLUMNS[2:]),
            [[one.dataset.name, *row] for one in experiments for row in context_rows(one)],
        )
        + "\nThe default minus the baseline, question by question:\n\n"
        + markdown_table(
            ["data set", *CONTEXT_DIFFERENCE_COLUMNS],
            "l" + "r" * len(CONTEXT_DIFFERENCE_COLUMNS),
            [
                [one.dataset.name, *row]
                for one in experiments
                for row in context_difference_rows(one)
            ],
        )
    )


def ablation(folder: Path) -> str:
    """The figures of ``packwise eval ablate`` as Markdown."""
    command = ("eval", "ablate", str(folder), "--half", "report", "--budget", "500")
    found = json.loads(packwise(*command, "--limit", "300", "--json"))
    default = " | ".join(f"{found['default'][metric]:.3f}" for metric in ABLATION_METRICS)
    lines = [
        f"\n### {found['dataset']}, {found['questions']} questions\n\n",
        f"| stage | {' | '.join(ABLATION_METRICS.values())} | ms |\n",
        f"| --- |{' ---: |' * (len(ABLATION_METRICS) + 1)}\n",
        f"| *the default* | {default} |  |\n",
    ]
    for part in found["parts"]:
        cells = []
        for metric in ABLATION_METRICS:
            change = part["changes"][metric]
            cells.append(f"{change['difference']:+.3f}{'*' if change['clear'] else ''}")
        name = part["part"] + ("" if part["on_by_default"] else " (is off)")
        lines.append(f"| {name} | {' | '.join(cells)} | {part['ms']['median']:+.1f} |\n")
    return "".join(lines)


def measure(data: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of ``packwise bench build`` and ``packwise bench search``."""
    with tempfile.TemporaryDirectory() as scratch:
        articles = data / ARTICLES
        if not articles.is_dir():
            with tarfile.open(data / f"{ARTICLES}.tar.gz") as archive:
                archive.extractall(scratch, filter="data")
            articles = Path(scratch) / ARTICLES
        pack = str(Path(scratch) / "pack")
        command = ("bench", "build", str(articles), "--limit", "300", "--out", pack, "--json")
        built = json.loads(packwise(*command))
        return built, json.loads(packwise("bench", "search", pack, "--json"))


def speed(built: dict[str, Any], searched: dict[str, Any]) -> str:
    """Those figures as Markdown."""
    rows = [
        ("documents", f"{built['documents']:,}"),
        ("passages", f"{built['passages']:,}"),
        ("build, passages per second", f"{built['build_passages_per_second']:.1f}"),
        ("bare embedder, passages per second", f"{built['bare_embedder_passages_per_second']:.1f}"),
        ("build / bare embedder", f"{built['ratio']:.1%}"),
        ("of the build, spent embedding", f"{built['share_of_build_spent_embedding']:.1%}"),
        ("unchanged rebuild, seconds", f"{built['unchanged_rebuild_seconds']:.2f}"),
        ("peak memory, MB", f"{built['peak_memory_bytes'] / 1e6:.0f}"),
        ("size of the pack, MB", f"{built['pack_bytes'] / 1e6:.1f}"),
    ]
    stages = [
        f"| {name} | {ms['p50']:.2f} | {ms['p95']:.2f} | {ms['p99']:.2f} |"
        for name, ms in searched["latency_ms"].items()
    ]
    return SPEED.format(
        searches=searched["searches"],
        rows="\n".join(f"| {name} | {value} |" for name, value in rows),
        stages="\n".join(stages),
    )


def script(name: str, data: str, *options: str) -> str:
    """What a benchmark of this folder prints. Ends the program when it fails."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(name)), data, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{name} ended with {done.returncode}")
    return done.stdout


def packwise(*arguments: str) -> str:
    """What a command prints. Ends the program when the command fails."""
    done = subprocess.run(
        [sys.executable, "-m", "packwise", *arguments], stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        sys.exit(f"packwise {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/results.py DATA docs/results.md")
    os.environ["PACKWISE_DATA"] = sys.argv[1]
    main(sys.argv[1], sys.argv[2])

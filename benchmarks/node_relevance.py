"""Fits the probability that a node is relevant to its two scores, and checks its bands.

    python benchmarks/node_relevance.py DATA postgresql://... [--write]

DATA is that of ``benchmarks/nodes.py``. For each node type, the map is fitted on the half
``tune`` of the questions and reported on the half ``report``. A result counts if it is among the
20 that the adapter returns by default. With --write, the constants go to
``src/packwise/nodes/relevance.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.optimize import minimize

from nodes import examples_of, opened, rows_of
from packwise.evaluation.data import Half, half_of
from packwise.evaluation.judged_nodes import band_shares
from packwise.nodes.adapter import KnowledgeVerseAdapter, default_ranking
from packwise.nodes.importing import read_lines
from packwise.nodes.records import FIELD, QA_EXAMPLE, band

DEPTH = 20
BEND_AT = 0.9
"""Chosen on the half ``tune``: of bends at .8 and .9 and powers of the cosine, this has the best
likelihood for examples; for fields the bend comes out as 0."""
TARGET = Path(__file__).parents[1] / "src" / "packwise" / "nodes" / "relevance.json"


@dataclass(frozen=True, slots=True)
class Judged:
    """A result: the half of its question, its two scores, and whether it is relevant."""

    half: Half
    keyword: float
    vector: float
    relevant: bool


def judged_fields(adapter: KnowledgeVerseAdapter, folder: Path) -> Iterator[Judged]:
    """The columns found for each question, alone and with its evidence."""
    adapter.add_nodes([line.node for line in read_lines(folder / "nodes.jsonl")])
    for question in rows_of(folder / "questions.jsonl"):
        gold = set(question["fields"])
        alone = question["question"]
        for text in (alone, f"{alone} {question['evidence']}".strip()):
            for hit in adapter.hybrid_search(
                text, None, [question["tenant_id"]], FIELD, DEPTH, **default_ranking(FIELD)
            ):
                right = hit.node.node_key in gold
                yield Judged(half_of(question["id"]), hit.keyword, hit.vector or 0.0, right)


def judged_examples(adapter: KnowledgeVerseAdapter, folder: Path) -> Iterator[Judged]:
    """The examples found for each question that shares its template with another."""
    nodes, asked = examples_of(folder)
    adapter.add_nodes(nodes)
    for node in asked:
        template = node.metadata["template"]
        found = adapter.hybrid_search(
            node.title,
            None,
            [node.tenant_id],
            QA_EXAMPLE,
            DEPTH + 1,
            **default_ranking(QA_EXAMPLE),
        )
        for hit in [hit for hit in found if hit.node.node_key != node.node_key][:DEPTH]:
            right = hit.node.metadata["template"] == template
            yield Judged(half_of(template), hit.keyword, hit.vector or 0.0, right)


def features(rows: list[Judged]) -> np.ndarray:
    """A row for each result: 1, keyword, cosine, and the cosine above the bend."""
    scores = np.array([(row.keyword, row.vector) for row in rows])
    above = np.maximum(scores[:, 1] - BEND_AT, 0)
    return np.column_stack((np.ones(len(rows)), scores, above))


def fit(rows: list[Judged]) -> np.ndarray:
    """The weights of a logistic regression that never falls with a score."""
    x, y = features(rows), np.array([row.relevant for row in rows], float)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logit = x @ weights
        value = np.logaddexp(0, logit).sum() - y @ logit
        return float(value), x.T @ (1 / (1 + np.exp(-logit)) - y)

    bounds = [(None, None), (0, None), (0, None), (0, None)]
    found = minimize(loss, np.zeros(4), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.round(found.x, 4)


def report(title: str, rows: list[Judged]) -> np.ndarray:
    """Fit on one half and print the bands of the other."""
    weights = fit([row for row in rows if row.half == "tune"])
    unseen = [row for row in rows if row.half == "report"]
    probability = 1 / (1 + np.exp(-features(unseen) @ weights))
    scores = probability.tolist()
    judged = [(band(p), p, r.relevant) for p, r in zip(scores, unseen, strict=True)]
    click.echo(f"\n{title}: {len(rows) - len(unseen):,} results fitted, {len(unseen):,} reported\n")
    click.echo("| band | results | mean score | relevant |\n| --- | ---: | ---: | ---: |")
    for share in band_shares(judged):
        click.echo(
            f"| {share.band} | {share.nodes} | {share.mean_score:.3f} | {share.relevant:.3f} |"
        )
    return weights


def fitted_map(node_type: str, version: str, origin: str, weights: np.ndarray) -> dict[str, Any]:
    """One entry of the file of constants."""
    bias, keyword, vector, bend = weights.tolist()
    return {
        "node_type": node_type,
        "embedder_version": version,
        "bias": bias,
        "keyword": keyword,
        "vector": vector,
        "bend": bend,
        "bend_at": BEND_AT,
        "origin": f"benchmarks/node_relevance.py on {origin}, half tune",
    }


def main() -> None:
    """Measure, print, and write if asked to."""
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    data = Path(arguments[0])
    maps: list[dict[str, Any]] = []
    with opened(arguments[1]) as (adapter, version):
        for node_type, name, judged in (
            (FIELD, "bird", judged_fields),
            (QA_EXAMPLE, "sql-examples", judged_examples),
        ):
            weights = report(name, list(judged(adapter, data / name)))
            maps.append(fitted_map(node_type, version, name, weights))
    if "--write" in sys.argv:
        TARGET.write_text(f"{json.dumps(maps, indent=2)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

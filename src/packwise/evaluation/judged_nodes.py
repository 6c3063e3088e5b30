"""How well searches find the nodes that a file of judged queries names."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from packwise.errors import DataError, UsageError
from packwise.evaluation.data import read_json_lines
from packwise.evaluation.metrics import mean, mrr, precision, recall
from packwise.nodes.adapter import KnowledgeVerseAdapter, default_ranking

BANDS = ("high", "good", "partial", "low")


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query of a tenant, with the ids of the nodes that should be found."""

    query: str
    tenant_id: str
    relevant: tuple[str, ...]
    node_types: tuple[str, ...] = ()
    dataset_name: str | None = None


@dataclass(frozen=True, slots=True)
class BandShare:
    """Results of one band: how many, their mean score, and the share that is relevant."""

    band: str
    nodes: int
    mean_score: float
    relevant: float


@dataclass(frozen=True, slots=True)
class NodeEvaluation:
    """Means over all queries; latency and cache are those of the adapter's calls."""

    queries: int
    k: int
    metrics: dict[str, float]
    latency_ms: dict[str, float]
    cache_hit_rate: float
    bands: tuple[BandShare, ...]


def read_judged(path: Path) -> list[JudgedQuery]:
    """The queries of a file of JSON lines. Raises ``DataError`` with the number of a bad line."""
    queries = [_parse(where, row) for where, row in read_json_lines(path)]
    if not queries:
        raise DataError(f"{path.name} contains no queries", fix="write one query per line")
    return queries


def evaluate_nodes(adapter: KnowledgeVerseAdapter, path: Path, k: int = 10) -> NodeEvaluation:
    """Ask every query of a file with the adapter's ranking for its type, and judge the first
    ``k`` results."""
    if k < 1:
        raise UsageError(f"k must be 1 or more, not {k}")
    queries = read_judged(path)
    adapter.load()
    rows: list[tuple[float, float, float, float]] = []
    judged: list[tuple[str, float, bool]] = []
    for query in queries:
        grades = dict.fromkeys(query.relevant, 1)
        started = time.perf_counter()
        hits = adapter.hybrid_search(
            query.query,
            None,
            [query.tenant_id],
            query.node_types,
            k,
            dataset_names=query.dataset_name,
            **default_ranking(query.node_types),
        )
        took = 1000 * (time.perf_counter() - started)
        # Data sets may share an id: without one, the first node of that id is the one meant.
        found = list(dict.fromkeys(hit.node.node_key for hit in hits))
        scores = (mrr(found, grades, k), precision(found, grades, k), recall(found, grades, k))
        rows.append((*scores, took))
        judged += [(hit.band, hit.score, hit.node.node_key in grades) for hit in hits]
    first, right, share, latency = zip(*rows, strict=True)
    p50, p95, p99 = np.percentile(latency, (50, 95, 99)).tolist()
    return NodeEvaluation(
        queries=len(queries),
        k=k,
        metrics={
            f"mrr@{k}": mean(first),
            f"precision@{k}": mean(right),
            f"recall@{k}": mean(share),
        },
        latency_ms={"p50": p50, "p95": p95, "p99": p99},
        cache_hit_rate=adapter.metrics().cache_hit_rate,
        bands=band_shares(judged),
    )


def band_shares(judged: Sequence[tuple[str, float, bool]]) -> tuple[BandShare, ...]:
    """The share of relevant results by band, from the band, score and judgement of each."""
    found: list[BandShare] = []
    for band in BANDS:
        rows = [(score, right) for name, score, right in judged if name == band]
        if rows:
            scores, relevant = zip(*rows, strict=True)
            found.append(BandShare(band, len(rows), mean(scores), mean(map(float, relevant))))
    return tuple(found)


def _parse(where: str, row: Mapping[str, Any]) -> JudgedQuery:
    for name in ("query", "tenant_id"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise DataError(f"{where}: {name} is missing")
    relevant: Any = row.get("relevant")
    if not isinstance(relevant, list) or not relevant:
        raise DataError(f"{where}: relevant is not a list of ids")
    return JudgedQuery(
        row["query"],
        row["tenant_id"],
        tuple(str(name) for name in cast("list[Any]", relevant)),
        (str(row["node_type"]),) if row.get("node_type") else (),
        None if row.get("dataset_name") is None else str(row["dataset_name"]),
    )

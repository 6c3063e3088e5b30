"""Measures the retrieval of knowledge nodes: columns for questions, examples like a question.

    python benchmarks/nodes.py DATA postgresql://...

DATA holds ``bird`` (columns of databases as nodes, questions with the columns their SQL uses)
and ``sql-examples`` (questions with SQL; ``template`` names those that share one). The tables
are made in a schema of their own and dropped at the end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import numpy as np
import psycopg

from packwise.adapter import (
    EXAMPLE_WEIGHTS,
    FIELD_WEIGHTS,
    KnowledgeNode,
    KnowledgeVerseAdapter,
)
from packwise.models.embedder import load_embedder
from packwise.settings import Settings
from packwise.stores.postgres.importing import read_lines
from packwise.stores.postgres.nodes import init_nodes
from packwise.stores.postgres.nodes_schema import NodesSchema

SCHEMA = f"packwise_bench_{os.getpid()}"
DEPTH = 20
DEFAULT = "default"

Search = Callable[[str, Any, str], list[KnowledgeNode]]


def variants(
    adapter: KnowledgeVerseAdapter, node_type: str, weights: tuple[float, float]
) -> dict[str, Search]:
    """Every way to rank, by name; each takes the question's text, its vector, and the tenant.

    ``default`` is what the adapter's own call for that type does.
    """

    def hybrid(**options: Any) -> Search:
        def search(text: str, vector: Any, tenant: str) -> list[KnowledgeNode]:
            found = adapter.hybrid_search(text, vector, [tenant], node_type, DEPTH + 1, **options)
            return [hit.node for hit in found]

        return search

    def keyword(text: str, vector: Any, tenant: str) -> list[KnowledgeNode]:
        found = adapter.store.search(text, None, [tenant], k=DEPTH + 1, node_types=[node_type])
        return [hit.node for hit in found]

    def similar(text: str, vector: Any, tenant: str) -> list[KnowledgeNode]:
        found = adapter.get_similar_nodes(vector, tenant, DEPTH + 1, -1.0, node_types=node_type)
        return [hit.node for hit in found]

    return {
        "bm25": keyword,
        "vector": similar,
        "weighted .4/.6": hybrid(),
        "rrf .4/.6": hybrid(fusion="rrf"),
        DEFAULT: hybrid(bm25_weight=weights[0], vector_weight=weights[1]),
    }


def fields(adapter: KnowledgeVerseAdapter, folder: Path) -> None:
    """Recall of the columns a question's SQL uses."""
    adapter.add_nodes([line.node for line in read_lines(folder / "nodes.jsonl")])
    questions = _rows(folder / "questions.jsonl")
    for title, text in (
        ("question alone", lambda q: q["question"]),
        ("question with its evidence", lambda q: f"{q['question']} {q['evidence']}".strip()),
    ):
        texts = [text(question) for question in questions]
        vectors = [adapter.embed(t) for t in texts]
        scores: dict[str, np.ndarray] = {}
        for name, search in variants(adapter, "field", FIELD_WEIGHTS).items():
            recalls = []
            for question, asked, vector in zip(questions, texts, vectors, strict=True):
                found = [n.node_key for n in search(asked, vector, question["tenant_id"])]
                gold = set(question["fields"])
                recalls.append([len(gold & set(found[:k])) / len(gold) for k in (5, 10, 20)])
            scores[name] = np.array(recalls)
        _table(f"bird, {len(questions)} questions: {title}", ("@5", "@10", "@20"), scores, at=1)


def examples(adapter: KnowledgeVerseAdapter, folder: Path) -> None:
    """Whether the best other example has the template of the question."""
    rows = _rows(folder / "examples.jsonl")
    nodes = [
        KnowledgeNode(
            tenant_id=f"examples-{row['tenant_id']}",
            dataset_name=row["tenant_id"],
            node_type="qa_example",
            title=row["question"],
            node_key=str(i),
            metadata={"sql": row["sql"], "template": row["template"]},
        )
        for i, row in enumerate(rows)
    ]
    adapter.add_nodes(nodes)
    count: dict[str, int] = {}
    for row in rows:
        count[row["template"]] = count.get(row["template"], 0) + 1
    asked = [node for node in nodes if count[node.metadata["template"]] > 1]
    scores: dict[str, np.ndarray] = {}
    for name, search in variants(adapter, "qa_example", EXAMPLE_WEIGHTS).items():
        hits = []
        for node in asked:
            found = search(node.title, adapter.embed(node.title), node.tenant_id)
            others = [other for other in found if other.node_key != node.node_key]
            same = [o.metadata["template"] == node.metadata["template"] for o in others]
            hits.append([float(any(same[:k])) for k in (1, 5)])
        scores[name] = np.array(hits)
    title = f"sql-examples, {len(asked)} questions, each left out of its own search"
    _table(title, ("hit@1", "hit@5"), scores, at=0)


def _table(title: str, columns: Sequence[str], scores: dict[str, np.ndarray], at: int) -> None:
    """The means, and how far each is from the default, with a 95% bootstrap interval."""
    rng = np.random.default_rng(0)
    click.echo(f"\n{title}\n")
    click.echo("| ranking | " + " | ".join(columns) + f" | {columns[at]} against the default |")
    click.echo("| --- |" + " ---: |" * (len(columns) + 1))
    base = scores[DEFAULT][:, at]
    for name, values in scores.items():
        difference = values[:, at] - base
        drawn = rng.integers(0, len(difference), size=(2000, len(difference)))
        low, high = np.percentile(difference[drawn].mean(axis=1), (2.5, 97.5))
        against = "" if name == DEFAULT else f"{difference.mean():+.3f} ({low:+.3f} {high:+.3f})"
        means = " | ".join(f"{mean:.3f}" for mean in values.mean(axis=0))
        click.echo(f"| {name} | {means} | {against} |")


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main() -> None:
    """Measure and print."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data, url = Path(sys.argv[1]), sys.argv[2]
    joined = "&" if "?" in url else "?"
    own = f"{url}{joined}options={quote(f'-csearch_path={SCHEMA}')}"
    settings = Settings.load()
    embedder = load_embedder(settings.embedder, settings)
    try:
        init_nodes(own, NodesSchema(embedder.dim))
        with KnowledgeVerseAdapter(own, embedder=embedder, settings=settings) as adapter:
            fields(adapter, data / "bird")
            examples(adapter, data / "sql-examples")
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


if __name__ == "__main__":
    main()

"""Measures the retrieval of knowledge nodes: columns for questions, examples like a question.

    python benchmarks/nodes.py DATA postgresql://...

DATA holds ``bird`` (columns of databases as nodes, questions with the columns their SQL uses)
and ``sql-examples`` (questions with SQL; ``template`` names those that share one). The tables
are created in a schema of their own and dropped at the end. Prints Markdown.

Weights are tried on the half ``tune`` and reported on the half ``report``. Examples of one
template are in the same half: they are nearly the same question.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import numpy as np
import psycopg

from packwise.candidates import FUSIONS, Fusion
from packwise.evaluation.compare import bootstrap_interval
from packwise.evaluation.data import Half, half_of
from packwise.models.embedder import load_embedder
from packwise.models.tokens import token_counter
from packwise.nodes.adapter import KnowledgeVerseAdapter, default_ranking
from packwise.nodes.importing import read_lines
from packwise.nodes.records import FIELD, QA_EXAMPLE, FieldSpec, KnowledgeNode
from packwise.nodes.schema import NodesSchema, init_nodes
from packwise.nodes.schema_context import pack_schema
from packwise.nodes.store import MAX_RESULTS
from packwise.settings import Settings

SCHEMA = f"packwise_bench_{os.getpid()}"
DEPTH = 20
DEFAULT = "the adapter's own call"
SEEDED = (0.4, 0.6)
KEYWORD_WEIGHTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)

Weights = tuple[float, float]
Search = Callable[[str, Any, str], list[KnowledgeNode]]
Measured = Callable[[Search, Half], np.ndarray]
"""A row for each question of the half, a column for each figure."""


class Ways:
    """The ways to rank nodes of one type; each takes the text of a question, its vector and a
    tenant."""

    def __init__(self, adapter: KnowledgeVerseAdapter, node_type: str) -> None:
        self._adapter = adapter
        self._type = node_type

    def keyword(self, text: str, vector: Any, tenant: str) -> list[KnowledgeNode]:
        found = self._adapter.store.search(
            text, None, [tenant], k=DEPTH + 1, node_types=[self._type]
        )
        return [hit.node for hit in found]

    def vector(self, text: str, vector: Any, tenant: str) -> list[KnowledgeNode]:
        found = self._adapter.get_similar_nodes(
            vector, tenant, DEPTH + 1, -1.0, node_types=self._type
        )
        return [hit.node for hit in found]

    def default(self) -> Search:
        """The adapter's own ranking for nodes of this type."""
        ranking = default_ranking(self._type)
        weights = ranking["bm25_weight"], ranking["vector_weight"]
        return self.hybrid(weights, ranking["fusion"])

    def hybrid(self, weights: Weights, fusion: Fusion = "weighted") -> Search:
        def search(text: str, vector: Any, tenant: str) -> list[KnowledgeNode]:
            found = self._adapter.hybrid_search(
                text, vector, [tenant], self._type, DEPTH + 1, *weights, fusion=fusion
            )
            return [hit.node for hit in found]

        return search

    def tried(self) -> dict[str, Search]:
        """The rankings that the default is chosen from."""
        weights = [(k, round(1.0 - k, 6)) for k in KEYWORD_WEIGHTS]
        return {
            f"{fusion} {keyword:g}/{vector:g}": self.hybrid((keyword, vector), fusion)
            for fusion in FUSIONS
            for keyword, vector in weights
        }

    def reported(self) -> dict[str, Search]:
        """The rankings that are compared with the default."""
        return {
            "BM25": self.keyword,
            "vectors": self.vector,
            "weighted .4/.6": self.hybrid(SEEDED),
            "weighted .6/.4": self.hybrid((0.6, 0.4)),
            "reciprocal ranks .4/.6": self.hybrid(SEEDED, "rrf"),
            DEFAULT: self.default(),
        }


def fields(adapter: KnowledgeVerseAdapter, folder: Path) -> None:
    """Recall of the columns a question's SQL uses."""
    adapter.add_nodes([line.node for line in read_lines(folder / "nodes.jsonl")])
    questions = rows_of(folder / "questions.jsonl")
    vectors: dict[str, Any] = {}

    def measured(search: Search, half: Half) -> np.ndarray:
        rows = []
        for question in (q for q in questions if half_of(q["id"]) == half):
            gold = set(question["fields"])
            row: list[float] = []
            alone = question["question"]
            for text in (alone, f"{alone} {question['evidence']}".strip()):
                if text not in vectors:
                    vectors[text] = adapter.embed(text)
                nodes = search(text, vectors[text], question["tenant_id"])
                found = [node.node_key for node in nodes]
                row += [len(gold & set(found[:k])) / len(gold) for k in (5, 10, 20)]
            rows.append([*row, (row[1] + row[4]) / 2])
        return np.array(rows)

    columns = ("@5", "@10", "@20", "with the evidence @5", "@10", "@20", "both @10")
    _report("bird", columns, measured, Ways(adapter, FIELD), at=6)
    schemas(adapter, questions[::5])


def schemas(adapter: KnowledgeVerseAdapter, questions: list[dict[str, Any]]) -> None:
    """Whether the text for a prompt holds every table and column of a question's SQL. The
    packing has no constants that were fitted to these questions."""
    ranked: list[tuple[dict[str, Any], list[FieldSpec], dict[tuple[str, str], str]]] = []
    for question in questions:
        hits = adapter.hybrid_search(
            question["question"],
            None,
            [question["tenant_id"]],
            FIELD,
            MAX_RESULTS,
            **default_ranking(FIELD),
        )
        specs = [FieldSpec.from_node(hit.node) for hit in hits]
        names = {(f.table, f.field_name): h.node.node_key for f, h in zip(specs, hits, strict=True)}
        ranked.append((question, specs, names))
    schema_table(ranked)


def schema_table(
    ranked: Sequence[tuple[dict[str, Any], list[FieldSpec], dict[tuple[str, str], str]]],
) -> None:
    """Print the share of questions whose columns are all in the text, by budget."""
    count = token_counter().count
    whole: dict[str, int] = {}
    click.echo(f"\nschemas: {len(ranked)} questions\n")
    click.echo(
        "| budget | all columns in the text | all tables | tokens used | whole schema fits |"
    )
    click.echo("| ---: | ---: | ---: | ---: | ---: |")
    for budget in (250, 500, 1000, 2000):
        rows: list[tuple[float, float, float, float]] = []
        for question, specs, names in ranked:
            tenant = question["tenant_id"]
            if tenant not in whole:
                whole[tenant] = pack_schema("", specs, 10**6, count).tokens
            context = pack_schema(question["question"], specs, budget, count)
            kept = {names[field.table, field.field_name] for field in context.fields}
            gold = set(question["fields"])
            tables = {key.rpartition("|")[0] for key in gold}
            found = {key.rpartition("|")[0] for key in kept}
            fits = whole[tenant] <= budget
            rows.append((gold <= kept, tables <= found, context.tokens, fits))
        right, tables_right, used, fits = np.array(rows, float).mean(axis=0)
        click.echo(f"| {budget} | {right:.3f} | {tables_right:.3f} | {used:.0f} | {fits:.3f} |")
    sizes = ", ".join(f"{name} {tokens}" for name, tokens in sorted(whole.items()))
    click.echo(f"\nTokens of the whole schema with every description: {sizes}.")


def examples_of(folder: Path) -> tuple[list[KnowledgeNode], list[KnowledgeNode]]:
    """The examples as nodes, and those of them that share their template with another."""
    rows = rows_of(folder / "examples.jsonl")
    nodes = [
        KnowledgeNode(
            tenant_id=f"examples-{row['tenant_id']}",
            dataset_name=row["tenant_id"],
            node_type=QA_EXAMPLE,
            title=row["question"],
            node_key=str(i),
            metadata={"sql": row["sql"], "template": row["template"]},
        )
        for i, row in enumerate(rows)
    ]
    count = Counter(row["template"] for row in rows)
    return nodes, [node for node in nodes if count[node.metadata["template"]] > 1]


def examples(adapter: KnowledgeVerseAdapter, folder: Path) -> None:
    """Whether the best other example has the template of the question."""
    nodes, asked = examples_of(folder)
    adapter.add_nodes(nodes)
    vectors = {node.title: adapter.embed(node.title) for node in asked}

    def measured(search: Search, half: Half) -> np.ndarray:
        hits = []
        for node in (n for n in asked if half_of(n.metadata["template"]) == half):
            found = search(node.title, vectors[node.title], node.tenant_id)
            others = [other for other in found if other.node_key != node.node_key]
            same = [o.metadata["template"] == node.metadata["template"] for o in others]
            hits.append([float(any(same[:k])) for k in (1, 5)])
        return np.array(hits)

    title = "sql-examples, each question left out of its own search"
    _report(title, ("hit@1", "hit@5"), measured, Ways(adapter, QA_EXAMPLE), at=0)


def _report(
    title: str,
    columns: Sequence[str],
    measured: Measured,
    ways: Ways,
    at: int,
) -> None:
    """The rankings tried on one half, and the figures on the other half."""
    halves: tuple[tuple[Half, dict[str, Search]], ...] = (
        ("tune", {**ways.tried(), DEFAULT: ways.default()}),
        ("report", ways.reported()),
    )
    for half, searches in halves:
        scores = {name: measured(search, half) for name, search in searches.items()}
        number = len(scores[DEFAULT])
        click.echo(f"\n{title}: half `{half}`, {number} questions\n")
        _table(columns, scores, at)
        best = max(scores, key=lambda name: float(scores[name][:, at].mean()))
        click.echo(f"\nBest by {columns[at]}: {best}.")


def _table(columns: Sequence[str], scores: dict[str, np.ndarray], at: int) -> None:
    """The means, and how far each is from the default, with a 95% bootstrap interval."""
    click.echo("| ranking | " + " | ".join(columns) + f" | {columns[at]} against the default |")
    click.echo("| --- |" + " ---: |" * (len(columns) + 1))
    base = scores[DEFAULT][:, at]
    for name, values in scores.items():
        difference = values[:, at] - base
        low, high = bootstrap_interval(difference)
        against = "" if name == DEFAULT else f"{difference.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        means = " | ".join(f"{mean:.3f}" for mean in values.mean(axis=0))
        click.echo(f"| {name} | {means} | {against} |")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@contextmanager
def opened(url: str) -> Generator[tuple[KnowledgeVerseAdapter, str]]:
    """An adapter to a schema that is dropped at the end, and the embedder's version."""
    joined = "&" if "?" in url else "?"
    own = f"{url}{joined}options={quote(f'-csearch_path={SCHEMA}')}"
    settings = Settings.load()
    embedder = load_embedder(settings.embedder, settings)
    try:
        init_nodes(own, NodesSchema(embedder.dim))
        with KnowledgeVerseAdapter(own, embedder=embedder, settings=settings) as adapter:
            yield adapter, embedder.version
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def main() -> None:
    """Measure and print."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data = Path(sys.argv[1])
    with opened(sys.argv[2]) as (adapter, _):
        fields(adapter, data / "bird")
        examples(adapter, data / "sql-examples")


if __name__ == "__main__":
    main()

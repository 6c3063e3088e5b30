"""Measures knowledge nodes in PostgreSQL at size: latency, and recall by the size of a tenant.

    python benchmarks/postgres.py postgresql://... [NODES [SCHEMA]]

Creates NODES nodes (200,000) of four tenants, which have 0.1%, 1%, 10% and the rest of them, with
clustered vectors of 384 dimensions and texts whose words follow Zipf's law. The tables are created
in a schema of their own and dropped at the end; with SCHEMA they stay there for the next run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from urllib.parse import quote

import click
import numpy as np
import psycopg

from packwise.nodes.schema import NodesSchema, init_nodes, rebuild_vector_index
from packwise.nodes.store import NodeStore

SCHEMA = sys.argv[3] if len(sys.argv) == 4 else f"packwise_bench_{os.getpid()}"
DIM = 384
CENTRES = 1000
VOCABULARY = 30_000
WORDS = 24
QUESTIONS = 20
TOP = 20
BATCH = 10_000


class World:
    """Nodes and queries, generated from one seed."""

    def __init__(self, nodes: int) -> None:
        self.rng = np.random.default_rng(11)
        self.nodes = nodes
        self.centres = self.rng.normal(size=(CENTRES, DIM)).astype(np.float32)
        rank = np.arange(1, VOCABULARY + 1)
        self.weights = (1 / rank) / (1 / rank).sum()
        shares = {"0.1%": nodes // 1000, "1%": nodes // 100, "10%": nodes // 10}
        self.tenants = [name for name, count in shares.items() for _ in range(count)]
        self.tenants += ["rest"] * (nodes - len(self.tenants))
        self.rng.shuffle(self.tenants)

    def vectors(self, count: int) -> np.ndarray:
        near = self.centres[self.rng.integers(0, CENTRES, count)]
        noise = self.rng.normal(size=(count, DIM)).astype(np.float32)
        vectors = near + noise
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def texts(self, count: int, words: int) -> list[str]:
        drawn = self.rng.choice(VOCABULARY, (count, words), p=self.weights)
        return [" ".join(f"w{i}x" for i in row) for row in drawn.tolist()]


def load(url: str, world: World) -> None:
    """Write the nodes with COPY, then build the vector index."""
    started = time.perf_counter()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public")
        connection.execute("DROP INDEX idx_knowledge_nodes_embedding")
        for at in range(0, world.nodes, BATCH):
            count = min(BATCH, world.nodes - at)
            vectors, texts = world.vectors(count), world.texts(count, WORDS)
            copy = "COPY knowledge_nodes (tenant_id, node_type, title, embedding) FROM STDIN"
            with connection.cursor().copy(copy) as rows:
                for i in range(count):
                    vector = f"[{','.join(map(str, vectors[i].tolist()))}]"
                    rows.write_row((world.tenants[at + i], "field", texts[i], vector))
    loaded = time.perf_counter()
    rebuild_vector_index(url)
    click.echo(
        f"{world.nodes:,} nodes: loaded in {loaded - started:.0f} s,"
        f" vector index in {time.perf_counter() - loaded:.0f} s"
    )


def timed(call: Callable[[], object]) -> float:
    """Milliseconds a call takes."""
    started = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - started)


def measure(store: NodeStore, world: World) -> None:
    """Print the tables."""
    questions = list(zip(world.texts(QUESTIONS, 6), world.vectors(QUESTIONS), strict=True))
    tenants = {"0.1%": ["0.1%"], "1%": ["1%"], "10%": ["10%"], "89%": ["rest"]}
    tenants["all"] = ["0.1%", "1%", "10%", "rest"]
    click.echo(f"\nranking: {store.settings()['ranking']}, {QUESTIONS} questions, top {TOP}\n")
    click.echo(
        "| nodes searched | hybrid p50 | p95 | keyword leg p50 | vector leg p50 | both legs p50"
        " | with an exact scan p50 | recall@20 |"
    )
    click.echo("| --- |" + " ---: |" * 7)
    for name, whose in tenants.items():
        rows: list[list[float]] = []
        recalls: list[float] = []
        for text, vector in questions:
            near = store.search("", vector, whose, k=TOP)
            best = store.search("", vector, whose, k=TOP, exact=True)
            same = {h.node.node_id for h in near} & {h.node.node_id for h in best}
            recalls.append(len(same) / len(best))
            keyword = timed(lambda t=text, w=whose: store.search(t, None, w, k=TOP))
            similar = timed(lambda v=vector, w=whose: store.search("", v, w, k=TOP))
            hybrid = timed(lambda t=text, v=vector, w=whose: store.search(t, v, w, k=TOP))
            exact = timed(
                lambda t=text, v=vector, w=whose: store.search(t, v, w, k=TOP, exact=True)
            )
            rows.append([hybrid, keyword, similar, keyword + similar, exact])
        hybrid, keyword, similar, both, exact = np.array(rows).T
        p50 = [np.median(values) for values in (keyword, similar, both, exact)]
        click.echo(
            f"| {name} | {np.median(hybrid):.1f} ms | {np.percentile(hybrid, 95):.1f} ms | "
            + " | ".join(f"{value:.1f} ms" for value in p50)
            + f" | {np.mean(recalls):.3f} |"
        )


def main() -> None:
    """Load, measure, clean up."""
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    url = sys.argv[1]
    joined = "&" if "?" in url else "?"
    own = f"{url}{joined}options={quote(f'-csearch_path={SCHEMA}')}"
    world = World(int(sys.argv[2]) if len(sys.argv) > 2 else 200_000)
    try:
        if init_nodes(own, NodesSchema(DIM)):
            load(own, world)
        store = NodeStore(own)
        measure(store, world)
        store.close()
    finally:
        if len(sys.argv) < 4:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


if __name__ == "__main__":
    main()

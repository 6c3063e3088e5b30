"""``packwise db stats|eval``: how large the nodes are, and how well they are found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from packwise.cli.console import embedder_option, json_option, print_json, print_table, size


@click.command()
@click.argument("store")
@click.option("--tenant", "tenants", multiple=True, metavar="ID", help="Count this tenant's nodes.")
@json_option
def stats(store: str, tenants: tuple[str, ...], as_json: bool) -> None:
    """Show the size of the nodes and their indexes, and how fast they grow.

    Growth is measured between two runs of this command by the owner of the tables.
    """
    from packwise.nodes.sizes import measure_sizes
    from packwise.nodes.store import NodeStore

    sizes = measure_sizes(store)
    with NodeStore(store) as nodes:
        groups = nodes.groups(tenants) if tenants else []
    if as_json:
        print_json({**asdict(sizes), "groups": [asdict(group) for group in groups]})
        return
    rows = [("nodes (estimate)", f"{sizes.nodes:,}"), ("tables", size(sizes.table_bytes))]
    rows.append(("indexes", size(sum(sizes.index_bytes.values()))))
    rows += [(f"  {name}", size(count)) for name, count in sizes.index_bytes.items()]
    if sizes.bytes_per_day is not None:
        rows.append((f"growth a day since {sizes.since}", size(sizes.bytes_per_day)))
    print_table("size", ("what", ">size"), rows)
    if groups:
        lines = [
            (g.tenant_id, g.dataset_name, g.node_type, f"{g.nodes:,}", f"{g.vectors:,}")
            for g in groups
        ]
        columns = ("tenant", "data set", "type", ">nodes", ">with a vector")
        print_table("nodes", columns, lines)


@click.command("eval")
@click.argument("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-k", default=10, show_default=True, help="Number of results to judge.")
@embedder_option
@json_option
def evaluate(store: str, file: Path, k: int, embedder: str | None, as_json: bool) -> None:
    """Measure searches against the judged queries of FILE.

    A line of FILE is a JSON object: query, tenant_id, relevant (the ids of the nodes that should
    be found), and if wanted node_type and dataset_name. Reports the mean reciprocal rank,
    precision, recall and latency, and how many results of each band are relevant.
    """
    from packwise.evaluation.judged_nodes import evaluate_nodes
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.settings import Settings

    with KnowledgeVerseAdapter(store, settings=Settings.load(embedder=embedder)) as adapter:
        report = evaluate_nodes(adapter, file, k)
    if as_json:
        print_json(asdict(report))
        return
    rows = [(name, f"{value:.3f}") for name, value in report.metrics.items()]
    rows += [(name, f"{value:.1f} ms") for name, value in report.latency_ms.items()]
    rows.append(("cache hit rate", f"{report.cache_hit_rate:.3f}"))
    print_table(f"{report.queries:,} queries", ("what", ">value"), rows)
    bands = [
        (band.band, f"{band.nodes:,}", f"{band.mean_score:.2f}", f"{band.relevant:.2f}")
        for band in report.bands
    ]
    columns = ("band", ">results", ">mean score", ">share relevant")
    print_table("results by band", columns, bands)

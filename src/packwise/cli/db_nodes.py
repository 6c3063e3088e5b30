"""``packwise db list|get|delete|search|fields|examples|schema``: nodes, by filter and by query."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from packwise.candidates import FUSIONS, Fusion
from packwise.cli.console import (
    clean,
    counted,
    embedder_option,
    json_option,
    note,
    number,
    out,
    print_json,
    print_table,
    text_argument,
)
from packwise.errors import StoreMissing, UsageError

if TYPE_CHECKING:
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.nodes.records import FoundNode, KnowledgeNode

_option = partial(click.option, show_default=True)
_many = partial(click.option, multiple=True)
_tenant = partial(click.option, "--tenant", required=True, metavar="ID", help="The tenant.")
_datasets = partial(_many, "--dataset", metavar="NAME", help="Only nodes of this data set.")
_tenant_option = _tenant()
_types_option = _many("--type", "types", metavar="NAME", help="Only nodes of this type.")
_datasets_option = _datasets("datasets")
# Named as the methods of the adapter take them.
_tenant_of_adapter, _datasets_of_adapter = _tenant("tenant_id"), _datasets("dataset_name")
_least_option = _option("--min-score", default=0.0, help="Leave out results below this score.")


@click.command("list")
@click.argument("store")
@_tenant_option
@_types_option
@_datasets_option
@_option("--limit", default=50, help="Number of nodes.")
@_option("--offset", default=0, help="Nodes to skip.")
@json_option
def list_(
    store: str,
    tenant: str,
    types: tuple[str, ...],
    datasets: tuple[str, ...],
    limit: int,
    offset: int,
    as_json: bool,
) -> None:
    """List a tenant's nodes, by id."""
    from packwise.nodes.store import NodeStore

    with NodeStore(store) as nodes:
        total = nodes.count([tenant], node_types=types, datasets=datasets)
        found = nodes.get([tenant], node_types=types, datasets=datasets, limit=limit, offset=offset)
    if as_json:
        print_json({"total": total, "offset": offset, "nodes": [asdict(node) for node in found]})
        return
    rows = [(str(n.node_id), n.node_key, n.node_type, n.dataset_name, n.title) for n in found]
    title = f"{len(found):,} of {total:,} nodes"
    _show_rows(title, (">node_id", "id", "type", "data set", "title"), rows)


@click.command()
@click.argument("store")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_tenant_option
@_datasets_option
@json_option
def get(
    store: str, ids: tuple[str, ...], tenant: str, datasets: tuple[str, ...], as_json: bool
) -> None:
    """Show nodes of a tenant by their ids, as they were imported."""
    from packwise.nodes.store import NodeStore

    with NodeStore(store) as nodes:
        found = nodes.get([tenant], datasets=datasets, keys=ids)
    _check_found(tenant, ids, found)
    if as_json:
        print_json({"nodes": [asdict(node) for node in found]})
        return
    for node in found:
        values = {n: v for n, v in asdict(node).items() if v}
        if "metadata" in values:
            values["metadata"] = json.dumps(values["metadata"], ensure_ascii=False, indent=1)
        rows = [(name, str(value)) for name, value in values.items()]
        print_table(node.title or node.node_key, ("field", "value"), rows, header=False)


@click.command()
@click.argument("store")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@_tenant_option
@_types_option
@_datasets_option
@click.option("--all", "every", is_flag=True, help="All nodes that pass the filters, without ids.")
@json_option
def delete(
    store: str,
    ids: tuple[str, ...],
    tenant: str,
    types: tuple[str, ...],
    datasets: tuple[str, ...],
    every: bool,
    as_json: bool,
) -> None:
    """Remove nodes of a tenant: those of the given ids, or with --all those that pass the
    filters.

    If an id does not exist, or several data sets have it and --dataset does not choose one,
    nothing is removed.
    """
    from packwise.nodes.store import NodeStore

    if bool(ids) == every:
        raise UsageError("name the ids of the nodes to remove, or use --all")
    with NodeStore(store) as nodes:
        if ids:
            found = nodes.get([tenant], node_types=types, datasets=datasets, keys=ids)
            _check_found(tenant, ids, found)
            if not datasets:
                _check_unambiguous(found)
        removed = nodes.delete(
            None, [tenant], node_types=types, datasets=datasets, keys=ids or None
        )
    if as_json:
        print_json({"removed": removed})
    else:
        click.echo(f"{counted(removed, 'node')} removed")


@click.command()
@click.argument("store")
@text_argument("query")
@_many("--tenant", "tenants", required=True, metavar="ID", help="Search this tenant's nodes.")
@_types_option
@_datasets_option
@_option("-k", default=10, help="Number of nodes.")
@click.option("--fusion", type=click.Choice(FUSIONS), help="How to fuse scores.")
@click.option("--bm25-weight", type=float, help="Weight of the keyword score.")
@click.option("--vector-weight", type=float, help="Weight of the vector score.")
@_least_option
@embedder_option
@json_option
def search(**options: Any) -> None:
    """Find the nodes of STORE that fit QUERY best.

    Fusion and weights are by default those of the adapter for the type of the nodes.
    """
    search_nodes(**options)


@click.command()
@click.argument("store")
@text_argument("question")
@_tenant_of_adapter
@_datasets_of_adapter
@_option("-k", "top_k", default=10, help="Number of columns.")
@_least_option
@embedder_option
@json_option
def fields(store: str, question: str, embedder: str | None, as_json: bool, **options: Any) -> None:
    """Find the columns that QUESTION is about."""
    with _adapter(store, embedder) as adapter:
        found = adapter.get_similar_fields(question, **options)
    if as_json:
        print_json({"question": question, "fields": [asdict(field) for field in found]})
        return
    rows = [(f.table, f.field_name, f.field_type, f.references, f.description) for f in found]
    _show_rows("columns", ("table", "column", "type", "references", "description"), rows)


@click.command()
@click.argument("store")
@text_argument("question")
@_tenant_of_adapter
@_datasets_of_adapter
@_option("-k", "top_k", default=5, help="Number of examples.")
@_least_option
@embedder_option
@json_option
def examples(
    store: str, question: str, embedder: str | None, as_json: bool, **options: Any
) -> None:
    """Find answered questions that resemble QUESTION."""
    with _adapter(store, embedder) as adapter:
        found = adapter.get_similar_qa_examples(question, **options)
    if as_json:
        print_json({"question": question, "examples": [asdict(example) for example in found]})
        return
    rows = [(e.question, e.sql, e.explanation) for e in found]
    _show_rows("examples", ("question", "SQL", "explanation"), rows)


@click.command()
@click.argument("store")
@text_argument("question")
@_tenant_of_adapter
@_datasets_of_adapter
@_option("--budget", default=1000, help="Tokens of the text.")
@embedder_option
@json_option
def schema(store: str, question: str, embedder: str | None, as_json: bool, **options: Any) -> None:
    """Print the part of a schema that QUESTION needs, for a text-to-SQL prompt."""
    with _adapter(store, embedder) as adapter:
        context = adapter.schema_context(question, **options)
    if as_json:
        print_json({**asdict(context), "tables": list(context.tables)})
    elif context.text:
        click.echo(clean(context.text))
    elif context.left_out:
        note("no column fits into the budget")
    else:
        note(f"tenant {options['tenant_id']!r} has no columns: packwise db introspect reads them")


def search_nodes(
    store: str,
    query: str,
    tenants: tuple[str, ...],
    *,
    k: int,
    types: tuple[str, ...] = (),
    datasets: tuple[str, ...] = (),
    fusion: Fusion | None = None,
    bm25_weight: float | None = None,
    vector_weight: float | None = None,
    min_score: float = 0.0,
    embedder: str | None = None,
    as_json: bool = False,
) -> None:
    """Search the nodes of some tenants and print the results."""
    from packwise.nodes.adapter import default_ranking

    ranking = default_ranking(types, fusion, bm25_weight, vector_weight)
    with _adapter(store, embedder) as adapter:
        adapter.load()
        started = time.perf_counter()
        hits = adapter.hybrid_search(
            query, None, tenants, types, k, dataset_names=datasets, min_score=min_score, **ranking
        )
        took = 1000 * (time.perf_counter() - started)
    if as_json:
        print_json(
            {
                "query": query,
                "hits": [_record(rank, hit) for rank, hit in enumerate(hits, start=1)],
                "confidence": round(max((hit.score for hit in hits), default=0.0), 6),
                "timings_ms": {"search": round(took, 3)},
            }
        )
        return
    _show_hits(hits)


def _adapter(store: str, embedder: str | None) -> KnowledgeVerseAdapter:
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.settings import Settings

    return KnowledgeVerseAdapter(store, settings=Settings.load(embedder=embedder))


def _check_found(tenant: str, ids: Sequence[str], found: Sequence[KnowledgeNode]) -> None:
    there = {node.node_key for node in found}
    missing = [name for name in ids if name not in there]
    if missing:
        raise StoreMissing(
            f"tenant {tenant!r} has no node {missing[0]!r}", fix="packwise db list shows the ids"
        )


def _check_unambiguous(found: Sequence[KnowledgeNode]) -> None:
    seen: dict[str, str] = {}
    for node in found:
        if node.node_key in seen:
            both = f"{seen[node.node_key]!r} and {node.dataset_name!r}"
            raise UsageError(
                f"the data sets {both} have a node {node.node_key!r}; nothing was removed",
                fix="choose with --dataset",
            )
        seen[node.node_key] = node.dataset_name


def _show_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        print_table(title, columns, rows)
    else:
        out().print("nothing found", style="yellow")


def _record(rank: int, hit: FoundNode) -> dict[str, Any]:
    node: KnowledgeNode = hit.node
    names = ("vector", "bm25", "keyword", "combined", "relevance", "final")
    scores = {name: getattr(hit, name) for name in names}
    return {
        "rank": rank,
        "id": node.node_key,
        "node_id": node.node_id,
        "tenant": node.tenant_id,
        "dataset": node.dataset_name,
        "type": node.node_type,
        "title": node.title,
        "section_path": [],
        "text": node.content or node.content_description or node.summary,
        "metadata": dict(node.metadata),
        "band": hit.band,
        "scores": {name: None if s is None else round(s, 6) for name, s in scores.items()},
    }


def _show_hits(hits: Sequence[FoundNode]) -> None:
    rows = [
        (
            *(h.node.title or h.node.node_key, h.node.node_type, h.node.dataset_name),
            *(number(h.score), h.band, number(h.vector), number(h.keyword)),
        )
        for h in hits
    ]
    columns = ("node", "type", "data set", ">score", "band", ">vector", ">keyword")
    _show_rows("nodes", columns, rows)

"""``packwise db``: knowledge nodes in a PostgreSQL database."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.candidates import FUSIONS, Fusion
from packwise.cli.console import clean, err, number, out, print_json

if TYPE_CHECKING:
    from packwise.models.base import Embedder
    from packwise.nodes.records import FoundNode
    from packwise.nodes.schema import VectorIndexKind

_INDEXES = click.Choice(["hnsw", "ivfflat"])
_RANKINGS = click.Choice(["auto", "pg_textsearch", "sql"])
_option = partial(click.option, show_default=True)
_many = partial(click.option, multiple=True)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_embedder_option = click.option(
    "--embedder", metavar="NAME", help="The embedder of the nodes; see packwise models."
)


@click.group()
def db() -> None:
    """Store and search knowledge nodes of many tenants in a PostgreSQL database.

    STORE is a URL: postgresql://user@host:port/database. Tables go into the first schema of its
    search path; ?options=-csearch_path%3Dname selects another schema.
    """


@db.command()
@click.argument("store")
@_option("--dim", type=int, default=384, help="Dimension of the vectors.")
@_option("--index", type=_INDEXES, default="hnsw", help="Vector index.")
@_option("--ranking", type=_RANKINGS, default="auto", help="How to find keywords in many nodes.")
@_option("--language", default="english", metavar="NAME", help="Text search configuration.")
@_option("--role", default="packwise_app", metavar="NAME", help="Role that applications use.")
@_json_option
def init(store: str, as_json: bool, **options: Any) -> None:
    """Create the tables and functions in STORE, or bring them up to date.

    Applications work as the role, which is created if it is missing.
    """
    from packwise.nodes.schema import NodesSchema, init_nodes
    from packwise.nodes.store import NodeStore

    done = init_nodes(store, NodesSchema(**options))
    with NodeStore(store) as nodes:
        settings, location = dict(nodes.settings()), nodes.location
    if as_json:
        print_json({"store": location, "steps": done, "settings": settings})
        return
    click.echo(f"{clean(location)}: {', '.join(done) if done else 'nothing to do'}")
    _show_table(settings)


@db.command("import")
@click.argument("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tenant", default="", metavar="ID", help="For lines without a tenant_id.")
@click.option("--dataset", default="", metavar="NAME", help="For lines without a dataset_name.")
@_embedder_option
@_json_option
def import_(store: str, file: Path, embedder: str | None, as_json: bool, **options: str) -> None:
    """Import the nodes of FILE, one JSON object per line, into STORE.

    A line has tenant_id, node_type, and any of dataset_name, title, summary,
    content_description, content, metadata, id and embedding. It replaces the node of the same
    tenant and id. Every line is checked before the first is written, and a bad one is reported
    with its number. An import that was stopped continues where it was.
    """
    from packwise.nodes.importing import import_nodes
    from packwise.nodes.store import NodeStore

    started = time.perf_counter()
    with NodeStore(store) as nodes, _progress("importing", quiet=as_json) as show:
        report = import_nodes(nodes, file, _loader(embedder), **options, progress=show)
    _show_report(nodes.location, asdict(report), started, as_json)


@db.command()
@click.argument("store")
@click.option("--from", "source", required=True, metavar="URL", help="The database to read.")
@click.option("--tenant", required=True, metavar="ID", help="Tenant of the nodes.")
@click.option("--dataset", default="", metavar="NAME", help="Data set of the nodes.")
@_many("--schema", "schemas", metavar="NAME", help="Only this schema.")
@_option("--samples", default=5, help="Values to keep per column.")
@_embedder_option
@_json_option
def introspect(
    store: str, source: str, embedder: str | None, as_json: bool, **options: Any
) -> None:
    """Turn the columns of a live database into field nodes of STORE.

    Reads the comment, the type, the keys and a few values of each column; with --samples 0, no
    values. The data set is named after the database unless --dataset names it. Run it again to
    follow changes: only columns that changed are embedded, and the nodes of columns that no
    longer exist are removed.
    """
    from packwise.nodes.introspection import follow_catalogue
    from packwise.nodes.store import NodeStore

    started = time.perf_counter()
    with NodeStore(store) as nodes, _progress("embedding", quiet=as_json) as show:
        report = follow_catalogue(nodes, source, _loader(embedder), **options, progress=show)
    _show_report(nodes.location, asdict(report), started, as_json)


@db.command()
@click.argument("store")
@click.argument("query")
@_many("--tenant", "tenants", required=True, metavar="ID", help="Search this tenant's nodes.")
@_many("--type", "types", metavar="NAME", help="Only nodes of this type.")
@_many("--dataset", "datasets", metavar="NAME", help="Only nodes of this data set.")
@_option("-k", default=10, help="Number of nodes.")
@_option("--fusion", type=click.Choice(FUSIONS), default="weighted", help="How to fuse scores.")
@_embedder_option
@_json_option
def search(**options: Any) -> None:
    """Find the nodes of STORE that fit QUERY best."""
    search_nodes(**options)


@db.command()
@click.argument("store")
@click.option("--index", type=_INDEXES, help="The kind of index (default: as it is).")
def reindex(store: str, index: VectorIndexKind | None) -> None:
    """Rebuild the vector index: after a large import, or to change its kind.

    Readers and writers are not blocked. ivfflat gets the square root of the number of rows as
    lists.
    """
    from packwise.nodes.schema import rebuild_vector_index
    from packwise.stores.postgres.connections import hide_password

    kind = rebuild_vector_index(store, index)
    click.echo(f"{clean(hide_password(store))}: {kind}")


def search_nodes(
    store: str,
    query: str,
    tenants: tuple[str, ...],
    *,
    k: int,
    types: tuple[str, ...] = (),
    datasets: tuple[str, ...] = (),
    fusion: Fusion = "weighted",
    embedder: str | None = None,
    as_json: bool = False,
) -> None:
    """Search the nodes of some tenants and print the results."""
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.settings import Settings

    started = time.perf_counter()
    with KnowledgeVerseAdapter(store, settings=Settings.load(embedder=embedder)) as adapter:
        hits = adapter.hybrid_search(
            query, None, tenants, types, k, dataset_names=datasets, fusion=fusion
        )
    took = 1000 * (time.perf_counter() - started)
    if as_json:
        print_json(
            {
                "query": query,
                "hits": [_record(rank, hit) for rank, hit in enumerate(hits, start=1)],
                "confidence": round(max((hit.combined for hit in hits), default=0.0), 6),
                "timings_ms": {"search": round(took, 3)},
            }
        )
        return
    _show_hits(hits)


def _record(rank: int, hit: FoundNode) -> dict[str, Any]:
    node = hit.node
    names = ("vector", "bm25", "keyword", "combined", "final")
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


def _show_hits(hits: list[FoundNode]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not hits:
        out().print(Text("nothing found", style="yellow"))
        return
    table = Table()
    for column in ("node", "type", "data set", "score", "", "vector", "keyword"):
        right = column in ("score", "vector", "keyword")
        table.add_column(column, justify="right" if right else "left")
    for hit in hits:
        texts = (hit.node.title or hit.node.node_key, hit.node.node_type, hit.node.dataset_name)
        scores = (number(hit.combined), hit.band, number(hit.vector), number(hit.keyword))
        table.add_row(*map(clean, texts), *scores)
    out().print(table)


def _show_report(location: str, values: dict[str, Any], started: float, as_json: bool) -> None:
    values = {**values, "seconds": round(time.perf_counter() - started, 3)}
    if as_json:
        print_json({"store": location, **values})
        return
    click.echo(clean(location))
    _show_table(values)


def _show_table(values: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in values.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else clean(str(value)))
    out().print(table)


def _loader(name: str | None) -> Callable[[], Embedder]:
    from packwise.models.embedder import load_embedder
    from packwise.settings import Settings

    settings = Settings.load(embedder=name)
    return lambda: load_embedder(settings.embedder, settings)


@contextmanager
def _progress(title: str, *, quiet: bool) -> Generator[Callable[[int, int], None]]:
    """A progress bar on a terminal, nothing elsewhere; takes what is done and the total."""
    from rich.progress import Progress

    console = err()
    with Progress(console=console, disable=quiet or not console.is_terminal) as bars:
        task = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)

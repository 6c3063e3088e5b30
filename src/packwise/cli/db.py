"""``packwise db``: knowledge nodes in a PostgreSQL database."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from packwise.candidates import Fusion
from packwise.cli.console import clean, err, number, out, print_json

if TYPE_CHECKING:
    from packwise.models.base import Embedder
    from packwise.nodes.schema import Index, Ranking
    from packwise.nodes.store import FoundNode


@click.group()
def db() -> None:
    """Keep knowledge nodes of many tenants in a PostgreSQL database.

    A STORE is here a URL: postgresql://user@host:port/database. Tables go to the first schema
    of its search path; ?options=-csearch_path%3Dname names another.
    """


@db.command()
@click.argument("store")
@click.option("--dim", type=int, default=384, show_default=True, help="Dimension of the vectors.")
@click.option(
    "--index",
    type=click.Choice(["hnsw", "ivfflat"]),
    default="hnsw",
    show_default=True,
    help="The vector index.",
)
@click.option(
    "--ranking",
    type=click.Choice(["auto", "pg_textsearch", "sql"]),
    default="auto",
    show_default=True,
    help="What finds the candidates of the keyword leg among many nodes.",
)
@click.option(
    "--language",
    default="english",
    show_default=True,
    metavar="NAME",
    help="The server's text search configuration.",
)
@click.option(
    "--role",
    default="packwise_app",
    show_default=True,
    metavar="NAME",
    help="The role applications work as; made if it is missing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def init(
    store: str, dim: int, index: str, ranking: str, language: str, role: str, as_json: bool
) -> None:
    """Make the tables and functions in STORE, or bring them up to date."""
    from packwise.nodes.schema import NodesSchema
    from packwise.nodes.store import NodeStore, init_nodes

    schema = NodesSchema(
        dim,
        language=language,
        role=role,
        index=cast("Index", index),
        ranking=cast("Ranking", ranking),
    )
    done = init_nodes(store, schema)
    nodes = NodeStore(store)
    try:
        settings = dict(nodes.settings())
        location = nodes.location
    finally:
        nodes.close()
    if as_json:
        print_json({"store": location, "steps": done, "settings": settings})
        return
    click.echo(f"{clean(location)}: {', '.join(done) if done else 'nothing to do'}")
    _show_pairs(settings)


@db.command("import")
@click.argument("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tenant", default="", metavar="ID", help="For lines that name no tenant_id.")
@click.option("--dataset", default="", metavar="NAME", help="For lines that name no dataset_name.")
@click.option("--embedder", default=None, metavar="NAME", help="The embedder; see packwise models.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def import_(
    store: str, file: Path, tenant: str, dataset: str, embedder: str | None, as_json: bool
) -> None:
    """Put the nodes of FILE, one JSON object a line, into STORE.

    A line has tenant_id, node_type, and any of dataset_name, title, summary,
    content_description, content, metadata, id and embedding. A node of the same tenant and id
    is replaced. A bad line is reported with its number before anything is written; the same
    command goes on where it was stopped.
    """
    from packwise.nodes.importing import import_nodes
    from packwise.nodes.store import NodeStore

    started = time.perf_counter()
    nodes = NodeStore(store)
    try:
        with _Bar("importing", quiet=as_json) as bar:
            report = import_nodes(
                nodes,
                file,
                _embedder(embedder),
                tenant=tenant,
                dataset=dataset,
                progress=bar.show,
            )
        location = nodes.location
    finally:
        nodes.close()
    _report(
        location,
        {
            "lines": report.lines,
            "added": report.added,
            "changed": report.changed,
            "unchanged": report.unchanged,
            "embedded": report.embedded,
            "seconds": round(time.perf_counter() - started, 3),
        },
        as_json,
    )


@db.command()
@click.argument("store")
@click.option("--from", "source", required=True, metavar="URL", help="The database to look at.")
@click.option("--tenant", required=True, metavar="ID", help="Whose nodes they become.")
@click.option("--dataset", default="", metavar="NAME", help="Their data set; else the database's.")
@click.option("--schema", "schemas", multiple=True, metavar="NAME", help="Only of that schema.")
@click.option("--samples", default=5, show_default=True, help="Values of a column to keep.")
@click.option("--embedder", default=None, metavar="NAME", help="The embedder; see packwise models.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def introspect(
    store: str,
    source: str,
    tenant: str,
    dataset: str,
    schemas: tuple[str, ...],
    samples: int,
    embedder: str | None,
    as_json: bool,
) -> None:
    """Read the tables and columns of a live database into field nodes of STORE.

    Comments, types, keys and a few values of each column are read; --samples 0 leaves the
    values where they are. Run again, it follows the catalogue: only what changed is embedded,
    and columns that are gone are removed.
    """
    from packwise.nodes.introspection import follow_catalogue
    from packwise.nodes.store import NodeStore
    from packwise.stores.postgres.place import database_name

    started = time.perf_counter()
    name = dataset or database_name(source)
    nodes = NodeStore(store)
    try:
        with _Bar("embedding", quiet=as_json) as bar:
            report = follow_catalogue(
                nodes,
                source,
                _embedder(embedder),
                tenant=tenant,
                dataset=name,
                schemas=schemas,
                samples=samples,
                progress=bar.advance,
            )
        location = nodes.location
    finally:
        nodes.close()
    _report(
        location,
        {
            "dataset": name,
            "fields": report.fields,
            "added": report.added,
            "changed": report.changed,
            "removed": report.removed,
            "unchanged": report.unchanged,
            "seconds": round(time.perf_counter() - started, 3),
        },
        as_json,
    )


@db.command()
@click.argument("store")
@click.argument("query")
@click.option("--tenant", "tenants", multiple=True, required=True, metavar="ID", help="Whose.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only nodes of that type.")
@click.option("--dataset", "datasets", multiple=True, metavar="NAME", help="Only of that data set.")
@click.option("-k", default=10, show_default=True, help="How many nodes.")
@click.option("--fusion", type=click.Choice(get_args(Fusion)), default="weighted", help="How.")
@click.option("--embedder", default=None, metavar="NAME", help="The embedder of the nodes.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def search(
    store: str,
    query: str,
    tenants: tuple[str, ...],
    types: tuple[str, ...],
    datasets: tuple[str, ...],
    k: int,
    fusion: Fusion,
    embedder: str | None,
    as_json: bool,
) -> None:
    """Find the nodes of STORE that fit QUERY best."""
    search_nodes(
        store,
        query,
        tenants,
        k=k,
        types=types,
        datasets=datasets,
        fusion=fusion,
        embedder=embedder,
        as_json=as_json,
    )


@db.command()
@click.argument("store")
@click.option("--index", type=click.Choice(["hnsw", "ivfflat"]), default=None, help="Its kind.")
def reindex(store: str, index: str | None) -> None:
    """Make the vector index anew: after a large import, or to change its kind.

    Readers and writers go on meanwhile. ivfflat takes the square root of the rows as lists.
    """
    from packwise.nodes.store import index_nodes
    from packwise.stores.postgres.place import hidden

    kind = index_nodes(store, cast("Index | None", index))
    click.echo(f"{clean(hidden(store))}: {kind}")


def has_nodes_of(store: str, tenant: str) -> bool:
    """Whether a STORE is a database in which a tenant's knowledge nodes are what to search:
    it has some, or there is nothing else."""
    from packwise.stores.postgres.place import is_postgres

    if not is_postgres(store):
        return False
    from packwise.errors import StoreMissing
    from packwise.nodes.store import NodeStore
    from packwise.stores.postgres.store import PostgresStore

    nodes, passages = NodeStore(store, pool_size=1), PostgresStore(store, pool_size=1)
    try:
        return nodes.count([tenant]) > 0 or not passages.has_passages()
    except StoreMissing:
        return False
    finally:
        nodes.close()
        passages.close()


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
    """Search the nodes of some tenants and print what was found."""
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.settings import Settings

    started = time.perf_counter()
    settings = Settings.load(embedder=embedder)
    with KnowledgeVerseAdapter(store, settings=settings) as adapter:
        hits = adapter.hybrid_search(
            query, None, tenants, types, k, dataset_names=datasets, fusion=fusion
        )
    took = 1000 * (time.perf_counter() - started)
    if as_json:
        print_json(
            {
                "query": query,
                "hits": [_hit(rank, hit) for rank, hit in enumerate(hits, start=1)],
                "confidence": round(max((hit.combined for hit in hits), default=0.0), 6),
                "timings_ms": {"search": round(took, 3)},
            }
        )
        return
    _show_hits(hits)


def _hit(rank: int, hit: FoundNode) -> dict[str, Any]:
    node = hit.node
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
        "scores": {
            "vector": None if hit.vector is None else round(hit.vector, 6),
            "bm25": round(hit.bm25, 6),
            "keyword": round(hit.keyword, 6),
            "combined": round(hit.combined, 6),
            "final": round(hit.final, 6),
        },
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
        node = hit.node
        table.add_row(
            clean(node.title or node.node_key),
            clean(node.node_type),
            clean(node.dataset_name),
            number(hit.combined),
            hit.band,
            number(hit.vector),
            number(hit.keyword),
        )
    out().print(table)


def _report(location: str, values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"store": location, **values})
        return
    click.echo(clean(location))
    _show_pairs(values)


def _show_pairs(values: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in values.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else clean(str(value)))
    out().print(table)


def _embedder(name: str | None) -> Callable[[], Embedder]:
    from packwise.models.embedder import load_embedder
    from packwise.settings import Settings

    settings = Settings.load(embedder=name)
    return lambda: load_embedder(settings.embedder, settings)


class _Bar:
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        from rich.progress import Progress

        console = err()
        self._bars = Progress(console=console, disable=quiet or not console.is_terminal)
        self._task = self._bars.add_task(title, total=None)

    def __enter__(self) -> _Bar:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, done: int, total: int) -> None:
        self._bars.update(self._task, completed=done, total=total)

    def advance(self, more: int, total: int) -> None:
        self._bars.update(self._task, advance=more, total=total)

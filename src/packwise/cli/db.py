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

from packwise.cli.console import (
    clean,
    counted,
    embedder_option,
    err,
    json_option,
    note,
    print_json,
    print_table,
)
from packwise.cli.db_monitor import evaluate, stats
from packwise.cli.db_nodes import delete, examples, fields, get, list_, schema, search

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from packwise.models.base import Embedder
    from packwise.nodes.schema import VectorIndexKind

_FIRST_STEP = "knowledge nodes"
_INDEXES = click.Choice(["hnsw", "ivfflat"])
_RANKINGS = click.Choice(["auto", "pg_textsearch", "sql"])
_option = partial(click.option, show_default=True)
_many = partial(click.option, multiple=True)


@click.group()
def db() -> None:
    """Store and search knowledge nodes of many tenants in a PostgreSQL database.

    STORE is a URL: postgresql://user@host:port/database. Tables go into the first schema of its
    search path; ?options=-csearch_path%3Dname selects another schema.
    """


@db.command()
@click.argument("store")
@click.option("--dim", type=int, help="Dimension of the vectors (384).")
@click.option("--index", type=_INDEXES, help="Vector index (hnsw).")
@click.option("--ranking", type=_RANKINGS, help="How to find keywords in many nodes (auto).")
@click.option("--language", metavar="NAME", help="Text search configuration (english).")
@click.option("--role", metavar="NAME", help="Role that applications use (packwise_app).")
@json_option
def init(store: str, as_json: bool, **options: Any) -> None:
    """Create the tables and functions in STORE, or bring them up to date.

    Applications work as the role, which is created if it is missing. Existing tables keep their
    options: one that differs is an error, and nothing is changed.
    """
    from packwise.nodes.schema import NodesSchema, init_nodes
    from packwise.nodes.store import NodeStore

    done = init_nodes(store, NodesSchema(**options))
    with NodeStore(store) as nodes:
        settings, location = dict(nodes.settings()), nodes.location
    if as_json:
        print_json({"store": location, "steps": done, "settings": settings})
        return
    changed = "created" if _FIRST_STEP in done else f"brought up to date ({', '.join(done)})"
    click.echo(f"{clean(location)}: {changed if done else 'nothing to do'}")
    _show_table(settings)


@db.command("import")
@click.argument("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tenant", default="", metavar="ID", help="For lines without a tenant_id.")
@click.option("--dataset", default="", metavar="NAME", help="For lines without a dataset_name.")
@embedder_option
@json_option
def import_(store: str, file: Path, embedder: str | None, as_json: bool, **options: str) -> None:
    """Import the nodes of FILE, one JSON object per line, into STORE.

    A line has tenant_id, node_type, and any of dataset_name, title, summary,
    content_description, content, metadata, id and embedding. It replaces the node of the same
    tenant, data set and id. Every line is checked before the first is written, and a bad one is
    reported with its number. An interrupted import continues where it stopped.
    """
    from packwise.nodes.importing import import_nodes
    from packwise.nodes.store import NodeStore

    started = time.perf_counter()
    with NodeStore(store) as nodes, _progress("importing", quiet=as_json) as (show,):
        report = import_nodes(nodes, file, _loader(embedder), **options, progress=show)
    _show_report(nodes.location, asdict(report), started, as_json)


@db.command()
@click.argument("store")
@click.option("--from", "source", required=True, metavar="URL", help="The database to read.")
@click.option("--tenant", required=True, metavar="ID", help="Tenant of the nodes.")
@click.option("--dataset", default="", metavar="NAME", help="Data set of the nodes.")
@_many("--schema", "schemas", metavar="NAME", help="Only this schema.")
@_option("--samples", default=0, help="Values to keep per column.")
@_option("--timeout", default=5.0, help="Seconds that reading the values of a table may take.")
@click.option("--replace", is_flag=True, help="Replace a data set of another database.")
@embedder_option
@json_option
def introspect(
    store: str, source: str, timeout: float, embedder: str | None, as_json: bool, **options: Any
) -> None:
    """Turn the columns of a live database into field nodes of STORE.

    Reads the comment, the type and the keys of each column. With --samples also a few values,
    except of columns that look like personal data; a table or view that fails or takes too long
    is named and left without values. The data set is named after the database unless --dataset
    names it. Run it again to follow changes: only columns that changed are embedded, and the
    nodes of columns that no longer exist are removed.
    """
    from packwise.nodes.introspection import follow_catalogue
    from packwise.nodes.store import NodeStore

    started = time.perf_counter()
    with (
        NodeStore(store) as nodes,
        _progress("reading tables", "embedding", quiet=as_json) as (reading, show),
    ):
        report = follow_catalogue(
            nodes,
            source,
            _loader(embedder),
            **options,
            timeout_ms=round(1000 * timeout),
            reading=reading,
            progress=show,
        )
    values = asdict(report)
    if not as_json:
        for name in values.pop("skipped"):
            note(f"no values of {name}")
        withheld = len(values.pop("personal"))
        if options["samples"]:
            values["no values: personal data"] = withheld
    _show_report(nodes.location, values, started, as_json)


@db.command()
@click.argument("store")
@click.option("--index", type=_INDEXES, help="The kind of index (default: as it is).")
def reindex(store: str, index: VectorIndexKind | None) -> None:
    """Rebuild the vector index: after a large import, or to change its kind.

    Readers and writers are not blocked, and searches use the old index until the new one is
    ready. ivfflat gets the square root of the number of rows as lists.
    """
    from packwise.nodes.schema import rebuild_vector_index
    from packwise.stores.postgres.connections import hide_password

    kind = rebuild_vector_index(store, index)
    click.echo(f"{clean(hide_password(store))}: {kind} index rebuilt")


@db.command()
@click.argument("store")
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(store: str, yes: bool) -> None:
    """Remove the nodes of every tenant with their tables and functions; passages stay.

    The role of the applications stays too, because other databases of the server may use it. If
    a view or a table of your own depends on the nodes, it is named and nothing is removed.
    """
    from packwise.nodes.schema import drop_nodes
    from packwise.stores.postgres.connections import hide_password

    location = clean(hide_password(store))
    if not yes:
        click.confirm(f"Remove the knowledge nodes of every tenant in {location}?", abort=True)
    drop_nodes(store)
    click.echo(f"{location}: removed")


@db.command()
@click.argument("store")
@click.option("--tenant", "tenant_id", required=True, metavar="ID", help="Tenant of the nodes.")
@embedder_option
def embed(store: str, tenant_id: str, embedder: str | None) -> None:
    """Embed a tenant's nodes that have no vector.

    These are nodes that another client has added, or whose text it has changed.
    """
    from packwise.nodes.adapter import KnowledgeVerseAdapter
    from packwise.settings import Settings

    with KnowledgeVerseAdapter(store, settings=Settings.load(embedder=embedder)) as adapter:
        click.echo(f"{counted(adapter.embed_missing(tenant_id), 'node')} embedded")


@db.command()
@click.argument("store")
@click.option("--login", metavar="NAME", help="A login of the server.")
@_many("--tenant", "tenants", metavar="ID", help="A tenant that it may see.")
@click.option("--remove", is_flag=True, help="Take all access to nodes away from the login.")
def bind(store: str, login: str | None, tenants: tuple[str, ...], remove: bool) -> None:
    """Bind a login to tenants, so that no SQL it runs sees another tenant.

    Run it as the owner of the tables. The login then uses its own URL. Without --login, the bound
    logins are listed.
    """
    from packwise.errors import UsageError
    from packwise.nodes.bindings import bind_login, bound_logins, unbind_login

    if (tenants or remove) and not login:
        raise UsageError("name a login with --login")
    if login and remove:
        unbind_login(store, login)
    elif login:
        bind_login(store, login, tenants)
    rows = [(name, ", ".join(seen)) for name, seen in bound_logins(store).items()]
    if rows:
        print_table("bound logins", ("login", "tenants"), rows)
    else:
        click.echo("no login is bound to a tenant")


for _command in (list_, get, delete, search, fields, examples, schema, stats, evaluate):
    db.add_command(_command)


def _show_report(location: str, values: dict[str, Any], started: float, as_json: bool) -> None:
    values = {**values, "seconds": round(time.perf_counter() - started, 3)}
    if as_json:
        print_json({"store": location, **values})
        return
    click.echo(clean(location))
    _show_table(values)


def _show_table(values: dict[str, Any]) -> None:
    shown = ((k, f"{v:,}" if isinstance(v, int) else str(v)) for k, v in values.items())
    print_table("", ("what", ">value"), shown, header=False)


def _loader(name: str | None) -> Callable[[], Embedder]:
    from packwise.models.embedder import load_embedder
    from packwise.settings import Settings

    settings = Settings.load(embedder=name)
    return lambda: load_embedder(settings.embedder, settings)


@contextmanager
def _progress(*titles: str, quiet: bool) -> Generator[tuple[Callable[[int, int], None], ...]]:
    """A progress bar per title on a terminal, nothing elsewhere; each is shown when it is first
    called with what is done and the total."""
    from rich.progress import Progress

    console = err()
    with Progress(console=console, disable=quiet or not console.is_terminal) as bars:
        tasks = [bars.add_task(title, total=None, visible=False) for title in titles]
        yield tuple(partial(_advance, bars, task) for task in tasks)


def _advance(bars: Progress, task: TaskID, done: int, total: int) -> None:
    bars.update(task, completed=done, total=total, visible=True)

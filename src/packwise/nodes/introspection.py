"""The columns of a live database as field nodes, with their comments, types and keys.

Running it again follows the catalogue: only columns that changed are embedded, and the nodes of
columns that no longer exist are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from packwise.documents import content_hash
from packwise.errors import SourceError, StoreError, UsageError
from packwise.models.base import Embedder
from packwise.nodes.personal import has_personal_values, is_personal_name, split_words
from packwise.nodes.records import FIELD, KnowledgeNode
from packwise.nodes.store import NodeStore
from packwise.stores.postgres.connections import Connection, PostgresPool, database_identity
from packwise.stores.postgres.errors import is_lost, translated_errors
from packwise.stores.postgres.migrations import load_sql

_SAMPLED_ROWS = 1000
_MAX_SAMPLE_LENGTH = 80
SAMPLE_TIMEOUT_MS = 5000
"""How long reading the values of one table or view may take."""

Progress = Callable[[int, int], None]
"""Called with what is done and the total."""


@dataclass(frozen=True, slots=True)
class _Column:
    schema: str
    table: str
    name: str
    type: str
    comment: str
    table_comment: str
    required: bool
    primary: bool
    to_schema: str | None
    to_table: str | None
    to_column: str | None
    foreign_key: str | None

    @property
    def whole_table(self) -> tuple[str, str]:
        return self.schema, self.table


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What was read of a database.

    ``source`` tells databases apart. ``personal`` are the columns whose values were not kept
    because they look like personal data, ``skipped`` the tables whose values could not be read,
    with the reason.
    """

    source: str
    nodes: tuple[KnowledgeNode, ...]
    personal: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CatalogueReport:
    """What happened to the nodes of a catalogue; ``fields`` is how many there are now.
    ``personal`` and ``skipped`` are as in ``Catalogue``."""

    dataset: str
    fields: int
    added: int
    changed: int
    removed: int
    unchanged: int
    personal: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def follow_catalogue(
    store: NodeStore,
    url: str,
    embedder: Callable[[], Embedder],
    *,
    tenant: str,
    dataset: str = "",
    schemas: Sequence[str] = (),
    samples: int = 0,
    timeout_ms: int = SAMPLE_TIMEOUT_MS,
    replace: bool = False,
    reading: Progress | None = None,
    progress: Progress | None = None,
) -> CatalogueReport:
    """Make a tenant's data set match the columns of the database at ``url``, whose name is the
    default for ``dataset``.

    Field nodes from elsewhere, or from other schemas, stay. ``samples`` is the number of values
    to keep per column: they are data, and none is read unless asked for. ``reading`` is called
    with the tables read and their number, ``progress`` with the nodes embedded and the number to
    embed. Raises ``SourceError``, with nothing changed, if there is no column to read;
    ``StoreError`` if the data set was read from another database, unless ``replace``.
    """
    dataset = dataset or database_identity(url)[-1]
    read = read_catalogue(
        url,
        tenant=tenant,
        dataset=dataset,
        schemas=schemas,
        samples=samples,
        timeout_ms=timeout_ms,
        progress=reading,
    )
    found = list(read.nodes)
    if not found:
        where = f"schema {', '.join(schemas)}" if schemas else "that database"
        raise SourceError(
            f"no table in {where} can be read", fix="name another with --schema, or another role"
        )
    stored = store.get([tenant], node_types=[FIELD], datasets=[dataset])
    others = {node.metadata.get("source", read.source) for node in stored} - {read.source}
    if others and not replace:
        raise StoreError(
            f"the data set {dataset!r} of tenant {tenant!r} was read from another database",
            fix="name this one with --dataset, or replace the other one with --replace",
        )
    model = embedder()
    known = store.known(tenant, [node.node_key for node in found])
    new = [n for n in found if known.get(n.identity[1:]) != (n.fingerprint, model.version)]
    added = changed = done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, len(new))

    if new:
        vectors = model.embed_passages([node.embedded_text for node in new], advance)
        written = store.write(new, vectors, model.version)
        added, changed = written.added, written.changed
    keys = {node.node_key for node in found}
    gone = [
        node.node_id
        for node in stored
        if node.node_id is not None
        and node.node_key not in keys
        and (schema := node.metadata.get("schema")) is not None
        and (not schemas or schema in schemas)
    ]
    removed = store.delete(gone, [tenant]) if gone else 0
    unchanged = len(found) - added - changed
    counts = (len(found), added, changed, removed, unchanged)
    return CatalogueReport(dataset, *counts, read.personal, read.skipped)


def read_catalogue(
    url: str,
    *,
    tenant: str,
    dataset: str,
    schemas: Sequence[str] = (),
    samples: int = 0,
    timeout_ms: int = SAMPLE_TIMEOUT_MS,
    progress: Progress | None = None,
) -> Catalogue:
    """One node per column that this user may read, without Packwise's own tables.

    ``samples`` is the number of distinct values to keep per column; columns that look like
    personal data have none.
    """
    if samples < 0:
        raise UsageError(f"samples must be 0 or more, not {samples}")
    pool = PostgresPool(url)
    personal: list[str] = []
    skipped: list[str] = []
    nodes: list[KnowledgeNode] = []
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        connection.read_only = True
        with connection.transaction():
            query = load_sql(__name__, "columns")
            rows = connection.execute(query, {"schemas": list(schemas)}).fetchall()
            source = _source(connection)
        columns = [_Column(*row) for row in rows]
        tables = [list(group) for _, group in groupby(columns, lambda c: c.whole_table)]
        for number, table in enumerate(tables, start=1):
            values: dict[str, list[str]] = {}
            if samples:
                open_columns = [c for c in table if not is_personal_name(c.table, c.name)]
                values, reason = _samples(connection, open_columns, samples, timeout_ms)
                if reason:
                    skipped.append(f"{table[0].schema}.{table[0].table}: {reason}")
                withheld = {c.name for c in table} - {c.name for c in open_columns}
                withheld |= {name for name, v in values.items() if has_personal_values(v)}
                personal += [f"{c.schema}.{c.table}.{c.name}" for c in table if c.name in withheld]
                values = {n: v[:samples] for n, v in values.items() if n not in withheld}
            nodes += [_node(c, values.get(c.name, ()), tenant, dataset, source) for c in table]
            if progress is not None:
                progress(number, len(tables))
    return Catalogue(source, tuple(nodes), tuple(personal), tuple(skipped))


def _source(connection: Connection) -> str:
    """What tells a database apart from one of the same name on another server."""
    import psycopg

    try:
        with connection.transaction():
            row = connection.execute(
                "SELECT system_identifier::text, current_database() FROM pg_control_system()"
            ).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        info = connection.info
        row = (f"{info.host}:{info.port}", info.dbname)
    return content_hash(*map(str, row or ()))


def _samples(
    connection: Connection, columns: Sequence[_Column], count: int, timeout_ms: int
) -> tuple[dict[str, list[str]], str]:
    """Distinct values of the columns of one table, shortest first, and why there are none.

    More than ``count`` are read: whether a column is personal shows better in many.
    """
    import psycopg
    from psycopg import sql

    if not columns:
        return {}, ""
    texts = sql.SQL(", ").join(
        sql.SQL("left({}::text, {})").format(sql.Identifier(c.name), _MAX_SAMPLE_LENGTH + 1)
        for c in columns
    )
    query = sql.SQL("SELECT {} FROM {} LIMIT {}").format(
        texts, sql.Identifier(*columns[0].whole_table), _SAMPLED_ROWS
    )
    try:
        with connection.transaction():
            connection.execute(
                "SELECT set_config('statement_timeout', %s, true)", (str(timeout_ms),)
            )
            rows = connection.execute(query).fetchall()
    except psycopg.errors.QueryCanceled:
        return {}, f"took longer than {timeout_ms / 1000:g} s"
    except psycopg.Error as error:
        if is_lost(error):
            raise
        return {}, str(error).splitlines()[0]
    found: dict[str, list[str]] = {}
    for i, column in enumerate(columns):
        distinct = {row[i][:_MAX_SAMPLE_LENGTH] for row in rows if row[i]}
        found[column.name] = sorted(distinct, key=lambda v: (len(v), v))
    return found, ""


def _node(
    column: _Column, samples: Sequence[str], tenant: str, dataset: str, source: str
) -> KnowledgeNode:
    table = _shown(column.schema, column.table)
    summary = column.comment or split_words(column.name)
    description = [f"{summary} Column of {split_words(column.table)}."]
    if column.table_comment:
        description.append(column.table_comment)
    metadata: dict[str, Any] = {
        "field_name": column.name,
        "field_type": column.type,
        "schema": column.schema,
        "table": column.table,
        "description": summary,
        "sample_values": list(samples),
        "required": column.required,
        "primary_key": column.primary,
        "source": source,
    }
    if column.to_table is not None:
        to = _shown(str(column.to_schema), column.to_table)
        description.append(f"Refers to {to}.")
        metadata["references"] = f"{to}.{column.to_column}"
        metadata["foreign_key"] = column.foreign_key
    if samples:
        description.append(f"Values such as {', '.join(samples)}.")
    return KnowledgeNode(
        tenant_id=tenant,
        dataset_name=dataset,
        node_type=FIELD,
        node_key=f"{dataset}/{column.schema}.{column.table}.{column.name}",
        title=f"{table}.{column.name}",
        summary=summary,
        content_description=" ".join(description),
        metadata=metadata,
    )


def _shown(schema: str, table: str) -> str:
    return table if schema == "public" else f"{schema}.{table}"

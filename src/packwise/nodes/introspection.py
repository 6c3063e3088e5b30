"""The columns of a live database as field nodes, with their comments, types and a few values.

Running it again follows the catalogue: only columns that changed are embedded, and the nodes of
columns that no longer exist are removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from packwise.errors import SourceError
from packwise.models.base import Embedder
from packwise.nodes.records import FIELD, KnowledgeNode
from packwise.nodes.store import NodeStore
from packwise.stores.postgres.connections import Connection, PostgresPool, database_identity
from packwise.stores.postgres.errors import translated_errors
from packwise.stores.postgres.migrations import load_sql

_SAMPLED_ROWS = 1000
_MAX_SAMPLE_LENGTH = 80


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
    references: str | None


@dataclass(frozen=True, slots=True)
class CatalogueReport:
    """What happened to the nodes of a catalogue; ``fields`` is how many there are now."""

    dataset: str
    fields: int
    added: int
    changed: int
    removed: int
    unchanged: int


def follow_catalogue(
    store: NodeStore,
    url: str,
    embedder: Callable[[], Embedder],
    *,
    tenant: str,
    dataset: str = "",
    schemas: Sequence[str] = (),
    samples: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> CatalogueReport:
    """Make a tenant's data set match the columns of the database at ``url``, whose name is the
    default for ``dataset``.

    Field nodes from elsewhere, or from other schemas, stay. ``progress`` is called with the
    number of nodes embedded and the number to embed in all. Raises ``SourceError``, with nothing
    changed, if there is no column to read.
    """
    dataset = dataset or database_identity(url)[-1]
    found = field_nodes(url, tenant=tenant, dataset=dataset, schemas=schemas, samples=samples)
    if not found:
        where = f"schema {', '.join(schemas)}" if schemas else "that database"
        raise SourceError(
            f"no table in {where} can be read", fix="name another with --schema, or another role"
        )
    model = embedder()
    known = store.known(tenant, [node.node_key for node in found])
    new = [node for node in found if known.get(node.node_key) != (node.fingerprint, model.version)]
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
        for node in store.get([tenant], node_types=[FIELD], datasets=[dataset])
        if node.node_id is not None
        and node.node_key not in keys
        and (schema := node.metadata.get("schema")) is not None
        and (not schemas or schema in schemas)
    ]
    removed = store.delete(gone, [tenant]) if gone else 0
    unchanged = len(found) - added - changed
    return CatalogueReport(dataset, len(found), added, changed, removed, unchanged)


def field_nodes(
    url: str,
    *,
    tenant: str,
    dataset: str,
    schemas: Sequence[str] = (),
    samples: int = 5,
) -> list[KnowledgeNode]:
    """One node per column that this user may read, without Packwise's own tables.

    ``samples`` is the number of distinct values to keep per column. They are data: use 0 where
    data must not leave its table.
    """
    pool = PostgresPool(url)
    query = load_sql(__name__, "columns")
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        connection.execute("SET default_transaction_read_only = on")
        rows = connection.execute(query, {"schemas": list(schemas)}).fetchall()
        return [
            _node(column, _samples(connection, column, samples), tenant, dataset)
            for column in (_Column(*row) for row in rows)
        ]


def _samples(connection: Connection, column: _Column, count: int) -> list[str]:
    from psycopg import errors, sql

    if count <= 0:
        return []
    query = sql.SQL(
        "SELECT left(v::text, {length}) FROM (SELECT DISTINCT v FROM (SELECT {name}::text AS v"
        " FROM {table} LIMIT {rows}) AS sampled WHERE v IS NOT NULL AND v <> '') AS distinct_values"
        " ORDER BY length(v), v LIMIT {count}"
    ).format(
        length=_MAX_SAMPLE_LENGTH,
        name=sql.Identifier(column.name),
        table=sql.Identifier(column.schema, column.table),
        rows=_SAMPLED_ROWS,
        count=count,
    )
    try:
        return [value for (value,) in connection.execute(query)]
    except (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFunction):
        return []  # this user may not read the column, or a foreign table is unavailable


def _node(column: _Column, samples: Sequence[str], tenant: str, dataset: str) -> KnowledgeNode:
    table = column.table if column.schema == "public" else f"{column.schema}.{column.table}"
    summary = column.comment or _split_words(column.name)
    description = [f"{summary} Column of {_split_words(column.table)}."]
    if column.table_comment:
        description.append(column.table_comment)
    metadata: dict[str, Any] = {
        "field_name": column.name,
        "field_type": column.type,
        "schema": column.schema,
        "table": table,
        "description": summary,
        "sample_values": list(samples),
        "required": column.required,
        "primary_key": column.primary,
    }
    if column.references:
        description.append(f"Refers to {column.references}.")
        metadata["references"] = column.references
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


def _split_words(name: str) -> str:
    """The words of a name: ``customerEmail_address`` becomes ``customer Email address``."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return " ".join(re.split(r"[_\W]+", spaced)).strip() or name

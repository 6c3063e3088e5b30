"""A live database's own catalogue as field nodes: one a column, with its comment, its type and
a few of its values. Looking again follows the catalogue: what changed is embedded anew, and
the nodes of columns that are gone go too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packwise.errors import SourceError
from packwise.models.base import Embedder
from packwise.nodes.store import FIELD, KnowledgeNode, NodeStore
from packwise.stores.postgres.errors import speaking
from packwise.stores.postgres.pool import Pool

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

SAMPLED_ROWS = 1000
_LONGEST_SAMPLE = 80
_OWN = ("packwise\\_%", "knowledge\\_%")

_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    coalesce(col_description(c.oid, a.attnum), ''), coalesce(obj_description(c.oid), ''),
    a.attnotnull,
    EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary
        AND a.attnum = ANY (i.indkey)),
    (SELECT f.confrelid::regclass::text FROM pg_constraint AS f WHERE f.conrelid = c.oid
        AND f.contype = 'f' AND f.conkey = ARRAY[a.attnum] LIMIT 1)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%'
    AND (%(schemas)s::text[] = '{}' OR n.nspname = ANY (%(schemas)s::text[]))
    AND c.relname NOT LIKE ALL (%(own)s::text[])
    AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
    AND has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname, a.attnum
"""


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
    """What became of the nodes of a catalogue; ``fields`` is how many it has now."""

    fields: int
    added: int
    changed: int
    removed: int

    @property
    def unchanged(self) -> int:
        return self.fields - self.added - self.changed


def follow_catalogue(
    store: NodeStore,
    url: str,
    embedder: Callable[[], Embedder],
    *,
    tenant: str,
    dataset: str,
    schemas: Sequence[str] = (),
    samples: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> CatalogueReport:
    """Make a tenant's data set hold the columns of the database at ``url``, as it is now.

    Field nodes that came from elsewhere, or from a schema not looked at, stay. ``progress``
    hears (more embedded, to embed in all). Raises ``SourceError``, with nothing changed, where
    there is no column to read.
    """
    found = list(field_nodes(url, tenant=tenant, dataset=dataset, schemas=schemas, samples=samples))
    if not found:
        where = f"schema {', '.join(schemas)}" if schemas else "that database"
        raise SourceError(
            f"no table in {where} can be read", fix="name another with --schema, or another role"
        )
    model = embedder()
    known = store.known(tenant, [node.node_key for node in found])
    new = [node for node in found if known.get(node.node_key) != (node.fingerprint, model.version)]
    added = changed = 0
    if new:
        vectors = model.embed_passages(
            [node.embedded_text for node in new],
            (lambda more: progress(more, len(new))) if progress else None,
        )
        written = store.write(new, vectors, model.version)
        added, changed = written.added, written.changed
    kept = {node.node_key for node in found}
    gone = [
        node.node_id
        for node in store.get([tenant], node_types=[FIELD], datasets=[dataset])
        if node.node_id is not None and node.node_key not in kept and _looked_at(node, schemas)
    ]
    removed = store.delete(gone, [tenant]) if gone else 0
    return CatalogueReport(len(found), added, changed, removed)


def _looked_at(node: KnowledgeNode, schemas: Sequence[str]) -> bool:
    schema = node.metadata.get("schema")
    return schema is not None and (not schemas or schema in schemas)


def field_nodes(
    url: str,
    *,
    tenant: str,
    dataset: str,
    schemas: Sequence[str] = (),
    samples: int = 5,
) -> Iterator[KnowledgeNode]:
    """A node for every column this user may read, Packwise's own tables left out.

    ``samples`` is how many distinct values of a column are kept, 0 for none: they are the
    data itself, so keep none where that must not leave its table.
    """
    pool = Pool(url, size=1, prepare=_read_only)
    try:
        with pool.lend() as connection, speaking(pool.location):
            values = {"schemas": list(schemas), "own": list(_OWN)}
            rows = connection.execute(_COLUMNS.encode(), values).fetchall()
            for row in rows:
                column = _Column(*row)
                yield _node(column, _samples(connection, column, samples), tenant, dataset)
    finally:
        pool.close()


def _read_only(connection: Connection) -> None:
    connection.execute("SET default_transaction_read_only = on")


def _samples(connection: Connection, column: _Column, most: int) -> list[str]:
    from psycopg import errors, sql

    if most <= 0:
        return []
    name = sql.Identifier(column.name)
    query = sql.SQL(
        "SELECT left(v::text, {longest}) FROM (SELECT DISTINCT v FROM (SELECT {name}::text AS v"
        " FROM {table} LIMIT {rows}) AS sampled WHERE v IS NOT NULL AND v <> '') AS distinct_values"
        " ORDER BY length(v), v LIMIT {most}"
    ).format(
        longest=sql.Literal(_LONGEST_SAMPLE),
        name=name,
        table=sql.Identifier(column.schema, column.table),
        rows=sql.Literal(SAMPLED_ROWS),
        most=sql.Literal(most),
    )
    try:
        return [value for (value,) in connection.execute(query)]
    except (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFunction):
        return []  # a column this user may not read, or a foreign table that is away


def _node(column: _Column, samples: Sequence[str], tenant: str, dataset: str) -> KnowledgeNode:
    shown = column.table if column.schema == "public" else f"{column.schema}.{column.table}"
    said = column.comment or _words(column.name)
    parts = [f"{said} Column of {_words(column.table)}."]
    if column.table_comment:
        parts.append(column.table_comment)
    if column.references:
        parts.append(f"Refers to {column.references}.")
    if samples:
        parts.append(f"Values such as {', '.join(samples)}.")
    metadata: dict[str, Any] = {
        "field_name": column.name,
        "field_type": column.type,
        "schema": column.schema,
        "table": shown,
        "description": column.comment or said,
        "sample_values": list(samples),
        "required": column.required,
        "primary_key": column.primary,
    }
    if column.references:
        metadata["references"] = column.references
    return KnowledgeNode(
        tenant_id=tenant,
        dataset_name=dataset,
        node_type=FIELD,
        node_key=f"{dataset}/{column.schema}.{column.table}.{column.name}",
        title=f"{shown}.{column.name}",
        summary=said,
        content_description=" ".join(parts),
        metadata=metadata,
    )


def _words(name: str) -> str:
    """A name of a table or column as words: ``customerEmail_address`` reads better apart."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return " ".join(re.split(r"[_\W]+", apart)).strip() or name

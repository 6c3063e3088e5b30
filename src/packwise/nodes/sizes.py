"""How large the nodes and their indexes are, and how fast they grow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from packwise.nodes.schema import check_version, read_settings
from packwise.nodes.transactions import become_able_to_read
from packwise.stores.postgres.connections import PostgresPool
from packwise.stores.postgres.errors import translated_errors
from packwise.stores.postgres.migrations import raw_sql

_SIZES = """SELECT max(coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0),
    greatest(c.reltuples, 0)::bigint)) FILTER (WHERE c.relname = 'knowledge_nodes'),
    sum(pg_table_size(c.oid))::bigint FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE 'knowledge\\_%%'"""
_INDEXES = """SELECT x.relname, pg_relation_size(x.oid) FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_index AS i ON i.indrelid = c.oid
    JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE n.nspname = %s AND c.relname LIKE 'knowledge\\_%%' ORDER BY 2 DESC, 1"""
_GROWTH = """SELECT to_char(measured_at, 'YYYY-MM-DD HH24:MI'),
    (%s - bytes) * 86400.0 / greatest(extract(epoch FROM now() - measured_at), 86400)
    FROM {} WHERE measured_at > now() - interval '30 days' ORDER BY measured_at LIMIT 1"""


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """Sizes in bytes; ``nodes`` is the server's estimate. ``bytes_per_day`` is the growth of
    tables and indexes since the first measurement of the last 30 days, if there is one; less than
    a day counts as one."""

    nodes: int
    table_bytes: int
    index_bytes: Mapping[str, int]
    bytes_per_day: float | None = None
    since: str = ""


def measure_sizes(url: str) -> NodeSizes:
    """Measure, and keep the measurement if this user may write it."""
    pool = PostgresPool(url)
    with (
        closing(pool.dedicated()) as connection,
        translated_errors(pool.location),
        connection.transaction(),
    ):
        path = pool.schema_path(connection)
        become_able_to_read(connection, path, pool.location)
        read_settings(connection, pool.location, path)
        check_version(connection, pool.location, path)
        nodes, tables = connection.execute(_SIZES, (path.schema,)).fetchone() or (0, 0)
        indexes = dict(connection.execute(_INDEXES, (path.schema,)).fetchall())
        total = tables + sum(indexes.values())
        table = path.name("knowledge_sizes")
        named = (table.as_string(connection), "SELECT, INSERT")
        if connection.execute("SELECT has_table_privilege(%s, %s)", named).fetchone() != (True,):
            return NodeSizes(nodes, tables, indexes)
        row = connection.execute(raw_sql(_GROWTH).format(table), (total,)).fetchone()
        connection.execute(
            raw_sql("INSERT INTO {} (nodes, bytes) VALUES (%s, %s)").format(table), (nodes, total)
        )
    since, growth = row or ("", None)
    return NodeSizes(nodes, tables, indexes, None if growth is None else float(growth), since)

"""The tables and functions for knowledge nodes of many tenants. Their SQL is in ``sql/``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Literal

from packwise.errors import EmbedderMismatch, StoreError, StoreMissing, UsageError
from packwise.stores.bm25 import K1, B
from packwise.stores.postgres.connections import Connection, PostgresPool
from packwise.stores.postgres.errors import translated_errors
from packwise.stores.postgres.migrations import (
    SchemaStep,
    create_textsearch,
    load_sql,
    migrate,
    require_vector,
)

VectorIndexKind = Literal["hnsw", "ivfflat"]
KeywordRanking = Literal["auto", "pg_textsearch", "sql"]

_VECTOR_INDEX = "idx_knowledge_nodes_embedding"
_MAX_DIMENSIONS = 2000
"""The most dimensions that an index of pgvector takes."""


@dataclass(frozen=True, slots=True)
class NodesSchema:
    """How to create the tables: the dimension of the vectors, the text search configuration,
    the role that applications work as, the vector index, and what finds keywords."""

    dim: int
    language: str = "english"
    role: str = "packwise_app"
    index: VectorIndexKind = "hnsw"
    ranking: KeywordRanking = "auto"

    def __post_init__(self) -> None:
        if not 1 <= self.dim <= _MAX_DIMENSIONS:
            raise UsageError(f"a vector has 1 to {_MAX_DIMENSIONS} dimensions, not {self.dim}")


def init_nodes(url: str, schema: NodesSchema) -> list[str]:
    """Create the tables for nodes, or bring them up to date; the steps that were taken.

    Raises ``EmbedderMismatch`` if they exist with another dimension.
    """
    pool = PostgresPool(url)
    steps = (SchemaStep(1, "knowledge nodes", lambda connection: _create(connection, schema)),)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        done = migrate(connection, "nodes", steps, pool.location)
        dim = read_settings(connection, pool.location)["dim"]
    if int(dim) != schema.dim:
        raise EmbedderMismatch(
            f"{pool.location} has nodes of {dim} dimensions, not {schema.dim}",
            fix=f"packwise db init URL --dim {dim}, or use another schema",
        )
    return done


def rebuild_vector_index(url: str, kind: VectorIndexKind | None = None) -> VectorIndexKind:
    """Rebuild the vector index without blocking readers or writers; its kind.

    Useful after a large import, and for ``ivfflat`` after the table has grown, since the number
    of its lists follows the number of rows.
    """
    pool = PostgresPool(url)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        settings = read_settings(connection, pool.location)
        chosen: VectorIndexKind = kind or ("ivfflat" if settings["index"] == "ivfflat" else "hnsw")
        connection.execute("SET maintenance_work_mem = '1GB'")
        connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {_VECTOR_INDEX}".encode())
        _create_vector_index(connection, chosen, "CONCURRENTLY")
        connection.execute(
            "UPDATE packwise_settings SET value = %s WHERE name = 'index'", (chosen,)
        )
        connection.execute("VACUUM (ANALYZE) knowledge_nodes, knowledge_postings, knowledge_terms")
    return chosen


def read_settings(connection: Connection, location: str) -> dict[str, str]:
    """What the tables were created with. Raises ``StoreMissing`` if there are none."""
    (table,) = connection.execute("SELECT to_regclass('packwise_settings')").fetchone() or (None,)
    if table is None:
        raise StoreMissing(
            f"{location} has no tables for knowledge nodes", fix="packwise db init URL --dim 384"
        )
    return dict(connection.execute("SELECT name, value FROM packwise_settings").fetchall())


def _create(connection: Connection, schema: NodesSchema) -> None:
    from psycopg.sql import Identifier

    require_vector(connection)
    _check_language(connection, schema.language)
    reason = None if schema.ranking == "sql" else create_textsearch(connection)
    if reason is not None and schema.ranking == "pg_textsearch":
        raise StoreError(
            f"pg_textsearch cannot be used: {reason}",
            fix="install it and add it to shared_preload_libraries, or use --ranking sql",
        )
    textsearch = schema.ranking != "sql" and reason is None
    _create_role(connection, schema.role)
    values = {
        "dim": schema.dim,
        "language": schema.language,
        "text": load_sql(__name__, "node_text"),
        "k1": K1,
        "b": B,
        "textsearch": textsearch,
        "role": Identifier(schema.role),
        "role_name": schema.role,
    }
    before = ("tables", "textsearch", "tenants") if textsearch else ("tables", "tenants")
    legs = ("band", "keyword_leg", "vector_leg", "search_nodes", "hybrid_search_nodes")
    for name in (*before, "statistics", *legs, "grants"):
        connection.execute(load_sql(__name__, name, **values))
    _create_vector_index(connection, schema.index)
    settings = asdict(schema) | {"ranking": "pg_textsearch" if textsearch else "sql"}
    for name, value in settings.items():
        connection.execute("INSERT INTO packwise_settings VALUES (%s, %s)", (name, str(value)))


def _create_vector_index(connection: Connection, kind: VectorIndexKind, how: str = "") -> None:
    options = ""
    if kind == "ivfflat":
        (rows,) = connection.execute("SELECT count(*) FROM knowledge_nodes").fetchone() or (0,)
        options = f"WITH (lists = {max(1, round(rows**0.5))})"
    connection.execute(
        f"CREATE INDEX {how} {_VECTOR_INDEX} ON knowledge_nodes"
        f" USING {kind} (embedding vector_cosine_ops) {options}".encode()
    )


def _check_language(connection: Connection, name: str) -> None:
    found = connection.execute("SELECT 1 FROM pg_ts_config WHERE cfgname = %s", (name,)).fetchone()
    if found is None or not name.isidentifier():
        raise UsageError(
            f"the server has no text search configuration {name!r}",
            fix="choose one from: SELECT cfgname FROM pg_ts_config",
        )


def _create_role(connection: Connection, role: str) -> None:
    """Create the role that applications work as: without login, ownership, or anything that
    bypasses row-level security."""
    from psycopg import sql

    if not role.isidentifier() or role != role.lower():
        raise UsageError(f"the role {role!r} is not a plain lower-case name")
    row = connection.execute(
        "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s", (role,)
    ).fetchone()
    if row is None:
        create = sql.SQL("CREATE ROLE {} NOLOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT")
        connection.execute(create.format(sql.Identifier(role)))
    elif row[0]:
        raise StoreError(
            f"the role {role!r} sees every tenant: it is a superuser or bypasses row security",
            fix="name another with --role",
        )
    if connection.execute("SELECT current_user").fetchone() == (role,):
        raise StoreError(
            f"{role!r} would own the tables it works on", fix="run db init as another user"
        )
    connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(role)))

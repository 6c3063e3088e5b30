"""The tables and functions for knowledge nodes of many tenants. Their SQL is in ``sql/``."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from packwise.errors import EmbedderMismatch, StoreError, StoreMissing, UsageError
from packwise.nodes.privileges import check_privileges
from packwise.nodes.relevance import load_relevance
from packwise.stores.bm25 import K1, B
from packwise.stores.postgres.connections import Connection, PostgresPool, is_pooled
from packwise.stores.postgres.errors import translated_errors
from packwise.stores.postgres.migrations import (
    SchemaStep,
    create_textsearch,
    load_sql,
    migrate,
    raw_sql,
    require_vector,
)
from packwise.stores.postgres.schemas import SchemaPath, use_schema

if TYPE_CHECKING:
    from psycopg.sql import Composable

VectorIndexKind = Literal["hnsw", "ivfflat"]
KeywordRanking = Literal["auto", "pg_textsearch", "sql"]

_VECTOR_INDEX = "idx_knowledge_nodes_embedding"
_NEW_VECTOR_INDEX = f"{_VECTOR_INDEX}_new"
_MAX_DIMENSIONS = 2000
"""The most dimensions that an index of pgvector takes."""


CJK = "([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
"""One character of a script that is written without spaces: Japanese kana, Chinese characters."""
_NOTHING = "(?!)()"
_FUNCTIONS = (
    "words",
    "tenant_functions",
    "statistics",
    "band",
    "keyword_leg",
    "vector_leg",
    "search_nodes",
    "hybrid_search_nodes",
)
_FUNCTION_NAMES = [
    "packwise_words",
    "packwise_tenants",
    "packwise_sum_totals",
    "packwise_nodes_added",
    "packwise_nodes_removed",
    "packwise_nodes_changed",
    "packwise_nodes_emptied",
    "packwise_node_touched",
    "packwise_embedded_text",
    "packwise_band",
    "packwise_keyword_leg",
    "packwise_vector_leg",
    "packwise_search_nodes",
    "hybrid_search_nodes",
]
_TENANT_TABLES = (
    "knowledge_nodes",
    "knowledge_groups",
    "knowledge_postings",
    "knowledge_terms",
    "knowledge_totals",
)


@dataclass(frozen=True, slots=True)
class NodesSchema:
    """How to create the tables: the dimension of the vectors, the text search configuration,
    the role that applications work as, the vector index, and what finds keywords.

    ``None`` is the default for new tables, and whatever there is for existing ones.
    """

    dim: int | None = None
    language: str | None = None
    role: str | None = None
    index: VectorIndexKind | None = None
    ranking: KeywordRanking | None = None

    def __post_init__(self) -> None:
        if self.dim is not None and not 1 <= self.dim <= _MAX_DIMENSIONS:
            raise UsageError(f"a vector has 1 to {_MAX_DIMENSIONS} dimensions, not {self.dim}")


DEFAULTS = NodesSchema(384, "english", "packwise_app", "hnsw", "auto")


def init_nodes(url: str, schema: NodesSchema) -> list[str]:
    """Create the tables for nodes, or bring them up to date; the steps that were taken.

    Raises ``EmbedderMismatch`` if they exist with another dimension, ``StoreError`` if another
    option differs from theirs; nothing is changed then.
    """
    from psycopg import errors

    pool = PostgresPool(url)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        path = pool.schema_path(connection)
        role = schema.role or str(DEFAULTS.role)
        with suppress(StoreMissing, errors.InsufficientPrivilege):
            stored = read_settings(connection, pool.location, path)
            _check_options(schema, stored, pool.location)
            role = stored["role"]
        check_privileges(connection, path, role)
        steps = (
            SchemaStep(1, "knowledge nodes", lambda connection: _create(connection, schema)),
            SchemaStep(2, "keys by data set", _keys_by_data_set),
            SchemaStep(3, "faster search", _replace_functions),
            SchemaStep(4, "faster search of small tenants", _replace_functions),
            SchemaStep(5, "searches that are planned once", _replace_functions),
        )
        return migrate(connection, "nodes", steps, pool.location, path)


def rebuild_vector_index(url: str, kind: VectorIndexKind | None = None) -> VectorIndexKind:
    """Rebuild the vector index without blocking readers or writers; its kind.

    Useful after a large import, and for ``ivfflat`` after the table has grown, since the number
    of its lists follows the number of rows. Searches use the old index until the new one is ready.
    """
    from psycopg.sql import Identifier

    pool = PostgresPool(url)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        path = pool.schema_path(connection)
        settings = read_settings(connection, pool.location, path)
        chosen: VectorIndexKind = kind or ("ivfflat" if settings["index"] == "ivfflat" else "hnsw")
        if not is_pooled(connection):
            connection.execute("SET maintenance_work_mem = '1GB'")
        tables = map(path.name, ("knowledge_nodes", "knowledge_postings", "knowledge_terms"))
        connection.execute(raw_sql("VACUUM (ANALYZE) {}, {}, {}").format(*tables))
        old, new = path.name(_VECTOR_INDEX), path.name(_NEW_VECTOR_INDEX)
        drop = raw_sql("DROP INDEX CONCURRENTLY IF EXISTS {}")
        connection.execute(drop.format(new))  # of a rebuild that was stopped
        table = path.name("knowledge_nodes")
        _create_vector_index(connection, table, _NEW_VECTOR_INDEX, chosen, "CONCURRENTLY")
        connection.execute(drop.format(old))
        rename = raw_sql("ALTER INDEX {} RENAME TO {}")
        connection.execute(rename.format(new, Identifier(_VECTOR_INDEX)))
        connection.execute(
            raw_sql("UPDATE {} SET value = %s WHERE name = 'index'").format(
                path.name("packwise_settings")
            ),
            (chosen,),
        )
    return chosen


def drop_nodes(url: str) -> None:
    """Remove the tables and functions for nodes with everything in them; passages stay."""
    pool = PostgresPool(url)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        path = pool.schema_path(connection)
        read_settings(connection, pool.location, path)
        with connection.transaction():
            use_schema(connection, path)
            connection.execute(load_sql(__name__, "drop", functions=_FUNCTION_NAMES))


def read_settings(connection: Connection, location: str, path: SchemaPath) -> dict[str, str]:
    """What the tables were created with. Raises ``StoreMissing`` if there are none."""
    if not path.exists:
        raise StoreMissing(
            f"{location}: there is no schema {path.schema!r}",
            fix="correct its name, or create it with packwise db init URL",
        )
    (table,) = connection.execute(
        "SELECT to_regclass(%s)", (path.name("packwise_settings").as_string(connection),)
    ).fetchone() or (None,)
    if table is None:
        raise StoreMissing(
            f"{location} has no tables for knowledge nodes", fix="packwise db init URL --dim 384"
        )
    query = raw_sql("SELECT name, value FROM {}").format(path.name("packwise_settings"))
    return dict(connection.execute(query).fetchall())


def check_version(connection: Connection, location: str, path: SchemaPath) -> None:
    """Raise ``StoreError`` for tables that an earlier Packwise has created."""
    table = path.name("knowledge_bindings").as_string(connection)
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
        raise StoreError(
            f"the nodes of {location} were created by an earlier Packwise",
            fix="packwise db init URL brings them up to date and keeps every node",
        )


def _check_options(schema: NodesSchema, stored: dict[str, str], location: str) -> None:
    """Raise an error for options that differ from those of existing tables."""
    asked = {name: value for name, value in asdict(schema).items() if value not in (None, "auto")}
    other = {name: value for name, value in asked.items() if str(value) != stored[name]}
    if "dim" in other:
        raise EmbedderMismatch(
            f"{location} has nodes of {stored['dim']} dimensions, not {schema.dim}",
            fix=f"packwise db init URL --dim {stored['dim']}, or use another schema",
        )
    if other:
        differing = "; ".join(f"{n} is {stored[n]}, not {value}" for n, value in other.items())
        change = "packwise db reindex URL --index KIND changes the index; "
        raise StoreError(
            f"{location} exists with other options: {differing}",
            fix=f"{change if 'index' in other else ''}leave the option out, or use another schema",
        )


def _create(connection: Connection, asked: NodesSchema) -> None:
    """Step 1: the tables, as the first Packwise with knowledge nodes created them."""
    from psycopg.sql import Identifier

    given = {name: value for name, value in asdict(asked).items() if value is not None}
    schema = replace(DEFAULTS, **given)
    language, role = str(schema.language), str(schema.role)
    require_vector(connection)
    _check_language(connection, language)
    reason = None if schema.ranking == "sql" else create_textsearch(connection)
    if reason is not None and schema.ranking == "pg_textsearch":
        raise StoreError(
            f"pg_textsearch cannot be used: {reason}",
            fix="install it and add it to shared_preload_libraries, or use --ranking sql",
        )
    textsearch = schema.ranking != "sql" and reason is None
    _create_role(connection, role)
    values = {
        "dim": schema.dim,
        "language": language,
        "text": load_sql(__name__, "node_text"),
        "k1": K1,
        "b": B,
    }
    for name in ("tables", "textsearch", "tenants") if textsearch else ("tables", "tenants"):
        connection.execute(load_sql(__name__, name, **values))
    table = Identifier("knowledge_nodes")
    _create_vector_index(connection, table, _VECTOR_INDEX, schema.index or "hnsw")
    settings = asdict(schema) | {"ranking": "pg_textsearch" if textsearch else "sql"}
    for name, value in settings.items():
        connection.execute("INSERT INTO packwise_settings VALUES (%s, %s)", (name, str(value)))


def _keys_by_data_set(connection: Connection) -> None:
    """Step 2: a key is unique per tenant and data set, and all functions are replaced."""
    for name in ("data_set_keys", "relevance"):
        connection.execute(load_sql(__name__, name))
    _replace_functions(connection)
    load_relevance(connection)
    # The owner of the tables is subject to row-level security too.
    for words in ("NO FORCE", "FORCE"):
        if words == "FORCE":
            connection.execute(load_sql(__name__, "split_words", cjk=_cjk(connection)))
        for table in _TENANT_TABLES:
            connection.execute(f"ALTER TABLE {table} {words} ROW LEVEL SECURITY".encode())


def _replace_functions(connection: Connection) -> None:
    """Step 3: searches compute the relevance without a look at each node, and count once. Step 4:
    they ask for the tenants with less work. Step 5: one plan does for all searches of a session."""
    connection.execute(load_sql(__name__, "old_functions"))
    settings = dict(connection.execute("SELECT name, value FROM packwise_settings").fetchall())
    create_functions(connection, settings)


def create_functions(connection: Connection, settings: dict[str, str]) -> None:
    """Create the functions and triggers, or replace them, and grant what roles need."""
    values = {
        "dim": int(settings["dim"]),
        "language": settings["language"],
        "k1": K1,
        "b": B,
        "textsearch": settings["ranking"] == "pg_textsearch",
        "cjk": _cjk(connection),
    }
    for name in _FUNCTIONS:
        connection.execute(load_sql(__name__, name, **values))
    # A function that was dropped for another has lost what logins were granted.
    bound = connection.execute(
        "SELECT rolname FROM pg_roles WHERE rolname IN (SELECT role_name FROM knowledge_bindings)"
    )
    for role in (settings["role"], *(login for (login,) in bound.fetchall())):
        grant_nodes(connection, role)


def grant_nodes(connection: Connection, role: str) -> None:
    """Let a role work with nodes."""
    _for_role(connection, "grants", role)


def revoke_nodes(connection: Connection, role: str) -> None:
    """Take from a role what ``grant_nodes`` has given it."""
    _for_role(connection, "revokes", role)


def _for_role(connection: Connection, name: str, role: str) -> None:
    from psycopg.sql import Identifier

    values = {"role": Identifier(role), "role_name": role, "functions": _FUNCTION_NAMES}
    connection.execute(load_sql(__name__, name, **values))


def _cjk(connection: Connection) -> str:
    return CJK if connection.info.encoding == "utf-8" else _NOTHING


def _create_vector_index(
    connection: Connection, table: Composable, name: str, kind: VectorIndexKind, how: str = ""
) -> None:
    found = connection.execute(
        "SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n"
        " ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    operators = f"{found[0] if found else 'public'}.vector_cosine_ops"
    options = ""
    if kind == "ivfflat":
        # The owner is subject to row-level security, and could not count the rows.
        (rows,) = connection.execute(
            "SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = %s::regclass",
            (table.as_string(connection),),
        ).fetchone() or (0,)
        options = f"WITH (lists = {max(1, round(rows**0.5))})"
    create = f"CREATE INDEX {how} {name} ON {{}} USING {kind} (embedding {operators}) {options}"
    connection.execute(raw_sql(create).format(table))


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
    from psycopg import errors, sql

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
    # A user who may not grant the role has been granted it: see check_privileges.
    with suppress(errors.InsufficientPrivilege), connection.transaction():
        connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(role)))

"""SQL files, numbered steps that create and change tables, and the extensions they need.

pgvector is required; pg_textsearch is used where the server has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, LiteralString, cast

from packwise.errors import StoreError
from packwise.stores.postgres.schemas import SchemaPath, find_schema, use_schema

if TYPE_CHECKING:
    from psycopg.sql import SQL, Composed

    from packwise.stores.postgres.connections import Connection

VECTOR_VERSION = (0, 8)
"""The first pgvector whose index scans go on when a filter discards rows."""
_LOCK = 0x7061636B
"""An arbitrary number, the same in every Packwise."""
_PARAMETER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One step; ``apply`` runs inside the transaction that records it."""

    version: int
    name: str
    apply: Callable[[Connection], None]


def load_sql(module: str, name: str, **values: Any) -> Composed:
    """The file ``sql/NAME.sql`` beside a module. ``{parameter}`` in it becomes the value of that
    name: SQL of psycopg as it is, anything else as a quoted literal."""
    from psycopg.sql import Composed

    parts = _PARAMETER.split(_read_file(module.rpartition(".")[0], name))
    return Composed([values[part] if i % 2 else raw_sql(part) for i, part in enumerate(parts)])


def raw_sql(text: str) -> SQL:
    """A fragment of SQL as it is. It must not contain anything that a caller gave."""
    from psycopg.sql import SQL

    return SQL(cast("LiteralString", text))


@cache
def _read_file(package: str, name: str) -> str:
    return files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def migrate(
    connection: Connection,
    component: str,
    steps: Sequence[SchemaStep],
    location: str,
    path: SchemaPath,
) -> list[str]:
    """Apply the steps that this database lacks, and return their names. The schema is created
    if it is missing.

    Raises ``StoreError`` for a database that a later Packwise has changed.
    """
    from psycopg import sql

    done: list[str] = []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if not path.exists:
            create = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}")
            connection.execute(create.format(sql.Identifier(path.schema)))
        use_schema(connection, path)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS packwise_migrations (component text, version integer,"
            " name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),"
            " PRIMARY KEY (component, version))"
        )
        (applied,) = connection.execute(
            "SELECT coalesce(max(version), 0) FROM packwise_migrations WHERE component = %s",
            (component,),
        ).fetchone() or (0,)
        if applied > steps[-1].version:
            raise StoreError(
                f"{location} was created by a later Packwise (step {applied} of {component})",
                fix="pip install --upgrade packwise",
            )
        for step in steps:
            if step.version > applied:
                step.apply(connection)
                connection.execute(
                    "INSERT INTO packwise_migrations (component, version, name)"
                    " VALUES (%s, %s, %s)",
                    (component, step.version, step.name),
                )
                done.append(step.name)
    return done


def require_vector(connection: Connection) -> None:
    """Make sure that the database has a recent pgvector. Raises ``StoreError``."""
    from psycopg import errors

    version = _installed_version(connection, "vector")
    if version is None:
        try:
            _create(connection, b"vector")
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                "this database lacks the extension vector, and this user may not create it",
                fix="ask an administrator to run: CREATE EXTENSION vector",
            ) from error
        version = _installed_version(connection, "vector") or ""
    if tuple(int(part) for part in version.split(".") if part.isdigit()) < VECTOR_VERSION:
        raise StoreError(
            f"pgvector is {version}, Packwise needs {'.'.join(map(str, VECTOR_VERSION))}",
            fix="upgrade pgvector, then run: ALTER EXTENSION vector UPDATE",
        )


def create_textsearch(connection: Connection) -> str | None:
    """Add pg_textsearch to this database; the reason if that is not possible, else ``None``."""
    import psycopg

    if _installed_version(connection, "pg_textsearch"):
        return None
    available = connection.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_textsearch'"
    ).fetchone()
    if available is None:
        return "the server does not have pg_textsearch"
    try:
        with connection.transaction():
            _create(connection, b"pg_textsearch")
    except psycopg.Error as error:
        return str(error).splitlines()[0]
    return None


def _installed_version(connection: Connection, name: str) -> str | None:
    row = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = %s", (name,)
    ).fetchone()
    return row[0] if row else None


def _create(connection: Connection, name: bytes) -> None:
    """In ``public``, not in the first schema of the search path: other schemas may need the
    extension too, and dropping the schema would drop it. For the rest of the transaction, the
    search path includes it."""
    public = connection.execute("SELECT to_regnamespace('public')").fetchone()
    schema = b" WITH SCHEMA public" if public and public[0] else b""
    connection.execute(b"CREATE EXTENSION IF NOT EXISTS " + name + schema)
    (current,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
    use_schema(connection, find_schema(connection, (current,)))

"""The server's extensions: pgvector is required, pg_textsearch is used where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packwise.errors import StoreError

if TYPE_CHECKING:
    from packwise.stores.postgres.connections import Connection

VECTOR_VERSION = (0, 8)
"""The first pgvector whose index scans go on when a filter discards rows."""


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


def show_extensions(connection: Connection) -> None:
    """Add the schemas of the extensions to the end of the search path, for URLs that name
    only another schema."""
    connection.execute(
        "SELECT set_config('search_path', concat_ws(', ', current_setting('search_path'),"
        " string_agg(DISTINCT quote_ident(n.nspname), ', ')), false) FROM pg_extension AS e"
        " JOIN pg_namespace AS n ON n.oid = e.extnamespace"
        " WHERE e.extname IN ('vector', 'pg_textsearch')"
        " AND n.nspname <> ALL (current_schemas(true))"
    )


def _installed_version(connection: Connection, name: str) -> str | None:
    row = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = %s", (name,)
    ).fetchone()
    return row[0] if row else None


def _create(connection: Connection, name: bytes) -> None:
    """In ``public``, not in the first schema of the search path: other schemas may need the
    extension too, and dropping the schema would drop it."""
    public = connection.execute("SELECT to_regnamespace('public')").fetchone()
    schema = b" WITH SCHEMA public" if public and public[0] else b""
    connection.execute(b"CREATE EXTENSION IF NOT EXISTS " + name + schema)
    show_extensions(connection)

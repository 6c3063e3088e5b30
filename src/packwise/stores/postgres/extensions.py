"""The server's extensions: pgvector is needed, pg_textsearch is used where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packwise.errors import StoreError

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

VECTOR_VERSION = (0, 8)
"""The first pgvector whose index scans go on when a filter turns rows away."""


def require_vector(connection: Connection) -> None:
    """Make sure that pgvector is there, and recent enough. Raises ``StoreError``."""
    from psycopg import errors

    row = installed(connection, "vector")
    if row is None:
        try:
            _create(connection, b"vector")
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                "the extension vector is not in this database, and this user may not create it",
                fix="let an administrator run: CREATE EXTENSION vector",
            ) from error
        show_extensions(connection)
        row = installed(connection, "vector")
    assert row is not None
    if _numbers(row) < VECTOR_VERSION:
        raise StoreError(
            f"pgvector is {row}, Packwise needs {'.'.join(map(str, VECTOR_VERSION))}",
            fix="upgrade pgvector, then run: ALTER EXTENSION vector UPDATE",
        )


def installed(connection: Connection, name: str) -> str | None:
    """The version of an extension of this database."""
    row = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = %s", (name,)
    ).fetchone()
    return row[0] if row else None


def create_textsearch(connection: Connection) -> str | None:
    """Make pg_textsearch part of this database; why it cannot be, or ``None``."""
    import psycopg

    if installed(connection, "pg_textsearch"):
        return None
    there = connection.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_textsearch'"
    ).fetchone()
    if there is None:
        return "the server does not have pg_textsearch"
    try:
        with connection.transaction():
            _create(connection, b"pg_textsearch")
    except psycopg.Error as error:
        return str(error).splitlines()[0]
    show_extensions(connection)
    return None


def show_extensions(connection: Connection) -> None:
    """Put the schemas that hold the extensions at the end of the search path, where the URL
    names another schema alone."""
    connection.execute(
        "SELECT set_config('search_path', concat_ws(', ', current_setting('search_path'),"
        " string_agg(DISTINCT quote_ident(n.nspname), ', ')), false) FROM pg_extension AS e"
        " JOIN pg_namespace AS n ON n.oid = e.extnamespace"
        " WHERE e.extname IN ('vector', 'pg_textsearch')"
        " AND n.nspname <> ALL (current_schemas(true))"
    )


def extension_schemas(connection: Connection) -> list[str]:
    """Where the extensions are: whoever calls them needs to see into these schemas."""
    rows = connection.execute(
        "SELECT DISTINCT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n"
        " ON n.oid = e.extnamespace WHERE e.extname IN ('vector', 'pg_textsearch')"
    )
    return [name for (name,) in rows]


def _create(connection: Connection, name: bytes) -> None:
    """Not into the first schema of the path: others may need it too, and dropping that schema
    would take it away from them."""
    public = connection.execute("SELECT to_regnamespace('public')").fetchone()
    at = b" WITH SCHEMA public" if public and public[0] else b""
    connection.execute(b"CREATE EXTENSION IF NOT EXISTS " + name + at)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())

"""Tables made and changed by numbered steps, each in a transaction and remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packwise.errors import StoreError

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

# Any number will do, as long as all of Packwise takes the same.
_LOCK = 0x7061636B


@dataclass(frozen=True, slots=True)
class Migration:
    """One step; ``apply`` runs inside a transaction that also records it."""

    version: int
    name: str
    apply: Callable[[Connection], None]


def migrate(
    connection: Connection,
    component: str,
    steps: Sequence[Migration],
    location: str,
) -> list[str]:
    """Apply the steps this database lacks; their names. Running it again does nothing.

    Raises ``StoreError`` on a database that a later Packwise has changed.
    """
    done: list[str] = []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        _ensure_schema(connection)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS packwise_migrations (component text, version integer,"
            " name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),"
            " PRIMARY KEY (component, version))"
        )
        applied = applied_version(connection, component)
        if applied > steps[-1].version:
            raise StoreError(
                f"{location} was made by a later Packwise (step {applied} of {component})",
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


def applied_version(connection: Connection, component: str) -> int:
    """The last step of a component this database has; 0 for none."""
    (there,) = _one(connection, "SELECT to_regclass('packwise_migrations') IS NOT NULL")
    if not there:
        return 0
    (version,) = _one(
        connection,
        "SELECT coalesce(max(version), 0) FROM packwise_migrations WHERE component = %s",
        (component,),
    )
    return version


def _ensure_schema(connection: Connection) -> None:
    """Make the schema the URL names first, where it is missing."""
    from psycopg import sql

    (first, there) = _one(
        connection,
        "SELECT trim(both ' \"' FROM split_part(current_setting('search_path'), ',', 1)),"
        " current_schema()",
    )
    if first in ("$user", there) or (there is not None and first == ""):
        return
    connection.execute(
        sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(first or "public"))
    )


def _one(connection: Connection, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return row

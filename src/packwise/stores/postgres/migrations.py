"""Tables created and changed in numbered steps, each of which is recorded in the database."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, LiteralString, cast

from packwise.errors import StoreError

if TYPE_CHECKING:
    from psycopg.sql import SQL, Composed

    from packwise.stores.postgres.connections import Connection

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
    connection: Connection, component: str, steps: Sequence[SchemaStep], location: str
) -> list[str]:
    """Apply the steps that this database lacks, and return their names.

    Raises ``StoreError`` for a database that a later Packwise has changed.
    """
    done: list[str] = []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        _create_schema(connection)
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


def _create_schema(connection: Connection) -> None:
    """Create the first schema of the search path, if it is missing."""
    from psycopg import sql

    row = connection.execute(
        "SELECT trim(both ' \"' FROM split_part(current_setting('search_path'), ',', 1)),"
        " current_schema()"
    ).fetchone()
    first, current = row or ("", None)
    if first in ("$user", current) or (current is not None and first == ""):
        return
    connection.execute(
        sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(first or "public"))
    )

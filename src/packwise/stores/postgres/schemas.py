"""Which schema of a database holds Packwise's tables.

It is the first schema of the search path, and no other: a schema that does not exist is never
replaced by the next one. Packwise reads the search path of a URL itself and sets it for one
transaction at a time, because a pooler ignores or shares what a session was started with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg.sql import Composed

    from packwise.stores.postgres.connections import Connection

_OPTION = re.compile(r"(?:^|\s)(?:-c\s*|--)search[_-]path=((?:\\.|\S)*)")
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,"]*?))\s*(?:,|$)')
_EXTENSIONS = """SELECT array_agg(DISTINCT quote_ident(n.nspname)) FROM pg_extension AS e
    JOIN pg_namespace AS n ON n.oid = e.extnamespace
    WHERE e.extname IN ('vector', 'pg_textsearch')"""


@dataclass(frozen=True, slots=True)
class SchemaPath:
    """The schema of the tables, whether it exists, and the quoted schemas of the extensions."""

    schema: str
    exists: bool
    extensions: tuple[str, ...]

    @property
    def search_path(self) -> str:
        """The schema and those of the extensions. Temporary tables come last: one that another
        client of a pooler left behind must not hide a table."""
        quoted = '"' + self.schema.replace('"', '""') + '"'
        return ", ".join(dict.fromkeys((quoted, *self.extensions, "pg_temp")))

    def name(self, table: str) -> Composed:
        """A table or function of the schema, as SQL."""
        from psycopg.sql import SQL, Identifier

        return SQL("{}").format(Identifier(self.schema, table))


def take_search_path(conninfo: dict[str, Any]) -> tuple[str, ...]:
    """The schemas that the ``options`` of a connection name, which are removed from it."""
    options = str(conninfo.get("options") or "")
    values = _OPTION.findall(options)
    if not values:
        return ()
    rest = _OPTION.sub("", options).strip()
    if rest:
        conninfo["options"] = rest
    else:
        del conninfo["options"]
    return schema_names(re.sub(r"\\(.)", r"\1", values[-1]))


def schema_names(search_path: str) -> tuple[str, ...]:
    """The schemas of a search path."""
    found = (
        quoted.replace('""', '"') or bare.strip().lower()
        for quoted, bare in _NAME.findall(search_path)
    )
    return tuple(name for name in found if name)


def find_schema(connection: Connection, named: tuple[str, ...]) -> SchemaPath:
    """The schema to use: the first of ``named``, or of the server's search path. ``$user`` is
    left out where the user has no schema."""
    path, user = connection.execute(
        "SELECT current_setting('search_path'), session_user"
    ).fetchone() or ("", "")
    names = list(named or schema_names(path)) or ["public"]
    first = user if names[0] == "$user" else names[0]
    following = [name for name in names[1:] if names[0] == "$user" and name != "$user"]
    candidates = [first, *following[:1]]
    rows = connection.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s::text[])", (candidates,)
    ).fetchall()
    there = {name for (name,) in rows}
    chosen = first if first in there else candidates[-1]
    (extensions,) = connection.execute(_EXTENSIONS).fetchone() or (None,)
    return SchemaPath(chosen, chosen in there, tuple(extensions or ()))


def use_schema(connection: Connection, path: SchemaPath, *, local: bool = True) -> None:
    """Set the search path: for this transaction, or for a session that is not shared."""
    connection.execute("SELECT set_config('search_path', %s, %s)", (path.search_path, local))

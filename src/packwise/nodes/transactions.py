"""How a transaction works with nodes: in which schema, as which role, for which tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packwise.errors import StoreError, UsageError
from packwise.stores.postgres.connections import Connection
from packwise.stores.postgres.rows import json_to_postgres
from packwise.stores.postgres.schemas import SchemaPath


@dataclass(frozen=True, slots=True)
class OpenedNodes:
    """Where the tables are, what they were created with, and the role to work as."""

    path: SchemaPath
    settings: Mapping[str, str]
    role: str


def check_tenants(tenants: Sequence[str]) -> list[str]:
    """The tenants as a list. Raises ``UsageError`` for what cannot be tenants."""
    if isinstance(tenants, str) or not tenants:
        raise UsageError("name at least one tenant", fix="tenant_ids is a list of tenant ids")
    for tenant in tenants:
        if not tenant or tenant != json_to_postgres(tenant):
            raise UsageError(f"{tenant!r} cannot be a tenant id")
    return list(tenants)


_ACCESS = """SELECT current_user::text,
    has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'), r.rolname,
    pg_has_role(r.oid, 'MEMBER')
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN LATERAL aclexplode(c.relacl) AS a ON a.privilege_type = 'SELECT'
    LEFT JOIN pg_roles AS r ON r.oid = a.grantee AND NOT r.rolcanlogin
    WHERE n.nspname = %s AND c.relname = 'packwise_settings'
    ORDER BY 4 DESC NULLS LAST LIMIT 1"""


def become_able_to_read(connection: Connection, path: SchemaPath, location: str) -> None:
    """Take on the application's role for this transaction, if the login has its privileges only
    then (``NOINHERIT``). Raises ``StoreError`` for a login that may not use it at all."""
    row = connection.execute(_ACCESS, (path.schema,)).fetchone()
    if row is None or row[1]:
        return
    user, _, role, member = row
    if not member:
        raise StoreError(
            f"{location}: the user {user!r} may not use the nodes",
            fix=f"run GRANT {role or 'packwise_app'} TO {user}, which may set any tenant, or"
            f" packwise db bind URL --login {user} --tenant ID, as the owner",
        )
    connection.execute("SELECT set_config('role', %s, true)", (role,))


def enter(
    connection: Connection, opened: OpenedNodes, tenants: Sequence[str], timeout_ms: int
) -> None:
    """Set the search path, role, tenants and timeout of a transaction."""
    timeout = ", set_config('statement_timeout', %s, true)" if timeout_ms else ""
    connection.execute(
        "SELECT set_config('search_path', %s, true), set_config('role', %s, true),"
        f" set_config('packwise.tenants', %s::text[]::text, true){timeout}".encode(),
        (
            opened.path.search_path,
            opened.role,
            list(tenants),
            *((str(timeout_ms),) if timeout_ms else ()),
        ),
    )


def take_turns(connection: Connection, opened: OpenedNodes) -> None:
    """Wait until no other transaction writes nodes, where pg_textsearch ranks them.

    It holds a lock of its own until the transaction ends. Two writers of the same rows would wait
    for each other for ever: PostgreSQL does not see that lock, and cannot interrupt the wait.
    """
    if opened.settings["ranking"] == "pg_textsearch":
        table = opened.path.name("knowledge_nodes").as_string(connection)
        connection.execute("SELECT pg_advisory_xact_lock(%s::regclass::oid::bigint)", (table,))


def check_role(connection: Connection, opened: OpenedNodes, location: str) -> None:
    """Raise ``StoreError`` if the role cannot be used, or could see every tenant."""
    from psycopg import errors

    try:
        enter(connection, opened, (), 0)
    except (errors.InsufficientPrivilege, errors.InvalidParameterValue) as error:
        raise StoreError(
            f"{location}: this user may not work as {opened.role!r}",
            fix=f"GRANT {opened.role} TO the user of the URL",
        ) from error
    table = opened.path.name("knowledge_nodes").as_string(connection)
    row = connection.execute(
        "SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(c.relowner, 'USAGE')"
        " FROM pg_roles AS r, pg_class AS c"
        " WHERE r.rolname = current_user AND c.oid = %s::regclass",
        (table,),
    ).fetchone()
    if row is None or row[0]:
        raise StoreError(
            f"{location}: the role {opened.role!r} could see every tenant's rows",
            fix="take superuser, bypassrls and the ownership of the tables away from it",
        )

"""Logins that are bound to tenants: whatever SQL they run, they see no other tenant's rows.

The application's role sees the tenants that it sets, so anyone who can use the role can set any
tenant. A bound login works as itself, cannot become that role, and the policies of the tables
look up its tenants by ``current_user``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from packwise.errors import StoreError, UsageError
from packwise.nodes.schema import check_version, grant_nodes, read_settings, revoke_nodes
from packwise.stores.postgres.connections import Connection, PostgresPool
from packwise.stores.postgres.errors import translated_errors
from packwise.stores.postgres.migrations import raw_sql
from packwise.stores.postgres.schemas import use_schema


def bind_login(url: str, login: str, tenants: Sequence[str]) -> None:
    """Bind a login of the server to tenants, instead of those it had; ``url`` names the owner of
    the tables. Raises ``StoreError`` for a login that could get around it."""
    from psycopg.sql import Identifier

    if not tenants or not all(tenants):
        raise UsageError("name at least one tenant")
    pool = PostgresPool(url)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        path = pool.schema_path(connection)
        role = read_settings(connection, pool.location, path)["role"]
        check_version(connection, pool.location, path)
        with connection.transaction():
            use_schema(connection, path)
            member = connection.execute(
                "SELECT pg_has_role(r.oid, %s, 'MEMBER') FROM pg_roles AS r"
                " WHERE r.rolname = %s AND NOT r.rolsuper",
                (role, login),
            ).fetchone()
            if member == (True,):
                revoke = raw_sql("REVOKE {} FROM {}")
                connection.execute(revoke.format(Identifier(role), Identifier(login)))
            _check_login(connection, login, role)
            grant_nodes(connection, login)
            connection.execute("DELETE FROM knowledge_bindings WHERE role_name = %s", (login,))
            connection.execute(
                "INSERT INTO knowledge_bindings SELECT %s, unnest(%s::text[])",
                (login, list(dict.fromkeys(tenants))),
            )


def unbind_login(url: str, login: str) -> None:
    """Take everything that belongs to nodes away from a login; what else it may do stays."""
    pool = PostgresPool(url)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        path = pool.schema_path(connection)
        read_settings(connection, pool.location, path)
        with connection.transaction():
            use_schema(connection, path)
            gone = connection.execute(
                "DELETE FROM knowledge_bindings WHERE role_name = %s", (login,)
            ).rowcount
            if not gone:
                raise StoreError(f"the login {login!r} is not bound to a tenant")
            revoke_nodes(connection, login)


def bound_logins(url: str) -> dict[str, tuple[str, ...]]:
    """The bound logins and their tenants."""
    pool = PostgresPool(url)
    with closing(pool.dedicated()) as connection, translated_errors(pool.location):
        path = pool.schema_path(connection)
        read_settings(connection, pool.location, path)
        check_version(connection, pool.location, path)
        query = "SELECT role_name::text, array_agg(tenant_id ORDER BY tenant_id) FROM {} GROUP BY 1"
        rows = connection.execute(
            raw_sql(f"{query} ORDER BY 1").format(path.name("knowledge_bindings"))
        )
        return {login: tuple(tenants) for login, tenants in rows}


def _check_login(connection: Connection, login: str, role: str) -> None:
    """Raise ``StoreError`` for a login that a policy does not hold."""
    row = connection.execute(
        "SELECT r.rolsuper OR r.rolbypassrls, r.rolcreaterole,"
        " pg_has_role(r.oid, c.relowner, 'MEMBER'), pg_has_role(r.oid, %s, 'MEMBER'),"
        " EXISTS (SELECT FROM pg_roles AS o WHERE (o.rolsuper OR o.rolbypassrls)"
        "  AND pg_has_role(r.oid, o.oid, 'MEMBER'))"
        " FROM pg_roles AS r, pg_class AS c"
        " WHERE r.rolname = %s AND c.oid = 'knowledge_nodes'::regclass",
        (role, login),
    ).fetchone()
    if row is None:
        raise StoreError(
            f"the server has no login {login!r}", fix=f"CREATE ROLE {login} LOGIN PASSWORD '...'"
        )
    reasons = (
        "is a superuser or bypasses row security",
        "may create roles, and so give itself others",
        "owns the tables, or may become their owner",
        f"may become {role!r}, which sees any tenant",
        "may become a role that sees every tenant",
    )
    for holds, reason in zip(row, reasons, strict=True):
        if holds:
            raise StoreError(
                f"the login {login!r} {reason}", fix="take that away from it, or bind another"
            )

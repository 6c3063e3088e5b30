"""What a user needs to create the tables for nodes: said before the first thing is created."""

from __future__ import annotations

from packwise.errors import StoreError
from packwise.stores.postgres.connections import Connection
from packwise.stores.postgres.schemas import SchemaPath

_RIGHTS = """SELECT current_user::text, r.rolsuper, r.rolcreaterole,
    has_database_privilege(current_database(), 'CREATE'),
    EXISTS (SELECT FROM pg_extension WHERE extname = 'vector'),
    EXISTS (SELECT FROM pg_available_extension_versions WHERE name = 'vector' AND trusted),
    coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %s),
        false),
    coalesce((SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = %s),
        false),
    EXISTS (SELECT FROM pg_roles WHERE rolname = %s),
    (SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname = 'knowledge_nodes'
        AND NOT pg_has_role(c.relowner, 'USAGE'))
    FROM pg_roles AS r WHERE r.rolname = current_user"""


def check_privileges(connection: Connection, path: SchemaPath, role: str) -> None:
    """Raise ``StoreError`` with the statements that an administrator has to run, if this user
    lacks a privilege to create the tables."""
    row = connection.execute(_RIGHTS, (path.schema, role, role, path.schema)).fetchone()
    assert row is not None
    user, superuser, create_role, create, has_vector, trusted, *rest = row
    in_schema, member, role_exists, other_owner = rest
    if superuser:
        return
    if other_owner is not None:
        raise StoreError(
            f"the tables for nodes belong to {other_owner!r}, not to {user!r}; nothing was changed",
            fix=f"run packwise db init as {other_owner}",
        )
    missing: list[str] = []
    if not path.exists and not create:
        missing.append(f"CREATE SCHEMA {path.schema} AUTHORIZATION {user}")
    if path.exists and not in_schema:
        missing.append(f"GRANT CREATE ON SCHEMA {path.schema} TO {user}")
    if not has_vector and not (trusted and create):
        missing.append("CREATE EXTENSION vector")
    if not role_exists and not create_role:
        missing.append(f"CREATE ROLE {role} NOLOGIN NOINHERIT")
    if not member and not (create_role and not role_exists):
        missing.append(f"GRANT {role} TO {user}")
    if missing:
        raise StoreError(
            f"the user {user!r} may not create the tables for nodes; nothing was changed",
            fix=f"ask an administrator to run: {'; '.join(missing)}",
        )

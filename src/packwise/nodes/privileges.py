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
    EXISTS (SELECT FROM pg_roles WHERE rolname = %s)
    FROM pg_roles AS r WHERE r.rolname = current_user"""


def check_privileges(connection: Connection, path: SchemaPath, role: str) -> None:
    """Raise ``StoreError`` with the statements that an administrator has to run, if this user
    lacks a privilege to create the tables."""
    row = connection.execute(_RIGHTS, (path.schema, role, role)).fetchone()
    assert row is not None
    user, superuser, create_role, create, has_vector, trusted, in_schema, member, role_exists = row
    if superuser:
        return
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

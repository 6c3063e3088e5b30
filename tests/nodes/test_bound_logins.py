"""A login that is bound to tenants stays inside them, whatever SQL it runs."""

from contextlib import suppress

import psycopg
import pytest
from nodes_world import DIM, field

from packwise.errors import StoreError
from packwise.nodes.bindings import bind_login, bound_logins, unbind_login
from packwise.nodes.schema import NodesSchema, init_nodes
from postgres_servers import server

TABLES = "nodes groups postings terms totals".split()


@pytest.fixture
def login(shop, database):
    """A login of the server, removed at the end."""
    name = f"{database.role}_login"
    with database.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    with database.connect() as connection:
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def url_of(database, name):
    return database.url.replace("postgres@", f"{name}@")


def connect(database, name):
    connection = psycopg.connect(url_of(database, name), autocommit=True)
    connection.execute(f"SET search_path = {database.schema.name}, public")
    return connection


ATTACKS = (
    "SET packwise.tenants = '{rival}'",
    "SET packwise.tenants = '{acme,rival}'",
    "SET packwise.tenants = ''",
    "SET ROLE {app}",
    "SET SESSION AUTHORIZATION {app}",
    "SET LOCAL ROLE {app}",
    "RESET ROLE",
    "SET row_security = off",
    "ALTER TABLE knowledge_nodes DISABLE ROW LEVEL SECURITY",
    "DROP POLICY tenants ON knowledge_nodes",
    "CREATE POLICY mine ON knowledge_nodes USING (true)",
    "INSERT INTO knowledge_bindings VALUES (current_user, 'rival')",
    "UPDATE knowledge_bindings SET tenant_id = 'rival'",
    "DELETE FROM knowledge_bindings",
    "CREATE TEMP TABLE knowledge_bindings (role_name name, tenant_id text)",
    "CREATE OR REPLACE FUNCTION packwise_tenants() RETURNS text[] LANGUAGE sql AS"
    " $$ SELECT ARRAY['rival'] $$",
    "CREATE FUNCTION pg_temp.packwise_tenants() RETURNS text[] LANGUAGE sql AS"
    " $$ SELECT ARRAY['rival'] $$",
    "SET search_path = pg_temp, {schema}, public",
    "GRANT {app} TO current_user",
    "COPY knowledge_nodes TO '/tmp/packwise_stolen'",
    "UPDATE knowledge_nodes SET tenant_id = 'rival'",
    "INSERT INTO knowledge_nodes (tenant_id, node_type) VALUES ('rival', 'field')",
    "TRUNCATE knowledge_nodes",
)


def rows_seen(connection, query):
    """With row_security off, a query that would be restricted is refused."""
    with suppress(psycopg.errors.InsufficientPrivilege):
        return connection.execute(query).fetchone()[0]
    return 0


def test_hostile_sql_of_a_bound_login_stays_inside(database, shop, login):
    bind_login(database.url, login, ["acme"])
    assert bound_logins(database.url) == {login: ("acme",)}
    names = {"app": database.role, "schema": database.schema.name}
    with connect(database, login) as connection:
        for attack in ATTACKS:
            statement = attack
            for name, value in names.items():
                statement = statement.replace(f"{{{name}}}", value)
            with suppress(psycopg.Error):
                connection.execute(statement)
            for query in (
                f"SELECT count(*) FROM {database.schema.name}.knowledge_nodes"
                " WHERE tenant_id <> 'acme'",
                f"SELECT count(*) FROM {database.schema.name}.knowledge_groups"
                " WHERE tenant_id <> 'acme'",
                f"SELECT count(*) FROM {database.schema.name}.hybrid_search_nodes('secret email',"
                f" '{[1.0] * DIM}', ARRAY['acme', 'rival'], NULL) AS s"
                f" JOIN {database.schema.name}.knowledge_nodes AS k USING (node_id)"
                " WHERE k.tenant_id <> 'acme'",
            ):
                assert rows_seen(connection, query) == 0, (attack, query)
            term = f"SELECT count(*) FROM {database.schema.name}.knowledge_postings"
            assert rows_seen(connection, f"{term} WHERE term = 'secret'") == 0, attack
            connection.execute("RESET row_security")
    assert len(shop.get_nodes("rival")) == 1
    assert len(shop.get_nodes("acme")) == 5


def test_the_adapter_works_with_a_bound_login(database, shop, login):
    bind_login(database.url, login, ["acme"])
    adapter = database.adapter(url_of(database, login))
    assert len(adapter.get_nodes("acme")) == 5
    assert adapter.hybrid_search("customer email", None, ["acme"])[0].node.tenant_id == "acme"
    assert adapter.get_nodes("rival") == []
    assert adapter.hybrid_search("secret", None, ["rival"]) == []
    assert len(adapter.add_nodes([field("acme", "mine")])) == 1
    with pytest.raises(StoreError, match="belongs to another tenant"):
        adapter.add_nodes([field("rival", "theirs")])
    # Without a setting, it sees its own.
    with connect(database, login) as connection:
        assert connection.execute("SELECT count(*) FROM knowledge_nodes").fetchone() == (6,)
    bind_login(database.url, login, ["rival"])
    assert adapter.get_nodes("acme") == []
    assert len(adapter.get_nodes("rival")) == 1


def test_a_bound_login_works_on_after_functions_were_replaced(database, shop, login):
    bind_login(database.url, login, ["acme"])
    with database.connect() as connection:
        connection.execute("DELETE FROM packwise_migrations WHERE version > 2")
        connection.execute(
            "DROP FUNCTION packwise_vector_leg(vector, bigint, integer, text[], text[], text[],"
            " boolean)"
        )
    assert init_nodes(database.url, NodesSchema()) != []
    adapter = database.adapter(url_of(database, login))
    assert adapter.hybrid_search("customer email", None, ["acme"])[0].node.tenant_id == "acme"
    assert adapter.hybrid_search("secret", None, ["rival"]) == []


def test_a_login_that_is_unbound_has_no_access_left(database, shop, login):
    with database.connect() as connection:
        connection.execute("CREATE TABLE own (id integer)")
        connection.execute(f"GRANT SELECT ON own TO {login}")
    bind_login(database.url, login, ["acme"])
    unbind_login(database.url, login)
    assert bound_logins(database.url) == {}
    with connect(database, login) as connection:
        connection.execute("SELECT * FROM own")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT packwise_words('x')")
        connection.execute("SET packwise.tenants = '{acme,rival}'")
        for table in TABLES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM knowledge_{table}")
    with pytest.raises(StoreError, match="is not bound"):
        unbind_login(database.url, login)


def test_a_member_of_the_application_role_loses_it_when_it_is_bound(database, shop, login):
    with database.connect() as connection:
        connection.execute(f"GRANT {database.role} TO {login}")
    bind_login(database.url, login, ["acme"])
    with connect(database, login) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SET ROLE {database.role}")
        connection.execute("SET packwise.tenants = '{rival}'")
        assert connection.execute("SELECT count(*) FROM knowledge_nodes").fetchone() == (0,)


@pytest.mark.parametrize(
    ("power", "reason"),
    [("SUPERUSER", "superuser"), ("BYPASSRLS", "bypasses"), ("CREATEROLE", "may create roles")],
)
def test_a_login_that_could_get_around_it_is_refused(database, shop, login, power, reason):
    with database.connect() as connection:
        connection.execute(f"ALTER ROLE {login} {power}")
        with pytest.raises(StoreError, match=reason):
            bind_login(database.url, login, ["acme"])
        connection.execute(f"ALTER ROLE {login} NO{power}")
    with pytest.raises(StoreError, match="has no login 'nobody_here'"):
        bind_login(database.url, "nobody_here", ["acme"])
    assert bound_logins(database.url) == {}


def test_other_logins_are_as_free_as_before(database, shop, login):
    server("plain")
    with database.connect() as connection:
        connection.execute(f"GRANT {database.role} TO {login}")
    assert len(database.adapter(url_of(database, login)).get_nodes("rival")) == 1

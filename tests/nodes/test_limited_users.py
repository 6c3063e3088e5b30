"""Users of the server who are not superusers: the owner of the tables, and logins that use them."""

import pytest
from nodes_world import DIM, Database, WordVectors, field

from packwise.errors import StoreError
from packwise.nodes.adapter import KnowledgeVerseAdapter
from packwise.nodes.schema import NodesSchema, init_nodes, rebuild_vector_index
from packwise.nodes.sizes import measure_sizes
from postgres_servers import WHEELS, Schema


def as_user(url, name):
    return url.replace("postgres@", f"{name}@")


@pytest.fixture(params=WHEELS)
def owned(request):
    """Tables for nodes that a user without further rights has created, and the URL of the owner."""
    schema = Schema(request.param)
    owner = f"{schema.role}_owner"
    with schema.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
        connection.execute(f"CREATE ROLE {owner} LOGIN")
        connection.execute(f"CREATE ROLE {schema.role} NOLOGIN NOINHERIT")
        connection.execute(f"GRANT {schema.role} TO {owner}")
        connection.execute(f"CREATE SCHEMA {schema.name} AUTHORIZATION {owner}")
    url = as_user(schema.url, owner)
    init_nodes(url, NodesSchema(DIM, role=schema.role, ranking="sql"))
    yield schema, url
    with schema.connect() as connection:
        connection.execute(f"DROP OWNED BY {owner} CASCADE")
        connection.execute(f"DROP ROLE {owner}")
    schema.drop()


@pytest.fixture
def login(owned):
    """A login with no rights at all."""
    schema, _ = owned
    name = f"{schema.role}_login"
    with schema.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    with schema.connect() as connection:
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def test_an_owner_who_cannot_see_the_rows_gets_a_list_for_each_root_of_them(owned):
    schema, url = owned
    with KnowledgeVerseAdapter(url, embedder=WordVectors()) as adapter:
        adapter.add_nodes([field("acme", f"column {i}") for i in range(400)])
    assert rebuild_vector_index(url, "ivfflat") == "ivfflat"
    with schema.connect() as connection:
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s"
            " AND indexname LIKE '%%embedding%%'",
            (schema.name,),
        ).fetchall()
    ((name, definition),) = indexes
    assert name == "idx_knowledge_nodes_embedding"
    assert "lists='20'" in definition


def test_a_login_without_the_role_is_told_what_to_run(owned, login):
    schema, _ = owned
    with KnowledgeVerseAdapter(as_user(schema.url, login), embedder=WordVectors()) as adapter:
        with pytest.raises(StoreError) as caught:
            adapter.get_nodes("acme")
        assert f"GRANT {schema.role} TO {login}" in str(caught.value)
        assert f"packwise db bind URL --login {login}" in str(caught.value)
        with schema.connect() as connection:
            connection.execute(f"GRANT {schema.role} TO {login}")
        assert adapter.get_nodes("acme") == []


def test_a_login_that_does_not_inherit_the_role_works_as_it(owned, login):
    schema, _ = owned
    with schema.connect() as connection:
        connection.execute(f"ALTER ROLE {login} NOINHERIT")
        connection.execute(f"GRANT {schema.role} TO {login}")
    theirs = as_user(schema.url, login)
    with KnowledgeVerseAdapter(theirs, embedder=WordVectors()) as adapter:
        adapter.add_nodes([field("acme", "customer email")])
        assert adapter.hybrid_search("customer email", None, ["acme"])[0].node.tenant_id == "acme"
    assert measure_sizes(theirs).table_bytes > 0


def test_only_the_owner_can_bring_the_tables_up_to_date(owned, login):
    schema, url = owned
    with schema.connect() as connection:
        connection.execute(f"GRANT {schema.role} TO {login}")
    with pytest.raises(StoreError, match=f"belong to '{schema.role}_owner'"):
        init_nodes(as_user(schema.url, login), NodesSchema())
    assert init_nodes(url, NodesSchema()) == []


def test_a_rebuild_that_was_stopped_is_done_again():
    database = Database("plain")
    try:
        with database.connect() as connection:
            connection.execute(
                "CREATE INDEX idx_knowledge_nodes_embedding_new ON knowledge_nodes (title)"
            )
        assert rebuild_vector_index(database.url) == "hnsw"
        with database.connect() as connection:
            left = connection.execute("SELECT to_regclass('idx_knowledge_nodes_embedding_new')")
            assert left.fetchone() == (None,)
    finally:
        database.close()

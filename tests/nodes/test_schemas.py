"""Tables are those of the schema that a URL names, and of no other."""

from urllib.parse import quote

import psycopg
import pytest
from nodes_world import DIM, Database, WordVectors, field
from store_pieces import PASSAGES, stage

from packwise.errors import StoreMissing
from packwise.nodes.adapter import KnowledgeVerseAdapter
from packwise.nodes.schema import NodesSchema, init_nodes, rebuild_vector_index
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.postgres.schemas import schema_names, take_search_path
from postgres_servers import WHEELS, Schema


@pytest.fixture(params=WHEELS)
def public_nodes(request):
    """A database whose ``public`` holds nodes and passages, and a name that no schema has."""
    empty = Schema(request.param)
    name = empty.name
    with empty.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = empty.url.replace("/postgres?", f"/{name}?")
    plain = url.partition("&options=")[0]
    init_nodes(plain, NodesSchema(DIM, role=empty.role))
    with KnowledgeVerseAdapter(plain, embedder=WordVectors()) as adapter:
        adapter.add_nodes([field("acme", "customer email")])
    store = create_or_open_store(plain)
    with store.writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        stage(writer, PASSAGES)
        writer.commit()
    store.close()
    yield url, plain
    with empty.connect() as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    empty.drop()


def test_a_schema_that_does_not_exist_is_not_replaced_by_public(public_nodes):
    url, plain = public_nodes
    with KnowledgeVerseAdapter(url, embedder=WordVectors()) as adapter:
        for call in (
            lambda: adapter.get_nodes("acme"),
            lambda: adapter.hybrid_search("email", None, ["acme"]),
            lambda: adapter.add_nodes([field("acme", "elsewhere")]),
            lambda: adapter.delete_nodes([1], "acme"),
        ):
            with pytest.raises(StoreMissing, match="there is no schema"):
                call()
    with pytest.raises(StoreMissing, match="there is no schema"):
        rebuild_vector_index(url)
    with pytest.raises(StoreMissing, match="there is no schema"):
        open_store(url)
    with KnowledgeVerseAdapter(plain, embedder=WordVectors()) as adapter:
        assert [node.title for node in adapter.get_nodes("acme")] == ["customer email"]


def test_an_empty_schema_is_not_replaced_by_public_either(public_nodes):
    url, plain = public_nodes
    name = take_search_path({"options": psycopg.conninfo.conninfo_to_dict(url)["options"]})[0]
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    missing = pytest.raises(StoreMissing, match="no tables for knowledge nodes")
    with KnowledgeVerseAdapter(url, embedder=WordVectors()) as adapter, missing:
        adapter.get_nodes("acme")
    with pytest.raises(StoreMissing, match="holds no passages"):
        open_store(url)
    store = create_or_open_store(url)
    with store.writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        stage(writer, PASSAGES[:1])
        writer.commit()
    assert store.info().passages == 1
    store.close()
    with open_store(plain) as other:
        assert other.info().passages == 2


def test_a_schema_of_any_name_is_created_and_used():
    base = Schema()
    name = f'Odd "{base.name}", x'
    quoted = '"' + name.replace('"', '""') + '"'
    options = f"-csearch_path={quoted}".replace("\\", "\\\\").replace(" ", "\\ ")
    url = f"{base.url.partition('&options=')[0]}&options={quote(options)}"
    try:
        init_nodes(url, NodesSchema(DIM, role=base.role))
        with KnowledgeVerseAdapter(url, embedder=WordVectors()) as adapter:
            adapter.add_nodes([field("acme", "customer email")])
            assert len(adapter.hybrid_search("email", None, ["acme"])) == 1
        assert rebuild_vector_index(url) == "hnsw"
        with base.connect() as connection:
            count = connection.execute(f"SELECT count(*) FROM {quoted}.knowledge_nodes")
            assert count.fetchone() == (1,)
    finally:
        with base.connect() as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute(f"DROP SCHEMA IF EXISTS {quoted} CASCADE")
        base.drop()


def test_a_temporary_table_does_not_hide_the_tables(plain: Database):
    adapter = plain.adapter(pool_size=1)
    adapter.add_nodes([field("acme", "customer email")])
    with adapter.store._pool.lend() as connection:
        connection.execute("CREATE TEMP TABLE knowledge_nodes (LIKE pg_class)")
        connection.execute("CREATE TEMP TABLE knowledge_bindings (role_name name, tenant_id text)")
    assert [node.title for node in adapter.get_nodes("acme")] == ["customer email"]
    assert len(adapter.hybrid_search("email", None, ["acme"])) == 1
    assert len(adapter.add_nodes([field("acme", "another")])) == 1


def test_search_paths_are_read_as_postgresql_reads_them():
    assert schema_names('"$user", public') == ("$user", "public")
    assert schema_names('Sales, "Odd "" one, two",x') == ("sales", 'Odd " one, two', "x")
    options = {"options": "-c statement_timeout=5 -csearch_path=one,two"}
    assert take_search_path(options) == ("one", "two")
    assert options == {"options": "-c statement_timeout=5"}
    options = {"options": r"--search-path=a\ b"}
    assert take_search_path(options) == ("a b",)
    assert options == {}

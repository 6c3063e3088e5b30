"""A node's id is unique per tenant and data set; databases of the first version are migrated."""

import json
from pathlib import Path

import pytest
from nodes_world import DIM, WordVectors, field

from packwise.errors import StoreError
from packwise.nodes.adapter import KnowledgeVerseAdapter
from packwise.nodes.importing import import_nodes
from packwise.nodes.schema import NodesSchema, init_nodes
from postgres_servers import Schema

FIRST_VERSION = Path(__file__).with_name("first_version.sql").read_text(encoding="utf-8")


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def node(dataset, title, **more):
    named = {"id": "7", "tenant_id": "acme", "node_type": "field"}
    return {**named, "dataset_name": dataset, "title": title, **more}


def titles(adapter):
    return {n.dataset_name: n.title for n in adapter.get_nodes("acme")}


def test_the_same_id_in_two_data_sets_is_two_nodes(database, tmp_path):
    adapter = database.adapter()
    path = lines(tmp_path / "n.jsonl", [node("sales", "customers"), node("hr", "employees")])
    report = import_nodes(adapter.store, path, WordVectors)
    assert (report.added, report.repeated) == (2, 0)
    assert titles(adapter) == {"sales": "customers", "hr": "employees"}
    again = import_nodes(adapter.store, path, WordVectors)
    assert (again.added, again.changed, again.unchanged, again.embedded) == (0, 0, 2, 0)
    assert titles(adapter) == {"sales": "customers", "hr": "employees"}
    (one,) = adapter.add_nodes([field("acme", "people", dataset_name="hr", node_key="7")])
    assert titles(adapter) == {"sales": "customers", "hr": "people"}
    assert adapter.delete_nodes([one], "acme") == 1
    assert titles(adapter) == {"sales": "customers"}


def test_the_last_line_of_an_id_counts_every_time(plain, tmp_path):
    adapter = plain.adapter()
    many = [node("other", f"t{i}", id=str(i)) for i in range(600)]
    rows = [node("sales", "first"), node("sales", "second"), *many, node("sales", "last")]
    path = lines(tmp_path / "n.jsonl", rows)
    for expected in ((601, 0, 2), (0, 0, 2), (0, 0, 2)):
        report = import_nodes(adapter.store, path, WordVectors)
        assert (report.added, report.changed, report.repeated) == expected
        assert titles(adapter)["sales"] == "last"


@pytest.fixture
def first_version():
    schema = Schema("plain")
    with schema.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
        connection.execute(f"CREATE SCHEMA {schema.name}")
        connection.execute(f"SET search_path = {schema.name}, public")
        connection.execute(f"CREATE ROLE {schema.role} NOLOGIN")
        connection.execute(f"GRANT {schema.role} TO CURRENT_USER")
        connection.execute(FIRST_VERSION.replace("{role}", schema.role))
    yield schema
    schema.drop()


def test_a_database_of_the_first_version_is_migrated_with_its_nodes(first_version):
    schema = first_version
    vector = str([1.0] * DIM)
    with schema.connect() as connection:
        connection.execute(f"SET search_path = {schema.name}, public")
        for key, title in (("7", "customer email"), ("8", "東京都の人口")):
            connection.execute(
                "INSERT INTO knowledge_nodes (tenant_id, dataset_name, node_type, node_key, title,"
                " embedding, embedder_version) VALUES ('acme', 'sales', 'field', %s, %s, %s,"
                " 'words-1')",
                (key, title, vector),
            )
    old = pytest.raises(StoreError, match="packwise db init URL brings them up to date")
    with KnowledgeVerseAdapter(schema.url, embedder=WordVectors()) as adapter, old:
        adapter.get_nodes("acme")
    assert init_nodes(schema.url, NodesSchema()) == [
        "keys by data set",
        "faster search",
        "faster search of small tenants",
        "searches that are planned once",
    ]
    assert init_nodes(schema.url, NodesSchema()) == []
    with KnowledgeVerseAdapter(schema.url, embedder=WordVectors()) as adapter:
        first, second = adapter.get_nodes("acme")
        assert (first.node_key, first.embedder_version) == ("7", "words-1")
        adapter.add_nodes([field("acme", "employees", dataset_name="hr", node_key="7")])
        assert len(adapter.get_nodes("acme")) == 3
        assert adapter.hybrid_search("customer", None, ["acme"])[0].node == first
        # Words of scripts without spaces were not split before.
        (found,) = adapter.store.search("人口", None, ["acme"], k=5)
        assert found.node == second
        assert adapter.store.search("人口", None, ["rival"], k=5) == []
    with schema.connect() as connection:
        forced = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace"
            " AND relforcerowsecurity",
            (schema.name,),
        ).fetchone()
        functions = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace ORDER BY 1",
            (schema.name,),
        ).fetchall()
    assert forced == (5,)
    # None is left of those whose parameters changed.
    assert len(set(functions)) == len(functions)
    assert ("packwise_relevance",) not in functions


def test_a_function_that_returned_other_columns_is_replaced(plain):
    with plain.connect() as connection:
        connection.execute(
            "DROP FUNCTION packwise_vector_leg; CREATE FUNCTION packwise_vector_leg(vector, bigint,"
            " integer, text[], text[], text[], boolean) RETURNS TABLE (node_id integer,"
            " score double precision, node_type text, embedder_version text)"
            " LANGUAGE sql AS 'SELECT 1, 1.0, NULL, NULL'"
        )
        connection.execute("DELETE FROM packwise_migrations WHERE version = 5")
    assert init_nodes(plain.url, NodesSchema()) == ["searches that are planned once"]
    adapter = plain.adapter()
    adapter.add_nodes([field("acme", "customer email")])
    assert adapter.hybrid_search("customer", None, ["acme"])[0].node.title == "customer email"

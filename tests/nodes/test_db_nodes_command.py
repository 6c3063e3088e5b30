"""``packwise db`` beyond import and search: listing, removing, monitoring."""

import json
import re

import pytest
from click.testing import CliRunner
from nodes_world import WordVectors, field

import packwise.models.embedder
from packwise.errors import StoreError, UsageError
from packwise.evaluation.judged_nodes import read_judged
from packwise.nodes.schema import NodesSchema, init_nodes
from postgres_servers import Schema, server
from tests_world import wait_until


@pytest.fixture
def run(monkeypatch):
    """Runs a command in this process, with an embedder that needs no model."""
    monkeypatch.setattr(packwise.models.embedder, "load_embedder", lambda *_: WordVectors())

    def call(*arguments, code=0):
        from packwise.cli.db import db

        done = CliRunner().invoke(db, [*map(str, arguments)])
        if code == 0:
            assert done.exit_code == 0, (done.output, done.exception)
        return done

    return call


def data(done):
    return json.loads(done.stdout)


def test_nodes_are_listed_shown_and_removed(run, shop, database):
    url = database.url
    listed = data(run("list", url, "--tenant", "acme", "--limit", 2, "--offset", 1, "--json"))
    assert (listed["total"], listed["offset"], len(listed["nodes"])) == (5, 1, 2)
    every = data(run("list", url, "--tenant", "acme", "--json"))["nodes"]
    assert listed["nodes"] == every[1:3]
    assert "2 of 5 nodes" in run("list", url, "--tenant", "acme", "--limit", 2).stdout
    (one,) = (n for n in every if n["title"] == "customers.name")
    key = one["node_key"]
    (shown,) = data(run("get", url, key, "--tenant", "acme", "--json"))["nodes"]
    assert shown == one
    assert one["title"] in run("get", url, key, "--tenant", "acme").stdout
    refused = run("get", url, key, "--tenant", "rival", code=1)
    assert "has no node" in str(refused.exception)
    other = run("delete", url, key, "--tenant", "rival", "--json", code=1)
    assert (other.exit_code, other.stdout) == (1, "")
    assert data(run("delete", url, key, "--tenant", "acme", "--json")) == {"removed": 1}
    assert isinstance(run("delete", url, "--tenant", "acme", code=2).exception, UsageError)
    gone = run("delete", url, "--tenant", "acme", "--all", "--dataset", "hr")
    assert "1 node removed" in gone.stdout
    assert len(shop.get_nodes("acme")) == 3


def test_nothing_is_removed_for_an_id_that_is_missing_or_ambiguous(run, shop, database):
    nodes = [field("acme", f"{name} ids", node_key="1", dataset_name=name) for name in ("a", "b")]
    shop.add_nodes(nodes)
    for ids, said in ((("1", "2"), "has no node '2'"), (("1",), "data sets 'a' and 'b'")):
        refused = run("delete", database.url, *ids, "--tenant", "acme", code=1)
        assert said in str(refused.exception)
    assert len(shop.get_nodes("acme")) == 7
    run("delete", database.url, "1", "--tenant", "acme", "--dataset", "b")
    assert [n.dataset_name for n in shop.get_nodes("acme") if n.node_key == "1"] == ["a"]


def test_an_empty_result_says_so(run, shop, database):
    for command in (("list",), ("fields", "x"), ("examples", "x"), ("search", "x")):
        name, *query = command
        assert run(name, database.url, *query, "--tenant", "nobody").stdout == "nothing found\n"
    empty = run("schema", database.url, "x", "--tenant", "nobody")
    assert empty.stdout == ""
    assert "packwise db introspect" in empty.stderr
    assert "no login is bound" in run("bind", database.url).stdout


def test_fields_examples_and_a_schema_are_found(run, shop, database):
    url = database.url
    found = data(run("fields", url, "customer email", "--tenant", "acme", "-k", 2, "--json"))
    assert found["fields"][0]["table"] == "customers"
    assert "customers" in run("fields", url, "customer email", "--tenant", "acme").stdout
    shown = run("examples", url, "total revenue", "--tenant", "acme")
    assert "SELECT sum(total) FROM orders" in shown.stdout
    text = run("schema", url, "customer email", "--tenant", "acme", "--budget", 80).stdout
    assert "CREATE TABLE customers" in text
    context = data(run("schema", url, "email", "--tenant", "acme", "--budget", 80, "--json"))
    assert context["tokens"] <= 80


def test_weights_and_the_least_score_reach_the_search(run, shop, database):
    base = ("search", database.url, "customer email", "--tenant", "acme", "--type", "field")
    by_keyword = data(run(*base, "--fusion", "weighted", "--bm25-weight", 1, "--json"))["hits"]
    for hit in by_keyword:
        assert hit["scores"]["combined"] == pytest.approx(hit["scores"]["keyword"], abs=1e-5)
    # The adapter ranks fields by reciprocal ranks: the best score is about 1 / 61.
    best = data(run(*base, "--json"))["hits"][0]
    assert best["scores"]["final"] == pytest.approx(1 / 61, abs=1e-3)
    least = by_keyword[1]["scores"]["combined"]
    kept = data(
        run(
            *base, "--fusion", "weighted", "--bm25-weight", 1, "--min-score", least - 1e-4, "--json"
        )
    )
    assert len(kept["hits"]) == 2


def test_sizes_and_growth_are_shown(run, shop, database):
    first = data(run("stats", database.url, "--tenant", "acme", "--json"))
    assert first["bytes_per_day"] is None
    assert first["index_bytes"]["idx_knowledge_nodes_embedding"] > 0
    assert {"tenant_id": "acme", "dataset_name": "hr", "node_type": "field"}.items() <= first[
        "groups"
    ][0].items()
    shop.add_nodes([field("acme", f"more {i}", content="word " * 500) for i in range(200)])
    second = data(run("stats", database.url, "--json"))
    total = [sum((s["table_bytes"], *s["index_bytes"].values())) for s in (first, second)]
    # A minute's growth is not multiplied: the rest of the day may be quiet.
    assert second["bytes_per_day"] == total[1] - total[0] > 0
    wait_until(
        lambda: data(run("stats", database.url, "--json"))["nodes"] >= 200,
        "the server counts the nodes, before it analyses the table",
    )
    assert re.search("growth a day since", run("stats", database.url).stdout)


def test_judged_queries_are_measured(run, shop, database, tmp_path):
    keys = {node.title: node.node_key for node in shop.get_nodes("acme")}
    rows = [
        {"query": "customers.name customer name", "relevant": [keys["customers.name"]]},
        {"query": "orders.total total revenue of an order", "relevant": [keys["orders.total"]]},
        {"query": "customers.email customer email address", "relevant": ["not there"]},
    ]
    path = tmp_path / "judged.jsonl"
    path.write_text(
        "\n".join(json.dumps({**r, "tenant_id": "acme", "node_type": "field"}) for r in rows)
    )
    report = data(run("eval", database.url, path, "-k", 2, "--json"))
    assert report["queries"] == 3
    assert report["metrics"]["mrr@2"] == pytest.approx(2 / 3)
    assert report["metrics"]["precision@2"] == pytest.approx(1 / 3)
    assert report["metrics"]["recall@2"] == pytest.approx(2 / 3)
    assert report["latency_ms"]["p50"] > 0
    assert sum(band["nodes"] for band in report["bands"]) == 6
    # The same id in another data set is not a second hit.
    shop.add_nodes(
        [field("acme", "customer name", dataset_name="hr", node_key=keys["customers.name"])]
    )
    again = data(run("eval", database.url, path, "-k", 2, "--json"))["metrics"]
    assert again["recall@2"] == pytest.approx(2 / 3)
    path.write_text('{"query": "x", "tenant_id": "acme", "relevant": []}\n')
    with pytest.raises(Exception, match=":1: relevant is not a list of ids"):
        read_judged(path)


def test_texts_changed_by_others_are_embedded_again(run, shop, database):
    with database.connect() as connection:
        connection.execute("UPDATE knowledge_nodes SET title = 'changed' WHERE tenant_id = 'acme'")
    assert "5 nodes embedded" in run("embed", database.url, "--tenant", "acme").stdout
    assert "0 nodes embedded" in run("embed", database.url, "--tenant", "acme").stdout
    assert all(h.vector is not None for h in shop.hybrid_search("changed", None, ["acme"]))


def test_options_that_differ_from_the_tables_are_an_error(run, shop, database):
    for option, value, said in (
        ("--language", "german", "language is english, not german"),
        ("--index", "ivfflat", "index is hnsw, not ivfflat"),
        ("--role", "somebody", "not somebody"),
    ):
        done = run("init", database.url, option, value, code=1)
        assert isinstance(done.exception, StoreError)
        assert done.exception.exit_code == 1
        assert said in str(done.exception)
    assert "nothing to do" in run("init", database.url).stdout


def test_dropping_the_nodes_leaves_what_is_not_theirs_alone(run, shop, database):
    assert run("drop", database.url, code=1).exit_code == 1  # nobody said yes
    assert len(shop.get_nodes("acme")) == 5
    with database.connect() as connection:
        connection.execute("CREATE VIEW counted AS SELECT count(*) FROM knowledge_nodes")
        refused = run("drop", database.url, "--yes", code=1)
        assert "view counted depends on" in str(refused.exception)
        assert len(shop.get_nodes("acme")) == 5
        connection.execute("DROP VIEW counted")
        connection.execute("CREATE TABLE own (id integer)")
    run("drop", database.url, "--yes")
    with database.connect() as connection:
        left = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace",
            (database.schema.name,),
        ).fetchall()
        assert left == [("own",)]
        functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = %s::regnamespace"
        assert connection.execute(functions, (database.schema.name,)).fetchone() == (0,)
    assert init_nodes(database.url, NodesSchema(16, role=database.role)) != []


def test_a_user_without_rights_is_told_what_to_run_before_anything_is_created():
    server("plain")
    schema = Schema("plain")
    with schema.connect() as connection:
        connection.execute(f"CREATE ROLE {schema.role} LOGIN")
        connection.execute(f"CREATE SCHEMA {schema.name}")
    try:
        url = server("plain").url(schema.name, user=schema.role)
        with pytest.raises(StoreError) as caught:
            init_nodes(url, NodesSchema(16, role=f"{schema.role}_app"))
        said = str(caught.value)
        assert "\n" not in said
        assert f"GRANT CREATE ON SCHEMA {schema.name} TO {schema.role}" in said
        assert f"CREATE ROLE {schema.role}_app NOLOGIN" in said
        with schema.connect() as connection:
            there = "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace"
            assert connection.execute(there, (schema.name,)).fetchone() == (0,)
    finally:
        schema.drop()


def test_plain_dictionaries_are_nodes(plain):
    adapter = plain.adapter()
    adapter.add_nodes(
        [{"tenant_id": "acme", "node_type": "field", "title": "x", "summary": None, "id": 3}]
    )
    (node,) = adapter.get_nodes("acme")
    assert (node.node_key, node.summary) == ("3", "")
    for bad, said in (
        ({"tenant_id": "acme", "title": "x"}, "has no node_type"),
        ({"tenant_id": "acme", "node_type": "f", "title": "x", "colour": 1}, "'colour'"),
        (None, "a node is a JSON object"),
    ):
        with pytest.raises(UsageError, match=said):
            adapter.add_nodes([bad])


def test_the_adapter_counts_what_it_does(plain):
    adapter = plain.adapter()
    adapter.add_nodes([field("acme", "customer email")])
    for _ in range(3):
        adapter.hybrid_search("email", None, ["acme"])
    adapter.get_nodes("acme")
    adapter.get_similar_fields("email", "acme")
    with pytest.raises(UsageError):
        adapter.hybrid_search("email", None, ["acme"], top_k=0)
    found = adapter.metrics()
    assert {kind: (c.calls, c.failed) for kind, c in found.searches.items()} == {
        "direct": (1, 0),
        "fields": (1, 0),
        "hybrid": (4, 1),
    }
    assert 0 < found.searches["hybrid"].p50_ms <= found.searches["hybrid"].p99_ms
    assert (found.cache_hits, found.cache_misses) == (4, 1)
    assert found.cache_hit_rate == pytest.approx(0.8)

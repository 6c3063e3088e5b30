"""``packwise db`` as a user meets it, and what its import and introspection read."""

import json
import subprocess
import sys

import psycopg
import pytest
from nodes_world import DIM, WordVectors, field

from packwise.errors import DataError, SourceError
from packwise.nodes.importing import import_nodes, read_lines
from packwise.nodes.introspection import read_catalogue
from postgres_servers import Schema
from tests_world import PATIENCE


def packwise(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "packwise", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def row(i, **more):
    return {"id": i, "tenant_id": "acme", "node_type": "field", "title": f"title {i}", **more}


@pytest.fixture
def live():
    """A database in use, with comments and keys."""
    schema = Schema()
    with schema.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema.name}")
        for statement in (
            "CREATE TABLE customers (id integer PRIMARY KEY, email text NOT NULL,"
            ' "Odd ""Name" text, born date)',
            "COMMENT ON TABLE customers IS 'People who buy.'",
            "COMMENT ON COLUMN customers.email IS 'Where to write to them.'",
            "CREATE TABLE orders (id integer PRIMARY KEY,"
            " customer_id integer REFERENCES customers, totalAmount numeric(10, 2))",
            "CREATE VIEW buyers AS SELECT email FROM customers",
            "INSERT INTO customers VALUES (1, 'ann@example.com', 'x', '2000-01-02'),"
            " (2, 'bob@example.com', NULL, NULL)",
        ):
            connection.execute(statement)
    yield schema
    schema.drop()


def test_a_file_is_imported_and_the_same_file_changes_nothing(plain, tmp_path):
    adapter = plain.adapter()
    path = lines(tmp_path / "nodes.jsonl", [row(i, metadata={"n": i}) for i in range(517)])
    seen = []
    report = import_nodes(
        adapter.store, path, WordVectors, progress=lambda done, total: seen.append((done, total))
    )
    assert (report.lines, report.added, report.embedded) == (517, 517, 517)
    assert seen == [(512, 517), (517, 517)]
    again = import_nodes(adapter.store, path, WordVectors)
    assert (again.added, again.changed, again.unchanged, again.embedded) == (0, 0, 517, 0)
    lines(path, [row(0, title="other"), *(row(i, metadata={"n": i}) for i in range(1, 9))])
    changed = import_nodes(adapter.store, path, WordVectors)
    assert (changed.added, changed.changed, changed.unchanged) == (0, 1, 8)
    assert adapter.store.count(["acme"]) == 517


def test_an_import_that_was_stopped_goes_on(plain, tmp_path):
    adapter = plain.adapter()
    path = lines(tmp_path / "nodes.jsonl", [row(i) for i in range(1024)])

    class Stopping(WordVectors):
        def embed_passages(self, texts, progress=None):
            if any(text == "title 512" for text in texts):
                raise KeyboardInterrupt
            return super().embed_passages(texts)

    with pytest.raises(KeyboardInterrupt):
        import_nodes(adapter.store, path, Stopping)
    assert adapter.store.count(["acme"]) == 512
    report = import_nodes(adapter.store, path, WordVectors)
    assert (report.added, report.embedded) == (512, 512)


BAD = [
    ("not json", "line 3"),
    ("[1]", "JSON object"),
    ('{"tenant_id": "acme", "node_type": "field"}', "no text"),
    ('{"tenant_id": "acme", "title": "x"}', "no node_type"),
    ('{"node_type": "field", "title": "x"}', "no tenant_id"),
    ('{"tenant_id": "a", "node_type": "f", "title": 3}', "title is not text"),
    ('{"tenant_id": "a", "node_type": "f", "title": "x", "colour": 1}', "'colour'"),
    ('{"tenant_id": "a", "node_type": "f", "title": "x", "metadata": 1}', "metadata"),
    ('{"tenant_id": "a", "node_type": "f", "title": "x", "embedding": [1]}', "shape"),
    ('{"tenant_id": "a", "node_type": "f", "title": "x", "embedding": "y"}', "numbers"),
    (
        json.dumps({**row(1), "embedding": [0.0] * DIM}),
        "all zero",
    ),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=lambda value: value[:30])
def test_a_bad_line_is_named_and_nothing_is_written(plain, tmp_path, bad, reason):
    path = tmp_path / "nodes.jsonl"
    good = json.dumps(row(1))
    path.write_text(f"{good}\n\n{bad}\n{good}\n", encoding="utf-8")
    store = plain.adapter().store
    with pytest.raises(DataError, match="line 3") as caught:
        import_nodes(store, path, WordVectors)
    assert reason in str(caught.value)
    assert store.count(["acme", "a"]) == 0


def test_files_that_cannot_be_read_are_errors(tmp_path):
    with pytest.raises(SourceError, match="cannot be read"):
        list(read_lines(tmp_path / "nothing.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(b'{"title": "\xff"}')
    with pytest.raises(SourceError, match="UTF-8"):
        list(read_lines(tmp_path / "latin.jsonl"))


def test_vectors_of_a_line_are_taken_as_they_are(plain, tmp_path):
    vector = [1.0, *[0.0] * (DIM - 1)]
    path = lines(tmp_path / "nodes.jsonl", [row(1, embedding=vector)])

    def no_embedder():
        raise AssertionError("not needed")

    adapter = plain.adapter()
    assert import_nodes(adapter.store, path, no_embedder).added == 1
    (hit,) = adapter.get_similar_nodes(vector, "acme")
    assert hit.vector == pytest.approx(1)
    assert import_nodes(adapter.store, path, no_embedder).unchanged == 1


def test_a_live_database_becomes_field_nodes(live):
    nodes = {
        node.title.removeprefix(f"{live.name}."): node
        for node in read_catalogue(
            live.url, tenant="acme", dataset="shop", schemas=[live.name], samples=5
        ).nodes
    }
    assert set(nodes) == {
        "customers.id",
        "customers.email",
        'customers.Odd "Name',
        "customers.born",
        "orders.id",
        "orders.customer_id",
        "orders.totalamount",
        "buyers.email",
    }
    email = nodes["customers.email"]
    assert email.summary == "Where to write to them."
    assert "People who buy." in email.content_description
    assert email.metadata["sample_values"] == []  # personal
    assert nodes["customers.id"].metadata["sample_values"] == ["1", "2"]
    assert (email.metadata["field_name"], email.metadata["field_type"]) == ("email", "text")
    assert email.metadata["required"]
    assert nodes["customers.id"].metadata["primary_key"]
    references = nodes["orders.customer_id"].metadata["references"]
    assert references == f"{live.name}.customers.id"
    assert nodes["orders.totalamount"].metadata["field_type"] == "numeric(10,2)"
    bare = read_catalogue(live.url, tenant="a", dataset="b", schemas=[live.name])
    assert not any(node.metadata["sample_values"] for node in bare.nodes)


def test_the_commands_from_init_to_search(live, tmp_path):
    schema = Schema()
    try:
        made = packwise("db", "init", schema.url, "--dim", 384, "--role", schema.role, "--json")
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["steps"] == [
            "knowledge nodes",
            "keys by data set",
            "faster search",
            "faster search of small tenants",
            "searches that are planned once",
        ]
        again = packwise("db", "init", schema.url, "--dim", 384, "--role", schema.role)
        assert "nothing to do" in again.stdout
        looked = packwise(
            *("db", "introspect", schema.url, "--from", live.url, "--schema", live.name),
            *("--tenant", "acme", "--dataset", "shop", "--json"),
        )
        assert looked.returncode == 0, looked.stderr
        assert json.loads(looked.stdout)["fields"] == 8
        path = lines(tmp_path / "nodes.jsonl", [row(1, title="total revenue by month")])
        done = packwise("db", "import", schema.url, path, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["added"] == 1
        question = "where do I write to a customer?"
        for command in (("search",), ("db", "search")):
            found = packwise(*command, schema.url, question, "--tenant", "acme", "--json")
            assert found.returncode == 0, found.stderr
            result = json.loads(found.stdout)
            assert result.keys() >= {"query", "hits", "confidence", "timings_ms"}
            best = result["hits"][0]
            assert best["title"].endswith("email")
            assert best["scores"].keys() >= {"vector", "keyword", "combined"}
            assert best["band"] in ("high", "good", "partial", "low")
        table = packwise("db", "search", schema.url, "revenue", "--tenant", "acme", "-k", 1)
        assert "total revenue" in table.stdout
        nobody = packwise("search", schema.url, question, "--tenant", "nobody", "--json")
        assert json.loads(nobody.stdout)["hits"] == []
        index = packwise("db", "reindex", schema.url, "--index", "ivfflat")
        assert "ivfflat" in index.stdout
    finally:
        schema.drop()


def test_looking_again_follows_the_catalogue(live, tmp_path):
    schema = Schema()
    looked_at = ("db", "introspect", schema.url, "--from", live.url, "--tenant", "acme")
    looked_at += ("--dataset", "shop", "--schema", live.name, "--json")
    counts = ("fields", "added", "changed", "removed", "unchanged")

    def look(*more):
        done = packwise(*looked_at, *more)
        assert done.returncode == 0, done.stderr
        return [json.loads(done.stdout)[name] for name in counts]

    try:
        packwise("db", "init", schema.url, "--dim", 384, "--role", schema.role)
        path = lines(tmp_path / "own.jsonl", [row(1, dataset_name="shop", node_type="field")])
        assert packwise("db", "import", schema.url, path).returncode == 0
        with psycopg.connect(live.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE passing (kept int, dropped int)")
            assert look() == [10, 10, 0, 0, 0]
            assert look() == [10, 0, 0, 0, 10]
            connection.execute("COMMENT ON COLUMN passing.kept IS 'Stays here.'")
            connection.execute("ALTER TABLE passing DROP COLUMN dropped")
            assert look() == [9, 0, 1, 1, 8]
            connection.execute("DROP TABLE passing")
            assert look() == [8, 0, 0, 1, 8]
        found = packwise("search", schema.url, "customer", "--tenant", "acme", "-k", 50, "--json")
        titles = [hit["title"] for hit in json.loads(found.stdout)["hits"]]
        assert len(titles) == 9  # the imported node stays
        nothing = packwise(*looked_at[:-2], "no_such_schema", "--json")
        assert nothing.returncode == 1
        assert "no table in schema no_such_schema can be read" in nothing.stderr
        assert look() == [8, 0, 0, 0, 8]
    finally:
        schema.drop()


def test_failures_are_one_line_with_an_exit_code(tmp_path):
    path = lines(tmp_path / "nodes.jsonl", [row(1)])
    done = packwise("db", "import", "postgresql://u@127.0.0.1:1/x", path)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no PostgreSQL server answers" in done.stderr
    assert packwise("db", "init", "my-pack").returncode == 2


def test_a_line_takes_tenant_and_data_set_from_the_command(tmp_path):
    path = lines(tmp_path / "n.jsonl", [{"node_type": "field", "title": "t"}])
    (line,) = read_lines(path, tenant="acme", dataset="sales")
    assert line.node == field("acme", "t")

"""Reading a live database that is not as one would wish it."""

import pytest
from nodes_world import DIM, WordVectors

from packwise.errors import StoreError, UsageError
from packwise.nodes.introspection import follow_catalogue, read_catalogue
from packwise.nodes.personal import has_personal_values, is_personal_name
from packwise.nodes.schema import NodesSchema, init_nodes
from postgres_servers import Schema, server


@pytest.fixture
def live(request):
    schema = Schema(getattr(request, "param", "plain"))
    with schema.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema.name}")
        connection.execute(f"SET search_path = {schema.name}, public")
        for statement in (
            "CREATE TABLE goods (code text PRIMARY KEY, price numeric)",
            "INSERT INTO goods VALUES ('bolt', 2), ('nut', 1), ('nut 2', 0)",
        ):
            connection.execute(statement)
    yield schema
    schema.drop()


def add(schema, *statements):
    with schema.connect() as connection:
        connection.execute(f"SET search_path = {schema.name}, public")
        for statement in statements:
            connection.execute(statement)


def read(schema, **options):
    return read_catalogue(
        schema.url, tenant="acme", dataset="shop", schemas=[schema.name], **options
    )


def samples(catalogue):
    return {
        node.title.partition(".")[2]: node.metadata["sample_values"] for node in catalogue.nodes
    }


def test_a_view_that_fails_or_is_slow_is_named_and_the_rest_is_read(live):
    add(
        live,
        "CREATE VIEW broken AS SELECT 1 / price AS inverse FROM goods",
        "CREATE VIEW slow AS SELECT code, pg_sleep(30)::text AS nothing FROM goods",
    )
    seen = []
    found = read(
        live, samples=5, timeout_ms=300, progress=lambda done, total: seen.append((done, total))
    )
    assert samples(found) == {
        "broken.inverse": [],
        "goods.code": ["nut", "bolt", "nut 2"],
        "goods.price": ["0", "1", "2"],
        "slow.code": [],
        "slow.nothing": [],
    }
    broken, slow = found.skipped
    assert broken == f"{live.name}.broken: division by zero"
    assert slow == f"{live.name}.slow: took longer than 0.3 s"
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_no_values_are_read_unless_asked_for(live):
    add(live, "CREATE VIEW slow AS SELECT code, pg_sleep(30)::text AS nothing FROM goods")
    found = read(live)
    assert not any(samples(found).values())
    assert found.skipped == ()
    with pytest.raises(UsageError, match="samples must be 0 or more"):
        read(live, samples=-1)


def test_personal_columns_are_never_sampled(live):
    add(
        live,
        "CREATE TABLE customers (id int, name text, email text, note text, city text)",
        "INSERT INTO customers VALUES (1, 'Ann', 'x', 'ann@example.com', 'Oslo'),"
        " (2, 'Bo', 'y', '', 'Rome')",
    )
    found = read(live, samples=1)
    kept = samples(found)
    assert kept["customers.city"] == ["Oslo"]
    assert kept["customers.id"] == ["1"]
    for name in ("name", "email", "note"):
        assert kept[f"customers.{name}"] == []
        assert f"{live.name}.customers.{name}" in found.personal
    assert "Ann" not in str(found.nodes)
    assert "example.com" not in str(found.nodes)


@pytest.mark.parametrize(
    ("table", "column", "personal"),
    [
        ("users", "name", True),
        ("products", "name", False),
        ("orders", "shippingAddress", True),
        ("orders", "emailed_at", False),
        ("t", "first_name", True),
        ("t", "DateOfBirth", True),
        ("t", "phone_number", True),
        ("t", "api_key", True),
        ("t", "total", False),
        ("frpm", "Academic Year", False),
    ],
)
def test_names_of_personal_columns(table, column, personal):
    assert is_personal_name(table, column) is personal


def test_forms_of_personal_values():
    for value in ("a@b.org", "+47 22 33 44 55", "DE89 3704 0044 0532 0130 00", "10.0.0.1"):
        assert has_personal_values(["x", value]), value
    for value in ("2024-05-01", "1999-2000", "12.5", "20240501", "Oslo", "31/12/2020"):
        assert not has_personal_values([value]), value


def test_tables_of_users_that_are_named_like_packwise_are_read(live):
    add(live, "CREATE TABLE knowledge_base (topic text)", "CREATE TABLE packwise_orders (x int)")
    assert {"knowledge_base.topic", "packwise_orders.x"} <= samples(read(live)).keys()
    init_nodes(live.url, NodesSchema(DIM, role=live.role))
    found = samples(read(live)).keys()
    assert "knowledge_base.topic" in found
    assert not [name for name in found if name.startswith("knowledge_nodes")]


def test_keys_of_several_columns_name_each_column_they_refer_to(live):
    add(
        live,
        "CREATE TABLE lots (code text REFERENCES goods, number int, PRIMARY KEY (code, number))",
        "CREATE TABLE moves (lot_code text, lot_number int,"
        " CONSTRAINT lot FOREIGN KEY (lot_code, lot_number) REFERENCES lots (code, number))",
    )
    nodes = {node.title.partition(".")[2]: node.metadata for node in read(live).nodes}
    assert nodes["moves.lot_code"]["references"] == f"{live.name}.lots.code"
    assert nodes["moves.lot_number"]["references"] == f"{live.name}.lots.number"
    assert nodes["moves.lot_number"]["foreign_key"] == "lot"
    assert nodes["lots.code"]["references"] == f"{live.name}.goods.code"


def test_a_second_database_of_the_same_name_leaves_the_first_alone(plain):
    server("textsearch")  # a second server, whose database has the same name
    schemas = [Schema("plain"), Schema("textsearch")]
    adapter = plain.adapter()
    try:
        for schema in schemas:
            add(schema, f"CREATE SCHEMA {schema.name}", "CREATE TABLE goods (code text)")
        first, second = (schema.url for schema in schemas)
        report = follow_catalogue(adapter.store, first, WordVectors, tenant="acme")
        assert report.dataset == "postgres"
        before = adapter.get_nodes("acme")
        with pytest.raises(StoreError, match="was read from another database -> name this one"):
            follow_catalogue(adapter.store, second, WordVectors, tenant="acme")
        assert adapter.get_nodes("acme") == before
        follow_catalogue(adapter.store, second, WordVectors, tenant="acme", dataset="other")
        assert adapter.get_nodes("acme", "postgres") == before
        done = follow_catalogue(adapter.store, second, WordVectors, tenant="acme", replace=True)
        assert done.removed == len(before)
    finally:
        for schema in schemas:
            schema.drop()

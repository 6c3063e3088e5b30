"""Columns as SQL needs them: their tables and keys, joins, and a text packed to the token."""

import pytest
from nodes_world import field

from packwise.errors import UsageError
from packwise.models.tokens import token_counter
from packwise.nodes.joins import JoinPath, direct_joins, join_paths
from packwise.nodes.records import FieldSpec
from packwise.nodes.schema_context import pack_schema


def column(table, name, kind="integer", **more):
    return FieldSpec(name, kind, f"the {name} of {table}", table=table, **more)


SHOP = [
    column("customers", "id", primary_key=True),
    column("customers", "email", "text"),
    column("orders", "id", primary_key=True),
    column("orders", "customer_id", references="customers.id"),
    column("order_items", "order_id", references="orders.id", foreign_key="o"),
    column("order_items", "product_id", references="products.id"),
    column("products", "id", primary_key=True),
    column("weather", "degrees"),
]


def test_tables_are_joined_by_their_keys_through_others():
    (path,) = join_paths(SHOP, ["customers", "products"])
    assert path == JoinPath(
        ("customers", "orders", "order_items", "products"),
        (
            "orders.customer_id = customers.id",
            "order_items.order_id = orders.id",
            "order_items.product_id = products.id",
        ),
    )
    assert path.text == (
        "customers JOIN orders ON orders.customer_id = customers.id"
        " JOIN order_items ON order_items.order_id = orders.id"
        " JOIN products ON order_items.product_id = products.id"
    )
    assert join_paths(SHOP, ["customers", "weather"]) == []


def test_keys_of_several_columns_are_joined_together():
    lots = [
        column("lots", "code", primary_key=True),
        column("lots", "nr", primary_key=True),
        column("moves", "lot_code", references="lots.code", foreign_key="lot"),
        column("moves", "lot_nr", references="lots.nr", foreign_key="lot"),
    ]
    (path,) = join_paths(lots)
    assert path.conditions == ("moves.lot_code = lots.code AND moves.lot_nr = lots.nr",)
    assert not path.inferred


def test_joins_are_guessed_from_names_where_no_key_is_known():
    fields = [
        FieldSpec("CDSCode", "text", "", table="frpm"),
        FieldSpec("cds_code", "text", "", table="schools", schema="edu"),
        FieldSpec("id", "integer", "", table="customers"),
        FieldSpec("customer_id", "integer", "", table="orders"),
    ]
    first, second = join_paths(fields)
    assert first.conditions == ('frpm."CDSCode" = edu.schools.cds_code',)
    assert second.conditions == ("orders.customer_id = customers.id",)
    assert first.inferred
    assert second.inferred


def test_the_text_is_a_schema_of_the_best_columns():
    context = pack_schema("q", SHOP[1:2] + SHOP[3:4] + SHOP[:1], 1000, token_counter().count)
    assert context.text == (
        "CREATE TABLE customers (\n"
        "  email text, -- the email of customers\n"
        "  id integer PRIMARY KEY -- the id of customers\n"
        ");\n"
        "CREATE TABLE orders (\n"
        "  customer_id integer REFERENCES customers (id) -- the customer_id of orders\n"
        ");"
    )
    assert context.tables == ("customers", "orders")
    assert context.left_out == 0


def test_many_tables_with_one_key_are_joined_with_the_table_it_identifies():
    """As in Bacula, whose tables have no foreign keys: not every pair is a join."""
    tables = ("file", "log", "job", "jobmedia", "snapshot")
    fields = [
        FieldSpec("jobid", "integer", "", table=name, primary_key=name == "job") for name in tables
    ]
    joins = [join.condition for join in direct_joins(fields)]
    assert joins == [f"job.jobid = {name}.jobid" for name in tables if name != "job"]


def test_a_key_that_several_tables_have_identifies_the_table_it_is_named_after():
    """As in Bacula: the key of a folder is also that of its place among other folders."""
    fields = [
        FieldSpec("pathid", "integer", "", table=name, primary_key=name != "file")
        for name in ("path", "pathhierarchy", "file")
    ]
    joins = [join.condition for join in direct_joins(fields)]
    assert joins == ["path.pathid = pathhierarchy.pathid", "path.pathid = file.pathid"]


def test_a_column_named_after_a_table_joins_its_key():
    """As in MediaWiki, where the names of columns begin with an abbreviation of their table."""
    fields = [
        FieldSpec("rc_id", "integer", "", table="recentchanges", primary_key=True),
        FieldSpec("rc_actor", "bigint", "", table="recentchanges"),
        FieldSpec("rc_comment_id", "bigint", "", table="recentchanges"),
        FieldSpec("rc_title", "text", "", table="recentchanges"),
        FieldSpec("actor_id", "bigint", "", table="actor", primary_key=True),
        FieldSpec("comment_id", "bigint", "", table="comment", primary_key=True),
    ]
    assert [join.condition for join in direct_joins(fields)] == [
        "recentchanges.rc_actor = actor.actor_id",
        "recentchanges.rc_comment_id = comment.comment_id",
    ]


def test_the_best_tables_bring_the_names_of_what_they_refer_to():
    """Who changed a page is in another table, which no word of the question mentions."""
    changes = [column("changes", f"detail_{i}", "text") for i in range(9)]
    noise = [column(f"t{i}", f"change_{i}", "text") for i in range(40)]
    people = [
        column("people", "id", primary_key=True),
        column("people", "user_name", "text"),
        *(column("people", f"other_{i}", "text") for i in range(4)),
    ]
    who = column("changes", "person", references="people.id")
    ranked = [*changes, *noise, *people, who]
    context = pack_schema("who changed it?", ranked, 300, token_counter().count)
    named = {(field.table, field.field_name) for field in context.fields}
    assert {("changes", "person"), ("people", "id"), ("people", "user_name")} <= named
    assert "t39" not in context.tables
    assert "person integer REFERENCES people (id)" in context.text


def test_a_table_that_fits_brings_its_dates_and_its_plain_name():
    """No word of "which job failed last night?" is the name of a column with the time."""
    job = [column("job", f"job_failed_{i}", "text") for i in range(9)]
    noise = [column(f"t{i}", f"night_{i}", "text") for i in range(40)]
    late = [
        column("job", "uname", "text"),
        column("job", "name", "text"),
        column("job", "other", "text"),
        column("job", "started", "timestamp without time zone"),
    ]
    context = pack_schema("q", [*job, *noise, *late], 250, token_counter().count)
    named = {(field.table, field.field_name) for field in context.fields}
    assert {("job", "started"), ("job", "name"), ("job", "uname")} <= named
    assert len(context.tables) < len(noise)


def test_columns_that_come_twice_keep_their_first_rank():
    """A search brings 1,000 columns at most; all columns of a larger schema are added to them."""
    count = token_counter().count
    context = pack_schema("q", [*SHOP[::-1], *SHOP], 60, count)
    assert context == pack_schema("q", SHOP[::-1], 60, count)
    assert context.fields[0] == SHOP[-1]


def test_the_text_is_sql(plain):
    """Reserved names, keys of several columns, and the long names of types."""
    fields = [
        FieldSpec("id", "bigint", "", table="user", primary_key=True),
        FieldSpec("group", "character varying(32)", "its group", table="user"),
        FieldSpec("seen", "timestamp(3) with time zone", "Seen", table="user"),
        FieldSpec("user_id", "bigint", "", table="visit", primary_key=True, references="user.id"),
        FieldSpec("at", "timestamp without time zone", "", table="visit", primary_key=True),
        FieldSpec("mark", "character(1)[]", "", table="visit"),
    ]
    text = pack_schema("q", fields, 1000, token_counter().count).text
    assert text == (
        'CREATE TABLE "user" (\n'
        '  "group" varchar(32), -- its group\n'
        "  id bigint PRIMARY KEY, seen timestamptz(3)\n"
        ");\n"
        "CREATE TABLE visit (\n"
        '  user_id bigint REFERENCES "user" (id), at timestamp, mark char(1)[],'
        " PRIMARY KEY (user_id, at)\n"
        ");"
    )
    with plain.schema.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("CREATE SCHEMA written")
        connection.execute("SET LOCAL search_path = written")
        connection.execute(text)


@pytest.mark.parametrize("budget", [1, 20, 60, 150, 400, 5000])
def test_the_budget_is_kept_and_used(budget):
    count = token_counter().count
    many = [column(f"t{i // 10}", f"column_{i}", "text") for i in range(100)]
    context = pack_schema("q", many, budget, count)
    assert context.tokens == count(context.text) <= budget
    assert context.left_out == 100 - len(context.fields)
    whole = pack_schema("q", many, 10**6, count)
    if budget >= 60:
        assert context.fields[0] == many[0]
        # Nothing more would fit: a line with a name costs less than 15 tokens.
        assert context.tokens > min(budget, whole.tokens) - 15
    with pytest.raises(UsageError):
        pack_schema("q", many, 0, count)


def test_the_adapter_offers_joins_and_the_text(database):
    adapter = database.adapter()
    adapter.add_nodes(
        [
            field("acme", "customers.id", metadata={"primary_key": True, "field_type": "int"}),
            field("acme", "customers.email", metadata={"field_type": "text"}),
            field(
                "acme",
                "sales.orders.customer_id",
                metadata={"references": "customers.id", "schema": "sales"},
            ),
            field("rival", "customers.secret"),
        ]
    )
    first = adapter.get_similar_fields("sales.orders.customer_id", "acme")[0]
    assert (first.schema, first.table, first.references) == ("sales", "orders", "customers.id")
    (path,) = adapter.get_join_paths(["customers", "orders"], "acme", "sales")
    assert path.conditions == ("sales.orders.customer_id = customers.id",)
    with pytest.raises(UsageError, match="no table 'invoices'"):
        adapter.get_join_paths(["invoices", "orders"], "acme")
    context = adapter.schema_context("customer email", "acme", budget=200)
    assert "CREATE TABLE customers" in context.text
    assert "secret" not in context.text
    assert context.tokens <= 200
    assert adapter.metrics().searches["fields"].calls == 2

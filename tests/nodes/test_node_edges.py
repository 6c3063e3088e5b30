"""Values at the edge: the right result, or an error that says what is wrong."""

import datetime
import decimal
import json
import math

import numpy as np
import psycopg
import pytest
from nodes_world import DIM, WordVectors, field

from packwise.errors import DataError, UsageError
from packwise.nodes.importing import import_nodes
from packwise.nodes.records import KnowledgeNode, problem_of

VECTOR = str([1.0] * DIM)


def call(database, **named):
    """The function of the database, as another client calls it."""
    arguments = "".join(f", {name} => %({name})s" for name in named)
    with database.connect(role=True, tenants=["acme"]) as connection:
        return connection.execute(
            "SELECT * FROM hybrid_search_nodes('customer email', %(vector)s, ARRAY['acme'], NULL"
            f"{arguments})",
            {"vector": VECTOR, **named},
        ).fetchall()


def test_the_largest_top_k_finds_everything(shop, database):
    assert len(call(database, top_k=2**31 - 1)) == 5
    assert len(call(database, top_k=2**30)) == 5
    assert call(database, top_k=0) == []
    with pytest.raises(UsageError, match="k must be 1 to 1000, not 2147483647"):
        shop.hybrid_search("x", None, ["acme"], top_k=2**31 - 1)


@pytest.mark.parametrize(
    ("keyword", "vector"),
    [(math.nan, 0.6), (0.4, math.nan), (0, 0), (-1, 1), (math.inf, 1), (None, 1)],
)
def test_weights_that_make_no_sense_are_refused(shop, database, keyword, vector):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="weights must be finite"):
        call(database, bm25_weight=keyword, vector_weight=vector)
    if keyword is not None:
        with pytest.raises(UsageError, match="weights must be finite"):
            shop.hybrid_search("x", None, ["acme"], bm25_weight=keyword, vector_weight=vector)


@pytest.mark.parametrize("least", [math.nan, -0.1, 1.1])
def test_a_least_score_outside_0_to_1_is_refused(shop, database, least):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="min_score must be 0 to 1"):
        call(database, min_score=least)
    with pytest.raises(UsageError, match="min_score must be 0 to 1"):
        shop.hybrid_search("x", None, ["acme"], min_score=least)


def test_results_below_the_least_score_are_left_out(shop, database):
    every = shop.hybrid_search("customer email", None, ["acme"])
    least = sorted(hit.score for hit in every)[2]
    kept = shop.hybrid_search("customer email", None, ["acme"], min_score=least)
    assert [h.node for h in kept] == [h.node for h in every if h.score >= least]
    assert len(kept) == 3
    assert (
        shop.hybrid_search("customer email", None, ["acme"], top_k=2, min_score=least) == kept[:2]
    )
    rows = call(database, min_score=0.3)
    assert 0 < len(rows) < 5
    assert all(row[3] >= 0.3 for row in rows)


def test_a_plan_made_for_few_nodes_does_not_read_all_of_many(database):
    adapter = database.adapter()
    adapter.add_nodes([field("rival", f"invoice {i}") for i in range(60)])
    adapter.add_nodes([field("acme", "customer email"), field("acme", "customer name")])
    search = (
        "SELECT node_id FROM hybrid_search_nodes('customer email', %s, ARRAY['acme'], NULL)",
        (VECTOR,),
    )
    with database.connect() as owner, database.connect(role=True, tenants=["acme"]) as connection:
        owner.execute("ANALYZE")
        found = connection.execute(*search).fetchall()
        assert len(found) == 2
        adapter.add_nodes([field("rival", f"invoice {i}") for i in range(60, 3000)])
        with connection.transaction():
            assert connection.execute(*search).fetchall() == found
            read = connection.execute(
                "SELECT relname, seq_scan FROM pg_stat_xact_user_tables WHERE schemaname = %s"
                " AND relname IN ('knowledge_nodes', 'knowledge_postings') ORDER BY 1",
                (database.schema.name,),
            ).fetchall()
        assert {name for name, _ in read} == {"knowledge_nodes", "knowledge_postings"}
        # Each leg plans anew and may read a table once; what joins them finds rows by id.
        assert max(scans for _, scans in read) <= 1


@pytest.mark.parametrize(
    ("text", "split"),
    [("word " * 45_000, 225_000), ("人口" * 60_000, 240_000), ("aB" * 80_000, 240_000)],
)
def test_text_that_could_not_be_searched_to_its_end_is_refused(plain, tmp_path, text, split):
    adapter = plain.adapter()
    node = field("acme", "too long", content=text)
    # The description and the three spaces between the parts count too.
    size = f"{split + len('too long') + 3:,}"
    with pytest.raises(UsageError, match=f"'too long' has {size} characters, and 200,000 can"):
        adapter.add_nodes([node])
    path = tmp_path / "n.jsonl"
    row = {"tenant_id": "acme", "node_type": "field", "title": "too long", "content": text}
    path.write_text(json.dumps(row))
    with pytest.raises(DataError, match="line 1: the text of the node"):
        import_nodes(adapter.store, path, WordVectors)
    insert = "INSERT INTO knowledge_nodes (tenant_id, node_type, title, content) VALUES"
    refused = pytest.raises(psycopg.DataError, match=size.replace(",", ""))
    with plain.connect() as connection, refused:
        connection.execute(f"{insert} ('acme', 'field', 'too long', %s)", (text,))
    assert adapter.store.count(["acme"]) == 0


def test_a_long_text_is_searched_to_its_end(plain):
    adapter = plain.adapter()
    adapter.add_nodes(
        [
            field("acme", "long", content="word " * 39_000 + "needle"),
            field("acme", "長い", content="人口" * 40_000 + "針"),
        ]
    )
    for asked, title in (("needle", "long"), ("針", "長い")):
        (hit,) = adapter.store.search(asked, None, ["acme"], k=5)
        assert hit.node.title == title


def test_words_of_scripts_without_spaces_are_found(database):
    adapter = database.adapter()
    long = "これは顧客の電子メールアドレスを保存する列です。" * 60  # one word for the parser
    adapter.add_nodes(
        [
            field("acme", "address", content=long),
            field("acme", "人口", summary="東京都の人口"),
            field("acme", "이메일 주소", summary="고객 이메일"),
        ]
    )
    for asked, title in (("メール", "address"), ("東京", "人口"), ("이메일", "이메일 주소")):
        found = adapter.store.search(asked, None, ["acme"], k=5)
        assert found[0].node.title == title
        assert found[0].keyword > 0


def test_a_text_changed_by_sql_loses_the_vector_of_the_old_text(database):
    adapter = database.adapter()
    (one, two) = adapter.add_nodes(
        [field("acme", "customer email", node_key="1"), field("acme", "orders", node_key="2")]
    )
    with database.connect() as connection:
        connection.execute("UPDATE knowledge_nodes SET title = 'salary' WHERE node_id = %s", (one,))
        connection.execute(
            "UPDATE knowledge_nodes SET title = 'total', embedding = %s WHERE node_id = %s",
            (VECTOR, two),
        )
    hits = {h.node.node_id: h for h in adapter.hybrid_search("salary", None, ["acme"])}
    assert hits[one].vector is None
    assert hits[one].keyword > 0
    assert hits[two].vector == pytest.approx(
        float(np.ones(DIM) @ adapter.embed("salary") / math.sqrt(DIM)), abs=1e-5
    )
    # What was imported is not what is stored any more, so it is written again.
    adapter.add_nodes([field("acme", "customer email", node_key="1")])
    (again,) = (n for n in adapter.get_nodes("acme") if n.node_id == one)
    assert again.title == "customer email"
    assert adapter.hybrid_search("customer email", None, ["acme"])[0].vector == pytest.approx(1)


def test_a_change_that_is_not_embedded_keeps_the_vector(plain):
    adapter = plain.adapter()
    (one,) = adapter.add_nodes(
        [field("acme", "show revenue", node_type="qa_example", content="SELECT 1")]
    )
    with plain.connect() as connection:
        connection.execute("UPDATE knowledge_nodes SET content = 'SELECT 2', metadata = '{}'")
    (hit,) = adapter.hybrid_search("show revenue", None, ["acme"])
    assert (hit.node.node_id, hit.node.content) == (one, "SELECT 2")
    assert hit.vector == pytest.approx(1)


def test_metadata_takes_dates_and_refuses_what_cannot_be_stored(plain):
    adapter = plain.adapter()
    values = {
        "on": datetime.date(2024, 5, 1),
        "at": datetime.datetime(2024, 5, 1, 12, 30),
        "price": decimal.Decimal("1.50"),
        "none": None,
    }
    adapter.add_nodes([field("acme", "dates", metadata=values)])
    (node,) = adapter.get_nodes("acme")
    assert node.metadata == {
        "on": "2024-05-01",
        "at": "2024-05-01T12:30:00",
        "price": "1.50",
        "none": None,
    }
    for bad in ({"x": object()}, {"x": math.nan}, {"x": {1, 2}}):
        with pytest.raises(UsageError, match="metadata of the node 'bad' cannot be stored") as said:
            adapter.add_nodes([field("acme", "bad", metadata=bad)])
        assert "\n" not in str(said.value)


def test_what_cannot_be_stored_is_said_before_anything_is_written():
    assert problem_of(field("acme", "fine")) == ""
    assert "title of the node 'None' is not text" in problem_of(KnowledgeNode("a", "f", None))
    assert "longer than 2000 bytes" in problem_of(field("acme", "x", node_key="é" * 1200))


def test_nodes_without_a_vector_are_embedded_and_a_change_meanwhile_is_kept(database):
    class Slow(WordVectors):
        """Another client changes a node while its text is embedded."""

        def embed_passages(self, texts, progress=None):
            if "net revenue" in texts:
                with database.connect() as connection:
                    connection.execute(
                        "UPDATE knowledge_nodes SET title = 'gross revenue' WHERE title = %s",
                        ("net revenue",),
                    )
            return super().embed_passages(texts)

    with database.connect() as connection:
        connection.execute(
            "INSERT INTO knowledge_nodes (tenant_id, node_type, node_key, title, metadata) VALUES"
            " ('acme', 'term', '1', 'net revenue', '{\"unit\": \"EUR\"}'),"
            " ('acme', 'term', '2', 'churn', '{}'), ('rival', 'term', '1', 'margin', '{}')"
        )
    adapter = database.adapter(embedder=Slow())
    assert adapter.embed_missing("acme") == 2
    assert adapter.embed_missing("acme") == 0
    hits = adapter.hybrid_search("gross revenue", None, ["acme"])
    assert (hits[0].node.title, hits[0].node.metadata) == ("gross revenue", {"unit": "EUR"})
    assert hits[0].vector == pytest.approx(1)
    assert all(hit.vector is not None for hit in hits)
    assert adapter.hybrid_search("margin", None, ["rival"])[0].vector is None

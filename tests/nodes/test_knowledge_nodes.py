"""Knowledge nodes through the adapter and through SQL, on both servers."""

import asyncio
import random
import threading
from contextlib import closing
from uuid import uuid4

import bm25s
import numpy as np
import psycopg
import pytest
from nodes_world import DIM, Database, WordVectors, field

from packwise.errors import EmbedderMismatch, StoreError, StoreMissing, UsageError
from packwise.nodes.adapter import AsyncKnowledgeVerseAdapter
from packwise.nodes.records import ExampleSpec, FieldSpec, band
from packwise.nodes.schema import NodesSchema, init_nodes, rebuild_vector_index
from packwise.nodes.store import NodeStore
from packwise.stores import bm25
from postgres_servers import Schema, has_textsearch

SEED_COLUMNS = {
    "node_id": "integer",
    "tenant_id": "text",
    "dataset_name": "text",
    "node_type": "text",
    "title": "text",
    "summary": "text",
    "content_description": "text",
    "content": "text",
    "metadata": "jsonb",
    "searchable_text": "tsvector",
    "embedding": f"vector({DIM})",
    "embedder_version": "text",
    "created_at": "timestamp with time zone",
    "updated_at": "timestamp with time zone",
}


def test_the_tables_indexes_and_function_are_the_specified_ones(database):
    with database.connect() as connection:
        columns = dict(
            connection.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = 'knowledge_nodes'::regclass AND attnum > 0"
            ).fetchall()
        )
        assert columns.items() >= SEED_COLUMNS.items()
        indexes = dict(
            connection.execute(
                "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'knowledge_nodes'"
                " AND schemaname = %s",
                (database.schema.name,),
            ).fetchall()
        )
        assert "USING gin (searchable_text)" in indexes["idx_knowledge_nodes_searchable"]
        assert (
            "USING hnsw (embedding vector_cosine_ops)" in indexes["idx_knowledge_nodes_embedding"]
        )
        for column in ("tenant", "type", "dataset"):
            assert "USING btree" in indexes[f"idx_knowledge_nodes_{column}"]
        arguments, result = connection.execute(
            "SELECT pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc"
            " WHERE proname = 'hybrid_search_nodes' AND pronamespace = %s::regnamespace",
            (database.schema.name,),
        ).fetchone()
    assert arguments == (
        "query_text text, query_embedding vector, tenant_ids text[], node_types text[],"
        " top_k integer DEFAULT 20, bm25_weight double precision DEFAULT 0.4,"
        " vector_weight double precision DEFAULT 0.6, min_score double precision DEFAULT 0"
    )
    assert result == (
        "TABLE(node_id integer, bm25_score double precision, vector_score double precision,"
        " combined_score double precision, relevance double precision)"
    )


def test_init_can_be_run_again_and_keeps_what_is_there(shop, database):
    assert init_nodes(database.url, NodesSchema(DIM, role=database.role)) == []
    assert len(shop.get_nodes("acme")) == 5
    with pytest.raises(EmbedderMismatch, match="16 dimensions, not 384"):
        init_nodes(database.url, NodesSchema(384, role=database.role))


def test_a_database_of_a_later_packwise_is_left_alone(plain):
    with plain.connect() as connection:
        connection.execute("INSERT INTO packwise_migrations VALUES ('nodes', 99, 'later')")
    with pytest.raises(StoreError, match="later Packwise"):
        init_nodes(plain.url, NodesSchema(DIM, role=plain.role))


def test_nodes_come_back_as_they_were_given(shop):
    given = field(
        "acme",
        "it's; DROP TABLE knowledge_nodes; --",
        summary='quotes " and \\ and %s',
        content_description="日本語 🦜",
        content="x" * 5000,
        metadata={"a": [1, {"b": None}], "é": True},
        node_key="odd",
    )
    (node_id,) = shop.add_nodes([given])
    stored = {node.node_key: node for node in shop.get_nodes("acme")}["odd"]
    assert stored.node_id == node_id
    assert (stored.title, stored.summary, stored.content) == (
        given.title,
        given.summary,
        given.content,
    )
    assert stored.metadata == given.metadata
    assert stored.embedder_version == "words-1"


def test_fingerprints_are_those_of_nodes_already_stored():
    node = field(
        "acme",
        "customers.email",
        summary="s",
        content_description="d",
        content="c",
        metadata={"b": 1, "a": "x\0"},
    )
    assert node.fingerprint == "102aea5bcd2ba4fe4a667861ad0fb183"


def test_an_empty_name_is_a_filter_too(plain):
    adapter = plain.adapter()
    adapter.add_nodes([field("acme", "a", dataset_name=""), field("acme", "b")])
    assert [node.title for node in adapter.get_nodes("acme", "")] == ["a"]
    assert len(adapter.get_nodes("acme", [])) == 2


def test_get_nodes_filters_by_data_set_and_type(shop):
    assert len(shop.get_nodes("acme")) == 5
    assert [n.title for n in shop.get_nodes("acme", "hr")] == ["staff.email"]
    assert [n.title for n in shop.get_nodes("acme", "sales", "qa_example")] == [
        "show total revenue"
    ]
    assert len(shop.get_nodes("acme", ["sales", "hr"], ["field", "qa_example"])) == 5
    assert shop.get_nodes("nobody") == []


def test_similar_nodes_are_by_cosine_and_above_the_threshold(shop):
    asked = WordVectors().embed_query("customers.email customer email address")
    found = shop.get_similar_nodes(asked, "acme", top_k=10, similarity_threshold=0.3)
    assert found[0].node.title == "customers.email"
    assert found[0].vector == pytest.approx(1, abs=1e-5)
    scores = [hit.vector for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 0.3
    assert len(shop.get_similar_nodes(asked, "acme", 10, -1.0)) == 5


def test_hybrid_search_finds_several_types_in_one_call(shop):
    found = shop.hybrid_search("total revenue", None, ["acme"], ["field", "qa_example"], top_k=2)
    assert {hit.node.title for hit in found} == {"orders.total", "show total revenue"}
    only = shop.hybrid_search("total revenue", None, ["acme"], ["field"], top_k=9)
    assert {hit.node.node_type for hit in only} == {"field"}
    assert len(only) == 4


def test_filters_apply_before_ranking(plain):
    adapter = plain.adapter()
    crowd = [field("acme", f"email address {i}", dataset_name="big") for i in range(300)]
    wanted = [field("acme", "something else", dataset_name="small", node_type="term")]
    adapter.add_nodes([*crowd, *wanted])
    for options in ({"dataset_names": "small"}, {"node_types": ["term"]}):
        (hit,) = adapter.hybrid_search("email address", None, ["acme"], top_k=1, **options)
        assert hit.node.title == "something else"
    asked = adapter.embed("email address")
    (hit,) = adapter.get_similar_nodes(asked, "acme", 1, -1.0, dataset_name="small")
    assert hit.node.title == "something else"


def test_fields_and_examples_come_as_specs(shop):
    shop.add_nodes(
        [
            field(
                "acme",
                "customers.phone",
                summary="phone number",
                metadata={
                    "field_name": "phone",
                    "field_type": "varchar(20)",
                    "description": "How to call them",
                    "sample_values": ["0123", 42],
                },
            )
        ]
    )
    first, *_ = shop.get_similar_fields("phone number", "acme", "sales", top_k=3)
    described = ("phone", "varchar(20)", "How to call them", ("0123", "42"))
    assert first == FieldSpec(*described, table="customers")
    assert shop.get_similar_fields("email address", "acme", "hr") == [
        FieldSpec("email", "", "employee email address", table="staff")
    ]
    assert shop.get_similar_qa_examples("show the total revenue", "acme", "sales") == [
        ExampleSpec("show total revenue", "SELECT sum(total) FROM orders", "adds up")
    ]


def test_bands_are_words_and_a_perfect_match_is_high(shop, database):
    assert [band(s) for s in (0.85, 0.849, 0.7, 0.699, 0.5, 0.499, 0)] == [
        "high",
        "good",
        "good",
        "partial",
        "partial",
        "low",
        "low",
    ]
    with database.connect() as connection:
        words = connection.execute(
            "SELECT array_agg(packwise_band(s)) FROM unnest(ARRAY[0.85, 0.7, 0.5, 0.1]) AS s"
        ).fetchone()[0]
    assert words == ["high", "good", "partial", "low"]
    text = "customers.email customer email address"
    perfect, *rest = shop.hybrid_search(text, None, ["acme"])
    assert (perfect.node.title, perfect.band) == ("customers.email", "high")
    assert perfect.combined > 0.85
    unrelated = shop.hybrid_search("zebra migration", None, ["acme"])
    assert all(hit.combined < 0.5 and hit.band == "low" for hit in unrelated)
    assert all(0 <= hit.combined <= 1 for hit in (perfect, *rest, *unrelated))


def test_combined_does_not_depend_on_what_else_is_found(shop):
    every = shop.hybrid_search("customer email", None, ["acme"], top_k=5)
    (one,) = shop.hybrid_search("customer email", None, ["acme"], top_k=1)
    assert every[0].combined == one.combined
    for hit in every:
        expected = 0.4 * hit.keyword + 0.6 * min(1, max(0, hit.vector))
        assert hit.combined == pytest.approx(expected, abs=1e-6)


def test_rrf_sorts_by_ranks_and_still_reports_combined(shop):
    weighted = shop.hybrid_search("customer email", None, ["acme"])
    fused = shop.hybrid_search("customer email", None, ["acme"], fusion="rrf")
    assert {h.node.node_id: h.combined for h in weighted} == {
        h.node.node_id: h.combined for h in fused
    }
    assert fused[0].final == pytest.approx(1 / 61)
    assert [h.final for h in fused] == sorted((h.final for h in fused), reverse=True)


def test_the_sql_function_answers_like_the_adapter(shop, database):
    asked = shop.embed("customer email")
    literal = str(asked.tolist())
    with database.connect(role=True, tenants=["acme"]) as connection:
        rows = connection.execute(
            "SELECT * FROM hybrid_search_nodes('customer email', %s, ARRAY['acme'],"
            " ARRAY['field'], 3)",
            (literal,),
        ).fetchall()
        default = connection.execute(
            "SELECT count(*) FROM hybrid_search_nodes('customer email', %s, ARRAY['acme'], NULL)",
            (literal,),
        ).fetchone()
    found = shop.hybrid_search("customer email", None, ["acme"], ["field"], top_k=3)
    assert [(r[0], r[1], r[3]) for r in rows] == [
        (h.node.node_id, h.bm25, h.combined) for h in found
    ]
    assert default == (5,)


def corpus_of(connection, tenants):
    """Ids and terms, as the server's own text search sees them."""
    rows = connection.execute(
        "SELECT node_id, ARRAY(SELECT lexeme FROM unnest(searchable_text),"
        " generate_series(1, cardinality(positions))) FROM knowledge_nodes"
        " WHERE tenant_id = ANY (%s) ORDER BY node_id",
        (tenants,),
    )
    return rows.fetchall()


def assert_equal_to_bm25s(database, adapter, tenants, questions):
    with database.connect() as connection:
        corpus = corpus_of(connection, tenants)
        lexemes = [
            connection.execute(
                "SELECT tsvector_to_array(to_tsvector('english', packwise_words(%s)))", (q,)
            ).fetchone()[0]
            for q in questions
        ]
    retriever = bm25s.BM25(method="lucene", k1=bm25.K1, b=bm25.B, dtype="float64")
    retriever.index([terms for _, terms in corpus], show_progress=False)
    for question, terms in zip(questions, lexemes, strict=True):
        known = [term for term in terms if term in retriever.vocab_dict]
        # bm25s leaves out the constant factor k1 + 1.
        scores = retriever.get_scores(known) * (bm25.K1 + 1) if known else np.zeros(len(corpus))
        wanted = {i: s for (i, _), s in zip(corpus, scores, strict=True) if s > 0}
        found = adapter.store.search(question, None, tenants, k=1000)
        assert {h.node.node_id: h.bm25 for h in found} == pytest.approx(wanted, abs=1e-3)


def test_bm25_equals_bm25s_and_stays_right_under_insert_update_and_delete(database):
    rng = random.Random(3)
    words = [f"word{i}" for i in range(60)] + ["customers", "running", "the"]
    weights = [1 / (i + 1) for i in range(len(words))]

    def text():
        return " ".join(rng.choices(words, weights, k=rng.choice([1, 3, 9, 30, 80])))

    questions = ["word0", "word1 customer runs the", "word40 word41 nothing", "absent"]
    adapter = database.adapter()
    nodes = [
        field(rng.choice(["a", "b"]), text(), content=text(), node_key=str(i)) for i in range(120)
    ]
    ids = adapter.add_nodes(nodes)
    for tenants in (["a"], ["a", "b"]):
        assert_equal_to_bm25s(database, adapter, tenants, questions)
    adapter.add_nodes(
        [field(n.tenant_id, text(), node_key=n.node_key) for n in nodes[:40]]
        + [field("a", text(), node_key=f"new-{i}") for i in range(20)]
    )
    with database.connect() as connection:
        connection.execute("UPDATE knowledge_nodes SET title = 'word0 word0' WHERE node_id % 7 = 0")
        connection.execute("UPDATE knowledge_nodes SET tenant_id = 'b' WHERE node_id % 11 = 0")
        connection.execute("DELETE FROM knowledge_nodes WHERE node_id % 5 = 0")
    adapter.delete_nodes(ids[60:70], "a")
    for tenants in (["a"], ["b"], ["a", "b"]):
        assert_equal_to_bm25s(database, adapter, tenants, questions)
    with database.connect() as connection:
        connection.execute("TRUNCATE knowledge_nodes")
        assert connection.execute("SELECT count(*) FROM knowledge_postings").fetchone() == (0,)
    assert adapter.store.search("word0", None, ["a"], k=5) == []


def test_statistics_stay_right_when_writers_overlap(plain):
    adapter = plain.adapter()
    adapter.add_nodes([field("acme", "shared words", node_key="first")])
    wrong = []

    def write(number):
        try:
            for i in range(25):
                (made,) = adapter.add_nodes([field("acme", f"shared {number} {i}")])
                if i % 3 == 0:
                    adapter.delete_nodes([made], "acme")
        except Exception as error:
            wrong.append(repr(error))
            raise

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with plain.connect() as connection:
        nodes, terms = connection.execute(
            "SELECT count(*), sum((SELECT sum(cardinality(positions))"
            " FROM unnest(searchable_text))) FROM knowledge_nodes"
        ).fetchone()
        totals = connection.execute(
            "SELECT sum(nodes), sum(terms), sum(vectors), count(*) FROM knowledge_totals"
        ).fetchone()
        held = connection.execute(
            "SELECT count(*) FROM (SELECT term FROM knowledge_terms GROUP BY term"
            " HAVING sum(nodes) <> (SELECT count(*) FROM knowledge_postings AS p"
            " WHERE p.term = knowledge_terms.term)) AS wrong"
        ).fetchone()
        rows = connection.execute("SELECT count(*) FROM knowledge_terms").fetchone()
    assert totals[:3] == (nodes, terms, nodes)
    assert held == (0,)
    # Differences are summed up now and then: they do not pile up with every write.
    assert totals[3] < 4 * 33
    assert rows[0] < 500
    assert_equal_to_bm25s(plain, adapter, ["acme"], ["shared", "shared 3 24"])


def test_a_change_that_says_nothing_new_leaves_the_statistics_alone(plain):
    adapter = plain.adapter()
    adapter.add_nodes([field("acme", f"customer email {i}") for i in range(5)])
    with plain.connect() as connection:
        before = connection.execute("SELECT count(*) FROM knowledge_terms").fetchone()
        connection.execute("UPDATE knowledge_nodes SET metadata = '{\"seen\": true}'")
        assert connection.execute("SELECT count(*) FROM knowledge_terms").fetchone() == before
        connection.execute("UPDATE knowledge_nodes SET node_id = node_id + 1000")
    assert_equal_to_bm25s(plain, adapter, ["acme"], ["customer", "email 3"])


def test_pg_textsearch_finds_the_candidates_of_a_large_tenant():
    database = Database("textsearch")
    try:
        adapter = database.adapter()
        if adapter.store.settings()["ranking"] != "pg_textsearch":
            pytest.skip("the server has no pg_textsearch")
        with database.connect() as connection:
            connection.execute(
                "INSERT INTO knowledge_nodes (tenant_id, node_type, title)"
                " SELECT 'acme', 'field', 'common word' || i %% 977 || ' rare' || i %% 7001"
                " FROM generate_series(1, %s) AS i",
                (30_010,),
            )
        asked = "common word5 rare982"
        found = adapter.store.search(asked, None, ["acme"], k=10)
        assert found[0].node.title == "common word5 rare982"
        with database.connect() as connection:
            # Without the index the function would have nothing to ask.
            connection.execute("DROP INDEX idx_knowledge_nodes_bm25")
        with pytest.raises(StoreMissing, match="idx_knowledge_nodes_bm25"):
            adapter.store.search(asked, None, ["acme"], k=10)
        other = Database("textsearch", ranking="sql")
        assert other.adapter().store.settings()["ranking"] == "sql"
        other.close()
    finally:
        database.close()


def test_an_extension_in_another_schema_is_found_there():
    whole = Schema("textsearch")
    if not has_textsearch(whole.url):
        pytest.skip("the server has no pg_textsearch")
    name = f"packwise_apart_{uuid4().hex[:8]}"
    with whole.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    apart = whole.url.replace("/postgres?", f"/{name}?")
    try:
        with psycopg.connect(apart, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA elsewhere")
            connection.execute("CREATE EXTENSION vector SCHEMA elsewhere")
            connection.execute("CREATE EXTENSION pg_textsearch SCHEMA elsewhere")
        init_nodes(apart, NodesSchema(DIM, role=whole.role))
        with closing(NodeStore(apart)) as store:
            assert store.settings()["ranking"] == "pg_textsearch"
            with psycopg.connect(apart, autocommit=True) as connection:
                connection.execute(
                    "INSERT INTO knowledge_nodes (tenant_id, node_type, title)"
                    " SELECT 'acme', 'field', 'common word' || i FROM generate_series(1, %s) AS i",
                    (30_010,),
                )
            found = store.search("common word5", None, ["acme"], k=3)
            assert found[0].node.title == "common word5"
    finally:
        with whole.connect() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        whole.drop()


def test_extensions_are_not_lost_with_the_schema_that_first_needed_them(database):
    with database.connect() as connection:
        rows = connection.execute(
            "SELECT extnamespace::regnamespace::text FROM pg_extension"
            " WHERE extname IN ('vector', 'pg_textsearch')"
        ).fetchall()
    assert {name for (name,) in rows} == {"public"}


def test_ranking_by_an_extension_that_is_not_there_is_refused():
    schema = Schema("plain")
    if has_textsearch(schema.url):
        pytest.skip("this server has pg_textsearch")
    with pytest.raises(StoreError, match="pg_textsearch cannot be used"):
        init_nodes(schema.url, NodesSchema(DIM, role=schema.role, ranking="pg_textsearch"))
    schema.drop()


@pytest.mark.parametrize("kind", ["hnsw", "ivfflat"])
def test_an_index_scan_never_brings_fewer_than_asked(plain, kind):
    rng = np.random.default_rng(5)
    adapter = plain.adapter()
    nodes = [
        field("big", f"n{i}", node_type="rare" if i % 50 == 0 else "field", node_key=str(i))
        for i in range(2500)
    ]
    centres = rng.normal(size=(40, DIM))
    vectors = centres[rng.integers(0, 40, 2500)] + 0.4 * rng.normal(size=(2500, DIM))
    adapter.add_nodes(nodes, vectors)
    assert rebuild_vector_index(plain.url, kind) == kind
    with plain.connect() as connection:
        definition = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_knowledge_nodes_embedding'"
            " AND schemaname = %s",
            (plain.schema.name,),
        ).fetchone()[0]
    assert kind in definition
    assert (f"lists='{round(2500**0.5)}'" in definition) == (kind == "ivfflat")
    asked = centres[0] + 0.4 * rng.normal(size=DIM)
    found = adapter.get_similar_nodes(asked, "big", 40, -1.0, node_types="rare")
    assert len(found) == 40
    best = adapter.store.search("", asked, ["big"], k=20, exact=True)
    near = adapter.store.search("", asked, ["big"], k=20)
    same = {h.node.node_id for h in best} & {h.node.node_id for h in near}
    assert len(same) >= 18


def test_replacing_adding_and_deleting_nodes(shop):
    first = field("acme", "old title", node_key="k")
    (one,) = shop.add_nodes([first])
    (two,) = shop.add_nodes([field("acme", "new title", node_key="k")])
    assert one == two
    assert [n.title for n in shop.get_nodes("acme") if n.node_key == "k"] == ["new title"]
    (twin,) = shop.add_nodes([field("rival", "new title", node_key="k")])
    assert twin != one
    assert shop.delete_nodes([one, twin, 10**6, 2**40], "acme") == 1
    assert [n.node_id for n in shop.get_nodes("rival") if n.node_key == "k"] == [twin]


def test_all_nodes_of_a_call_are_written_or_none(shop):
    before = len(shop.get_nodes("acme"))
    vectors = np.ones((2, DIM), np.float32)
    vectors[1] = 0
    with pytest.raises(StoreError, match="all zero"):
        shop.add_nodes([field("acme", "a"), field("acme", "b")], vectors)
    with pytest.raises(UsageError, match="tenant id"):
        shop.add_nodes([field("acme", "a"), field("", "b")])
    with pytest.raises(UsageError, match="node_type"):
        shop.add_nodes([field("acme", "a"), field("acme", "b", node_type="")])
    assert len(shop.get_nodes("acme")) == before


def test_vectors_of_two_embedders_are_not_mixed(shop):
    with pytest.raises(EmbedderMismatch, match="words-1"):
        shop.add_nodes([field("acme", "x")], np.ones((1, DIM)), embedder_version="other-1")
    shop.add_nodes(
        [field("acme", "x")], np.ones((1, DIM)), embedder_version="other-1", allow_mismatch=True
    )
    with pytest.raises(EmbedderMismatch, match="other-1"):
        shop.hybrid_search("x", None, ["acme"])


def test_wrong_dimensions_are_refused_by_name(shop, database):
    with pytest.raises(EmbedderMismatch, match="16 dimensions"):
        shop.hybrid_search("x", np.ones(DIM + 1), ["acme"])
    with pytest.raises(EmbedderMismatch, match="16"):
        shop.add_nodes([field("acme", "x")], np.ones((1, DIM + 1)))
    stranger = database.adapter(embedder=WordVectors(8))
    with pytest.raises(EmbedderMismatch, match="8 dimensions"):
        stranger.hybrid_search("x", None, ["acme"])
    with database.connect() as connection, pytest.raises(psycopg.DataError, match="16 dimensions"):
        connection.execute("SELECT * FROM hybrid_search_nodes('x', '[1,2]', '{a}', NULL)")


def test_questions_are_embedded_once(database):
    embedder = WordVectors()
    adapter = database.adapter(embedder=embedder)
    adapter.add_nodes([field("acme", "customer email")])
    for _ in range(5):
        adapter.hybrid_search("email", None, ["acme"])
    assert embedder.asked == 1


QUESTIONS = [
    "'; DROP TABLE knowledge_nodes; --",
    "MATCH (n) DETACH DELETE n",
    "a & b | !c <-> (d",
    "%s %(x)s {} $1 \\",
    "nul \0 and \ud800",
    "customer email " * 700,
    "the of and",
    "🦜 日本語",
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: ascii(q[:20]))
def test_any_text_is_a_question(shop, question):
    found = shop.hybrid_search(question, np.ones(DIM), ["acme"], top_k=9)
    assert len(found) == 5
    assert all(0 <= hit.combined <= 1 for hit in found)


def test_calls_that_make_no_sense_are_refused(shop):
    for call in (
        lambda: shop.hybrid_search("  ", None, ["acme"]),
        lambda: shop.hybrid_search("x", None, []),
        lambda: shop.hybrid_search("x", None, "acme"),
        lambda: shop.hybrid_search("x", None, ["acme"], top_k=0),
        lambda: shop.hybrid_search("x", None, ["acme"], fusion="other"),
        lambda: shop.hybrid_search("x", None, ["acme"], bm25_weight=0, vector_weight=0),
        lambda: shop.hybrid_search("x", [float("nan")] * DIM, ["acme"]),
        lambda: shop.get_nodes(""),
    ):
        with pytest.raises(UsageError):
            call()


def test_the_async_adapter_does_the_same(shop, database):
    async def work():
        async with AsyncKnowledgeVerseAdapter(database.url, embedder=WordVectors()) as adapter:
            (made,) = await adapter.add_nodes([field("async", "customer email", node_key="k")])
            found, fields, nodes, examples, near = await asyncio.gather(
                adapter.hybrid_search("customer email", None, ["acme"]),
                adapter.get_similar_fields("customer email", "acme"),
                adapter.get_nodes("async"),
                adapter.get_similar_qa_examples("total revenue", "acme"),
                adapter.get_similar_nodes(np.ones(DIM), "acme"),
            )
            assert [node.node_id for node in nodes] == [made]
            assert await adapter.delete_nodes([made], "async") == 1
            return found, fields, examples, near

    found, fields, examples, near = asyncio.run(work())
    assert found == shop.hybrid_search("customer email", None, ["acme"])
    assert fields == shop.get_similar_fields("customer email", "acme")
    assert examples == shop.get_similar_qa_examples("total revenue", "acme")
    assert near == shop.get_similar_nodes(np.ones(DIM), "acme")

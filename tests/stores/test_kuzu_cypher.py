import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.errors import UsageError
from packwise.stores.kuzu.cypher import check_read_only

READS = [
    "MATCH (a:Article) RETURN a.title LIMIT 5",
    "match (a:Article {title: $t})-[:LINKS_TO]->(b) return b.title",
    "OPTIONAL MATCH (a)-[r:LINKS_TO*1..3]->(b) RETURN count(*)",
    "MATCH (a)-[:LINKS_TO*..4]-(b) RETURN b",
    "MATCH p = (a)-[:LINKS_TO* SHORTEST 1..5]->(b) RETURN p",
    "MATCH (a)-[:LINKS_TO*2]->(b) RETURN b",
    "MATCH (a)-[:LINKS_TO*1..8]->(b) RETURN b",
    "UNWIND [1, 2 * 3] AS x RETURN x * 2",
    "CALL QUERY_VECTOR_INDEX('Section', 'embedding_idx', $q, 5) RETURN node.title, distance",
    "CALL show_tables() RETURN *",
    "MATCH (a) WHERE a.title = 'DELETE everything; CREATE more' RETURN a",
    'MATCH (a) WHERE a.title CONTAINS "it\'s -- SET" RETURN a // CREATE nothing',
    "MATCH (a) /* DROP TABLE Article */ RETURN a;",
    "MATCH (a:Article) RETURN a.set, a.`create`, {delete: 1}",
    "MATCH (n) RETURN n.created AS creates, n.offset AS settled",
    "WITH 1 AS x RETURN x",
]

WRITES = [
    "CREATE (:Article {title: 'x'})",
    "MATCH (a) SET a.title = 'x'",
    "MATCH (a) DELETE a",
    "MATCH (a) DETACH DELETE a",
    "MATCH (a) REMOVE a.title",
    "MERGE (a:Article {title: 'x'})",
    "DROP TABLE Article",
    "ALTER TABLE Article ADD x INT64",
    "COPY Article FROM '/etc/passwd'",
    "LOAD FROM '/etc/passwd' RETURN *",
    "INSTALL httpfs",
    "LOAD EXTENSION httpfs",
    "ATTACH 'x.db' AS x (dbtype kuzu)",
    "USE x",
    "EXPORT DATABASE '/tmp/x'",
    "IMPORT DATABASE '/tmp/x'",
    "CALL threads = 8",
    "CALL DROP_VECTOR_INDEX('Section', 'embedding_idx')",
    "CALL CREATE_VECTOR_INDEX('Section', 'i', 'embedding')",
    "CALL PROJECT_GRAPH('g', ['Article'], ['LINKS_TO']) RETURN *",
    "MATCH (a) RETURN a; MATCH (b) DELETE b",
    "MATCH (a) RETURN a UNION MATCH (b) SET b.x = 1 RETURN b",
    "MATCH (a) WHERE a.x = 'open RETURN a",
    "MATCH (a) /* never closed RETURN a",
    "MATCH (a)/**/DELETE/**/a",
    "match (a) dElEtE a",
    "// only a comment",
    "'MATCH (a) RETURN a'",
    "",
    "   ",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "EXPLAIN MATCH (a) RETURN a",
    "MATCH (a)-[:LINKS_TO*]->(b) RETURN b",
    "MATCH (a)-[:LINKS_TO*1..]->(b) RETURN b",
    "MATCH (a)-[:LINKS_TO*1..9]->(b) RETURN b",
    "MATCH (a)-[:LINKS_TO*9]->(b) RETURN b",
    "MATCH (a)-[*]->(b) RETURN b",
    "MATCH (a)<-[r:LINKS_TO* ALL SHORTEST 1..30]-(b) RETURN b",
    "MATCH (a) RETURN a" + " " * 30_000,
]


@pytest.mark.parametrize("query", READS)
def test_what_reads_may_run(query):
    check_read_only(query)


@pytest.mark.parametrize("query", WRITES, ids=lambda query: query[:40])
def test_what_writes_or_has_no_bound_may_not(query):
    with pytest.raises(UsageError):
        check_read_only(query)


@given(
    st.text(max_size=60),
    st.sampled_from(["CREATE (:X)", "DELETE a", "SET a.x = 1", "DROP TABLE X"]),
)
def test_no_comment_or_string_before_it_hides_a_clause(noise, clause):
    quoted = noise.replace("\\", "").replace("'", "").replace("*/", "")
    for query in (
        f"MATCH (a) WHERE a.t = '{quoted}' {clause}",
        f"MATCH (a) /* {quoted} */ {clause}",
        f"MATCH (a) // {quoted.splitlines()[0] if quoted.splitlines() else ''}\n{clause}",
    ):
        with pytest.raises(UsageError):
            check_read_only(query)


@given(st.text(max_size=200))
def test_any_text_is_taken_or_refused_without_another_error(text):
    with contextlib.suppress(UsageError):
        check_read_only(text)

"""No tenant sees another's nodes. Each safeguard is tested by itself: take one away and the test
that names it fails."""

import os
import random

import numpy as np
import psycopg.sql
import pytest
from nodes_world import DIM, field

from packwise.errors import StoreError

TABLES = (
    "knowledge_nodes",
    "knowledge_groups",
    "knowledge_postings",
    "knowledge_terms",
    "knowledge_totals",
)
QUERIES = int(os.environ.get("PACKWISE_LEAK_QUERIES", "400"))
"""10,000 for the figure in the docs."""


def counts(connection):
    return {
        table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES
    }


def test_row_level_security_is_on_and_forced(shop, database):
    with database.connect() as connection:
        rows = connection.execute(
            "SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class"
            " WHERE oid = ANY (%s::regclass[])",
            (list(TABLES),),
        ).fetchall()
    assert sorted(rows) == sorted((table, True, True) for table in TABLES)


def test_the_owner_of_the_tables_is_held_to_it_too(shop, database):
    owner = f"{database.role}_owner"
    with database.connect() as connection:
        connection.execute(f"CREATE ROLE {owner} NOSUPERUSER NOBYPASSRLS")
        try:
            connection.execute(f"GRANT ALL ON SCHEMA {database.schema.name} TO {owner}")
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table} OWNER TO {owner}")
            for function in ("packwise_tenants()",):
                connection.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {owner}")
            connection.execute(f"SET ROLE {owner}")
            assert set(counts(connection).values()) == {0}
            connection.execute("RESET ROLE")
        finally:
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table} OWNER TO CURRENT_USER")
            connection.execute(f"DROP OWNED BY {owner}")
            connection.execute(f"DROP ROLE {owner}")


def test_an_unset_tenant_sees_nothing(shop, database):
    with database.connect(role=True) as connection:
        assert set(counts(connection).values()) == {0}
        for unset in ("", "{}"):
            connection.execute("SELECT set_config('packwise.tenants', %s, false)", (unset,))
            assert set(counts(connection).values()) == {0}
            rows = connection.execute(
                "SELECT * FROM hybrid_search_nodes('email', %s, ARRAY['acme', 'rival'], NULL)",
                (str([1.0] * DIM),),
            ).fetchall()
            assert rows == []


def test_a_tenant_sees_its_own_rows_of_every_table(shop, database):
    with database.connect(role=True, tenants=["rival"]) as connection:
        assert counts(connection)["knowledge_nodes"] == 1
        assert counts(connection)["knowledge_groups"] == 1
        assert counts(connection)["knowledge_postings"] > 0
        named = connection.execute(
            "SELECT count(*) FROM hybrid_search_nodes('email', %s, ARRAY['acme', 'rival'], NULL)",
            (str([1.0] * DIM),),
        ).fetchone()
    assert named == (1,)


def test_a_tenant_writes_its_own_rows_only(shop, database):
    with database.connect(role=True, tenants=["rival"]) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(
                "INSERT INTO knowledge_nodes (tenant_id, node_type) VALUES ('acme', 'field')"
            )
        assert connection.execute("UPDATE knowledge_nodes SET title = 'mine'").rowcount == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute("UPDATE knowledge_nodes SET tenant_id = 'acme'")
        assert connection.execute("DELETE FROM knowledge_nodes").rowcount == 1
    assert len(shop.get_nodes("acme")) == 5


def test_functions_run_as_the_invoker(shop, database):
    with database.connect() as connection:
        rows = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace AND prosecdef",
            (database.schema.name,),
        ).fetchall()
        functions = connection.execute(
            "SELECT count(*) FROM pg_proc WHERE pronamespace = %s::regnamespace",
            (database.schema.name,),
        ).fetchone()
    assert rows == []
    assert functions[0] >= 12


def test_the_application_role_is_not_the_owner_and_has_no_way_around(shop, database):
    with database.connect() as connection:
        row = connection.execute(
            "SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole FROM pg_roles"
            " WHERE rolname = %s",
            (database.role,),
        ).fetchone()
        assert row == (False, False, False, False)
        owners = connection.execute(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class"
            " WHERE relnamespace = %s::regnamespace",
            (database.schema.name,),
        ).fetchall()
    assert (database.role,) not in owners
    who = shop.store._as_tenants(["acme"], lambda c: c.execute("SELECT current_user").fetchone()[0])
    assert who == database.role
    with database.connect(role=True) as connection:
        for statement in (
            "ALTER TABLE knowledge_nodes DISABLE ROW LEVEL SECURITY",
            "DROP POLICY tenants ON knowledge_nodes",
            "TRUNCATE knowledge_nodes",
            "UPDATE packwise_settings SET value = 'x'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


@pytest.mark.parametrize("power", ["SUPERUSER", "BYPASSRLS"])
def test_a_role_that_could_see_everything_is_refused(shop, database, power):
    with database.connect() as connection:
        connection.execute(f"ALTER ROLE {database.role} {power}")
        with pytest.raises(StoreError, match="every tenant"):
            database.adapter().get_nodes("acme")
        connection.execute(f"ALTER ROLE {database.role} NO{power}")
    assert len(database.adapter().get_nodes("acme")) == 5


def test_a_role_that_owns_the_tables_is_refused(shop, database):
    with database.connect() as connection:
        connection.execute(f"ALTER TABLE knowledge_nodes OWNER TO {database.role}")
        with pytest.raises(StoreError, match="every tenant"):
            database.adapter().get_nodes("acme")
        connection.execute("ALTER TABLE knowledge_nodes OWNER TO CURRENT_USER")


def test_tenant_ids_never_become_sql(shop, monkeypatch):
    """The statements that reach the driver hold no tenant id; the bound values do."""
    seen = []
    original = psycopg.Cursor.execute

    def execute(self, query, params=None, **options):
        if isinstance(query, psycopg.sql.Composable):
            query = query.as_bytes(self)
        seen.append((query if isinstance(query, str) else bytes(query).decode(), params))
        return original(self, query, params, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", execute)
    hostile = "x'}'); DROP TABLE knowledge_nodes; --"
    shop.add_nodes([field(hostile, "customer email")])
    (hit,) = shop.hybrid_search("customer email", None, [hostile, 'y","z'])
    assert hit.node.tenant_id == hostile
    assert [n.tenant_id for n in shop.get_nodes(hostile)] == [hostile]
    assert shop.get_similar_nodes(np.ones(DIM), hostile, 5, -1.0)
    assert shop.delete_nodes([hit.node.node_id], hostile) == 1
    assert len(seen) >= 10
    assert not [query for query, _ in seen if "DROP TABLE" in query]
    assert any(hostile in str(params) for _, params in seen)
    assert len(shop.get_nodes("acme")) == 5


def test_a_connection_comes_back_as_it_was(shop, database):
    adapter = database.adapter(pool_size=1, statement_timeout_ms=5000)
    settings = ("role", "search_path", "packwise.tenants", "statement_timeout")
    query = "SELECT " + ", ".join(f"current_setting('{name}', true)" for name in settings)
    with database.schema.connect(options="") as connection:
        fresh = connection.execute(query).fetchone()
    for call in (
        lambda: adapter.get_nodes("acme"),
        lambda: adapter.hybrid_search("email", None, ["acme"]),
        lambda: adapter.add_nodes([field("acme", "more")]),
    ):
        call()
        with adapter.store._pool.lend() as connection:
            role, path, tenants, timeout = connection.execute(query).fetchone()
            assert (role, path, tenants or None, timeout) == fresh


def test_the_index_cannot_be_dumped(database):
    with database.connect(role=True) as connection:
        there = connection.execute(
            "SELECT count(*) FROM pg_proc WHERE proname = 'bm25_dump_index'"
        ).fetchone()[0]
        if not there:
            pytest.skip("this server has no pg_textsearch")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT bm25_dump_index('idx_knowledge_nodes_bm25')")


def test_scores_do_not_tell_of_other_tenants(shop):
    before = [(h.bm25, h.combined) for h in shop.hybrid_search("customer email", None, ["acme"])]
    shop.add_nodes([field("rival", f"customer email {i}") for i in range(50)])
    after = [(h.bm25, h.combined) for h in shop.hybrid_search("customer email", None, ["acme"])]
    assert after == before


def test_canaries_stay_with_their_tenants(database):
    """50 tenants of 200 nodes, asked through every public route for what others have."""
    rng = random.Random(1)
    adapter = database.adapter()
    tenants = [f"tenant-{i:02}" for i in range(50)]
    vectors = np.random.default_rng(2).normal(size=(200, DIM)).astype(np.float32)
    for tenant in tenants:
        adapter.add_nodes(
            [
                field(
                    tenant,
                    f"canary {i} of {tenant}",
                    node_type=("field", "qa_example")[i % 2],
                    metadata={"owner": tenant, "field_name": tenant, "sql": tenant},
                    node_key=str(i),
                )
                for i in range(200)
            ],
            vectors,
            embedder_version="words-1",
        )
    ids = {node.node_id: tenant for tenant in tenants for node in adapter.get_nodes(tenant)}
    assert len(ids) == 50 * 200
    leaks = found = 0
    for _ in range(QUERIES):
        mine, other = rng.sample(tenants, 2)
        text, vector = f"canary {rng.randrange(200)} of {other}", vectors[rng.randrange(200)]
        owners = _owners(adapter, rng.randrange(7), text, vector, mine, other, ids, rng)
        found += len(owners)
        leaks += sum(owner != mine for owner in owners)
    assert leaks == 0
    assert found > QUERIES
    assert sum(adapter.store.count([tenant]) for tenant in tenants) == 50 * 200


def _owners(adapter, route, text, vector, mine, other, ids, rng):
    """Whose nodes one of the public routes brings."""
    if route == 0:
        return [h.node.metadata["owner"] for h in adapter.hybrid_search(text, vector, [mine])]
    if route == 1:
        hits = adapter.get_similar_nodes(vector, mine, 20, -1.0)
        return [h.node.metadata["owner"] for h in hits]
    if route == 2:
        return [spec.field_name for spec in adapter.get_similar_fields(text, mine, top_k=10)]
    if route == 3:
        return [spec.sql for spec in adapter.get_similar_qa_examples(text, mine)]
    if route == 4:
        return [n.tenant_id for n in adapter.get_nodes(mine, node_type="field")]
    if route == 5:
        theirs = [i for i, owner in ids.items() if owner == other]
        return [other] * adapter.delete_nodes(rng.sample(theirs, 5), mine)
    hits = adapter.store.search(text, None, [mine], k=50, fusion="rrf")
    return [h.node.metadata["owner"] for h in hits]

"""Through a PgBouncer in transaction mode, where every transaction may get another session."""

import threading
from urllib.parse import quote

import numpy as np
import psycopg
import pytest
from nodes_world import DIM, Database, field
from store_pieces import PASSAGES, stage

from packwise.errors import UsageError
from packwise.nodes.schema import NodesSchema, drop_nodes, init_nodes, rebuild_vector_index
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.postgres.connections import PostgresPool, is_pooled
from pgbouncer import pgbouncer
from postgres_servers import WHEELS, server

STATE = """SELECT current_user::text, current_setting('search_path'),
    coalesce(current_setting('packwise.tenants', true), ''), current_setting('statement_timeout'),
    (SELECT count(*) FROM pg_prepared_statements), pg_my_temp_schema() = 0 OR NOT EXISTS
        (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema())"""


@pytest.fixture(params=WHEELS)
def pooled(request):
    """A database, and its URL through a PgBouncer with a single session."""
    database = Database(request.param)
    try:
        with pgbouncer(server(request.param)) as url:
            options = quote(f"-csearch_path={database.schema.name}")
            yield database, url, f"{url}?options={options}"
    finally:
        database.close()


def state(url):
    """What the session that PgBouncer shares has been left with."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        user, path, tenants, timeout, prepared, clean = connection.execute(STATE).fetchone()
    return user, path, tenants, timeout, prepared, clean


def test_nothing_stays_behind_in_a_shared_session(pooled):
    database, bare, url = pooled
    before = state(bare)
    assert before[4:] == (0, True)
    adapter = database.adapter(url, statement_timeout_ms=7000)
    # More often than the driver waits before it prepares a statement.
    for i in range(8):
        (made,) = adapter.add_nodes([field("acme", f"customer email {i}")])
        assert adapter.hybrid_search("customer email", None, ["acme"])[0].node.tenant_id == "acme"
        assert adapter.get_nodes("rival") == []
        adapter.get_similar_nodes(np.ones(DIM), "acme")
        assert state(bare) == before
    assert adapter.delete_nodes([made], "acme") == 1
    assert rebuild_vector_index(url) == "hnsw"
    assert init_nodes(url, NodesSchema(DIM, role=database.role)) == []
    assert state(bare) == before


def test_tenants_that_share_a_session_do_not_meet(pooled):
    database, _, url = pooled
    tenants = [f"tenant-{i}" for i in range(4)]
    adapters = {tenant: database.adapter(url, pool_size=2) for tenant in tenants}
    wrong = []

    def work(tenant):
        adapter = adapters[tenant]
        try:
            for i in range(12):
                adapter.add_nodes([field(tenant, f"canary {i}", node_key=str(i))])
                hits = adapter.hybrid_search("canary", None, [tenant], top_k=50)
                found = [hit.node.tenant_id for hit in hits]
                if set(found) != {tenant} or len(found) != i + 1:
                    wrong.append((tenant, found))
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(tenant,)) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_passages_are_read_through_it_too(pooled):
    database, bare, url = pooled
    store = create_or_open_store(database.url)
    with store.writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        stage(writer, PASSAGES)
        writer.commit()
    store.close()
    before = state(bare)
    with open_store(url) as through:
        for _ in range(8):
            assert through.info().passages == 2
            assert len(through.vector_search(np.ones(DIM, np.float32), 5)) == 2
    assert state(bare) == before


def test_nothing_stays_behind_of_creating_and_dropping_the_tables(pooled):
    database, bare, _ = pooled
    before = state(bare)
    schema = f"{database.schema.name}_new"
    url = f"{bare}?options={quote(f'-csearch_path={schema}')}"
    try:
        assert init_nodes(url, NodesSchema(DIM, role=database.role)) != []
        assert state(bare) == before
        drop_nodes(url)
        assert state(bare) == before
    finally:
        with database.connect() as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


def test_a_build_is_refused_before_it_leaves_anything_behind(pooled):
    _, bare, url = pooled
    before = state(bare)
    with pytest.raises(UsageError, match="the URL of the server itself"):
        create_or_open_store(url).writer(embedder="made-up", embedder_version="1", dim=DIM)
    assert state(bare) == before


def test_a_pooler_is_recognised(pooled):
    database, bare, _ = pooled
    for url, expected in ((bare, True), (database.url, False)):
        pool = PostgresPool(url)
        assert pool.run(is_pooled) is expected
        assert (pool.run(lambda c: c.prepare_threshold) is None) is expected
        pool.close()

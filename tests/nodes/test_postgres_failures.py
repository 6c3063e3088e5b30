"""Failures of a server: one line with what to do, and nothing lost."""

import threading
import time

import numpy as np
import psycopg
import pytest
from nodes_world import DIM, Database, WordVectors, field

from packwise.errors import (
    EmbedderMismatch,
    PackwiseError,
    StoreBusy,
    StoreError,
    StoreMissing,
    StoreTimeout,
    StoreUnreachable,
    UsageError,
)
from packwise.nodes.adapter import KnowledgeVerseAdapter
from packwise.nodes.schema import NodesSchema, init_nodes
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.postgres.connections import PostgresPool, hide_password
from postgres_servers import PASSWORD, Schema, Server, server
from tests_world import wait_until


def message(call) -> str:
    """The error a user sees: one line that says what to do."""
    with pytest.raises(PackwiseError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.fix
    return text


@pytest.fixture(scope="module")
def own():
    """A server that a test may stop, if it starts it again."""
    server("plain")  # skips where the tests use another server
    made = Server("embedded_postgres")
    yield made
    made.remove()


def test_a_server_that_is_down_fails_at_once():
    # At once: long before the 10 seconds are over that a connection may take.
    started = time.monotonic()
    for url in ("postgresql://u@127.0.0.1:1/x", "postgresql:///x?host=/nowhere"):
        adapter = KnowledgeVerseAdapter(url, embedder=WordVectors())
        with pytest.raises(StoreUnreachable):
            adapter.get_nodes("acme")
        assert "no PostgreSQL server answers" in message(lambda u=url: open_store(u))
    assert time.monotonic() - started < 10


def test_a_wrong_password_is_named_and_never_shown():
    running = server("plain")
    url = running.tcp_url("wrong-secret")
    said = message(lambda: open_store(url))
    assert "refuses the user or the password" in said
    assert "wrong-secret" not in said
    right = running.tcp_url(PASSWORD)
    assert PASSWORD not in message(lambda: open_store(right))


def test_a_missing_driver_names_its_extra(monkeypatch):
    from packwise.stores.postgres import connections

    monkeypatch.setattr(connections, "find_spec", lambda name: None)
    assert "pip install 'packwise[postgres]'" in message(lambda: open_store("postgresql://h/d"))


def test_urls_are_shown_without_their_password():
    assert hide_password("postgresql://u:se/c@r:et@h:1/d?x=1") == "postgresql://u@h:1/d?x=1"
    assert hide_password("postgresql:///d?host=/tmp") == "postgresql:///d?host=/tmp"
    assert "secret" not in hide_password("postgresql://h/d?user=u&password=secret&x=1")


def test_a_database_a_table_and_a_url_that_are_not_there(plain):
    assert "does not exist" in message(
        lambda: open_store(plain.url.replace("/postgres?", "/nothing?"))
    )
    empty = Schema()
    with pytest.raises(StoreMissing, match="db init"):
        KnowledgeVerseAdapter(empty.url, embedder=WordVectors()).get_nodes("acme")
    with pytest.raises(StoreMissing, match="packwise build"):
        open_store(empty.url)
    for bad in ("postgresql://h:port/x", "postgresql://h/x?nonsense=1"):
        with pytest.raises(UsageError):
            open_store(bad)
    empty.drop()


def test_a_missing_extension_is_named(own):
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE weak LOGIN CREATEROLE")
        connection.execute("CREATE DATABASE bare")
    bare = own.url().replace("/postgres?", "/bare?")
    with psycopg.connect(bare, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA own AUTHORIZATION weak")
    weak = own.url("own", user="weak").replace("/postgres?", "/bare?")
    said = message(lambda: init_nodes(weak, NodesSchema(DIM)))
    assert "vector" in said
    assert "CREATE EXTENSION vector" in said


def test_an_older_extension_is_refused(plain, monkeypatch):
    from packwise.stores.postgres import migrations

    monkeypatch.setattr(migrations, "VECTOR_VERSION", (99, 0))
    schema = Schema()
    said = message(lambda: init_nodes(schema.url, NodesSchema(DIM, role=schema.role)))
    assert "Packwise needs 99.0" in said


def test_a_user_who_may_not_work_as_the_role_is_refused(plain):
    with plain.connect() as connection:
        connection.execute("DROP ROLE IF EXISTS packwise_stranger")
        connection.execute("CREATE ROLE packwise_stranger LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {plain.schema.name} TO packwise_stranger")
        connection.execute("GRANT SELECT ON packwise_settings TO packwise_stranger")
        try:
            url = server("plain").url(plain.schema.name, user="packwise_stranger")
            said = message(lambda: plain.adapter(url).get_nodes("acme"))
            assert "may not work as" in said
            connection.execute(f"GRANT {plain.role} TO packwise_stranger")
            assert plain.adapter(url).get_nodes("acme") == []
        finally:
            connection.execute("DROP OWNED BY packwise_stranger")
            connection.execute("DROP ROLE packwise_stranger")


def test_a_slow_statement_is_stopped_and_the_pool_goes_on(plain):
    plain.adapter().add_nodes([field("acme", "customer email")])
    adapter = plain.adapter(statement_timeout_ms=1000, pool_size=1)
    with plain.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE knowledge_nodes IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreTimeout, match="statement_timeout"):
            adapter.get_nodes("acme")
        with pytest.raises(StoreTimeout):
            adapter.hybrid_search("email", None, ["acme"])
        connection.execute("ROLLBACK")
    assert len(adapter.get_nodes("acme")) == 1


def test_more_callers_than_connections_wait_their_turn(plain):
    pool = PostgresPool(plain.url, size=1, wait=0.2)
    with pool.lend():
        assert "connections" in message(lambda: pool.run(lambda c: c.execute("SELECT 1")))
        with pytest.raises(StoreBusy):
            pool.run(lambda c: c.execute("SELECT 1"))
    assert pool.run(lambda c: c.execute("SELECT 1").fetchone()) == (1,)
    pool.close()
    with pytest.raises(StoreError, match="closed"):
        pool.run(lambda c: c.execute("SELECT 1"))


def test_ended_connections_are_replaced_silently(plain):
    adapter = plain.adapter(pool_size=2)
    adapter.add_nodes([field("acme", "customer email")])
    for work in (
        lambda: adapter.get_nodes("acme"),
        lambda: adapter.add_nodes([field("acme", "customer email")]),
    ):
        with plain.connect() as connection:
            rows = connection.execute(
                "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'packwise'"
            ).fetchall()
            ended = [pid for pid, _ in rows]
            assert ended
            wait_until(lambda c=connection, pids=ended: not alive(c, pids), "they end")
        assert len(work()) == 1


def alive(connection, pids) -> int:
    """How many of these connections the server still has; pools may have opened others."""
    named = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s)"
    return connection.execute(named, (pids,)).fetchone()[0]


def test_a_restart_in_the_middle_is_survived(own):
    url = own.url("own")
    init_nodes(url, NodesSchema(DIM))
    adapter = KnowledgeVerseAdapter(url, embedder=WordVectors())
    adapter.add_nodes([field("acme", f"customer email {i}") for i in range(50)])
    # What is not one of Packwise's errors ends its thread, and with it the test.
    wrong, done, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                found = adapter.hybrid_search("customer email", np.ones(DIM), ["acme"])
                done.append(len(found))
            except PackwiseError as error:
                wrong.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(done) > 3, "answers come")
        own.stop()
        own.start()
        before = len(done)
        wait_until(lambda: len(done) > before + 3, "answers come again")
    finally:
        stop.set()
    for thread in threads:
        thread.join()
    assert set(done) == {20}
    assert not [text for text in wrong if "\n" in text]
    assert len(adapter.get_nodes("acme")) == 50
    adapter.close()


def test_a_build_that_loses_its_server_loses_no_finished_work(own):
    from store_pieces import PASSAGES, stage

    url = own.url("built")
    store = create_or_open_store(url)
    with store.writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        stage(writer, PASSAGES[:1])
        writer.commit()
    with store.writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        writer.keep(PASSAGES[0][0].id)
        stage(writer, PASSAGES[1:2])
        writer.known_vectors([])
        own.stop()
        with pytest.raises(StoreUnreachable):
            writer.commit()
    own.start()
    assert [d.id for d in store.documents()] == [PASSAGES[0][0].id]
    with store.writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        assert set(writer.source_hashes()) == {d.id for d, _ in PASSAGES[:2]}
        for name in writer.source_hashes():
            writer.keep(name)
        assert writer.commit().added == 1
    store.close()


def test_the_store_refuses_the_wrong_dimension(plain):
    from store_pieces import PASSAGES, stage

    store = create_or_open_store(plain.url)
    with store.writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        stage(writer, PASSAGES)
        writer.commit()
    with pytest.raises(EmbedderMismatch, match=f"{DIM} dimensions"):
        store.vector_search(np.ones(3, np.float32), 5)
    store.close()


def test_a_later_failure_leaves_other_databases_alone():
    databases = [Database("plain"), Database("plain")]
    try:
        first, second = (d.adapter() for d in databases)
        first.add_nodes([field("acme", "customer email")])
        with databases[1].connect() as connection:
            connection.execute("DROP TABLE knowledge_postings CASCADE")
        with pytest.raises(StoreMissing):
            second.add_nodes([field("acme", "customer email")])
        assert len(first.hybrid_search("email", None, ["acme"])) == 1
    finally:
        for database in databases:
            database.close()

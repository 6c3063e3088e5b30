"""Writers of the same nodes do not stop each other."""

import random
import threading

import psycopg
import pytest
from nodes_world import field

from packwise.errors import StoreTimeout


def in_threads(number, work):
    """What the calls raised."""
    wrong = []

    def call(i):
        try:
            work(i)
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_writers_of_the_same_keys_in_any_order_all_succeed(database):
    adapter = database.adapter()
    keys = [f"key {i}" for i in range(60)]
    adapter.add_nodes([field("acme", key, node_key=key) for key in keys])
    with database.connect() as connection:
        before = deadlocks(connection)

    def write(number):
        rng = random.Random(number)
        for round_ in range(6):
            mixed = rng.sample(keys, len(keys))
            ids = adapter.add_nodes(
                [field("acme", f"{key} {number} {round_}", node_key=key) for key in mixed]
            )
            if number == 3:
                adapter.delete_nodes(rng.sample(ids, 30), "acme")

    assert in_threads(4, write) == []
    with database.connect() as connection:
        # None happened, so none had to be retried.
        assert deadlocks(connection) == before
    adapter.add_nodes([field("acme", key, node_key=key) for key in keys])
    assert adapter.store.count(["acme"]) == 60


def deadlocks(connection):
    connection.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    return connection.execute(query).fetchone()[0]


def test_a_write_that_lost_to_another_is_done_again(plain):
    adapter = plain.adapter()
    tried = []

    def conflict(connection):
        tried.append(connection)
        if len(tried) < 3:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        if len(tried) < 4:
            raise psycopg.errors.SerializationFailure("could not serialize access")
        return "done"

    assert adapter.store._as_tenants(["acme"], conflict, retry=False) == "done"
    assert len(tried) == 4


def test_a_write_is_not_tried_again_for_ever(plain):
    adapter = plain.adapter()
    tried = []

    def conflict(connection):
        tried.append(connection)
        raise psycopg.errors.DeadlockDetected("deadlock detected")

    with pytest.raises(StoreTimeout, match="busy with other writers"):
        adapter.store._as_tenants(["acme"], conflict, retry=False)
    assert len(tried) == 6

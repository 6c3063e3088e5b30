"""Three nodes, two replicas: one node dies and comes back, and no one who searches notices."""

import threading
import time

import pytest
from store_world import fill, make, vector_of

from packwise.errors import StoreError
from packwise.language.analyzer import terms
from packwise.stores.locate import create_or_open_store, open_store
from qdrant_server import Qdrant, Unavailable
from tests_world import wait_until


@pytest.fixture
def nodes():
    started = []
    try:
        started.append(Qdrant(cluster=True))
        for _ in range(2):
            started.append(Qdrant(cluster=True, leader=started[0].peer))
        yield started
    except Unavailable as reason:
        pytest.skip(f"no Qdrant server to test on: {reason}")
    finally:
        for node in started:
            node.stop()


def all_active(client) -> bool:
    """Whether a node sees every replica of every collection at work."""
    for collection in client.get_collections().collections:
        about = client.http.distributed_api.collection_cluster_info(collection.name).result
        if about.shard_transfers:
            return False
        if any(shard.state != "Active" for shard in [*about.local_shards, *about.remote_shards]):
            return False
    return True


@pytest.mark.slow
def test_a_node_dies_while_others_search_and_nothing_is_lost(nodes):
    from qdrant_client import QdrantClient

    clients = [QdrantClient(url=node.url, check_compatibility=False) for node in nodes]
    status = clients[0].http.distributed_api.cluster_status
    wait_until(lambda: len(status().result.peers) == 3, "three nodes know each other")
    hosts = ",".join(node.url.removeprefix("http://") for node in nodes)
    location = f"qdrant+http://{hosts}/spread?shards=3&replicas=2"
    documents = [make(f"doc-{i:02}", f"common words of number {i}") for i in range(40)]
    with create_or_open_store(location) as store:
        fill(store, documents)
        about = store.info()
        assert (about.details["shards"], about.details["replicas"]) == ("3", "2")
    failures, searches, stop = [], [], threading.Event()

    def search() -> None:
        with open_store(location) as reader:
            while not stop.is_set():
                try:
                    keywords = reader.keyword_search(terms("common words"), 99)
                    vectors = reader.vector_search(vector_of("q"), 99)
                    if not len(keywords) == len(vectors) == 40:
                        failures.append((len(keywords), len(vectors)))
                except StoreError as error:
                    failures.append(repr(error))
                searches.append(time.monotonic())

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(searches) > 10, "both readers search")
    nodes[0].kill()  # the node every reader talks to
    died = time.monotonic()
    wait_until(lambda: sum(at > died for at in searches) > 40, "both go on searching")
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    with create_or_open_store(location) as store:
        assert len(list(store.documents())) == 40
        fill(store, [*documents, make("late", "written with one node gone")])
        assert [s.id for s in store.documents()][-1] == "late"
    nodes[0].start()  # it missed a build
    wait_until(lambda: all(map(all_active, clients)), "the node that died has caught up")
    nodes[1].kill()
    with open_store(location) as store:
        assert len(list(store.documents())) == 41
        assert len(store.vector_search(vector_of("q"), 99)) == 41
    for client in clients:
        client.close()

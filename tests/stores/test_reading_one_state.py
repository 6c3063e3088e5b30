"""What a search reads of a store is one state of it, and from a server in few round trips."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from more_places import PackPlace, QdrantPlace
from postgres_place import PostgresPlace
from store_world import EMBEDDER, fill, keyword, make
from test_pack_names_as_arrays import ARTICLES, QUESTIONS, documents, flows, repr_of

from packwise.candidates import Filter
from packwise.errors import StoreMissing
from packwise.evaluation.synthetic import SyntheticDocuments, SyntheticEmbedder, questions
from packwise.library import Library
from packwise.packs.build import build_pack
from packwise.settings import Settings
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.name_graph import KnowledgeGraph
from packwise.stores.postgres.store import PostgresStore
from packwise.stores.qdrant import reader
from packwise.stores.qdrant.server import QdrantServer
from postgres_servers import Schema
from tests_world import PATIENCE


@pytest.fixture(params=[PackPlace, PostgresPlace, QdrantPlace], ids=lambda place: place.__name__)
def place(request, tmp_path):
    place = request.param(tmp_path)
    fill(place.build(), [make("note", "A first part."), make("more", "More text.")])
    yield place
    place.close()


@pytest.fixture
def schema():
    made = Schema()
    yield made
    made.drop()


def add_a_document(place):
    with closing(create_or_open_store(place.location)) as other:
        fill(other, [make("new", "Something new.")])


def test_calls_in_one_state_see_it_although_a_build_ends_meanwhile(place):
    store = place.read()
    ((key, _),) = store.keyword_search(["more"], 10)
    with store.one_state():
        before = store.version()
        with store.one_state():
            add_a_document(place)
        assert store.version() == before
        assert [passage.document for passage in store.passages([key])] == ["more"]
        assert keyword(store, "new") == []
    assert store.version() != before
    assert store.passages([key]) == [None]
    assert len(keyword(store, "new")) == 1


def test_one_state_is_that_of_one_thread(place):
    store = place.read()
    with store.one_state(), ThreadPoolExecutor(max_workers=1) as pool:
        held = store.version()
        add_a_document(place)
        assert store.version() == held
        assert pool.submit(store.version).result() != held


def test_a_state_ends_with_its_block_although_it_raises(place):
    store = place.read()

    def read_and_stop():
        store.version()
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"), store.one_state():
        read_and_stop()
    add_a_document(place)
    assert len(keyword(store, "new")) == 1


def test_a_connection_that_is_lost_within_a_state_is_replaced(schema):
    with closing(create_or_open_store(schema.url)) as store:
        fill(store, [make("note", "A first part.")])
        with store.one_state():
            held = store.version()
            with schema.connect() as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'packwise' AND pid <> pg_backend_pid()"
                )
            assert store.version() == held
            assert keyword(store, "first") == ["note#0"]
        assert keyword(store, "part") == ["note#0"]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads_that_hold_a_state_leave_a_connection_for_others(schema, size):
    """Each holds one and waits for what another thread reads, as the legs of a search do."""
    with closing(create_or_open_store(schema.url)) as store:
        fill(store, [make("note", "A first part.")])
    store = PostgresStore(schema.url, pool_size=size)
    with closing(store), ThreadPoolExecutor(8) as asking, ThreadPoolExecutor(4) as legs:

        def ask(_):
            with store.one_state():
                store.version()
                return legs.submit(keyword, store, "first").result(timeout=PATIENCE)

        assert list(asking.map(ask, range(40))) == [["note#0"]] * 40


def test_a_state_that_cannot_be_read_keeps_no_connection(schema):
    with closing(PostgresStore(schema.url, pool_size=2)) as store, store.one_state():
        for _ in range(5):
            with pytest.raises(StoreMissing):
                store.version()


@pytest.fixture
def round_trips(monkeypatch):
    """Counts how often a connection waits for the server."""
    counted = []
    wait = psycopg.Connection.wait

    def wait_and_count(self, *given, **named):
        counted.append(1)
        return wait(self, *given, **named)

    monkeypatch.setattr(psycopg.Connection, "wait", wait_and_count)
    return counted


def per_search(library, counted):
    """How much is counted per search that graph ranking reaches passages in, after the first."""
    asked = questions(24, 30)
    for question in asked[::2]:
        library.search(question, 10)
    counted.clear()
    reached = 0
    for question in asked[1::2]:
        notes = {s.name: s.notes for s in library.search(question, 10).trace.stages}
        reached += notes["graph"]["reached"]
    assert reached
    return len(counted) / 12


def test_a_search_takes_few_round_trips(schema, round_trips):
    build_pack(SyntheticDocuments(30), schema.url, embedder=SyntheticEmbedder())
    plain = Settings.load({}, query_cache=0)
    with Library(open_store(schema.url), settings=plain, embedder=SyntheticEmbedder()) as library:
        # With a transaction for each call there were 80.
        assert per_search(library, round_trips) <= 17
        names = library.store.name_graph()
        hits = library.search(questions(1, 30)[0], 4).hits
        with library.store.one_state():
            library.store.version()
            round_trips.clear()
            assert names.surroundings([hit.key for hit in hits], [], 30)
        assert len(round_trips) == 2  # the query, and the end of the transaction
        with schema.connect() as connection:
            stored = [name for (name,) in connection.execute("SELECT name FROM packwise_entities")]
        found = names.names(stored)
        assert 0 < len(found) < len(stored)
        assert found == KnowledgeGraph(library.store).names(stored)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(ARTICLES, st.lists(QUESTIONS, min_size=4, max_size=4), st.booleans())
def test_rank_flows_in_postgresql_as_by_the_queries_of_every_store(articles, asked, filtered):
    where = Filter(path_prefix="d1") if filtered else Filter()
    schema = Schema()
    try:
        with closing(create_or_open_store(schema.url)) as store:
            fill(store, documents(articles))
            for question in asked:
                once, queries, oracle = map(repr_of, flows(store, question, where))
                assert once == queries == oracle
    finally:
        schema.drop()


@pytest.fixture
def in_qdrant(tmp_path):
    place = QdrantPlace(tmp_path)
    yield place
    place.close()


def test_a_search_takes_few_requests_to_qdrant(in_qdrant, monkeypatch):
    build_pack(SyntheticDocuments(30), in_qdrant.location, embedder=SyntheticEmbedder())
    requests = []
    call = QdrantServer.call
    monkeypatch.setattr(
        QdrantServer,
        "call",
        lambda self, what, *given, **named: (
            requests.append(what) or call(self, what, *given, **named)
        ),
    )
    plain = Settings.load({}, query_cache=0)
    with Library(
        open_store(in_qdrant.location), settings=plain, embedder=SyntheticEmbedder()
    ) as library:
        # When every call asked which generation is current, there were 23.
        assert per_search(library, requests) <= 17.5
        assert requests.count("retrieve") == 12


def test_a_generation_of_qdrant_is_held_no_longer_than_the_server_keeps_it(in_qdrant, monkeypatch):
    fill(in_qdrant.build(), [make("note", "A first part.")])
    store = in_qdrant.read()
    with store.one_state():
        before = store.version()
        add_a_document(in_qdrant)
        assert keyword(store, "new") == []
        monkeypatch.setattr(reader, "HELD_SECONDS", 0.0)
        assert len(keyword(store, "new")) == 1
        assert store.version() != before


def test_a_store_that_gets_another_embedder_meanwhile_is_read_in_its_new_state(in_qdrant):
    """Its collection is another one then, and the old one is gone."""
    fill(in_qdrant.build(), [make("note", "A first part.")])
    store = in_qdrant.read()
    with store.one_state():
        before = store.version()
        other = {**EMBEDDER, "embedder_version": "made-up-2", "dim": 8}
        with (
            closing(create_or_open_store(in_qdrant.location)) as again,
            again.writer(**other, allow_mismatch=True) as writer,
        ):
            document, _ = make("note", "A first part.")
            writer.stage(document, [], np.zeros((0, 8), np.float32))
            writer.commit()
        assert keyword(store, "first") == []
        assert store.version() != before

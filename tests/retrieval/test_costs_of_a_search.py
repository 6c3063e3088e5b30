"""What a search costs in counts that do not depend on the machine, with a ceiling on each.

A ceiling that is exceeded is a regression, or a cost that someone has to decide for. The pack is
synthetic, so no model is needed and the counts are the same everywhere.
"""

import cProfile
import pstats
import threading
import time
from dataclasses import dataclass

import pytest

from packwise import Settings
from packwise.evaluation.synthetic import SyntheticDocuments, SyntheticEmbedder, questions
from packwise.library import Library
from packwise.packs.build import build_pack
from packwise.stores.pack import database, store
from packwise.stores.pack.store import open_pack

DOCUMENTS = 30
ASKED = questions(24, DOCUMENTS)


@dataclass
class Costs:
    """Sums over all questions."""

    statements: int = 0
    passages: int = 0
    characters: int = 0
    calls: int = 0

    def per_question(self, asked: int) -> "Costs":
        return Costs(*(round(value / asked) for value in vars(self).values()))


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("costs") / "pack"
    build_pack(SyntheticDocuments(DOCUMENTS), folder, embedder=SyntheticEmbedder())
    return folder


@pytest.fixture
def counted(monkeypatch):
    """Counts statements and passages of every pack opened from here on."""
    costs = Costs()
    connect, read = database.connect_reader, store.read_passage

    def connect_and_count(folder):
        connection = connect(folder)
        connection.set_trace_callback(count_statement)
        return connection

    def count_statement(_):
        costs.statements += 1

    def read_and_count(row, embedder_version):
        found = read(row, embedder_version)
        costs.passages += 1
        costs.characters += len(found[1].text)
        return found

    monkeypatch.setattr(database, "connect_reader", connect_and_count)
    monkeypatch.setattr(store, "read_passage", read_and_count)
    return costs


def spent(pack, costs, ask) -> Costs:
    """What half of the questions cost on average, after the other half."""
    settings = Settings.load({}, query_cache=0)
    with Library(open_pack(pack), settings=settings, embedder=SyntheticEmbedder()) as library:
        first, second = ASKED[::2], ASKED[1::2]
        for question in first:
            ask(library, question)
        vars(costs).update(vars(Costs()))
        profile = cProfile.Profile()
        profile.enable()
        for question in second:
            ask(library, question)
        profile.disable()
    costs.calls = pstats.Stats(profile).total_calls
    return costs.per_question(len(second))


def test_a_search_stays_below_its_ceilings(pack, counted):
    costs = spent(pack, counted, lambda library, question: library.search(question, 10))
    assert 0 < costs.statements <= 15
    assert 10 <= costs.passages <= 12
    assert 0 < costs.characters <= 20_000
    assert 0 < costs.calls <= 7_200


def test_a_context_stays_below_its_ceilings(pack, counted):
    costs = spent(pack, counted, lambda library, question: library.context(question, budget=1000))
    assert 0 < costs.statements <= 20
    assert 0 < costs.passages <= 40
    assert 0 < costs.characters <= 66_000
    assert 0 < costs.calls <= 19_800


class FixedEmbedder(SyntheticEmbedder):
    """Embeds every question alike, after some seconds."""

    def __init__(self, seconds):
        super().__init__()
        self._seconds = seconds
        self._vector = super().embed_query("anything")

    def embed_query(self, text):
        if self._seconds:  # Even a sleep of no time lets other work of the machine go first.
            time.sleep(self._seconds)
        return self._vector


@pytest.mark.parametrize("seconds", [0.0, 0.01])
def test_a_second_thread_searches_words_only_while_embedding_takes_long(pack, monkeypatch, seconds):
    here = []
    search = store.PackStore.keyword_search

    def noted(*given, **named):
        here.append(threading.current_thread() is threading.main_thread())
        return search(*given, **named)

    monkeypatch.setattr(store.PackStore, "keyword_search", noted)
    settings = Settings.load({}, query_cache=0)
    with Library(open_pack(pack), settings=settings, embedder=FixedEmbedder(seconds)) as library:
        for question in ASKED:
            library.search(question, 10)
    assert not here[0]
    # On a busy machine, even nothing may take long now and then.
    assert sum(here) == 0 if seconds else sum(here) > len(here) / 2


def test_what_a_pack_holds_is_counted_once_per_build(tmp_path, monkeypatch):
    folder, statements = tmp_path / "pack", []
    connect = database.connect_reader

    def noting(folder):
        connection = connect(folder)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(database, "connect_reader", noting)
    build_pack(SyntheticDocuments(2), folder, embedder=SyntheticEmbedder())
    with open_pack(folder) as opened:
        first = opened.info()
        statements.clear()
        assert opened.info() == first
        assert not [one for one in statements if "count(*) FROM links" in one]
        assert int(first.details["entities"]) > 0
        build_pack(SyntheticDocuments(4), folder, embedder=SyntheticEmbedder())
        assert int(opened.info().details["entities"]) > int(first.details["entities"])

"""A pack's arrays of names lead rank to the same passages, by the same paths, as its tables."""

import numpy as np
import pytest
import rank_flow_oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_world import fill, make, vector_of

from packwise.candidates import Filter
from packwise.language.analyzer import terms as index_terms
from packwise.retrieval.fusion import PassageScorer, Weights
from packwise.retrieval.graph import spread
from packwise.stores import bm25
from packwise.stores.name_graph import KnowledgeGraph
from packwise.stores.pack import names as pack_names
from packwise.stores.pack.store import create_or_open_pack, open_pack

PEOPLE = ["Raoul Walsh", "Miriam Cooper", "Xenia Markov", "Ada Lovelace", "Émile Zola"]
TITLES = ["Jump for Glory", "Blue Harbour", "The Betrayed", "Red Mill", "Blue Harbour (film)"]
SENTENCES = st.builds(
    "{} {} {} {}.".format,
    st.sampled_from([*PEOPLE, *TITLES]),
    st.sampled_from(["wed", "directed", "read of", "painted"]),
    st.sampled_from([*PEOPLE, *TITLES]),
    st.sampled_from(["in a small studio", "beside the harbour", "for glory", "twice"]),
)
ARTICLES = st.lists(
    st.tuples(st.sampled_from(TITLES), st.lists(SENTENCES, min_size=1, max_size=4)),
    min_size=1,
    max_size=9,
)
QUESTIONS = st.builds(
    "Who {} {} {}?".format,
    st.sampled_from(["wed the director of", "directed", "is"]),
    st.sampled_from([*TITLES, *PEOPLE]),
    st.sampled_from(["", "in the studio", "beside Xenia Markov"]),
)


def documents(articles):
    return [make(f"d{n}", *texts, title=title) for n, (title, texts) in enumerate(articles)]


def flows(store, question, where):
    """What the arrays and the oracle make of a question, each with the same scores."""
    wanted = list(dict.fromkeys(index_terms(question)))
    statistics = store.term_statistics(wanted)
    rarity = {t: bm25.idf(statistics.passages, statistics.frequency.get(t, 0)) for t in wanted}
    for flow, graph in (
        (spread, store.name_graph()),
        (spread, KnowledgeGraph(store)),
        (rank_flow_oracle.spread, store),
    ):
        scorer = PassageScorer(
            store=store,
            vector=vector_of(question),
            terms=wanted,
            bound=bm25.bound(wanted, statistics),
            weights=Weights(0.7, 0.3),
            similarity=lambda cosine: cosine,
            where=where,
        )
        near = store.vector_search(vector_of(question), 4, where)
        pool = scorer.scores([match.key for match in near])
        yield flow(question, rarity, pool, graph, scorer)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(ARTICLES, ARTICLES, st.lists(QUESTIONS, min_size=4, max_size=4), st.booleans())
def test_rank_flows_as_by_the_tables(tmp_path_factory, articles, others, questions, filtered):
    where = Filter(path_prefix="d1") if filtered else Filter()
    folder = tmp_path_factory.mktemp("names") / "pack"
    # The second build changes some documents and removes others.
    for held in (articles, others):
        with create_or_open_pack(folder) as store:
            fill(store, documents(held))
            for question in questions:
                arrays, queries, oracle = map(repr_of, flows(store, question, where))
                assert arrays == queries == oracle


def repr_of(flow):
    """Everything about a flow; two modules have classes of their own for it."""
    return flow.named, flow.held_back, [repr(bonus) for bonus in flow.bonuses]


def test_rank_really_flows(tmp_path):
    articles = [
        ("Jump for Glory", ["Raoul Walsh directed Jump for Glory in a small studio."]),
        ("The Betrayed", ["Raoul Walsh wed Miriam Cooper twice."]),
        *((f"Weather {n}", [f"It rained {n} times."]) for n in range(6)),
    ]
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(store, documents(articles))
        found = [
            {(b.path.kind, b.path.via) for b in one.bonuses}
            for one in flows(store, "Who wed the director of Jump for Glory?", Filter())
        ]
    assert found[0] == found[1] == found[2] >= {("name", "raoul walsh")}


def test_a_pack_without_the_arrays_gets_them_when_it_is_searched(tmp_path):
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(store, documents([("Red Mill", ["Ada Lovelace painted the Red Mill."])]))
    (file,) = (tmp_path / "pack").glob("index/*/names.bin")
    file.unlink()
    with open_pack(tmp_path / "pack") as store:
        assert "ada lovelace" in store.name_graph().names(["ada lovelace"])
    assert file.exists()


def test_names_are_found_by_their_exact_key_alone(tmp_path):
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(
            store, documents([("Red Mill", ["Émile Zola saw the Red Mill.", "Ada Lovelace too."])])
        )
        names = store.name_graph().names(["emile zola", "emile", "red mill", "unheard of"])
    assert names.keys() == {"emile zola", "red mill"}
    assert [len(edge.targets) for edge in names["red mill"].edges] == [2]


def test_graph_ranking_reads_no_table(tmp_path, monkeypatch):
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(store, documents([("Red Mill", ["Ada Lovelace painted the Red Mill."])]))
        store.load_index()
        monkeypatch.setattr(
            "packwise.stores.pack.store.PackKnowledge",
            lambda _: pytest.fail("graph ranking asked the database"),
        )
        assert next(flows(store, "Who painted the Red Mill?", Filter())).named == ("red mill",)


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=60, unique=True).map(
    sorted
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(PAIRS, st.integers(1, 7), st.sampled_from([3, 1 << 33]))
def test_mentions_are_listed_by_passage_and_by_entity_however_many_are_read_at_once(
    monkeypatch, pairs, at_once, step
):
    monkeypatch.setattr(pack_names, "_PAIRS", at_once)
    passages, entities = np.arange(13) * step, np.arange(10) * step
    found = pack_names._mentions([(p * step, e * step) for p, e in pairs], passages, entities)

    def lists(values, ends):
        return [part.tolist() for part in np.split(values, ends)[:-1]]

    assert lists(found.entities, found.entities_ends) == [
        [e * step for p, e in pairs if p == passage] for passage in range(13)
    ]
    assert lists(found.passages, found.passages_ends) == [
        [p for p, e in pairs if e == entity] for entity in range(10)
    ]

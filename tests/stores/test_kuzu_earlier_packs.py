import hashlib

import numpy as np
import pytest
from earlier_pack import write_earlier_pack
from store_world import DIM, EMBEDDER, found, keyword, vector_of

from packwise.candidates import Filter
from packwise.errors import EmbedderMismatch, NotAStore, StoreError, StoreMissing, UsageError
from packwise.stores.kuzu import database as kuzu_database
from packwise.stores.kuzu.store import create_or_open_kuzu, open_kuzu


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return write_earlier_pack(tmp_path_factory.mktemp("earlier") / "pack.db", vector_of, DIM)


@pytest.fixture(scope="module")
def store(database):
    with open_kuzu(database) as opened:
        yield opened


def test_articles_become_documents_whose_offsets_hold(store):
    assert [summary.id for summary in store.documents()] == ["Apple", "Isaac_Newton", "Pear"]
    for summary in store.documents():
        document = store.document(summary.id)
        pairs = store.document_passages(summary.id)
        assert len(pairs) == summary.passages == len(document.sections)
        for (_, passage), section in zip(pairs, document.sections, strict=True):
            assert document.text[passage.start : passage.end] == passage.text
            assert (section.start, section.end) == (passage.start, passage.end)
    paths = [passage.section_path for _, passage in store.document_passages("Apple")]
    assert paths == [(), ("History",), ("History", "Silk Road")]
    assert store.document("Isaac_Newton").title == "Isaac_Newton"


def test_it_is_searched_by_its_own_vector_index_and_by_keyword(store):
    text = "Apples were first grown in Kazakhstan, near Almaty."
    (best, *_) = store.vector_search(vector_of(text), 3)
    assert best.score == pytest.approx(1, abs=1e-5)
    assert found(store, [best]) == ["Apple#1"]
    assert keyword(store, "principia") == ["Isaac_Newton#0"]
    assert keyword(store, "apples newton", where=Filter(metadata={"category": "People"})) == [
        "Isaac_Newton#0"
    ]
    assert store.info().details["vector_index"] == "embedding_idx"


def test_links_lead_on_and_rank(store):
    assert [(source, link.target, link.kind) for source, link in store.links(["Apple"])] == [
        ("Apple", "Isaac_Newton", "inline"),
        ("Apple", "Pear", "see_also"),
    ]
    ranks = store.pagerank(["Apple", "Pear", "Isaac_Newton"])
    assert sum(ranks.values()) == pytest.approx(1)
    assert store.info().links == 3


def test_entities_facts_and_relations_are_known(store):
    newton = store.entities_named(["isaac newton"])["isaac newton"]
    assert (newton.kind, newton.description, newton.passages) == (
        "person",
        "An English physicist",
        2,
    )
    assert [titled.document for titled in newton.titled] == ["Isaac_Newton"]
    places = store.mentions([newton.id], 9)[newton.id]
    assert [place.document for place in places] == ["Apple", "Isaac_Newton"]
    (fact,) = store.facts_about(["apple"], 5)
    assert fact.text == "Apples come from Kazakhstan."
    (tie,) = store.relations_of(["almaty"], 5)
    assert (tie.source, tie.relation, tie.target) == ("isaac newton", "never visited", "almaty")


def test_it_is_never_written_to(database, store):
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    with pytest.raises(StoreError, match=r"only read.*pack import"):
        store.writer(**EMBEDDER)
    with pytest.raises(UsageError):
        store.cypher("MATCH (a:Article) DETACH DELETE a")
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert sorted(path.name for path in database.parent.iterdir()) == ["pack.db"]


def test_parameterised_cypher_answers_by_column(store):
    rows = store.cypher(
        "MATCH (a:Article)-[l:LINKS_TO]->(b:Article) WHERE a.title = $title"
        " RETURN b.title AS target, l.link_type AS kind ORDER BY target",
        {"title": "Apple"},
    )
    assert rows == [
        {"target": "Isaac_Newton", "kind": "inline"},
        {"target": "Pear", "kind": "see_also"},
    ]
    rows = store.cypher(
        "CALL QUERY_VECTOR_INDEX('Section', 'embedding_idx', $q, 2) RETURN node.section_id AS id,"
        " distance ORDER BY distance",
        {"q": vector_of("Newton wrote the Principia in 1687.").tolist()},
    )
    assert rows[0]["id"] == "Isaac_Newton#0"


def test_a_query_that_takes_too_long_is_ended(store):
    with pytest.raises(StoreError, match="took longer than"):
        store.cypher(
            "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN sum(a * b)",
            timeout_s=0.2,
        )


def test_a_broken_query_says_so_in_one_line(store):
    with pytest.raises(StoreError) as caught:
        store.cypher("MATCH (a:Nothing) RETURN a")
    assert "Nothing" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_vectors_of_another_dimension_are_told_apart(tmp_path):
    path = write_earlier_pack(tmp_path / "pack.db", lambda text: vector_of(text, 24), 24)
    with open_kuzu(path) as store:
        assert store.info().dim == 24
        with pytest.raises(EmbedderMismatch, match="24 dimensions"):
            store.vector_search(np.ones(DIM, np.float32), 3)


def test_a_manifest_beside_it_names_the_embedder(tmp_path):
    path = write_earlier_pack(tmp_path / "pack.db", vector_of, DIM)
    (tmp_path / "manifest.json").write_text('{"embedding_model": "org/all-MiniLM-L6-v2"}')
    with open_kuzu(tmp_path) as store:
        assert store.info().embedder == "all-MiniLM-L6-v2"
    (tmp_path / "manifest.json").write_text("not json")
    with open_kuzu(path) as store:
        assert store.info().embedder == ""


def test_what_is_no_pack_is_refused(tmp_path):
    with pytest.raises(StoreMissing):
        open_kuzu(tmp_path / "nothing.db")
    (tmp_path / "text.db").write_text("hello")
    with pytest.raises(NotAStore, match="not a Kuzu database"):
        open_kuzu(tmp_path / "text.db")
    with pytest.raises(NotAStore, match=r"without a pack\.db"):
        open_kuzu(tmp_path)
    with pytest.raises(UsageError):
        create_or_open_kuzu(" ")
    import kuzu

    database = kuzu.Database(str(tmp_path / "other.db"), buffer_pool_size=64 << 20)
    kuzu.Connection(database).execute("CREATE NODE TABLE Person(name STRING PRIMARY KEY)")
    database.close()
    with pytest.raises(NotAStore, match="Article"):
        open_kuzu(tmp_path / "other.db")


def test_without_the_package_the_message_says_what_to_install(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    kuzu_database._trouble.cache_clear()
    monkeypatch.setattr(kuzu_database, "import_module", missing)
    try:
        with pytest.raises(StoreError, match=r"pip install 'packwise\[kuzu\]'"):
            kuzu_database.engine_for(tmp_path / "new.db")
        (tmp_path / "successor.db").write_bytes(b"LBUG....")
        with pytest.raises(StoreError, match="pip install ladybug"):
            kuzu_database.engine_for(tmp_path / "successor.db")
    finally:
        kuzu_database._trouble.cache_clear()


def test_the_successor_is_used_once_its_extensions_load(tmp_path, monkeypatch):
    import kuzu

    class Successor:
        """Ladybug as it would be with its extensions at hand."""

        Database = kuzu.Database
        Connection = kuzu.Connection

    monkeypatch.setattr(
        kuzu_database, "import_module", lambda name: {"ladybug": Successor, "kuzu": kuzu}[name]
    )
    kuzu_database._trouble.cache_clear()
    try:
        assert kuzu_database.engine_for(tmp_path / "new.db") is Successor
        (tmp_path / "old.db").write_bytes(b"KUZU....")
        assert kuzu_database.engine_for(tmp_path / "old.db") is kuzu
    finally:
        kuzu_database._trouble.cache_clear()

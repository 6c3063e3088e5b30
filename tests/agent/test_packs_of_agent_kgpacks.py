"""Packs of agent-kgpacks: opened by path, with the files beside them, and without their model."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import packwise
from messages_api import KEY, text
from packwise import KnowledgeGraphAgent
from packwise.errors import NotAStore, UsageError
from packwise.models.embedder import load_embedder
from packwise.packs.copying import copy_store
from packwise.settings import Settings
from packwise.stores.locate import same_store

pytest.importorskip("kuzu")

from earlier_pack import ARTICLES, write_earlier_pack

QUESTION = "Who wrote the Principia in 1687?"
ASKED = "Which articles are about a fruit?"
CYPHER = (
    "MATCH (a:Article) WHERE lower(a.category) CONTAINS lower($q) RETURN a.title AS title LIMIT 5"
)


def foreign(dim):
    """Vectors of a model that Packwise does not have."""

    def embed(content):
        random = np.random.default_rng(sum(map(ord, content)))
        return random.normal(size=dim)

    return embed


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """A folder with a pack.db whose vectors are those of the default model."""
    folder = tmp_path_factory.mktemp("earlier")
    settings = Settings.load()
    embedder = load_embedder(settings.embedder, settings)
    write_earlier_pack(
        folder / "pack.db", lambda content: embedder.embed_passages([content])[0], embedder.dim
    )
    return folder


@pytest.fixture
def files(pack):
    """Writes files beside the pack, and removes them."""
    written = []

    def write(name, value):
        written.append(pack / name)
        (pack / name).parent.mkdir(exist_ok=True)
        (pack / name).write_text(value if isinstance(value, str) else json.dumps(value))

    yield write
    for file in written:
        file.unlink()


def test_a_path_needs_no_scheme(pack):
    for place in (pack, pack / "pack.db", str(pack), str(pack / "pack.db"), f"kuzu:{pack}"):
        with KnowledgeGraphAgent(place) as agent, packwise.open(place) as library:
            assert agent.semantic_search(QUESTION)[0]["title"] == "Isaac_Newton"
            assert library.info().kind == "kuzu"
        assert same_store(str(place), str(pack / "pack.db"))


def test_a_pack_folder_stays_one(notes_pack, tmp_path):
    with packwise.open(Path(notes_pack)) as library:
        assert library.info().kind == "pack"
    (tmp_path / "notes.txt").write_text("no database")
    with pytest.raises(NotAStore, match="is a file, not a pack"):
        packwise.open(tmp_path / "notes.txt")


def test_a_database_folder_of_an_older_kuzu_is_named_as_such(tmp_path):
    old = tmp_path / "pack.db"
    old.mkdir()
    (old / "catalog.kz").write_bytes(b"")
    for place in (old, tmp_path, f"kuzu:{old}", f"kuzu:{tmp_path}"):
        with pytest.raises(NotAStore, match=r"Kuzu before 0\.11"):
            packwise.open(place)


def test_titles_stay_as_stored_and_are_found_by_either_spelling(pack):
    with KnowledgeGraphAgent(pack) as agent:
        assert "Isaac_Newton" in [row["title"] for row in agent.semantic_search(QUESTION)]
        for title in ("Isaac_Newton", "Isaac Newton"):
            assert "Principia" in agent._fetch_source_text([title])
            assert "Isaac_Newton" in agent.find_entity(title)["source_articles"]


def test_a_copy_mentions_titles_with_underscores(pack, tmp_path):
    copy_store(str(pack), str(tmp_path / "copy"), embedder=Settings.load().embedder)
    with KnowledgeGraphAgent(tmp_path / "copy") as agent:
        named = agent._opened().store.entities_named(["isaac newton"])["isaac newton"]
        assert [titled.title for titled in named.titled] == ["Isaac_Newton"]


def test_the_content_of_an_article_without_sections_is_its_text(tmp_path):
    import kuzu

    path = write_earlier_pack(tmp_path / "pack.db", foreign(8), 8)
    database = kuzu.Database(str(path))
    connection = kuzu.Connection(database)
    connection.execute("ALTER TABLE Article ADD content STRING")
    connection.execute("CREATE (:Article {title: 'Quince', content: 'A quince is sour.'})")
    connection.execute("CREATE (:Article {title: 'Empty'})")
    connection.close()
    database.close()
    with KnowledgeGraphAgent(path) as agent:
        for question in (None, "What is a quince?"):
            assert "A quince is sour." in agent._fetch_source_text(["Quince"], question=question)
        assert agent._fetch_source_text(["Empty"]) == ""


def test_the_cypher_of_a_vector_search_is_shown(pack, agent):
    with KnowledgeGraphAgent(pack) as kuzu_agent:
        assert kuzu_agent.query(QUESTION)["cypher_query"].startswith("CALL QUERY_VECTOR_INDEX(")
    assert agent.query("How long does a restore take?")["cypher_query"] is None


def cypher_reply(**fields):
    return text(json.dumps({"cypher": CYPHER, **fields}))


def test_cypher_examples_beside_the_pack_are_read_even_for_their_own_question(pack, files, server):
    files("cypher_examples.json", [{"query": ASKED, "ground_truth": CYPHER}])
    server.will(cypher_reply(cypher_params={"q": "fruit"}), text("Apple [1]."))
    with KnowledgeGraphAgent(pack, KEY) as agent:
        found = agent.query(ASKED)
    assert found["query_type"] == "cypher"
    assert found["cypher_query"] == CYPHER
    asked, answered = server.requests
    assert json.dumps({"cypher": CYPHER}) in asked.prompt
    assert "title: Apple\ntitle: Pear" in answered.prompt


def test_a_parameter_without_a_value_is_refused(pack, files, server):
    files("cypher_examples.jsonl", json.dumps({"question": ASKED, "query": CYPHER}))
    server.will(cypher_reply(), text("None."))
    with KnowledgeGraphAgent(pack, KEY) as agent:
        found = agent.query(ASKED)
        assert "no Cypher: $q has no value" in found["degraded"]
        assert found["cypher_query"] is None
        assert len(agent._opened().store.cypher(CYPHER, {"q": "people"})) == 1
        with pytest.raises(UsageError, match=r"\$q has no value"):
            agent._opened().store.cypher(CYPHER)


def test_cypher_that_ran_is_shown_even_if_it_found_nothing(pack, files, server):
    files("cypher_examples.json", [{"question": "q", "cypher": CYPHER}])
    server.will(cypher_reply(cypher_params={"q": "no such thing"}), text("I do not know."))
    with KnowledgeGraphAgent(pack, KEY) as agent:
        found = agent.query("Who won the football world cup in 1998?")
    assert found["query_type"] == "confidence_gated_fallback"
    assert found["cypher_query"] == CYPHER
    assert "no Cypher: the query found nothing" in found["degraded"]


@pytest.mark.parametrize("name", ["few_shot_examples.json", "eval/questions.jsonl"])
def test_examples_beside_the_pack_are_shown(pack, files, server, name):
    files(name, [{"query": "Who watched an apple?", "ground_truth": "Newton, in a garden."}])
    server.will(text("Newton [1]."))
    with KnowledgeGraphAgent(pack, KEY) as agent:
        found = agent.query(QUESTION)
    assert "Newton, in a garden." in server.requests[0].prompt
    assert found["degraded"] == []


def test_malformed_files_beside_the_pack_are_reported(pack, files, server):
    files("few_shot_examples.json", "{")
    files("cypher_examples.json", "{")
    server.will(text("Newton [1]."))
    with KnowledgeGraphAgent(pack, KEY) as agent:
        found = agent.query(QUESTION)
    assert found["query_type"] == "vector_search"
    cypher, examples = found["degraded"]
    assert cypher.startswith("Cypher examples: ")
    assert examples.startswith("examples: few_shot_examples.json: not JSON")


@pytest.mark.parametrize("argument", ["few_shot_path", "cypher_pack_path"])
@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_file_that_was_named_is_an_error(pack, tmp_path, argument, content):
    file = tmp_path / "mine.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=r"mine\.json"):
        KnowledgeGraphAgent(pack, **{argument: file})


def test_cypher_on_a_store_without_it_is_reported(notes_pack, tmp_path, server):
    (tmp_path / "cypher.json").write_text(json.dumps([{"question": ASKED, "cypher": CYPHER}]))
    server.will(text("Yes [1]."))
    with KnowledgeGraphAgent(notes_pack, KEY, cypher_pack_path=tmp_path / "cypher.json") as agent:
        degraded = agent.query("How long does a restore take?")["degraded"]
    assert "no Cypher: this store does not support it" in degraded


@pytest.fixture(params=[("BAAI/bge-base-en-v1.5", 768), ("", 384)])
def unknown(request, tmp_path):
    """A pack made with a model that Packwise does not have, named in its manifest or not."""
    name, dim = request.param
    write_earlier_pack(tmp_path / "pack.db", foreign(dim), dim)
    if name:
        (tmp_path / "manifest.json").write_text(json.dumps({"embedding_model": name}))
    return tmp_path


def test_a_pack_without_its_model_answers_by_keywords_and_says_so(unknown, server, caplog):
    (unknown / "few_shot_examples.json").write_text('[{"query": "A?", "answer": "An example."}]')
    server.will(text("Newton [1]."))
    with KnowledgeGraphAgent(unknown, KEY) as agent:
        found = agent.query(QUESTION)
        assert found["sources"] == ["Isaac_Newton"]
        assert found["cypher_query"] is None
        assert agent.semantic_search(QUESTION)[0]["title"] == "Isaac_Newton"
        assert agent.graph_query("How is Apple tied to Pear?")["paths"]
        assert agent.query("What is the boiling point of ethanol?")["sources"] == []
    (line,) = found["degraded"]
    assert line.startswith("only keywords are searched: no model here makes the vectors of")
    assert "--reembed" in line
    assert "An example." in server.requests[0].prompt
    with packwise.open(unknown) as library, caplog.at_level(logging.WARNING, "packwise"):
        assert library.search(QUESTION, 3).trace.degraded == [line]
        assert library.search(QUESTION, 3).trace.degraded == [line]
        assert "Principia" in library.context(QUESTION).text
    assert line in caplog.messages


def test_a_pack_without_its_model_can_be_embedded_again(unknown, tmp_path):
    report = copy_store(str(unknown), str(tmp_path / "copy"), reembed=True)
    assert report.verified
    with KnowledgeGraphAgent(tmp_path / "copy") as agent:
        assert agent.query(QUESTION)["degraded"] == []
        assert agent.semantic_search(QUESTION)[0]["title"] == "Isaac_Newton"
        assert "Apples come from Kazakhstan." in agent.get_entity_facts("Apple")


def test_an_alternative_that_fails_is_a_warning(pack, server, caplog):
    server.will(text('["fails", "What did Newton write?"]'))

    class Failing(KnowledgeGraphAgent):
        def semantic_search(self, query, top_k=5):
            if query in ("fails", "fails too"):
                raise RuntimeError("out of order")
            return super().semantic_search(query, top_k)

    with Failing(pack, KEY) as agent, caplog.at_level(logging.WARNING, "packwise"):
        assert agent._multi_query_retrieve(QUESTION)[0]["title"] == "Isaac_Newton"
        assert 'searching "fails" failed: out of order' in caplog.messages
        assert agent._multi_query_retrieve("fails too")


def test_haiku_is_given_ten_seconds(pack, server):
    server.will(text('["a", "b"]'))
    with KnowledgeGraphAgent(pack, KEY) as agent:
        calls, create = [], agent.claude.messages.create
        agent.claude.messages.create = lambda **given: calls.append(given) or create(**given)
        agent._multi_query_retrieve(QUESTION)
    assert [call["timeout"] for call in calls] == [10.0]


def test_entities_in_small_letters_are_found(tmp_path):
    articles = json.loads(json.dumps(ARTICLES))
    articles["Apple"]["entities"] = [
        ("e1", "cider press", "thing", ""),
        ("e2", "orchard", "place", ""),
    ]
    articles["Pear"]["entities"] = articles["Isaac_Newton"]["entities"] = []
    path = write_earlier_pack(tmp_path / "pack.db", foreign(8), 8, articles)
    with KnowledgeGraphAgent(path) as agent:
        found = agent.graph_query("how is the cider press related to an orchard?")
    assert [path["steps"][0]["relation"] for path in found["paths"]] == ["never visited"]

"""Questions to the graph: entities, facts, paths between names."""

import numpy as np
import pytest

from packwise import KnowledgeGraphAgent
from packwise.documents import Document, Link, Passage, Section, content_hash
from packwise.errors import UsageError
from packwise.language.names import ExtractedEntity, ExtractedFact, ExtractedRelation, Extraction
from packwise.library import Library
from packwise.retrieval.graph import entities_in_question
from packwise.stores.pack.store import create_or_open_pack

FILMS = {
    "jump": ("Jump for Glory", "Jump for Glory is a film that was directed by Raoul Walsh."),
    "walsh": ("Raoul Walsh", "Raoul Walsh married Jessie Boot in Santa Monica."),
    "boot": ("Jessie Boot", "Jessie Boot collected stamps and kept bees on an island."),
    "bees": ("Beekeeping", "Beekeeping is the care of bee colonies in hives by people."),
}
LINKS = {"boot": ["bees"]}
EXTRACTIONS = {
    "walsh": Extraction(
        0,
        (ExtractedEntity("Raoul Walsh", "person", "a film director"),),
        (ExtractedFact("Raoul Walsh", "Raoul Walsh married in Santa Monica."),),
        (ExtractedRelation("Raoul Walsh", "married", "Jessie Boot", "married Jessie Boot"),),
    )
}


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "films"
    with (
        create_or_open_pack(folder) as store,
        store.writer(embedder="tests", embedder_version="tests.r1", dim=4) as writer,
    ):
        for name, (title, body) in FILMS.items():
            links = tuple(Link(href=other, anchor="bees") for other in LINKS.get(name, ()))
            section = Section((), 0, (), 0, len(body))
            document = Document(name, title, body, (section,), links, source_hash=name)
            passage = Passage(
                f"{name}#0", name, title, (), 0, body, 0, len(body), content_hash(title, body)
            )
            vectors = np.full((1, 4), 0.5, dtype=np.float32)
            extra = [EXTRACTIONS[name]] if name in EXTRACTIONS else []
            writer.stage(document, [passage], vectors, extra)
        writer.commit()
    return folder


@pytest.fixture(scope="module")
def film_agent(films):
    with KnowledgeGraphAgent(str(films)) as agent:
        yield agent


def test_an_entity_comes_with_its_kind_and_where_it_is_named(film_agent):
    found = film_agent.find_entity("raoul walsh")
    assert found["name"] == "Raoul Walsh"
    assert found["properties"]["description"] == "a film director"
    assert set(found["source_articles"]) >= {"Raoul Walsh", "Jump for Glory"}
    assert film_agent.find_entity("Nobody Known") is None
    assert film_agent.find_entity("") is None


def test_facts_are_what_documents_and_extraction_say(film_agent):
    assert "Raoul Walsh married in Santa Monica." in film_agent.get_entity_facts("Raoul Walsh")
    beekeeping = film_agent.get_entity_facts("Beekeeping")
    assert beekeeping == [FILMS["bees"][1]]
    assert film_agent.get_entity_facts("Nobody Known") == []


def test_an_extracted_relation_is_the_surest_tie(film_agent):
    (path, *_) = film_agent.find_relationship_path("Raoul Walsh", "Jessie Boot")
    assert path["hops"] == 1
    (step,) = path["steps"]
    assert (step["source"], step["relation"], step["target"]) == (
        "Raoul Walsh",
        "married",
        "Jessie Boot",
    )
    assert step["kind"] == "relation"
    assert step["context"] == "married Jessie Boot"


def test_a_path_can_be_walked_from_either_end(film_agent):
    (there, *_) = film_agent.find_relationship_path("Jump for Glory", "Jessie Boot")
    (back, *_) = film_agent.find_relationship_path("Jessie Boot", "Jump for Glory")
    assert there["nodes"] == ["Jump for Glory", "Raoul Walsh", "Jessie Boot"]
    assert back["nodes"] == there["nodes"][::-1]
    assert [step["kind"] for step in there["steps"]] == ["title", "relation"]


def test_links_lead_on_and_hops_are_bounded(film_agent):
    (path, *_) = film_agent.find_relationship_path("Jump for Glory", "Beekeeping")
    assert path["nodes"][0] == "Jump for Glory"
    assert path["nodes"][-1] == "Beekeeping"
    assert path["hops"] == 3
    assert path["steps"][-1]["kind"] == "link"
    assert film_agent.find_relationship_path("Jump for Glory", "Beekeeping", max_hops=2) == []
    assert film_agent.find_relationship_path("Jump for Glory", "Nobody") == []
    assert film_agent.find_relationship_path("Beekeeping", "beekeeping") == []


@pytest.mark.parametrize("hops", [0, -1, 7, 1000])
def test_a_path_has_one_to_six_hops(film_agent, hops):
    with pytest.raises(UsageError, match="max_hops"):
        film_agent.find_relationship_path("Jump for Glory", "Beekeeping", max_hops=hops)
    (path, *_) = film_agent.find_relationship_path("Jump for Glory", "Beekeeping", max_hops=6)
    assert path["hops"] == 3


def test_a_question_names_its_entities_in_order(films):
    from packwise.stores.pack.store import open_pack

    with open_pack(films) as store:
        named = entities_in_question("How is Jessie Boot tied to Jump for Glory?", store)
    assert [entity.label for entity in named] == ["Jessie Boot", "Jump for Glory"]


def test_a_graph_question_is_answered_with_the_paths_it_went(agent):
    found = agent.graph_query("How are Releases tied to Signing keys?")
    assert found["query_type"] == "graph_query"
    (path, *_) = found["paths"]
    assert {path["source"], path["target"]} == {"Releases", "Signing keys"}
    assert "Releases links to Signing keys" in found["answer"]
    assert "The graph" not in found["sources"]
    assert found["citations"][0]["title"] == "The graph"


def test_a_graph_question_that_names_nothing_is_answered_as_any_other(agent):
    found = agent.graph_query("how long does a restore take?")
    assert found["paths"] == []
    assert "forty minutes" in found["answer"]


def test_paths_reach_claude_as_evidence_it_may_cite(keyed, server):
    from messages_api import text

    server.will(text("By a link [6].", given=10, made=5))
    found = keyed().graph_query("How are Releases tied to Signing keys?")
    prompt = server.requests[0].prompt
    assert "Releases links to Signing keys." in prompt
    assert found["token_usage"]["api_calls"] == 1


def test_with_cypher_examples_other_stores_walk_the_graph(notes_pack, tmp_path):
    (tmp_path / "cypher_examples.json").write_text(
        '[{"question": "What links to X?", "cypher": "MATCH (a) RETURN a LIMIT 1"}]'
    )
    with KnowledgeGraphAgent(str(notes_pack), cypher_pack_path=str(tmp_path)) as agent:
        found = agent.query("How are Releases tied to Signing keys?")
    assert found["query_type"] == "graph_query"
    assert found["cypher_query"] is None
    assert found["paths"]


def test_the_library_stays_open_for_the_agent(films):
    with KnowledgeGraphAgent(str(films)) as agent:
        assert isinstance(agent._opened(), Library)

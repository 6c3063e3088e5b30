"""With PACKWISE_SYNTHESIS=off nothing is sent to a model, whatever is asked for."""

import json

import pytest

import packwise
from messages_api import KEY, text
from packwise import KnowledgeGraphAgent
from packwise.packs.build import build_pack

ON_TOPIC = "How long does a restore take?"
OFF_TOPIC = "Who won the football world cup in 1998?"


@pytest.fixture
def off(monkeypatch, server):
    monkeypatch.setenv("PACKWISE_SYNTHESIS", "off")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    server.will(text('["one", "two"]'))


def test_the_agent_sends_nothing(off, notes_pack, server):
    with KnowledgeGraphAgent(notes_pack, KEY, enable_multi_query=True) as agent:
        assert agent.claude is None
        found = agent.query(ON_TOPIC)
        agent.query(OFF_TOPIC)
        agent.graph_query("How is On call tied to Backups?")
        assert agent._multi_query_retrieve(ON_TOPIC)[0]["title"] == "Backups"
        assert agent._synthesize_answer_minimal(OFF_TOPIC) == ""
    assert server.requests == []
    assert "forty minutes" in found["answer"]
    assert found["degraded"] == ["no query expansion: PACKWISE_SYNTHESIS is off"]


def test_a_client_that_is_put_in_later_is_not_called_either(off, notes_pack, server):
    with KnowledgeGraphAgent(notes_pack) as agent:
        agent.claude = object()
        assert agent.query(ON_TOPIC)["answered_by"] == "extractive"


def test_the_graph_is_not_asked_in_cypher(off, tmp_path, notes, server):
    pytest.importorskip("kuzu")
    build_pack([str(notes)], f"kuzu:{tmp_path / 'pack.db'}")
    rows = [{"question": "What links to Releases?", "cypher": "MATCH (a) RETURN a.title LIMIT 5"}]
    (tmp_path / "cypher_examples.json").write_text(json.dumps(rows))
    with KnowledgeGraphAgent(tmp_path, KEY, cypher_pack_path=tmp_path) as agent:
        agent.query("Which articles link to Backups?")
        agent.graph_query("Which articles link to Backups?")
    assert server.requests == []


def test_a_library_sends_nothing(off, notes_pack, server):
    with packwise.open(notes_pack) as library:
        library.ask(ON_TOPIC, expansion="llm", synthesis=True)
        list(library.ask_stream(ON_TOPIC, expansion="llm"))
    assert server.requests == []

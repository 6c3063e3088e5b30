"""What a subclass overrides takes effect in query()."""

import pytest

from messages_api import KEY, status, text
from packwise import KnowledgeGraphAgent
from packwise.errors import UsageError

ON_TOPIC = "How long does a restore take?"
OFF_TOPIC = "Who won the football world cup in 1998?"


def titles(found):
    return [entry["id"] for entry in found["trace"]["packing"]["selected"]]


def test_an_own_search_decides_which_articles_are_used(notes_pack):
    class OnlyOnCall(KnowledgeGraphAgent):
        def semantic_search(self, query, top_k=5):
            return [{"title": "On call", "similarity": 0.9, "content": ""}]

    with OnlyOnCall(notes_pack) as agent:
        found = agent.query(ON_TOPIC)
        assert found["query_type"] == "vector_search"
        assert set(found["sources"]) <= {"On call"}
        assert all("on-call" in name for name in titles(found))


@pytest.mark.parametrize("name", ["_vector_primary_retrieve", "_multi_query_retrieve"])
def test_an_own_retrieval_that_finds_nothing_is_gated(notes_pack, name):
    empty = (None, 0.0) if name == "_vector_primary_retrieve" else []
    own = type("Own", (KnowledgeGraphAgent,), {name: lambda self, question, max_results: empty})
    with own(notes_pack, enable_multi_query=True) as agent:
        assert agent.query(ON_TOPIC)["query_type"] == "confidence_gated_fallback"


def test_an_own_similarity_is_what_the_gate_reads(notes_pack):
    class Unsure(KnowledgeGraphAgent):
        def semantic_search(self, query, top_k=5):
            rows = super().semantic_search(query, top_k)
            return [{**row, "similarity": 0.3} for row in rows]

    with Unsure(notes_pack) as agent:
        assert agent.query(ON_TOPIC)["query_type"] == "confidence_gated_fallback"

    class Lenient(Unsure):
        CONTEXT_CONFIDENCE_THRESHOLD = 0.2

    with Lenient(notes_pack) as agent:
        assert agent.query(ON_TOPIC)["query_type"] == "vector_search"


def test_own_quality_decides_what_is_read(notes_pack):
    class NoMinutes(KnowledgeGraphAgent):
        def _score_section_quality(self, content, question):
            return 0.0 if "forty minutes" in content else 1.0

    with NoMinutes(notes_pack) as agent:
        assert "forty minutes" not in agent.query(ON_TOPIC)["answer"]

    class NothingIsGood(KnowledgeGraphAgent):
        CONTENT_QUALITY_THRESHOLD = 1.0

        def _score_section_quality(self, content, question):
            return 0.0

    with NothingIsGood(notes_pack) as agent:
        assert "forty minutes" in agent.query(ON_TOPIC)["answer"]


def test_own_stop_words_change_the_quality(notes_pack):
    class Own(KnowledgeGraphAgent):
        STOP_WORDS = frozenset({"restore"})

    with Own(notes_pack) as agent:
        words = " ".join(["word"] * 49)
        assert agent._score_section_quality(f"{words} restore", "restore") == pytest.approx(0.35)
        assert agent._score_section_quality(f"{words} the", "the") == pytest.approx(0.55)
        assert agent.query(ON_TOPIC)["answer"]


def test_an_own_prompt_is_the_one_that_is_sent(notes_pack, server):
    class Own(KnowledgeGraphAgent):
        def _build_synthesis_context(self, question, kg_results, query_plan, few_shot_examples):
            return f"{kg_results['sources'][0]} {query_plan['type']} {few_shot_examples}"

    server.will(text("Forty [Source: backups].", given=5, made=2))
    with Own(notes_pack, KEY) as agent:
        found = agent.query(ON_TOPIC)
    assert [request.prompt for request in server.requests] == ["Backups vector_search []"]
    assert found["answer"] == "Forty [Source: backups]."
    assert found["sources"] == ["Backups"]
    assert found["token_usage"] == {"input_tokens": 5, "output_tokens": 2, "api_calls": 1}


def test_own_source_text_reaches_the_prompt(notes_pack, server):
    class Own(KnowledgeGraphAgent):
        def _fetch_source_text(self, source_titles, max_articles=5, question=None):
            return "The text that I keep elsewhere."

    server.will(text("Yes [1]."))
    with Own(notes_pack, KEY) as agent:
        agent.query(ON_TOPIC)
    assert "The text that I keep elsewhere." in server.requests[0].prompt
    server.will(status(500))
    with Own(notes_pack, KEY) as agent:
        found = agent.query(ON_TOPIC)
    assert "forty minutes" in found["answer"]
    assert found["degraded"][-1].startswith("no synthesis")


def test_an_own_minimal_answer_is_given_to_gated_questions(notes_pack, server):
    class Own(KnowledgeGraphAgent):
        def _synthesize_answer_minimal(self, question):
            return "I cannot say."

    with Own(notes_pack) as agent:
        assert agent.query(OFF_TOPIC)["answer"] == "I cannot say."
        assert "forty minutes" in agent.query(ON_TOPIC)["answer"]
    assert server.requests == []


def test_step_6_has_parameters(notes_pack):
    def articles(**given):
        with KnowledgeGraphAgent(notes_pack, **given) as agent:
            found = agent.query("What happens on call with backups and releases?", max_results=20)
        stages = {stage["name"]: stage for stage in found["trace"]["stages"]}
        return stages["documents"]

    assert articles()["articles"] == 5
    one = articles(num_docs=1, min_relevance=1.0)
    assert one["articles"] == 1
    four = articles(num_docs=4, min_relevance=1.0)
    assert articles(num_docs=4, max_sections=1, min_relevance=1.0)["passages"] < four["passages"]
    with pytest.raises(UsageError):
        KnowledgeGraphAgent(notes_pack, max_sections=0)

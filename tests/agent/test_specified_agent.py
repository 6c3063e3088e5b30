"""The agent's class as specified: constructor, constants, methods and every table row."""

import inspect
import json
import logging

import pytest

from messages_api import KEY, hang_up, raw, silence, status, text, truncated
from packwise import KnowledgeGraphAgent
from packwise.errors import UsageError
from ports import free_port

ON_TOPIC = "How long does a restore take?"
OFF_TOPIC = "Who won the football world cup in 1998?"
ONE, TWO = "How many minutes does restoring need?", "What is the duration of a restore?"


def test_the_constructor_is_the_specified_one():
    parameters = inspect.signature(KnowledgeGraphAgent).parameters
    defaults = {name: p.default for name, p in parameters.items()}
    assert defaults == {
        "db_path": inspect.Parameter.empty,
        "anthropic_api_key": None,
        "read_only": True,
        "use_enhancements": True,
        "few_shot_path": None,
        "enable_reranker": True,
        "enable_multidoc": True,
        "enable_fewshot": True,
        "synthesis_model": None,
        "cypher_pack_path": None,
        "enable_multi_query": False,
        "enable_cross_encoder": False,
        "num_docs": None,
        "max_sections": 3,
        "min_relevance": 0.7,
    }


def test_the_constants_are_class_attributes():
    assert KnowledgeGraphAgent.CONTENT_QUALITY_THRESHOLD == 0.3
    assert KnowledgeGraphAgent.CONTEXT_CONFIDENCE_THRESHOLD == 0.5
    assert KnowledgeGraphAgent.SYNTHESIS_MAX_TOKENS == 1024
    words = KnowledgeGraphAgent.STOP_WORDS
    assert isinstance(words, frozenset)
    assert 80 <= len(words) <= 110
    assert {"a", "an", "the", "in", "of", "to", "for", "with", "by", "from"} <= words
    assert "photosynthesis" not in words


QUESTION = "quantum entanglement"
PLAIN = ["word"] * 1000


def content(words, matched):
    return " ".join([*QUESTION.split()[:matched], *PLAIN][:words])


@pytest.mark.parametrize(
    ("words", "matched", "score"),
    [
        (2, 0, 0.0),
        (19, 2, 0.0),
        (20, 0, 0.26),
        (50, 0, 0.35),
        (50, 2, 0.55),
        (100, 0, 0.50),
        (200, 0, 0.80),
        (200, 2, 1.0),
        (1000, 0, 0.80),
        (1000, 1, 0.90),
        (1000, 2, 1.0),
    ],
)
def test_section_quality_is_that_of_the_tables(agent, words, matched, score):
    assert agent._score_section_quality(content(words, matched), QUESTION) == pytest.approx(score)


def test_section_quality_of_the_examples(agent):
    assert agent._score_section_quality("See also.", QUESTION) == 0.0
    assert agent._score_section_quality(" ".join(["word"] * 20), "what is the") == 0.26
    assert agent._score_section_quality("Quantum, entanglement! " * 100, f"{QUESTION}?") == 1.0


@pytest.mark.parametrize(("words", "kept"), [(2, False), (20, False), (50, True), (200, True)])
def test_the_threshold_includes_what_the_table_includes(agent, words, kept):
    score = agent._score_section_quality(" ".join(PLAIN[:words]), QUESTION)
    assert (score >= agent.CONTENT_QUALITY_THRESHOLD) is kept


def test_a_query_answers_with_the_specified_dictionary(agent):
    found = agent.query(ON_TOPIC)
    assert "forty minutes" in found["answer"]
    assert found["sources"] == ["Backups"]
    assert found["query_type"] == "vector_search"
    assert found["token_usage"] == {"input_tokens": 0, "output_tokens": 0, "api_calls": 0}
    assert found["degraded"] == []
    assert found["cypher_query"] is None
    assert found["confidence"] >= 0.5
    assert isinstance(found["entities"], list)
    assert any(fact.startswith("A tenant is a customer") for fact in found["facts"])
    assert {stage["name"] for stage in found["trace"]["stages"]} >= {"vector", "gate", "extract"}
    json.dumps(found)


def test_claude_writes_the_answer_and_is_counted(keyed, server):
    server.will(text("About forty minutes [1].", given=2847, made=312))
    found = keyed().query(ON_TOPIC)
    assert found["answer"] == "About forty minutes [1]."
    assert found["sources"] == ["Backups"]
    assert found["answered_by"] == "claude-opus-4-6"
    assert found["token_usage"] == {"input_tokens": 2847, "output_tokens": 312, "api_calls": 1}
    (request,) = server.requests
    assert request.body["model"] == "claude-opus-4-6"
    assert request.body["max_tokens"] == 1024
    assert "temperature" not in request.body
    assert "A restore takes about forty minutes" in request.prompt


def test_the_synthesis_model_can_be_another(keyed, server):
    server.will(text("Yes [1]."))
    found = keyed(synthesis_model="claude-other-5").query(ON_TOPIC)
    assert server.requests[0].body["model"] == found["answered_by"] == "claude-other-5"


def test_claude_is_called_through_its_client(keyed, server):
    agent = keyed()
    calls = []
    create = agent.claude.messages.create
    agent.claude.messages.create = lambda **given: calls.append(given) or create(**given)
    server.will(text("Yes [1]."))
    agent.query(ON_TOPIC)
    assert [call["model"] for call in calls] == ["claude-opus-4-6"]


def test_a_question_the_pack_does_not_cover_is_gated(agent):
    found = agent.query(OFF_TOPIC)
    assert found["query_type"] == "confidence_gated_fallback"
    assert found["sources"] == found["entities"] == found["facts"] == found["citations"] == []
    assert found["confidence"] < 0.5
    assert "do not cover" in found["answer"]
    assert found["answered_by"] == "none"


def test_a_gated_question_is_answered_from_claudes_own_knowledge(keyed, server):
    server.will(text("France, as far as I know."))
    found = keyed().query(OFF_TOPIC)
    assert found["answer"] == "France, as far as I know."
    assert found["query_type"] == "confidence_gated_fallback"
    assert found["sources"] == found["entities"] == found["facts"] == []
    assert "Context:" not in server.requests[0].prompt
    assert "restore" not in server.requests[0].prompt


@pytest.mark.parametrize(
    ("confidence", "fires"),
    [(0.95, False), (0.7, False), (0.5, False), (0.49, True), (0.3, True), (0.0, True)],
)
def test_the_gate_fires_below_one_half(agent, monkeypatch, confidence, fires):
    monkeypatch.setattr("packwise.retrieval.pipeline.confidence", lambda _: confidence)
    gated = agent.query(ON_TOPIC)["query_type"] == "confidence_gated_fallback"
    assert gated is fires


def test_two_phrasings_by_haiku_are_searched_beside_the_question(keyed, server):
    agent = keyed(enable_multi_query=True)
    asked = []
    search = agent.semantic_search
    agent.semantic_search = lambda query, top_k: (
        asked.append((query, top_k)) or search(query, top_k=top_k)
    )
    server.will(text(json.dumps([ONE, TWO])))
    found = agent._multi_query_retrieve(ON_TOPIC, max_results=3)
    assert sorted(asked) == sorted([(ON_TOPIC, 3), (ONE, 3), (TWO, 3)])
    assert server.requests[0].body["model"] == "claude-haiku-4-5-20251001"
    titles = [row["title"] for row in found]
    assert len(titles) == len(set(titles))
    assert [row["similarity"] for row in found] == sorted(
        (row["similarity"] for row in found), reverse=True
    )
    assert titles[0] == "Backups"
    assert "restore" in found[0]["content"].lower()


def test_of_one_title_the_highest_similarity_is_kept(keyed, server):
    agent = keyed(enable_multi_query=True)
    scores = {ON_TOPIC: 0.5, ONE: 0.9, TWO: 0.7}
    agent.semantic_search = lambda query, top_k: [
        {"title": "Same", "similarity": scores[query], "content": query},
        {"title": f"Own of {query}", "similarity": 0.1, "content": ""},
    ]
    server.will(text(json.dumps([ONE, TWO])))
    found = agent._multi_query_retrieve(ON_TOPIC)
    assert found[0] == {"title": "Same", "similarity": 0.9, "content": ONE}
    assert len(found) == 4


def test_a_query_counts_the_tokens_of_all_its_calls(keyed, server):
    server.will(text(json.dumps([ONE, TWO]), given=80, made=30), text("Forty [1].", given=900))
    found = keyed(enable_multi_query=True).query(ON_TOPIC)
    assert found["token_usage"] == {"input_tokens": 980, "output_tokens": 37, "api_calls": 2}
    stages = {stage["name"]: stage for stage in found["trace"]["stages"]}
    assert stages["expansion"]["alternatives"] == [ONE, TWO]


# What the design says about security, row by row.


def test_only_500_characters_of_a_question_reach_haiku(keyed, server):
    server.will(text(json.dumps([ONE, TWO])))
    keyed()._multi_query_retrieve("why " * 1000 + "SECRET")
    (request,) = server.requests
    sent = request.prompt.split("<question>")[1].split("</question>")[0].strip()
    assert len(sent) <= 500
    assert "SECRET" not in request.prompt


def test_an_alternative_of_a_megabyte_is_cut_to_300_characters(keyed, server):
    agent = keyed()
    asked = []
    agent.semantic_search = lambda query, top_k: asked.append(query) or []
    server.will(text(json.dumps(["x" * 1_000_000, TWO])))
    agent._multi_query_retrieve(ON_TOPIC)
    assert sorted(map(len, asked)) == sorted([len(ON_TOPIC), 300, len(TWO)])


@pytest.mark.parametrize(("given", "used"), [(-5, 1), (0, 1), (1, 1), (20, 20), (10_000, 20)])
def test_max_results_is_held_between_1_and_20(keyed, server, given, used):
    agent = keyed()
    asked = []
    agent.semantic_search = lambda query, top_k: asked.append(top_k) or []
    server.will(text(json.dumps([ONE, TWO])))
    agent._multi_query_retrieve(ON_TOPIC, max_results=given)
    assert asked == [used] * 3


@pytest.mark.parametrize(
    "reply",
    [
        status(429),
        status(500),
        hang_up(),
        truncated(),
        raw(b"not json"),
        text("no array at all"),
        text('{"alternatives": 3}'),
        text("[1, 2]"),
        text('["unfinished'),
    ],
)
def test_when_haiku_fails_the_question_goes_alone_and_the_log_tells_little(
    keyed, server, caplog, reply
):
    agent = keyed()
    asked = []
    agent.semantic_search = lambda query, top_k: (
        asked.append(query) or [{"title": "T", "similarity": 0.6, "content": ""}]
    )
    server.will(reply)
    question = "my name is Jane Doe " * 20
    with caplog.at_level(logging.WARNING, "packwise"):
        found = agent._multi_query_retrieve(question)
    assert asked == [question]
    assert [row["title"] for row in found] == ["T"]
    assert len(server.requests) == 1
    (record,) = caplog.records
    assert question[:100].strip() in record.getMessage()
    assert question[:140] not in record.getMessage()
    assert KEY not in caplog.text


def test_a_silent_haiku_is_not_waited_for(keyed, server, monkeypatch):
    from packwise import agent as module
    from packwise.retrieval.expansion import expand

    monkeypatch.setattr(module, "expand", lambda q, m: expand(q, m, timeout=0.3))
    server.will(silence())
    assert keyed()._multi_query_retrieve(ON_TOPIC)[0]["title"] == "Backups"


def test_by_default_nothing_is_sent_for_expansion(keyed, server):
    server.will(text("Forty [1]."))
    keyed().query(ON_TOPIC)
    assert [request.body["model"] for request in server.requests] == ["claude-opus-4-6"]


@pytest.mark.parametrize("failure", [status(429), status(500), hang_up(), truncated()])
def test_when_claude_fails_sentences_answer_and_degraded_says_so(keyed, server, failure):
    server.will(failure)
    found = keyed().query(ON_TOPIC)
    assert "forty minutes" in found["answer"]
    assert found["sources"] == ["Backups"]
    assert found["answered_by"] == "extractive"
    assert found["query_type"] == "vector_search"
    (line,) = found["degraded"]
    assert line.startswith("no synthesis")
    assert KEY not in line


def test_when_nobody_listens_sentences_answer(notes_pack, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{free_port()}")
    with KnowledgeGraphAgent(str(notes_pack), KEY, enable_multi_query=True) as agent:
        found = agent.query(ON_TOPIC)
    assert "forty minutes" in found["answer"]
    assert [line.split(":")[0] for line in found["degraded"]] == [
        "no query expansion",
        "no synthesis, sentences of the documents",
    ]


def test_when_claude_fails_on_a_gated_question_the_answer_is_honest(keyed, server):
    server.will(status(500, headers={"Retry-After": "0"}))
    found = keyed().query(OFF_TOPIC)
    assert "do not cover" in found["answer"]
    assert found["degraded"]


def test_a_refused_key_is_said_in_one_line(keyed, server):
    server.will(status(401, f"invalid x-api-key {KEY}"))
    (line,) = keyed().query(ON_TOPIC)["degraded"]
    assert "401" in line
    assert KEY not in line


def test_flags_are_ignored_without_enhancements_with_one_warning(keyed, server, caplog):
    server.will(text("Forty [1]."))
    with caplog.at_level(logging.WARNING, "packwise"):
        agent = keyed(use_enhancements=False, enable_multi_query=True, enable_cross_encoder=True)
        found = agent.query(ON_TOPIC)
        gated = agent.query(OFF_TOPIC)
    (record,) = caplog.records
    assert "enable_multi_query" in record.getMessage()
    stages = [stage["name"] for stage in found["trace"]["stages"]]
    assert not {"expansion", "few_shot", "cross_encoder", "graph"} & set(stages)
    assert gated["query_type"] == "confidence_gated_fallback"
    assert len(server.requests) == 2


def test_the_vector_search_goes_by_the_flag(keyed, server):
    agent = keyed()
    agent._multi_query_retrieve = lambda q, max_results: [{"title": "M", "similarity": 0.8}]
    agent.semantic_search = lambda q, top_k: [{"title": "S", "similarity": 0.6}]
    assert agent._vector_primary_retrieve(ON_TOPIC, 5)[0]["sources"] == ["S"]
    agent.enable_multi_query = True
    results, best = agent._vector_primary_retrieve(ON_TOPIC, 5)
    assert (results["sources"], best) == (["M"], 0.8)
    agent._multi_query_retrieve = lambda q, max_results: []
    assert agent._vector_primary_retrieve(ON_TOPIC, 5) == (None, 0.0)


def test_semantic_search_answers_by_article_best_first(agent):
    found = agent.semantic_search("restore a backup", top_k=2)
    assert found[0]["title"] == "Backups"
    assert len(found) == len({row["title"] for row in found}) == 2
    assert found[0]["similarity"] >= found[1]["similarity"]
    assert "estore" in found[0]["content"]


def test_source_text_filters_by_quality_only_with_a_question(agent):
    everything = agent._fetch_source_text(["Releases"])
    assert "first Tuesday" in everything
    filtered = agent._fetch_source_text(
        ["Releases"], question="what is withdrawn and published again?"
    )
    assert "mark it as withdrawn" in filtered
    assert "first Tuesday" not in filtered


def test_source_text_falls_back_to_whole_articles_only_when_all_was_filtered(agent):
    question = "zebra"
    assert "On call" in agent._fetch_source_text(["On call"], question=question)
    agent._score_section_quality = lambda content, question: 0.0
    whole = agent._fetch_source_text(["On call", "Backups"], question=question)
    assert "fifteen minutes" in whole
    assert "every night" in whole
    agent._score_section_quality = lambda content, q: 1.0 if "fifteen" in content else 0.0
    some = agent._fetch_source_text(["On call", "Backups"], question=question)
    assert "fifteen minutes" in some
    assert "every night" not in some


def test_source_text_knows_titles_with_underscores_and_passes_over_others(agent):
    assert "fifteen" in agent._fetch_source_text(["On_call", "No such article"])
    assert agent._fetch_source_text(["No such article"]) == ""
    assert agent._fetch_source_text(["On call", "Backups"], max_articles=1).count("\n# ") == 0


def test_the_synthesis_context_passes_the_question_on(agent):
    given = {}
    fetch = agent._fetch_source_text
    agent._fetch_source_text = lambda titles, **named: given.update(named) or fetch(titles, **named)
    prompt = agent._build_synthesis_context(
        ON_TOPIC,
        {"sources": ["Backups"], "facts": ["Backups are kept."], "entities": []},
        {"type": "vector_search"},
        [{"question": "What is a tenant?", "answer": "A customer."}],
    )
    assert given == {"question": ON_TOPIC}
    assert prompt.startswith("Here are examples of high-quality answers:")
    assert "about forty minutes" in prompt
    assert "Backups are kept." in prompt
    assert prompt.endswith("Answer:")


def test_the_minimal_answer_is_claudes_own(keyed, server, agent):
    server.will(text("As far as I know, yes."))
    assert keyed()._synthesize_answer_minimal("Is it?") == "As far as I know, yes."
    assert agent._synthesize_answer_minimal("Is it?") == ""


def test_a_closed_agent_says_so(agent):
    agent.close()
    agent.close()
    with pytest.raises(UsageError, match="closed"):
        agent.query(ON_TOPIC)


def test_the_cross_encoder_is_opt_in(agent):
    stages = [s["name"] for s in agent.query(ON_TOPIC)["trace"]["stages"]]
    assert "cross_encoder" not in stages
    agent.enable_cross_encoder = True
    stages = [s["name"] for s in agent.query(ON_TOPIC)["trace"]["stages"]]
    assert "cross_encoder" in stages

"""Searching, packing and asking over HTTP give what the library and the command line give."""

import json
import subprocess
import sys

import pytest

import packwise
from packwise.serving import article_models, models
from packwise.stores.pack.store import PackStore
from serving_world import client_of


def events(response):
    """The events of a stream, as (name, data)."""
    found = []
    for block in response.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields.get("event"), json.loads(fields["data"])))
    return found


def test_search_sends_what_the_command_line_prints(client, notes_pack):
    query = "how do I rotate the signing key"
    command = [sys.executable, "-m", "packwise", "search", str(notes_pack), query, "-k", "3"]
    printed = json.loads(subprocess.check_output([*command, "--json"]))
    answer = client.post("/v1/search", json={"query": query, "k": 3})
    assert answer.status_code == 200
    sent = answer.json()
    models.SearchResponse.model_validate(sent)
    for hit in sent["hits"]:
        assert hit.pop("lang") == "en"
        hit.pop("metadata")
    assert sent["hits"] == printed["hits"]
    assert sent["confidence"] == printed["confidence"]
    assert set(printed) <= set(sent)
    assert "trace" not in sent


def test_the_settings_of_a_search_are_heard(client):
    query = "mirror"
    by_words = client.post("/v1/search", json={"query": query, "mode": "keyword", "k": 2}).json()
    assert len(by_words["hits"]) == 2
    assert all(hit["scores"]["vector"] is None for hit in by_words["hits"])
    ranked = client.post("/v1/search", json={"query": query, "fusion": "rrf", "trace": True}).json()
    assert all(hit["scores"]["rrf"] for hit in ranked["hits"])
    assert {s["name"] for s in ranked["trace"]["stages"]} >= {"embed", "vector", "fusion"}
    only = client.post(
        "/v1/search", json={"query": "backup", "where": {"path": "operations/"}, "graph": "off"}
    ).json()
    assert {hit["document"].split("/")[0] for hit in only["hits"]} == {"operations"}
    team = client.post("/v1/search", json={"query": "key", "where": {"team": "security"}}).json()
    assert {hit["document"] for hit in team["hits"]} == {"guides/keys.md"}


def test_a_trace_tells_where_each_candidate_stood_after_each_stage(client):
    sent = client.post("/v1/search", json={"query": "restore a nightly backup", "k": 5}).json()
    record = client.get(f"/v1/trace/{sent['trace_id']}").json()
    models.TraceResponse.model_validate(record)
    assert record["kind"] == "search"
    moves = record["trace"]["candidates"]
    assert [move["id"] for move in moves] == [hit["id"] for hit in sent["hits"]]
    assert [move["ranks"]["final"] for move in moves] == [1, 2, 3, 4, 5]
    by_vector = sorted(moves, key=lambda move: -move["scores"]["vector"])
    assert [move["ranks"]["vector"] for move in by_vector] == [1, 2, 3, 4, 5]


def test_a_context_keeps_to_its_budget_and_says_why_each_passage_is_out(client, notes_pack):
    question = "how do I rotate the signing key?"
    sent = client.post("/v1/context", json={"question": question, "budget": 120}).json()
    models.ContextResponse.model_validate(sent)
    assert 0 < sent["tokens"] <= 120
    assert all(entry["reason"] for entry in sent["trace"]["dropped"])
    with packwise.open(str(notes_pack)) as library:
        assert sent["text"] == library.context(question, 120).text
    record = client.get(f"/v1/trace/{sent['trace_id']}").json()
    models.TraceResponse.model_validate(record)
    assert record["trace"]["packing"] == sent["trace"]


def test_an_answer_carries_sources_confidence_and_its_way(client, notes_pack):
    question = "When is the database backed up?"
    sent = client.post("/v1/ask", json={"question": question, "extractive": True}).json()
    models.AskResponse.model_validate(sent)
    assert "two o'clock" in sent["answer"]
    assert sent["sources"] == ["Backups"]
    assert sent["answered_by"] == "extractive"
    with packwise.open(str(notes_pack)) as library:
        expected = library.ask(question).as_dict()
    for name in ("answer", "sources", "entities", "facts", "confidence", "citations"):
        assert sent[name] == expected[name]
    assert sent["trace"]["candidates"][0]["title"] == "Backups"
    record = client.get(f"/v1/trace/{sent['trace_id']}").json()
    models.TraceResponse.model_validate(record)
    assert record["trace"] == sent["trace"]


def test_a_stream_ends_with_the_whole_answer(client):
    question = {"question": "When is the database backed up?", "extractive": True}
    whole = client.post("/v1/ask", json=question).json()
    stream = client.post("/v1/ask", json={**question, "stream": True})
    assert stream.headers["content-type"].startswith("text/event-stream")
    *pieces, (last, answer) = events(stream)
    assert last == "answer"
    assert {name for name, _ in pieces} == {"piece"}
    assert "".join(data["text"] for _, data in pieces) == answer["answer"] == whole["answer"]
    assert answer["citations"] == whole["citations"]
    models.AskResponse.model_validate(answer)


def test_a_follow_up_says_first_how_it_was_understood(client):
    asked = {"question": "and a backup?", "earlier": ["What is a mirror?"], "extractive": True}
    first, *pieces, (_, answer) = events(client.post("/v1/ask", json={**asked, "stream": True}))
    assert first == ("question", {"text": "What is a backup?"})
    assert {name for name, _ in pieces} == {"piece"}
    assert answer["question"] == "What is a backup?"
    assert client.post("/v1/ask", json=asked).json()["question"] == "What is a backup?"


def test_a_question_the_store_holds_nothing_on_is_gated(client):
    asked = {"question": "Who won the chess championship in 1972?", "threshold": 0.9}
    sent = client.post("/v1/ask", json=asked).json()
    models.AskResponse.model_validate(sent)
    assert sent["query_type"] == "confidence_gated_fallback"
    assert sent["sources"] == sent["citations"] == sent["entities"] == sent["facts"] == []
    assert sent["trace"]["packing"] is None
    lenient = client.post("/v1/ask", json={**asked, "threshold": 0.0}).json()
    assert lenient["query_type"] == "vector_search"


def test_an_error_in_a_stream_is_its_last_event(client, monkeypatch):
    from packwise.errors import StoreError

    library = next(iter(client.app.state.serving.stores)).library

    def broken(*_, **__):
        yield "It is"
        raise StoreError("the disk at /srv/data/packs/my-pack is gone")

    monkeypatch.setattr(type(library), "ask_stream", lambda *a, **k: broken())
    response = client.post("/v1/ask", json={"question": "What is a mirror?", "stream": True})
    first, last = events(response)
    assert first == ("piece", {"text": "It is"})
    assert last[0] == "error"
    assert last[1]["error"]["code"] == "store_unavailable"
    assert "/srv" not in response.text


@pytest.mark.parametrize(
    ("route", "body", "word"),
    [
        ("/v1/search", {}, "query"),
        ("/v1/search", {"query": ""}, "query"),
        ("/v1/search", {"query": "   "}, "query"),
        ("/v1/search", {"query": "x", "k": 0}, "k"),
        ("/v1/search", {"query": "x", "k": 101}, "k"),
        ("/v1/search", {"query": "x", "k": "3"}, "k"),
        ("/v1/search", {"query": "x", "mode": "psychic"}, "mode"),
        ("/v1/search", {"query": "x", "kk": 3}, "kk"),
        ("/v1/search", {"query": 7}, "query"),
        ("/v1/context", {"question": "x", "budget": -1}, "budget"),
        ("/v1/ask", {"question": "x", "threshold": 2}, "threshold"),
        ("/v1/ask", {"question": "x", "where": {"lang": ["a", "b"]}}, "lang"),
        ("/v1/ask", [1, 2], ""),
    ],
)
def test_what_is_wrong_with_a_body_is_told_by_name(client, route, body, word):
    answer = client.post(route, json=body)
    assert answer.status_code == 400
    error = models.ErrorResponse.model_validate(answer.json()).error
    assert error.code == "bad_request"
    assert word in error.message


def test_a_body_that_is_not_json_is_refused(client):
    for data in (b"{", b"", b"\xff\xfe", b'{"query": NaN}', b"[" * 100_000):
        answer = client.post(
            "/v1/search", content=data, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 400
    plain = client.post(
        "/v1/search", content=b'{"query": "x"}', headers={"Content-Type": "text/plain"}
    )
    assert plain.status_code == 415


def test_several_stores_are_asked_by_name(notes_pack, tenants_pack):
    from serving_world import client_of

    with client_of(notes_pack, f"firms={tenants_pack}") as both:
        listed = both.get("/v1/stores").json()
        article_models.StoreList.model_validate(listed)
        assert [store["name"] for store in listed["stores"]] == ["my-pack", "firms"]
        asked = {"query": "the launch in March", "k": 1}
        assert both.post("/v1/search", json=asked).json()["store"] == "my-pack"
        found = both.post("/v1/search", json={**asked, "store": "firms"}).json()
        assert found["hits"][0]["title"] == "The Zorblatt plan"
        missing = both.post("/v1/search", json={**asked, "store": "nowhere"})
        assert missing.status_code == 404
        assert missing.json()["error"]["code"] == "no_such_store"


def test_a_stream_that_cannot_begin_says_so_at_once(client):
    body = {"question": "\x15", "stream": True}
    (told,) = events(client.post("/v1/ask", json=body))
    assert told[0] == "error"
    assert told[1]["error"]["code"] == "bad_request"


@pytest.mark.parametrize(
    ("route", "field"),
    [("/v1/search", "query"), ("/v1/context", "question"), ("/v1/ask", "question")],
)
def test_a_served_question_does_not_describe_the_whole_store(notes_pack, monkeypatch, route, field):
    """That takes passes over whole tables, and costs more than a search in a large pack."""
    described = []
    info = PackStore.info
    monkeypatch.setattr(PackStore, "info", lambda self: described.append(self) or info(self))
    with client_of(notes_pack) as client:
        client.post(route, json={field: "How do mirrors reflect light?"})
        described.clear()
        answer = client.post(route, json={field: "What is a mirror made of?"})
    assert answer.status_code == 200
    assert not described

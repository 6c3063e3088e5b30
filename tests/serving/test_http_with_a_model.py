"""With a language model behind it: pieces as they are written, and what happens when it fails."""

import json

import pytest

from messages_api import KEY, ModelServer, broken_stream, status, text
from serving_world import client_of

QUESTION = "How long does a restore take?"


@pytest.fixture(scope="module")
def model():
    with ModelServer() as server:
        yield server


@pytest.fixture
def written(model, notes_pack, monkeypatch):
    """A client of a server whose answers a model writes."""
    model.requests.clear()
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
    with client_of(notes_pack) as client:
        yield client


def events(response):
    return [
        (block.split("\n")[0].removeprefix("event: "), json.loads(block.split("data: ", 1)[1]))
        for block in response.text.strip().split("\n\n")
        if not block.startswith(":")  # a slow machine is waited for
    ]


def test_the_answer_streams_as_it_is_written(written, model):
    model.will(text("About forty minutes [1].", pieces=4))
    *pieces, (last, answer) = events(
        written.post("/v1/ask", json={"question": QUESTION, "stream": True})
    )
    assert len(pieces) > 2
    assert "".join(data["text"] for _, data in pieces) == "About forty minutes [1]."
    assert last == "answer"
    assert answer["sources"] == ["Backups"]
    assert answer["token_usage"]["output_tokens"] == 7
    assert KEY not in written.log.getvalue()


def test_a_chat_reports_the_tokens_the_model_counted(written, model):
    model.will(text("About forty minutes [1].", given=210, made=9))
    asked = {"model": "my-pack", "messages": [{"role": "user", "content": QUESTION}]}
    done = written.post("/v1/chat/completions", json={**asked, "max_tokens": 50}).json()
    assert done["choices"][0]["message"]["content"].startswith("About forty minutes [1].")
    assert done["usage"] == {"prompt_tokens": 210, "completion_tokens": 9, "total_tokens": 219}
    assert model.requests[-1].body["max_tokens"] == 50


def test_a_stream_that_breaks_off_is_replaced_by_an_answer_that_counts(written, model):
    model.will(broken_stream("The answer is"))
    *pieces, (last, answer) = events(
        written.post("/v1/ask", json={"question": QUESTION, "stream": True})
    )
    assert "".join(data["text"] for _, data in pieces) != answer["answer"]
    assert last == "answer"
    assert "forty minutes" in answer["answer"]
    assert answer["answered_by"] == "extractive"
    assert answer["degraded"]
    asked = {"model": "my-pack", "messages": [{"role": "user", "content": QUESTION}]}
    model.will(broken_stream("The answer is"))
    chat = written.post("/v1/chat/completions", json={**asked, "stream": True}).text
    assert "this one replaces it" in chat
    assert "forty minutes" in chat


def test_a_model_that_fails_is_no_failure_of_the_server(written, model):
    model.will(status(401, "invalid x-api-key: sk-ant-secret"))
    sent = written.post("/v1/ask", json={"question": QUESTION})
    assert sent.status_code == 200
    assert sent.json()["answered_by"] == "extractive"
    assert sent.json()["degraded"]
    assert KEY not in sent.text


def test_extractive_asks_no_model(written, model):
    written.post("/v1/ask", json={"question": QUESTION, "extractive": True})
    assert model.requests == []

"""Wherever a confidence is sent, so is what it is held against, and the chance behind it."""

import asyncio
import os
import sys

import pytest
from mcp import Client, StdioServerParameters

from packwise.serving import article_models, models
from serving_world import client_of, copy_calibrated

QUESTION = "how do I rotate the signing key?"


@pytest.fixture(scope="module")
def unsure(notes_pack, tmp_path_factory):
    """A pack whose calibration says 0.40 of every question: between its two thresholds."""
    target = tmp_path_factory.mktemp("calibrated") / "unsure"
    return copy_calibrated(notes_pack, target, says=0.4, threshold=0.7, refuse_below=0.2)


@pytest.fixture(scope="module")
def calibrated(unsure):
    with client_of(unsure) as found:
        yield found


def sent_by(client, store):
    """The record of every route that sends a confidence."""
    yield "search", client.post("/v1/search", json={"query": QUESTION}).json()
    yield "context", client.post("/v1/context", json={"question": QUESTION}).json()
    asked = client.post("/v1/ask", json={"question": QUESTION}).json()
    yield "ask", asked
    yield "trace", client.get(f"/v1/trace/{asked['trace_id']}").json()
    chat = {"model": store, "messages": [{"role": "user", "content": QUESTION}]}
    yield "chat", client.post("/v1/chat/completions", json=chat).json()["packwise"]


def test_without_a_calibration_the_confidence_is_closeness_and_the_chance_stands_beside_it(client):
    for route, sent in sent_by(client, "my-pack"):
        gate = models.GateRecord.model_validate(sent["gate"])
        assert not gate.calibrated, route
        assert gate.threshold == 0.5
        assert gate.refuse_below is None
        assert gate.passed
        assert 0 < sent["probability"] < 1
        assert sent["probability"] != sent["confidence"]


def test_with_one_the_confidence_is_the_chance_and_both_thresholds_are_told(calibrated):
    for route, sent in sent_by(calibrated, "unsure"):
        assert sent["confidence"] == pytest.approx(0.4), route
        # A refused question has no answer that could be right.
        refused = "certainty" in sent
        assert sent["probability"] == pytest.approx(0.0 if refused else 0.4), route
        assert sent["gate"] == {
            "calibrated": True,
            "threshold": 0.7,
            "refuse_below": 0.2,
            "passed": False,
        }


def test_a_threshold_that_was_asked_for_is_the_one_that_is_told(calibrated):
    asked = {"question": QUESTION, "threshold": 0.3}
    sent = calibrated.post("/v1/ask", json=asked).json()
    assert sent["gate"]["threshold"] == 0.3
    assert sent["gate"]["passed"]
    assert sent["query_type"] == "vector_search"


def test_one_leg_alone_has_no_chance_and_is_held_against_the_setting(calibrated):
    body = {"query": "signing key", "mode": "keyword"}
    sent = calibrated.post("/v1/search", json=body).json()
    assert sent["probability"] is None
    assert sent["gate"]["threshold"] == 0.5
    assert not sent["gate"]["calibrated"]


def test_a_search_tells_what_its_probability_was_read_off(client):
    body = {"query": QUESTION, "trace": True}
    for _ in range(2):  # The second time it comes from memory.
        signs = client.post("/v1/search", json=body).json()["trace"]["signs"]
        assert 0 < signs["similarity"] <= 1
        assert signs["names_missing"] >= 0


def test_stores_tell_the_threshold_that_counts(client, calibrated):
    (plain,) = client.get("/v1/stores").json()["stores"]
    (own,) = calibrated.get("/v1/stores").json()["stores"]
    for store in (plain, own):
        article_models.StoreRecord.model_validate(store)
    assert (plain["calibrated"], plain["defaults"]["threshold"]) == (False, 0.5)
    assert (own["calibrated"], own["defaults"]["threshold"]) == (True, 0.7)


def test_a_refusal_shows_the_closest_passage_or_says_that_there_is_none(client, calibrated):
    off = {"question": "Who won the chess championship in 1972?", "threshold": 0.9}
    for sent in (
        client.post("/v1/ask", json=off).json(),
        calibrated.post("/v1/ask", json={"question": QUESTION}).json(),
    ):
        assert sent["certainty"] == "not covered"
        assert "do not cover the question. Here is the closest passage" in sent["answer"]
    nowhere = {"question": QUESTION, "where": {"document": "none.md"}, "threshold": 0}
    told = client.post("/v1/ask", json=nowhere).json()["answer"]
    assert told == "These documents do not cover the question: nothing was found in them."


def test_the_tools_of_an_agent_tell_it_too(unsure):
    async def scene():
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "packwise", "mcp", str(unsure)],
            # Else the SDK hands on a few variables only, and not those the tests set.
            env=dict(os.environ),
        )
        async with Client(command) as client:
            return [
                (await client.call_tool(name, arguments)).structured_content
                for name, arguments in (
                    ("search_knowledge", {"query": QUESTION}),
                    ("get_context", {"question": QUESTION}),
                    ("ask", {"question": QUESTION}),
                )
            ]

    told = asyncio.run(scene())
    assert (told[2]["certainty"], told[2]["probability"]) == ("not covered", 0.0)
    for one in told:
        assert one["confidence"] == pytest.approx(0.4)
        assert one["covered"] is False

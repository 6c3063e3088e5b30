"""A chat client of the OpenAI protocol works as it is: here OpenAI's own."""

import json

import httpx2
import openai
import pytest

from packwise.serving import openai_models as models
from packwise.serving.conversation import question_of
from packwise.serving.openai_models import ChatMessage
from serving_world import RunningServer


@pytest.fixture(scope="module")
def chat(notes_pack):
    with (
        RunningServer(str(notes_pack)) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def said(text):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


def test_a_completion_is_the_answer_with_its_sources(chat):
    done = chat.chat.completions.create(
        model="my-pack", messages=said("When is the database backed up?"), temperature=0.2
    )
    (choice,) = done.choices
    assert choice.finish_reason == "stop"
    assert "two o'clock" in choice.message.content
    assert "Sources:\n[1] Backups" in choice.message.content
    assert done.model == "my-pack"
    assert done.usage.prompt_tokens > 0
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    extra = done.model_extra["packwise"]
    assert extra["sources"] == ["Backups"]
    assert 0 < extra["confidence"] <= 1


def test_a_stream_says_the_same_piece_by_piece(chat):
    question = said("When is the database backed up?")
    whole = chat.chat.completions.create(model="my-pack", messages=question)
    chunks = list(
        chat.chat.completions.create(
            model="my-pack", messages=question, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage == whole.usage
    assert len({c.id for c in chunks}) == 1


def test_content_in_parts_is_read(chat):
    parts = [
        {"type": "text", "text": "When is the database"},
        {"type": "text", "text": "backed up?"},
    ]
    done = chat.chat.completions.create(
        model="my-pack", messages=[{"role": "user", "content": parts}]
    )
    assert "two o'clock" in done.choices[0].message.content


def test_the_models_are_the_stores(chat):
    assert [model.id for model in chat.models.list()] == ["my-pack"]


def test_mistakes_come_back_as_the_clients_own_errors(chat):
    with pytest.raises(openai.NotFoundError):
        chat.chat.completions.create(model="gpt-4o", messages=said("hello"))
    with pytest.raises(openai.BadRequestError) as told:
        chat.chat.completions.create(model="my-pack", messages=said("x" * 9000))
    assert told.value.code == "question_too_long"
    with pytest.raises(openai.BadRequestError):
        chat.chat.completions.create(
            model="my-pack", messages=[{"role": "assistant", "content": "hi"}]
        )
    with pytest.raises(openai.BadRequestError):
        chat.chat.completions.create(model="my-pack", messages=said("x"), n=2)


def test_the_wire_is_the_protocol(client):
    asked = {"model": "my-pack", "messages": said("What is a mirror?")}
    whole = client.post("/v1/chat/completions", json=asked)
    models.ChatResponse.model_validate(whole.json())
    assert whole.json()["object"] == "chat.completion"
    stream = client.post("/v1/chat/completions", json={**asked, "stream": True})
    lines = [line for line in stream.text.split("\n") if line]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    error = client.post("/v1/chat/completions", json={"model": "my-pack"}).json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(client, httpx2.Client)


@pytest.mark.parametrize(
    ("turns", "question"),
    [
        (["Who is on call?"], "Who is on call?"),
        (
            ["How do I rotate the signing key?", "and how long does that take?"],
            "How do I rotate the signing key? and how long does that take?",
        ),
        (
            ["How do I rotate the signing key?", "When is a release cut?"],
            "When is a release cut?",
        ),
        (
            ["What is a backup?", "Why do they keep it?"],
            "What is a backup? Why do they keep it?",
        ),
    ],
)
def test_a_question_that_leans_on_the_last_one_takes_it_along(turns, question):
    messages = []
    for turn in turns:
        messages += [ChatMessage(role="user", content=turn), ChatMessage(role="assistant")]
    assert question_of(messages) == question

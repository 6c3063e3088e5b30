"""OpenAI's own client uses models, embeddings and responses as it is."""

import base64

import numpy as np
import openai
import pytest
from pydantic import TypeAdapter

from packwise.library import open_library
from packwise.serving import openai_models
from serving_world import RunningServer

QUESTION = "When is the database backed up?"


@pytest.fixture(scope="module")
def api(notes_pack):
    with (
        RunningServer(str(notes_pack)) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def test_a_model_is_found_by_its_id(api):
    (listed,) = api.models.list()
    assert api.models.retrieve("my-pack") == listed
    assert listed.created > 1_700_000_000
    with pytest.raises(openai.NotFoundError) as told:
        api.models.retrieve("gpt-4o")
    assert told.value.code == "no_such_store"


def test_embeddings_are_those_of_the_store(api, notes_pack):
    texts = ["Rotate the signing key.", "Backups run at night."]
    with open_library(str(notes_pack)) as library:
        own = library.embedder.embed_passages(texts)
        asked = library.embedder.embed_query(texts[0])
    found = api.embeddings.create(model="my-pack", input=texts)
    assert np.allclose([row.embedding for row in found.data], own, atol=1e-6)
    assert found.usage.prompt_tokens == found.usage.total_tokens > 8
    plain = api.embeddings.create(model="my-pack", input=texts[0], encoding_format="float")
    assert np.allclose(plain.data[0].embedding, own[0], atol=1e-6)
    query = api.embeddings.create(
        model="my-pack", input=texts[0], extra_body={"input_type": "query"}, dimensions=384
    )
    assert np.allclose(query.data[0].embedding, asked, atol=1e-6)
    assert not np.allclose(asked, own[0], atol=1e-3)


def test_embeddings_in_base64_are_little_endian_floats(client):
    body = {"model": "my-pack", "input": "a", "encoding_format": "base64"}
    (row,) = client.post("/v1/embeddings", json=body).json()["data"]
    plain = client.post("/v1/embeddings", json={**body, "encoding_format": "float"}).json()
    decoded = np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4")
    assert np.allclose(decoded, plain["data"][0]["embedding"], atol=1e-6)


@pytest.mark.parametrize(
    "body", [{"input": []}, {"input": [1, 2]}, {"input": ""}, {"input": "a", "dimensions": 3}]
)
def test_what_cannot_be_embedded_is_the_clients_error(api, body):
    with pytest.raises(openai.BadRequestError):
        api.embeddings.create(model="my-pack", **body)


def test_a_response_is_the_answer_with_its_citations(api):
    done = api.responses.create(model="my-pack", input=QUESTION, instructions="Be brief.")
    assert "two o'clock" in done.output_text
    assert "Sources:\n[1] Backups" in done.output_text
    assert (done.status, done.model) == ("completed", "my-pack")
    part = done.output[0].content[0]
    note = part.annotations[0]
    assert (note.type, note.filename) == ("file_citation", "Backups")
    assert part.text[note.index :].startswith("[1]")
    assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens > 0
    assert done.model_extra["packwise"]["sources"] == ["Backups"]


def test_a_streamed_response_says_the_same(api):
    whole = api.responses.create(model="my-pack", input=QUESTION)
    with api.responses.stream(model="my-pack", input=QUESTION) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == (
        whole.output_text
    )
    assert final.output_text == whole.output_text
    assert final.output[0].content[0].annotations == whole.output[0].content[0].annotations
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_the_messages_of_a_conversation_are_read(api):
    done = api.responses.create(
        model="my-pack",
        input=[
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": [{"type": "output_text", "text": "At two."}]},
            {"type": "reasoning", "summary": []},
            {"role": "user", "content": [{"type": "input_text", "text": "and who is told?"}]},
        ],
    )
    assert done.model_extra["packwise"]["sources"] == ["Backups"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
        ({"input": "x" * 9000}, "input"),
    ],
)
def test_mistakes_name_their_field(api, body, param):
    with pytest.raises(openai.BadRequestError) as told:
        api.responses.create(model="my-pack", **body)
    assert told.value.param == param


def test_the_wire_is_as_documented(client):
    for path, body, shape in (
        ("/v1/responses", {"input": QUESTION}, openai_models.ResponsesResponse),
        ("/v1/embeddings", {"input": ["a", "b"]}, openai_models.EmbeddingsResponse),
    ):
        answer = client.post(path, json={"model": "my-pack", **body})
        TypeAdapter(shape).validate_python(answer.json())
    TypeAdapter(openai_models.ModelList).validate_python(client.get("/v1/models").json())

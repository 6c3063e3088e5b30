"""Embeddings from a server with the OpenAI protocol: what is sent, what is believed, what fails."""

import json
import threading

import numpy as np
import pytest

from embeddings_api import EmbeddingServer, answer, hang_up, silence, status
from packwise.errors import CallFailed, EmbedderMismatch, ModelMissing, SettingError
from packwise.library import open_library
from packwise.models import embedding_server
from packwise.models.embedder import load_embedder, load_recorded_embedder
from packwise.models.embedding_server import SENTENCE, ServerEmbedder
from packwise.models.naming import parse_embedder_name
from packwise.packs.build import build_pack
from packwise.settings import Settings
from tests_world import write_notes

SETTINGS = Settings.load(env={}, threads=1)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """No server is known from before, no key is set, and waiting takes no time."""
    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(embedding_server, "_connected", {})
    monkeypatch.setattr("time.sleep", lambda seconds: pauses.append(seconds))
    for variable in ("PACKWISE_EMBEDDER_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    pauses: list[float] = []
    return pauses


@pytest.fixture
def server():
    with EmbeddingServer() as running:
        yield running


def connected(server, timeout=30.0, retries=4, options=""):
    named = parse_embedder_name(server.name + options)
    return ServerEmbedder(named, "tiny:latest", server.url, timeout=timeout, retries=retries)


def unit(vector):
    return np.array(vector) / np.linalg.norm(vector)


def test_vectors_come_in_the_order_of_the_texts_and_have_length_one(server):
    embedder = load_embedder(server.name, SETTINGS)
    texts = ["tea", "key", "the old key"]
    expected = [unit(server.vector(text)) for text in texts]
    np.testing.assert_allclose(embedder.embed_passages(texts), expected, atol=1e-6)
    np.testing.assert_allclose(embedder.embed_query("tea"), expected[0], atol=1e-6)
    assert (embedder.name, embedder.dim, embedder.window) == (server.name, 8, 512)


def test_many_texts_go_in_batches_and_progress_counts_them_all(server):
    embedder = load_embedder(server.name, SETTINGS)
    steps: list[int] = []
    vectors = embedder.embed_passages([f"key {n}" for n in range(70)], steps.append)
    assert vectors.shape == (70, 8)
    assert sorted(len(texts) for texts in server.asked) == [1, 6, 32, 32]
    assert sum(steps) == 70
    np.testing.assert_allclose(vectors[69], unit(server.vector("key 69")), atol=1e-6)
    assert embedder.embed_passages([]).shape == (0, 8)


def test_a_server_that_takes_fewer_texts_gets_smaller_batches():
    with EmbeddingServer(most=5) as server:
        vectors = load_embedder(server.name, SETTINGS).embed_passages(["key"] * 32)
        assert vectors.shape == (32, 8)
        assert {len(texts) for texts in server.asked} >= {32, 16, 4}


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503])
def test_a_busy_server_is_asked_again_after_growing_pauses(server, fresh, code):
    server.will(status(code), status(code), None)
    assert load_embedder(server.name, SETTINGS).dim == 8
    assert len(server.asked) == 3
    assert fresh == [0.5, 1.0]


def test_the_pause_a_server_asks_for_is_kept(server, fresh):
    server.will(status(429, retry_after="3"), None)
    load_embedder(server.name, SETTINGS)
    assert fresh == [3.0]


def test_a_server_that_stays_busy_is_given_up(server):
    server.will(*[status(503, "overloaded")] * 9)
    with pytest.raises(CallFailed, match=r"tiny:latest at 127.0.0.1: .* 503 \(overloaded\)"):
        load_embedder(server.name, SETTINGS)
    assert len(server.asked) == 5


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (status(401, "bad key"), "answered 401 (bad key) -> check PACKWISE_EMBEDDER_KEY"),
        (status(404, "no such model"), "answered 404 (no such model) -> check the model's name"),
        (status(400, "too long"), "answered 400 (too long)"),
        (status(302, Location="http://127.0.0.1:9/"), "answered 302"),
        (answer(b"<html>hello</html>"), "does not contain one vector per text"),
        (answer({"data": []}), "does not contain one vector per text"),
        (answer({"data": None}), "does not contain one vector per text"),
        (answer([1]), "does not contain one vector per text"),
        (answer({"data": [{"index": 7, "embedding": [1.0]}]}), "one vector per text"),
        (answer({"data": [{"index": 0, "embedding": "AAAA"}]}), "one vector per text"),
        (answer({"data": [{"index": 0, "embedding": []}]}), "have 0 dimensions"),
        (answer({"data": [{"index": 0, "embedding": [0.0, 0.0]}]}), "a vector is zero"),
        (answer(b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}'), "not finite"),
        (answer({"data": [{"index": 0, "embedding": [10**400]}]}), "one vector per text"),
        (answer({"data": [{"index": 0, "embedding": [1] * 70_000}]}), "more than 65536 dim"),
    ],
)
def test_a_wrong_answer_is_one_line_and_is_not_repeated(server, reply, line):
    server.will(reply)
    with pytest.raises(CallFailed) as caught:
        load_embedder(server.name, SETTINGS)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.asked) == 1


def test_a_connection_that_breaks_is_tried_again(server):
    server.will(hang_up, None)
    assert load_embedder(server.name, SETTINGS).dim == 8


def test_a_silent_server_is_given_up(server):
    over = threading.Event()
    server.will(silence(over))
    with pytest.raises(CallFailed, match="no answer in time"):
        connected(server, timeout=0.2, retries=0)
    over.set()


def test_a_server_that_is_not_there_is_one_line():
    with pytest.raises(CallFailed, match=r"cannot be reached -> check that http://127.0.0.1:9/v1"):
        load_embedder("openai:tiny@http://127.0.0.1:9/v1", SETTINGS)


def test_vectors_of_another_length_later_on_are_refused(server):
    embedder = load_embedder(server.name, SETTINGS)
    server.will(answer({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}))
    with pytest.raises(CallFailed, match="have 2 dimensions, not 8"):
        embedder.embed_query("tea")


def test_the_key_goes_into_the_header_and_into_no_message(server, monkeypatch):
    monkeypatch.setenv("PACKWISE_EMBEDDER_KEY", "sk-secret")
    embedder = load_embedder(server.name, SETTINGS)
    assert server.headers[0]["authorization"] == "Bearer sk-secret"
    server.will(status(401, "the key sk-secret is wrong"))
    with pytest.raises(CallFailed) as caught:
        embedder.embed_query("tea")
    assert "sk-secret" not in str(caught.value) + repr(embedder)
    assert "[key]" in str(caught.value)


def test_without_a_key_none_is_sent_and_openais_own_goes_nowhere_else(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    load_embedder(server.name, SETTINGS)
    assert "authorization" not in server.headers[0]


def test_a_password_in_the_address_is_refused():
    with pytest.raises(SettingError, match="contains a password"):
        load_embedder("openai:tiny@http://me:secret@127.0.0.1:9/v1", SETTINGS)


def test_prefixes_are_those_of_the_family_unless_stated(server):
    embedder = connected(server, options="?query_prefix=ask:%20&passage_prefix=")
    embedder.embed_query("tea")
    embedder.embed_passages(["pot"])
    assert server.asked[1:] == [["ask: tea"], ["pot"]]
    nomic = parse_embedder_name(f"openai:nomic-embed-text@{server.url}")
    server.will(answer({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}))
    embedder = ServerEmbedder(nomic, "nomic-embed-text", server.url)
    server.will(answer({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}))
    embedder.embed_query("tea")
    assert server.asked[-1] == ["search_query: tea"]


def test_a_long_text_is_cut_to_the_window_and_an_empty_one_is_a_space(server):
    embedder = connected(server, options="?window=10")
    embedder.embed_passages(["key " * 1000, ""])
    assert server.asked[-1] == [" ".join(["key"] * 10), " "]


@pytest.mark.parametrize("text", ["two words", "Donaudampfschifffahrt", "漢字かな", "x = 12345;"])
def test_estimated_tokens_cover_the_text_in_order(server, text):
    spans = load_embedder(server.name, SETTINGS).token_spans(text)
    assert "".join(text[a:b] for a, b in spans) == text.replace(" ", "")
    assert len(spans) >= 2


def test_a_server_says_nothing_about_its_scale(server):
    assert load_embedder(server.name, SETTINGS).similarity(0.9) is None


def test_the_identity_is_the_answer_to_one_sentence(server):
    version = load_embedder(server.name, SETTINGS).version
    assert server.asked == [[SENTENCE]]
    assert version.startswith("tiny:latest+")
    server.seed = 1
    embedding_server._connected.clear()
    assert load_embedder(server.name, SETTINGS).version != version


def test_other_last_digits_are_the_same_model(tmp_path):
    with EmbeddingServer(dim=64, noise=1e-3) as server:
        versions = {connected(server).version for _ in range(20)}
    assert len(versions) == 1


def test_another_use_of_the_same_model_is_another_version(server):
    versions = {connected(server, options=o).version for o in ("", "?window=64", "?query_prefix=a")}
    assert len(versions) == 3
    assert connected(server, options="?dim=4").dim == 4


def test_a_pack_is_built_and_searched_through_a_server(server, tmp_path):
    pack = tmp_path / "pack"
    build_pack([write_notes(tmp_path / "notes")], pack, settings=SETTINGS, embedder=server.name)
    with open_library(pack, settings=SETTINGS) as library:
        assert library.info().embedder == server.name
        assert (
            library.search("rotate the signing key", 1).hits[0].passage.document.endswith("keys.md")
        )
    server.seed = 1
    embedding_server._connected.clear()
    with open_library(pack, settings=SETTINGS) as library, pytest.raises(EmbedderMismatch):
        library.search("rotate the signing key")


def test_a_server_that_a_foreign_pack_names_is_not_asked(server, tmp_path, monkeypatch):
    pack = tmp_path / "pack"
    build_pack([write_notes(tmp_path / "notes")], pack, settings=SETTINGS, embedder=server.name)
    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path / "another machine"))
    embedding_server._connected.clear()
    server.asked.clear()
    with open_library(pack, settings=SETTINGS) as library, pytest.raises(ModelMissing) as caught:
        library.search("rotate the signing key")
    assert server.asked == []
    assert f"if questions may be sent there: PACKWISE_EMBEDDER='{server.name}'" in str(caught.value)
    named = Settings.load(env={"PACKWISE_EMBEDDER": server.name})
    with open_library(pack, settings=named) as library:
        assert library.search("rotate the signing key").hits
    with open_library(pack, settings=SETTINGS) as library:
        assert library.search("rotate the signing key").hits


def test_a_damaged_list_of_servers_names_none(server, tmp_path):
    load_embedder(server.name, SETTINGS)
    kept = tmp_path / "home" / "embedding-servers.json"
    assert list(json.loads(kept.read_text())) == [server.name]
    kept.write_text("{")
    with pytest.raises(ModelMissing):
        load_recorded_embedder(server.name, SETTINGS, "my-pack")

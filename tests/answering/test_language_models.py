"""Claude and OpenAI-compatible servers, asked through the real clients."""

import logging

import pytest

from messages_api import (
    CHAT,
    KEY,
    MESSAGES,
    broken_stream,
    hang_up,
    raw,
    silence,
    status,
    text,
    truncated,
)
from packwise.errors import CallFailed, ModelError, SettingError
from packwise.models.claude import ClaudeModel, connect_claude
from packwise.models.llm import LIGHT_MODEL, SYNTHESIS_MODEL, Usage, load_llm
from packwise.models.openai_compatible import OpenAICompatibleModel
from ports import free_port
from tests_world import PATIENCE, wait_until


def ask(model, **options):
    return model.complete("What?", max_tokens=50, **{"timeout": PATIENCE, **options})


def drained(stream):
    pieces = []
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return pieces, end.value


def test_an_answer_comes_with_its_tokens(model, server):
    server.will(text("Paris.", given=120, made=4))
    answer = ask(model, system="Be brief.")
    assert (answer.text, answer.cut) == ("Paris.", False)
    assert answer.usage == Usage(120, 4, 1)
    (request,) = server.requests
    assert request.prompt == "What?"
    assert request.system == "Be brief."
    assert request.body["max_tokens"] == 50


def test_claude_is_asked_at_its_own_path_with_the_model_and_no_temperature(claude, server):
    ask(claude)
    (request,) = server.requests
    assert request.path == MESSAGES
    # Releases of the SDK differ in the header they put the key into.
    assert KEY in (request.headers.get("x-api-key", "") + request.headers.get("authorization", ""))
    assert request.body["model"] == SYNTHESIS_MODEL == "claude-opus-4-6"
    assert request.body.keys() == {"model", "max_tokens", "messages"}


def test_an_openai_compatible_server_gets_the_key_as_bearer(server):
    ask(OpenAICompatibleModel(server.url + "/v1/", "local-model", KEY))
    ask(OpenAICompatibleModel(server.url, "local-model"))
    with_key, without = server.requests
    assert with_key.path == without.path == CHAT
    assert with_key.headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in without.headers


def test_small_tasks_go_to_haiku_over_the_same_client(claude):
    assert claude.light.name == LIGHT_MODEL == "claude-haiku-4-5-20251001"
    assert claude.light.client is claude.client


def test_small_tasks_stay_with_the_one_model_of_another_server():
    model = OpenAICompatibleModel("http://localhost:1", "local-model")
    assert model.light is model


def test_a_patched_client_is_what_gets_called(claude, monkeypatch):
    class Block:
        text = "patched"

    class Reply:
        content = [Block()]  # noqa: RUF012

    monkeypatch.setattr(claude.client.messages, "create", lambda **_: Reply())
    assert ask(claude).text == ask(claude.light).text == "patched"


def test_a_stream_yields_pieces_and_returns_the_whole(model, server):
    server.will(text("One two three four.", given=9, made=5, pieces=4))
    pieces, whole = drained(model.stream("What?", max_tokens=50))
    assert len(pieces) == 4
    assert "".join(pieces) == whole.text == "One two three four."
    assert whole.usage == Usage(9, 5, 1)


def test_a_stream_left_early_closes_its_connection(model, server):
    server.will(text("word " * 50, pieces=50))
    stream = model.stream("What?", max_tokens=50)
    assert next(stream).startswith("word")
    stream.close()


@pytest.mark.parametrize("error", [False, True], ids=["closed", "error event"])
def test_a_stream_that_breaks_off_is_an_error_after_the_pieces(model, server, error):
    server.will(broken_stream("The answer is", error=error))
    stream = model.stream("What?", max_tokens=50)
    pieces = []
    with pytest.raises(CallFailed, match="broke"):
        pieces.extend(stream)
    stream = model.stream("What?", max_tokens=50)
    assert next(stream) == "The ans"
    stream.close()


def test_an_answer_at_the_limit_says_that_it_was_cut(model, server):
    server.will(text("So far", stop="length"))
    assert ask(model).cut
    assert drained(model.stream("What?", max_tokens=50))[1].cut


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (status(400, "max_tokens: too large"), "answered 400"),
        (status(401, "invalid key"), "answered 401"),
        (status(404, "no such model"), "answered 404"),
        (status(429, "slow down"), "answered 429"),
        (status(500, "oops"), "answered 500"),
        (status(529, "overloaded"), "answered 529"),
        (text(""), "no text"),
        (text("I will not.", stop="refusal"), "declined"),
        (silence(), "no answer in time"),
    ],
    ids=["400", "401", "404", "429", "500", "529", "empty", "refusal", "silence"],
)
def test_a_failure_is_one_typed_line(model, server, reply, reason):
    server.will(reply)
    # A busy machine may be slow to answer; only the silent server is waited for in vain.
    patience = 0.3 if reason == "no answer in time" else PATIENCE
    with pytest.raises(ModelError, match=reason) as failure:
        ask(model, timeout=patience)
    assert len(str(failure.value).splitlines()) == 1
    wait_until(lambda: server.requests, "the server hears of the request")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        truncated(),
        hang_up(),
        raw(b"<html>not json</html>", "text/html"),
        raw(b"not json"),
        raw(b'{"id": "msg_1", "conten'),
        raw(b"[]"),
        raw(b'"text"'),
        raw(b"{}"),
        raw(b'{"content": null, "choices": null}'),
        raw(b'{"content": 7, "choices": [7]}'),
        raw(b'{"content": [null, 3], "choices": [{"message": {"content": [1]}}]}'),
        raw(b"[" * 100_000),
        raw(b"\xff\xfe\x00"),
        raw(b""),
    ],
    ids=range(14),
)
def test_garbage_is_one_typed_line(model, server, reply):
    server.will(reply)
    with pytest.raises(ModelError) as failure:
        ask(model)
    assert len(str(failure.value).splitlines()) == 1


def test_garbage_in_a_stream_is_one_typed_line(model, server):
    server.will(raw(b"event: message_start\ndata: {not json\n\n", "text/event-stream"))
    with pytest.raises(ModelError) as failure:
        drained(model.stream("What?", max_tokens=50))
    assert len(str(failure.value).splitlines()) == 1


def test_nobody_listening_is_one_typed_line():
    url = f"http://127.0.0.1:{free_port()}"
    claude = ClaudeModel(connect_claude(KEY, url))
    for model in (claude, OpenAICompatibleModel(url, "local-model")):
        with pytest.raises(CallFailed, match="cannot be reached"):
            ask(model)
    claude.close()


def test_one_attempt_unless_more_are_asked_for(model, server):
    server.will(status(529, headers={"Retry-After": "0"}), text("Late."))
    with pytest.raises(CallFailed):
        ask(model)
    server.requests.clear()
    server.will(status(529, headers={"Retry-After": "0"}), text("Late."))
    assert ask(model, retries=1).text == "Late."
    assert len(server.requests) == 2


def test_what_cannot_get_better_is_not_tried_again(model, server):
    server.will(status(400), text("Late."))
    with pytest.raises(CallFailed):
        ask(model, retries=3)
    assert len(server.requests) == 1


def test_a_wait_too_long_is_not_waited_for(model, server):
    server.will(status(429, headers={"Retry-After": "3600"}), text("Late."))
    with pytest.raises(CallFailed, match="429"):
        ask(model, retries=1)
    assert len(server.requests) == 1


def test_the_key_is_in_no_error_log_or_repr(model, server, caplog):
    caplog.set_level(logging.DEBUG)
    server.will(status(401, f"the key {KEY} is wrong"))
    with pytest.raises(ModelError) as failure:
        ask(model)
    assert KEY not in str(failure.value)
    assert "[key]" in str(failure.value)
    assert KEY not in repr(model)
    assert KEY not in caplog.text


def test_a_key_that_is_no_header_does_not_leak_through_the_error(server):
    bad = "sk-ant-\u2028secret\nX-Other: 1"
    claude = ClaudeModel(connect_claude(bad, server.url))
    for model in (claude, OpenAICompatibleModel(server.url, "local-model", bad)):
        with pytest.raises(ModelError) as failure:
            ask(model)
        assert "secret" not in str(failure.value)
    claude.close()
    assert server.requests == []


def test_a_redirect_is_not_followed_with_the_key(server):
    elsewhere = {"Location": f"{server.url}/elsewhere"}
    server.will(status(302, headers=elsewhere))
    with pytest.raises(CallFailed, match="302"):
        ask(OpenAICompatibleModel(server.url, "local-model", KEY))
    assert [request.path for request in server.requests] == [CHAT]


def test_a_server_that_calls_the_limit_otherwise_is_understood(server):
    told = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    model = OpenAICompatibleModel(server.url, "new-model")
    server.will(status(400, told), text("Yes."))
    assert ask(model).text == "Yes."
    assert ask(model).text == "Yes."
    limits = [set(r.body) & {"max_tokens", "max_completion_tokens"} for r in server.requests]
    assert limits == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]


def test_without_a_key_or_an_address_there_is_no_model():
    assert load_llm(env={}) is None
    assert load_llm(env={"ANTHROPIC_API_KEY": "  "}) is None


def test_the_environment_names_claude_and_its_address(server):
    env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
    model = load_llm(env=env, model="claude-other")
    assert ask(model).text == "Yes."
    assert server.requests[0].body["model"] == "claude-other"
    model.close()


def test_the_environment_names_another_server_before_claude(server):
    env = {
        "ANTHROPIC_API_KEY": KEY,
        "PACKWISE_LLM_URL": server.url,
        "PACKWISE_LLM_MODEL": "local-model",
    }
    assert ask(load_llm(env=env)).text == "Yes."
    assert server.requests[0].path == CHAT
    assert KEY not in str(server.requests[0].headers)


def test_a_key_given_by_the_caller_comes_first(server):
    env = {"PACKWISE_LLM_URL": "http://localhost:1", "ANTHROPIC_BASE_URL": server.url}
    model = load_llm(api_key=KEY, env=env)
    assert ask(model).text == "Yes."
    model.close()


@pytest.mark.parametrize(
    "url", ["localhost:11434", "file:///etc/passwd", "http://", "http://[", "x"]
)
def test_an_address_that_is_none_is_a_wrong_setting(url):
    with pytest.raises(SettingError, match="PACKWISE_LLM_URL"):
        load_llm(env={"PACKWISE_LLM_URL": url, "PACKWISE_LLM_MODEL": "m"})
    with pytest.raises(SettingError, match="ANTHROPIC_BASE_URL"):
        load_llm(env={"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY})


def test_a_server_without_a_model_name_is_a_wrong_setting():
    with pytest.raises(SettingError, match="PACKWISE_LLM_MODEL"):
        load_llm(env={"PACKWISE_LLM_URL": "http://localhost:1"})

"""The tool loops of the docs page, run against a server that speaks both protocols."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import packwise
from messages_api import ModelServer, raw, text
from packwise.errors import PackwiseError
from packwise.integrations.tools import LibraryTools, run_anthropic, run_openai

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
LOOPS = re.findall(r"<!-- not run: needs a key -->\n```python\n(.*?)```", PAGE.read_text(), re.S)


def asks_claude(name, arguments):
    used = {"type": "tool_use", "id": "toolu_7", "name": name, "input": arguments}
    said = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [used],
        "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return raw(json.dumps(said).encode())


def asks_openai(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "call_7", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    said = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
    }  # fmt: skip
    return raw(json.dumps(said).encode())


@pytest.fixture
def server(monkeypatch):
    with ModelServer() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield server


def results(server):
    """What the model was given back by the tools, in the second request."""
    last = server.requests[1].body["messages"][-1]
    content = last["content"] if last["role"] == "tool" else last["content"][0]["content"]
    return json.loads(content)


@pytest.mark.parametrize(
    ("loop", "asks"), list(zip(LOOPS, (asks_claude, asks_openai), strict=True))
)
def test_the_loop_of_the_page_runs(loop, asks, server, notes_pack, tmp_path):
    (tmp_path / "my-pack").symlink_to(notes_pack)
    server.will(asks("search_passages", {"query": "signing key", "k": 2}), text("In March."))
    command = [sys.executable, "-W", "error", "-c", loop]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "In March."
    assert len(results(server)["passages"]) == 2
    offered = server.requests[0].body["tools"]
    assert "notes of the operations team" in json.dumps(offered)


@pytest.fixture(scope="module")
def tools(notes_pack):
    with packwise.open(notes_pack) as library:
        yield LibraryTools(library)


@pytest.mark.parametrize("arguments", [None, {}, {"query": "x", "k": "many"}, [], "text"])
def test_what_a_model_asks_wrongly_is_told_to_the_model(tools, arguments):
    result, failed = tools.call("search_passages", arguments)
    assert failed
    assert "error" in json.loads(result)


def test_a_tool_that_is_not_there_is_told_to_the_model(tools):
    result, failed = tools.call("delete_everything", {})
    assert failed
    assert "search_passages" in result


def test_the_number_of_passages_is_bounded(tools):
    result, failed = tools.call("search_passages", {"query": "key", "k": 10**9})
    assert not failed
    assert len(json.loads(result)["passages"]) <= 20


def test_a_question_is_answered_with_its_sources(tools):
    answer = json.loads(tools.call("ask_library", {"question": "how is the key rotated?"})[0])
    assert set(answer) == {"answer", "certainty", "probability", "sources"}


def test_a_model_that_never_answers_is_stopped(tools, server):
    import anthropic
    import openai

    loops = (
        (run_anthropic, anthropic.Anthropic, asks_claude),
        (run_openai, openai.OpenAI, asks_openai),
    )
    for loop, client, asks in loops:
        server.will(asks("search_passages", {"query": "key"}))
        with client() as opened, pytest.raises(PackwiseError, match="2 turns"):
            loop(opened, tools, "why?", model="m", turns=2)

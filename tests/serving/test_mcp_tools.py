"""A real MCP client drives the tools, over standard input and output and over HTTP."""

import asyncio
import json
import os
import subprocess
import sys

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from packwise.models.tokens import token_counter
from serving_world import SECRETS, TENANTS, RunningServer, key_ring
from tests_world import PATIENCE

TOOLS = {"search_knowledge", "get_context", "ask", "list_packs", "read_article", "neighbours"}


def tokens(value):
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return token_counter("gpt-4o").count(text)


async def drive(client):
    """Use every tool as an agent would."""
    listed = await client.list_tools()
    assert {tool.name for tool in listed.tools} == TOOLS
    for tool in listed.tools:
        assert tool.description
        assert "  " not in tool.description, "indentation of the code"
        assert tool.input_schema["type"] == "object"
        assert tool.output_schema is not None
        assert tool.annotations.read_only_hint

    # What every conversation pays before the first call.
    schemas = sum(tokens(tool.output_schema) for tool in listed.tools)
    whole = sum(tokens(tool.model_dump(by_alias=True, exclude_none=True)) for tool in listed.tools)
    print(f"output schemas: {schemas} tokens, all of the tools: {whole} tokens")
    assert schemas < 1000
    assert whole < 2400

    packs = (await client.call_tool("list_packs", {})).structured_content["packs"]
    assert packs[0]["name"] == "my-pack"
    assert "Signing keys" in packs[0]["articles"]

    found = (
        await client.call_tool("search_knowledge", {"query": "rotate the signing key", "k": 3})
    ).structured_content
    assert len(found["passages"]) == 3
    assert found["passages"][0]["title"] == "Signing keys"
    assert "url" not in found["passages"][0], "what is empty is left out"
    assert found["covered"] is True
    assert 0 < found["confidence"] <= 1
    few = await client.call_tool(
        "search_knowledge", {"query": "rotate the signing key", "k": 5, "budget": 200}
    )
    assert 0 < tokens(few.content[0].text) <= 200
    assert few.structured_content["left_out"] > 0

    packed = (
        await client.call_tool("get_context", {"question": "What is signed?", "budget": 150})
    ).structured_content
    assert 0 < packed["tokens"] <= 150
    assert packed["citations"][0]["document"]
    assert f"[{packed['citations'][0]['marker']}]" in packed["text"]
    for budget in (120, 200, 400):
        within = await client.call_tool(
            "get_context", {"question": "What is signed?", "budget": budget}
        )
        assert tokens(within.content[0].text) <= budget
    assert packed["confidence"] > 0

    answer = await client.call_tool("ask", {"question": "When is the database backed up?"})
    assert not answer.is_error
    said = answer.structured_content
    assert "two o'clock" in said["answer"]
    assert said["sources"] == ["Backups"]
    assert said["citations"][0]["marker"] == 1
    assert json.loads(answer.content[0].text) == said
    assert tokens(answer.content[0].text) < 250

    wrong = await client.call_tool("search_knowledge", {"query": "x", "k": "many"})
    assert wrong.is_error
    assert wrong.content[0].text.startswith("wrong arguments of search_knowledge: k: ")
    wrong = await client.call_tool("ask", {"question": "Who?", "store": "another"})
    assert wrong.is_error
    assert wrong.content[0].text.startswith("wrong arguments of ask: store; it takes question, ")
    assert "\n" not in wrong.content[0].text

    article = (
        await client.call_tool("read_article", {"title": "backups", "characters": 50})
    ).structured_content
    assert len(article["text"]) == 50
    assert article["characters"] > 200

    around = (await client.call_tool("neighbours", {"name": "Signing keys"})).structured_content
    assert around["name"] == "Signing keys"
    assert {entry["document"] for entry in around["articles"]} & {"guides/releases.md", "index.md"}
    assert all(entry["relation"] for entry in around["articles"])

    listed = await client.list_resources()
    assert [str(entry.uri) for entry in listed.resources] == ["packwise://my-pack"]
    templates = await client.list_resource_templates()
    assert {t.uri_template for t in templates.resource_templates} == {
        "packwise://{pack}",
        "packwise://{pack}/{+document}",
    }
    overview = await client.read_resource("packwise://my-pack")
    assert "- Signing keys" in overview.contents[0].text
    text = (await client.read_resource("packwise://my-pack/guides/keys.md")).contents[0].text
    assert "signing key" in text

    prompts = await client.list_prompts()
    assert {prompt.name for prompt in prompts.prompts} == {"answer_from_pack", "explore_pack"}
    prompt = await client.get_prompt(
        "answer_from_pack", {"question": "When is the database backed up?"}
    )
    assert "two o'clock" in prompt.messages[0].content.text
    prompt = await client.get_prompt("explore_pack", {"pack": "my-pack"})
    assert "Signing keys" in prompt.messages[0].content.text

    for name, arguments, word in (
        ("read_article", {"title": "Sining keys"}, "similar titles: Signing keys"),
        ("read_article", {"title": "rotation of keys"}, "Signing keys"),
        ("neighbours", {"name": "Zanzibar"}, "no article or name 'Zanzibar'"),
        ("ask", {"question": "  "}, "empty"),
        ("search_knowledge", {"query": "x", "pack": "nowhere"}, "the packs are: my-pack"),
        ("search_knowledge", {"query": "x", "k": 0}, "k"),
    ):
        wrong = await client.call_tool(name, arguments)
        assert wrong.is_error
        assert word in wrong.content[0].text
        assert "Traceback" not in wrong.content[0].text
    for work in (
        client.get_prompt("explore_pack", {"pack": "nowhere"}),
        client.get_prompt("answer_from_pack", {"question": "x", "pack": "nowhere"}),
        client.read_resource("packwise://nowhere"),
    ):
        with pytest.raises(MCPError, match="the packs are: my-pack"):
            await work


def test_over_standard_input_and_output(notes_pack):
    async def scene():
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "packwise", "mcp", str(notes_pack)],
            # Else the SDK hands on a few variables only, and not those the tests set.
            env=dict(os.environ),
        )
        async with Client(command) as client:
            await drive(client)

    asyncio.run(scene())


def test_over_http(notes_pack):
    with RunningServer(str(notes_pack), "--http", command="mcp") as server:

        async def scene():
            async with Client(server.url) as client:
                await drive(client)

        asyncio.run(scene())
        with httpx2.Client(timeout=PATIENCE) as elsewhere:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            told = elsewhere.post(server.url, json=call, headers={"Host": "evil.example"})
            assert told.status_code == 421
            stream = elsewhere.get(server.url, headers={"Accept": "text/event-stream"})
            assert stream.status_code == 405, "a stream that waits for ever is not offered"
        assert server.stop() == 0


def test_over_http_a_key_decides_what_the_tools_see(tenants_pack, tmp_path):
    ring, headers = key_ring(
        tmp_path,
        acme={"tenant": "acme"},
        globex={"tenant": "globex"},
    )
    hidden = {
        "acme": (SECRETS["globex"], SECRETS["acme-board"]),
        "globex": (SECRETS["acme"], SECRETS["acme-board"]),
    }

    async def everything(url, sent):
        shown = ""
        calls = [
            ("list_packs", {}),
            ("search_knowledge", {"query": "launch in Harbour City", "k": 50}),
            ("get_context", {"question": "where is the launch?"}),
            ("ask", {"question": "where is the launch?"}),
            *(("read_article", {"title": name}) for name in TENANTS),
            *(("neighbours", {"name": name}) for name in (*TENANTS, "Harbour City")),
            ("read_article", {"title": "plan"}),
        ]
        async with (
            httpx2.AsyncClient(headers=sent, timeout=PATIENCE) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            for name, arguments in calls:
                shown += str(await client.call_tool(name, arguments)).lower()
            shown += str(await client.read_resource("packwise://shared")).lower()
            prompt = {"question": "where is the launch?"}
            shown += str(await client.get_prompt("answer_from_pack", prompt)).lower()
            shown += str(await client.get_prompt("explore_pack", {})).lower()
        return shown

    with RunningServer(
        str(tenants_pack), "--http", "--keys", str(ring.file), command="mcp"
    ) as server:
        for who, words in hidden.items():
            shown = asyncio.run(everything(server.url, headers[who]))
            assert SECRETS[who] in shown
            for word in words:
                assert word not in shown
        with httpx2.Client(timeout=PATIENCE) as stranger:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert stranger.post(server.url, json=call).status_code == 401


@pytest.mark.parametrize(("command", "extra"), [("mcp", "mcp"), ("serve", "uvicorn")])
def test_without_its_extra_the_command_says_what_to_install(notes_pack, command, extra):
    code = f"import sys; sys.modules[{extra!r}] = None; from packwise.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, command, str(notes_pack)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'packwise[" in done.stderr
    assert "Traceback" not in done.stderr

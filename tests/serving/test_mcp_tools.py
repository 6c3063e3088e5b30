"""A real MCP client drives the tools, over standard input and output and over HTTP."""

import asyncio
import os
import subprocess
import sys

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from serving_world import SECRETS, TENANTS, RunningServer, key_ring
from tests_world import PATIENCE

TOOLS = {"search_knowledge", "get_context", "ask", "list_packs", "read_article"}


async def drive(client):
    """Use every tool as an agent would."""
    listed = await client.list_tools()
    assert {tool.name for tool in listed.tools} == TOOLS
    for tool in listed.tools:
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert tool.output_schema is not None
        assert tool.annotations.read_only_hint

    packs = (await client.call_tool("list_packs", {})).structured_content["packs"]
    assert packs[0]["name"] == "my-pack"
    assert "Signing keys" in packs[0]["articles"]

    found = (
        await client.call_tool("search_knowledge", {"query": "rotate the signing key", "k": 3})
    ).structured_content
    assert len(found["passages"]) == 3
    assert found["passages"][0]["source"]["title"] == "Signing keys"
    assert found["sources"][0] == "Signing keys"
    assert 0 < found["confidence"] <= 1

    packed = (
        await client.call_tool("get_context", {"question": "What is signed?", "budget": 150})
    ).structured_content
    assert 0 < packed["tokens"] <= 150
    assert packed["citations"]
    assert packed["confidence"] > 0

    answer = await client.call_tool("ask", {"question": "When is the database backed up?"})
    assert not answer.is_error
    said = answer.structured_content
    assert "two o'clock" in said["answer"]
    assert said["sources"] == ["Backups"]
    assert said["citations"][0]["marker"] == 1
    assert said["answer"] in answer.content[0].text.encode().decode("unicode_escape")

    article = (
        await client.call_tool("read_article", {"title": "backups", "characters": 50})
    ).structured_content
    assert len(article["text"]) == 50
    assert article["characters"] > 200
    assert article["sources"] == ["Backups"]

    for name, arguments, word in (
        ("read_article", {"title": "No such article"}, "no such article"),
        ("ask", {"question": "  "}, "empty"),
        ("search_knowledge", {"query": "x", "pack": "nowhere"}, "no such store"),
        ("search_knowledge", {"query": "x", "k": 0}, "k"),
    ):
        wrong = await client.call_tool(name, arguments)
        assert wrong.is_error
        assert word in wrong.content[0].text
        assert "Traceback" not in wrong.content[0].text


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
        ]
        async with (
            httpx2.AsyncClient(headers=sent, timeout=PATIENCE) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            for name, arguments in calls:
                shown += str(await client.call_tool(name, arguments)).lower()
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

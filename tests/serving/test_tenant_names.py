"""Names and neighbours are told by the caller's own documents, through every route.

A store keeps one entry for a name, whoever's documents write it: one spelling, one count, one
kind. None of it may tell a tenant what only another one wrote.
"""

import asyncio
import json

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from packwise.serving.limits import Limits
from serving_world import RunningServer, client_of, key_ring

# Read in the order of their ids: the first to write a name decides how it is spelled.
DOCUMENTS = {
    "aaa-globex/plan.md": """---
tenant: globex
---
# The Quixnard Treaty

HARBOR-TOWN is where Doctor Umber Vane met the CASSINI guild. Doctor Umber Vane is a spy.
The Borealis Engine is a machine that makes rain.
""",
    "aaa-globex/more.md": """---
tenant: globex
---
# Notes of the guild

The Borealis Engine was seen in HARBOR-TOWN by Doctor Umber Vane, as the CASSINI guild says.
""",
    "zzz-acme/one.md": """---
tenant: acme
---
# The first report

The harbour is watched from Harbor-Town, where Doctor Umber Vane lives. The Cassini guild pays
for the watch. Read [what they agreed on](../aaa-globex/plan.md) before you go.
""",
    "zzz-acme/two.md": """---
tenant: acme
---
# The second report

Harbor-Town is quiet in winter. The Cassini guild has left. Read
[their paper](../aaa-globex/plan.md) and [the first report](one.md).
""",
}
# What only globex has: a spelling, a title, a sentence, a name.
HIDDEN = ("HARBOR-TOWN", "CASSINI", "Quixnard", "quixnard", "a spy", "makes rain", "aaa-globex")
QUESTIONS = (
    "Who watches the harbour from Harbor-Town?",
    "What does the Cassini guild pay for?",
    "What did Doctor Umber Vane agree on in the treaty?",
)


@pytest.fixture(scope="module")
def spellings(tmp_path_factory):
    """The pack, and a ring with a key for each tenant."""
    from packwise.packs.build import build_pack

    base = tmp_path_factory.mktemp("spellings")
    for name, text in DOCUMENTS.items():
        path = base / "documents" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    build_pack([str(base / "documents")], str(base / "shared"))
    ring, headers = key_ring(
        base, acme={"tenant": "acme"}, globex={"tenant": "globex"}, everything={"unbound": True}
    )
    return base / "shared", ring, headers


@pytest.fixture(scope="module")
def client(spellings):
    pack, ring, _ = spellings
    with client_of(pack, keys=ring, limits=Limits(rate=0)) as found:
        yield found


def graph(client, headers, name):
    drawn = client.get("/v1/graph", params={"around": name}, headers=headers)
    assert drawn.status_code == 200, drawn.text
    return drawn.json()


def labels(drawn):
    return {node["label"] for node in drawn["nodes"] if node["kind"] == "name"}


def everything(client, headers):
    """Whatever a key gets to read about the names both tenants have."""
    for question in QUESTIONS:
        for how in ({}, {"graph": "pagerank"}, {"mode": "keyword"}):
            body = {"query": question, "k": 20, "trace": True, **how}
            for _ in range(2):  # The second time it comes from memory.
                found = client.post("/v1/search", json=body, headers=headers)
                yield found
            yield client.get(f"/v1/trace/{found.json()['trace_id']}", headers=headers)
        asked = {"question": question, "threshold": 0.0}
        yield client.post("/v1/context", json={"question": question}, headers=headers)
        for how in ({}, {"stream": True}, {"expansion": "local"}):
            yield client.post("/v1/ask", json={**asked, **how}, headers=headers)
        chat = {"model": "shared", "messages": [{"role": "user", "content": question}]}
        for how in ({}, {"stream": True}):
            yield client.post("/v1/chat/completions", json={**chat, **how}, headers=headers)
    listed = client.get("/v1/articles", headers=headers)
    yield listed
    for entry in listed.json()["articles"]:
        yield client.get(f"/v1/articles/{entry['id']}", headers=headers)
        yield client.get("/v1/graph", params={"around": entry["id"]}, headers=headers)
    for name in ("Harbor-Town", "Cassini guild", "Cassini", "Umber Vane", "Doctor Umber Vane"):
        yield client.get("/v1/graph", params={"around": name}, headers=headers)


def test_the_store_itself_has_the_other_tenants_spelling(client, spellings):
    """Else the tests below would show nothing."""
    drawn = graph(client, spellings[2]["everything"], "zzz-acme/one.md")
    assert "HARBOR-TOWN" in labels(drawn)


def test_a_name_is_spelled_as_the_callers_own_documents_do(client, spellings):
    for who, spelled in (("acme", "Harbor-Town"), ("globex", "HARBOR-TOWN")):
        headers = spellings[2][who]
        for around in ("Harbor-Town", "harbor-town"):
            assert labels(graph(client, headers, around)) == {spelled}
    article = client.get("/v1/articles/zzz-acme/one.md", headers=spellings[2]["acme"]).json()
    assert "Harbor-Town" in article["names"]
    answer = client.post(
        "/v1/ask",
        json={"question": QUESTIONS[0], "threshold": 0.0},
        headers=spellings[2]["acme"],
    ).json()
    assert "Harbor-Town" in answer["entities"]


def test_no_route_tells_a_spelling_a_title_or_a_sentence_of_another_tenant(client, spellings):
    for answer in everything(client, spellings[2]["acme"]):
        assert answer.status_code in (200, 404)
        for word in HIDDEN:
            assert word not in answer.text, (word, answer.url)


def test_a_name_shared_with_another_tenant_only_is_not_shown_as_shared(client, spellings):
    # Doctor Umber Vane stands in one document of acme's: it ties that to nothing they may see.
    drawn = graph(client, spellings[2]["acme"], "zzz-acme/one.md")
    assert "Harbor-Town" in labels(drawn)
    assert not any("Vane" in label for label in labels(drawn))
    counts = {node["label"]: node["passages"] for node in drawn["nodes"]}
    assert counts["Harbor-Town"] == 2


def test_the_neighbours_are_documents_of_the_callers(client, spellings):
    for who, own in (("acme", "zzz-acme/"), ("globex", "aaa-globex/")):
        headers = spellings[2][who]
        listed = client.get("/v1/articles", headers=headers).json()["articles"]
        assert listed
        for entry in listed:
            drawn = graph(client, headers, entry["id"])
            documents = [n["document"] for n in drawn["nodes"] if n["kind"] == "article"]
            assert documents
            assert all(document.startswith(own) for document in documents)
            known = {node["id"] for node in drawn["nodes"]}
            assert all({e["source"], e["target"]} <= known for e in drawn["edges"])


def test_asking_for_a_name_does_not_tell_that_another_tenant_has_it(client, spellings):
    """The Borealis Engine is globex's, the Boreal Engines are nobody's: acme reads the same."""
    read = []
    for name in ("Borealis Engine", "Boreelis Engine"):
        query = f"Where is the {name} kept?"
        sent = client.post(
            "/v1/search",
            json={"query": query, "trace": True, "k": 20},
            headers=spellings[2]["acme"],
        ).json()
        stages = {stage["name"]: stage for stage in sent["trace"]["stages"]}
        read.append((sorted(stages["graph"]), stages["graph"].get("named")))
        assert "signs" not in sent["trace"]
        assert client.get(
            "/v1/graph", params={"around": name}, headers=spellings[2]["acme"]
        ).status_code in (404,)
    assert read[0] == read[1]


def test_over_mcp_too(spellings):
    pack, ring, headers = spellings
    calls = [
        ("list_packs", {}),
        *(("search_knowledge", {"query": question, "k": 20}) for question in QUESTIONS),
        *(("get_context", {"question": question}) for question in QUESTIONS),
        *(("ask", {"question": question}) for question in QUESTIONS),
        *(("read_article", {"title": name}) for name in (*DOCUMENTS, "The Quixnard Treaty")),
    ]

    async def told(url):
        async with (
            httpx2.AsyncClient(headers=headers["acme"]) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    with RunningServer(str(pack), "--http", "--keys", str(ring.file), command="mcp") as server:
        results = asyncio.run(told(server.url))
    shown = json.dumps([result.structured_content for result in results])
    shown += "".join(part.text for result in results for part in result.content)
    # An error repeats the title that was asked for.
    for title in (*DOCUMENTS, "The Quixnard Treaty"):
        shown = shown.replace(f"no article '{title}'", "")
    assert "Harbor-Town" in shown
    for word in HIDDEN:
        assert word not in shown, word


def test_scores_do_not_tell_whether_a_word_exists_elsewhere(client, spellings):
    headers = spellings[2]["acme"]
    found = []
    for word in ("quixnard", "zzqxnard"):  # One that only another tenant wrote, and none.
        asked = {"query": f"harbour {word}", "mode": "keyword"}
        answer = client.post("/v1/search", json=asked, headers=headers).json()
        assert answer["hits"]
        scores = [hit["scores"] for hit in answer["hits"]]
        asked = {"question": f"harbour {word}", "mode": "keyword", "threshold": 0}
        more = client.post("/v1/ask", json=asked, headers=headers).json()
        found.append((scores, answer["confidence"], more["probability"], more["confidence"]))
    assert found[0] == found[1]

"""Try to see the documents of another tenant: over HTTP, over MCP and in the stores.

    python benchmarks/tenant_probes.py [--probes 10000] [--seed 1] [--door http]

Two tenants share a pack, with documents for groups of one of them and links between them. A probe
asks as one key, or with one filter, for words, names, titles, ids and paths of another, with every
option of the API. It has succeeded if the answer holds a word that only documents have which the
key may not see. A third of the probes goes to each of the three doors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

from packwise.candidates import Filter  # noqa: E402
from packwise.library import open_library  # noqa: E402
from packwise.packs.build import build_pack  # noqa: E402
from packwise.serving.keys import KeyRing  # noqa: E402
from packwise.serving.limits import Limits  # noqa: E402
from serving_world import SECRETS, TENANTS, client_of, key_ring, write_tenants  # noqa: E402

KEYS: dict[str, dict[str, Any]] = {
    "acme": {"tenant": "acme"},
    "board": {"tenant": "acme", "acl": ("board",)},
    "globex": {"tenant": "globex"},
    "stranger": {"tenant": "initech"},
}
HIDDEN = {
    "acme": [SECRETS["globex"], SECRETS["acme-board"], "lindqvist"],
    "board": [SECRETS["globex"], "lindqvist"],
    "globex": [SECRETS["acme"], SECRETS["acme-board"]],
    "stranger": [SECRETS["globex"], SECRETS["acme"], SECRETS["acme-board"], "lindqvist"],
}
OTHERS = ["Petra", "the others", "who leads the launch", "nine million", "Harbour City", "April"]
LIMITS = Limits(rate=0)


def words(place: random.Random) -> str:
    """What a probe asks for. It does not name the secrets: an answer may repeat the question."""
    known = [*OTHERS, *TENANTS, "plan", "people", "minutes", "launch", "board", "Valley", "Ridge"]
    return " ".join(place.choices(known, k=place.randint(1, 4)))


def http_request(place: random.Random) -> tuple[str, str, Any]:
    """A request with options at random."""
    asked = words(place)
    where = place.choice(
        [
            *({}, {}, {"path": ""}, {"path": "globex"}, {"document": place.choice(list(TENANTS))}),
            *({"tenant": "globex"}, {"acl": ["board"]}, {"Tenant": "acme"}, {"lang": "en"}),
        ]
    )
    search = {
        "mode": place.choice(["hybrid", "vector", "keyword"]),
        "graph": place.choice(["off", "score", "pagerank"]),
        "where": where,
    }
    name = place.choice([*TENANTS, "plan", "../globex/plan.md", "globex%2Fplan.md", asked])
    chat = {"model": "pack", "messages": [{"role": "user", "content": asked}]}
    return place.choice(
        [
            ("POST", "/v1/search", {"query": asked, "k": 50, "trace": True, **search}),
            ("POST", "/v1/context", {"question": asked, **search}),
            ("POST", "/v1/ask", {"question": asked, "threshold": 0, **search}),
            ("POST", "/v1/ask", {"question": asked, "stream": True, "expansion": "local"}),
            ("POST", "/v1/chat/completions", {**chat, "stream": place.random() < 0.5}),
            ("GET", f"/v1/articles/{name}", None),
            ("GET", f"/v1/graph?around={name}", None),
            ("GET", "/v1/articles?limit=500", None),
            ("GET", "/v1/stores", None),
            ("GET", "/metrics", None),
        ]
    )


def probe_http(pack: Path, scratch: Path, count: int, seed: int) -> Counter[str]:
    """Probes of the HTTP API."""
    place, outcome = random.Random(f"http {seed}"), Counter[str]()
    ring, headers = key_ring(scratch, **KEYS)
    with client_of(pack, keys=ring, limits=LIMITS) as client:
        for _ in range(count):
            who = place.choice(list(KEYS))
            method, path, body = http_request(place)
            answer = client.request(method, path, json=body, headers=headers[who])
            judge(
                outcome, f"http {answer.status_code // 100}xx", who, answer.text, f"{path} {body}"
            )
    return outcome


def judge(outcome: Counter[str], kind: str, who: str, text: str, what: str) -> None:
    """Count a probe; say what it saw if it should not have."""
    seen = [word for word in HIDDEN[who] if word in text.lower()]
    outcome["LEAKED" if seen else kind] += 1
    if not outcome.total() % 500:
        sys.stdout.write(f"  {outcome.total()} {kind} probes so far\n")
        sys.stdout.flush()
    if seen:
        sys.stdout.write(f"  {who} saw {seen}: {what}\n")


def tool_calls(place: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls of the tools, for ever."""
    while True:
        asked = words(place)
        name = place.choice([*TENANTS, "plan", asked])
        yield place.choice(
            [
                ("search_knowledge", {"query": asked, "k": 50}),
                ("get_context", {"question": asked, "budget": 4000}),
                ("ask", {"question": asked}),
                ("list_packs", {}),
                ("read_article", {"title": name}),
            ]
        )


def probe_mcp(pack: Path, scratch: Path, count: int, seed: int) -> Counter[str]:
    """Probes of the MCP tools, over HTTP with keys."""
    from serving_world import RunningServer

    outcome = Counter[str]()
    ring = KeyRing(scratch / "mcp-keys.json")
    keys = {who: ring.add(**values)[1] for who, values in KEYS.items()}
    arguments = [str(pack), "--http", "--keys", str(ring.file), "--rate", "0"]

    async def scene(url: str) -> None:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        for who, key in keys.items():
            place = random.Random(f"mcp {seed} {who}")
            headers = {"Authorization": f"Bearer {key}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=120) as web,
                Client(streamable_http_client(url, http_client=web)) as client,
            ):
                calls = tool_calls(place)
                for _ in range(count // len(keys)):
                    call = next(calls)
                    result = await client.call_tool(*call)
                    text = json.dumps(result.model_dump(mode="json"))
                    judge(outcome, "mcp error" if result.is_error else "mcp", who, text, str(call))

    with RunningServer(*arguments, command="mcp") as server:
        asyncio.run(scene(server.url))
    return outcome


def probe_stores(pack: Path, scratch: Path, count: int, seed: int) -> Counter[str]:
    """Probes of a pack with the filter of a tenant."""
    place, outcome = random.Random(f"stores {seed}"), Counter[str]()
    with open_library(str(pack)) as library:
        for _ in range(count):
            who = place.choice(list(KEYS))
            where = Filter(tenant=KEYS[who]["tenant"], acl=KEYS[who].get("acl", ("none",)))
            asked = words(place)
            kind = place.randrange(3)
            if kind == 0:
                mode = place.choice(["hybrid", "vector", "keyword"])
                found = library.search(asked, 50, where=where, mode=mode)
                text = " ".join(hit.passage.indexed_text for hit in found.hits)
            elif kind == 1:
                text = library.context(asked, 4000, where=where).text
            else:
                answer = library.ask(asked, where=where, threshold=0.0, synthesis=False)
                text = json.dumps([answer.text, [c.as_dict() for c in answer.citations]])
            judge(outcome, "store", who, text, asked)
    return outcome


DOORS = {"http": probe_http, "mcp": probe_mcp, "stores": probe_stores}


def main() -> None:
    """Probe; the exit code is 1 if a tenant saw a word of another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--door", action="append", choices=list(DOORS), help="default: all three")
    given = parser.parse_args()
    doors = given.door or list(DOORS)
    total = Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        source = write_tenants(Path(scratch) / "documents")
        build_pack([str(source)], f"{scratch}/pack")
        for door in doors:
            started = time.monotonic()
            count = given.probes // len(doors)
            outcome = DOORS[door](Path(scratch) / "pack", Path(scratch), count, given.seed)
            total += outcome
            seconds = time.monotonic() - started
            sys.stdout.write(f"{door}: {outcome.total()} in {seconds:.0f} s\n")
            for what, number in sorted(outcome.items()):
                sys.stdout.write(f"  {number:6} {what}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{total.total()} probes, {total['LEAKED']} leaked\n")
    sys.exit(total["LEAKED"] > 0)


if __name__ == "__main__":
    main()

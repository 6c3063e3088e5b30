"""Two tenants' keys never see each other's documents, through any route."""

import json

import pytest

from serving_world import SECRETS, TENANTS, client_of, key_ring

HIDDEN = {
    "acme": [SECRETS["globex"], SECRETS["acme-board"], "Lindqvist"],
    "board": [SECRETS["globex"], "Lindqvist"],
    "globex": [SECRETS["acme"], SECRETS["acme-board"]],
    "stranger": [SECRETS["globex"], SECRETS["acme"], SECRETS["acme-board"], "Lindqvist"],
}
SEEN = {"acme": "zorblatt", "board": "vintrosk", "globex": "quixnard"}
WORDS = ["launch", "Harbour City", "the board said no", "who leads it"]


def every_route(client, headers, query):
    """What a key can get to see, whichever way it asks."""
    asked = {"question": query, "threshold": 0.0}
    yield client.post("/v1/search", json={"query": query, "k": 50, "trace": True}, headers=headers)
    for how in ({"mode": "vector"}, {"mode": "keyword"}, {"graph": "pagerank"}):
        body = {"query": query, "k": 50, "trace": True, **how}
        yield client.post("/v1/search", json=body, headers=headers)
    yield client.post("/v1/context", json={"question": query}, headers=headers)
    yield client.post("/v1/ask", json=asked, headers=headers)
    yield client.post("/v1/ask", json={**asked, "expansion": "local"}, headers=headers)
    yield client.post("/v1/ask", json={**asked, "stream": True}, headers=headers)
    chat = {"model": "shared", "messages": [{"role": "user", "content": query}]}
    yield client.post("/v1/chat/completions", json=chat, headers=headers)
    yield client.post("/v1/chat/completions", json={**chat, "stream": True}, headers=headers)
    yield client.get("/v1/stores", headers=headers)
    yield client.get("/v1/articles", headers=headers)
    yield client.get("/v1/graph", params={"around": query}, headers=headers)
    for name in TENANTS:
        yield client.get(f"/v1/articles/{name}", headers=headers)
        yield client.get("/v1/graph", params={"around": name}, headers=headers)
    for name in ("Harbour City", "Zorblatt Valley", "Quixnard Ridge", "plan", "people", "minutes"):
        yield client.get("/v1/graph", params={"around": name}, headers=headers)


@pytest.mark.parametrize("who", sorted(HIDDEN))
def test_no_route_shows_what_the_key_may_not_see(tenants, who):
    client, headers = tenants
    shown = ""
    for query in WORDS:
        # What everybody else has asked is in the cache by now.
        for other in headers:
            client.post("/v1/search", json={"query": query, "k": 50}, headers=headers[other])
        for answer in every_route(client, headers[who], query):
            assert answer.status_code in (200, 404)
            for word in HIDDEN[who]:
                assert word.lower() not in answer.text.lower(), answer.url
            shown += answer.text.lower()
    if who in SEEN:
        assert SEEN[who] in shown


def test_a_key_for_everything_sees_everything(tenants):
    client, headers = tenants
    body = {"query": "launch", "k": 50}
    shown = client.post("/v1/search", json=body, headers=headers["everything"]).text
    assert all(word in shown.lower() for word in ("zorblatt", "quixnard", "vintrosk"))


def test_a_body_cannot_name_a_tenant_or_a_group(tenants):
    client, headers = tenants
    for where in ({"tenant": "globex"}, {"tenant": ""}, {"acl": "board"}, {"acl": ["board"]}):
        body = {"query": "launch", "where": where}
        answer = client.post("/v1/search", json=body, headers=headers["acme"])
        assert answer.status_code == 400
        assert "is set by the API key" in answer.json()["error"]["message"]
    free = client.post(
        "/v1/search",
        json={"query": "launch", "where": {"tenant": "globex"}},
        headers=headers["everything"],
    )
    assert {hit["document"] for hit in free.json()["hits"]} == {
        "globex/plan.md",
        "globex/people.md",
    }


def test_a_trace_is_shown_to_the_key_that_made_it_and_to_no_other(tenants):
    client, headers = tenants
    for made_by in ("acme", "globex", "everything"):
        body = {"query": "launch"}
        name = client.post("/v1/search", json=body, headers=headers[made_by]).json()["trace_id"]
        for who in headers:
            status = client.get(f"/v1/trace/{name}", headers=headers[who]).status_code
            assert status == (200 if who == made_by else 404)


def test_a_bound_key_learns_no_sizes_and_no_report(tenants):
    client, headers = tenants
    (store,) = client.get("/v1/stores", headers=headers["acme"]).json()["stores"]
    assert store["documents"] is store["passages"] is store["links"] is None
    assert client.get("/v1/articles", headers=headers["acme"]).json()["total"] == 2
    assert client.get("/v1/articles", headers=headers["board"]).json()["total"] == 3
    assert client.get("/v1/report", headers=headers["acme"]).status_code == 404


def test_a_request_without_a_good_key_is_refused_everywhere(tenants):
    client, headers = tenants
    good = headers["acme"]["Authorization"].removeprefix("Bearer ")
    for bad in ("", good[:-1], good[:-1] + ("A" if good[-1] != "A" else "B"), "pw_x_y", "é" * 10):
        sent = {"Authorization": f"Bearer {bad}".encode()}
        for path in ("/v1/stores", "/v1/articles", "/v1/trace/x", "/metrics", "/v1/models"):
            answer = client.get(path, headers=sent)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/v1/stores", headers={"X-Api-Key": good}).status_code == 200
    for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert client.get(path).status_code == 200


def test_a_damaged_file_of_keys_lets_nobody_in(notes_pack, tmp_path):
    ring, headers = key_ring(tmp_path, someone={"unbound": True})
    with client_of(notes_pack, keys=ring) as client:
        assert client.get("/v1/stores", headers=headers["someone"]).status_code == 200
        ring.file.write_text("{")
        told = client.get("/v1/stores", headers=headers["someone"])
        assert told.status_code == 503
        assert str(tmp_path) not in told.text
        assert str(tmp_path) in client.log.getvalue()
        ring.file.unlink()
        assert client.get("/v1/stores", headers=headers["someone"]).status_code == 401


def test_keys_never_reach_the_log(tenants):
    client, headers = tenants
    client.get("/v1/stores", headers=headers["acme"])
    log = client.log.getvalue()
    for sent in headers.values():
        # Behind the id; the secret may hold any character of the URL-safe 64.
        assert sent["Authorization"].split("_", 2)[2] not in log
    last = json.loads(log.splitlines()[-1])
    assert last["tenant"] == "acme"

"""A PostgreSQL store over HTTP: its knowledge nodes, and tenants kept apart there too."""

import pytest

from packwise.nodes.adapter import KnowledgeVerseAdapter
from packwise.nodes.records import KnowledgeNode
from packwise.nodes.schema import NodesSchema, init_nodes
from packwise.packs.build import build_pack
from packwise.serving import models
from packwise.serving.limits import Limits
from postgres_servers import Schema
from serving_world import SECRETS, TENANTS, client_of, key_ring, write_tenants
from tests_world import wait_until


def node(tenant, title, summary, **more):
    return KnowledgeNode(
        tenant_id=tenant, node_type="field", title=title, summary=summary, dataset_name="s", **more
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A client with keys of a database that holds documents and nodes of two tenants."""
    schema = Schema("plain")
    base = tmp_path_factory.mktemp("postgres-tenants")
    try:
        build_pack([str(write_tenants(base / "documents"))], schema.url)
        init_nodes(schema.url, NodesSchema(384, role=schema.role))
        with KnowledgeVerseAdapter(schema.url) as adapter:
            adapter.add_nodes(
                [
                    node("acme", "customers.email", "customer email address of acme"),
                    node("acme", "orders.total", "total revenue of an order"),
                    node("globex", "customers.email", "customer email address of globex"),
                ]
            )
        ring, headers = key_ring(
            base, acme={"tenant": "acme"}, globex={"tenant": "globex"}, all={"unbound": True}
        )
        with client_of(f"firms={schema.url}", keys=ring, limits=Limits(rate=0)) as client:
            yield client, headers
    finally:
        schema.drop()


def test_nodes_are_those_of_the_key_s_tenant(served):
    client, headers = served
    for tenant in ("acme", "globex"):
        found = client.get("/v1/nodes", headers=headers[tenant]).json()
        models.NodeList.model_validate(found)
        assert found["total"] == (2 if tenant == "acme" else 1)
        searched = client.post(
            "/v1/nodes:search", json={"query": "email address"}, headers=headers[tenant]
        ).json()
        models.NodeList.model_validate(searched)
        assert tenant in searched["nodes"][0]["summary"]
        assert searched["nodes"][0]["band"] in ("high", "good", "partial", "low")
        other = "globex" if tenant == "acme" else "acme"
        assert other not in str(found) + str(searched)
        asked = {"query": "email", "tenant": other}
        told = client.post("/v1/nodes:search", json=asked, headers=headers[tenant])
        assert told.status_code == 400
        assert client.get(f"/v1/nodes?tenant={other}", headers=headers[tenant]).status_code == 400


def test_only_a_key_for_everything_names_a_tenant(served):
    client, headers = served
    assert client.get("/v1/nodes", headers=headers["all"]).status_code == 400
    found = client.get("/v1/nodes?tenant=globex&type=field&dataset=s", headers=headers["all"])
    assert [entry["title"] for entry in found.json()["nodes"]] == ["customers.email"]
    none = client.get("/v1/nodes?tenant=globex&type=table", headers=headers["all"])
    assert none.json()["nodes"] == []


@pytest.mark.parametrize("who", ["acme", "globex"])
def test_no_route_shows_another_tenant_s_documents(served, who):
    client, headers = served
    hidden = [SECRETS["globex" if who == "acme" else "acme"], SECRETS["acme-board"]]
    answers = [
        client.post("/v1/search", json={"query": "launch", "k": 50}, headers=headers[who]),
        client.post("/v1/context", json={"question": "launch"}, headers=headers[who]),
        client.post("/v1/ask", json={"question": "launch", "threshold": 0}, headers=headers[who]),
        client.get("/v1/articles", headers=headers[who]),
        client.get("/v1/graph?around=Harbour City", headers=headers[who]),
        *(client.get(f"/v1/articles/{name}", headers=headers[who]) for name in TENANTS),
        *(client.get(f"/v1/graph?around={name}", headers=headers[who]) for name in TENANTS),
    ]
    shown = ""
    for answer in answers:
        assert answer.status_code in (200, 404)
        shown += answer.text.lower()
        for word in hidden:
            assert word not in answer.text.lower(), answer.url
    assert SECRETS[who] in shown


def test_no_answer_or_log_line_quotes_the_place_of_the_database(served):
    client, headers = served
    place = next(iter(client.app.state.serving.stores)).place
    told = [
        client.get("/v1/stores", headers=headers["all"]).text,
        client.get("/metrics", headers=headers["all"]).text,
        client.log.getvalue(),
    ]
    for text in told:
        assert place not in text
        assert "search_path" not in text


def test_a_database_with_nodes_alone_is_served():
    schema = Schema("plain")
    try:
        init_nodes(schema.url, NodesSchema(384, role=schema.role))
        with KnowledgeVerseAdapter(schema.url) as adapter:
            adapter.add_nodes([node("acme", "customers.email", "customer email address")])
        with client_of(f"only={schema.url}") as client:
            wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready")
            body = {"query": "customer email address", "tenant": "acme", "types": ["field"]}
            found = client.post("/v1/nodes:search", json=body).json()["nodes"]
            assert found[0]["title"] == "customers.email"
            assert 0 < found[0]["scores"]["relevance"] < 1
            none = client.post("/v1/nodes:search", json={**body, "min_score": 1.0}).json()
            assert none["nodes"] == []
            assert client.post("/v1/search", json={"query": "email"}).json()["hits"] == []
            counted = client.get("/v1/nodes:metrics").json()
            assert counted["searches"]["hybrid"]["calls"] == 2
            assert counted["cache_hit_rate"] == 0.5
    finally:
        schema.drop()

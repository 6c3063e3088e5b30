"""Articles, the graph around them, and the report."""

import json

import pytest

from packwise.serving import article_models, models
from serving_world import client_of


def test_articles_come_by_pagerank_in_pages_and_by_title(client):
    first = client.get("/v1/articles?limit=2").json()
    article_models.ArticleList.model_validate(first)
    rest = client.get("/v1/articles?offset=2&limit=500").json()
    listed = first["articles"] + rest["articles"]
    assert first["total"] == len(listed) == 5
    ranks = [entry["pagerank"] for entry in listed]
    assert ranks == sorted(ranks, reverse=True)
    found = client.get("/v1/articles", params={"q": "KEYS"}).json()
    assert [entry["title"] for entry in found["articles"]] == ["Signing keys"]


@pytest.mark.parametrize("name", ["Signing keys", "signing KEYS", "guides/keys.md"])
def test_an_article_is_found_by_title_and_by_id(client, name):
    article = client.get(f"/v1/articles/{name}").json()
    article_models.ArticleResponse.model_validate(article)
    assert article["id"] == "guides/keys.md"
    assert article["metadata"]["team"] == "security"
    assert ["Rotating the signing key"] in [s["path"] for s in article["sections"]]
    for passage in article["passages"]:
        assert article["text"][passage["start"] : passage["end"]].strip()
    (link,) = article["links"]
    ((start, end),) = link.pop("spans")
    assert article["text"][start:end] == "releases"
    assert link == {
        "id": "guides/releases.md",
        "title": "Releases",
        "kind": "link",
        "anchor": "releases",
    }
    assert {block["kind"] for p in article["passages"] for block in p["blocks"]} == {"text"}


def test_what_is_not_there_is_not_found(client):
    for path in (
        "/v1/articles/No such thing",
        f"/v1/articles/{'x' * 600}",
        "/v1/articles/..%2F..%2Fetc%2Fpasswd",
        "/v1/graph?around=Qqqqq",
        "/v1/trace/abc",
        "/v1/report",
        "/v1/nothing",
        "/v2/search",
    ):
        answer = client.get(path)
        assert answer.status_code == 404, path
        models.ErrorResponse.model_validate(answer.json())
    assert client.get("/v1/search").status_code == 405
    assert client.get("/v1/graph").status_code == 400
    assert client.get("/v1/articles?limit=many").status_code == 400


def test_the_graph_around_an_article_holds_its_links_and_shared_names(client):
    drawn = client.get("/v1/graph", params={"around": "Signing keys"}).json()
    article_models.GraphResponse.model_validate(drawn)
    assert drawn["centre"] == "article:guides/keys.md"
    edges = {(edge["source"], edge["target"], edge["kind"]) for edge in drawn["edges"]}
    assert ("article:guides/keys.md", "article:guides/releases.md", "link") in edges
    assert ("article:guides/releases.md", "article:guides/keys.md", "link") in edges
    known = {node["id"] for node in drawn["nodes"]}
    assert all(edge["source"] in known and edge["target"] in known for edge in drawn["edges"])


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_graph_has_no_more_nodes_than_asked_for(client, limit):
    drawn = client.get("/v1/graph", params={"around": "Signing keys", "limit": limit}).json()
    assert 1 <= len(drawn["nodes"]) <= limit
    assert drawn["nodes"][0]["id"] == "article:guides/keys.md"


def test_the_graph_around_a_name_leads_to_the_articles_that_mention_it(tenants_pack):
    with client_of(tenants_pack) as client:
        drawn = client.get("/v1/graph", params={"around": "harbour city"}).json()
    article_models.GraphResponse.model_validate(drawn)
    assert drawn["centre"] == "name:harbour city"
    articles = {node["document"] for node in drawn["nodes"] if node["kind"] == "article"}
    assert articles == {"acme/plan.md", "acme/board.md", "globex/plan.md", "globex/people.md"}


def test_a_report_is_sent_as_it_is_and_a_broken_one_is_no_failure(notes_pack, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps({"dataset": "mine", "metrics": {"ndcg@10": 0.5}}))
    with client_of(notes_pack, report=file) as client:
        assert client.get("/v1/report").json()["metrics"] == {"ndcg@10": 0.5}
        file.write_text("{")
        assert client.get("/v1/report").status_code == 404


def test_knowledge_nodes_need_a_store_that_has_them(client):
    answer = client.get("/v1/nodes?tenant=acme")
    assert answer.status_code == 501
    assert answer.json()["error"]["code"] == "no_nodes"
    assert client.get("/v1/nodes").status_code == 400
    found = client.post("/v1/nodes:search", json={"query": "email", "tenant": "acme"})
    assert found.status_code == 501

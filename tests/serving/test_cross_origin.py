"""Pages of other sites may call a server only if it was told so."""

import pytest

from packwise.errors import UsageError
from packwise.serving.app import build_app
from packwise.serving.limits import Limits
from packwise.serving.store_registry import open_stores
from serving_world import client_of, key_ring

APP = "https://app.example.com"
CALL = {"Origin": APP, "Sec-Fetch-Site": "cross-site"}
PREFLIGHT = {
    "Origin": APP,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
    "Access-Control-Request-Private-Network": "true",
}


def ask(client, headers):
    return client.post("/v1/search", json={"query": "signing key", "k": 1}, headers=headers)


def test_without_the_option_no_other_page_may_call(client):
    assert ask(client, CALL).status_code == 403
    told = client.options("/v1/search", headers=PREFLIGHT)
    assert "access-control-allow-origin" not in told.headers


def test_a_named_origin_may_call_and_no_other(notes_pack):
    with client_of(notes_pack, cors=[APP]) as client:
        allowed = client.options("/v1/search", headers=PREFLIGHT)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == APP
        assert "authorization" in allowed.headers["access-control-allow-headers"]
        assert allowed.headers["access-control-allow-private-network"] == "true"
        found = ask(client, CALL)
        assert found.status_code == 200
        assert found.headers["access-control-allow-origin"] == APP
        wrong = client.post("/v1/search", json={}, headers=CALL)
        assert wrong.status_code == 400
        assert wrong.headers["access-control-allow-origin"] == APP, "a page can read why"
        other = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert ask(client, other).status_code == 403
        assert "access-control-allow-origin" not in ask(client, other).headers
        assert ask(client, {}).status_code == 200


def test_with_keys_a_preflight_needs_none_and_a_call_does(notes_pack, tmp_path):
    ring, headers = key_ring(tmp_path, all={"unbound": True})
    with client_of(notes_pack, keys=ring, limits=Limits(rate=0), cors=["*"]) as client:
        assert client.options("/v1/search", headers=PREFLIGHT).status_code == 200
        assert ask(client, CALL).status_code == 401
        found = ask(client, {**CALL, **headers["all"]})
        assert found.status_code == 200
        assert found.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("origin", ["*", "app.example.com", "https://app.example.com/", "null"])
def test_what_is_no_origin_is_refused(notes_pack, origin):
    stores = open_stores([str(notes_pack)])
    with pytest.raises(UsageError):
        build_app(stores, cors=[origin])
    stores.close()

"""The OpenAPI document is the API: same routes, same bodies, and answers as it says."""

import json
import os
import re
import shutil

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from packwise.serving.app import ROUTES
from packwise.serving.app import openapi_document as document
from serving_world import RunningServer
from tests_world import PATIENCE

CASES = int(os.environ.get("PACKWISE_FUZZ_CASES", "160")) // 16

UNLISTED = {"/", "/{file}", "/docs", "/docs.css", "/openapi.json"}


def test_every_route_is_in_the_document_and_no_other():
    served = {
        (re.sub(r":path\}", "}", route.path), method.lower())
        for route in ROUTES
        if isinstance(route, APIRoute) and route.path not in UNLISTED
        for method in route.methods - {"HEAD"}
    }
    written = {(path, method) for path, entry in document()["paths"].items() for method in entry}
    assert written == served


def test_every_reference_leads_somewhere():
    text = json.dumps(document())
    schemas = document()["components"]["schemas"]
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in schemas


def test_a_generated_client_gets_plain_names_groups_and_types():
    operations = [op for entry in document()["paths"].values() for op in entry.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    assert {"ask", "get_article", "create_upload", "search_nodes"} <= set(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)
    for operation in operations:
        assert len(operation["tags"]) == 1, operation["operationId"]
        for status, response in operation["responses"].items():
            content = response["content"]
            assert all(entry.get("schema") for entry in content.values()), operation["operationId"]
            if status[0] not in "23":
                assert list(content) == ["application/json"], operation["operationId"]


def test_an_error_of_a_route_that_returns_text_is_json(tenants):
    client, _ = tenants
    refused = client.get("/metrics")
    assert refused.status_code == 401
    assert refused.headers["content-type"] == "application/json"


def test_the_page_of_it_asks_nobody_else(client):
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "script" not in page.text
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page.text)
    for path in document()["paths"]:
        assert path in page.text
    assert client.get("/docs.css").headers["content-type"].startswith("text/css")
    assert client.get("/openapi.json").json() == json.loads(json.dumps(document()))


@pytest.fixture(scope="module")
def operations(notes_pack, tmp_path_factory):
    """Every operation of a running server, as schemathesis reads them from its document."""
    pack = shutil.copytree(notes_pack, tmp_path_factory.mktemp("fuzzed") / "my-pack")
    with RunningServer(str(pack), "--rate", "0") as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        yield {found.ok().label: found.ok() for found in schema.get_all_operations()}


LABELS = sorted(
    f"{method.upper()} {path}" for path, entry in document()["paths"].items() for method in entry
)


@pytest.mark.parametrize("label", LABELS)
def test_schemathesis_finds_no_server_error_and_no_answer_outside_the_document(operations, label):
    operation = operations[label]
    good = operation.as_strategy(GenerationMode.POSITIVE)
    bad = operation.as_strategy(GenerationMode.NEGATIVE)
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.checks.response_schema_conformance,
        schemathesis.checks.status_code_conformance,
        schemathesis.checks.content_type_conformance,
    ]
    if label.startswith(("GET /v1/nodes", "POST /v1/nodes")):
        checks.pop(0)  # 501 is what this store answers

    @settings(
        max_examples=CASES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def ask(data):
        try:
            case = data.draw(st.one_of(good, bad))
        except Unsatisfiable:
            return
        case.call_and_validate(checks=checks, timeout=PATIENCE)

    ask()

"""The contract as an OpenAPI 3.1 document, and that document as a page.

Request bodies come from the models that check them; results are written down here and held
against the real ones by the tests.
"""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from packwise import __version__
from packwise.serving import results
from packwise.serving.bodies import AskBody, ChatBody, ContextBody, NodesBody, SearchBody

_STORE = {
    "name": "store",
    "in": "query",
    "description": "The store's name; the first one if none.",
    "schema": {"type": "string", "maxLength": 512},
}


def _query(name: str, about: str, schema: dict[str, Any], *, required: bool = False) -> Any:
    return {
        "name": name,
        "in": "query",
        "description": about,
        "required": required,
        "schema": schema,
    }


def _whole(low: int, high: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}


def _path(name: str, about: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


_NAME = {"type": "string", "minLength": 1, "maxLength": 512}
_TEXT = {"type": "string", "maxLength": 512}
# Route, method, summary, body, result, parameters.
_ROUTES: tuple[tuple[str, str, str, type[BaseModel] | None, type[BaseModel] | None, Any], ...] = (
    ("/v1/search", "post", "Find passages.", SearchBody, results.Search, ()),
    ("/v1/context", "post", "Pack passages into a budget.", ContextBody, results.Context, ()),
    (
        "/v1/ask",
        "post",
        "Answer a question; server-sent events with `stream`.",
        AskBody,
        results.Answer,
        (),
    ),
    (
        "/v1/trace/{id}",
        "get",
        "The record of an earlier question.",
        None,
        results.Trace,
        (_path("id", "A `trace_id`."),),
    ),
    ("/v1/stores", "get", "What can be asked.", None, results.Stores, ()),
    (
        "/v1/articles",
        "get",
        "The articles of a store, highest PageRank first.",
        None,
        results.Articles,
        (
            _STORE,
            _query("q", "Part of the title.", {"type": "string", "maxLength": 512}),
            _query("offset", "How many to skip.", _whole(0, 10_000_000, 0)),
            _query("limit", "How many to send.", _whole(1, 500, 50)),
        ),
    ),
    (
        "/v1/articles/{title}",
        "get",
        "One article, by title or id.",
        None,
        results.Article,
        (_path("title", "Title or id."), _STORE),
    ),
    (
        "/v1/graph",
        "get",
        "What surrounds an article or a name.",
        None,
        results.Graph,
        (
            _query("around", "Title, id or name.", _NAME, required=True),
            _query("limit", "Most nodes.", _whole(1, 200, 40)),
            _STORE,
        ),
    ),
    ("/v1/report", "get", "The evaluation report shown here.", None, None, ()),
    (
        "/v1/nodes",
        "get",
        "A tenant's knowledge nodes, by id.",
        None,
        results.Nodes,
        (
            _query("tenant", "Only for a caller who sees every tenant.", _TEXT),
            _query("dataset", "Only nodes of that data set.", _TEXT),
            _query("type", "Only nodes of that type.", _TEXT),
            _query("offset", "How many to skip.", _whole(0, 10_000_000, 0)),
            _query("limit", "How many to send.", _whole(1, 500, 50)),
            _STORE,
        ),
    ),
    ("/v1/nodes:search", "post", "Find knowledge nodes.", NodesBody, results.Nodes, ()),
    ("/v1/models", "get", "The stores, as models of the OpenAI protocol.", None, None, ()),
    (
        "/v1/chat/completions",
        "post",
        "Answer in the OpenAI protocol.",
        ChatBody,
        results.Completion,
        (),
    ),
    ("/healthz", "get", "The process answers.", None, results.Status, ()),
    ("/readyz", "get", "The stores can be asked.", None, results.Status, ()),
    ("/metrics", "get", "Counters for Prometheus.", None, None, ()),
)
_OPEN = ("/healthz", "/readyz")
_REFUSALS = {
    "400": "A field is missing, unknown or out of its range.",
    "401": "A key is needed.",
    "403": "Another site's page asks.",
    "404": "There is none, or it is another tenant's.",
    "405": "Another method is needed.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "421": "The server answers to another name.",
    "429": "The key has asked too often.",
    "501": "The store holds no knowledge nodes.",
    "503": "Too many wait, or a store is out of reach.",
    "504": "The answer was not ready in time.",
}


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    models = {model for _, _, _, *pair, _ in _ROUTES for model in pair if model is not None}
    models.add(results.Error)
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema(
        [(model, "validation") for model in ordered],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, dict[str, Any]] = {}
    for path, method, summary, body, result, parameters in _ROUTES:
        paths.setdefault(path, {})[method] = _operation(path, summary, body, result, parameters)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Packwise",
            "version": __version__,
            "description": "Passages, packed contexts and answers from knowledge packs.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(
    path: str,
    summary: str,
    body: type[BaseModel] | None,
    result: type[BaseModel] | None,
    parameters: Any,
) -> dict[str, Any]:
    kind = "text/plain" if path == "/metrics" else "application/json"
    schema = _reference(result) if result is not None else {}
    content: dict[str, Any] = {kind: {"schema": schema}}
    if body in (AskBody, ChatBody):
        content["text/event-stream"] = {"schema": _EVENT}
    answers: dict[str, Any] = {"200": {"description": "Answered.", "content": content}}
    error = {"application/json": {"schema": _reference(results.Error)}}
    for status, about in _REFUSALS.items():
        answers[status] = {"description": about, "content": error}
    operation: dict[str, Any] = {
        "summary": summary,
        "operationId": path.strip("/").replace("/", "_").replace(":", "_").translate(_NO_BRACES),
        "responses": answers,
    }
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _reference(body)}},
        }
    if path not in _OPEN:
        # Without keys on the server there is none to send.
        operation["security"] = [{"key": []}, {}]
    return operation


_EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["piece", "answer", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["data"],
}
_NO_BRACES = str.maketrans("", "", "{}")


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


@cache
def page() -> str:
    """The document as HTML that needs nothing but its stylesheet."""
    spec = document()
    schemas = spec["components"]["schemas"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width,initial-scale=1'>",
        "<title>Packwise API</title><link rel=stylesheet href=/docs.css><main>",
        f"<h1>Packwise API <small>{escape(spec['info']['version'])}</small></h1>",
        f"<p>{escape(spec['info']['description'])} ",
        "<a href=/openapi.json>openapi.json</a></p>",
    ]
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            parts.append(_section(path, method, operation, schemas))
    parts.append("</main>")
    return "".join(parts)


def _section(path: str, method: str, operation: Any, schemas: Any) -> str:
    rows = [
        (entry["name"], entry["schema"], entry["description"], entry.get("required", False))
        for entry in operation.get("parameters", ())
    ]
    if "requestBody" in operation:
        body = _resolved(operation["requestBody"]["content"]["application/json"]["schema"], schemas)
        needed = body.get("required", ())
        rows += [
            (name, schema, schema.get("description", ""), name in needed)
            for name, schema in body["properties"].items()
        ]
    rows.sort(key=lambda row: not row[3])
    table = "".join(
        f"<tr><td class=name><code>{escape(name)}</code>{' <i>needed</i>' if needed else ''}"
        f"<td><code>{escape(_kind(schema, schemas))}</code><td>{_prose(about)}"
        for name, schema, about, needed in rows
    )
    shown = f"<table><tr><th>field<th>takes<th>meaning{table}</table>" if rows else ""
    answer = operation["responses"]["200"]["content"].get("application/json", {}).get("schema")
    result = ""
    if answer:
        text = json.dumps(_resolved(answer, schemas).get("properties", {}), indent=1)
        result = f"<details><summary>result</summary><pre>{escape(text)}</pre></details>"
    return (
        f"<section><h2><b>{method.upper()}</b> <code>{escape(path)}</code></h2>"
        f"<p>{_prose(operation['summary'])}</p>{shown}{result}</section>"
    )


def _prose(text: str) -> str:
    """A line as HTML, with what stands between backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _resolved(schema: Any, schemas: Any) -> Any:
    reference = schema.get("$ref")
    return schemas[reference.rpartition("/")[2]] if reference else schema


def _kind(schema: Any, schemas: Any) -> str:
    """A schema in a few words."""
    schema = _resolved(schema, schemas)
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        kinds = [_kind(entry, schemas) for entry in schema["anyOf"]]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))
    kind = str(schema.get("type", "anything"))
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        kind += f" {low:,} to {high:,}"
    return kind


def stylesheet() -> str:
    """How the page looks, by day and by night."""
    return _STYLE


_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 small { font-weight: 400; opacity: .6; font-size: 1rem; }
section { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
h2 { font-size: 1.1rem; overflow-wrap: anywhere; }
h2 b { font-size: .8rem; letter-spacing: .05em; opacity: .7; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td.name { white-space: nowrap; }
i { font-size: .75rem; opacity: .7; }
td, th { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-top: 1px solid var(--line); }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow: auto; max-height: 24rem; border: 1px solid var(--line); padding: .8rem; }
a { color: inherit; }
"""

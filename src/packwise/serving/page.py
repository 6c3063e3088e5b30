"""The web page and the API documentation, served from the package without other hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from packwise.serving.api_errors import ApiError
from packwise.serving.page_bundle import PageFile, bundle
from packwise.serving.state import Json

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parent / "page"
_TEMPLATES = Path(__file__).parent / "templates"
_UNCHANGED = {"Cache-Control": "no-cache"}


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return Json(request.app.openapi(), headers=_UNCHANGED)


_DONE = ("200", "201", "202")


class Schemas:
    """The schemas of an OpenAPI document, in words."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas: dict[str, dict[str, Any]] = document["components"]["schemas"]

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema that a reference leads to."""
        return self._schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def kind(self, schema: dict[str, Any]) -> str:
        """The values that a schema allows."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            kinds = dict.fromkeys(self.kind(entry) for entry in schema["anyOf"])
            return " or ".join(name for name in kinds if name != "null")
        if "enum" in schema:
            return " | ".join(str(value) for value in schema["enum"])
        text = str(schema.get("const", schema.get("type", "any")))
        low, high = schema.get("minimum"), schema.get("maximum")
        return text if low is None or high is None else f"{text} {low:,.10g} to {high:,.10g}"

    def taken(self, operation: dict[str, Any]) -> list[tuple[str, dict[str, Any], str, bool]]:
        """What an operation takes, the required first: name, schema, meaning, required."""
        found = [
            (entry["name"], entry["schema"], entry.get("description", ""), entry["required"])
            for entry in operation.get("parameters", ())
        ]
        for sent in operation.get("requestBody", {}).get("content", {}).values():
            body = self.resolve(sent["schema"])
            required = body.get("required", ())
            for name, schema in body.get("properties", {}).items():
                found.append((name, schema, schema.get("description", ""), name in required))
        return sorted(found, key=lambda entry: not entry[3])

    def result(self, operation: dict[str, Any]) -> dict[str, Any]:
        """The schema of what an operation returns; empty if it is not JSON."""
        answers = operation["responses"]
        content = next(answers[code] for code in _DONE if code in answers)["content"]
        return self.resolve(content.get("application/json", {"schema": {}})["schema"])


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The OpenAPI document as a page."""
    document: dict[str, Any] = request.app.openapi()
    templates = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True)
    templates.filters["code"] = _with_code
    templates.filters["json"] = lambda value: json.dumps(value, indent=1)
    page = templates.get_template("docs.html")
    text = page.render(document=document, schemas=Schemas(document))
    return HTMLResponse(text, headers=_UNCHANGED)


@router.get("/docs.css")
async def style() -> Response:
    """The stylesheet of that page."""
    return FileResponse(_TEMPLATES / "docs.css", media_type="text/css", headers=_UNCHANGED)


def _with_code(text: str | None) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text or "")))


@router.get("/")
@router.get("/{file}")
async def page(request: Request) -> Response:
    """A file of the page; any other name is not found."""
    file = _files(FOLDER).get(request.path_params.get("file", "index.html"))
    if file is None:
        raise ApiError(404, "not_found", "not found")
    headers = {
        "Content-Type": file.content_type,
        "ETag": file.tag,
        "Vary": "Accept-Encoding",
        # The HTML is checked each time, so that an upgrade shows at once.
        "Cache-Control": "public, max-age=31536000, immutable" if file.lasting else "no-cache",
    }
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(_compressed(file), headers=headers)
    return Response(file.content, headers=headers)


@cache
def _files(folder: Path) -> Mapping[str, PageFile]:
    return bundle(folder)


@cache
def _compressed(file: PageFile) -> bytes:
    return file.compressed()

"""The web page and the API documentation, served from the package without other hosts."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from packwise.serving.api_errors import ApiError
from packwise.serving.state import Json

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parent / "page"
_TEMPLATES = Path(__file__).parent / "templates"
_UNCHANGED = {"Cache-Control": "no-cache"}
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return Json(request.app.openapi(), headers=_UNCHANGED)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The OpenAPI document as a page."""
    document: dict[str, Any] = request.app.openapi()
    schemas = document["components"]["schemas"]

    def resolve(schema: dict[str, Any]) -> dict[str, Any]:
        return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def kind(schema: dict[str, Any]) -> str:
        schema = resolve(schema)
        if "anyOf" in schema:
            kinds = dict.fromkeys(kind(entry) for entry in schema["anyOf"])
            return " or ".join(name for name in kinds if name != "null")
        if "enum" in schema:
            return " | ".join(str(value) for value in schema["enum"])
        text = str(schema.get("const", schema.get("type", "any")))
        low, high = schema.get("minimum"), schema.get("maximum")
        return text if low is None or high is None else f"{text} {low:,.10g} to {high:,.10g}"

    templates = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True)
    templates.filters["code"] = _with_code
    templates.filters["json"] = lambda value: json.dumps(value, indent=1)
    page = templates.get_template("docs.html")
    text = page.render(document=document, resolve=resolve, kind=kind)
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
    """A file of the page's folder; any other name is not found."""
    name = request.path_params.get("file", "index.html")
    path = next((path for path in FOLDER.iterdir() if path.name == name), None)
    if path is None or path.suffix not in _CONTENT_TYPES or not path.is_file():
        raise ApiError(404, "not_found", "not found")
    content = path.read_bytes()
    # The browser checks each time, so that an upgrade shows at once.
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {**_UNCHANGED, "ETag": tag, "Content-Type": _CONTENT_TYPES[path.suffix]}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers)

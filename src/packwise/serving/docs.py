"""``/openapi.json`` and ``/docs``: the contract, as a document and as a page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from packwise.serving.openapi import document, page, stylesheet
from packwise.serving.state import Json


async def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return Json(document(), headers={"Cache-Control": "no-cache"})


async def docs(request: Request) -> Response:
    """The same, to read."""
    return Response(page(), media_type="text/html", headers={"Cache-Control": "no-cache"})


async def style(request: Request) -> Response:
    """How that page looks."""
    return Response(stylesheet(), media_type="text/css", headers={"Cache-Control": "no-cache"})

"""The web page's files, from the package: nothing is ever asked of another host."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from packwise.serving.refusals import Refusal

FOLDER = Path(__file__).parent / "page"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    kind: str
    tag: str


def _read(name: str) -> _File | None:
    """A file of the page by its bare name; whatever is not one of the folder's does not exist."""
    for path in FOLDER.iterdir() if FOLDER.is_dir() else ():
        if path.name == name and path.suffix in _KINDS and path.is_file():
            content = path.read_bytes()
            tag = hashlib.blake2b(content, digest_size=12).hexdigest()
            return _File(content, _KINDS[path.suffix], f'"{tag}"')
    return None


async def page(request: Request) -> Response:
    """A file of the page; ``/`` is ``index.html``."""
    found = _read(request.path_params.get("file", "index.html"))
    if found is None:
        raise Refusal(404, "not_found", "not found")
    # The browser asks each time whether it has changed: an upgrade shows at once.
    headers = {"Cache-Control": "no-cache", "ETag": found.tag, "Content-Type": found.kind}
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers)

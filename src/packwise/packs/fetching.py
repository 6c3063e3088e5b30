"""Downloads the file of a pack: over https, to the disk, and only if it has changed."""

from __future__ import annotations

import shutil
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from packwise import __version__
from packwise.errors import StoreError, UsageError

_TIMEOUT = 30.0
_ANSWER_SECONDS = 90.0
_BYTES_PER_SECOND = 1000
"""A server that sends fewer than these passes every time limit of a socket, and never ends."""
_CHUNK = 1 << 18
_SPARE = 64 << 20
"""Bytes that stay free on the disk."""
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file that was downloaded, and the tag by which its server recognises it."""

    path: Path
    tag: str


def is_address(source: str) -> bool:
    """Whether a source is fetched over the network."""
    return source.startswith(("http://", "https://"))


def fetch(url: str, target: Path, tag: str = "") -> FetchedFile | None:
    """Download a file; ``None`` if the server says that the one with this tag is current."""
    _check(url)
    headers = {"User-Agent": f"packwise/{__version__}", "Accept-Encoding": "identity"}
    if tag:
        headers["If-None-Match"] = tag
    opener = urllib.request.build_opener(_SafeRedirects)
    try:
        request = urllib.request.Request(url, headers=headers)
        with _answer(opener, request) as response:
            with target.open("xb") as file:
                _copy(response, file, url)
            length = response.headers.get("Content-Length") or ""
            if length.isdigit() and int(length) != target.stat().st_size:
                raise StoreError(f"{url} stopped sending before the end", fix="try again")
            return FetchedFile(target, response.headers.get("ETag") or "")
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 304:
                return None
            raise StoreError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise StoreError(f"cannot download {url}: {reason}", fix="check the network") from error


def _answer(opener: urllib.request.OpenerDirector, request: urllib.request.Request) -> Any:
    """The answer of a server once its headers are there."""
    answers: list[Any] = []
    late = threading.Event()

    def ask() -> None:
        try:
            answer = opener.open(request, timeout=_TIMEOUT)
        except BaseException as error:  # noqa: BLE001 - raised below
            answers.append(error)
            return
        answers.append(answer)
        if late.is_set():
            answer.close()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWER_SECONDS)
    if not answers:
        late.set()
        raise TimeoutError("it does not answer in time")
    if isinstance(answers[0], BaseException):
        raise answers[0]
    return answers[0]


def _copy(response: Any, file: IO[bytes], url: str) -> None:
    left = shutil.disk_usage(Path(file.name).parent).free - _SPARE
    until = time.monotonic() + _ANSWER_SECONDS
    while chunk := response.read1(_CHUNK):
        left -= len(chunk)
        if left < 0:
            raise UsageError(f"{url} is larger than the disk has room for")
        file.write(chunk)
        until += len(chunk) / _BYTES_PER_SECOND
        if time.monotonic() > until:
            raise TimeoutError("it sends next to nothing")


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _HERE:
        raise UsageError(f"{url} is not an https address", fix="download it yourself, and check it")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to an address that could have been named."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        fp.close()
        _check(newurl)
        if urlsplit(newurl).scheme != "https" and urlsplit(req.full_url).hostname not in _HERE:
            raise UsageError(f"{req.full_url} leads to {newurl}, which is not an https address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

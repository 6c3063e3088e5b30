"""``index.json``: which files an index has, and that this installation wrote them.

The libraries that search an index trust its bytes, and a crafted graph ends the process. So the
list of files with their SHA-256 is signed with a key of this machine, and an index without that
signature is never opened: it is made again from the database. Every file is compared with its
checksum before it is used, unless it has not changed since that was last done.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from packwise.errors import MALFORMED, StoreError
from packwise.file_hashes import remembered_all
from packwise.settings import data_folder
from packwise.stores.durable import open_regular, out_of_handles
from packwise.stores.pack.folder import is_index_file
from packwise.stores.pack.handles import sha256_of

SEAL = "index.json"
FORMAT = 2
SEGMENT_FORMAT = 3
"""Of a folder that holds a segment: an earlier packwise makes whole indexes in its place."""

KEY_FILE = "seal.key"
KEY_VARIABLE = "PACKWISE_SEAL_KEY"
_KEY_BYTES = 32
_MOST_BYTES = 1 << 20

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_process_key = secrets.token_bytes(_KEY_BYTES)


class DamagedIndex(Exception):
    """An index folder cannot be used; it has to be made again."""


class ForeignIndex(DamagedIndex):
    """The list of an index folder is whole, but was not written by this installation."""

    def __init__(self, folder: Path, seal: Seal) -> None:
        super().__init__(f"{folder} was not written by this installation")
        self.seal = seal


class Seal(NamedTuple):
    """What an index folder holds, for which state of the pack, made by which rules.

    ``drift`` counts the passages that came or went since it was last built from scratch.
    ``base`` is the state whose whole indexes a segment belongs to; empty for whole indexes.
    """

    version: str
    analyzer: str
    drift: int
    files: dict[str, tuple[int, str]]
    base: str = ""

    @property
    def content(self) -> dict[str, Any]:
        files = {name: list(entry) for name, entry in sorted(self.files.items())}
        return {
            "format": SEGMENT_FORMAT if self.base else FORMAT,
            "version": self.version,
            "analyzer": self.analyzer,
            "drift": self.drift,
            **({"base": self.base} if self.base else {}),
            "files": files,
        }


def write_seal(
    folder: Path, version: str, analyzer: str, drift: int, files: Iterable[str], base: str = ""
) -> None:
    """Sign the files of a new index folder."""
    entries: dict[str, tuple[int, str]] = {}
    for name in files:
        assert is_index_file(name), name
        path = folder / name
        entries[name] = sha256_of(path)
    content = Seal(version, analyzer, drift, entries, base).content
    (folder / SEAL).write_text(_text(content, sign(content)))


def read_seal(folder: Path) -> Seal:
    """The seal of a folder, unless it is damaged (``DamagedIndex``) or another installation's
    (``ForeignIndex``). Says nothing about the files yet."""
    try:
        with open_regular(folder / SEAL) as file:
            text = file.read(_MOST_BYTES).decode()
        values = cast("dict[str, Any]", json.loads(text))
        # Any changed byte changes either the values or the way they are written.
        signature, _ = values.pop("signature"), values.pop("checksum")
        known = values["format"] in (FORMAT, SEGMENT_FORMAT)
        if text != _text(values, signature) or not known:
            raise ValueError("it was changed, or written by another version of packwise")
        files = {str(name): (int(s), str(digest)) for name, (s, digest) in values["files"].items()}
        version, analyzer, drift = (values[name] for name in ("version", "analyzer", "drift"))
        base = str(values.get("base", ""))
        seal = Seal(str(version), str(analyzer), int(drift), files, base)
        if seal.content != values or not all(map(is_index_file, files)):
            raise ValueError("it lists what an index does not have")
        theirs = bytes.fromhex(signature)
    except OSError as error:
        if out_of_handles(error):
            raise StoreError(f"cannot read {folder}: {error.strerror}") from error
        raise DamagedIndex(f"{folder} is missing or incomplete ({error})") from error
    except MALFORMED as error:
        raise DamagedIndex(f"{folder / SEAL} is damaged: {error}") from error
    if not hmac.compare_digest(bytes.fromhex(sign(values)), theirs):
        raise ForeignIndex(folder, seal)
    return seal


def check_files(folder: Path, seal: Seal, *, again: bool = False) -> None:
    """Raise ``DamagedIndex`` unless every file has the bytes it was sealed with. A file is read
    if it may have changed since it was last read, or ``again``."""
    names = sorted(seal.files, key=lambda name: -seal.files[name][0])
    files = [folder / name for name in names]
    try:
        digests = _read_all(files) if again else remembered_all(files, _read_all)
    except OSError as error:
        if out_of_handles(error):
            raise StoreError(f"cannot read {folder}: {error.strerror}") from error
        raise DamagedIndex(f"{folder} is missing or incomplete ({error})") from error
    for name, found in zip(names, digests, strict=True):
        if found != seal.files[name][1]:
            raise DamagedIndex(f"{folder / name} is damaged")


def _read_all(paths: list[Path]) -> list[str]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=2) as pool:
        return [digest for _, digest in pool.map(sha256_of, paths)]


def _text(content: dict[str, Any], signature: str) -> str:
    # The checksum tells a changed signature from one of another installation.
    checksum = hashlib.sha256(f"{json.dumps(content)} {signature}".encode()).hexdigest()
    return json.dumps({**content, "checksum": checksum, "signature": signature}, indent=1) + "\n"


def sign(content: dict[str, Any]) -> str:
    """The signature of this installation under some content."""
    message = json.dumps(content, sort_keys=True).encode()
    return hmac.new(machine_key(), message, hashlib.sha256).hexdigest()


def machine_key() -> bytes:
    """The key of this installation: ``PACKWISE_SEAL_KEY``, else a file in the data folder that
    is made at first use. Where none can be kept, a key of this process."""
    if given := os.environ.get(KEY_VARIABLE):
        return hashlib.sha256(given.encode()).digest()
    path = data_folder() / KEY_FILE
    with _lock:
        try:
            return _read_key(path) or _make_key(path)
        except OSError as error:
            _log.info("no key can be kept in %s, so indexes are made again: %s", path, error)
            return _process_key


def _read_key(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            key = file.read(_KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    # Windows has neither owners as numbers nor these modes; its profile folders are private.
    private = sys.platform == "win32" or (
        status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 63
    )
    if len(key) != _KEY_BYTES or not private:
        raise StoreError(
            f"{path} is not a key that only you can read",
            fix="remove it: a new one is made, and indexes are made again",
        )
    return key


def _make_key(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # Two processes may make one at once: the first that links it wins.
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink(missing_ok=True)
    return _read_key(path) or _process_key

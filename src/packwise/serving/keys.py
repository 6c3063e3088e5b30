"""API keys: made once, shown once, stored as hashes.

A key is ``pw_ID_SECRET`` with 256 random bits of secret. The file holds, for each, its id, a
salt of its own, the BLAKE2b hash of the secret under that salt, and what the key may see. A
slow hash would add nothing: nobody guesses 256 random bits.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packwise.errors import UsageError
from packwise.serving.callers import Caller
from packwise.settings import data_folder

_KEY = re.compile(r"pw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as stored. An ``unbound`` key sees every tenant and every group."""

    id: str
    salt: str
    hash: str
    tenant: str
    acl: tuple[str, ...]
    unbound: bool
    label: str
    created: int

    @property
    def caller(self) -> Caller:
        return Caller(key=self.id, tenant=self.tenant, acl=self.acl, unbound=self.unbound)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on that host; elsewhere keys are needed."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def default_file() -> Path:
    """Where keys are kept unless a file is named."""
    return data_folder() / "serve-keys.json"


class KeyRing:
    """The keys of one file; what another process adds or revokes counts at once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}

    @property
    def file(self) -> Path:
        return self._file

    def keys(self) -> list[ApiKey]:
        """All keys, oldest first."""
        return sorted(self._current().values(), key=lambda key: (key.created, key.id))

    def caller_of(self, token: str) -> Caller | None:
        """Whose key this is; ``None`` when it is nobody's."""
        match = _KEY.fullmatch(token)
        if match is None:
            return None
        key = self._current().get(match[1])
        if key is None:
            return None
        if not hmac.compare_digest(_hash(match[2], key.salt), key.hash):
            return None
        return key.caller

    def add(
        self,
        *,
        tenant: str = "",
        acl: tuple[str, ...] = (),
        unbound: bool = False,
        label: str = "",
    ) -> tuple[ApiKey, str]:
        """A new key, and the one sight of its text: for a tenant, or ``unbound``."""
        if bool(tenant) == unbound or (unbound and acl):
            raise UsageError(
                "a key is for one tenant, or for all of them and then without groups",
                fix="packwise serve keys add --tenant T",
            )
        for kind, values in (("tenant", (tenant,) if tenant else ()), ("acl group", acl)):
            for value in values:
                if not _NAME.fullmatch(value) or value != value.strip():
                    raise UsageError(f"{value!r} cannot be a {kind}")
        secret, salt = secrets.token_urlsafe(32), secrets.token_hex(16)
        key = ApiKey(
            id=secrets.token_hex(6),
            salt=salt,
            hash=_hash(secret, salt),
            tenant=tenant,
            acl=acl,
            unbound=unbound,
            label=label,
            created=int(time.time()),
        )
        with self._writing() as keys:
            keys[key.id] = key
        return key, f"pw_{key.id}_{secret}"

    def revoke(self, name: str) -> ApiKey:
        """Take a key away by its id. Raises ``UsageError`` when there is none of that id."""
        with self._writing() as keys:
            gone = keys.pop(name, None)
            if gone is None:
                raise UsageError(f"there is no key {name!r}", fix="packwise serve keys list")
        return gone

    def _writing(self) -> _Writing:
        return _Writing(self._file)

    def _current(self) -> dict[str, ApiKey]:
        with self._lock:
            try:
                status = self._file.stat()
            except FileNotFoundError:
                self._stamp, self._keys = None, {}
                return self._keys
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._keys = _read(self._file)
                self._stamp = stamp
            return self._keys


class _Writing:
    """The keys to change, under the file's lock; what is in them at the end is written whole."""

    def __init__(self, file: Path) -> None:
        from filelock import FileLock

        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._lock = FileLock(f"{file}.lock", timeout=10)
        self._keys: dict[str, ApiKey] = {}

    def __enter__(self) -> dict[str, ApiKey]:
        self._lock.acquire()
        try:
            self._keys = _read(self._file) if self._file.exists() else {}
        except BaseException:
            self._lock.release()
            raise
        return self._keys

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                _write(self._file, self._keys)
        finally:
            self._lock.release()


def _hash(secret: str, salt: str) -> str:
    return hashlib.blake2b(
        secret.encode(), digest_size=32, salt=bytes.fromhex(salt), person=b"packwise-api-key"
    ).hexdigest()


def _read(file: Path) -> dict[str, ApiKey]:
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
        if content["version"] != _VERSION:
            raise ValueError("another version")
        rows: list[dict[str, Any]] = content["keys"]
        keys = [_key(row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{file} cannot be read as a file of API keys", fix="packwise serve keys add --tenant T"
        ) from error
    return {key.id: key for key in keys}


def _key(row: dict[str, Any]) -> ApiKey:
    values: dict[str, Any] = {**row, "acl": tuple(row["acl"])}
    return ApiKey(**values)


def _write(file: Path, keys: dict[str, ApiKey]) -> None:
    """Replace the file at once; only its owner can read it."""
    content = {"version": _VERSION, "keys": [asdict(key) for key in keys.values()]}
    handle, scratch = tempfile.mkstemp(prefix=".keys-", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(content, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
        Path(scratch).replace(file)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise

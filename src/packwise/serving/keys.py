"""API keys: created once, shown once, stored as hashes.

A key is ``pw_ID_SECRET`` with 256 random bits of secret. The file has, for each key, its id, a
salt of its own, the BLAKE2b hash of the secret with that salt, and what the key may see. A slow
hash would add nothing: 256 random bits cannot be guessed.
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
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packwise.errors import PackwiseError, UsageError
from packwise.serving.callers import Caller
from packwise.settings import data_folder

_KEY = re.compile(r"pw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_VERSION = 1
_ADD = "packwise serve keys add --tenant T"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as stored. An ``unbound`` key sees every tenant and every group; an ``admin`` key may
    also change the packs."""

    id: str
    salt: str
    hash: str
    tenant: str
    acl: tuple[str, ...]
    unbound: bool
    label: str
    created: int
    admin: bool = False


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server on that host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def default_file() -> Path:
    """Where keys are kept unless a file is given."""
    return data_folder() / "serve-keys.json"


class KeyRing:
    """The keys in one file. Keys that another process adds or revokes count at once."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}

    def keys(self) -> list[ApiKey]:
        """All keys, oldest first."""
        return sorted(self._current().values(), key=lambda key: (key.created, key.id))

    def caller_of(self, token: str) -> Caller | None:
        """The caller with this key; ``None`` if the key is not valid."""
        match = _KEY.fullmatch(token)
        key = self._current().get(match[1]) if match else None
        if not match or not key or not hmac.compare_digest(_hash(match[2], key.salt), key.hash):
            return None
        return Caller(
            key=key.id, tenant=key.tenant, acl=key.acl, unbound=key.unbound, admin=key.admin
        )

    def add(
        self,
        *,
        tenant: str = "",
        acl: tuple[str, ...] = (),
        unbound: bool = False,
        label: str = "",
        admin: bool = False,
    ) -> tuple[ApiKey, str]:
        """A new key for a tenant, or ``unbound``, and its text, which is not stored."""
        if admin and not unbound:
            raise UsageError(
                "an admin key sees every tenant", fix="packwise serve keys add --all --admin"
            )
        if bool(tenant) == unbound or (unbound and acl):
            raise UsageError(
                "a key is for one tenant, or for all tenants and then without groups", fix=_ADD
            )
        for kind, values in (("tenant", (tenant,) if tenant else ()), ("acl group", acl)):
            for value in values:
                if not _NAME.fullmatch(value) or value != value.strip():
                    raise UsageError(f"{value!r} is not a valid {kind}")
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
            admin=admin,
        )
        with _changing(self.file) as keys:
            keys[key.id] = key
        return key, f"pw_{key.id}_{secret}"

    def revoke(self, name: str) -> ApiKey:
        """Remove the key with this id. Raises ``UsageError`` if there is none."""
        with _changing(self.file) as keys:
            if name not in keys:
                raise UsageError(f"there is no key {name!r}", fix="packwise serve keys list")
            return keys.pop(name)

    def _current(self) -> dict[str, ApiKey]:
        with self._lock:
            try:
                status = self.file.stat()
            except FileNotFoundError:
                self._stamp, self._keys = None, {}
                return self._keys
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._keys = _read(self.file)
                self._stamp = stamp
            return self._keys


@contextmanager
def _changing(file: Path) -> Generator[dict[str, ApiKey]]:
    """The keys of a file, to be changed under its lock; written as a whole at the end."""
    from filelock import FileLock

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock", timeout=10):
            keys = _read(file) if file.exists() else {}
            yield keys
            _write(file, keys)
    except OSError as error:
        reason = error.strerror or str(error)
        raise PackwiseError(f"cannot write {file}: {reason}; the keys are as before") from error


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
        for row in rows:
            row["acl"] = tuple(row["acl"])
        keys = [ApiKey(**row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{file} is not a valid file of API keys", fix=_ADD) from error
    return {key.id: key for key in keys}


def _write(file: Path, keys: dict[str, ApiKey]) -> None:
    """Replace the file atomically; only its owner can read it."""
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

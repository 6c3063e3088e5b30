"""Hashes of model files, computed once and remembered while a file stays as it was."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any, cast

from packwise.settings import cache_folder

_lock = threading.Lock()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, read in full."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """The SHA-256 of a file; not read again while its path, size and time of change stay.

    What was computed is kept in the cache folder. Where that cannot be written, the file is
    read every time.
    """
    real = path.resolve()
    before = real.stat()
    state = (before.st_size, before.st_mtime_ns)
    with _lock:
        known = _read().get(str(real))
        if known is not None and known[:2] == state:
            return known[2]
        digest = sha256_of(real)
        after = real.stat()
        if (after.st_size, after.st_mtime_ns) == state:
            _remember(str(real), (*state, digest))
        return digest


def _memory() -> Path:
    return cache_folder() / "hashes.json"


def _read() -> dict[str, tuple[int, int, str]]:
    try:
        content: Any = json.loads(_memory().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    entries: dict[str, tuple[int, int, str]] = {}
    for path, entry in cast("dict[str, Any]", content).items():
        match entry:
            case [int(size), int(changed), str(digest)]:
                entries[path] = (size, changed, digest)
            case _:
                continue
    return entries


def _remember(path: str, entry: tuple[int, int, str]) -> None:
    entries = {p: e for p, e in _read().items() if Path(p).exists()}
    entries[path] = entry
    memory = _memory()
    # A cache: a read-only home or a full disk costs time, never the result.
    with contextlib.suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=memory.parent, prefix=".hashes-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file)
            Path(name).replace(memory)
        finally:
            Path(name).unlink(missing_ok=True)

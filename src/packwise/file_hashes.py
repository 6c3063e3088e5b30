"""Hashes of files, read again only when the files may have changed.

A file is the same as long as its inode, its size and its times stay: programs can set the time of
a file's content, but not the one at which it was set. What was read is kept in the cache folder
for a day, so that a disk that loses a bit is noticed too. Windows has no such time; there only
the hashes of large files are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from packwise.settings import cache_folder

KEPT_SECONDS = 24 * 3600.0

_SETTLED_NS = 2_000_000_000
"""Clocks of file systems go in steps of up to two seconds: a file may change twice in one."""

_KEPT_BYTES = 256 << 20 if sys.platform == "win32" else 64 << 10
"""Bytes of a file from which its hash is kept between processes."""

_State = tuple[int, ...]
_Entry = tuple[_State, float, str]
_lock = threading.Lock()
_here: dict[str, tuple[_State, str]] = {}
_kept: dict[str, _Entry] | None = None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, read in full."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered(path: Path, read: Callable[[Path], str] = sha256_of) -> str:
    """What ``read`` makes of the bytes of a file, unless that is known. A path always has the
    same ``read``, and nothing is kept where it returns an empty text. Raises ``OSError``."""
    return remembered_all([path], lambda paths: map(read, paths))[0]


def remembered_all(paths: Iterable[Path], read: Callable[[list[Path]], Iterable[str]]) -> list[str]:
    """The same for several files; ``read`` gets those that are not known."""
    states = {path.absolute(): _state(path) for path in paths}
    found: dict[Path, str] = {}
    for path, state in states.items():
        known = _known(str(path), state)
        if known is not None:
            found[path] = known
    unknown = [path for path in states if path not in found]
    if unknown:
        found.update(zip(unknown, read(unknown), strict=True))
        _remember({path: (states[path], found[path]) for path in unknown})
    return [found[path] for path in states]


def forget() -> None:
    """Know nothing that this process has read, as a new process does."""
    global _kept
    with _lock:
        _here.clear()
        _kept = None


def _known(path: str, state: _State) -> str | None:
    global _kept
    with _lock:
        here = _here.get(path)
        if here is not None:
            return here[1] if here[0] == state else None
        if _kept is None:
            _kept = _read_kept()
        kept = _kept.get(path)
    if kept is None or kept[0] != state or not 0 <= time.time() - kept[1] < KEPT_SECONDS:
        return None
    return kept[2]


def _state(path: Path) -> _State:
    status = os.lstat(path)
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, *times


def _remember(read: Mapping[Path, tuple[_State, str]]) -> None:
    now = time.time()
    # One that changed while it was read has another state when it is asked for again.
    found = {str(path): entry for path, entry in read.items() if entry[1]}
    with _lock:
        _here.update(found)
    entries = {
        path: (state, now, digest)
        for path, (state, digest) in found.items()
        if state[3] >= _KEPT_BYTES and max(state[4:]) + _SETTLED_NS < now * 1e9
    }
    if not entries:
        return
    # A cache: a read-only home or a full disk costs time, never the result.
    with _lock, contextlib.suppress(OSError):
        kept = {p: e for p, e in _read_kept().items() if p not in entries and os.path.lexists(p)}
        replace_file(_memory(), json.dumps(kept | entries).encode())


def _memory() -> Path:
    return cache_folder() / "hashes.json"


def _read_kept() -> dict[str, _Entry]:
    try:
        content: Any = json.loads(read_own(_memory()) or b"{}")
    except ValueError:
        return {}
    entries: dict[str, _Entry] = {}
    for path, entry in cast("dict[str, Any]", content if isinstance(content, dict) else {}).items():
        match entry:
            case [list(state), float(read), str(digest)]:
                entries[path] = tuple(cast("list[int]", state)), read, digest
            case _:
                continue
    return entries


def read_own(path: Path) -> bytes | None:
    """The content of a file in the cache folder, if no other user can have written it."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            ours = sys.platform == "win32" or (
                status.st_uid == os.geteuid() and not status.st_mode & 0o022
            )
            return file.read() if ours else None
    except OSError:
        return None


def replace_file(path: Path, content: bytes) -> None:
    """Put content into a file of the cache folder, all at once. Raises ``OSError``."""
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".kept-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)

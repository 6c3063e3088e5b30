"""Reading the bytes of a database that this process may have open.

Closing any handle of a file ends every lock that the process holds on it, also SQLite's own
(``fcntl``), after which a writer removes the log that a reader still uses. So a handle of ours
stays open as long as a connection to the same file does.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from packwise.stores.durable import open_regular

_lock = threading.Lock()
_connected: dict[tuple[int, int], int] = {}
_kept: dict[tuple[int, int], list[Any]] = {}


class Connection(sqlite3.Connection):
    """A connection to a file that is counted while it is open."""

    _file: tuple[int, int] | None = None

    def count(self, database: Path) -> None:
        """To be called before the file is read or locked for the first time."""
        with _lock:
            status = database.stat()
            self._file = status.st_dev, status.st_ino
            _connected[self._file] = _connected.get(self._file, 0) + 1

    def close(self) -> None:
        super().close()
        with _lock:
            file, self._file = self._file, None
            if file is None:
                return
            _connected[file] -= 1
            if _connected[file] == 0:
                del _connected[file]
                for handle in _kept.pop(file, ()):
                    handle.close()


def sha256_of(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file. Raises ``OSError``."""
    digest = hashlib.sha256()
    with _reading(path) as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
        return os.fstat(handle.fileno()).st_size, digest.hexdigest()


def sha256_of_blocks(
    path: Path, size: int, wanted: Callable[[int], bool]
) -> tuple[int, dict[int, str]]:
    """The size of a file and the SHA-256 of its last block and of those that are wanted, by
    their numbers."""
    with _reading(path) as handle:
        total = os.fstat(handle.fileno()).st_size
        found: dict[int, str] = {}
        blocks = range(-(-total // size))
        for at in (at for at in blocks if wanted(at) or at == len(blocks) - 1):
            handle.seek(at * size)
            found[at] = hashlib.sha256(handle.read(size)).hexdigest()
        return total, found


@contextmanager
def _reading(path: Path) -> Generator[IO[bytes]]:
    handle = open_regular(path)
    status = os.fstat(handle.fileno())
    try:
        yield handle
    finally:
        file = status.st_dev, status.st_ino
        with _lock:
            if file in _connected:
                _kept.setdefault(file, []).append(handle)
            else:
                handle.close()

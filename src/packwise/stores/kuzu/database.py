"""One database file as it was opened: its connections, and what is kept of it in memory."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from packwise.errors import StoreError, StoreMissing, StoreTimeout
from packwise.stores.kuzu.engine import connect, open_database, unreadable

Stamp = tuple[int, int, int]
_BATCH = 2000


def stamp_of(path: Path) -> Stamp:
    """What tells one state of a file from the next. Raises ``StoreMissing``."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise StoreMissing(
            f"there is no Kuzu database at {path}", fix=f"packwise build SOURCE --out kuzu:{path}"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    return found.st_ino, found.st_mtime_ns, found.st_size


class Opened:
    """An open database file. It stays as it is when another takes the file's place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stamp = stamp_of(path)
        self._engine, self._database = open_database(path)
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._users = 0
        self._retired = False

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[list[Any]]:
        """The rows a query answers with. Raises ``StoreError`` where it fails."""
        with self._connection() as connection:
            return _run(connection, query, parameters or {}, self.path).get_all()

    def records(
        self, query: str, parameters: Mapping[str, Any], timeout_s: float
    ) -> list[dict[str, Any]]:
        """The same by column name, and ended after ``timeout_s`` seconds."""
        with self._connection() as connection:
            connection.set_query_timeout(max(1, round(timeout_s * 1000)))
            try:
                try:
                    result = _run(connection, query, parameters, self.path)
                except StoreError as error:
                    # All that an engine says of a query that ran out of time.
                    if "Interrupted" not in str(error):
                        raise
                    raise StoreTimeout(
                        f"{self.path}: the query took longer than {timeout_s:g} s",
                        fix="ask for less, or allow it more time",
                    ) from error
                names = result.get_column_names()
                return [dict(zip(names, row, strict=True)) for row in result.get_all()]
            finally:
                connection.set_query_timeout(0)

    def each(
        self, query: str, values: Sequence[Any], parameters: Mapping[str, Any] | None = None
    ) -> list[list[Any]]:
        """The rows of a query over ``UNWIND $values``, in batches that one query takes well."""
        found: list[list[Any]] = []
        for at in range(0, len(values), _BATCH):
            batch = {**(parameters or {}), "values": list(values[at : at + _BATCH])}
            found += self.rows(query, batch)
        return found

    @contextmanager
    def used(self) -> Generator[None]:
        """Keep it open for as long as it is used."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                last = self._retired and self._users == 0
            if last:
                self._close()

    def retire(self) -> None:
        """Close it once nobody uses it any more."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            last = self._users == 0
        if last:
            self._close()

    @contextmanager
    def _connection(self) -> Generator[Any]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            # One thread a query: callers bring their own, and small queries spread badly.
            connection = connect(self._engine, self._database, threads=1)
        try:
            yield connection
        finally:
            self._idle.put(connection)

    def _close(self) -> None:
        while not self._idle.empty():
            self._idle.get_nowait().close()
        self._database.close()


def _run(connection: Any, query: str, parameters: Mapping[str, Any], path: Path) -> Any:
    try:
        return connection.execute(query, dict(parameters))
    except RuntimeError as error:
        raise StoreError(f"{path}: {' '.join(str(error).split())[:300]}") from error


def sync_file(path: Path) -> None:
    """Have a file on the disk before it takes another's place."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

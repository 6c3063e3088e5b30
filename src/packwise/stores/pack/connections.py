"""Read connections to one pack, shared by the threads of a process."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packwise.errors import StoreError
from packwise.stores.pack.schema import DATABASE, check_pack, connect_reader

# SQLite forbids even closing a connection in a child of the process that opened it.
_inherited: list[list[_Open]] = []


@dataclass(frozen=True, slots=True)
class _Open:
    connection: sqlite3.Connection
    file: tuple[int, int] | None


class Connections:
    """Lends each caller a connection of its own and takes it back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: list[_Open] = []
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def snapshot(self) -> Generator[sqlite3.Connection]:
        """A connection that sees one state of the pack as long as it is held."""
        lent = self._take()
        try:
            lent.connection.execute("BEGIN")
            try:
                yield lent.connection
            finally:
                lent.connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise StoreError(
                f"cannot read {self._folder}: {error}",
                fix=f"packwise pack validate {self._folder}",
            ) from error
        finally:
            self._give_back(lent)

    def close(self) -> None:
        """Close what is idle now, and the rest as it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for entry in idle:
            entry.connection.close()

    def _take(self) -> _Open:
        file = self._file()
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._folder} is closed", fix="open it again")
            if self._process != os.getpid():
                _inherited.append(self._idle)
                self._idle, self._process = [], os.getpid()
            while self._idle:
                entry = self._idle.pop()
                # Where the pack was replaced by another, the old file is still open here.
                if file is None or entry.file == file:
                    return entry
                entry.connection.close()
        connection = connect_reader(self._folder)
        try:
            check_pack(connection, self._folder)
        except BaseException:
            connection.close()
            raise
        return _Open(connection, file)

    def _file(self) -> tuple[int, int] | None:
        try:
            status = (self._folder / DATABASE).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _give_back(self, entry: _Open) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(entry)
                return
        entry.connection.close()

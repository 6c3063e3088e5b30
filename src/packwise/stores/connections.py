"""Read connections to one pack, shared by the threads of a process."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from packwise.errors import StoreError
from packwise.stores.schema import DATABASE, check_pack, connect_reader

# SQLite forbids even closing a connection in a child of the process that opened it.
_inherited: list[list[sqlite3.Connection]] = []


class Connections:
    """Lends each caller a connection of its own and takes it back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: list[sqlite3.Connection] = []
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def snapshot(self) -> Generator[sqlite3.Connection]:
        """A connection that sees one state of the pack as long as it is held."""
        connection = self._take()
        try:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise StoreError(
                f"cannot read {self._folder}: {error}",
                fix=f"packwise pack validate {self._folder}",
            ) from error
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close what is idle now, and the rest as it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._folder} is closed", fix="open it again")
            if self._process != os.getpid():
                _inherited.append(self._idle)
                self._idle, self._process = [], os.getpid()
            self._drop_replaced()
            if self._idle:
                return self._idle.pop()
        connection = connect_reader(self._folder)
        try:
            check_pack(connection, self._folder)
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop_replaced(self) -> None:
        """Close the connections to a database that has been replaced by another file."""
        try:
            status = (self._folder / DATABASE).stat()
        except OSError:
            return
        file = (status.st_dev, status.st_ino)
        if self._file not in (None, file):
            for connection in self._idle:
                connection.close()
            self._idle = []
        self._file = file

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

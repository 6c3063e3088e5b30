"""What the processes of one server share: rate limits and traces in a small database, metrics in
files beside it.

A server of one process keeps the same database in memory. Nothing in it outlives the server.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TABLES = """
CREATE TABLE IF NOT EXISTS buckets (key TEXT PRIMARY KEY, tokens REAL, since REAL);
CREATE TABLE IF NOT EXISTS traces (
    at INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, owner TEXT, record TEXT
);
CREATE TABLE IF NOT EXISTS reports (process INTEGER PRIMARY KEY, at REAL, content TEXT);
"""
_WAIT_SECONDS = 10.0
REPORT_SECONDS = 1.0
"""How often a process reports what it is doing."""


class SharedState:
    """The database of one server. Safe to use from several threads; with a ``folder``, also
    from several processes."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._database = sqlite3.connect(
            folder / "state.sqlite" if folder else ":memory:",
            timeout=_WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        # A process that is killed while it writes leaves a whole database, and a crash of the
        # machine ends the server with it: nothing has to reach the disk.
        self._database.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; BEGIN IMMEDIATE;"
            f"{_TABLES} COMMIT;"
        )

    @property
    def metrics_folder(self) -> str | None:
        """Where each process keeps its metrics; ``None`` for a server of one process."""
        return str(self.folder) if self.folder else None

    @contextmanager
    def changing(self) -> Generator[sqlite3.Connection]:
        """The database, for one change that others see whole or not at all."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """The database, to read from."""
        with self._lock:
            yield self._database

    def report(self, values: dict[str, Any]) -> None:
        """Let the other processes know what this one is doing."""
        row = (os.getpid(), time.monotonic(), json.dumps(values))
        with self.changing() as database:
            database.execute("REPLACE INTO reports VALUES (?, ?, ?)", row)

    def reports(self) -> list[dict[str, Any]]:
        """What each process that is still alive reported last."""
        since = time.monotonic() - 10 * REPORT_SECONDS
        with self.reading() as database:
            found = database.execute("SELECT content FROM reports WHERE at > ?", (since,))
            return [json.loads(content) for (content,) in found]

    def close(self) -> None:
        with self._lock:
            self._database.close()

"""A Kuzu database file: the engine that reads it (Kuzu, or its successor Ladybug), and its
connections."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from packwise.errors import (
    NotAStore,
    StoreBusy,
    StoreError,
    StoreMissing,
    StoreTimeout,
    StoreUnreachable,
)

_MAGIC = {b"KUZU": "kuzu", b"LBUG": "ladybug"}
_INSTALL = {
    "kuzu": "pip install 'packwise[kuzu]'",
    "ladybug": "pip install ladybug, then run INSTALL vector once with it",
}
_BUFFER_BYTES = 256 << 20
_BATCH = 2000
_MOST_BYTES = 1 << 40

Stamp = tuple[int, int, int]


def engine_for(path: Path) -> Any:
    """The module that can open the database at ``path``, or create one there.

    A file says which of the two wrote it; a new one is created by Ladybug when it is installed
    and its vector extension loads, else by Kuzu. Raises ``StoreError`` or ``NotAStore``.
    """
    if path.is_file():
        try:
            with path.open("rb") as file:
                name = _MAGIC.get(file.read(4))
        except OSError as error:
            raise unreadable(path, error) from error
        if name is None:
            raise NotAStore(f"{path} is not a Kuzu database", fix="name the file of one")
        return _usable(name)
    for name in ("ladybug", "kuzu"):
        if not _trouble(name):
            return _usable(name)
    return _usable("kuzu")


def open_database(path: Path, *, read_only: bool = True) -> tuple[Any, Any]:
    """The engine and the open database. Raises ``StoreError`` where it cannot be opened."""
    engine = engine_for(path)
    try:
        database = engine.Database(
            str(path),
            buffer_pool_size=_BUFFER_BYTES,
            max_db_size=_MOST_BYTES,
            read_only=read_only,
        )
    except RuntimeError as error:
        if "lock" in str(error).lower():
            raise StoreBusy(
                f"another program is writing to {path}", fix="wait for it to end"
            ) from error
        raise StoreError(
            f"cannot open {path}: {_line(error)}", fix="name a whole file, or build it again"
        ) from error
    return engine, database


def unreadable(path: Path, error: OSError) -> StoreUnreachable:
    """The error for a file that the system does not let us read."""
    return StoreUnreachable(
        f"cannot read {path}: {error.strerror}", fix="check the path and its permissions"
    )


def connect(engine: Any, database: Any, *, threads: int = 0) -> Any:
    """A connection with the vector extension loaded."""
    connection = engine.Connection(database, num_threads=threads)
    connection.execute("LOAD vector")
    return connection


def _usable(name: str) -> Any:
    trouble = _trouble(name)
    if trouble:
        raise StoreError(f"{name} cannot be used: {trouble}", fix=_INSTALL[name])
    return import_module(name)


@lru_cache(maxsize=2)
def _trouble(name: str) -> str:
    """Why an engine cannot be used; empty when it can."""
    try:
        engine = import_module(name)
    except ImportError:
        return "it is not installed"
    try:
        with contextlib.closing(engine.Database(":memory:", buffer_pool_size=64 << 20)) as database:
            engine.Connection(database).execute("LOAD vector")
    except RuntimeError as error:
        return f"its vector extension does not load ({_line(error)})"
    return ""


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def stamp_of(path: Path) -> Stamp:
    """Differs between two states of a file. Raises ``StoreMissing``."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise StoreMissing(
            f"there is no Kuzu database at {path}", fix=f"packwise build SOURCE --out kuzu:{path}"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    return found.st_ino, found.st_mtime_ns, found.st_size


class DatabaseFile:
    """An open database file. It stays as it is when another file replaces it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stamp = stamp_of(path)
        self._engine, self._database = open_database(path)
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._users = 0
        self._retired = False

    @cached_property
    def tables(self) -> frozenset[str]:
        """The names of its tables."""
        return frozenset(row[1] for row in self.rows("CALL SHOW_TABLES() RETURN *"))

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[list[Any]]:
        """The rows of a query. Raises ``StoreError`` where it fails."""
        with self._connection() as connection:
            return _run(connection, query, parameters or {}, self.path).get_all()

    def records(
        self, query: str, parameters: Mapping[str, Any], timeout_s: float
    ) -> list[dict[str, Any]]:
        """The same by column name, stopped after ``timeout_s`` seconds."""
        with self._connection() as connection:
            connection.set_query_timeout(max(1, round(timeout_s * 1000)))
            try:
                try:
                    result = _run(connection, query, parameters, self.path)
                except StoreError as error:
                    # All that an engine says about a query that ran out of time.
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
        """Close it once no one uses it any more."""
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
            # One thread per query: callers bring their own, and small queries spread badly.
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

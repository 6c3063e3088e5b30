"""The graph database itself: Kuzu, or its successor Ladybug where that can be used."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from packwise.errors import NotAStore, StoreBusy, StoreError, StoreUnreachable

_MAGIC = {b"KUZU": "kuzu", b"LBUG": "ladybug"}
_INSTALL = {
    "kuzu": "pip install 'packwise[kuzu]'",
    "ladybug": "pip install ladybug, then run INSTALL vector once with it",
}
_BUFFER_BYTES = 256 << 20
_MOST_BYTES = 1 << 40


def engine_for(path: Path) -> Any:
    """The module that can open the database at ``path``, or make one there.

    A file tells which of the two wrote it; a new one is made by Ladybug when it is installed
    and its vector extension loads, else by Kuzu. Raises ``StoreError`` or ``NotAStore``.
    """
    if path.is_file():
        try:
            with path.open("rb") as file:
                name = _MAGIC.get(file.read(4))
        except OSError as error:
            raise unreadable(path, error) from error
        if name is None:
            raise NotAStore(f"{path} is no Kuzu database", fix="name the file of one")
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
    """What is said of a file that the system does not let us read."""
    return StoreUnreachable(
        f"cannot read {path}: {error.strerror}", fix="check the path and its permissions"
    )


def connect(engine: Any, database: Any, *, threads: int = 0) -> Any:
    """A connection with the vector functions at hand."""
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

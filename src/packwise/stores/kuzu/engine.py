"""The graph database itself: Kuzu, or its successor Ladybug where that can be used."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from packwise.errors import NotAStore, StoreError

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
        with path.open("rb") as file:
            name = _MAGIC.get(file.read(4))
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
        raise StoreError(f"cannot open {path}: {_line(error)}") from error
    return engine, database


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

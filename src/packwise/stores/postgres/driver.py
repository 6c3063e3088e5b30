"""The driver's types, named once. psycopg itself is imported where it is used: it comes with
the extra ``packwise[postgres]``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from packwise.errors import UsageError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
    """A connection whose rows are tuples."""


def require_driver() -> None:
    """Raise ``UsageError`` where the driver is not installed."""
    if find_spec("psycopg") is None:
        raise UsageError(
            "PostgreSQL needs the driver psycopg", fix="pip install 'packwise[postgres]'"
        )

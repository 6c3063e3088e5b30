"""The one row that says which state the passages are in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from packwise.errors import StoreMissing
from packwise.stores.postgres.migrations import applied_version
from packwise.stores.postgres.passages_schema import COMPONENT

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection


@dataclass(frozen=True, slots=True)
class State:
    """What the last finished build left; ``generation`` 0 when there was none.

    ``terms`` counts the index terms of all passages, with repetitions.
    """

    generation: int
    token: str
    embedder: str
    embedder_version: str
    dim: int
    analyzer: str
    rules: str
    documents: int
    passages: int
    links: int
    terms: int
    created_at: datetime
    updated_at: datetime

    @property
    def version(self) -> str:
        return f"{self.generation}-{self.token}"

    @property
    def average_length(self) -> float:
        return self.terms / self.passages if self.passages else 0.0


_COLUMNS = (
    b"SELECT generation, token, embedder, embedder_version, dim, analyzer, rules, documents,"
    b" passages, links, terms, created_at, updated_at FROM packwise_store"
)


def read_state(connection: Connection) -> State:
    """The state; the tables must be there."""
    row = connection.execute(_COLUMNS).fetchone()
    assert row is not None
    return State(*row)


def finished_state(connection: Connection, location: str) -> State:
    """The state of a finished build. Raises ``StoreMissing`` where there is none."""
    from psycopg import errors

    try:
        state = read_state(connection)
    except errors.UndefinedTable:
        state = None
    if state is None or state.generation == 0:
        raise StoreMissing(
            f"{location} holds no passages", fix=f"packwise build SOURCE --out {location}"
        )
    return state


def has_tables(connection: Connection) -> bool:
    """Whether the tables for passages are in this database."""
    return applied_version(connection, COMPONENT) > 0

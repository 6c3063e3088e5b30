"""The one row that says which state a pack is in."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from packwise.stores.pack.index import Generation


@dataclass(frozen=True, slots=True)
class Embedder:
    """Who made the vectors of a pack."""

    name: str
    version: str
    dim: int


@dataclass(frozen=True, slots=True)
class State:
    """What the last finished build left; ``generation`` 0 when there was none."""

    generation: int
    token: str
    embedder: Embedder | None
    documents: int
    passages: int
    links: int
    created_at: str
    updated_at: str

    @property
    def dim(self) -> int:
        return self.embedder.dim if self.embedder else 0

    @property
    def index(self) -> Generation:
        return Generation(self.generation, self.token, self.dim, self.passages)


def read_state(connection: sqlite3.Connection) -> State | None:
    """The state of a pack; ``None`` before its first build wrote anything."""
    row = connection.execute(
        "SELECT p.generation, p.token, e.name, e.version, e.dim, p.documents, p.passages,"
        " p.links, p.created_at, p.updated_at"
        " FROM pack AS p LEFT JOIN embedders AS e ON e.key = p.embedder"
    ).fetchone()
    if row is None:
        return None
    generation, token, name, version, dim, *rest = row
    embedder = None if name is None else Embedder(name, version, dim)
    return State(generation, token, embedder, *rest)

"""Queries of ``pack.sqlite``: what a filter lets through, entities.

Text from a caller is bound, never put into a statement.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.stores.checks import after_prefix, storable
from packwise.stores.knowledge import (
    ENTITY,
    PLACE,
    PLACED,
    EntityId,
    Row,
    SqlKnowledge,
    integers,
)
from packwise.stores.pack.database import schema_version
from packwise.stores.pack.schema import KNOWLEDGE_SCHEMA

_BATCH = 500
"""Values bound in one statement; the oldest SQLite versions in use take 999."""

_T = TypeVar("_T")


def batches(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The values in pieces that one statement can bind."""
    return (values[at : at + _BATCH] for at in range(0, len(values), _BATCH))


def marks(values: Sequence[Any]) -> str:
    """As many placeholders as there are values."""
    return ",".join("?" * len(values))


def allowed_keys(connection: sqlite3.Connection, where: Filter) -> NDArray[np.int64]:
    """The keys of the passages that pass a filter, ascending."""
    conditions: list[str] = []
    values: list[str] = []

    def require(condition: str, *bound: str) -> None:
        conditions.append(condition)
        values.extend(bound)

    if where.documents:
        keys = document_keys(connection, where.documents)
        require("d.key IN (SELECT value FROM json_each(?))", json.dumps(list(keys.values())))
    if where.path_prefix:
        prefix = storable(where.path_prefix)
        require("d.id >= ?", prefix)
        past = after_prefix(prefix)
        if past is not None:
            require("d.id < ?", past)
    if where.lang:
        require("d.lang = ?", storable(where.lang))
    for name, value in _metadata(where):
        require(
            "d.key IN (SELECT document FROM document_metadata WHERE name = ? AND value = ?)",
            storable(name),
            storable(value),
        )
    if where.acl:
        shared = marks(where.acl)
        require(
            "(NOT EXISTS (SELECT 1 FROM document_groups AS g WHERE g.document = d.key)"
            " OR EXISTS (SELECT 1 FROM document_groups AS g WHERE g.document = d.key"
            f" AND g.name IN ({shared})))",
            *(storable(group.strip()) for group in where.acl),
        )
    rows = connection.execute(
        "SELECT p.key FROM documents AS d JOIN passages AS p ON p.document = d.key"
        f" WHERE {' AND '.join(conditions) or '1'}",
        values,
    )
    return np.sort(np.fromiter((key for (key,) in rows), dtype=np.int64))


def document_keys(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The row keys of those documents that are there."""
    found: dict[str, int] = {}
    for batch in batches([storable(name) for name in dict.fromkeys(ids)]):
        rows = connection.execute(
            f"SELECT id, key FROM documents WHERE id IN ({marks(batch)})", batch
        )
        found.update(rows.fetchall())
    return found


def _metadata(where: Filter) -> list[tuple[str, str]]:
    named = [("tenant", where.tenant), ("space", where.space), ("node_type", where.node_type)]
    return [(name, value) for name, value in named if value] + list(where.metadata.items())


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """The number of entities, facts and relations; empty for a pack of schema 1."""
    if schema_version(connection) < KNOWLEDGE_SCHEMA:
        return {}
    row = connection.execute(
        "SELECT (SELECT count(*) FROM entities WHERE known), (SELECT count(*) FROM facts),"
        " (SELECT count(*) FROM relations)"
    ).fetchone()
    return dict(zip(("entities", "facts", "relations"), row, strict=True))


class PackKnowledge(SqlKnowledge):
    """``KnowledgeQueries`` of one snapshot of a pack. A pack of schema 1 has no entities."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._has_entities = schema_version(connection) >= KNOWLEDGE_SCHEMA

    def each(self, query: str, values: Sequence[Any]) -> Iterator[Row]:
        if not self._has_entities:
            return
        for batch in batches(values):
            test = f"IN ({','.join(f'?{n}' for n in range(1, len(batch) + 1))})"
            yield from map(
                _checked,
                self._connection.execute(query.format(t="", names=test, keys=test), batch),
            )

    def entities_like(self, key: str, most: int) -> Iterator[Row]:
        words = key.split()
        if not self._has_entities:
            return iter(())
        rows = self._connection.execute(
            f"SELECT {ENTITY} FROM entities AS e WHERE e.known AND"
            + " AND ".join(["' ' || e.name || ' ' LIKE ? ESCAPE '\\'"] * len(words))
            + " ORDER BY e.name <> ?, e.passages DESC, length(e.name), e.name LIMIT ?",
            (*(f"% {_escaped(word)} %" for word in words), key, most),
        )
        return map(_checked, rows)

    def mentioning(self, entities: Sequence[EntityId], most: int) -> Iterator[Row]:
        # One statement each stops at the last row it needs; a window over all does not.
        query = f"SELECT x.entity, {PLACE} FROM {{t}}mentions AS x {PLACED} WHERE x.entity {{keys}}"
        for entity in integers(entities):
            yield from self.each(f"{query} ORDER BY x.passage LIMIT {most}", [entity])

    def first_passages(self, documents: Sequence[str], most: int) -> Iterator[Row]:
        for document in documents:
            yield from self._connection.execute(
                "SELECT ?1, key FROM passages WHERE document ="
                " (SELECT key FROM documents WHERE id = ?1) ORDER BY position LIMIT ?2",
                (document, most),
            )


def _checked(row: Row) -> Row:
    """A row of texts and keys. SQLite keeps any value in any column, so others raise
    ``TypeError``."""
    if not all(type(value) is str or type(value) is int for value in row):
        raise TypeError("a value is neither text nor a key")
    return row


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")

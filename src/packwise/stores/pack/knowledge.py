"""What a pack holds about entities, as rows. A pack of schema 1 has no entities."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from packwise.language.names import Extraction
from packwise.stores.entity_extraction import read_extraction
from packwise.stores.knowledge import EntityId, EntityRow, Key, PlaceRow
from packwise.stores.pack.rows import batches, marks
from packwise.stores.pack.schema import KNOWLEDGE_SCHEMA, schema_version

_KEY_RANGE = range(-(2**63), 2**63)
_ENTITY = "e.key, e.name, e.label, e.kind, e.description, e.passages"
_PLACE = "p.key, d.id, d.title"
_PLACED = "JOIN passages AS p ON p.key = x.passage JOIN documents AS d ON d.key = p.document"
_FACTS = f"""SELECT e.name, x.text, {_PLACE} FROM facts AS x
    JOIN entities AS e ON e.key = x.entity {_PLACED}"""


def integers(keys: Sequence[Key]) -> list[int]:
    """Those keys that can be a pack's."""
    return [key for key in keys if isinstance(key, int) and key in _KEY_RANGE]


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """The number of entities, facts and relations; empty for a pack of schema 1."""
    if schema_version(connection) < KNOWLEDGE_SCHEMA:
        return {}
    row = connection.execute(
        "SELECT (SELECT count(*) FROM entities WHERE known), (SELECT count(*) FROM facts),"
        " (SELECT count(*) FROM relations)"
    ).fetchone()
    return dict(zip(("entities", "facts", "relations"), row, strict=True))


class PackKnowledge:
    """``KnowledgeQueries`` of one snapshot of a pack."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._has_entities = schema_version(connection) >= KNOWLEDGE_SCHEMA

    def entities(self, keys: Sequence[str]) -> Iterator[EntityRow]:
        return self._each(
            f"SELECT {_ENTITY} FROM entities AS e WHERE e.known AND e.name IN ({{}})", keys
        )

    def entities_like(self, key: str, most: int) -> Iterator[EntityRow]:
        words = key.split()
        return self._select(
            f"SELECT {_ENTITY} FROM entities AS e WHERE e.known AND"
            + " AND ".join(["' ' || e.name || ' ' LIKE ? ESCAPE '\\'"] * len(words))
            + " ORDER BY e.name <> ?, e.passages DESC, length(e.name), e.name LIMIT ?",
            (*(f"% {_escaped(word)} %" for word in words), key, most),
        )

    def titles(self, entities: Sequence[EntityId]) -> Iterator[tuple[EntityId, str, str]]:
        return self._each(
            "SELECT a.entity, d.id, d.title FROM aliases AS a JOIN documents AS d"
            " ON d.key = a.document WHERE a.entity IN ({}) ORDER BY d.id",
            entities,
        )

    def mentioned(
        self, passages: Sequence[Key]
    ) -> tuple[Iterator[PlaceRow], Iterator[tuple[Key, EntityRow]]]:
        keys = integers(passages)
        places = self._each(
            f"SELECT {_PLACE} FROM passages AS p JOIN documents AS d ON d.key = p.document"
            " WHERE p.key IN ({})",
            keys,
        )
        rows = self._each(
            f"SELECT m.passage, {_ENTITY} FROM mentions AS m JOIN entities AS e"
            " ON e.key = m.entity WHERE e.known AND m.passage IN ({})"
            " ORDER BY m.passage, m.entity",
            keys,
        )
        return places, ((passage, tuple(row)) for passage, *row in rows)

    def mentioning(
        self, entities: Sequence[EntityId], most: int
    ) -> Iterator[tuple[EntityId, PlaceRow]]:
        # One statement each stops at the last row it needs; a window over all does not.
        for entity in integers(entities):
            for place in self._select(
                f"SELECT {_PLACE} FROM mentions AS x {_PLACED}"
                " WHERE x.entity = ? ORDER BY x.passage LIMIT ?",
                (entity, most),
            ):
                yield entity, place

    def first_passages(self, documents: Sequence[str], most: int) -> Iterator[tuple[str, Key]]:
        for document in documents:
            for (key,) in self._connection.execute(
                "SELECT key FROM passages WHERE document = (SELECT key FROM documents WHERE id = ?)"
                " ORDER BY position LIMIT ?",
                (document, most),
            ):
                yield document, key

    def facts_about(self, keys: Sequence[str], most: int) -> Iterator[tuple[str, str, PlaceRow]]:
        order = "WHERE e.name IN ({}) ORDER BY d.id, p.position, x.position"
        for about, text, *place in self._each(f"{_FACTS} {order}", keys):
            yield about, text, tuple(place)

    def facts_in(self, passages: Sequence[Key]) -> Iterator[tuple[str, str, PlaceRow]]:
        order = "WHERE x.passage IN ({}) ORDER BY x.passage, x.position"
        for about, text, *place in self._each(f"{_FACTS} {order}", integers(passages)):
            yield about, text, tuple(place)

    def relations(
        self, keys: Sequence[str], most: int
    ) -> Iterator[tuple[str, str, str, str, PlaceRow]]:
        rows = self._each(
            f"SELECT s.name, x.relation, t.name, x.context, {_PLACE} FROM relations AS x"
            f" JOIN entities AS s ON s.key = x.source JOIN entities AS t ON t.key = x.target"
            f" {_PLACED} WHERE s.name IN ({{0}}) OR t.name IN ({{0}})"
            " ORDER BY d.id, p.position, x.position",
            keys,
            times=2,
        )
        for source, relation, target, context, *place in rows:
            yield source, relation, target, context, tuple(place)

    def extractions(self, passages: Sequence[Key]) -> Iterator[tuple[Key, Extraction]]:
        rows = self._each(
            "SELECT passage, payload FROM extractions WHERE passage IN ({})", integers(passages)
        )
        return ((key, read_extraction(json.loads(text))) for key, text in rows)

    def _each(self, query: str, values: Sequence[Any], times: int = 1) -> Iterator[Any]:
        """The rows of a query with ``{}`` for the values, in batches SQLite can bind."""
        for batch in batches(values):
            yield from self._select(query.format(marks(batch)), [*batch] * times)

    def _select(self, query: str, values: Sequence[Any]) -> Iterator[Any]:
        if self._has_entities:
            yield from self._connection.execute(query, values)


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")

"""What the passages in PostgreSQL say about entities, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from packwise.language.names import Extraction
from packwise.stores.entity_extraction import read_extraction
from packwise.stores.knowledge import EntityId, EntityRow, Key, PlaceRow
from packwise.stores.postgres.text import given, held, held_list

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

_KEY_RANGE = range(-(2**63), 2**63)
_ENTITY = "e.key, e.name, e.label, e.kind, e.description, e.passages"
_PLACE = "p.key, d.id, d.title"
_PLACED = (
    "JOIN packwise_passages AS p ON p.key = x.passage"
    " JOIN packwise_documents AS d ON d.key = p.document"
)
_FACTS = f"""SELECT e.name, x.text, {_PLACE} FROM packwise_facts AS x
    JOIN packwise_entities AS e ON e.key = x.entity {_PLACED}"""


def integers(keys: Sequence[Key]) -> list[int]:
    """Those keys that can be this store's."""
    return [key for key in keys if isinstance(key, int) and key in _KEY_RANGE]


class PostgresKnowledge:
    """``KnowledgeQueries`` of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def entities(self, keys: Sequence[str]) -> Iterator[EntityRow]:
        return self._select(
            f"SELECT {_ENTITY} FROM packwise_entities AS e"
            " WHERE e.known AND e.name = ANY (%s::text[])",
            held_list(keys),
        )

    def entities_like(self, key: str, most: int) -> Iterator[EntityRow]:
        name = held(key)
        return self._select(
            f"SELECT {_ENTITY} FROM packwise_entities AS e"
            " WHERE e.known AND string_to_array(e.name, ' ') @> %s::text[]"
            " ORDER BY e.name <> %s, e.passages DESC, length(e.name), e.name LIMIT %s",
            *(name.split(), name, most),
        )

    def titles(self, entities: Sequence[EntityId]) -> Iterator[tuple[EntityId, str, str]]:
        return self._select(
            "SELECT a.entity, d.id, d.title FROM packwise_aliases AS a"
            " JOIN packwise_documents AS d ON d.key = a.document"
            " WHERE a.entity = ANY (%s::bigint[]) ORDER BY d.id",
            list(entities),
        )

    def mentioned(
        self, passages: Sequence[Key]
    ) -> tuple[Iterator[PlaceRow], Iterator[tuple[Key, EntityRow]]]:
        keys = integers(passages)
        places = self._select(
            f"SELECT {_PLACE} FROM packwise_passages AS p"
            " JOIN packwise_documents AS d ON d.key = p.document"
            " WHERE p.key = ANY (%s::bigint[])",
            keys,
        )
        rows = self._select(
            f"SELECT m.passage, {_ENTITY} FROM packwise_mentions AS m"
            " JOIN packwise_entities AS e ON e.key = m.entity"
            " WHERE e.known AND m.passage = ANY (%s::bigint[]) ORDER BY m.passage, m.entity",
            keys,
        )
        return places, ((passage, tuple(row)) for passage, *row in rows)

    def mentioning(
        self, entities: Sequence[EntityId], most: int
    ) -> Iterator[tuple[EntityId, PlaceRow]]:
        rows = self._select(
            f"SELECT x.entity, {_PLACE} FROM (SELECT entity, passage, row_number() OVER"
            " (PARTITION BY entity ORDER BY passage) AS nth FROM packwise_mentions"
            f" WHERE entity = ANY (%s::bigint[])) AS x {_PLACED} WHERE x.nth <= %s"
            " ORDER BY x.entity, p.key",
            *(integers(entities), most),
        )
        return ((entity, tuple(place)) for entity, *place in rows)

    def first_passages(self, documents: Sequence[str], most: int) -> Iterator[tuple[str, Key]]:
        return self._select(
            "SELECT x.id, x.key FROM (SELECT d.id, p.key, p.position, row_number() OVER"
            " (PARTITION BY d.key ORDER BY p.position) AS nth FROM packwise_documents AS d"
            " JOIN packwise_passages AS p ON p.document = d.key WHERE d.id = ANY (%s::text[]))"
            " AS x WHERE x.nth <= %s ORDER BY x.id, x.position",
            *(held_list(documents), most),
        )

    def facts_about(self, keys: Sequence[str], most: int) -> Iterator[tuple[str, str, PlaceRow]]:
        order = "WHERE e.name = ANY (%s::text[]) ORDER BY d.id, p.position, x.position"
        for about, text, *place in self._select(f"{_FACTS} {order}", held_list(keys)):
            yield about, text, tuple(place)

    def facts_in(self, passages: Sequence[Key]) -> Iterator[tuple[str, str, PlaceRow]]:
        order = "WHERE x.passage = ANY (%s::bigint[]) ORDER BY x.passage, x.position"
        for about, text, *place in self._select(f"{_FACTS} {order}", integers(passages)):
            yield about, text, tuple(place)

    def relations(
        self, keys: Sequence[str], most: int
    ) -> Iterator[tuple[str, str, str, str, PlaceRow]]:
        names = held_list(keys)
        rows = self._select(
            f"SELECT s.name, x.relation, t.name, x.context, {_PLACE}"
            " FROM packwise_relations AS x JOIN packwise_entities AS s ON s.key = x.source"
            f" JOIN packwise_entities AS t ON t.key = x.target {_PLACED}"
            " WHERE s.name = ANY (%s::text[]) OR t.name = ANY (%s::text[])"
            " ORDER BY d.id, p.position, x.position",
            *(names, names),
        )
        for source, relation, target, context, *place in rows:
            yield source, relation, target, context, tuple(place)

    def extractions(self, passages: Sequence[Key]) -> Iterator[tuple[Key, Extraction]]:
        rows = self._select(
            "SELECT passage, payload FROM packwise_extractions WHERE passage = ANY (%s::bigint[])",
            integers(passages),
        )
        return ((key, read_extraction(json.loads(payload))) for key, payload in rows)

    def _select(self, query: str, *values: Any) -> Iterator[Any]:
        """The rows of a query, their texts as they were before they were stored."""
        for row in self._connection.execute(query.encode(), values).fetchall():
            yield tuple(given(value) if isinstance(value, str) else value for value in row)

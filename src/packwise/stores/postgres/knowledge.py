"""What the passages in PostgreSQL say about entities, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from packwise.stores.knowledge import (
    ENTITY,
    PLACE,
    PLACED,
    EntityId,
    Row,
    SqlKnowledge,
    integers,
)
from packwise.stores.postgres.connections import Connection
from packwise.stores.postgres.rows import from_postgres, to_postgres


class PostgresKnowledge(SqlKnowledge):
    """``KnowledgeQueries`` of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def each(self, query: str, values: Sequence[Any], **more: Any) -> Iterator[Row]:
        statement = query.format(
            t="packwise_",
            names="= ANY (%(values)s::text[])",
            keys="= ANY (%(values)s::bigint[])",
        )
        bound = [to_postgres(value) if isinstance(value, str) else value for value in values]
        rows = self._connection.execute(statement.encode(), {"values": bound, **more})
        for row in rows.fetchall():
            yield tuple(from_postgres(value) if isinstance(value, str) else value for value in row)

    def entities_like(self, key: str, most: int) -> Iterator[Row]:
        return self.each(
            f"SELECT {ENTITY} FROM {{t}}entities AS e"
            " WHERE e.known AND string_to_array(e.name, ' ') @> %(values)s::text[]"
            " ORDER BY e.name <> %(key)s, e.passages DESC, length(e.name), e.name"
            " LIMIT %(most)s",
            key.split(),
            key=to_postgres(key),
            most=most,
        )

    def mentioning(self, entities: Sequence[EntityId], most: int) -> Iterator[Row]:
        return self.each(
            f"SELECT x.entity, {PLACE} FROM (SELECT entity, passage, row_number() OVER"
            " (PARTITION BY entity ORDER BY passage) AS nth FROM {t}mentions"
            f" WHERE entity {{keys}}) AS x {PLACED} WHERE x.nth <= %(most)s"
            " ORDER BY x.entity, p.key",
            integers(entities),
            most=most,
        )

    def first_passages(self, documents: Sequence[str], most: int) -> Iterator[Row]:
        return self.each(
            "SELECT x.id, x.key FROM (SELECT d.id, p.key, p.position, row_number() OVER"
            " (PARTITION BY d.key ORDER BY p.position) AS nth FROM {t}documents AS d"
            " JOIN {t}passages AS p ON p.document = d.key WHERE d.id {names}) AS x"
            " WHERE x.nth <= %(most)s ORDER BY x.id, x.position",
            documents,
            most=most,
        )

"""The tables in which PostgreSQL keeps the entities, as a commit fills them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from packwise.documents import Passage
from packwise.language.names import Extraction, Kind
from packwise.stores.entity_extraction import AliasRow, PassageFindings, Titles
from packwise.stores.extractions import read_extraction
from packwise.stores.postgres.connections import Connection
from packwise.stores.postgres.rows import (
    PASSAGE_COLUMNS,
    PASSAGE_TABLES,
    copy_rows,
    from_postgres,
    list_to_postgres,
    read_passage,
)

_BATCH = 1000
_LONGEST_NAME = 500
"""Characters of the longest name that is kept: an index of PostgreSQL takes no longer ones."""

_FOUND = {
    "found_names": "nth bigint, name text, label text, kind text, description text",
    "found_mentions": "passage bigint, name text, sure boolean",
    "found_facts": "passage bigint, position integer, name text, text text",
    "found_relations": "passage bigint, position integer, source text, relation text,"
    " target text, context text",
    "found_aliases": "name text, document bigint, position integer",
}
"""Temporary tables that take what was found, for single statements to merge."""


class PostgresEntityTables:
    """``EntityTables`` of PostgreSQL, inside the transaction of a commit."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names = 0

    def titles(self) -> Titles:
        rows = self._connection.execute("SELECT id, title FROM packwise_documents ORDER BY id")
        return [(from_postgres(name), from_postgres(title)) for name, title in rows]

    def document_titles(self) -> list[tuple[int, str]]:
        rows = self._connection.execute("SELECT key, title FROM packwise_documents ORDER BY id")
        return [(key, from_postgres(title)) for key, title in rows]

    def passage_keys(self) -> list[int]:
        return [key for (key,) in self._connection.execute("SELECT key FROM packwise_passages")]

    def passage_texts(self) -> Iterator[tuple[int, str]]:
        with self._connection.cursor("packwise_texts") as cursor:
            cursor.execute("SELECT key, text FROM packwise_passages")
            for key, text in cursor:
                yield key, from_postgres(text)

    def passages_mentioning(self, names: Sequence[str]) -> list[int]:
        rows = self._connection.execute(
            "SELECT m.passage FROM packwise_mentions AS m JOIN packwise_entities AS e"
            " ON e.key = m.entity WHERE e.name = ANY (%s::text[])",
            (list_to_postgres(names),),
        )
        return [key for (key,) in rows]

    def passages(self, keys: Sequence[int]) -> Iterator[tuple[int, Passage, Extraction | None]]:
        for at in range(0, len(keys), _BATCH):
            rows = self._connection.execute(
                f"SELECT x.payload, {PASSAGE_COLUMNS} FROM {PASSAGE_TABLES}"
                " LEFT JOIN packwise_extractions AS x ON x.passage = p.key"
                " WHERE p.key = ANY (%s::bigint[]) ORDER BY p.key".encode(),
                (list(keys[at : at + _BATCH]),),
            ).fetchall()
            for payload, *row in rows:
                extraction = (
                    read_extraction(json.loads(from_postgres(payload))) if payload else None
                )
                yield *read_passage(row, ""), extraction

    def clear(self) -> None:
        # Not TRUNCATE: readers would wait for it until the commit.
        for table in (b"mentions", b"facts", b"relations", b"aliases", b"entities"):
            self._connection.execute(b"DELETE FROM packwise_" + table)

    def clear_passages(self, keys: Sequence[int]) -> None:
        for table in (b"mentions", b"facts", b"relations"):
            self._connection.execute(
                b"DELETE FROM packwise_" + table + b" WHERE passage = ANY (%s::bigint[])",
                (list(keys),),
            )

    def write(
        self, findings: Iterator[tuple[int, PassageFindings]], aliases: Sequence[AliasRow]
    ) -> None:
        for name, columns in _FOUND.items():
            statement = f"CREATE TEMP TABLE {name} ({columns}) ON COMMIT DROP"
            self._connection.execute(statement.encode())
        while batch := list(islice(findings, _BATCH)):
            self._copy_findings(batch)
        kept = [row for row in aliases if _fits(row[3])]
        copy_rows(self._connection, "found_aliases", [(alias, k, at) for k, _, at, alias in kept])
        self._copy_names([(alias, title, Kind.TITLE.value, "") for _, title, _, alias in kept])
        _merge(self._connection)
        _count(self._connection)

    def _copy_findings(self, batch: Sequence[tuple[int, PassageFindings]]) -> None:
        names: list[tuple[str, str, str, str]] = []
        mentions: list[tuple[Any, ...]] = []
        facts: list[tuple[Any, ...]] = []
        relations: list[tuple[Any, ...]] = []
        for passage, found in batch:
            for m in found.mentions:
                names.append((m.key, m.label, m.kind, m.description))
                mentions.append((passage, m.key, m.sure))
            for i, fact in enumerate(found.facts):
                names.append((fact.key, fact.label, Kind.TERM.value, ""))
                facts.append((passage, i, fact.key, fact.text))
            for i, r in enumerate(found.relations):
                relations.append((passage, i, r.source, r.relation, r.target, r.context))
        self._copy_names([row for row in names if _fits(row[0])])
        copy = copy_rows
        copy(self._connection, "found_mentions", [row for row in mentions if _fits(row[1])])
        copy(self._connection, "found_facts", [row for row in facts if _fits(row[2])])
        kept = [row for row in relations if _fits(row[2]) and _fits(row[4])]
        copy(self._connection, "found_relations", kept)

    def _copy_names(self, rows: Sequence[tuple[str, str, str, str]]) -> None:
        numbered = [(self._names + i, *row) for i, row in enumerate(rows)]
        copy_rows(self._connection, "found_names", numbered)
        self._names += len(rows)


def _merge(connection: Connection) -> None:
    for statement in (
        # The first to name an entity says how it is written; the first description stays.
        """INSERT INTO packwise_entities AS e (name, label, kind, description)
            SELECT name, (array_agg(label ORDER BY nth))[1], (array_agg(kind ORDER BY nth))[1],
                coalesce((array_agg(description ORDER BY nth) FILTER (WHERE description <> ''))[1],
                    '')
            FROM found_names GROUP BY name ORDER BY min(nth)
            ON CONFLICT (name) DO UPDATE SET description =
                CASE WHEN e.description = '' THEN excluded.description ELSE e.description END""",
        """INSERT INTO packwise_mentions (passage, entity, sure)
            SELECT t.passage, e.key, t.sure FROM found_mentions AS t
            JOIN packwise_entities AS e ON e.name = t.name
            ON CONFLICT (passage, entity) DO UPDATE SET sure = excluded.sure, linked = false""",
        """INSERT INTO packwise_facts (passage, position, entity, text)
            SELECT t.passage, t.position, e.key, t.text FROM found_facts AS t
            JOIN packwise_entities AS e ON e.name = t.name""",
        """INSERT INTO packwise_relations (passage, position, source, relation, target, context)
            SELECT t.passage, t.position, s.key, t.relation, e.key, t.context
            FROM found_relations AS t JOIN packwise_entities AS s ON s.name = t.source
            JOIN packwise_entities AS e ON e.name = t.target""",
        "DELETE FROM packwise_aliases",
        """INSERT INTO packwise_aliases (entity, document, position)
            SELECT e.key, t.document, t.position FROM found_aliases AS t
            JOIN packwise_entities AS e ON e.name = t.name""",
        # A passage mentions what its author linked from it, by whatever words.
        "DELETE FROM packwise_mentions WHERE linked",
        """INSERT INTO packwise_mentions (passage, entity, sure, linked)
            SELECT DISTINCT p.key, a.entity, true, true FROM packwise_links AS k
            JOIN packwise_passages AS p ON p.document = k.document
                AND k.first >= p.first AND k.first + k.reach <= p.past
            JOIN packwise_aliases AS a ON a.document = k.target AND a.position = 0
            WHERE k.anchor <> '' ON CONFLICT (passage, entity) DO NOTHING""",
    ):
        connection.execute(statement.encode())


def _count(connection: Connection) -> None:
    connection.execute(
        """CREATE TEMP TABLE counted_entities ON COMMIT DROP AS
        SELECT e.key, coalesce(m.passages, 0) AS passages,
            coalesce(m.sure, false) OR a.entity IS NOT NULL OR o.entity IS NOT NULL AS known,
            m.entity IS NOT NULL OR a.entity IS NOT NULL OR o.entity IS NOT NULL AS used
        FROM packwise_entities AS e
        LEFT JOIN (SELECT entity, count(*) AS passages, bool_or(sure) AS sure
            FROM packwise_mentions GROUP BY entity) AS m ON m.entity = e.key
        LEFT JOIN (SELECT DISTINCT entity FROM packwise_aliases) AS a ON a.entity = e.key
        LEFT JOIN (SELECT entity FROM packwise_facts UNION SELECT source FROM packwise_relations
            UNION SELECT target FROM packwise_relations) AS o ON o.entity = e.key"""
    )
    connection.execute(
        "DELETE FROM packwise_entities AS e USING counted_entities AS t"
        " WHERE t.key = e.key AND NOT t.used"
    )
    connection.execute(
        "UPDATE packwise_entities AS e SET passages = t.passages, known = t.known"
        " FROM counted_entities AS t WHERE t.key = e.key"
        " AND (e.passages, e.known) IS DISTINCT FROM (t.passages::integer, t.known)"
    )


def _fits(name: str) -> bool:
    return len(name) <= _LONGEST_NAME

"""The tables in which a pack keeps its entities, as a commit fills them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from packwise.documents import Passage
from packwise.language.names import Extraction, Kind
from packwise.stores.entity_extraction import (
    AliasRow,
    PassageFindings,
    Titles,
    current_rules,
    read_extraction,
)
from packwise.stores.pack.queries import (
    batches,
    marks,
    passage_query,
    read_passage,
)

# A passage mentions what its author linked from it, whatever the words.
_LINKED = """INSERT OR IGNORE INTO mentions (passage, entity, sure, linked)
    SELECT p.key, a.entity, 1, 1 FROM links AS k
    JOIN passages AS p ON p.document = k.document
        AND k.first >= p.first AND k.first + length(k.anchor) <= p.past
    JOIN aliases AS a ON a.document = k.target AND a.position = 0
    WHERE k.anchor <> ''"""
_UNUSED = """DELETE FROM entities WHERE key NOT IN (SELECT entity FROM mentions)
    AND key NOT IN (SELECT entity FROM aliases) AND key NOT IN (SELECT entity FROM facts)
    AND key NOT IN (SELECT source FROM relations) AND key NOT IN (SELECT target FROM relations)"""
_COUNT = """UPDATE entities SET
    passages = (SELECT count(*) FROM mentions WHERE entity = entities.key),
    known = EXISTS (SELECT 1 FROM mentions WHERE entity = entities.key AND sure = 1)
        OR EXISTS (SELECT 1 FROM aliases WHERE entity = entities.key)
        OR EXISTS (SELECT 1 FROM facts WHERE entity = entities.key)
        OR EXISTS (SELECT 1 FROM relations WHERE source = entities.key)
        OR EXISTS (SELECT 1 FROM relations WHERE target = entities.key)"""


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the pack's entities were found by today's rules."""
    row = connection.execute("SELECT rules FROM knowledge").fetchone()
    return row is not None and row[0] == current_rules()


class PackEntityTables:
    """``EntityTables`` of a pack, inside the transaction of a commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def titles(self) -> Titles:
        return self._connection.execute("SELECT id, title FROM documents ORDER BY id").fetchall()

    def document_titles(self) -> list[tuple[int, str]]:
        return self._connection.execute("SELECT key, title FROM documents ORDER BY id").fetchall()

    def passage_keys(self) -> list[int]:
        return [key for (key,) in self._connection.execute("SELECT key FROM passages")]

    def passage_texts(self) -> Iterator[tuple[int, str]]:
        return self._connection.execute("SELECT key, text FROM passages")

    def passages_mentioning(self, names: Sequence[str]) -> Iterator[int]:
        for batch in batches(names):
            rows = self._connection.execute(
                "SELECT m.passage FROM mentions AS m JOIN entities AS e ON e.key = m.entity"
                f" WHERE e.name IN ({marks(batch)})",
                batch,
            )
            yield from (key for (key,) in rows)

    def passages(self, keys: Sequence[int]) -> Iterator[tuple[int, Passage, Extraction | None]]:
        for batch in batches(keys):
            rows = self._connection.execute(
                f"{passage_query(self._connection, 'x.payload, ')}"
                " LEFT JOIN extractions AS x ON x.passage = p.key"
                f" WHERE p.key IN ({marks(batch)}) ORDER BY p.key",
                batch,
            ).fetchall()
            for payload, *row in rows:
                extraction = read_extraction(json.loads(payload)) if payload else None
                yield *read_passage(row, ""), extraction

    def clear(self) -> None:
        for table in ("mentions", "facts", "relations", "aliases", "entities"):
            self._connection.execute(f"DELETE FROM {table}")

    def clear_passages(self, keys: Sequence[int]) -> None:
        for batch in batches(keys):
            for table in ("mentions", "facts", "relations"):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE passage IN ({marks(batch)})", batch
                )

    def write(
        self, findings: Iterator[tuple[int, PassageFindings]], aliases: Sequence[AliasRow]
    ) -> None:
        for key, found in findings:
            self._write_passage(key, found)
        self._write_aliases(aliases)
        self._connection.execute("DELETE FROM mentions WHERE linked = 1")
        for statement in (_LINKED, _UNUSED, _COUNT):
            self._connection.execute(statement)
        self._connection.execute(
            "INSERT OR REPLACE INTO knowledge (only, rules) VALUES (1, ?)", (current_rules(),)
        )

    def _write_passage(self, passage: int, found: PassageFindings) -> None:
        self._connection.executemany(
            "INSERT INTO entities (name, label, kind, description) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET description ="
            " CASE WHEN description = '' THEN excluded.description ELSE description END",
            [(m.key, m.label, m.kind, m.description) for m in found.mentions],
        )
        subjects = {fact.key: fact.label for fact in found.facts}
        self._add_entities([(key, label, Kind.TERM.value) for key, label in subjects.items()])
        self._connection.executemany(
            "INSERT INTO mentions (passage, entity, sure)"
            " SELECT ?, key, ? FROM entities WHERE name = ?",
            [(passage, m.sure, m.key) for m in found.mentions],
        )
        self._connection.executemany(
            "INSERT INTO facts (passage, position, entity, text)"
            " SELECT ?, ?, key, ? FROM entities WHERE name = ?",
            [(passage, i, fact.text, fact.key) for i, fact in enumerate(found.facts)],
        )
        self._connection.executemany(
            "INSERT INTO relations (passage, position, source, relation, target, context)"
            " SELECT ?, ?, s.key, ?, t.key, ? FROM entities AS s, entities AS t"
            " WHERE s.name = ? AND t.name = ?",
            [
                (passage, i, r.relation, r.context, r.source, r.target)
                for i, r in enumerate(found.relations)
            ],
        )

    def _write_aliases(self, aliases: Sequence[AliasRow]) -> None:
        self._connection.execute("DELETE FROM aliases")
        self._add_entities([(alias, title, Kind.TITLE.value) for _, title, _, alias in aliases])
        self._connection.executemany(
            "INSERT INTO aliases (entity, document, position)"
            " SELECT key, ?, ? FROM entities WHERE name = ?",
            [(key, position, alias) for key, _, position, alias in aliases],
        )

    def _add_entities(self, rows: Sequence[tuple[str, str, str]]) -> None:
        self._connection.executemany(
            "INSERT OR IGNORE INTO entities (name, label, kind) VALUES (?, ?, ?)", rows
        )

"""The tables in which a pack keeps its entities, as a commit fills them."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from packwise.documents import Passage
from packwise.language.names import Extraction, Kind
from packwise.stores.entity_extraction import AliasRow, PassageFindings, Titles, current_rules
from packwise.stores.extractions import read_extraction
from packwise.stores.pack.queries import batches, marks
from packwise.stores.pack.rows import passage_query, read_passage
from packwise.stores.pack.vectors import Keys

# A passage mentions what its author linked from it, whatever the words.
_LINKED = """SELECT p.key, a.entity FROM temp.relinked AS r
    CROSS JOIN links AS k ON k.document = r.key
    CROSS JOIN passages AS p ON p.document = k.document
        AND k.first >= p.first AND k.first + length(k.anchor) <= p.past
    CROSS JOIN aliases AS a ON a.document = k.target AND a.position = 0
    WHERE k.anchor <> ''"""
_MENTIONED = """SELECT m.passage, m.entity FROM temp.relinked AS r
    CROSS JOIN passages AS p ON p.document = r.key CROSS JOIN mentions AS m ON m.passage = p.key"""
_LINK_CHANGES = {
    "unlinked": f"{_MENTIONED} WHERE m.linked = 1 EXCEPT {_LINKED}",
    "newly_linked": f"{_LINKED} EXCEPT {_MENTIONED}",
}
_CHANGED = "INSERT OR IGNORE INTO temp.changed_entities"
_NAMED_BY = {
    "mentions": ("entity",),
    "facts": ("entity",),
    "relations": ("source", "target"),
    "aliases": ("entity",),
}
"""The columns in which tables name entities; only the last does not go by passages."""

_USED = [
    f"EXISTS (SELECT 1 FROM {table} WHERE {column} = entities.key)"
    for table, columns in _NAMED_BY.items()
    for column in columns
]
_UNUSED = f"DELETE FROM entities WHERE {{scope}} AND NOT ({' OR '.join(_USED)})"
_OTHERWISE_USED = " OR ".join(_USED[1:])
_COUNT = f"""UPDATE entities SET
    passages = (SELECT count(*) FROM mentions WHERE entity = entities.key),
    known = EXISTS (SELECT 1 FROM mentions WHERE entity = entities.key AND sure = 1)
        OR {_OTHERWISE_USED} WHERE {{scope}}"""
_SCOPE = "key IN (SELECT key FROM temp.changed_entities)"
_MOST_KNOWN = 1 << 16
"""Entities whose keys are remembered while passages are written."""
_TEMPORARY = {
    "changed_entities": "key INTEGER PRIMARY KEY",
    "changed_documents": "key INTEGER PRIMARY KEY",
    "relinked": "key INTEGER PRIMARY KEY",
    "unlinked": "passage INTEGER, entity INTEGER",
    "newly_linked": "passage INTEGER, entity INTEGER",
}
"""Lists of a commit: entities to count again, documents in which a name came or went, documents
whose links may lead elsewhere now, and what that changes."""


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the pack's entities were found by today's rules."""
    row = connection.execute("SELECT rules FROM knowledge").fetchone()
    return row is not None and row[0] == current_rules()


class PackEntityTables:
    """``EntityTables`` of a pack, inside the transaction of a commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._scope = _SCOPE
        for name, columns in _TEMPORARY.items():
            connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} ({columns})")
            connection.execute(f"DELETE FROM temp.{name}")

    def changes(self) -> tuple[Keys, Keys] | None:
        """The documents in which a name came or went, and the entities that changed, once all
        is written; ``None`` where everything was found again."""
        if self._scope != _SCOPE:
            return None
        documents, entities = (
            np.fromiter(
                (key for (key,) in self._connection.execute(f"SELECT key FROM temp.{name}")),
                dtype=np.int64,
            )
            for name in ("changed_documents", "changed_entities")
        )
        return documents, entities

    def aliases_among(self, keys: Sequence[str]) -> Iterator[str]:
        """Those of these keys that are aliases."""
        for batch in batches(keys):
            rows = self._connection.execute(
                f"SELECT name FROM entities AS e WHERE name IN ({marks(batch)})"
                " AND EXISTS (SELECT 1 FROM aliases WHERE entity = e.key)",
                batch,
            )
            yield from (name for (name,) in rows)

    def relink(self, documents: str, values: Sequence[int] = ()) -> None:
        """Remember the documents of a query: their links may lead elsewhere now."""
        self._connection.execute(f"INSERT OR IGNORE INTO temp.relinked {documents}", values)

    def titles(self) -> Titles:
        return self._connection.execute("SELECT id, title FROM documents ORDER BY id").fetchall()

    def document_titles(self) -> list[tuple[int, str]]:
        return self._connection.execute("SELECT key, title FROM documents ORDER BY id").fetchall()

    def passage_keys(self) -> Iterator[int]:
        return (key for (key,) in self._connection.execute("SELECT key FROM passages"))

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

    def before_removal(self, document: int) -> None:
        """To be called before a document or its passages are removed: what they name may be
        named less often afterwards, or not at all."""
        passages = "passage IN (SELECT key FROM passages WHERE document = ?)"
        for table, column in _columns():
            condition = "document = ?" if table == "aliases" else passages
            self._changed(f"SELECT {column} FROM {table} WHERE {condition}", (document,))

    def clear(self) -> None:
        self._scope = "1"
        self.relink("SELECT key FROM documents")
        for table in ("mentions", "facts", "relations", "aliases", "entities"):
            self._connection.execute(f"DELETE FROM {table}")

    def clear_passages(self, keys: Sequence[int]) -> None:
        self._changed_by(keys)
        for batch in batches(keys):
            # What their links say goes too, and comes back with ``_write_links``.
            self.relink(f"SELECT document FROM passages WHERE key IN ({marks(batch)})", batch)
            for table in ("mentions", "facts", "relations"):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE passage IN ({marks(batch)})", batch
                )

    def write(
        self, findings: Iterator[tuple[int, PassageFindings]], aliases: Sequence[AliasRow] | None
    ) -> None:
        """As in ``EntityTables``; without aliases they stay as they are."""
        written = array("q")
        known: dict[str, int] = {}
        for key, found in findings:
            if len(known) > _MOST_KNOWN:
                known.clear()
            self._write_passage(key, found, known)
            written.append(key)
        if aliases is not None:
            self._write_aliases(aliases)
        self._write_links()
        self._changed_by(written)
        for statement in (_UNUSED, _COUNT):
            self._connection.execute(statement.format(scope=self._scope))
        self._connection.execute(
            "INSERT OR REPLACE INTO knowledge (only, rules) VALUES (1, ?)", (current_rules(),)
        )

    def _write_links(self) -> None:
        """Bring mentions by links up to date."""
        for name, pairs in _LINK_CHANGES.items():
            self._connection.execute(f"INSERT INTO temp.{name} {pairs}")
            self._changed(f"SELECT entity FROM temp.{name}")
            self._connection.execute(
                "INSERT OR IGNORE INTO temp.changed_documents SELECT p.document"
                f" FROM temp.{name} AS c JOIN passages AS p ON p.key = c.passage"
            )
        self._connection.execute(
            "DELETE FROM mentions WHERE (passage, entity) IN (SELECT * FROM temp.unlinked)"
        )
        self._connection.execute(
            "INSERT INTO mentions (passage, entity, sure, linked)"
            " SELECT passage, entity, 1, 1 FROM temp.newly_linked"
        )

    def _write_passage(self, passage: int, found: PassageFindings, known: dict[str, int]) -> None:
        """Write what a passage says. ``known`` are the keys of entities by their names; those of
        its mentions are added."""
        new = [m for m in found.mentions if m.description or m.key not in known]
        self._add(
            "INSERT INTO entities (name, label, kind, description) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET description ="
            " CASE WHEN description = '' THEN excluded.description ELSE description END",
            [(m.key, m.label, m.kind, m.description) for m in new],
        )
        for batch in batches([m.key for m in new]):
            known.update(
                self._connection.execute(
                    f"SELECT name, key FROM entities WHERE name IN ({marks(batch)})", batch
                )
            )
        subjects = {fact.key: fact.label for fact in found.facts}
        self._add_entities([(key, label, Kind.TERM.value) for key, label in subjects.items()])
        self._add(
            "INSERT INTO mentions (passage, entity, sure) VALUES (?, ?, ?)",
            [(passage, known[m.key], m.sure) for m in found.mentions],
        )
        self._add(
            "INSERT INTO facts (passage, position, entity, text)"
            " SELECT ?, ?, key, ? FROM entities WHERE name = ?",
            [(passage, i, fact.text, fact.key) for i, fact in enumerate(found.facts)],
        )
        self._add(
            "INSERT INTO relations (passage, position, source, relation, target, context)"
            " SELECT ?, ?, s.key, ?, t.key, ? FROM entities AS s, entities AS t"
            " WHERE s.name = ? AND t.name = ?",
            [
                (passage, i, r.relation, r.context, r.source, r.target)
                for i, r in enumerate(found.relations)
            ],
        )

    def _write_aliases(self, aliases: Sequence[AliasRow]) -> None:
        wanted = {(alias, key): position for key, _, position, alias in aliases}
        rows = self._connection.execute(
            "SELECT e.name, a.document, a.position, a.entity FROM aliases AS a"
            " JOIN entities AS e ON e.key = a.entity"
        )
        there = {(name, key): (position, entity) for name, key, position, entity in rows}
        gone = [
            (entity, key)
            for (name, key), (position, entity) in there.items()
            if wanted.get((name, key)) != position
        ]
        self._connection.executemany(f"{_CHANGED} VALUES (?)", [(entity,) for entity, _ in gone])
        self._connection.executemany("DELETE FROM aliases WHERE entity = ? AND document = ?", gone)
        new = [row for row in aliases if there.get((row[3], row[0]), (None,))[0] != row[2]]
        for document in {key for _, key in gone} | {row[0] for row in new}:
            self.relink("SELECT document FROM links WHERE target = ?", (document,))
        self._add_entities([(alias, title, Kind.TITLE.value) for _, title, _, alias in new])
        self._connection.executemany(
            "INSERT INTO aliases (entity, document, position)"
            " SELECT key, ?, ? FROM entities WHERE name = ?",
            [(key, position, alias) for key, _, position, alias in new],
        )
        self._connection.executemany(
            f"{_CHANGED} SELECT key FROM entities WHERE name = ?",
            [(alias,) for _, _, _, alias in new],
        )

    def _changed(self, entities: str, values: Sequence[int] = ()) -> None:
        """Remember the entities of a query: they are counted again. Where everything is found
        again, all of them are."""
        if self._scope == _SCOPE:
            self._connection.execute(f"{_CHANGED} {entities}", values)

    def _changed_by(self, passages: Sequence[int]) -> None:
        if self._scope != _SCOPE:
            return
        for batch in batches(passages):
            self._connection.execute(
                "INSERT OR IGNORE INTO temp.changed_documents"
                f" SELECT document FROM passages WHERE key IN ({marks(batch)})",
                batch,
            )
            for table, column in _columns():
                if table != "aliases":
                    self._changed(
                        f"SELECT {column} FROM {table} WHERE passage IN ({marks(batch)})", batch
                    )

    def _add(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row; most passages have no row for most statements."""
        if rows:
            self._connection.executemany(statement, rows)

    def _add_entities(self, rows: Sequence[tuple[str, str, str]]) -> None:
        self._add("INSERT OR IGNORE INTO entities (name, label, kind) VALUES (?, ?, ?)", rows)


def _columns() -> Iterator[tuple[str, str]]:
    return ((table, column) for table, columns in _NAMED_BY.items() for column in columns)

"""How a commit brings a pack's entities up to date, inside its transaction.

Only what can have changed is read again: new passages, those that mention an alias that
went, those in which an alias that came appears. The result is the same as finding it all
from scratch.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from packwise.language.entities import AliasIndex
from packwise.language.names import RULES, Kind, title_aliases
from packwise.stores.entity_extraction import Told, read_extraction, told_by, turnover
from packwise.stores.pack.rows import PASSAGE_COLUMNS, PASSAGE_TABLES, batches, marks, read_passage


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the pack's entities were found by the rules of today."""
    row = connection.execute("SELECT rules FROM knowledge").fetchone()
    return row is not None and row[0] == RULES


def titles(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Id and title of every document, by id."""
    return connection.execute("SELECT id, title FROM documents ORDER BY id").fetchall()


def find_entities(
    connection: sqlite3.Connection,
    before: Sequence[tuple[str, str]] | None,
    added: Sequence[int],
) -> None:
    """Bring entities, mentions, facts and relations up to date with the passages.

    ``before`` are the titles of the state that is left, ``None`` to start from scratch;
    ``added`` are the keys of the passages that are new.
    """
    aliases = AliasIndex(titles(connection))
    if before is None:
        _forget(connection)
        keys: Iterable[int] = [key for (key,) in connection.execute("SELECT key FROM passages")]
    else:
        keys = _to_read(connection, AliasIndex(before), aliases, added)
    for key, told in _told(connection, keys, aliases):
        _write(connection, key, told)
    _write_aliases(connection, aliases)
    _write_links(connection)
    _count(connection)
    connection.execute("INSERT OR REPLACE INTO knowledge (only, rules) VALUES (1, ?)", (RULES,))


def _forget(connection: sqlite3.Connection) -> None:
    for table in ("mentions", "facts", "relations", "aliases", "entities"):
        connection.execute(f"DELETE FROM {table}")


def _to_read(
    connection: sqlite3.Connection,
    before: AliasIndex,
    after: AliasIndex,
    added: Sequence[int],
) -> list[int]:
    """The passages to read, ascending; what they told before is forgotten."""
    keys = set(added)
    change = turnover(before, after)
    for batch in batches(sorted(change.went)):
        keys.update(
            key
            for (key,) in connection.execute(
                "SELECT m.passage FROM mentions AS m JOIN entities AS e ON e.key = m.entity"
                f" WHERE e.name IN ({marks(batch)})",
                batch,
            )
        )
    if change.any_came:
        rows = connection.execute("SELECT key, text FROM passages")
        keys.update(key for key, text in rows if key not in keys and change.appears(text))
    for batch in batches(sorted(keys)):
        for table in ("mentions", "facts", "relations"):
            connection.execute(f"DELETE FROM {table} WHERE passage IN ({marks(batch)})", batch)
    return sorted(keys)


def _told(
    connection: sqlite3.Connection, keys: Iterable[int], aliases: AliasIndex
) -> Iterator[tuple[int, Told]]:
    for batch in batches(list(keys)):
        extracted = dict(
            connection.execute(
                f"SELECT passage, payload FROM extractions WHERE passage IN ({marks(batch)})", batch
            ).fetchall()
        )
        rows = connection.execute(
            f"SELECT {PASSAGE_COLUMNS} FROM {PASSAGE_TABLES} WHERE p.key IN ({marks(batch)})"
            " ORDER BY p.key",
            batch,
        ).fetchall()
        for row in rows:
            key, passage = read_passage(row, "")
            payload = extracted.get(key)
            extraction = read_extraction(json.loads(payload)) if payload else None
            yield key, told_by(passage, aliases, extraction)


def _write(connection: sqlite3.Connection, passage: int, told: Told) -> None:
    connection.executemany(
        "INSERT INTO entities (name, label, kind, description) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET description ="
        " CASE WHEN description = '' THEN excluded.description ELSE description END",
        [(m.key, m.label, m.kind, m.description) for m in told.mentions],
    )
    others = {fact.key: fact.label for fact in told.facts}
    connection.executemany(
        "INSERT OR IGNORE INTO entities (name, label, kind) VALUES (?, ?, ?)",
        [(key, label, Kind.TERM.value) for key, label in others.items()],
    )
    connection.executemany(
        "INSERT INTO mentions (passage, entity, sure)"
        " SELECT ?, key, ? FROM entities WHERE name = ?",
        [(passage, m.sure, m.key) for m in told.mentions],
    )
    connection.executemany(
        "INSERT INTO facts (passage, position, entity, text)"
        " SELECT ?, ?, key, ? FROM entities WHERE name = ?",
        [(passage, i, fact.text, fact.key) for i, fact in enumerate(told.facts)],
    )
    connection.executemany(
        "INSERT INTO relations (passage, position, source, relation, target, context)"
        " SELECT ?, ?, s.key, ?, t.key, ? FROM entities AS s, entities AS t"
        " WHERE s.name = ? AND t.name = ?",
        [
            (passage, i, tie.relation, tie.context, tie.source, tie.target)
            for i, tie in enumerate(told.relations)
        ],
    )


def _write_aliases(connection: sqlite3.Connection, aliases: AliasIndex) -> None:
    connection.execute("DELETE FROM aliases")
    documents = connection.execute("SELECT key, title FROM documents ORDER BY id").fetchall()
    rows = [
        (key, title, position, alias)
        for key, title in documents
        for position, alias in enumerate(title_aliases(title))
        if alias in aliases
    ]
    connection.executemany(
        "INSERT OR IGNORE INTO entities (name, label, kind) VALUES (?, ?, ?)",
        [(alias, title, Kind.TITLE.value) for _, title, _, alias in rows],
    )
    connection.executemany(
        "INSERT INTO aliases (entity, document, position)"
        " SELECT key, ?, ? FROM entities WHERE name = ?",
        [(key, position, alias) for key, _, position, alias in rows],
    )


def _write_links(connection: sqlite3.Connection) -> None:
    """A passage mentions what its author linked from it, by whatever words."""
    connection.execute("DELETE FROM mentions WHERE linked = 1")
    connection.execute(
        "INSERT OR IGNORE INTO mentions (passage, entity, sure, linked)"
        " SELECT p.key, a.entity, 1, 1 FROM links AS k"
        " JOIN passages AS p ON p.document = k.document"
        " AND k.first >= p.first AND k.first + length(k.anchor) <= p.past"
        " JOIN aliases AS a ON a.document = k.target AND a.position = 0"
        " WHERE k.anchor <> ''"
    )


def _count(connection: sqlite3.Connection) -> None:
    connection.execute(
        "DELETE FROM entities WHERE key NOT IN (SELECT entity FROM mentions)"
        " AND key NOT IN (SELECT entity FROM aliases) AND key NOT IN (SELECT entity FROM facts)"
        " AND key NOT IN (SELECT source FROM relations)"
        " AND key NOT IN (SELECT target FROM relations)"
    )
    connection.execute(
        "UPDATE entities SET"
        " passages = (SELECT count(*) FROM mentions WHERE entity = entities.key),"
        " known = EXISTS (SELECT 1 FROM mentions WHERE entity = entities.key AND sure = 1)"
        " OR EXISTS (SELECT 1 FROM aliases WHERE entity = entities.key)"
        " OR EXISTS (SELECT 1 FROM facts WHERE entity = entities.key)"
        " OR EXISTS (SELECT 1 FROM relations WHERE source = entities.key)"
        " OR EXISTS (SELECT 1 FROM relations WHERE target = entities.key)"
    )

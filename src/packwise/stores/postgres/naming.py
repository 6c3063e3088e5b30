"""How a commit brings the entities in PostgreSQL up to date, inside its transaction.

As in a pack, only what can have changed is read again; the result is the same as finding
it all from scratch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from packwise.language.entities import AliasIndex
from packwise.language.names import Kind, title_aliases
from packwise.stores.entity_extraction import Told, read_extraction, told_by, turnover
from packwise.stores.postgres.rows import PASSAGE_COLUMNS as PASSAGE
from packwise.stores.postgres.rows import PASSAGE_TABLES as PASSAGES
from packwise.stores.postgres.rows import copy_rows, read_passage
from packwise.stores.postgres.rows import from_postgres as given
from packwise.stores.postgres.rows import list_to_postgres as held_list

if TYPE_CHECKING:
    from packwise.stores.postgres.connections import Connection

_BATCH = 1000
_LONGEST_NAME = 500
"""Characters of the longest name that is kept: an index of PostgreSQL takes no longer ones."""

_STAGES = (
    "CREATE TEMP TABLE told_names (nth bigint, name text, label text, kind text,"
    " description text) ON COMMIT DROP",
    "CREATE TEMP TABLE told_mentions (passage bigint, name text, sure boolean) ON COMMIT DROP",
    "CREATE TEMP TABLE told_facts (passage bigint, position integer, name text, text text)"
    " ON COMMIT DROP",
    "CREATE TEMP TABLE told_relations (passage bigint, position integer, source text,"
    " relation text, target text, context text) ON COMMIT DROP",
    "CREATE TEMP TABLE told_aliases (name text, document bigint, position integer) ON COMMIT DROP",
)


def titles(connection: Connection) -> list[tuple[str, str]]:
    """Id and title of every document, by id."""
    rows = connection.execute("SELECT id, title FROM packwise_documents ORDER BY id")
    return [(given(name), given(title)) for name, title in rows]


def find_entities(
    connection: Connection,
    before: Sequence[tuple[str, str]] | None,
    added: Sequence[int],
) -> None:
    """Bring entities, mentions, facts and relations up to date with the passages.

    ``before`` are the titles of the state that is left, ``None`` to start from scratch;
    ``added`` are the keys of the passages that are new.
    """
    aliases = AliasIndex(titles(connection))
    if before is None:
        # Not truncated: that would keep readers waiting until the commit.
        for table in (b"mentions", b"facts", b"relations", b"aliases", b"entities"):
            connection.execute(b"DELETE FROM packwise_" + table)
        keys = [key for (key,) in connection.execute("SELECT key FROM packwise_passages")]
    else:
        keys = _to_read(connection, AliasIndex(before), aliases, added)
    for statement in _STAGES:
        connection.execute(statement.encode())
    _lay_out(connection, _told(connection, sorted(keys), aliases))
    _lay_out_aliases(connection, aliases)
    _take_over(connection)
    _count(connection)


def _to_read(
    connection: Connection,
    before: AliasIndex,
    after: AliasIndex,
    added: Sequence[int],
) -> list[int]:
    """The passages to read; what they told before is forgotten."""
    keys = set(added)
    change = turnover(before, after)
    if change.went:
        rows = connection.execute(
            "SELECT m.passage FROM packwise_mentions AS m JOIN packwise_entities AS e"
            " ON e.key = m.entity WHERE e.name = ANY (%s::text[])",
            (held_list(change.went),),
        )
        keys.update(key for (key,) in rows)
    if change.any_came:
        with connection.cursor("packwise_texts") as cursor:
            cursor.execute("SELECT key, text FROM packwise_passages")
            keys.update(k for k, text in cursor if k not in keys and change.appears(given(text)))
    for table in (b"mentions", b"facts", b"relations"):
        connection.execute(
            b"DELETE FROM packwise_" + table + b" WHERE passage = ANY (%s::bigint[])",
            (list(keys),),
        )
    return list(keys)


def _told(
    connection: Connection, keys: Sequence[int], aliases: AliasIndex
) -> Iterator[tuple[int, Told]]:
    for at in range(0, len(keys), _BATCH):
        rows = connection.execute(
            f"SELECT x.payload, {PASSAGE} FROM {PASSAGES} LEFT JOIN packwise_extractions AS x"
            " ON x.passage = p.key WHERE p.key = ANY (%s::bigint[]) ORDER BY p.key".encode(),
            (list(keys[at : at + _BATCH]),),
        ).fetchall()
        for payload, *row in rows:
            key, passage = read_passage(row, "")
            extraction = read_extraction(json.loads(given(payload))) if payload else None
            yield key, told_by(passage, aliases, extraction)


def _lay_out(connection: Connection, told: Iterator[tuple[int, Told]]) -> None:
    """Write down what was read, for single statements to take over."""
    nth = 0
    while batch := list(islice(told, _BATCH)):
        names: list[tuple[Any, ...]] = []
        mentions: list[tuple[Any, ...]] = []
        facts: list[tuple[Any, ...]] = []
        relations: list[tuple[Any, ...]] = []
        for passage, entry in batch:
            for m in entry.mentions:
                names.append((nth + len(names), m.key, m.label, m.kind, m.description))
                mentions.append((passage, m.key, m.sure))
            for i, fact in enumerate(entry.facts):
                names.append((nth + len(names), fact.key, fact.label, Kind.TERM.value, ""))
                facts.append((passage, i, fact.key, fact.text))
            for i, tie in enumerate(entry.relations):
                relations.append((passage, i, tie.source, tie.relation, tie.target, tie.context))
        nth += len(names)
        copy_rows(connection, "told_names", [row for row in names if _fits(row[1])])
        copy_rows(connection, "told_mentions", [row for row in mentions if _fits(row[1])])
        copy_rows(connection, "told_facts", [row for row in facts if _fits(row[2])])
        ties = [row for row in relations if _fits(row[2]) and _fits(row[4])]
        copy_rows(connection, "told_relations", ties)


def _lay_out_aliases(connection: Connection, aliases: AliasIndex) -> None:
    documents = connection.execute("SELECT key, title FROM packwise_documents ORDER BY id")
    rows = [
        (key, given(title), position, alias)
        for key, title in documents.fetchall()
        for position, alias in enumerate(title_aliases(given(title)))
        if alias in aliases and _fits(alias)
    ]
    copy_rows(connection, "told_aliases", [(alias, key, at) for key, _, at, alias in rows])
    (last,) = connection.execute("SELECT coalesce(max(nth), -1) FROM told_names").fetchone() or (0,)
    copy_rows(
        connection,
        "told_names",
        [
            (last + 1 + i, alias, title, Kind.TITLE.value, "")
            for i, (_, title, _, alias) in enumerate(rows)
        ],
    )


def _take_over(connection: Connection) -> None:
    for statement in (
        # The first to name an entity says how it is written; the first description stays.
        """INSERT INTO packwise_entities AS e (name, label, kind, description)
            SELECT name, (array_agg(label ORDER BY nth))[1], (array_agg(kind ORDER BY nth))[1],
                coalesce((array_agg(description ORDER BY nth) FILTER (WHERE description <> ''))[1],
                    '')
            FROM told_names GROUP BY name ORDER BY min(nth)
            ON CONFLICT (name) DO UPDATE SET description =
                CASE WHEN e.description = '' THEN excluded.description ELSE e.description END""",
        """INSERT INTO packwise_mentions (passage, entity, sure)
            SELECT t.passage, e.key, t.sure FROM told_mentions AS t
            JOIN packwise_entities AS e ON e.name = t.name
            ON CONFLICT (passage, entity) DO UPDATE SET sure = excluded.sure, linked = false""",
        """INSERT INTO packwise_facts (passage, position, entity, text)
            SELECT t.passage, t.position, e.key, t.text FROM told_facts AS t
            JOIN packwise_entities AS e ON e.name = t.name""",
        """INSERT INTO packwise_relations (passage, position, source, relation, target, context)
            SELECT t.passage, t.position, s.key, t.relation, e.key, t.context
            FROM told_relations AS t JOIN packwise_entities AS s ON s.name = t.source
            JOIN packwise_entities AS e ON e.name = t.target""",
        "DELETE FROM packwise_aliases",
        """INSERT INTO packwise_aliases (entity, document, position)
            SELECT e.key, t.document, t.position FROM told_aliases AS t
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
        """CREATE TEMP TABLE told_entities ON COMMIT DROP AS
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
        "DELETE FROM packwise_entities AS e USING told_entities AS t"
        " WHERE t.key = e.key AND NOT t.used"
    )
    connection.execute(
        "UPDATE packwise_entities AS e SET passages = t.passages, known = t.known"
        " FROM told_entities AS t WHERE t.key = e.key"
        " AND (e.passages, e.known) IS DISTINCT FROM (t.passages::integer, t.known)"
    )


def _fits(name: str) -> bool:
    return len(name) <= _LONGEST_NAME

"""What a pack tells of entities: the reading side of ``pack_naming``.

A pack built before there were entities answers with none; its next build finds them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from packwise.language.names import Extraction, name_key
from packwise.stores.entity_extraction import read_extraction
from packwise.stores.knowledge import (
    Entity,
    EntityId,
    Held,
    Key,
    Place,
    Relation,
    StoredFact,
    Titled,
    first_relations,
)
from packwise.stores.pack.rows import batches, marks, storable

_ENTITY = "e.key, e.name, e.label, e.kind, e.description, e.passages"
_PLACE = "p.key, d.id, d.title"
_PLACED = "JOIN passages AS p ON p.key = x.passage JOIN documents AS d ON d.key = p.document"

_Row = tuple[int, str, str, str, str, int]


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """How much the pack knows."""
    entities, facts, relations = connection.execute(
        "SELECT (SELECT count(*) FROM entities WHERE known), (SELECT count(*) FROM facts),"
        " (SELECT count(*) FROM relations)"
    ).fetchone()
    return {"entities": entities, "facts": facts, "relations": relations}


def entities_named(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Entity]:
    """The known entities of these keys, in the order asked."""
    rows: list[_Row] = []
    for batch in batches(_distinct(keys)):
        rows += connection.execute(
            f"SELECT {_ENTITY} FROM entities AS e WHERE e.known AND e.name IN ({marks(batch)})",
            batch,
        )
    found = {entity.key: entity for entity in _entities(connection, rows)}
    return {key: found[key] for key in keys if key in found}


def entities_like(connection: sqlite3.Connection, text: str, most: int) -> list[Entity]:
    """The known entities whose key holds all words of the text's key, best first."""
    key = name_key(storable(text))
    words = key.split()
    if not words or most <= 0:
        return []
    rows = connection.execute(
        f"SELECT {_ENTITY} FROM entities AS e WHERE e.known AND"
        + " AND ".join(["' ' || e.name || ' ' LIKE ? ESCAPE '\\'"] * len(words))
        + " ORDER BY e.name <> ?, e.passages DESC, length(e.name), e.name LIMIT ?",
        (*(f"% {_escaped(word)} %" for word in words), key, most),
    ).fetchall()
    return _entities(connection, rows)


def entities_of(connection: sqlite3.Connection, passages: Sequence[int]) -> dict[Key, Held]:
    """Where these passages stand and which known entities they mention."""
    places: dict[int, Place] = {}
    mentioned: list[tuple[int, int]] = []
    rows: dict[int, _Row] = {}
    for batch in batches(list(dict.fromkeys(passages))):
        for key, document, title in connection.execute(
            f"SELECT {_PLACE} FROM passages AS p JOIN documents AS d ON d.key = p.document"
            f" WHERE p.key IN ({marks(batch)})",
            batch,
        ):
            places[key] = Place(key, document, title)
        for passage, *row in connection.execute(
            f"SELECT m.passage, {_ENTITY} FROM mentions AS m JOIN entities AS e"
            f" ON e.key = m.entity WHERE e.known AND m.passage IN ({marks(batch)})"
            " ORDER BY m.passage, m.entity",
            batch,
        ):
            mentioned.append((passage, row[0]))
            rows[row[0]] = (row[0], row[1], row[2], row[3], row[4], row[5])
    entities = {entity.id: entity for entity in _entities(connection, list(rows.values()))}
    held: dict[int, list[Entity]] = {key: [] for key in places}
    for passage, entity in mentioned:
        held[passage].append(entities[entity])
    return {key: Held(places[key], tuple(held[key])) for key in passages if key in places}


def mentions(
    connection: sqlite3.Connection, entities: Sequence[int], most: int
) -> dict[EntityId, list[Place]]:
    """The first ``most`` passages that mention each of these entities."""
    # One statement each stops at the last it needs; a window over all of them does not.
    return {
        entity: [
            Place(*place)
            for place in connection.execute(
                f"SELECT {_PLACE} FROM mentions AS x {_PLACED}"
                " WHERE x.entity = ? ORDER BY x.passage LIMIT ?",
                (entity, max(most, 0)),
            )
        ]
        for entity in entities
    }


def passages_of(
    connection: sqlite3.Connection, documents: Sequence[str], most: int
) -> dict[str, list[Key]]:
    """The first ``most`` passages of these documents, in reading order."""
    found: dict[str, list[Key]] = {}
    for document in sorted(set(documents)):
        rows = connection.execute(
            "SELECT key FROM passages WHERE document = (SELECT key FROM documents WHERE id = ?)"
            " ORDER BY position LIMIT ?",
            (document, max(most, 0)),
        ).fetchall()
        if rows:
            found[document] = [key for (key,) in rows]
    return found


def facts_about(connection: sqlite3.Connection, keys: Sequence[str], most: int) -> list[StoredFact]:
    """The first ``most`` facts about each of these entities."""
    found: dict[str, list[StoredFact]] = {}
    for batch in batches(_distinct(keys)):
        for name, text, *place in connection.execute(
            f"SELECT e.name, x.text, {_PLACE} FROM facts AS x JOIN entities AS e"
            f" ON e.key = x.entity {_PLACED} WHERE e.name IN ({marks(batch)})"
            " ORDER BY e.name, d.id, p.position, x.position",
            batch,
        ):
            facts = found.setdefault(name, [])
            if len(facts) < most:
                facts.append(StoredFact(name, text, Place(*place)))
    return [fact for key in dict.fromkeys(keys) for fact in found.get(key, ())]


def facts_of(
    connection: sqlite3.Connection, passages: Sequence[int]
) -> dict[Key, list[StoredFact]]:
    """The facts that stand in these passages, in reading order."""
    found: dict[Key, list[StoredFact]] = {}
    for batch in batches(list(dict.fromkeys(passages))):
        for name, text, *place in connection.execute(
            f"SELECT e.name, x.text, {_PLACE} FROM facts AS x JOIN entities AS e"
            f" ON e.key = x.entity {_PLACED} WHERE x.passage IN ({marks(batch)})"
            " ORDER BY x.passage, x.position",
            batch,
        ):
            fact = StoredFact(name, text, Place(*place))
            found.setdefault(fact.place.key, []).append(fact)
    return {key: found[key] for key in passages if key in found}


def relations_of(connection: sqlite3.Connection, keys: Sequence[str], most: int) -> list[Relation]:
    """The first ``most`` relations from or to each of these entities, none twice."""
    wanted = _distinct(keys)

    def told() -> Iterator[Relation]:
        for batch in batches(wanted):
            for source, relation, target, context, *place in connection.execute(
                f"SELECT s.name, x.relation, t.name, x.context, {_PLACE} FROM relations AS x"
                " JOIN entities AS s ON s.key = x.source"
                f" JOIN entities AS t ON t.key = x.target {_PLACED}"
                f" WHERE s.name IN ({marks(batch)}) OR t.name IN ({marks(batch)})"
                " ORDER BY d.id, p.position, x.position",
                (*batch, *batch),
            ):
                yield Relation(source, relation, target, context, Place(*place))

    return first_relations(told(), wanted, most)


def extractions(connection: sqlite3.Connection, passages: Sequence[int]) -> dict[Key, Extraction]:
    """What a language model read in these passages."""
    found: dict[Key, Extraction] = {}
    for batch in batches(list(dict.fromkeys(passages))):
        rows = connection.execute(
            f"SELECT passage, payload FROM extractions WHERE passage IN ({marks(batch)})", batch
        )
        found.update((key, read_extraction(json.loads(text))) for key, text in rows)
    return found


def _entities(connection: sqlite3.Connection, rows: Sequence[_Row]) -> list[Entity]:
    """Rows of ``_ENTITY`` with the documents they title."""
    titled: dict[int, list[Titled]] = {}
    for batch in batches([row[0] for row in rows]):
        for entity, document, title in connection.execute(
            "SELECT a.entity, d.id, d.title FROM aliases AS a JOIN documents AS d"
            f" ON d.key = a.document WHERE a.entity IN ({marks(batch)}) ORDER BY d.id",
            batch,
        ):
            titled.setdefault(entity, []).append(Titled(document, title))
    return [
        Entity(
            id=key,
            key=name,
            kind=kind,
            passages=passages,
            titled=tuple(titled.get(key, ())),
            label=label,
            description=description,
        )
        for key, name, label, kind, description, passages in rows
    ]


def _distinct(keys: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(storable(key) for key in keys))


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")

"""What the passages in PostgreSQL tell of entities: the reading side of ``naming``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from packwise.language.names import Extraction
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
from packwise.stores.postgres.rows import from_postgres as given
from packwise.stores.postgres.rows import list_to_postgres as held_list

if TYPE_CHECKING:
    from packwise.stores.postgres.connections import Connection

_ENTITY = "e.key, e.name, e.label, e.kind, e.description, e.passages"
_PLACE = "p.key, d.id, d.title"
_PLACED = (
    "JOIN packwise_passages AS p ON p.key = x.passage"
    " JOIN packwise_documents AS d ON d.key = p.document"
)

_Row = tuple[int, str, str, str, str, int]


def entities_named(connection: Connection, keys: Sequence[str]) -> dict[str, Entity]:
    """The known entities of these keys, in the order asked."""
    rows = connection.execute(
        f"SELECT {_ENTITY} FROM packwise_entities AS e"
        " WHERE e.known AND e.name = ANY (%s::text[])".encode(),
        (held_list(dict.fromkeys(keys)),),
    ).fetchall()
    found = {entity.key: entity for entity in _entities(connection, rows)}
    return {key: found[key] for key in keys if key in found}


def entities_like(connection: Connection, key: str, most: int) -> list[Entity]:
    """The known entities whose key holds all words of this one, best first."""
    rows = connection.execute(
        f"SELECT {_ENTITY} FROM packwise_entities AS e"
        " WHERE e.known AND string_to_array(e.name, ' ') @> %(words)s::text[]"
        " ORDER BY e.name <> %(key)s, e.passages DESC, length(e.name), e.name"
        " LIMIT %(most)s".encode(),
        {"words": key.split(), "key": key, "most": most},
    ).fetchall()
    return _entities(connection, rows)


def entities_of(connection: Connection, passages: Sequence[int]) -> dict[Key, Held]:
    """Where these passages stand and which known entities they mention."""
    places = {
        key: _place(key, document, title)
        for key, document, title in connection.execute(
            f"SELECT {_PLACE} FROM packwise_passages AS p"
            " JOIN packwise_documents AS d ON d.key = p.document"
            " WHERE p.key = ANY (%s::bigint[])".encode(),
            (list(passages),),
        )
    }
    rows: dict[int, _Row] = {}
    mentioned: list[tuple[int, int]] = []
    for passage, *row in connection.execute(
        f"SELECT m.passage, {_ENTITY} FROM packwise_mentions AS m"
        " JOIN packwise_entities AS e ON e.key = m.entity"
        " WHERE e.known AND m.passage = ANY (%s::bigint[])"
        " ORDER BY m.passage, m.entity".encode(),
        (list(passages),),
    ):
        mentioned.append((passage, row[0]))
        rows[row[0]] = (row[0], row[1], row[2], row[3], row[4], row[5])
    entities = {entity.id: entity for entity in _entities(connection, list(rows.values()))}
    named: dict[int, list[Entity]] = {key: [] for key in places}
    for passage, entity in mentioned:
        named[passage].append(entities[entity])
    return {key: Held(places[key], tuple(named[key])) for key in passages if key in places}


def mentions(
    connection: Connection, entities: Sequence[int], most: int
) -> dict[EntityId, list[Place]]:
    """The first ``most`` passages that mention each of these entities."""
    found: dict[EntityId, list[Place]] = {entity: [] for entity in entities}
    for entity, *place in connection.execute(
        f"SELECT x.entity, {_PLACE} FROM (SELECT entity, passage, row_number() OVER"
        " (PARTITION BY entity ORDER BY passage) AS nth FROM packwise_mentions"
        f" WHERE entity = ANY (%s::bigint[])) AS x {_PLACED} WHERE x.nth <= %s"
        " ORDER BY x.entity, p.key".encode(),
        (list(found), most),
    ):
        found[entity].append(_place(*place))
    return found


def passages_of(
    connection: Connection, documents: Sequence[str], most: int
) -> dict[str, list[Key]]:
    """The first ``most`` passages of these documents, in reading order."""
    found: dict[str, list[Key]] = {}
    for document, key in connection.execute(
        "SELECT x.id, x.key FROM (SELECT d.id, p.key, p.position, row_number() OVER"
        " (PARTITION BY d.key ORDER BY p.position) AS nth FROM packwise_documents AS d"
        " JOIN packwise_passages AS p ON p.document = d.key WHERE d.id = ANY (%s::text[])) AS x"
        " WHERE x.nth <= %s ORDER BY x.id, x.position",
        (held_list(dict.fromkeys(documents)), most),
    ):
        found.setdefault(given(document), []).append(key)
    return found


def facts_about(connection: Connection, keys: Sequence[str], most: int) -> list[StoredFact]:
    """The first ``most`` facts about each of these entities."""
    found: dict[str, list[StoredFact]] = {}
    for name, text, *place in connection.execute(
        f"SELECT e.name, x.text, {_PLACE} FROM packwise_facts AS x"
        f" JOIN packwise_entities AS e ON e.key = x.entity {_PLACED}"
        " WHERE e.name = ANY (%s::text[]) ORDER BY e.name, d.id, p.position, x.position".encode(),
        (held_list(dict.fromkeys(keys)),),
    ):
        facts = found.setdefault(given(name), [])
        if len(facts) < most:
            facts.append(StoredFact(given(name), given(text), _place(*place)))
    return [fact for key in dict.fromkeys(keys) for fact in found.get(key, ())]


def facts_of(connection: Connection, passages: Sequence[int]) -> dict[Key, list[StoredFact]]:
    """The facts that stand in these passages, in reading order."""
    found: dict[Key, list[StoredFact]] = {}
    for name, text, *place in connection.execute(
        f"SELECT e.name, x.text, {_PLACE} FROM packwise_facts AS x"
        f" JOIN packwise_entities AS e ON e.key = x.entity {_PLACED}"
        " WHERE x.passage = ANY (%s::bigint[]) ORDER BY x.passage, x.position".encode(),
        (list(passages),),
    ):
        fact = StoredFact(given(name), given(text), _place(*place))
        found.setdefault(fact.place.key, []).append(fact)
    return {key: found[key] for key in passages if key in found}


def relations_of(connection: Connection, keys: Sequence[str], most: int) -> list[Relation]:
    """The first ``most`` relations from or to each of these entities, none twice."""
    rows = connection.execute(
        f"SELECT s.name, x.relation, t.name, x.context, {_PLACE}"
        " FROM packwise_relations AS x JOIN packwise_entities AS s ON s.key = x.source"
        f" JOIN packwise_entities AS t ON t.key = x.target {_PLACED}"
        " WHERE s.name = ANY (%(names)s::text[]) OR t.name = ANY (%(names)s::text[])"
        " ORDER BY d.id, p.position, x.position".encode(),
        {"names": held_list(dict.fromkeys(keys))},
    )
    told = (
        Relation(given(source), given(relation), given(target), given(context), _place(*place))
        for source, relation, target, context, *place in rows
    )
    return first_relations(told, keys, most)


def extractions(connection: Connection, passages: Sequence[int]) -> dict[Key, Extraction]:
    """What a language model read in these passages."""
    rows = connection.execute(
        "SELECT passage, payload FROM packwise_extractions WHERE passage = ANY (%s::bigint[])",
        (list(passages),),
    )
    return {key: read_extraction(json.loads(given(payload))) for key, payload in rows}


def _place(key: int, document: str, title: str) -> Place:
    return Place(key, given(document), given(title))


def _entities(connection: Connection, rows: Sequence[Sequence[Any]]) -> list[Entity]:
    """Rows of ``_ENTITY`` with the documents they title."""
    titled: dict[int, list[Titled]] = {}
    for entity, document, title in connection.execute(
        "SELECT a.entity, d.id, d.title FROM packwise_aliases AS a"
        " JOIN packwise_documents AS d ON d.key = a.document"
        " WHERE a.entity = ANY (%s::bigint[]) ORDER BY a.entity, d.id",
        ([row[0] for row in rows],),
    ):
        titled.setdefault(entity, []).append(Titled(given(document), given(title)))
    return [
        Entity(
            id=key,
            key=given(name),
            kind=kind,
            passages=passages,
            titled=tuple(titled.get(key, ())),
            label=given(label),
            description=given(description),
        )
        for key, name, label, kind, description, passages in rows
    ]

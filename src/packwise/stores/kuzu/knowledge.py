"""What a Kuzu database tells of entities, read when it is first asked for.

The earlier system ties entities and facts to whole articles; there an entity is taken to be
mentioned by those sections that write its name, else by the first, and a fact to be about
its article.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from packwise.language.names import (
    ExtractedEntity,
    ExtractedFact,
    ExtractedRelation,
    Extraction,
    name_key,
)
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
from packwise.stores.kuzu.database import Opened
from packwise.stores.kuzu.table import Table
from packwise.stores.pack.rows import storable


@dataclass
class Known:
    """Everything a database tells of entities; passages are rows of its table."""

    table: Table
    entities: dict[str, Entity] = field(default_factory=dict[str, Entity])
    mentioned: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    mentioning: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    facts: dict[int, list[tuple[str, str]]] = field(
        default_factory=dict[int, list[tuple[str, str]]]
    )
    relations: list[tuple[int, str, str, str, str]] = field(
        default_factory=list[tuple[int, str, str, str, str]]
    )

    def mention(self, row: int, key: str) -> None:
        """Note that a passage mentions an entity."""
        self.mentioned.setdefault(row, []).append(key)
        self.mentioning.setdefault(key, []).append(row)

    def place(self, row: int) -> Place:
        passage = self.table.passages[row]
        document = self.table.documents[passage.document]
        return Place(passage.key, document.id, document.title)

    def named(self, keys: Sequence[str]) -> dict[str, Entity]:
        return {key: self.entities[key] for key in keys if key in self.entities}

    def like(self, text: str, most: int) -> list[Entity]:
        key = name_key(storable(text))
        words = set(key.split())
        if not words or most <= 0:
            return []
        found = [e for e in self.entities.values() if words <= set(e.key.split())]
        found.sort(key=lambda e: (e.key != key, -e.passages, len(e.key), e.key))
        return found[:most]

    def held(self, passages: Sequence[Key]) -> dict[Key, Held]:
        rows = self._rows(passages)
        return {
            key: Held(
                self.place(row),
                tuple(self.entities[k] for k in self.mentioned.get(row, ()) if k in self.entities),
            )
            for key, row in rows.items()
        }

    def mentions(self, entities: Sequence[EntityId], most: int) -> dict[EntityId, list[Place]]:
        return {
            entity: [self.place(row) for row in sorted(self.mentioning.get(str(entity), ()))[:most]]
            for entity in entities
        }

    def facts_about(self, keys: Sequence[str], most: int) -> list[StoredFact]:
        wanted: dict[str, list[StoredFact]] = {storable(key): [] for key in keys}
        for row in sorted(self.facts):
            for about, text in self.facts[row]:
                if about in wanted and len(wanted[about]) < most:
                    wanted[about].append(StoredFact(about, text, self.place(row)))
        return [fact for facts in wanted.values() for fact in facts]

    def facts_of(self, passages: Sequence[Key]) -> dict[Key, list[StoredFact]]:
        return {
            key: [StoredFact(about, text, self.place(row)) for about, text in self.facts[row]]
            for key, row in self._rows(passages).items()
            if row in self.facts
        }

    def relations_of(self, keys: Sequence[str], most: int) -> list[Relation]:
        told = (
            Relation(source, relation, target, context, self.place(row))
            for row, source, relation, target, context in self.relations
        )
        return first_relations(told, map(storable, keys), most)

    def extraction(self, row: int) -> Extraction | None:
        """What the earlier system's language model read, tied to the passage that tells it."""
        entities = [self.entities[key] for key in self.mentioned.get(row, ())]
        facts = self.facts.get(row, ())
        ties = self._ties.get(row, ())
        if not (entities or facts or ties):
            return None
        return Extraction(
            self.table.passages[row].position,
            tuple(ExtractedEntity(e.label, e.kind, e.description) for e in entities),
            tuple(ExtractedFact(self._label(about), text) for about, text in facts),
            tuple(
                ExtractedRelation(self._label(source), relation, self._label(target), context)
                for source, relation, target, context in ties
            ),
        )

    @cached_property
    def _ties(self) -> dict[int, list[tuple[str, str, str, str]]]:
        found: dict[int, list[tuple[str, str, str, str]]] = {}
        for row, *tie in self.relations:
            found.setdefault(row, []).append((tie[0], tie[1], tie[2], tie[3]))
        return found

    def _label(self, key: str) -> str:
        return self.entities[key].label if key in self.entities else key

    def _rows(self, passages: Sequence[Key]) -> dict[Key, int]:
        rows = self.table.rows
        return {key: rows[key] for key in passages if isinstance(key, str) and key in rows}


def read_known(opened: Opened, table: Table) -> Known:
    """Read all that a database tells."""
    return _own(opened, table) if table.state.own else _foreign(opened, table)


def _own(opened: Opened, table: Table) -> Known:
    known = Known(table)
    for key, label, kind, description, passages, titled in opened.rows(
        "MATCH (e:Entity) RETURN e.entity_id, e.name, e.type, e.description, e.passages, e.titled"
    ):
        titles = tuple(Titled(document, title) for document, title in json.loads(titled))
        known.entities[key] = Entity(key, key, kind, passages, titles, label, description)
    rows = opened.rows(
        "MATCH (s:Section)-[m:MENTIONS]->(e:Entity) RETURN s.section_id, m.position, e.entity_id"
    )
    for row, _, key in sorted((table.rows[s], position, key) for s, position, key in rows):
        known.mention(row, key)
    facts = opened.rows(
        "MATCH (s:Section)-[:STATES]->(f:Fact) RETURN s.section_id, f.position, f.about, f.content"
    )
    for row, _, about, text in sorted((table.rows[s], *rest) for s, *rest in facts):
        known.facts.setdefault(row, []).append((about, text))
    relations = opened.rows(
        "MATCH (a:Entity)-[r:ENTITY_RELATION]->(b:Entity) RETURN r.section, r.position,"
        " a.entity_id, r.relation, b.entity_id, r.context"
    )
    for row, _, *rest in sorted((table.rows[s], *rest) for s, *rest in relations):
        known.relations.append((row, rest[0], rest[1], rest[2], rest[3]))
    return known


def _foreign(opened: Opened, table: Table) -> Known:
    known = Known(table)
    tables = {row[1] for row in opened.rows("CALL SHOW_TABLES() RETURN *")}
    if {"Entity", "HAS_ENTITY"} <= tables:
        _foreign_entities(opened, known)
    if {"Fact", "HAS_FACT"} <= tables:
        for article, text in opened.rows(
            "MATCH (a:Article)-[:HAS_FACT]->(f:Fact) RETURN a.title, f.content"
            " ORDER BY a.title, f.fact_id"
        ):
            start, end = table.spans[table.articles[article]]
            about = name_key(table.documents[table.articles[article]].title)
            if start < end and text:
                known.facts.setdefault(start, []).append((about, text))
    if {"Entity", "ENTITY_RELATION"} <= tables:
        for source, relation, target, context in opened.rows(
            "MATCH (a:Entity)-[r:ENTITY_RELATION]->(b:Entity)"
            " RETURN a.name, r.relation, b.name, r.context ORDER BY a.name, b.name, r.relation"
        ):
            one, other = name_key(source), name_key(target)
            told = known.mentioning.get(one) or known.mentioning.get(other)
            if one in known.entities and other in known.entities and told:
                known.relations.append((min(told), one, relation or "", other, context or ""))
        known.relations.sort(key=lambda relation: relation[0])
    _foreign_titles(known)
    return known


def _foreign_entities(opened: Opened, known: Known) -> None:
    table = known.table
    held: dict[str, list[tuple[str, str]]] = {}
    for article, name, kind, description in opened.rows(
        "MATCH (a:Article)-[:HAS_ENTITY]->(e:Entity) RETURN a.title, e.name, e.type, e.description"
        " ORDER BY a.title, e.entity_id"
    ):
        key = name_key(name or "")
        if key:
            held.setdefault(article, []).append((key, name.casefold()))
            entity = Entity(key, key, kind or "", 0, (), name, description or "")
            known.entities.setdefault(key, entity)
    for article, names in held.items():
        start, end = table.spans[table.articles[article]]
        if start == end:
            continue
        texts = dict(
            opened.rows(
                "MATCH (a:Article {title: $title})-[:HAS_SECTION]->(s:Section)"
                " RETURN s.section_id, s.content",
                {"title": article},
            )
        )
        folded = {row: texts[table.passages[row].key].casefold() for row in range(start, end)}
        for key, name in dict(names).items():
            rows = [row for row, text in folded.items() if name in text] or [start]
            for row in rows:
                known.mention(row, key)
    for key, rows in known.mentioning.items():
        known.entities[key] = replace(known.entities[key], passages=len(rows))


def _foreign_titles(known: Known) -> None:
    for document in known.table.documents:
        key = name_key(document.title)
        if not key:
            continue
        entity = known.entities.get(key) or Entity(key, key, "title", 0, (), document.title)
        titled = (*entity.titled, Titled(document.id, document.title))
        known.entities[key] = replace(entity, titled=titled)

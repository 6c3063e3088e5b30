"""What a Kuzu database holds about entities, read into memory when it is first asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from packwise.language.names import (
    ExtractedEntity,
    ExtractedFact,
    ExtractedRelation,
    Extraction,
)
from packwise.stores.extractions import read_extraction
from packwise.stores.knowledge import (
    Entity,
    EntityId,
    Key,
    Row,
    TitledDocument,
)
from packwise.stores.kuzu.database import DatabaseFile
from packwise.stores.kuzu.table import Table


@dataclass(slots=True)
class EntityData:
    """Everything a database says about entities; passages are rows of its table."""

    by_key: dict[str, Entity] = field(default_factory=dict[str, Entity])
    mentioned: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    mentioning: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    facts: dict[int, list[tuple[str, str]]] = field(
        default_factory=dict[int, list[tuple[str, str]]]
    )
    relations: dict[int, list[tuple[str, str, str, str]]] = field(
        default_factory=dict[int, list[tuple[str, str, str, str]]]
    )

    def mention(self, row: int, key: str) -> None:
        self.mentioned.setdefault(row, []).append(key)
        self.mentioning.setdefault(key, []).append(row)


class KuzuKnowledge:
    """``KnowledgeQueries`` of one state of a database."""

    def __init__(
        self,
        file: DatabaseFile,
        table: Table,
        read: Callable[[DatabaseFile, Table], EntityData],
    ) -> None:
        self._file = file
        self._table = table
        self._read = read
        self._lock = threading.Lock()

    def entities(self, keys: Sequence[str]) -> Iterator[Row]:
        known = self._known.by_key
        return (_row(known[key]) for key in keys if key in known)

    def entities_like(self, key: str, most: int) -> Iterator[Row]:
        words = set(key.split())
        return (_row(e) for e in self._known.by_key.values() if words <= set(e.key.split()))

    def titles(self, entities: Sequence[EntityId]) -> Iterator[Row]:
        for entity in entities:
            for titled in self._known.by_key[str(entity)].titled:
                yield entity, titled.document, titled.title

    def places(self, passages: Sequence[Key]) -> Iterator[Row]:
        return map(self._place, self._rows(passages).values())

    def mentioned(self, passages: Sequence[Key]) -> Iterator[Row]:
        for key, row in self._rows(passages).items():
            for entity in self.entities(self._known.mentioned.get(row, ())):
                yield key, *entity

    def mentioning(self, entities: Sequence[EntityId], most: int) -> Iterator[Row]:
        for entity in entities:
            rows = sorted(self._known.mentioning.get(str(entity), ()))[:most]
            yield from ((entity, *self._place(row)) for row in rows)

    def first_passages(self, documents: Sequence[str], most: int) -> Iterator[Row]:
        for name in documents:
            at = self._table.document_rows.get(name)
            for row in range(*self._table.spans[at])[:most] if at is not None else ():
                yield name, self._table.passages[row].key

    def facts_about(self, keys: Sequence[str], most: int) -> Iterator[Row]:
        wanted = frozenset(keys)
        for row, facts in sorted(self._known.facts.items()):
            yield from ((key, text, *self._place(row)) for key, text in facts if key in wanted)

    def facts_in(self, passages: Sequence[Key]) -> Iterator[Row]:
        for row in self._rows(passages).values():
            facts = self._known.facts.get(row, ())
            yield from ((about, text, *self._place(row)) for about, text in facts)

    def relations(self, keys: Sequence[str], most: int) -> Iterator[Row]:
        wanted = frozenset(keys)
        for row, relations in sorted(self._known.relations.items()):
            for source, relation, target, context in relations:
                if source in wanted or target in wanted:
                    yield source, relation, target, context, *self._place(row)

    def extractions(self, passages: Sequence[Key]) -> Iterator[tuple[Key, Extraction]]:
        rows = self._rows(passages)
        if self._table.state.own:
            query = "UNWIND $values AS v MATCH (s:Section {section_id: v}) RETURN v, s.extraction"
            found = self._file.each(query, list(rows))
            return ((key, read_extraction(json.loads(text))) for key, text in found if text)
        read = ((key, self._extraction(row)) for key, row in rows.items())
        return ((key, extraction) for key, extraction in read if extraction is not None)

    @cached_property
    def _known(self) -> EntityData:
        with self._lock:
            return self._read(self._file, self._table)

    def _extraction(self, row: int) -> Extraction | None:
        """What the language model of agent-kgpacks read, tied to the passage that names it."""
        known = self._known
        entities = [known.by_key[key] for key in known.mentioned.get(row, ())]
        facts = known.facts.get(row, ())
        relations = known.relations.get(row, ())
        if not (entities or facts or relations):
            return None
        return Extraction(
            self._table.passages[row].position,
            tuple(ExtractedEntity(e.label, e.kind, e.description) for e in entities),
            tuple(ExtractedFact(self._label(about), text) for about, text in facts),
            tuple(
                ExtractedRelation(self._label(source), relation, self._label(target), context)
                for source, relation, target, context in relations
            ),
        )

    def _label(self, key: str) -> str:
        entity = self._known.by_key.get(key)
        return entity.label if entity else key

    def _place(self, row: int) -> Row:
        passage = self._table.passages[row]
        document = self._table.documents[passage.document]
        return passage.key, document.id, document.title

    def _rows(self, passages: Sequence[Key]) -> dict[Key, int]:
        rows = self._table.rows
        return {key: rows[key] for key in passages if isinstance(key, str) and key in rows}


def _row(entity: Entity) -> Row:
    return (
        *(entity.id, entity.key, entity.label),
        *(entity.kind, entity.description, entity.passages),
    )


def read_own_entities(file: DatabaseFile, table: Table) -> EntityData:
    """What a database that Packwise wrote says about entities."""
    known = EntityData()
    for key, label, kind, description, passages, titled in file.rows(
        "MATCH (e:Entity) RETURN e.entity_id, e.name, e.type, e.description, e.passages, e.titled"
    ):
        titles = tuple(TitledDocument(document, title) for document, title in json.loads(titled))
        known.by_key[key] = Entity(key, key, kind, passages, titles, label, description)
    rows = file.rows(
        "MATCH (s:Section)-[m:MENTIONS]->(e:Entity) RETURN s.section_id, m.position, e.entity_id"
    )
    for row, _, key in sorted((table.rows[s], position, key) for s, position, key in rows):
        known.mention(row, key)
    facts = file.rows(
        "MATCH (s:Section)-[:STATES]->(f:Fact) RETURN s.section_id, f.position, f.about, f.content"
    )
    for row, _, about, text in sorted((table.rows[s], *rest) for s, *rest in facts):
        known.facts.setdefault(row, []).append((about, text))
    relations = file.rows(
        "MATCH (a:Entity)-[r:ENTITY_RELATION]->(b:Entity) RETURN r.section, r.position,"
        " a.entity_id, r.relation, b.entity_id, r.context"
    )
    for row, _, *rest in sorted((table.rows[s], *rest) for s, *rest in relations):
        known.relations.setdefault(row, []).append((rest[0], rest[1], rest[2], rest[3]))
    return known

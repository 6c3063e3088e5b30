"""What a store knows about the things its passages name: entities, facts, relations.

Names, titles and definitions are found by rule when a document is committed
(``language.names``); what a language model extracted comes with the document. A store keeps
both in the same form. Reading them is written once, in ``KnowledgeReader``; a store brings
only its own ``KnowledgeQueries``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

from packwise.language.names import Extraction, name_key
from packwise.stores.checks import storable

Key = int | str
EntityId = int | str
_T = TypeVar("_T")

EntityRow = tuple[EntityId, str, str, str, str, int]
"""Id, key, label, kind, description and number of passages of an entity."""

PlaceRow = tuple[Key, str, str]
"""Key of a passage, id and title of its document."""


@dataclass(frozen=True, slots=True)
class TitledDocument:
    """A document that an entity is the title, or an alias of the title, of."""

    document: str
    title: str

    @property
    def article(self) -> str:
        return _article(self.document, self.title)


@dataclass(frozen=True, slots=True)
class Entity:
    """Something passages name. ``passages`` counts those that do.

    ``key`` is its ``names.name_key``, ``label`` how a text writes it.
    """

    id: EntityId
    key: str
    kind: str
    passages: int
    titled: tuple[TitledDocument, ...] = ()
    label: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A passage and the document it belongs to."""

    key: Key
    document: str
    title: str

    @property
    def article(self) -> str:
        return _article(self.document, self.title)


@dataclass(frozen=True, slots=True)
class PassageEntities:
    """A passage's place and the entities it mentions."""

    place: Place
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A sentence about an entity (``about`` is its key), and the passage that states it."""

    about: str
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Relation:
    """Two entities (by key) and how a passage says they are related."""

    source: str
    relation: str
    target: str
    context: str
    place: Place


class KnowledgeStore(Protocol):
    """What a store can say about entities. Every answer has a fixed order.

    Only entities that some passage surely names, or that title a document, are known;
    an alias shared by too many titles lists none of them (``names.MOST_NAMESAKES``).
    """

    def entities_named(self, keys: Sequence[str]) -> Mapping[str, Entity]:
        """The entities with these keys; unknown keys are left out."""
        ...

    def entities_like(self, text: str, most: int) -> list[Entity]:
        """The entities whose key holds all words of ``text``'s key: the exact key first, then
        those that most passages name."""
        ...

    def entities_of(self, passages: Sequence[Key]) -> Mapping[Key, PassageEntities]:
        """The place of each passage and what it mentions; missing passages are left out."""
        ...

    def mentions(self, entities: Sequence[EntityId], most: int) -> Mapping[EntityId, list[Place]]:
        """The passages that mention these entities, at most ``most`` per entity."""
        ...

    def passages_of(self, documents: Sequence[str], most: int) -> Mapping[str, list[Key]]:
        """The first ``most`` passages of these documents, in reading order."""
        ...

    def facts_about(self, keys: Sequence[str], most: int) -> list[StoredFact]:
        """What passages say these entities are, at most ``most`` per entity, in reading
        order."""
        ...

    def facts_of(self, passages: Sequence[Key]) -> Mapping[Key, list[StoredFact]]:
        """The facts stated in these passages; passages without any are left out."""
        ...

    def relations_of(self, keys: Sequence[str], most: int) -> list[Relation]:
        """Relations that start or end at these entities, at most ``most`` per entity, none
        twice."""
        ...

    def extractions(self, keys: Sequence[Key]) -> Mapping[Key, Extraction]:
        """What a language model read in these passages; those it did not read are left out."""
        ...


class KnowledgeQueries(Protocol):
    """The rows a store has about entities, all of one state of the store.

    Keys that cannot be this store's are ignored. Where the order of rows matters it is
    reading order: by document id, then by position in the document.
    """

    def entities(self, keys: Sequence[str]) -> Iterable[EntityRow]:
        """The known entities with these keys."""
        ...

    def entities_like(self, key: str, most: int) -> Iterable[EntityRow]:
        """The known entities whose key has all words of this one; at least the best ``most``."""
        ...

    def titles(self, entities: Sequence[EntityId]) -> Iterable[tuple[EntityId, str, str]]:
        """(Entity, document, title) for the documents these entities title, by document."""
        ...

    def mentioned(
        self, passages: Sequence[Key]
    ) -> tuple[Iterable[PlaceRow], Iterable[tuple[Key, EntityRow]]]:
        """The places of passages, and the known entities that each mentions."""
        ...

    def mentioning(
        self, entities: Sequence[EntityId], most: int
    ) -> Iterable[tuple[EntityId, PlaceRow]]:
        """The first ``most`` passages that mention each entity."""
        ...

    def first_passages(self, documents: Sequence[str], most: int) -> Iterable[tuple[str, Key]]:
        """The first ``most`` passages of each document, in reading order."""
        ...

    def facts_about(self, keys: Sequence[str], most: int) -> Iterable[tuple[str, str, PlaceRow]]:
        """(Key, text, place) in reading order; at least the first ``most`` per key."""
        ...

    def facts_in(self, passages: Sequence[Key]) -> Iterable[tuple[str, str, PlaceRow]]:
        """(Key, text, place) of the facts in these passages, as the passages state them."""
        ...

    def relations(
        self, keys: Sequence[str], most: int
    ) -> Iterable[tuple[str, str, str, str, PlaceRow]]:
        """(Source, relation, target, context, place) from or to these keys, in reading order;
        at least the first ``most`` per key."""
        ...

    def extractions(self, passages: Sequence[Key]) -> Iterable[tuple[Key, Extraction]]:
        """What a language model read in these passages."""
        ...


class KnowledgeReader:
    """Implements ``KnowledgeStore`` for a store that has ``KnowledgeQueries``."""

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        """Run ``read`` on the rows of one state of the store."""
        raise NotImplementedError

    def entities_named(self, keys: Sequence[str]) -> Mapping[str, Entity]:
        wanted = _storable(keys)

        def read(queries: KnowledgeQueries) -> dict[str, Entity]:
            found = {e.key: e for e in _entities(queries, queries.entities(wanted))}
            return {key: found[key] for key in keys if key in found}

        return self.query_knowledge(read)

    def entities_like(self, text: str, most: int) -> list[Entity]:
        key = name_key(storable(text))
        if not key or most <= 0:
            return []

        def read(queries: KnowledgeQueries) -> list[Entity]:
            found = _entities(queries, queries.entities_like(key, most))
            found.sort(key=lambda e: (e.key != key, -e.passages, len(e.key), e.key))
            return found[:most]

        return self.query_knowledge(read)

    def entities_of(self, passages: Sequence[Key]) -> Mapping[Key, PassageEntities]:
        def read(queries: KnowledgeQueries) -> dict[Key, PassageEntities]:
            places, mentioned = queries.mentioned(_distinct(passages))
            places = {place[0]: Place(*place) for place in places}
            rows: dict[EntityId, EntityRow] = {}
            named: dict[Key, list[EntityId]] = {key: [] for key in places}
            for passage, row in mentioned:
                rows[row[0]] = row
                named[passage].append(row[0])
            entities = {entity.id: entity for entity in _entities(queries, rows.values())}
            return {
                key: PassageEntities(places[key], tuple(entities[e] for e in named[key]))
                for key in passages
                if key in places
            }

        return self.query_knowledge(read)

    def mentions(self, entities: Sequence[EntityId], most: int) -> Mapping[EntityId, list[Place]]:
        def read(queries: KnowledgeQueries) -> dict[EntityId, list[Place]]:
            found: dict[EntityId, list[Place]] = {entity: [] for entity in entities}
            for entity, place in queries.mentioning(list(found), max(most, 0)):
                found[entity].append(Place(*place))
            return found

        return self.query_knowledge(read)

    def passages_of(self, documents: Sequence[str], most: int) -> Mapping[str, list[Key]]:
        def read(queries: KnowledgeQueries) -> dict[str, list[Key]]:
            found: dict[str, list[Key]] = {}
            for document, key in queries.first_passages(sorted(_storable(documents)), max(most, 0)):
                found.setdefault(document, []).append(key)
            return found

        return self.query_knowledge(read)

    def facts_about(self, keys: Sequence[str], most: int) -> list[StoredFact]:
        def read(queries: KnowledgeQueries) -> list[StoredFact]:
            found: dict[str, list[StoredFact]] = {key: [] for key in _storable(keys)}
            for about, text, place in queries.facts_about(list(found), max(most, 0)):
                if len(found[about]) < most:
                    found[about].append(StoredFact(about, text, Place(*place)))
            return [fact for facts in found.values() for fact in facts]

        return self.query_knowledge(read)

    def facts_of(self, passages: Sequence[Key]) -> Mapping[Key, list[StoredFact]]:
        def read(queries: KnowledgeQueries) -> dict[Key, list[StoredFact]]:
            found: dict[Key, list[StoredFact]] = {}
            for about, text, place in queries.facts_in(_distinct(passages)):
                found.setdefault(place[0], []).append(StoredFact(about, text, Place(*place)))
            return {key: found[key] for key in passages if key in found}

        return self.query_knowledge(read)

    def relations_of(self, keys: Sequence[str], most: int) -> list[Relation]:
        def read(queries: KnowledgeQueries) -> list[Relation]:
            wanted = frozenset(_storable(keys))
            taken: Counter[str] = Counter()
            found: dict[Relation, None] = {}
            rows = queries.relations(sorted(wanted), max(most, 0))
            for source, name, target, context, place in rows:
                relation = Relation(source, name, target, context, Place(*place))
                ends = wanted & {relation.source, relation.target}
                if relation not in found and any(taken[end] < most for end in ends):
                    taken.update(ends)
                    found[relation] = None
            return list(found)

        return self.query_knowledge(read)

    def extractions(self, keys: Sequence[Key]) -> Mapping[Key, Extraction]:
        return self.query_knowledge(lambda queries: dict(queries.extractions(_distinct(keys))))


def _entities(queries: KnowledgeQueries, rows: Iterable[EntityRow]) -> list[Entity]:
    rows = list(rows)
    titled: dict[EntityId, list[TitledDocument]] = {}
    for entity, document, title in queries.titles([row[0] for row in rows]):
        titled.setdefault(entity, []).append(TitledDocument(document, title))
    return [
        Entity(entity, key, kind, passages, tuple(titled.get(entity, ())), label, description)
        for entity, key, label, kind, description, passages in rows
    ]


def _distinct(keys: Sequence[Key]) -> list[Key]:
    return list(dict.fromkeys(keys))


def _storable(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(storable, texts)))


@lru_cache(maxsize=4096)
def _article(document: str, title: str) -> str:
    """What makes documents one article: their title, or else the document itself."""
    return name_key(title) or f"#{document}"

"""What a store knows about the things its passages name: entities, facts, relations.

Names, titles and definitions are found by rule when a document is committed
(``language.names``); what a language model extracted comes with the document. A store keeps
both in the same form. Reading them is written once, in ``KnowledgeReader``; a store brings
only its own ``KnowledgeQueries``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

from packwise.language.names import Extraction, name_key
from packwise.stores.checks import storable
from packwise.stores.extractions import read_extraction

Key = int | str
EntityId = int | str
_T = TypeVar("_T")

Row = tuple[Any, ...]


class TitledDocument(NamedTuple):
    """A document that an entity is the title, or an alias of the title, of."""

    document: str
    title: str

    @property
    def article(self) -> str:
        return _article(self.document, self.title)


class Entity(NamedTuple):
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


class PassagePlace(NamedTuple):
    """A passage and the document it belongs to."""

    key: Key
    document: str
    title: str

    @property
    def article(self) -> str:
        return _article(self.document, self.title)


class PassageEntities(NamedTuple):
    """A passage's place and the entities it mentions."""

    place: PassagePlace
    entities: tuple[Entity, ...]


class StoredFact(NamedTuple):
    """A sentence about an entity (``about`` is its key), and the passage that states it."""

    about: str
    text: str
    place: PassagePlace


class Relation(NamedTuple):
    """Two entities (by key) and how a passage says they are related."""

    source: str
    relation: str
    target: str
    context: str
    place: PassagePlace


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

    def mentions(
        self, entities: Sequence[EntityId], most: int
    ) -> Mapping[EntityId, list[PassagePlace]]:
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

    An *entity* below is six columns: id, key, label, kind, description, number of passages.
    A *place* is three: key of the passage, id and title of its document. Reading order is by
    document id, then by position in the document. Keys that cannot be the store's are ignored.
    """

    def entities(self, keys: Sequence[str]) -> Iterable[Row]:
        """Entity: the known ones with these keys."""
        ...

    def entities_like(self, key: str, most: int) -> Iterable[Row]:
        """Entity: the known ones whose key has all words of this one; the best ``most`` are
        among them."""
        ...

    def titles(self, entities: Sequence[EntityId]) -> Iterable[Row]:
        """Entity id, document id, title: what these entities title, by document."""
        ...

    def places(self, passages: Sequence[Key]) -> Iterable[Row]:
        """Place of each passage."""
        ...

    def mentioned(self, passages: Sequence[Key]) -> Iterable[Row]:
        """Key of a passage, entity: the known ones that these passages mention."""
        ...

    def mentioning(self, entities: Sequence[EntityId], most: int) -> Iterable[Row]:
        """Entity id, place: the first ``most`` passages that mention each."""
        ...

    def first_passages(self, documents: Sequence[str], most: int) -> Iterable[Row]:
        """Document id, key of a passage: the first ``most`` per document, in reading order."""
        ...

    def facts_about(self, keys: Sequence[str], most: int) -> Iterable[Row]:
        """Key, text, place in reading order; the first ``most`` per key are among them."""
        ...

    def facts_in(self, passages: Sequence[Key]) -> Iterable[Row]:
        """Key, text, place: the facts of these passages, as the passages state them."""
        ...

    def relations(self, keys: Sequence[str], most: int) -> Iterable[Row]:
        """Source, relation, target, context, place from or to these keys, in reading order;
        the first ``most`` per key are among them."""
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
            keys = _distinct(passages)
            places = {place[0]: PassagePlace(*place) for place in queries.places(keys)}
            rows: dict[EntityId, Row] = {}
            named: dict[Key, list[EntityId]] = {key: [] for key in places}
            for passage, *row in queries.mentioned(keys):
                rows[row[0]] = tuple(row)
                named[passage].append(row[0])
            entities = {entity.id: entity for entity in _entities(queries, rows.values())}
            return {
                key: PassageEntities(places[key], tuple(entities[e] for e in named[key]))
                for key in passages
                if key in places
            }

        return self.query_knowledge(read)

    def mentions(
        self, entities: Sequence[EntityId], most: int
    ) -> Mapping[EntityId, list[PassagePlace]]:
        def read(queries: KnowledgeQueries) -> dict[EntityId, list[PassagePlace]]:
            found: dict[EntityId, list[PassagePlace]] = {entity: [] for entity in entities}
            for entity, *place in queries.mentioning(list(found), max(most, 0)):
                found[entity].append(PassagePlace(*place))
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
            for about, text, *place in queries.facts_about(list(found), max(most, 0)):
                if len(found[about]) < most:
                    found[about].append(StoredFact(about, text, PassagePlace(*place)))
            return [fact for facts in found.values() for fact in facts]

        return self.query_knowledge(read)

    def facts_of(self, passages: Sequence[Key]) -> Mapping[Key, list[StoredFact]]:
        def read(queries: KnowledgeQueries) -> dict[Key, list[StoredFact]]:
            found: dict[Key, list[StoredFact]] = {}
            for about, text, *place in queries.facts_in(_distinct(passages)):
                found.setdefault(place[0], []).append(StoredFact(about, text, PassagePlace(*place)))
            return {key: found[key] for key in passages if key in found}

        return self.query_knowledge(read)

    def relations_of(self, keys: Sequence[str], most: int) -> list[Relation]:
        def read(queries: KnowledgeQueries) -> list[Relation]:
            wanted = frozenset(_storable(keys))
            taken: Counter[str] = Counter()
            found: dict[Relation, None] = {}
            rows = queries.relations(sorted(wanted), max(most, 0))
            for source, name, target, context, *place in rows:
                relation = Relation(source, name, target, context, PassagePlace(*place))
                ends = wanted & {relation.source, relation.target}
                if relation not in found and any(taken[end] < most for end in ends):
                    taken.update(ends)
                    found[relation] = None
            return list(found)

        return self.query_knowledge(read)

    def extractions(self, keys: Sequence[Key]) -> Mapping[Key, Extraction]:
        return self.query_knowledge(lambda queries: dict(queries.extractions(_distinct(keys))))


ENTITY = "e.key, e.name, e.label, e.kind, e.description, CAST(e.passages AS INTEGER)"
PLACE = "p.key, d.id, d.title"
PLACED = """JOIN {t}passages AS p ON p.key = x.passage
    JOIN {t}documents AS d ON d.key = p.document"""
_FACTS = f"""SELECT e.name, x.text, {PLACE} FROM {{t}}facts AS x
    JOIN {{t}}entities AS e ON e.key = x.entity {PLACED}"""
KEY_RANGE = range(-(2**63), 2**63)


def integers(keys: Iterable[Key]) -> list[int]:
    """Those keys that can be a store's with SQL."""
    return [key for key in keys if isinstance(key, int) and key in KEY_RANGE]


class SqlKnowledge:
    """The ``KnowledgeQueries`` that stores with SQL share; they have the same tables."""

    def each(self, query: str, values: Sequence[Any]) -> Iterator[Row]:
        """The rows of a query, in which ``{t}`` is the prefix of tables, and ``{names}`` and
        ``{keys}`` test whether a text or a key is among the values."""
        raise NotImplementedError

    def entities(self, keys: Sequence[str]) -> Iterator[Row]:
        query = f"SELECT {ENTITY} FROM {{t}}entities AS e WHERE e.known AND e.name {{names}}"
        return self.each(query, keys)

    def titles(self, entities: Sequence[EntityId]) -> Iterator[Row]:
        return self.each(
            "SELECT a.entity, d.id, d.title FROM {t}aliases AS a JOIN {t}documents AS d"
            " ON d.key = a.document WHERE a.entity {keys} ORDER BY d.id",
            entities,
        )

    def places(self, passages: Sequence[Key]) -> Iterator[Row]:
        return self.each(
            f"SELECT {PLACE} FROM {{t}}passages AS p JOIN {{t}}documents AS d"
            " ON d.key = p.document WHERE p.key {keys}",
            integers(passages),
        )

    def mentioned(self, passages: Sequence[Key]) -> Iterator[Row]:
        return self.each(
            f"SELECT m.passage, {ENTITY} FROM {{t}}mentions AS m JOIN {{t}}entities AS e"
            " ON e.key = m.entity WHERE e.known AND m.passage {keys}"
            " ORDER BY m.passage, m.entity",
            integers(passages),
        )

    def facts_about(self, keys: Sequence[str], most: int) -> Iterator[Row]:
        order = "WHERE e.name {names} ORDER BY d.id, p.position, x.position"
        return self.each(f"{_FACTS} {order}", keys)

    def facts_in(self, passages: Sequence[Key]) -> Iterator[Row]:
        order = "WHERE x.passage {keys} ORDER BY x.passage, x.position"
        return self.each(f"{_FACTS} {order}", integers(passages))

    def relations(self, keys: Sequence[str], most: int) -> Iterator[Row]:
        return self.each(
            f"SELECT s.name, x.relation, t.name, x.context, {PLACE} FROM {{t}}relations AS x"
            " JOIN {t}entities AS s ON s.key = x.source"
            f" JOIN {{t}}entities AS t ON t.key = x.target {PLACED}"
            " WHERE s.name {names} OR t.name {names} ORDER BY d.id, p.position, x.position",
            keys,
        )

    def extractions(self, passages: Sequence[Key]) -> Iterator[tuple[Key, Extraction]]:
        query = "SELECT passage, payload FROM {t}extractions WHERE passage {keys}"
        rows = self.each(query, integers(passages))
        return ((key, read_extraction(json.loads(payload))) for key, payload in rows)


def _entities(queries: KnowledgeQueries, rows: Iterable[Row]) -> list[Entity]:
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

"""What graph ranking follows: from passages over names to other passages.

A store answers with the edges of a few passages at once. ``KnowledgeGraph`` does it with the
queries that every store has; a store that can do better brings its own ``NameGraph``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from packwise.stores.base import supports
from packwise.stores.knowledge import (
    Entity,
    EntityId,
    Key,
    KnowledgeStore,
    PassageEntities,
    PassagePlace,
)

MOST_ENTITIES = 64
"""Entities of one passage that are followed, the rarest first; a list of names is no path."""

MOST_PASSAGES = 64
"""Passages of one document among which the best of its article is looked for."""


class NameEdge(NamedTuple):
    """A way from a passage to others by the name ``via``.

    ``articles`` is 0 where the targets mention the name too. Where they are the passages of an
    article with this title, it says how many articles have it, and ``passages`` how many
    passages mention it.
    """

    via: str
    targets: Sequence[Key]
    articles: int = 0
    passages: int = 0


class Surroundings(NamedTuple):
    """A passage's document, the entities it mentions, and the edges that leave it."""

    document: Key
    title: str
    entities: Collection[EntityId]
    edges: Sequence[NameEdge]


@dataclass(frozen=True, slots=True)
class QuestionName:
    """An entity that a question names: the documents with that title, and edges to them."""

    id: EntityId
    key: str
    documents: frozenset[Key] = frozenset()
    edges: Sequence[NameEdge] = field(default=())


class NameGraph(Protocol):
    """The names of one store, as graph ranking reads them."""

    def names(self, keys: Sequence[str]) -> Mapping[str, QuestionName]:
        """The known entities with these keys."""
        ...

    def surroundings(
        self, passages: Sequence[Key], asked: Collection[str], places: int
    ) -> Mapping[Key, Surroundings]:
        """What these passages mention and where that leads; missing passages are left out.

        Edges by the names of ``asked`` are left out, edges within an article too, and names
        that more than ``places`` passages of other articles share: 0 for titles only.
        """
        ...


@runtime_checkable
class HasNameGraph(Protocol):
    """A store that has a better one than ``KnowledgeGraph``."""

    def name_graph(self) -> NameGraph: ...


def name_graph(store: KnowledgeStore) -> NameGraph:
    """The names of a store."""
    return store.name_graph() if supports(store, HasNameGraph) else KnowledgeGraph(store)


class KnowledgeGraph:
    """``NameGraph`` of any store."""

    def __init__(self, store: KnowledgeStore) -> None:
        self._store = store

    def names(self, keys: Sequence[str]) -> Mapping[str, QuestionName]:
        known = self._store.entities_named(keys)
        articles = {key: _articles(entity) for key, entity in known.items()}
        passages = self._passages(articles.values())
        return {
            key: QuestionName(
                entity.id,
                key,
                frozenset(titled.document for titled in entity.titled),
                list(_to_articles(entity, articles[key], passages)),
            )
            for key, entity in known.items()
        }

    def surroundings(
        self, passages: Sequence[Key], asked: Collection[str], places: int
    ) -> Mapping[Key, Surroundings]:
        held = self._store.entities_of(passages)
        followed = {key: _followed(one, asked) for key, one in held.items()}
        rare = {
            entity.id
            for entities in followed.values()
            for entity in entities
            # Passages of the seed's own article do not count, so the store may hold more.
            if 1 < entity.passages <= 2 * places
        }
        mentions = self._store.mentions(sorted(rare, key=str), 2 * places) if rare else {}
        articles = {
            (key, entity.id): _articles(entity, held[key].place.article)
            for key, entities in followed.items()
            for entity in entities
        }
        first = self._passages(articles.values())
        found: dict[Key, Surroundings] = {}
        for key, one in held.items():
            edges: list[NameEdge] = []
            for entity in followed[key]:
                edges += _to_articles(entity, articles[key, entity.id], first)
                edges += _to_places(entity, mentions.get(entity.id, ()), one.place.article, places)
            mentioned = frozenset(entity.id for entity in one.entities)
            found[key] = Surroundings(one.place.document, one.place.title, mentioned, edges)
        return found

    def _passages(self, articles: Iterable[list[list[str]]]) -> Mapping[str, list[Key]]:
        documents = dict.fromkeys(name for found in articles for one in found for name in one)
        return self._store.passages_of(list(documents), MOST_PASSAGES) if documents else {}


def _followed(held: PassageEntities, asked: Collection[str]) -> list[Entity]:
    """The entities of a passage that lead to something new, the rarest first."""
    leading = [
        entity
        for entity in held.entities
        if entity.key not in asked
        and not any(titled.article == held.place.article for titled in entity.titled)
    ]
    leading.sort(key=lambda entity: (entity.passages, entity.key))
    return leading[:MOST_ENTITIES]


def _articles(entity: Entity, here: str = "") -> list[list[str]]:
    """The documents an entity is the title of, by article, without the article ``here``."""
    groups: dict[str, list[str]] = {}
    for titled in entity.titled:
        if titled.article != here:
            groups.setdefault(titled.article, []).append(titled.document)
    return list(groups.values())


def _to_articles(
    entity: Entity, articles: Sequence[Sequence[str]], passages: Mapping[str, list[Key]]
) -> Iterable[NameEdge]:
    for documents in articles:
        targets = [key for name in documents for key in passages.get(name, ())]
        yield NameEdge(entity.key, targets, len(articles), entity.passages)


def _to_places(
    entity: Entity, found: Iterable[PassagePlace], here: str, places: int
) -> Iterable[NameEdge]:
    others = [place.key for place in found if place.article != here]
    if 0 < len(others) <= places:
        yield NameEdge(entity.key, others)

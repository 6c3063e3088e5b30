"""What a store knows of the things its passages name: entities, facts, relations.

Names, titles and definitions are found by rule when a document is committed
(``packwise.language.names``); what a language model extracted comes with the document. A store
keeps both in the same form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from packwise.language.names import name_key

Key = int | str
EntityId = int | str


@dataclass(frozen=True, slots=True)
class Titled:
    """A document that an entity is the title, or an alias of the title, of."""

    document: str
    title: str

    @property
    def article(self) -> str:
        return _article(self.document, self.title)


@dataclass(frozen=True, slots=True)
class Entity:
    """Something passages name. ``passages`` counts those that do.

    ``key`` is its ``entities.name_key``, ``label`` how a text writes it.
    """

    id: EntityId
    key: str
    kind: str
    passages: int
    titled: tuple[Titled, ...] = ()
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
class Held:
    """A passage's place and the entities it mentions."""

    place: Place
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A sentence about an entity (``about`` is its key), and the passage it stands in."""

    about: str
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Relation:
    """Two entities (by key) and what a passage says ties the first to the second."""

    source: str
    relation: str
    target: str
    context: str
    place: Place


class KnowledgeStore(Protocol):
    """What a store tells of entities. Every answer is in a fixed order.

    Only entities that some passage surely names, or that title a document, are known to
    it; an alias of too many titles comes with none of them (``entities.MOST_NAMESAKES``).
    """

    def entities_named(self, keys: Sequence[str]) -> Mapping[str, Entity]:
        """The entities of these keys; keys nothing is known of are left out."""
        ...

    def entities_like(self, text: str, most: int) -> list[Entity]:
        """The entities whose key holds all words of ``text``'s key: the exact key first, then
        those that most passages name."""
        ...

    def entities_of(self, passages: Sequence[Key]) -> Mapping[Key, Held]:
        """Where these passages stand and what they mention; gone ones are left out."""
        ...

    def mentions(self, entities: Sequence[EntityId], most: int) -> Mapping[EntityId, list[Place]]:
        """The passages that mention these entities, at most ``most`` of each."""
        ...

    def passages_of(self, documents: Sequence[str], most: int) -> Mapping[str, list[Key]]:
        """The first ``most`` passages of these documents, in reading order."""
        ...

    def facts_about(self, keys: Sequence[str], most: int) -> list[StoredFact]:
        """What passages say these entities are, at most ``most`` of each, in reading order."""
        ...

    def facts_of(self, passages: Sequence[Key]) -> Mapping[Key, list[StoredFact]]:
        """The facts that stand in these passages; passages without any are left out."""
        ...

    def relations_of(self, keys: Sequence[str], most: int) -> list[Relation]:
        """Relations that start or end at these entities, at most ``most`` of each."""
        ...


def first_relations(
    relations: Iterable[Relation], keys: Iterable[str], most: int
) -> list[Relation]:
    """Those of these relations that start or end at one of the keys, at most ``most`` of
    each key, none twice."""
    wanted = frozenset(keys)
    taken: Counter[str] = Counter()
    found: dict[Relation, None] = {}
    for tie in relations:
        ends = wanted & {tie.source, tie.target}
        if tie in found or all(taken[end] >= most for end in ends):
            continue
        taken.update(ends)
        found[tie] = None
    return list(found)


@lru_cache(maxsize=4096)
def _article(document: str, title: str) -> str:
    """What makes documents one article: their title, or else the document itself."""
    return name_key(title) or f"#{document}"

"""What a store in Qdrant tells of entities: the reading side of ``telling``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packwise.language.names import name_key
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
from packwise.stores.pack.rows import storable
from packwise.stores.qdrant.layout import QdrantState, batched, has, has_any, tag
from packwise.stores.qdrant.reader import QdrantReader

_PLACE = ["passage", "document", "docTitle", "orderIndex"]
_DEPTH = 256


class Knowledge:
    """The part of a store that knows of entities."""

    _reader: QdrantReader

    def entities_named(self, keys: Sequence[str]) -> Mapping[str, Entity]:
        return self._reader.consistently(lambda state: self._named(state, keys), checked=True)

    def entities_like(self, text: str, most: int) -> list[Entity]:
        key = name_key(storable(text))
        words = key.split()
        if not words or most <= 0:
            return []

        def look(state: QdrantState) -> list[Entity]:
            wanted = has(tag("known"), *(tag("word", word) for word in dict.fromkeys(words)))
            depth = most + _DEPTH
            while True:
                (points,) = self._reader.firsts(state, [wanted], depth, by="count", descending=True)
                cut = points[most - 1].payload["count"] if len(points) >= most else -1
                if len(points) < depth or points[-1].payload["count"] < cut:
                    break
                depth *= 4
            found = {entity.key: entity for entity in map(_entity, points)}
            found.update(self._named(state, [key]))
            ranked = sorted(
                found.values(), key=lambda e: (e.key != key, -e.passages, len(e.key), e.key)
            )
            return ranked[:most]

        return self._reader.consistently(look, checked=True)

    def entities_of(self, passages: Sequence[Key]) -> Mapping[Key, Held]:
        def look(state: QdrantState) -> Mapping[Key, Held]:
            told = self._told(state, passages, [*_PLACE, "mentions"])
            names = {name: None for p in told.values() for name, *_ in p["mentions"]}
            entities = self._named(state, list(names))
            return {
                key: Held(
                    _place(told[key]),
                    tuple(entities[n] for n, *_ in told[key]["mentions"] if n in entities),
                )
                for key in passages
                if key in told
            }

        return self._reader.consistently(look, checked=True)

    def mentions(self, entities: Sequence[EntityId], most: int) -> Mapping[EntityId, list[Place]]:
        names = list(dict.fromkeys(entities))

        def look(state: QdrantState) -> Mapping[EntityId, list[Place]]:
            wanted = [has(tag("mentions", name)) for name in names]
            found = self._reader.firsts(state, wanted, most, by="passage", fields=_PLACE)
            return {
                name: [_place(point.payload) for point in points]
                for name, points in zip(names, found, strict=True)
            }

        return self._reader.consistently(look, checked=True)

    def passages_of(self, documents: Sequence[str], most: int) -> Mapping[str, list[Key]]:
        names = list(dict.fromkeys(documents))

        def look(state: QdrantState) -> Mapping[str, list[Key]]:
            wanted = [has(tag("passages of", storable(name))) for name in names]
            found = self._reader.firsts(state, wanted, most, by="orderIndex", fields=["born"])
            return {
                name: [point.id for point in points]
                for name, points in zip(names, found, strict=True)
                if points
            }

        return self._reader.consistently(look, checked=True)

    def facts_about(self, keys: Sequence[str], most: int) -> list[StoredFact]:
        names = [storable(key) for key in dict.fromkeys(keys)]

        def look(state: QdrantState) -> list[StoredFact]:
            found: list[StoredFact] = []
            for name, told in self._telling(state, names, "about", most, "facts"):
                about = [fact for payload in told for fact in _facts(payload) if fact.about == name]
                found += about[:most]
            return found

        return self._reader.consistently(look, checked=True)

    def facts_of(self, passages: Sequence[Key]) -> Mapping[Key, list[StoredFact]]:
        def look(state: QdrantState) -> Mapping[Key, list[StoredFact]]:
            told = self._told(state, passages, [*_PLACE, "facts"])
            return {
                key: _facts(told[key]) for key in passages if key in told and told[key]["facts"]
            }

        return self._reader.consistently(look, checked=True)

    def relations_of(self, keys: Sequence[str], most: int) -> list[Relation]:
        names = [storable(key) for key in dict.fromkeys(keys)]

        def look(state: QdrantState) -> list[Relation]:
            told: dict[Key, Mapping[str, Any]] = {}
            for _, payloads in self._telling(state, names, "ties", most, "relations"):
                told.update((payload["passage"], payload) for payload in payloads)
            ties = (
                Relation(source, relation, target, context, _place(payload))
                for payload in sorted(told.values(), key=_reading_order)
                for source, relation, target, context in payload["relations"]
            )
            return first_relations(ties, names, most)

        return self._reader.consistently(look, checked=True)

    def _named(self, state: QdrantState, keys: Sequence[str]) -> dict[str, Entity]:
        found: dict[str, Entity] = {}
        for batch in batched(dict.fromkeys(storable(key) for key in keys), 1000):
            wanted = [*has(tag("known")), has_any(tag("entity", key) for key in batch)]
            for record in self._reader.pick(state, wanted, len(batch)):
                entity = _entity(record)
                found[entity.key] = entity
        return {key: found[key] for key in keys if key in found}

    def _told(
        self, state: QdrantState, passages: Sequence[Key], fields: Sequence[str]
    ) -> dict[Key, Mapping[str, Any]]:
        found: dict[Key, Mapping[str, Any]] = {}
        keys = [key for key in dict.fromkeys(passages) if isinstance(key, int)]
        for batch in batched(keys, 1000):
            wanted = [has_any(tag("told by", key) for key in batch)]
            for record in self._reader.pick(state, wanted, len(batch), fields):
                found[record.payload["passage"]] = record.payload
        return found

    def _telling(
        self, state: QdrantState, names: Sequence[str], what: str, most: int, field: str
    ) -> list[tuple[str, list[Mapping[str, Any]]]]:
        """For each name, what passages tell of it, in reading order."""
        wanted = [has(tag(what, name)) for name in names]
        depth = max(most, 0) and max(_DEPTH, 4 * most)
        found = self._reader.firsts(state, wanted, depth, by="passage", fields=[*_PLACE, field])
        return [
            (name, sorted((point.payload for point in points), key=_reading_order))
            for name, points in zip(names, found, strict=True)
        ]


def _reading_order(payload: Mapping[str, Any]) -> tuple[str, int]:
    return payload["document"], payload["orderIndex"]


def _place(payload: Mapping[str, Any]) -> Place:
    return Place(payload["passage"], payload["document"], payload["docTitle"])


def _facts(payload: Mapping[str, Any]) -> list[StoredFact]:
    return [StoredFact(key, text, _place(payload)) for key, text in payload["facts"]]


def _entity(record: Any) -> Entity:
    payload = record.payload
    return Entity(
        id=payload["key"],
        key=payload["key"],
        kind=payload["entityKind"],
        passages=payload["count"],
        titled=tuple(Titled(document, title) for document, title in payload["titled"]),
        label=payload["label"],
        description=payload["description"],
    )

"""What a store in Qdrant holds about entities, as rows.

One point per passage carries its mentions, facts and relations, one per entity its counts and
titles (``entity_points``). Every request asks for one generation, or raises ``GenerationEnded``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import models

from packwise.language.names import Extraction
from packwise.stores.extractions import read_extraction
from packwise.stores.knowledge import EntityId, Key, Row
from packwise.stores.qdrant.layout import QdrantState, batched, has, has_any, tag
from packwise.stores.qdrant.reader import QdrantReader
from packwise.stores.qdrant.search import store_keys

_PLACE = ["passage", "document", "docTitle", "orderIndex"]
_DEPTH = 256
_BATCH = 1000


class QdrantKnowledge:
    """``KnowledgeQueries`` of one generation."""

    def __init__(self, reader: QdrantReader, state: QdrantState) -> None:
        self._reader = reader
        self._state = state
        self._titles: dict[EntityId, list[list[str]]] = {}
        self._found: list[Mapping[str, Any]] = []

    def entities(self, keys: Sequence[str]) -> Iterator[Row]:
        for batch in batched(keys, _BATCH):
            wanted = [*has(tag("known")), has_any(tag("entity", key) for key in batch)]
            points = self._reader.pick(self._state, wanted, len(batch))
            yield from (self._entity(point.payload) for point in points)

    def entities_like(self, key: str, most: int) -> Iterator[Row]:
        wanted = has(tag("known"), *(tag("word", word) for word in dict.fromkeys(key.split())))
        depth = most + _DEPTH
        while True:
            (points,) = self._reader.firsts(
                self._state, [wanted], depth, by="count", descending=True
            )
            cut = points[most - 1].payload["count"] if len(points) >= most else -1
            if len(points) < depth or points[-1].payload["count"] < cut:
                break
            depth *= 4
        rows = {row[0]: row for row in (self._entity(point.payload) for point in points)}
        rows.update((row[0], row) for row in self.entities([key]))
        yield from rows.values()

    def titles(self, entities: Sequence[EntityId]) -> Iterator[Row]:
        # They came with the entities.
        for entity in entities:
            yield from ((entity, document, title) for document, title in self._titles[entity])

    def places(self, passages: Sequence[Key]) -> Iterator[Row]:
        # What they mention comes with them.
        self._found = list(self._found_in(passages, "mentions"))
        return map(_place, self._found)

    def mentioned(self, passages: Sequence[Key]) -> Iterator[Row]:
        names = dict.fromkeys(name for point in self._found for name, *_ in point["mentions"])
        entities = {row[1]: row for row in self.entities(list(names))}
        for point in self._found:
            for name, *_ in point["mentions"]:
                if name in entities:
                    yield point["passage"], *entities[name]

    def mentioning(self, entities: Sequence[EntityId], most: int) -> Iterator[Row]:
        wanted = [has(tag("mentions", entity)) for entity in entities]
        found = self._reader.firsts(self._state, wanted, most, by="passage", fields=_PLACE)
        for entity, points in zip(entities, found, strict=True):
            yield from ((entity, *_place(point.payload)) for point in points)

    def first_passages(self, documents: Sequence[str], most: int) -> Iterator[Row]:
        wanted = [has(tag("passages of", name)) for name in documents]
        found = self._reader.firsts(self._state, wanted, most, by="orderIndex", fields=["born"])
        for name, points in zip(documents, found, strict=True):
            yield from ((name, point.id) for point in points)

    def facts_about(self, keys: Sequence[str], most: int) -> Iterator[Row]:
        for name, points in self._naming(keys, "about", most, "facts"):
            for point in points:
                for about, text in point["facts"]:
                    if about == name:
                        yield about, text, *_place(point)

    def facts_in(self, passages: Sequence[Key]) -> Iterator[Row]:
        for point in self._found_in(passages, "facts"):
            yield from ((about, text, *_place(point)) for about, text in point["facts"])

    def relations(self, keys: Sequence[str], most: int) -> Iterator[Row]:
        found = {
            point["passage"]: point
            for _, points in self._naming(keys, "ties", most, "relations")
            for point in points
        }
        for point in sorted(found.values(), key=_reading_order):
            for source, relation, target, context in point["relations"]:
                yield source, relation, target, context, *_place(point)

    def extractions(self, passages: Sequence[Key]) -> Iterator[tuple[Key, Extraction]]:
        for batch in batched(store_keys(passages), _BATCH):
            wanted = [models.HasIdCondition(has_id=[*batch]), *has(tag("passages"))]
            for point in self._reader.pick(self._state, wanted, len(batch), ["extraction"]):
                if point.payload.get("extraction"):
                    yield point.id, read_extraction(point.payload["extraction"])

    def _entity(self, payload: Mapping[str, Any]) -> Row:
        key = payload["key"]
        self._titles[key] = payload["titled"]
        names = ("label", "entityKind", "description", "count")
        label, kind, description, count = (payload[name] for name in names)
        return key, key, label, kind, description, count

    def _found_in(self, passages: Sequence[Key], field: str) -> Iterator[Mapping[str, Any]]:
        """What was found in passages, in the order they are stored."""
        for batch in batched(store_keys(passages), _BATCH):
            wanted = [has_any(tag("told by", key) for key in batch)]
            fields = [*_PLACE, field]
            points = self._reader.pick(self._state, wanted, len(batch), fields)
            yield from (point.payload for point in points)

    def _naming(
        self, names: Sequence[str], what: str, most: int, field: str
    ) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """For each name, what was found in the passages about it, in reading order."""
        wanted = [has(tag(what, name)) for name in names]
        depth = most and max(_DEPTH, 4 * most)
        fields = [*_PLACE, field]
        found = self._reader.firsts(self._state, wanted, depth, by="passage", fields=fields)
        for name, points in zip(names, found, strict=True):
            yield name, sorted((point.payload for point in points), key=_reading_order)


def _reading_order(payload: Mapping[str, Any]) -> tuple[str, int]:
    return payload["document"], payload["orderIndex"]


def _place(payload: Mapping[str, Any]) -> Row:
    return payload["passage"], payload["document"], payload["docTitle"]

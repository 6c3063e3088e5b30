"""A commit in Qdrant: compute the next generation, write it beside the current one, then switch
with one write of the state point (or of the alias, for a new collection)."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from qdrant_client import models

from packwise.language.analyzer import ANALYZER
from packwise.language.entities import AliasIndex
from packwise.stores.bm25 import term_hash
from packwise.stores.checks import EmbedderIdentity
from packwise.stores.entity_extraction import AliasChange, current_rules
from packwise.stores.lifecycle import utc_now
from packwise.stores.links import index_urls, pagerank, target_of
from packwise.stores.qdrant.entity_points import (
    FINDINGS_FIELDS,
    DocumentRow,
    EntityChanges,
    findings_point,
    first_aliases,
    linked_from,
)
from packwise.stores.qdrant.layout import (
    NEVER,
    SPARSE,
    STATE,
    Payload,
    QdrantState,
    all_of,
    batched,
    delete_collection,
    has,
    has_any,
    scroll,
    tag,
    upsert,
    visible,
    within,
)
from packwise.stores.qdrant.lease import Lease
from packwise.stores.qdrant.points import PASSAGE_FIELDS
from packwise.stores.qdrant.reader import QdrantReader
from packwise.stores.qdrant.server import QdrantServer
from packwise.stores.qdrant.statistics import TABLE_PARTS, pack_part, sparse_vector, unpack_terms

_DRIFT = 0.1
"""How far the average length may move before the sparse vectors are computed again. Results
stay exact in any case, but more candidates have to be fetched for them."""

_GRACE = 120.0
"""Seconds a reader may take: dead points are kept at least this long."""

_READ = [*PASSAGE_FIELDS, "owner", "extraction", "terms", "length"]


class _DocumentSet:
    """The documents of a generation by id, with where their links lead and the aliases of
    their titles."""

    def __init__(self, rows: Mapping[str, DocumentRow]) -> None:
        self.rows = dict(sorted(rows.items()))
        urls = index_urls((row.id, row.url) for row in self.rows.values())
        self.targets = {
            name: [target_of(href, name, self.rows, urls) for href, _, _ in row.links]
            for name, row in self.rows.items()
        }
        self.aliases = AliasIndex((row.id, row.title) for row in self.rows.values())
        self.first_aliases = first_aliases(self.rows.values(), self.aliases)

    def titled(self, key: str) -> list[tuple[str, str]]:
        """The documents that an entity is the title of, with their titles."""
        return [(name, self.rows[name].title) for name in self.aliases.documents(key)]

    def linked_aliases(self, name: str) -> list[tuple[str, str] | None]:
        return [self.first_aliases.get(target or "") for target in self.targets[name]]


@dataclass(kw_only=True)
class QdrantCommit:
    """The change from one generation to the next.

    ``state`` is the generation that this one follows in the same collection, ``previous`` the
    one that readers see; they differ when the store is embedded again. ``live``, ``staged``
    and ``removed`` are documents by id.
    """

    server: QdrantServer
    alias: str
    collection: str
    reader: QdrantReader
    lease: Lease
    embedder: EmbedderIdentity
    state: QdrantState | None
    previous: QdrantState | None
    assumed_length: float
    live: Mapping[str, DocumentRow]
    staged: Mapping[str, DocumentRow]
    removed: Mapping[str, DocumentRow]
    _entities: EntityChanges = field(default_factory=EntityChanges)
    _frequencies: Counter[int] = field(default_factory=Counter[int])
    _ended: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        remaining = {name: row for name, row in self.live.items() if name not in self.removed}
        # Entities that were found by other rules are all found again; their points end.
        self._known = self.state if self.state and self.state.rules == current_rules() else None
        self._before = _DocumentSet(self.live if self._known else {})
        self._after = _DocumentSet({**remaining, **self.staged})
        replaced = [self.live[name] for name in self.staged if name in self.live]
        self._ending = [*self.removed.values(), *replaced]
        self._generation = (self.state.generation if self.state else 0) + 1
        self._terms = self.state.terms if self.state else 0
        self._passages = self.state.passages if self.state else 0

    def run(self) -> QdrantState:
        """Write the new generation and switch to it. A kill at any moment leaves the old one,
        and what was staged stays staged."""
        if self.state is not None:
            self._subtract_ending(self.state)
        self._add_staged()
        if self.state is not None:
            self._update_remaining(self.state)
        self._write_entities()
        self._write_terms()
        self._write_ranks()
        state = self._next_state()
        self._mark()
        state = self._reweigh(state)
        self._switch(state)
        self._sweep()
        return state

    def _subtract_ending(self, state: QdrantState) -> None:
        """Take the documents that end out of the term statistics and the entities."""
        for rows in batched(self._ending):
            owned = _owned_by(rows)
            passages = [owned, *has(tag("passages"))]
            for record in self.reader.find(state, passages, ["terms", "length"]):
                self._count_terms(record.payload, -1)
            for record in self._findings([owned, *has(tag("kind", "told"))]):
                self._entities.remove(record.payload)
        if self._known is None:
            stale = [has_any(tag("kind", kind) for kind in ("told", "entity"))]
            self._ended += [record.id for record in self.reader.find(state, stale, ["born"])]

    def _add_staged(self) -> None:
        def read(record: Any) -> Payload:
            self._count_terms(record.payload, 1)
            point = self._entity_point(record)
            self._entities.add(point)
            return point

        for rows in batched(self.staged.values()):
            where = all_of(_owned_by(rows), *has(tag("passages")), within("born", gte=NEVER))
            self._write(map(read, scroll(self.server, self.collection, where, _READ)))

    def _update_remaining(self, state: QdrantState) -> None:
        """Read again the remaining passages that may mention other entities than before."""
        for batch in batched(sorted(self._affected(state))):
            by = [has_any(tag("told by", key) for key in batch)]
            before = {record.payload["passage"]: record for record in self._findings(by)}
            changed: list[Payload] = []
            for record in self.server.call("retrieve", self.collection, batch, with_payload=_READ):
                point = self._entity_point(record)
                old = before.get(record.id)
                if old is not None and old.payload["mentions"] == point["mentions"]:
                    continue
                if old is not None:
                    self._entities.remove(old.payload)
                    self._ended.append(old.id)
                self._entities.add(point)
                changed.append(point)
            self._write(changed)

    def _affected(self, state: QdrantState) -> set[int]:
        """The passages of remaining documents that mention an alias that is gone, link to a
        document with another first alias, or contain a new alias; all if the rules changed."""
        before, after = self._before, self._after
        remaining = {row.key: n for n, row in after.rows.items() if n not in self.staged}
        if self._known is None:
            records = self.reader.find(state, has(tag("passages")), ["owner"])
            return {record.id for record in records if record.payload["owner"] in remaining}
        keys: set[int] = set()
        change = AliasChange(before.aliases, after.aliases)
        for batch in batched(change.removed):
            wanted = [has_any(tag("mentions", alias) for alias in batch)]
            keys.update(
                record.payload["passage"]
                for record in self.reader.find(state, wanted, ["passage", "owner"])
                if record.payload["owner"] in remaining
            )
        relinked = [
            after.rows[name]
            for name in remaining.values()
            if before.linked_aliases(name) != after.linked_aliases(name)
        ]
        for rows in batched(relinked):
            owned = [_owned_by(rows), *has(tag("passages"))]
            keys.update(record.id for record in self.reader.find(state, owned, ["born"]))
        if change.any_added:
            records = self.reader.find(state, has(tag("passages")), ["text", "owner"])
            keys.update(
                record.id
                for record in records
                if record.payload["owner"] in remaining
                and change.appears_in(record.payload["text"])
            )
        return keys

    def _findings(self, conditions: Sequence[Any]) -> Iterable[Any]:
        """What was found in passages before, unless it is all found again."""
        return self.reader.find(self._known, conditions, FINDINGS_FIELDS) if self._known else ()

    def _entity_point(self, record: Any) -> Payload:
        """What a passage mentions and states, as a point of the new generation."""
        name = record.payload["document"]
        links = [
            (anchor, start, target)
            for (_, anchor, start), target in zip(
                self._after.rows[name].links, self._after.targets[name], strict=True
            )
        ]
        linked = linked_from(record.payload, links, self._after.first_aliases)
        aliases = self._after.aliases
        return findings_point(record.id, record.payload, aliases, linked, self._generation)

    def _write_entities(self) -> None:
        before, after = self._before, self._after
        keys = {*before.aliases, *after.aliases}
        self._entities.titles(key for key in keys if before.titled(key) != after.titled(key))
        for batch in batched(self._entities.keys, 1000):
            old: dict[str, Payload] = {}
            if self._known is not None:
                wanted = [has_any(tag("entity", key) for key in batch)]
                for record in self.reader.find(self._known, wanted):
                    old[record.payload["key"]] = record.payload
                    self._ended.append(record.id)
            entities = (
                self._entities.entity(key, old.get(key), after.titled(key), self._generation)
                for key in batch
            )
            self._write(entity for entity in entities if entity is not None)

    def _write_terms(self) -> None:
        """Add the changes of term frequencies to those parts of their table that change."""
        changed: dict[int, dict[int, float]] = {}
        for hashed, count in self._frequencies.items():
            if count:
                changed.setdefault(hashed % TABLE_PARTS, {})[hashed] = float(count)
        if self.state is not None and changed:
            for part, held in self.reader.parts(self.state, "terms", changed).items():
                for hashed, count in changed[part].items():
                    held[hashed] = held.get(hashed, 0.0) + count
                changed[part] = {hashed: count for hashed, count in held.items() if count}
        self._replace_parts("terms", changed)

    def _write_ranks(self) -> None:
        places = {name: place for place, name in enumerate(self._after.rows)}
        pairs = np.array(
            [
                (places[name], places[target])
                for name, targets in self._after.targets.items()
                for target in targets
                if target is not None
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        ranks = pagerank(len(places), pairs[:, 0], pairs[:, 1]).tolist()
        parts: dict[int, dict[int, float]] = {part: {} for part in range(TABLE_PARTS)}
        for name, rank in zip(places, ranks, strict=True):
            hashed = term_hash(name)
            parts[hashed % TABLE_PARTS][hashed] = rank
        self._replace_parts("ranks", parts)

    def _replace_parts(self, table: str, parts: Mapping[int, Mapping[int, float]]) -> None:
        if self.state is not None and parts:
            wanted = [has_any(tag("part", table, part) for part in parts)]
            self._ended += [r.id for r in self.reader.find(self.state, wanted, ["part"])]
        self._write(
            {
                "kind": "part",
                "born": self._generation,
                "died": NEVER,
                "part": part,
                "values": pack_part(values),
                "tags": [tag("part", table, part)],
            }
            for part, values in parts.items()
            if values
        )

    def _write(self, payloads: Iterable[Payload]) -> None:
        def point(payload: Payload) -> models.PointStruct:
            payload["tags"].append(tag("kind", payload["kind"]))
            return models.PointStruct(id=self.lease.key(), vector={}, payload=payload)

        upsert(self.server, self.collection, map(point, payloads), most=512)

    def _count_terms(self, payload: Mapping[str, Any], by: int) -> None:
        for hashed in unpack_terms(payload["terms"])["hash"].tolist():
            self._frequencies[hashed] += by
        self._terms += by * payload["length"]
        self._passages += by

    def _next_state(self) -> QdrantState:
        name, version, dim = self.embedder
        documents = self._after.rows
        targets = [target for found in self._after.targets.values() for target in found]
        resolved = sum(target is not None for target in targets)
        return QdrantState(
            collection=self.collection,
            generation=self._generation,
            token=secrets.token_hex(8),
            embedder=name,
            embedder_version=version,
            dim=dim,
            documents=len(documents),
            passages=self._passages,
            links=resolved,
            unresolved=len(targets) - resolved,
            content_bytes=sum(row.content_bytes for row in documents.values()) or 1,
            terms=self._terms,
            weighed=self.assumed_length,
            analyzer=ANALYZER,
            rules=current_rules(),
            created_at=self.previous.created_at if self.previous else utc_now(),
            updated_at=utc_now(),
            committed=time.time(),
        )

    def _mark(self) -> None:
        """Set when points are born and die. Readers of the current generation see no change."""
        for rows in batched(self.staged.values()):
            self._set(
                {"born": self._generation}, all_of(_owned_by(rows), within("born", gte=NEVER))
            )
        if self.state is None:
            return
        for rows in batched(self._ending):
            seen = all_of(_owned_by(rows), *visible(self.state.generation))
            self._set({"died": self._generation}, seen)
        for batch in batched(self._ended, 1000):
            self._set({"died": self._generation}, batch)

    def _set(self, values: Payload, where: models.Filter | list[int]) -> None:
        self.server.call("set_payload", self.collection, values, where, wait=True)

    def _reweigh(self, state: QdrantState) -> QdrantState:
        """Compute all sparse vectors again if the average length has moved too far.

        Scores do not depend on them, so readers can go on in the meantime.
        """
        average = max(state.average_length, 1.0)
        if not state.passages or abs(average / max(state.weighed, 1e-9) - 1.0) <= _DRIFT:
            return state
        where = all_of(*visible(state.generation), *has(tag("passages")))
        for batch in batched(scroll(self.server, self.collection, where, ["terms", "length"])):
            points: list[models.PointVectors] = []
            for record in batch:
                sparse = sparse_vector(record.payload["terms"], record.payload["length"], average)
                points.append(models.PointVectors(id=record.id, vector={SPARSE: sparse}))
            self.server.call("update_vectors", self.collection, points, wait=True)
        return replace(state, weighed=average)

    def _switch(self, state: QdrantState) -> None:
        self.lease.check()
        struct = models.PointStruct(id=STATE, vector={}, payload=state.payload())
        ordering = models.WriteOrdering.MEDIUM
        self.server.call("upsert", self.collection, [struct], wait=True, ordering=ordering)
        if self.state is not None:
            return
        delete = models.DeleteAlias(alias_name=self.alias)
        create = models.CreateAlias(collection_name=self.collection, alias_name=self.alias)
        changes: list[Any] = [models.CreateAliasOperation(create_alias=create)]
        if self.previous is not None:
            changes.insert(0, models.DeleteAliasOperation(delete_alias=delete))
        self.server.call("update_collection_aliases", changes)

    def _sweep(self) -> None:
        """Delete what no reader can be reading any more."""
        if self.state is None:
            if self.previous is not None:
                delete_collection(self.server, self.previous.collection)
        elif time.time() - self.state.committed > _GRACE:
            dead = all_of(within("died", lte=self.state.generation))
            self.server.call("delete", self.collection, dead, wait=True)


def _owned_by(rows: Iterable[DocumentRow]) -> Any:
    """A condition: a point belongs to one of these documents."""
    return has_any(tag("owner", row.key) for row in rows)

"""A commit in Qdrant: work out what the next generation is, write it beside the current one,
then change over by one write of the state point (or of the alias, for a new collection)."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from packwise.language.analyzer import ANALYZER
from packwise.language.names import AliasIndex
from packwise.stores.bm25 import term_hash
from packwise.stores.entity_extraction import AliasChange, current_rules
from packwise.stores.lifecycle import utc_now
from packwise.stores.links import index_urls, pagerank, target_of
from packwise.stores.qdrant.address import Address
from packwise.stores.qdrant.entity_points import (
    FINDINGS_FIELDS,
    DocumentRow,
    Tally,
    findings_point,
    first_aliases,
    linked_from,
)
from packwise.stores.qdrant.layout import (
    NEVER,
    SPARSE,
    STATE,
    Payload,
    State,
    every,
    has,
    has_any,
    scroll,
    tag,
    visible,
    within,
)
from packwise.stores.qdrant.lease import Lease
from packwise.stores.qdrant.points import PASSAGE_FIELDS
from packwise.stores.qdrant.reading import Reading, batched
from packwise.stores.qdrant.server import CollectionMissing, Server
from packwise.stores.qdrant.tables import PARTS, Part, pack_part, part_of, part_tag
from packwise.stores.qdrant.weights import sparse, unpack_terms

_DRIFT = 0.1
"""How far the average length may move before the sparse vectors are weighed again: what is
found stays exact, but more candidates have to be fetched for it."""

_GRACE = 120.0
"""Seconds a reader may take: what died is kept at least as long after its generation ended."""

_READ = [*PASSAGE_FIELDS, "owner", "extraction", "terms", "length"]

Targets = dict[str, list[str | None]]


@dataclass(frozen=True, slots=True)
class Staged:
    """What a build decided: documents by id, as they are and as they shall be."""

    collection: str
    live: Mapping[str, DocumentRow]
    taken: Mapping[str, DocumentRow]
    removed: Mapping[str, DocumentRow]
    identity: tuple[str, str, int]

    def next(self) -> dict[str, DocumentRow]:
        """The documents of the new generation, by id."""
        rows = {name: row for name, row in self.live.items() if name not in self.removed}
        rows.update(self.taken)
        return dict(sorted(rows.items()))

    def dead(self) -> list[DocumentRow]:
        """The documents that end with the current generation."""
        replaced = [self.live[name] for name in self.taken if name in self.live]
        return [*self.removed.values(), *replaced]


class Commit:
    """One change from a generation to the next; ``run`` does it."""

    def __init__(
        self,
        server: Server,
        address: Address,
        reading: Reading,
        lease: Lease,
        staged: Staged,
        state: State | None,
        old: State | None,
        weighed: float,
    ) -> None:
        self._server = server
        self._address = address
        self._reading = reading
        self._lease = lease
        self._staged = staged
        self._state = state
        self._old = old
        self._weighed = weighed
        self._generation = (state.generation if state else 0) + 1
        self._tally = Tally()
        self._frequencies: Counter[int] = Counter()
        self._terms = state.terms if state else 0
        self._passages = state.passages if state else 0
        self._ended: list[int] = []
        # Entities found by other rules are all found again; their points end.
        self._known = state if state is None or state.rules == current_rules() else None

    def run(self) -> State:
        """Write the new generation and change over to it. A kill at any moment leaves the
        old one; what was staged stays staged."""
        documents = self._staged.next()
        before, after = _resolved(self._staged.live), _resolved(documents)
        aliases = AliasIndex((row.id, row.title) for row in documents.values())
        known = self._sorted_live() if self._known else ()
        old_aliases = AliasIndex((row.id, row.title) for row in known)
        self._forget_dead()
        self._tell_new(documents, after, aliases)
        self._tell_again(documents, before, after, old_aliases, aliases)
        self._write_entities(documents, old_aliases, aliases)
        self._write_terms()
        self._write_ranks(documents, after)
        state = self._next_state(documents, after)
        self._mark()
        state = self._weigh(state)
        self._change_over(state)
        self._sweep()
        return state

    def _sorted_live(self) -> list[DocumentRow]:
        return [row for _, row in sorted(self._staged.live.items())]

    def _forget_dead(self) -> None:
        """Take what ends out of the statistics and the entities."""
        if self._state is None:
            return
        for rows in batched(self._staged.dead()):
            owned = has_any(tag("owner", row.key) for row in rows)
            for record in self._reading.find(
                self._state, [owned, *has(tag("passages"))], ["terms", "length"]
            ):
                self._count_terms(record.payload, -1)
            found = [owned, *has(tag("kind", "told"))]
            for record in self._findings(found):
                self._tally.remove(record.payload)
        if self._known is None:
            stale = [has_any(tag("kind", kind) for kind in ("told", "entity"))]
            self._ended += [r.id for r in self._reading.find(self._state, stale, ["born"])]

    def _tell_new(
        self, documents: Mapping[str, DocumentRow], targets: Targets, aliases: AliasIndex
    ) -> None:
        heads = first_aliases(documents.values(), aliases)
        for rows in batched(self._staged.taken.values()):
            owned = every(
                [
                    has_any(tag("owner", row.key) for row in rows),
                    *has(tag("passages")),
                    within("born", gte=NEVER),
                ]
            )

            def told(record: Any) -> Payload:
                self._count_terms(record.payload, 1)
                return self._told(record, documents, targets, aliases, heads)

            self._write(map(told, scroll(self._server, self._staged.collection, owned, _READ)))

    def _tell_again(
        self,
        documents: Mapping[str, DocumentRow],
        before: Targets,
        after: Targets,
        old_aliases: AliasIndex,
        aliases: AliasIndex,
    ) -> None:
        """Read those passages again that stay but mention other titles than before."""
        if self._state is None:
            return
        staying = {row.key for name, row in documents.items() if name not in self._staged.taken}
        keys = self._affected(staying, documents, before, after, old_aliases, aliases)
        heads = first_aliases(documents.values(), aliases)
        for batch in batched(sorted(keys)):
            told_before: dict[int, tuple[int, Payload]] = {}
            by = [has_any(tag("told by", key) for key in batch)]
            for record in self._findings(by):
                told_before[record.payload["passage"]] = (record.id, record.payload)
            fresh: list[Payload] = []
            for record in self._records(batch):
                point = self._told(record, documents, after, aliases, heads, tally=False)
                old = told_before.get(record.id)
                if old is not None and old[1]["mentions"] == point["mentions"]:
                    continue
                if old is not None:
                    self._tally.remove(old[1])
                    self._ended.append(old[0])
                self._tally.add(point)
                fresh.append(point)
            self._write(fresh)

    def _affected(
        self,
        staying: set[int],
        documents: Mapping[str, DocumentRow],
        before: Targets,
        after: Targets,
        old_aliases: AliasIndex,
        aliases: AliasIndex,
    ) -> set[int]:
        assert self._state is not None
        if self._known is None:
            records = self._reading.find(self._state, has(tag("passages")), ["owner"])
            return {record.id for record in records if record.payload["owner"] in staying}
        keys: set[int] = set()
        change = AliasChange(old_aliases, aliases)
        for batch in batched(change.removed):
            wanted = [has_any(tag("mentions", alias) for alias in batch)]
            keys.update(
                record.payload["passage"]
                for record in self._reading.find(self._state, wanted, ["passage", "owner"])
                if record.payload["owner"] in staying
            )
        old_heads = first_aliases(self._staged.live.values(), old_aliases)
        heads = first_aliases(documents.values(), aliases)
        relinked = [
            row
            for name, row in documents.items()
            if row.key in staying
            and [old_heads.get(target or "") for target in before[name]]
            != [heads.get(target or "") for target in after[name]]
        ]
        for rows in batched(relinked):
            owned = [has_any(tag("owner", row.key) for row in rows), *has(tag("passages"))]
            keys.update(r.id for r in self._reading.find(self._state, owned, ["born"]))
        if change.any_added:
            records = self._reading.find(self._state, has(tag("passages")), ["text", "owner"])
            keys.update(
                record.id
                for record in records
                if record.payload["owner"] in staying and change.appears_in(record.payload["text"])
            )
        return keys

    def _findings(self, conditions: Sequence[Any]) -> Iterable[Any]:
        """What was found in passages before, unless it has to be found again."""
        if self._known is None:
            return ()
        return self._reading.find(self._known, conditions, FINDINGS_FIELDS)

    def _records(self, keys: Sequence[int]) -> list[Any]:
        return self._server.call(
            lambda client: client.retrieve(self._staged.collection, list(keys), with_payload=_READ)
        )

    def _told(
        self,
        record: Any,
        documents: Mapping[str, DocumentRow],
        targets: Targets,
        aliases: AliasIndex,
        heads: Mapping[str, tuple[str, str]],
        *,
        tally: bool = True,
    ) -> Payload:
        name = record.payload["document"]
        links = [
            (anchor, start, target)
            for (_, anchor, start), target in zip(documents[name].links, targets[name], strict=True)
        ]
        linked = linked_from(record.payload, links, heads)
        point = findings_point(record.id, record.payload, aliases, linked, self._generation)
        if tally:
            self._tally.add(point)
        return point

    def _write_entities(
        self,
        documents: Mapping[str, DocumentRow],
        old_aliases: AliasIndex,
        aliases: AliasIndex,
    ) -> None:
        titles = {name: row.title for name, row in documents.items()}
        old_titles = {name: row.title for name, row in self._staged.live.items()}
        self._tally.titles(
            key
            for key in {*old_aliases, *aliases}
            if _titled(old_aliases, key, old_titles) != _titled(aliases, key, titles)
        )
        for batch in batched(self._tally.keys, 1000):
            old: dict[str, Any] = {}
            if self._known is not None:
                wanted = [has_any(tag("entity", key) for key in batch)]
                for record in self._reading.find(self._known, wanted):
                    old[record.payload["key"]] = record
                    self._ended.append(record.id)
            entities = (
                self._tally.entity(
                    key,
                    old[key].payload if key in old else None,
                    _titled(aliases, key, titles),
                    self._generation,
                )
                for key in batch
            )
            self._write(entity for entity in entities if entity is not None)

    def _write_terms(self) -> None:
        self._write_table(
            "terms",
            {digest: float(count) for digest, count in self._frequencies.items() if count},
            lambda old, value: old + value,
        )

    def _write_ranks(self, documents: Mapping[str, DocumentRow], targets: Targets) -> None:
        places = {name: at for at, name in enumerate(documents)}
        pairs = np.array(
            [
                (places[name], places[target])
                for name, found in targets.items()
                for target in found
                if target is not None
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        ranks = pagerank(len(places), pairs[:, 0], pairs[:, 1]).tolist()
        self._write_table(
            "ranks",
            {term_hash(name): rank for name, rank in zip(places, ranks, strict=True)},
            None,
        )

    def _write_table(
        self, table: str, values: Mapping[int, float], merge: Callable[[float, float], float] | None
    ) -> None:
        """Write the parts of a table that change: added to what is there, or in its place."""
        changed: dict[int, Part] = {} if merge else {part: {} for part in range(PARTS)}
        for digest, value in values.items():
            changed.setdefault(part_of(digest), {})[digest] = value
        if self._state is not None and changed:
            wanted = [has_any(part_tag(table, part) for part in changed)]
            self._ended += [r.id for r in self._reading.find(self._state, wanted, ["part"])]
            if merge:
                for part, held in self._reading.parts(self._state, table, list(changed)).items():
                    for digest, value in changed[part].items():
                        held[digest] = merge(held.get(digest, 0.0), value)
                    changed[part] = {digest: value for digest, value in held.items() if value}
        self._write(
            {
                "kind": "part",
                "born": self._generation,
                "died": NEVER,
                "part": part,
                "values": pack_part(held),
                "tags": [part_tag(table, part)],
            }
            for part, held in changed.items()
            if held
        )

    def _write(self, payloads: Iterable[Payload]) -> None:
        from qdrant_client import models

        points: list[Any] = []

        def send() -> None:
            self._server.call(
                lambda client: client.upsert(self._staged.collection, list(points), wait=True)
            )
            points.clear()

        for payload in payloads:
            payload["tags"].append(tag("kind", payload["kind"]))
            points.append(models.PointStruct(id=self._lease.key(), vector={}, payload=payload))
            if len(points) >= 512:
                send()
        if points:
            send()

    def _count_terms(self, payload: Mapping[str, Any], by: int) -> None:
        for digest in unpack_terms(payload["terms"])["hash"].tolist():
            self._frequencies[digest] += by
        self._terms += by * payload["length"]
        self._passages += by

    def _next_state(self, documents: Mapping[str, DocumentRow], targets: Targets) -> State:
        name, version, dim = self._staged.identity
        resolved = sum(t is not None for found in targets.values() for t in found)
        total = sum(len(found) for found in targets.values())
        return State(
            collection=self._staged.collection,
            generation=self._generation,
            token=secrets.token_hex(8),
            embedder=name,
            embedder_version=version,
            dim=dim,
            documents=len(documents),
            passages=self._passages,
            links=resolved,
            unresolved=total - resolved,
            content_bytes=sum(row.content_bytes for row in documents.values()) or 1,
            terms=self._terms,
            weighed=self._weighed,
            analyzer=ANALYZER,
            rules=current_rules(),
            created_at=self._old.created_at if self._old else utc_now(),
            updated_at=utc_now(),
            committed=time.time(),
        )

    def _mark(self) -> None:
        """Say when points are born and die; readers of the current generation see no change."""
        for rows in batched(self._staged.taken.values()):
            owned = has_any(tag("owner", row.key) for row in rows)
            self._set({"born": self._generation}, every([owned, within("born", gte=NEVER)]))
        generation = self._generation
        if self._state is None:
            return
        seen = visible(self._state.generation)
        for rows in batched(self._staged.dead()):
            owned = has_any(tag("owner", row.key) for row in rows)
            self._set({"died": generation}, every([owned, *seen]))
        for batch in batched(self._ended, 1000):
            self._set({"died": generation}, batch)

    def _set(self, values: Payload, where: Any) -> None:
        collection = self._staged.collection
        self._server.call(lambda client: client.set_payload(collection, values, where, wait=True))

    def _weigh(self, state: State) -> State:
        """Weigh all sparse vectors again where the average length has moved too far.

        Scores never depend on it, so readers may go on meanwhile.
        """
        from qdrant_client import models

        average = max(state.average_length, 1.0)
        if not state.passages or abs(average / max(state.weighed, 1e-9) - 1.0) <= _DRIFT:
            return state
        where = every([*visible(state.generation), *has(tag("passages"))])
        records = scroll(self._server, state.collection, where, ["terms", "length"])
        for batch in batched(records):
            points: list[Any] = []
            for record in batch:
                entries = unpack_terms(record.payload["terms"])
                indices, values = sparse(entries, record.payload["length"], average)
                vector = models.SparseVector(indices=indices, values=values)
                points.append(models.PointVectors(id=record.id, vector={SPARSE: vector}))
            self._server.call(
                lambda client, p=points: client.update_vectors(state.collection, p, wait=True)
            )
        return replace(state, weighed=average)

    def _change_over(self, state: State) -> None:
        from qdrant_client import models

        self._lease.check()
        struct = models.PointStruct(id=STATE, vector={}, payload=state.payload())
        self._server.call(
            lambda client: client.upsert(
                state.collection, [struct], wait=True, ordering=models.WriteOrdering.MEDIUM
            )
        )
        if self._state is not None:
            return
        name = self._address.collection
        changes: list[Any] = [
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=state.collection, alias_name=name)
            )
        ]
        if self._old is not None:
            changes.insert(
                0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=name))
            )
        self._server.call(lambda client: client.update_collection_aliases(changes))

    def _sweep(self) -> None:
        """Remove what nobody can be reading any more."""
        if self._state is None:
            if self._old is not None:
                old = self._old.collection
                try:
                    self._server.call(lambda client: client.delete_collection(old))
                except CollectionMissing:
                    return
            return
        if time.time() - self._state.committed > _GRACE:
            gone = every([within("died", lte=self._state.generation)])
            self._server.call(
                lambda client: client.delete(self._staged.collection, gone, wait=True)
            )


def _resolved(documents: Mapping[str, DocumentRow]) -> Targets:
    """For each document where its links lead, one entry a link."""
    urls = index_urls((row.id, row.url) for row in documents.values())
    return {
        name: [target_of(href, name, documents, urls) for href, _, _ in row.links]
        for name, row in documents.items()
    }


def _titled(
    aliases: AliasIndex, key: str, titles: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    return tuple((name, titles[name]) for name in aliases.documents(key))

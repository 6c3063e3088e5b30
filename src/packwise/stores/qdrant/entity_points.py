"""What a commit finds in passages, as points, and the entities that adds up to.

Only what can have changed is read again; the entities it touches are added to and taken
from. A passage also mentions what its author linked from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packwise.documents import Passage
from packwise.language.entities import AliasIndex
from packwise.language.names import Kind, title_aliases
from packwise.stores.entity_extraction import find_in_passage
from packwise.stores.extractions import read_extraction
from packwise.stores.qdrant.layout import NEVER, Payload, tag
from packwise.stores.qdrant.points import read_passage

DERIVED = ("told", "entity", "part")
"""Kinds of points that a commit makes, and that a commit that was killed leaves over."""

FINDINGS_FIELDS = ["passage", "owner", "mentions", "facts", "relations"]


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """What a commit has to know of every document. ``links`` are (href, anchor, start)."""

    key: int
    id: str
    title: str
    url: str
    source_hash: str
    content_bytes: int
    links: tuple[tuple[str, str, int], ...] = ()


def findings_point(
    passage_key: int,
    payload: Mapping[str, Any],
    aliases: AliasIndex,
    linked: Mapping[str, str],
    generation: int,
) -> Payload:
    """What a passage says; ``linked`` are keys and titles of what it links to."""
    passage: Passage = read_passage(payload)
    extraction = payload.get("extraction")
    found = find_in_passage(passage, aliases, read_extraction(extraction) if extraction else None)
    mentions = [[m.key, m.label, m.kind, m.sure, m.description, False] for m in found.mentions]
    named = {mention.key for mention in found.mentions}
    mentions += [
        [key, title, Kind.TITLE.value, True, "", True]
        for key, title in linked.items()
        if key not in named
    ]
    return {
        "kind": "told",
        "born": generation,
        "died": NEVER,
        "passage": passage_key,
        "owner": payload["owner"],
        "document": payload["document"],
        "docTitle": payload["docTitle"],
        "orderIndex": payload["orderIndex"],
        "mentions": mentions,
        "facts": [[fact.key, fact.text] for fact in found.facts],
        "labels": {fact.key: fact.label for fact in found.facts},
        "relations": [[r.source, r.relation, r.target, r.context] for r in found.relations],
        "tags": [
            tag("told by", passage_key),
            tag("owner", payload["owner"]),
            *(tag("mentions", mention[0]) for mention in mentions),
            *{tag("about", fact.key): None for fact in found.facts},
            *{tag("ties", end): None for r in found.relations for end in (r.source, r.target)},
        ],
    }


def linked_from(
    passage: Mapping[str, Any],
    links: Iterable[tuple[str, int, str | None]],
    heads: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    """Keys and titles of the documents that a passage links to.

    ``links`` are (anchor, start, target document); ``heads`` is the first alias and the
    title of each document that has one.
    """
    found: dict[str, str] = {}
    for anchor, start, target in links:
        inside = passage["start"] <= start and start + len(anchor) <= passage["end"]
        if anchor and inside and target is not None and target in heads:
            key, title = heads[target]
            found.setdefault(key, title)
    return found


def first_aliases(
    documents: Iterable[DocumentRow], aliases: AliasIndex
) -> dict[str, tuple[str, str]]:
    """For each document, its first alias (where that names few enough) and its title."""
    found: dict[str, tuple[str, str]] = {}
    for document in documents:
        first = next(iter(title_aliases(document.title)), None)
        if first is not None and first in aliases:
            found[document.id] = (first, document.title)
    return found


@dataclass(slots=True)
class _Change:
    passages: int = 0
    sure: int = 0
    stated: int = 0
    label: str = ""
    kind: str = ""
    description: str = ""

    def name(self, label: str, kind: str, description: str = "") -> None:
        if not self.kind:
            self.label, self.kind = label, kind
        self.description = self.description or description


@dataclass(slots=True)
class EntityChanges:
    """How the entities of a store change from one generation to the next."""

    _changes: dict[str, _Change] = field(default_factory=dict[str, _Change])

    def add(self, findings: Mapping[str, Any]) -> None:
        """A passage with these findings is new."""
        for key, label, kind, sure, description, linked in findings["mentions"]:
            change = self._count(key, 1, sure)
            if not linked:
                change.name(label, kind, description)
        labels = findings.get("labels", {})
        for key, _ in findings["facts"]:
            change = self._changes.setdefault(key, _Change())
            change.stated += 1
            change.name(labels.get(key, key), Kind.TERM.value)
        self._count_relations(findings, 1)

    def remove(self, findings: Mapping[str, Any]) -> None:
        """A passage with these findings is gone, or has others now."""
        for key, _, _, sure, *_ in findings["mentions"]:
            self._count(key, -1, sure)
        for key, _ in findings["facts"]:
            self._changes.setdefault(key, _Change()).stated -= 1
        self._count_relations(findings, -1)

    def titles(self, keys: Iterable[str]) -> None:
        """The documents that these entities title have changed."""
        for key in keys:
            self._changes.setdefault(key, _Change())

    @property
    def keys(self) -> list[str]:
        return list(self._changes)

    def entity(
        self,
        key: str,
        old: Mapping[str, Any] | None,
        titled: Sequence[tuple[str, str]],
        generation: int,
    ) -> Payload | None:
        """The entity as it is now; ``None`` when nothing mentions it any more."""
        change = self._changes[key]
        before = old or {"count": 0, "sure": 0, "stated": 0}
        count, sure = before["count"] + change.passages, before["sure"] + change.sure
        stated = before["stated"] + change.stated
        if count <= 0 and stated <= 0 and not titled:
            return None
        label, kind = change.label, change.kind
        if old is not None:
            label, kind = old["label"], old["entityKind"]
        elif not kind:
            label, kind = (titled[0][1] if titled else key), Kind.TITLE.value
        known = sure > 0 or stated > 0 or bool(titled)
        return {
            "kind": "entity",
            "born": generation,
            "died": NEVER,
            "key": key,
            "label": label,
            "entityKind": kind,
            "description": (old or {}).get("description") or change.description,
            "count": count,
            "sure": sure,
            "stated": stated,
            "titled": [list(pair) for pair in titled],
            "tags": [
                tag("entity", key),
                *([tag("known")] if known else []),
                *(tag("word", word) for word in dict.fromkeys(key.split())),
            ],
        }

    def _count(self, key: str, passages: int, sure: bool) -> _Change:
        change = self._changes.setdefault(key, _Change())
        change.passages += passages
        change.sure += passages * bool(sure)
        return change

    def _count_relations(self, findings: Mapping[str, Any], by: int) -> None:
        for source, _, target, _ in findings["relations"]:
            for end in (source, target):
                self._changes.setdefault(end, _Change()).stated += by

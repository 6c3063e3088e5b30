"""The neighbourhood of an article or a name: links between articles, and shared names.

Only documents that the caller may see take part, and a name is known only through visible
passages that mention it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from packwise.language.names import Kind, name_key
from packwise.serving.callers import Caller, visible, visible_spelling
from packwise.serving.store_registry import ServedStore
from packwise.stores.knowledge import Entity

_PASSAGES = 40
_MENTIONS = 60
_SIMILAR_NAMES = 5
_NAMES = 12
_RESTRICTED_FACTOR = 20
"""A restricted caller's part of a store may come last: search this many times as far for it."""


def find_article(served: ServedStore, caller: Caller, name: str) -> str | None:
    """The id of the visible article with that id or title; of several, highest PageRank first."""
    store = served.library.store
    if store.document(name) is not None and visible(store, caller, [name]):
        return name
    key = name_key(name)
    known = store.entities_named([key]).get(key) if key else None
    titled = [entry.document for entry in known.titled] if known is not None else []
    seen = visible(store, caller, titled)
    if seen:
        ranks = store.pagerank(sorted(seen))
        return max(sorted(seen), key=lambda entry: ranks.get(entry, 0.0))
    wanted = name.casefold()
    return next(
        (e.id for e in served.articles(caller).values() if e.title.casefold() == wanted), None
    )


def neighbourhood(
    served: ServedStore, caller: Caller, name: str, limit: int
) -> dict[str, Any] | None:
    """The neighbourhood of an article (by id or title) or a name; ``None`` if it is neither."""
    graph = _Neighbourhood(served, caller, limit)
    document = find_article(served, caller, name)
    centre = graph.of_article(document) if document is not None else graph.of_name(name)
    if centre is None:
        return None
    return {
        "centre": centre,
        "nodes": list(graph.nodes.values()),
        "edges": list(graph.edges.values()),
        "left_out": graph.left_out,
    }


@dataclass(slots=True)
class _Neighbourhood:
    """The nodes and edges collected so far; never more than ``limit`` nodes."""

    served: ServedStore
    caller: Caller
    limit: int
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    edges: dict[tuple[str, str, str], dict[str, Any]] = field(
        default_factory=dict[tuple[str, str, str], dict[str, Any]]
    )
    left_out: int = 0

    def of_article(self, document: str) -> str:
        """Add an article, its neighbours and shared names; returns the article's node."""
        store, limit, centre = self.served.library.store, self.limit, f"article:{document}"
        self._add_articles([document])
        links = store.links([document])
        targets = Counter(
            link.target for _, link in links if link.target and link.target != document
        )
        own = self._title_entity(document)
        mentioning = self._mentioning(own) if own is not None else {}
        mentioning.pop(document, None)
        found = [name for name, _ in targets.most_common(limit)]
        found += [name for name, _ in Counter(mentioning).most_common(limit)]
        seen = visible(store, self.caller, found)
        neighbours = [name for name in dict.fromkeys(found) if name in seen]

        names = self._shared_names(document)
        reserved = min(_NAMES, len(names), limit // 3)
        self._add_articles(neighbours[: max(0, limit - 1 - reserved)])
        self.left_out += max(0, len(neighbours) - (limit - 1 - reserved))
        for _, link in links:
            if link.target:
                self._edge(centre, f"article:{link.target}", link.kind, link.anchor)
        for name, count in mentioning.items():
            self._edge(f"article:{name}", centre, "mention", "", count)
        for entity in names[:reserved]:
            self._add_shared_name(entity)
        self._add_links(centre)
        return centre

    def of_name(self, name: str) -> str | None:
        """Add a name and the articles that mention it; returns the name's node."""
        for entity in self.served.library.store.entities_like(name, self._reach(_SIMILAR_NAMES)):
            mentioning = self._mentioning(entity)
            label = self._label(entity, mentioning)
            if mentioning and label is not None:
                centre = f"name:{entity.key}"
                self._add_name(entity, label, mentioning)
                self._add_articles([name for name, _ in Counter(mentioning).most_common()])
                for document, count in mentioning.items():
                    self._edge(f"article:{document}", centre, "mentions", "", count)
                self._add_links("")
                return centre
        return None

    def _node(self, name: str, **values: Any) -> bool:
        if name not in self.nodes:
            if len(self.nodes) >= self.limit:
                self.left_out += 1
                return False
            self.nodes[name] = {"id": name, **values}
        return True

    def _edge(self, source: str, target: str, kind: str, label: str = "", count: int = 1) -> None:
        if source != target and source in self.nodes and target in self.nodes:
            edge = {"source": source, "target": target, "kind": kind, "label": label, "count": 0}
            self.edges.setdefault((source, target, kind), edge)["count"] += count

    def _title_entity(self, document: str) -> Entity | None:
        store = self.served.library.store
        found = store.document(document)
        key = name_key(found.title) if found is not None else ""
        return store.entities_named([key]).get(key) if key else None

    def _mentioning(self, entity: Entity) -> dict[str, int]:
        """The visible documents that mention a name, and how often."""
        store = self.served.library.store
        mentions = store.mentions([entity.id], self._reach(_MENTIONS))
        counts = Counter(place.document for found in mentions.values() for place in found)
        seen = visible(store, self.caller, counts)
        return {document: count for document, count in counts.items() if document in seen}

    def _counts(self, entities: Sequence[Entity]) -> dict[str, int]:
        """The number of visible passages that mention each name, by its key."""
        if self.caller.unbound:
            return {entity.key: entity.passages for entity in entities}
        store = self.served.library.store
        mentions = store.mentions([entity.id for entity in entities], self._reach(_MENTIONS))
        documents = (place.document for found in mentions.values() for place in found)
        seen = visible(store, self.caller, documents)
        return {
            entity.key: sum(place.document in seen for place in mentions.get(entity.id, ()))
            for entity in entities
        }

    def _reach(self, limit: int) -> int:
        return limit if self.caller.unbound else _RESTRICTED_FACTOR * limit

    def _label(self, entity: Entity, documents: Iterable[str]) -> str | None:
        """The name as one of these documents spells it; ``None`` if none of them has it."""
        read = (self.served.library.store.document(name) for name in documents)
        texts = (f"{found.title}\n{found.text}" for found in read if found is not None)
        return visible_spelling(self.caller, entity.label or entity.key, texts)

    def _shared_names(self, document: str) -> list[Entity]:
        """The names that both the article's first passages and other visible passages mention,
        those shared with the fewest others first."""
        store = self.served.library.store
        here: Counter[str] = Counter()
        known: dict[str, Entity] = {}
        keys = store.passages_of([document], _PASSAGES).get(document, [])
        for held in store.entities_of(keys).values():
            for entity in held.entities:
                known[entity.key] = entity
                here[entity.key] += 1
        others = [
            entity
            for key, entity in known.items()
            if entity.passages > here[key]
            and not any(title.document == document for title in entity.titled)
        ]
        shared = {key: n for key, n in self._counts(others).items() if n > here[key]}
        ordered = sorted(shared, key=lambda key: (-here[key] / shared[key], -here[key], key))
        return [known[key] for key in ordered]

    def _add_articles(self, documents: Iterable[str]) -> None:
        known = self.served.articles(self.caller)
        for document in documents:
            if (entry := known.get(document)) is not None:
                self._node(
                    f"article:{document}",
                    kind="article",
                    label=entry.title or document,
                    document=document,
                    pagerank=entry.pagerank,
                    passages=entry.passages,
                )

    def _add_name(self, entity: Entity, label: str, mentioning: dict[str, int]) -> bool:
        # The type of a name may come from another tenant's document.
        kind = entity.kind if self.caller.unbound else Kind.NAME.value
        return self._node(
            f"name:{entity.key}",
            kind="name",
            label=label,
            type=kind,
            passages=sum(mentioning.values()),
        )

    def _add_shared_name(self, entity: Entity) -> None:
        """Add a name and its edges to the articles already in the graph."""
        mentioning = self._mentioning(entity)
        here = {d: n for d, n in mentioning.items() if f"article:{d}" in self.nodes}
        label = self._label(entity, mentioning)
        if here and label is not None and self._add_name(entity, label, mentioning):
            for document, count in here.items():
                self._edge(f"article:{document}", f"name:{entity.key}", "mentions", "", count)

    def _add_links(self, centre: str) -> None:
        """Add the links between the other articles in the graph."""
        articles = [node for node in self.nodes.values() if node["kind"] == "article"]
        others = [node["document"] for node in articles if node["id"] != centre]
        for source, link in self.served.library.store.links(others):
            if link.target:
                self._edge(f"article:{source}", f"article:{link.target}", link.kind, link.anchor)

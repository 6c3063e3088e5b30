"""The neighbourhood of an article or a name: who links to whom, who mentions what.

Only documents that the caller may see have a part in it, and a name is known only through
the passages that mention it and that they may see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from packwise.language.names import Kind, name_key
from packwise.serving.callers import Caller, spelling, visible
from packwise.serving.store_registry import ServedStore
from packwise.stores.base import Store
from packwise.stores.knowledge import Entity

MOST_NODES = 200
_PASSAGES = 40
_PLACES = 60
_ALIKE = 5
_NAMES = 12
_UNSEEN = 20
"""How many times as far to look for who sees a part of a store only: others' come first, too."""


@dataclass(slots=True)
class _Drawing:
    """Nodes and edges so far, never more than ``most`` nodes."""

    most: int
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    edges: dict[tuple[str, str, str], dict[str, Any]] = field(
        default_factory=dict[tuple[str, str, str], dict[str, Any]]
    )
    left_out: int = 0

    def node(self, name: str, **values: Any) -> bool:
        if name in self.nodes:
            return True
        if len(self.nodes) >= self.most:
            self.left_out += 1
            return False
        self.nodes[name] = {"id": name, **values}
        return True

    def edge(self, source: str, target: str, kind: str, label: str = "", count: int = 1) -> None:
        if source == target or source not in self.nodes or target not in self.nodes:
            return
        known = self.edges.setdefault(
            (source, target, kind),
            {"source": source, "target": target, "kind": kind, "label": label, "count": 0},
        )
        known["count"] += count

    def record(self, centre: str) -> dict[str, Any]:
        return {
            "centre": centre,
            "nodes": list(self.nodes.values()),
            "edges": list(self.edges.values()),
            "left_out": self.left_out,
        }


def find_article(served: ServedStore, caller: Caller, name: str) -> str | None:
    """The id of the article of that id or title, if the caller may see one.

    Of several with one title it is the one of highest PageRank.
    """
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


def around(served: ServedStore, caller: Caller, name: str, limit: int) -> dict[str, Any] | None:
    """What surrounds an article (by id or title) or a name; ``None`` when it is neither."""
    document = find_article(served, caller, name)
    if document is not None:
        return _around_article(served, caller, document, limit)
    return _around_name(served, caller, name, limit)


def _around_article(
    served: ServedStore, caller: Caller, document: str, limit: int
) -> dict[str, Any]:
    store = served.library.store
    drawing = _Drawing(limit)
    _add_articles(drawing, served, caller, [document])
    centre = f"article:{document}"
    links = store.links([document])
    out = Counter(link.target for _, link in links if link.target and link.target != document)
    own = _title_entity(store, document)
    mentioning = _mentioning(store, caller, [own]) if own is not None else {}
    mentioning.pop(document, None)
    neighbours = [name for name, _ in out.most_common(limit)]
    neighbours += [name for name, _ in Counter(mentioning).most_common(limit)]
    seen = visible(store, caller, neighbours)
    neighbours = [name for name in dict.fromkeys(neighbours) if name in seen]

    names = _names_in(store, caller, document)
    room = min(_NAMES, len(names), limit // 3)
    _add_articles(drawing, served, caller, neighbours[: max(0, limit - 1 - room)])
    drawing.left_out += max(0, len(neighbours) - (limit - 1 - room))
    for _, link in links:
        if link.target:
            drawing.edge(centre, f"article:{link.target}", link.kind, link.anchor)
    for name, count in mentioning.items():
        drawing.edge(f"article:{name}", centre, "mention", "", count)
    _add_names(drawing, store, caller, names[:room])
    _link_neighbours(drawing, store, centre)
    return drawing.record(centre)


def _around_name(
    served: ServedStore, caller: Caller, name: str, limit: int
) -> dict[str, Any] | None:
    store = served.library.store
    for entity in store.entities_like(name, _far(caller, _ALIKE)):
        mentioning = _mentioning(store, caller, [entity])
        label = _label(store, caller, entity, mentioning)
        if not mentioning or label is None:
            continue
        drawing = _Drawing(limit)
        _add_name(drawing, caller, entity, label, sum(mentioning.values()))
        ordered = [document for document, _ in Counter(mentioning).most_common()]
        _add_articles(drawing, served, caller, ordered)
        for document, count in mentioning.items():
            drawing.edge(f"article:{document}", f"name:{entity.key}", "mentions", "", count)
        _link_neighbours(drawing, store, "")
        return drawing.record(f"name:{entity.key}")
    return None


def _title_entity(store: Store, document: str) -> Entity | None:
    found = store.document(document)
    key = name_key(found.title) if found is not None else ""
    return store.entities_named([key]).get(key) if key else None


def _mentioning(store: Store, caller: Caller, entities: list[Entity]) -> dict[str, int]:
    """The documents that mention these names and that the caller may see, with how often."""
    places = store.mentions([entity.id for entity in entities], _far(caller, _PLACES))
    counts = Counter(place.document for found in places.values() for place in found)
    seen = visible(store, caller, counts)
    return {document: count for document, count in counts.items() if document in seen}


def _counts(store: Store, caller: Caller, entities: Iterable[Entity]) -> dict[str, int]:
    """How many passages that the caller may see mention each of these names."""
    if caller.unbound:
        return {entity.key: entity.passages for entity in entities}
    keys = {entity.id: entity.key for entity in entities}
    places = store.mentions(list(keys), _far(caller, _PLACES))
    seen = visible(store, caller, (p.document for found in places.values() for p in found))
    return {
        key: sum(place.document in seen for place in places.get(name, ()))
        for name, key in keys.items()
    }


def _far(caller: Caller, most: int) -> int:
    return most if caller.unbound else _UNSEEN * most


def _label(store: Store, caller: Caller, entity: Entity, mentioning: Iterable[str]) -> str | None:
    """The name as a document writes it that mentions it; ``None`` if none does."""
    documents = (store.document(name) for name in mentioning)
    texts = (f"{found.title}\n{found.text}" for found in documents if found is not None)
    return spelling(caller, entity.label or entity.key, texts)


def _names_in(store: Store, caller: Caller, document: str) -> list[Entity]:
    """The names an article's first passages mention and other passages, too, that the caller
    may see: those it shares with few others first."""
    keys = store.passages_of([document], _PASSAGES).get(document, [])
    here: Counter[str] = Counter()
    known: dict[str, Entity] = {}
    for held in store.entities_of(keys).values():
        for entity in held.entities:
            known[entity.key] = entity
            here[entity.key] += 1
    others = {
        key: entity
        for key, entity in known.items()
        if entity.passages > here[key] and not any(t.document == document for t in entity.titled)
    }
    everywhere = _counts(store, caller, others.values())
    shared = {key: everywhere[key] for key in others if everywhere[key] > here[key]}
    ordered = sorted(shared, key=lambda key: (-here[key] / shared[key], -here[key], key))
    return [known[key] for key in ordered]


def _add_articles(
    drawing: _Drawing, served: ServedStore, caller: Caller, documents: list[str]
) -> None:
    known = served.articles(caller)
    for document in documents:
        entry = known.get(document)
        if entry is not None:
            drawing.node(
                f"article:{document}",
                kind="article",
                label=entry.title or document,
                document=document,
                pagerank=entry.pagerank,
                passages=entry.passages,
            )


def _add_name(drawing: _Drawing, caller: Caller, entity: Entity, label: str, passages: int) -> bool:
    return drawing.node(
        f"name:{entity.key}",
        kind="name",
        label=label,
        # What sort of thing it is may have been read in another tenant's document.
        type=entity.kind if caller.unbound else Kind.NAME.value,
        passages=passages,
    )


def _add_names(drawing: _Drawing, store: Store, caller: Caller, names: list[Entity]) -> None:
    """Names, and the drawn articles that share them."""
    for entity in names:
        mentioning = _mentioning(store, caller, [entity])
        drawn = {d: n for d, n in mentioning.items() if f"article:{d}" in drawing.nodes}
        label = _label(store, caller, entity, mentioning)
        if not drawn or label is None:
            continue
        if _add_name(drawing, caller, entity, label, sum(mentioning.values())):
            for document, count in drawn.items():
                drawing.edge(f"article:{document}", f"name:{entity.key}", "mentions", "", count)


def _link_neighbours(drawing: _Drawing, store: Store, centre: str) -> None:
    """The links among what is drawn already."""
    drawn = [n["document"] for n in drawing.nodes.values() if n["kind"] == "article"]
    others = [name for name in drawn if f"article:{name}" != centre]
    for source, link in store.links(others):
        if link.target:
            drawing.edge(f"article:{source}", f"article:{link.target}", link.kind, link.anchor)

"""Questions about the graph itself: what a name stands for, its facts, and paths between names.

Two names are related in four ways, the surest first: a relation that a language model extracted,
a link of the author, an article that mentions another's title, and a passage that names both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations
from typing import Any, NamedTuple

from packwise.errors import UsageError
from packwise.language.analyzer import FUNCTION_WORDS
from packwise.language.key_matcher import phrases
from packwise.language.names import name_key, names_in, title_aliases
from packwise.retrieval.graph import entities_in_question
from packwise.stores.base import Key, Store
from packwise.stores.knowledge import Entity, EntityId, PassageEntities, PassagePlace

MOST_HOPS = 6
MOST_PATHS = 5
MOST_FACTS = 50

_FOLLOWED = 48
"""Names per hop that are followed, the rarest first: a name on every page leads nowhere."""
_PLACES = 24
_PASSAGES = 64
_RELATIONS = 64
_LINKS = 400
_MOST_NAMED = 3
_MOST_PASSAGES = 12


class RelationKind(IntEnum):
    """How two names are related, the surest first."""

    RELATION = 0
    LINK = 1
    TITLE = 2
    NAME = 3


_WORDS = {
    RelationKind.LINK: "links to",
    RelationKind.TITLE: "mentions",
    RelationKind.NAME: "is named together with",
}


@dataclass(frozen=True, slots=True)
class PathStep:
    """One relation, in its direction in the documents, and the passage that shows it, if any."""

    source: str
    relation: str
    target: str
    kind: RelationKind
    place: PassagePlace | None = None
    context: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "relation": self.relation,
            "target": self.target,
            "kind": self.kind.name.lower(),
            "article": self.place.title or self.place.document if self.place else None,
            "context": self.context,
        }

    def __str__(self) -> str:
        return f"{self.source} {self.relation} {self.target}"


@dataclass(frozen=True, slots=True)
class EntityPath:
    """The steps from one name to another; ``nodes`` are the names on the path."""

    nodes: tuple[str, ...]
    steps: tuple[PathStep, ...]

    @property
    def hops(self) -> int:
        return len(self.steps)

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.nodes[0],
            "target": self.nodes[-1],
            "hops": self.hops,
            "nodes": list(self.nodes),
            "steps": [step.as_dict() for step in self.steps],
        }

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps))


def find_entity(store: Store, name: str) -> Entity | None:
    """The entity of this name: by its exact key, else the most mentioned similar one."""
    keys = keys_of(name)
    known = store.entities_named(keys)
    for key in keys:
        if key in known:
            return known[key]
    similar = store.entities_like(name, 1) if name_key(name) else []
    return similar[0] if similar else None


def keys_of(name: str) -> list[str]:
    """The keys under which a store may know a name, the likeliest first."""
    found = [name_key(name), *title_aliases(name), *(n.key for n in names_in(name))]
    return list(dict.fromkeys(key for key in found if key))


def articles_of(store: Store, entity: Entity) -> list[str]:
    """The titles of the articles that are about an entity, mention it or define it."""
    places = list(store.mentions([entity.id], _PLACES).get(entity.id, ()))
    places += [fact.place for fact in store.facts_about([entity.key], _PLACES)]
    titles = [titled.title or titled.document for titled in entity.titled]
    return list(dict.fromkeys([*titles, *(place.title or place.document for place in places)]))


def facts_about(store: Store, name: str) -> list[str]:
    """The facts about a name: those with it as subject, then those of the article it titles."""
    entity = find_entity(store, name)
    keys = keys_of(name) + ([entity.key] if entity else [])
    stored = list(store.facts_about(list(dict.fromkeys(keys)), MOST_FACTS))
    documents = [titled.document for titled in entity.titled] if entity else []
    by_document = store.passages_of(documents, _PASSAGES) if documents else {}
    passages = [key for document in documents for key in by_document.get(document, ())]
    held = store.facts_of(passages) if passages else {}
    stored += [fact for key in passages for fact in held.get(key, ())]
    return list(dict.fromkeys(" ".join(fact.text.split()) for fact in stored))[:MOST_FACTS]


def paths_in_question(store: Store, question: str, max_hops: int) -> list[EntityPath]:
    """The paths between the things that a question names."""
    named = _named_in(question, store)[:_MOST_NAMED]
    return [
        path
        for source, target in combinations(named, 2)
        for path in find_paths(store, source, target, max_hops, most=2)
    ]


def _named_in(question: str, store: Store) -> list[Entity]:
    """The entities that a question names; in small letters too, if there are fewer than two."""
    known = {entity.key: entity for entity in entities_in_question(question, store)}
    if len(known) < 2:
        found = store.entities_named(phrases(question))
        for key in sorted(found.keys() - FUNCTION_WORDS, key=lambda key: -key.count(" ")):
            # "click option" names one thing, not a click and an option.
            if not any(f" {key} " in f" {longer} " for longer in known):
                known[key] = found[key]
    asked = f" {name_key(question)} "
    return sorted(known.values(), key=lambda entity: asked.find(f" {entity.key} "))


def passages_of(found: Sequence[EntityPath]) -> tuple[Key, ...]:
    """The passages that support the steps of paths."""
    keys = (step.place.key for path in found for step in path.steps if step.place is not None)
    return tuple(dict.fromkeys(keys))[:_MOST_PASSAGES]


def find_paths(
    store: Store, source: Entity, target: Entity, max_hops: int = 3, most: int = MOST_PATHS
) -> list[EntityPath]:
    """The shortest paths of at most ``max_hops`` steps between two entities, the surest first."""
    if not 1 <= max_hops <= MOST_HOPS:
        raise UsageError(f"max_hops is 1 to {MOST_HOPS}, not {max_hops}")
    graph = _EntityGraph(store)
    start, goal = graph.add(source), graph.add(target)
    if start == goal:
        return []
    sides = (_Frontier(start), _Frontier(goal))
    for _ in range(max_hops):
        near, far = sorted(sides, key=lambda side: len(side.frontier))
        if not near.frontier:
            return []
        near.advance(graph)
        met = near.reached.keys() & far.reached.keys()
        if met:
            break
    else:
        return []
    paths = [_join(graph, sides[0], sides[1], node) for node in sorted(met)]
    paths.sort(key=lambda path: (path.hops, sum(step.kind for step in path.steps), path.nodes))
    return paths[:most]


class _EntityEdge(NamedTuple):
    """A relation between two nodes."""

    near: str
    far: str
    step: PathStep


class _EntityGraph:
    """The part of the graph that was searched: names as nodes, with what is known of each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.labels: dict[str, str] = {}
        self._ids: dict[str, dict[EntityId, None]] = {}
        self._documents: dict[str, dict[str, None]] = {}
        self._weights: dict[str, int] = {}

    def add(self, entity: Entity) -> str:
        """The node of an entity: an alias of one article is that article."""
        articles = {titled.article: titled.title for titled in reversed(entity.titled)}
        node, label = entity.key, entity.label or entity.key
        if len(articles) == 1:
            ((node, label),) = articles.items()
        self.labels.setdefault(node, label)
        self._ids.setdefault(node, {})[entity.id] = None
        documents = dict.fromkeys(titled.document for titled in entity.titled)
        self._documents.setdefault(node, {}).update(documents)
        self._weights[node] = max(self._weights.get(node, 0), entity.passages)
        return node

    def add_article(self, place: PassagePlace) -> str:
        """The node of the article a passage belongs to."""
        node = place.article
        self.labels.setdefault(node, place.title or place.document)
        self._documents.setdefault(node, {})[place.document] = None
        self._weights.setdefault(node, 1)
        return node

    def rarest(self, nodes: Iterable[str]) -> list[str]:
        ordered = sorted(nodes, key=lambda node: (self._weights.get(node, 1), node))
        return ordered[:_FOLLOWED]

    def surest_step(self, edge: _EntityEdge) -> PathStep:
        """The step of an edge, as a link if the author of the mention made it one: from the
        far end of a link only the mention shows."""
        if edge.step.kind is not RelationKind.TITLE:
            return edge.step
        for node, far in ((edge.near, edge.far), (edge.far, edge.near)):
            targets = self._documents.get(far, {})
            for _, link in self._store.links(list(self._documents.get(node, ()))):
                if link.target in targets:
                    return self._step(node, RelationKind.LINK, far, edge.step.place, link.anchor)
        return edge.step

    def edges(self, nodes: Sequence[str]) -> Iterator[_EntityEdge]:
        """Everything these nodes lead to, the surest relations first."""
        # Nodes that were found as articles have no entities yet.
        bare = [node for node in nodes if node not in self._ids]
        for key, entity in self._store.entities_named(bare).items():
            self._ids.setdefault(key, {})[entity.id] = None
        owners = {name: node for node in nodes for name in self._documents.get(node, ())}
        yield from self._relations(nodes)
        yield from self._links(owners)
        yield from self._own_mentions(owners)
        yield from self._mentioned(nodes)

    def _relations(self, nodes: Sequence[str]) -> Iterator[_EntityEdge]:
        found = self._store.relations_of(nodes, _RELATIONS)
        ends = list(dict.fromkeys(key for r in found for key in (r.source, r.target)))
        known = {key: self.add(e) for key, e in self._store.entities_named(ends).items()}
        for relation in found:
            source = known.get(relation.source, relation.source)
            target = known.get(relation.target, relation.target)
            names = [self.labels.setdefault(node, node) for node in (source, target)]
            step = PathStep(
                names[0],
                relation.relation,
                names[1],
                RelationKind.RELATION,
                relation.place,
                relation.context,
            )
            if source in nodes:
                yield _EntityEdge(source, target, step)
            if target in nodes:
                yield _EntityEdge(target, source, step)

    def _links(self, owners: Mapping[str, str]) -> Iterator[_EntityEdge]:
        links = [
            (owners[document], link.target, link.anchor)
            for document, link in self._store.links(list(owners))
            if link.target and link.target not in owners
        ][:_LINKS]
        targets = list(dict.fromkeys(target for _, target, _ in links))
        places = {held.place.document: held.place for held in self._held(targets, 1)}
        for node, target, anchor in links:
            if target in places:
                far = self.add_article(places[target])
                step = self._step(node, RelationKind.LINK, far, None, anchor)
                yield _EntityEdge(node, far, step)

    def _own_mentions(self, owners: Mapping[str, str]) -> Iterator[_EntityEdge]:
        """What the passages of these articles name."""
        for held in self._held(list(owners), _PASSAGES):
            node = owners[held.place.document]
            for far in map(self.add, held.entities):
                step = self._step(node, RelationKind.TITLE, far, held.place)
                yield _EntityEdge(node, far, step)

    def _mentioned(self, nodes: Sequence[str]) -> Iterator[_EntityEdge]:
        """The articles that name these nodes, and what they name in the same passage."""
        owners = {id: node for node in nodes for id in self._ids.get(node, ())}
        places = self._store.mentions(list(owners), _PLACES) if owners else {}
        by_passage: dict[Key, dict[str, None]] = {}
        for id, place in ((id, place) for id, found in places.items() for place in found):
            node, far = owners[id], self.add_article(place)
            yield _EntityEdge(node, far, self._step(far, RelationKind.TITLE, node, place))
            by_passage.setdefault(place.key, {})[node] = None
        held = self._store.entities_of(list(by_passage)) if by_passage else {}
        for key, found in held.items():
            for far in map(self.add, found.entities):
                for node in by_passage[key]:
                    step = self._step(node, RelationKind.NAME, far, found.place)
                    yield _EntityEdge(node, far, step)

    def _held(self, documents: Sequence[str], most: int) -> Iterable[PassageEntities]:
        """What the first passages of these documents mention."""
        passages = self._store.passages_of(documents, most) if documents else {}
        keys = [key for found in passages.values() for key in found]
        return self._store.entities_of(keys).values() if keys else ()

    def _step(
        self,
        source: str,
        kind: RelationKind,
        target: str,
        place: PassagePlace | None,
        anchor: str = "",
    ) -> PathStep:
        context = " ".join(anchor.split())
        return PathStep(
            self.labels[source], _WORDS[kind], self.labels[target], kind, place, context
        )


class _Frontier:
    """One end of a search for paths: the nodes reached, each by its surest relation."""

    def __init__(self, start: str) -> None:
        self.reached: dict[str, _EntityEdge | None] = {start: None}
        self.frontier: list[str] = [start]

    def advance(self, graph: _EntityGraph) -> None:
        """One hop further."""
        new: dict[str, _EntityEdge] = {}
        for edge in graph.edges(self.frontier):
            known = new.get(edge.far)
            if edge.far not in self.reached and (known is None or edge.step.kind < known.step.kind):
                new[edge.far] = edge
        self.reached.update(new)
        self.frontier = graph.rarest(new)

    def way(self, node: str) -> list[_EntityEdge]:
        """The edges from the start to a node."""
        edges: list[_EntityEdge] = []
        while (edge := self.reached[node]) is not None:
            edges.append(edge)
            node = edge.near
        return edges[::-1]


def _join(graph: _EntityGraph, first: _Frontier, second: _Frontier, node: str) -> EntityPath:
    ahead, back = first.way(node), second.way(node)[::-1]
    nodes = [*(edge.near for edge in ahead), node, *(edge.near for edge in back)]
    steps = [graph.surest_step(edge) for edge in (*ahead, *back)]
    return EntityPath(tuple(graph.labels[name] for name in nodes), tuple(steps))

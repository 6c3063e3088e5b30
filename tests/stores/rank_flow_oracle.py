"""Graph ranking as it was written first, object by object: what the arrays must agree with.

Graph ranking: passages that belong to the answer without resembling the question.

"Who married the director of *Jump for Glory*?" is answered by a passage that holds neither
"Jump" nor "Glory". A name leads there: the passage on the film names its director, and so does
the passage that is wanted. Rank flows along such names:

    question ── names ──> an article          its best passage rises
    best passages ── mention ──> an article   its best passage rises
    best passages ── share a name ──> others  they rise, less so the more there are

``spread`` gives each passage it reaches a bonus on top of its own score and records the path.
Four rules keep it from changing questions that one passage answers:

- Rank flows only from passages that hold something the question names.
- A passage never rises above the one that passed rank to it.
- Names in the question lead nowhere new: search has used them already.
- A seed that covers most of the question passes little on by shared names, and a neighbour
  without any of the missing terms gets half.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from typing import Any

from packwise.language.analyzer import terms as index_terms
from packwise.language.key_matcher import KeyMatcher, phrases
from packwise.language.names import title_aliases
from packwise.language.questions import parse_question
from packwise.retrieval.fusion import PassageScorer
from packwise.stores.base import Key
from packwise.stores.knowledge import Entity, KnowledgeStore, PassageEntities, PassagePlace

MOST_TERMS = 32
"""A question with more distinct terms is a text that names things in passing."""

MOST_ENTITIES = 64
"""Entities of one passage that are followed, the rarest first; a list of names is no path."""

MOST_PASSAGES = 64
"""Passages of one article among which its best is looked for."""


@dataclass(frozen=True, slots=True)
class SpreadParameters:
    """How far rank flows; ``benchmarks/strengths.py`` measures other values.

    bonus   what the best neighbour gains, on scores between 0 and 1
    fade    what is left of it for each further seed, and at each further hop
    margin  how far a passage stays below the one that passed rank to it
    seeds   passages that rank flows from, per hop
    places  a name shared by more passages than this leads nowhere
    whole   share of the question a seed must lack to pass the whole bonus by a shared name
    floor   share of the bonus for a neighbour without any of the missing terms
    gain    how fast that share grows with the missing terms the neighbour has
    hub     the bonus of an article falls with this power of the passages that mention it
    crowd   the bonus by a shared name falls with this power of the passages that share it
    """

    bonus: float = 0.2
    fade: float = 0.8
    margin: float = 0.02
    seeds: tuple[int, ...] = (2, 4)
    places: int = 30
    whole: float = 0.5
    floor: float = 0.5
    gain: float = 4.0
    hub: float = 0.25
    crowd: float = 0.5


@dataclass(frozen=True, slots=True)
class RankPath:
    """How rank reached a passage: from ``source`` (``None``: the question) by the name
    ``via``, which is the article's ``title`` or a ``name`` that both passages mention."""

    kind: str
    via: str
    source: Key | None
    hop: int


@dataclass(frozen=True, slots=True)
class Bonus:
    """What a passage gains on top of its own score, ``base``."""

    key: Key
    base: float
    value: float
    path: RankPath

    @property
    def final(self) -> float:
        return self.base + self.value


@dataclass(frozen=True, slots=True)
class Spread:
    """The passages that gained, best first, including passages outside the pool.

    ``held_back`` says why no rank could flow.
    """

    bonuses: tuple[Bonus, ...]
    named: tuple[str, ...] = ()
    held_back: str = ""

    def notes(self, most: int = 10) -> dict[str, Any]:
        """For the trace: the names, and the first bonuses with their paths."""
        return {
            "named": list(self.named),
            "held_back": self.held_back,
            "reached": len(self.bonuses),
            "bonuses": [
                {
                    "key": bonus.key,
                    "base": round(bonus.base, 6),
                    "bonus": round(bonus.value, 6),
                    "kind": bonus.path.kind,
                    "via": bonus.path.via,
                    "from": bonus.path.source,
                    "hop": bonus.path.hop,
                }
                for bonus in self.bonuses[:most]
            ],
        }


def spread(
    question: str,
    terms: Mapping[str, float],
    pool: Mapping[Key, float],
    graph: KnowledgeStore,
    scorer: PassageScorer,
    parameters: SpreadParameters | None = None,
) -> Spread:
    """Let rank flow from the best passages of ``pool`` (key to score) along names.

    ``terms`` are the question's index terms with their rarity (``bm25.idf``). Scores of
    passages outside the pool come from ``scorer``; a passage it leaves out gets no bonus.
    """
    if not pool:
        return Spread((), held_back="nothing was found")
    if len(terms) > MOST_TERMS:
        return Spread((), held_back=f"the question has more than {MOST_TERMS} terms")
    parameters = parameters or SpreadParameters()
    entities = entities_in_question(question, graph)
    named = tuple(entity.key for entity in entities)
    flow = _RankFlow(question, entities, terms, pool, graph, scorer, parameters)
    flow.start()
    for hop in range(len(parameters.seeds)):
        flow.step(hop)
    if not flow.bonuses and not flow.flowed:
        return Spread((), named, "no good passage holds what the question names")
    bonuses = sorted(flow.bonuses.values(), key=lambda bonus: (-bonus.final, str(bonus.key)))
    return Spread(tuple(bonuses), named)


def entities_in_question(question: str, graph: KnowledgeStore) -> tuple[Entity, ...]:
    """The entities of a store that a question names, in the order of the question."""
    known = graph.entities_named(_keys_in(question))
    titles = KeyMatcher(key for key, entity in known.items() if entity.titled)
    mentions = titles.mentions(question)
    # "Jump for Glory" names the film, not glory.
    others = [
        name
        for name in parse_question(question).names
        if name.key in known
        and not any(m.start <= name.start and name.end <= m.end for m in mentions)
    ]
    ordered = sorted([*mentions, *others], key=lambda name: name.start)
    return tuple(known[key] for key in dict.fromkeys(name.key for name in ordered))


@lru_cache(maxsize=64)
def _keys_in(question: str) -> tuple[str, ...]:
    """Every key under which a store may know something the question names."""
    names = (name.key for name in parse_question(question).names)
    return tuple(dict.fromkeys([*names, *phrases(question)]))


@dataclass(frozen=True, slots=True)
class _PassageEdge:
    """A way from a seed to passages; for an article only its best passage counts."""

    kind: str
    via: str
    strength: float
    targets: tuple[Key, ...]


class _RankFlow:
    """The flow of rank for one question."""

    def __init__(
        self,
        question: str,
        entities: Sequence[Entity],
        terms: Mapping[str, float],
        pool: Mapping[Key, float],
        graph: KnowledgeStore,
        scorer: PassageScorer,
        parameters: SpreadParameters,
    ) -> None:
        self._entities = entities
        self._asked_keys = frozenset(_keys_in(question))
        self._terms = terms
        self._graph = graph
        self._scorer = scorer
        self._parameters = parameters
        self._base: dict[Key, float] = dict(pool)
        self._hidden: set[Key] = set()
        self._held: dict[Key, PassageEntities] = {}
        self._reached: set[Key] = set()
        self.bonuses: dict[Key, Bonus] = {}
        self.flowed = False

    def start(self) -> None:
        """The best passage of each article the question names rises, but not above a good
        passage that mentions the name, which may be the answer."""
        held = self._entities_of(self._seeds(sum(self._parameters.seeds[:1])))
        articles = {entity.key: _articles(entity) for entity in self._entities}
        passages = self._passages(articles.values())
        self._score(key for keys in passages.values() for key in keys)
        proposals: dict[Key, Bonus] = {}
        for entity in self._entities:
            holders = [key for key, seed in held.items() if _mentions(seed, entity)]
            path = RankPath("question", entity.key, None, 0)
            for edge in self._to_articles(entity, articles[entity.key], passages):
                for key in self._targets(edge):
                    others = [self._base[holder] for holder in holders if holder != key]
                    ceiling = max(others) - self._parameters.margin if others else float("inf")
                    value = min(edge.strength, ceiling - self._base[key])
                    self._propose(proposals, key, value, path)
        self.bonuses.update(proposals)

    def step(self, hop: int) -> None:
        """One hop from the passages that are now best."""
        seeds = self._seeds(self._parameters.seeds[hop])
        held = self._entities_of(seeds)
        weights = {
            seed: self._parameters.fade ** (hop + rank)
            for rank, seed in enumerate(seeds)
            if seed in held and self._may_pass_rank(held[seed])
        }
        if not weights:
            return
        self.flowed = True
        # Two shared names in a row are too thin a path: later hops follow titles only.
        edges = self._edges({seed: held[seed] for seed in weights}, by_name=hop == 0)
        self._score(key for found in edges.values() for edge in found for key in edge.targets)
        by_name = [seed for seed in weights if any(e.kind == "name" for e in edges[seed])]
        terms = self._scorer.terms_of(by_name) if by_name else {}
        proposals: dict[Key, Bonus] = {}
        for seed, weight in weights.items():
            ceiling = self._final(seed) - self._parameters.margin
            worth = self._worth_by_name(edges[seed], terms.get(seed, frozenset()))
            for edge in edges[seed]:
                path = RankPath(edge.kind, edge.via, seed, hop + 1)
                for key in self._targets(edge):
                    value = weight * edge.strength * (worth[key] if edge.kind == "name" else 1.0)
                    self._propose(proposals, key, min(value, ceiling - self._base[key]), path)
        self.bonuses.update(proposals)
        self._reached.update(proposals)

    def _seeds(self, most: int) -> list[Key]:
        return nsmallest(most, self._base, key=lambda key: (-self._final(key), str(key)))

    def _entities_of(self, seeds: Sequence[Key]) -> dict[Key, PassageEntities]:
        """What these passages mention, read once each; deleted ones are left out."""
        new = [seed for seed in seeds if seed not in self._held]
        if new:
            self._held.update(self._graph.entities_of(new))
        return {seed: self._held[seed] for seed in seeds if seed in self._held}

    def _final(self, key: Key) -> float:
        bonus = self.bonuses.get(key)
        return bonus.final if bonus else self._base[key]

    def _may_pass_rank(self, held: PassageEntities) -> bool:
        """Whether rank may flow from a passage: rank reached it, or it mentions or is about
        something the question names, or the question has all words of its title."""
        if held.place.key in self._reached or any(
            _mentions(held, entity)
            or any(titled.document == held.place.document for titled in entity.titled)
            for entity in self._entities
        ):
            return True
        aliases = (index_terms(alias) for alias in title_aliases(held.place.title))
        return any(alias and all(term in self._terms for term in alias) for alias in aliases)

    def _edges(
        self, seeds: Mapping[Key, PassageEntities], *, by_name: bool
    ) -> dict[Key, list[_PassageEdge]]:
        followed = {seed: self._followed(held) for seed, held in seeds.items()}
        rare = {
            entity.id
            for entities in followed.values()
            for entity in entities
            # Passages of the seed's own article do not count, so the store may hold more.
            if by_name and 1 < entity.passages <= 2 * self._parameters.places
        }
        most = 2 * self._parameters.places
        places = self._graph.mentions(sorted(rare, key=str), most) if rare else {}
        articles = {
            (seed, entity.id): _articles(entity, seeds[seed].place.article)
            for seed, entities in followed.items()
            for entity in entities
        }
        passages = self._passages(articles.values())
        edges: dict[Key, list[_PassageEdge]] = {}
        for seed, entities in followed.items():
            edges[seed] = []
            for entity in entities:
                edges[seed] += self._to_articles(entity, articles[seed, entity.id], passages)
                edges[seed] += self._to_places(entity, places.get(entity.id, ()), seeds[seed])
        return edges

    def _followed(self, held: PassageEntities) -> list[Entity]:
        """The entities of a passage that lead to something new, the rarest first."""
        leading = [
            entity
            for entity in held.entities
            if entity.key not in self._asked_keys
            and not any(titled.article == held.place.article for titled in entity.titled)
        ]
        leading.sort(key=lambda entity: (entity.passages, entity.key))
        return leading[:MOST_ENTITIES]

    def _to_articles(
        self, entity: Entity, articles: Sequence[Sequence[str]], passages: Mapping[str, list[Key]]
    ) -> Iterable[_PassageEdge]:
        # An article that many passages mention says less about each of them.
        strength = self._parameters.bonus / max(1, entity.passages) ** self._parameters.hub
        for documents in articles:
            targets = tuple(key for name in documents for key in passages.get(name, ()))
            yield _PassageEdge("title", entity.key, strength / len(articles), targets)

    def _to_places(
        self, entity: Entity, places: Iterable[PassagePlace], held: PassageEntities
    ) -> Iterable[_PassageEdge]:
        here = held.place.article
        others = tuple(place.key for place in places if place.article != here)
        if 0 < len(others) <= self._parameters.places:
            strength = self._parameters.bonus / len(others) ** self._parameters.crowd
            yield _PassageEdge("name", entity.key, strength, others)

    def _passages(self, articles: Iterable[list[list[str]]]) -> Mapping[str, list[Key]]:
        documents = dict.fromkeys(name for found in articles for one in found for name in one)
        return self._graph.passages_of(list(documents), MOST_PASSAGES) if documents else {}

    def _targets(self, edge: _PassageEdge) -> list[Key]:
        """The passages an edge leads to: all that share a name, or the best of an article."""
        seen = [key for key in edge.targets if key in self._base]
        if edge.kind == "name" or not seen:
            return seen
        return [max(seen, key=lambda key: self._base[key])]

    def _score(self, keys: Iterable[Key]) -> None:
        new = [k for k in dict.fromkeys(keys) if k not in self._base and k not in self._hidden]
        if new:
            self._base.update(self._scorer.scores(new))
            self._hidden.update(key for key in new if key not in self._base)

    def _worth_by_name(
        self, edges: Iterable[_PassageEdge], held: frozenset[str]
    ) -> dict[Key, float]:
        """The share of the bonus for each neighbour by name: less where the seed covers most
        of the question, more for a neighbour that has the missing terms."""
        named = (key for edge in edges if edge.kind == "name" for key in self._targets(edge))
        keys = list(dict.fromkeys(named))
        missing = [term for term in self._terms if term not in held]
        rarity = sum(self._terms.values())
        left = sum(self._terms[term] for term in missing) / rarity if rarity else 0.0
        shares = self._scorer.share(keys, missing) if keys and missing else {}
        need = min(1.0, left / self._parameters.whole)
        floor, gain = self._parameters.floor, self._parameters.gain
        return {key: need * min(1.0, floor + gain * shares.get(key, 0.0)) for key in keys}

    def _propose(self, proposals: dict[Key, Bonus], key: Key, value: float, path: RankPath) -> None:
        known = proposals.get(key) or self.bonuses.get(key)
        if value > (known.value if known else 0.0):
            proposals[key] = Bonus(key, self._base[key], value, path)


def _articles(entity: Entity, here: str = "") -> list[list[str]]:
    """The documents an entity is the title of, by article, without the article ``here``."""
    groups: dict[str, list[str]] = {}
    for titled in entity.titled:
        if titled.article != here:
            groups.setdefault(titled.article, []).append(titled.document)
    return list(groups.values())


def _mentions(held: PassageEntities, entity: Entity) -> bool:
    return any(mentioned.id == entity.id for mentioned in held.entities)

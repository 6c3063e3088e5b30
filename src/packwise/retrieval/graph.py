"""Graph ranking: passages that belong to the answer without resembling the question.

"Who married the director of *Jump for Glory*?" is answered by a passage that holds neither
"Jump" nor "Glory". What leads there is a name: the passage on the film names its director,
and so does the passage that is wanted. Rank flows along such names:

    question ── names ──> an article          its best passage rises
    best passages ── mention ──> an article   its best passage rises
    best passages ── share a name ──> others  they rise, the less the more there are

``spread`` gives each passage reached a bonus on top of its own score and says by which
path. It knows when to hold back, so that questions one passage answers keep their ranking:

- Rank flows only from passages that hold something the question names.
- A passage never rises above the one that vouches for it.
- Names the question itself holds lead nowhere new: search has used them already.
- A seed that leaves little of the question open passes little on by shared names, and a
  neighbour that has nothing of what is open gets half.

Two other uses of the graph are kept to compare with: ``pagerank_blend.py`` and ``walk.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Protocol

from packwise.language.analyzer import terms as index_terms
from packwise.language.names import KeyMatcher, names_in, phrases, title_aliases
from packwise.stores.base import Key
from packwise.stores.knowledge import Entity, KnowledgeStore, PassageEntities, Place

MOST_TERMS = 32
"""Distinct terms beyond which a question is a text of its own, naming things in passing."""

MOST_ENTITIES = 64
"""Entities of one passage that are followed, the rarest first: a list of names is no path."""

MOST_PASSAGES = 64
"""Passages of one article that are looked at for its best."""


class Scorer(Protocol):
    """What graph ranking asks about a passage and the question."""

    def scores(self, keys: Sequence[Key]) -> Mapping[Key, float]:
        """The score search gives these passages; those that may not be seen are left out."""
        ...

    def terms_of(self, keys: Sequence[Key]) -> Mapping[Key, frozenset[str]]:
        """The index terms of these passages, with their headings."""
        ...

    def share(self, keys: Sequence[Key], terms: Sequence[str]) -> Mapping[Key, float]:
        """BM25 over these terms of the question alone, over the most the whole question can
        reach; passages without any of them may be left out."""
        ...


@dataclass(frozen=True, slots=True)
class Knobs:
    """How far rank flows; ``benchmarks/strengths.py`` prints what other values are worth, and
    docs/graph.md shows it.

    bonus   what the best neighbour gains, on scores between 0 and 1
    fade    what is left of it for each further seed, and at each further hop
    margin  how far a passage stays below the one that vouches for it
    seeds   passages rank flows from, hop by hop
    places  passages that may share a name; with more, the name leads nowhere
    whole   share of the question a seed must leave open to pass the whole bonus by name
    floor   share of the bonus for a neighbour that has nothing of what is open
    gain    how fast that share grows with what the neighbour has of it
    hub     power of the passages that mention an article by which its bonus falls
    crowd   power of the passages that share a name by which theirs falls
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


DEFAULT = Knobs()


@dataclass(frozen=True, slots=True)
class Path:
    """How rank came to a passage: from ``source`` (``None``: the question) by the name
    ``via``, which is the article's ``title`` or a ``name`` both passages mention."""

    kind: str
    via: str
    source: Key | None
    hop: int


@dataclass(frozen=True, slots=True)
class Bonus:
    """What a passage gains. ``base`` is its own score, ``final`` what to sort by."""

    key: Key
    base: float
    value: float
    path: Path

    @property
    def final(self) -> float:
        return self.base + self.value


@dataclass(frozen=True, slots=True)
class Spread:
    """The passages that gained, best first; passages outside the pool are among them.

    ``held_back`` says why nothing flowed, when nothing could.
    """

    bonuses: tuple[Bonus, ...]
    named: tuple[str, ...] = ()
    held_back: str = ""

    def notes(self, most: int = 10) -> dict[str, Any]:
        """What to write into the trace: the names, and the first bonuses with their paths."""
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
    scorer: Scorer,
    knobs: Knobs = DEFAULT,
) -> Spread:
    """Let rank flow from the best passages of ``pool`` (key to score) along names.

    ``terms`` are the question's index terms with their rarity (``bm25.idf``). Scores of
    passages outside the pool come from ``scorer``; one it leaves out gets no bonus.
    """
    if not pool:
        return Spread((), held_back="nothing was found")
    if len(terms) > MOST_TERMS:
        return Spread((), held_back=f"the question has more than {MOST_TERMS} terms")
    asked = names_asked(question, graph)
    named = tuple(entity.key for entity in asked.entities)
    walk = _Walk(asked, terms, pool, graph, scorer, knobs)
    walk.start()
    for hop in range(len(knobs.seeds)):
        walk.step(hop)
    if not walk.bonuses and not walk.flowed:
        return Spread((), named, "no good passage holds what the question names")
    bonuses = sorted(walk.bonuses.values(), key=lambda bonus: (-bonus.final, str(bonus.key)))
    return Spread(tuple(bonuses), named)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question names, and every run of words in it."""

    entities: tuple[Entity, ...]
    runs: frozenset[str]

    def names(self, held: PassageEntities) -> bool:
        """Whether a passage holds one of the named entities, or is about one."""
        return any(
            _mentions(held, entity)
            or any(titled.document == held.place.document for titled in entity.titled)
            for entity in self.entities
        )


def names_asked(question: str, graph: KnowledgeStore) -> Asked:
    """What of the graph a question names."""
    runs = phrases(question)
    names = names_in(question)
    keys = [name.key for name in names]
    known = graph.entities_named(list(dict.fromkeys([*keys, *runs])))
    titles = KeyMatcher(key for key, entity in known.items() if entity.titled)
    mentions = titles.mentions(question)
    named = dict.fromkeys(mention.key for mention in mentions)
    for name in names:
        # "Jump for Glory" names the film, not glory.
        inside = any(m.start <= name.start and name.end <= m.end for m in mentions)
        if name.key in known and not inside:
            named[name.key] = None
    return Asked(tuple(known[key] for key in named), frozenset([*runs, *keys]))


@dataclass(frozen=True, slots=True)
class _Edge:
    """A way from a seed to passages; of an article's passages only the best is meant."""

    kind: str
    via: str
    strength: float
    targets: tuple[Key, ...]


class _Walk:
    """One question's walk over the graph."""

    def __init__(
        self,
        asked: Asked,
        terms: Mapping[str, float],
        pool: Mapping[Key, float],
        graph: KnowledgeStore,
        scorer: Scorer,
        knobs: Knobs,
    ) -> None:
        self._asked = asked
        self._terms = terms
        self._graph = graph
        self._scorer = scorer
        self._knobs = knobs
        self._base: dict[Key, float] = dict(pool)
        self._unseen: set[Key] = set()
        self._held: dict[Key, PassageEntities] = {}
        self._reached: set[Key] = set()
        self.bonuses: dict[Key, Bonus] = {}
        self.flowed = False

    def start(self) -> None:
        """The articles the question names: the best passage of each, but not above a good
        passage that holds the name too, for that may be the answer."""
        held = self._look_at(self._seeds(sum(self._knobs.seeds[:1])))
        articles = {entity.key: _articles(entity) for entity in self._asked.entities}
        passages = self._passages(articles.values())
        self._score(key for keys in passages.values() for key in keys)
        proposals: dict[Key, Bonus] = {}
        for entity in self._asked.entities:
            holders = [key for key, seed in held.items() if _mentions(seed, entity)]
            for edge in self._to_articles(entity, articles[entity.key], passages):
                for key in self._meant(edge):
                    others = [self._base[holder] for holder in holders if holder != key]
                    ceiling = max(others) - self._knobs.margin if others else float("inf")
                    path = Path("question", entity.key, None, 0)
                    self._propose(
                        proposals, key, min(edge.strength, ceiling - self._base[key]), path
                    )
        self.bonuses.update(proposals)

    def step(self, hop: int) -> None:
        """One hop from what are the best passages now."""
        seeds = self._seeds(self._knobs.seeds[hop])
        held = self._look_at(seeds)
        weights = {
            seed: self._knobs.fade ** (hop + rank)
            for rank, seed in enumerate(seeds)
            if seed in held and self._may_vouch(held[seed])
        }
        if not weights:
            return
        self.flowed = True
        # A name shared with what a shared name led to is too thin a path: later hops follow
        # titles only.
        edges = self._edges({seed: held[seed] for seed in weights}, by_name=hop == 0)
        self._score(key for found in edges.values() for edge in found for key in edge.targets)
        by_name = [seed for seed in weights if any(e.kind == "name" for e in edges[seed])]
        terms = self._scorer.terms_of(by_name) if by_name else {}
        proposals: dict[Key, Bonus] = {}
        for seed, weight in weights.items():
            ceiling = self._final(seed) - self._knobs.margin
            worth = self._worth_by_name(edges[seed], terms.get(seed, frozenset()))
            for edge in edges[seed]:
                path = Path(edge.kind, edge.via, seed, hop + 1)
                for key in self._meant(edge):
                    value = weight * edge.strength * (worth[key] if edge.kind == "name" else 1.0)
                    self._propose(proposals, key, min(value, ceiling - self._base[key]), path)
        self.bonuses.update(proposals)
        self._reached.update(proposals)

    def _seeds(self, most: int) -> list[Key]:
        return nsmallest(most, self._base, key=lambda key: (-self._final(key), str(key)))

    def _look_at(self, seeds: Sequence[Key]) -> dict[Key, PassageEntities]:
        """What these passages hold, read once each; those that are gone are left out."""
        new = [seed for seed in seeds if seed not in self._held]
        if new:
            self._held.update(self._graph.entities_of(new))
        return {seed: self._held[seed] for seed in seeds if seed in self._held}

    def _final(self, key: Key) -> float:
        bonus = self.bonuses.get(key)
        return bonus.final if bonus else self._base[key]

    def _may_vouch(self, held: PassageEntities) -> bool:
        """Whether rank may flow from a passage: it was led to, or holds what the question
        names, or is of an article all of whose title's words the question has."""
        if held.place.key in self._reached or self._asked.names(held):
            return True
        aliases = (index_terms(alias) for alias in title_aliases(held.place.title))
        return any(alias and all(term in self._terms for term in alias) for alias in aliases)

    def _edges(
        self, seeds: Mapping[Key, PassageEntities], *, by_name: bool
    ) -> dict[Key, list[_Edge]]:
        followed = {seed: self._followed(held) for seed, held in seeds.items()}
        rare = {
            entity.id
            for entities in followed.values()
            for entity in entities
            # Passages of the seed's own article do not count, so the store may hold more.
            if by_name and 1 < entity.passages <= 2 * self._knobs.places
        }
        most = 2 * self._knobs.places
        places = self._graph.mentions(sorted(rare, key=str), most) if rare else {}
        articles = {
            (seed, entity.id): _articles(entity, seeds[seed].place.article)
            for seed, entities in followed.items()
            for entity in entities
        }
        passages = self._passages(articles.values())
        edges: dict[Key, list[_Edge]] = {}
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
            if entity.key not in self._asked.runs
            and not any(titled.article == held.place.article for titled in entity.titled)
        ]
        leading.sort(key=lambda entity: (entity.passages, entity.key))
        return leading[:MOST_ENTITIES]

    def _to_articles(
        self, entity: Entity, articles: Sequence[Sequence[str]], passages: Mapping[str, list[Key]]
    ) -> Iterable[_Edge]:
        # What many passages mention says less about each: a hub fades, but slowly.
        strength = self._knobs.bonus / max(1, entity.passages) ** self._knobs.hub
        for documents in articles:
            targets = tuple(key for name in documents for key in passages.get(name, ()))
            yield _Edge("title", entity.key, strength / len(articles), targets)

    def _to_places(
        self, entity: Entity, places: Iterable[Place], held: PassageEntities
    ) -> Iterable[_Edge]:
        here = held.place.article
        others = tuple(place.key for place in places if place.article != here)
        if 0 < len(others) <= self._knobs.places:
            strength = self._knobs.bonus / len(others) ** self._knobs.crowd
            yield _Edge("name", entity.key, strength, others)

    def _passages(self, articles: Iterable[list[list[str]]]) -> Mapping[str, list[Key]]:
        documents = dict.fromkeys(name for found in articles for one in found for name in one)
        return self._graph.passages_of(list(documents), MOST_PASSAGES) if documents else {}

    def _meant(self, edge: _Edge) -> list[Key]:
        """The passages an edge leads to; of equally good ones of an article the first."""
        seen = [key for key in edge.targets if key in self._base]
        if edge.kind == "name" or not seen:
            return seen
        return [max(seen, key=lambda key: self._base[key])]

    def _score(self, keys: Iterable[Key]) -> None:
        new = [k for k in dict.fromkeys(keys) if k not in self._base and k not in self._unseen]
        if new:
            self._base.update(self._scorer.scores(new))
            self._unseen.update(key for key in new if key not in self._base)

    def _worth_by_name(self, edges: Iterable[_Edge], held: frozenset[str]) -> dict[Key, float]:
        """Share of the bonus for each neighbour by name: little where the seed leaves
        little of the question open, and more for one that has what is open."""
        keys = list(
            dict.fromkeys(k for edge in edges if edge.kind == "name" for k in self._meant(edge))
        )
        still_open = [term for term in self._terms if term not in held]
        rarity = sum(self._terms.values())
        left = sum(self._terms[term] for term in still_open) / rarity if rarity else 0.0
        shares = self._scorer.share(keys, still_open) if keys and still_open else {}
        need = min(1.0, left / self._knobs.whole)
        return {
            key: need * min(1.0, self._knobs.floor + self._knobs.gain * shares.get(key, 0.0))
            for key in keys
        }

    def _propose(self, proposals: dict[Key, Bonus], key: Key, value: float, path: Path) -> None:
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

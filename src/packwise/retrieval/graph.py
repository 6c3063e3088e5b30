"""Graph ranking: passages that belong to the answer without resembling the question.

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

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from typing import Any, NamedTuple

from packwise.language.analyzer import terms as index_terms
from packwise.language.key_matcher import KeyMatcher, phrases
from packwise.language.names import Name, names_in, title_aliases
from packwise.language.questions import MOST_CHARACTERS
from packwise.retrieval.fusion import PassageScorer
from packwise.stores.base import Key
from packwise.stores.knowledge import Entity, KnowledgeStore
from packwise.stores.name_graph import NameEdge, NameGraph, QuestionName, Surroundings

MOST_TERMS = 32
"""A question with more distinct terms is a text that names things in passing."""
_NOTED = 10
"""Bonuses that a trace lists."""


class SpreadParameters(NamedTuple):
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


class RankPath(NamedTuple):
    """How rank reached a passage: from ``source`` (``None``: the question) by the name
    ``via``, which is the article's ``title`` or a ``name`` that both passages mention."""

    kind: str
    via: str
    source: Key | None
    hop: int


class Bonus(NamedTuple):
    """What a passage gains on top of its own score, ``base``."""

    key: Key
    base: float
    value: float
    path: RankPath

    @property
    def final(self) -> float:
        return self.base + self.value


class Spread(NamedTuple):
    """The passages that gained, best first, including passages outside the pool.

    ``held_back`` says why no rank could flow.
    """

    bonuses: tuple[Bonus, ...]
    named: tuple[str, ...] = ()
    held_back: str = ""

    def notes(self) -> dict[str, Any]:
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
                for bonus in self.bonuses[:_NOTED]
            ],
        }


def spread(
    question: str,
    terms: Mapping[str, float],
    pool: Mapping[Key, float],
    graph: NameGraph,
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
    known = graph.names(_keys_in(question))
    titled = [key for key, name in known.items() if name.documents]
    names = [known[key] for key in _named_in(question, known, titled)]
    named = tuple(name.key for name in names)
    flow = _RankFlow(question, names, terms, pool, graph, scorer, parameters)
    flow.start()
    for hop in range(len(parameters.seeds)):
        flow.step(hop)
    if not flow.bonuses and not flow.flowed:
        return Spread((), named, "no good passage holds what the question names")
    bonuses = sorted(flow.bonuses.values(), key=lambda bonus: (-bonus.final, str(bonus.key)))
    return Spread(tuple(bonuses), named)


def entities_in_question(question: str, store: KnowledgeStore) -> tuple[Entity, ...]:
    """The entities of a store that a question names, in the order of the question."""
    known = store.entities_named(_keys_in(question))
    titled = [key for key, entity in known.items() if entity.titled]
    return tuple(known[key] for key in _named_in(question, known, titled))


def _named_in(question: str, known: Container[str], titled: Iterable[str]) -> list[str]:
    """Those of the known keys that a question names, in its order."""
    mentions = KeyMatcher(titled).mentions(question)
    # "Jump for Glory" names the film, not glory.
    others = [
        name
        for name in _names_in(question)
        if name.key in known
        and not any(m.start <= name.start and name.end <= m.end for m in mentions)
    ]
    ordered = sorted([*mentions, *others], key=lambda name: name.start)
    return list(dict.fromkeys(name.key for name in ordered))


@lru_cache(maxsize=64)
def _keys_in(question: str) -> tuple[str, ...]:
    """Every key under which a store may know something the question names."""
    names = (name.key for name in _names_in(question))
    return tuple(dict.fromkeys([*names, *phrases(question)]))


@lru_cache(maxsize=64)
def _names_in(question: str) -> tuple[Name, ...]:
    return tuple(names_in(question[:MOST_CHARACTERS]))


@lru_cache(maxsize=1024)
def _title_terms(title: str) -> tuple[frozenset[str], ...]:
    """The index terms of each form in which a text may name an article."""
    found = (frozenset(index_terms(alias)) for alias in title_aliases(title))
    return tuple(terms for terms in found if terms)


class _RankFlow:
    """The flow of rank for one question."""

    def __init__(
        self,
        question: str,
        names: Sequence[QuestionName],
        terms: Mapping[str, float],
        pool: Mapping[Key, float],
        graph: NameGraph,
        scorer: PassageScorer,
        parameters: SpreadParameters,
    ) -> None:
        self._names = names
        self._asked_keys = frozenset(_keys_in(question))
        self._terms = terms
        self._graph = graph
        self._scorer = scorer
        self._parameters = parameters
        self._base: dict[Key, float] = dict(pool)
        self._hidden: set[Key] = set()
        self._around: dict[Key, Surroundings] = {}
        self._reached: set[Key] = set()
        self.bonuses: dict[Key, Bonus] = {}
        self.flowed = False

    def start(self) -> None:
        """The best passage of each article the question names rises, but not above a good
        passage that mentions the name, which may be the answer."""
        seeds = self._seeds(sum(self._parameters.seeds[:1]))
        around = self._surroundings(seeds, self._parameters.places)
        self._score(edge for name in self._names for edge in name.edges)
        proposals: dict[Key, Bonus] = {}
        for name in self._names:
            holders = [key for key, seed in around.items() if name.id in seed.entities]
            path = RankPath("question", name.key, None, 0)
            for edge in name.edges:
                strength = self._strength(edge)
                for key in self._targets(edge):
                    others = [self._base[holder] for holder in holders if holder != key]
                    ceiling = max(others) - self._parameters.margin if others else float("inf")
                    value = min(strength, ceiling - self._base[key])
                    if value > _value(proposals, key):
                        proposals[key] = Bonus(key, self._base[key], value, path)
        self.bonuses.update(proposals)

    def step(self, hop: int) -> None:
        """One hop from the passages that are now best."""
        seeds = self._seeds(self._parameters.seeds[hop])
        # Two shared names in a row are too thin a path: later hops follow titles only.
        around = self._surroundings(seeds, 0 if hop else self._parameters.places)
        weights = {
            seed: self._parameters.fade ** (hop + rank)
            for rank, seed in enumerate(seeds)
            if seed in around and self._may_pass_rank(seed, around[seed])
        }
        if not weights:
            return
        self.flowed = True
        edges = {
            seed: [edge for edge in around[seed].edges if edge.articles or hop == 0]
            for seed in weights
        }
        self._score(edge for found in edges.values() for edge in found)
        by_name = [seed for seed in weights if any(not edge.articles for edge in edges[seed])]
        terms = self._scorer.terms_of(by_name) if by_name else {}
        best: dict[Key, tuple[float, Key, NameEdge]] = {}
        for seed, weight in weights.items():
            ceiling = self._final(seed) - self._parameters.margin
            worth = self._worth_by_name(edges[seed], terms.get(seed, frozenset()))
            for edge in edges[seed]:
                strength = weight * self._strength(edge)
                for key in self._targets(edge):
                    value = strength if edge.articles else strength * worth[key]
                    value = min(value, ceiling - self._base[key])
                    known = best[key][0] if key in best else _value(self.bonuses, key)
                    if value > known:
                        best[key] = value, seed, edge
        for key, (value, seed, edge) in best.items():
            path = RankPath("title" if edge.articles else "name", edge.via, seed, hop + 1)
            self.bonuses[key] = Bonus(key, self._base[key], value, path)
        self._reached.update(best)

    def _seeds(self, most: int) -> list[Key]:
        final = self._base | {key: bonus.final for key, bonus in self.bonuses.items()}
        least = min(nlargest(most, final.values()), default=0.0)
        best = [key for key, value in final.items() if value >= least]
        return sorted(best, key=lambda key: (-final[key], str(key)))[:most]

    def _surroundings(self, seeds: Sequence[Key], places: int) -> dict[Key, Surroundings]:
        """What surrounds these passages, read once each; deleted ones are left out."""
        new = [seed for seed in seeds if seed not in self._around]
        if new:
            self._around.update(self._graph.surroundings(new, self._asked_keys, places))
        return {seed: self._around[seed] for seed in seeds if seed in self._around}

    def _final(self, key: Key) -> float:
        bonus = self.bonuses.get(key)
        return bonus.final if bonus else self._base[key]

    def _may_pass_rank(self, key: Key, around: Surroundings) -> bool:
        """Whether rank may flow from a passage: rank reached it, or it mentions or is about
        something the question names, or the question has all words of its title."""
        if key in self._reached or any(
            name.id in around.entities or around.document in name.documents for name in self._names
        ):
            return True
        return any(alias <= self._terms.keys() for alias in _title_terms(around.title))

    def _strength(self, edge: NameEdge) -> float:
        """The bonus that an edge passes on at most."""
        if not edge.articles:
            return self._parameters.bonus / len(edge.targets) ** self._parameters.crowd
        # An article that many passages mention says less about each of them.
        strength = self._parameters.bonus / max(1, edge.passages) ** self._parameters.hub
        return strength / edge.articles

    def _targets(self, edge: NameEdge) -> list[Key]:
        """The passages an edge leads to: all that share a name, or the best of an article."""
        base = self._base
        seen = [key for key in edge.targets if key in base]
        if not edge.articles or not seen:
            return seen
        return [max(seen, key=base.__getitem__)]

    def _score(self, edges: Iterable[NameEdge]) -> None:
        new: dict[Key, None] = {}
        for edge in edges:
            new.update(dict.fromkeys(edge.targets))
        unknown = [key for key in new if key not in self._base and key not in self._hidden]
        if unknown:
            self._base.update(self._scorer.scores(unknown))
            self._hidden.update(key for key in unknown if key not in self._base)

    def _worth_by_name(self, edges: Iterable[NameEdge], held: frozenset[str]) -> dict[Key, float]:
        """The share of the bonus for each neighbour by name: less where the seed covers most
        of the question, more for a neighbour that has the missing terms."""
        named = (key for edge in edges if not edge.articles for key in self._targets(edge))
        keys = list(dict.fromkeys(named))
        missing = [term for term in self._terms if term not in held]
        rarity = sum(self._terms.values())
        left = sum(self._terms[term] for term in missing) / rarity if rarity else 0.0
        shares = self._scorer.share(keys, missing) if keys and missing else {}
        need = min(1.0, left / self._parameters.whole)
        floor, gain = self._parameters.floor, self._parameters.gain
        return {key: need * min(1.0, floor + gain * shares.get(key, 0.0)) for key in keys}


def _value(bonuses: Mapping[Key, Bonus], key: Key) -> float:
    known = bonuses.get(key)
    return known.value if known else 0.0

"""Random walk with restart over passages and the names they share, compared with graph ranking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rankers import Ranked

from packwise.language.analyzer import terms
from packwise.library import Library
from packwise.retrieval.fusion import PassageScorer
from packwise.retrieval.graph import MOST_TERMS, entities_in_question
from packwise.stores.base import Key
from packwise.stores.knowledge import Entity, EntityId, KnowledgeStore

POOL = 16
"""Passages of the search that the walk may start from or reorder."""


def random_walk(library: Library, question: str, k: int) -> Ranked:
    """The documents of a search, reordered by a random walk on top of its scores."""
    found = library.search(question, max(k, POOL), graph="off")
    documents = {hit.key: hit.passage.document for hit in found.hits}
    scores = {hit.key: hit.scores.final for hit in found.hits}
    scorer = PassageScorer.of_question(
        question, library.store, library.embedder, library.settings, found.query.where
    )
    if scores and len(set(terms(question))) <= MOST_TERMS:
        scores = walked(question, scores, library.store, scorer)
    new = [key for key in scores if key not in documents]
    for key, passage in zip(new, library.store.passages(new), strict=True):
        if passage is not None:
            documents[key] = passage.document
    best = sorted(scores, key=lambda key: (-scores[key], str(key)))
    ordered = dict.fromkeys(documents[key] for key in best if key in documents)
    return Ranked(tuple(ordered)[:k], found.trace.timings_ms())


def walked(
    question: str,
    pool: Mapping[Key, float],
    graph: KnowledgeStore,
    scorer: PassageScorer,
    *,
    strength: float = 0.2,
    damping: float = 0.5,
    seeds: int = 10,
    places: int = 30,
    rounds: int = 20,
) -> dict[Key, float]:
    """The scores of a pool and of the passages that the walk reaches, with a bonus of up to
    ``strength`` for the passage of highest rank.

    The walk starts at the best passages, by score, and at the names of the question.
    """
    named = entities_in_question(question, graph)
    best = sorted(pool, key=lambda key: (-pool[key], str(key)))[:seeds]
    held = graph.entities_of(best)
    entities = {e.id: e for h in held.values() for e in h.entities if e.passages <= places}
    entities.update((e.id, e) for e in named if e.passages <= places)
    found = graph.mentions(sorted(entities, key=str), places)
    titled = graph.passages_of(
        list(dict.fromkeys(t.document for e in entities.values() for t in e.titled)), 1
    )
    pairs: dict[tuple[EntityId, Key], None] = {}
    for entity in entities.values():
        for place in found.get(entity.id, ()):
            pairs[entity.id, place.key] = None
        for article in entity.titled:
            for key in titled.get(article.document, ()):
                pairs[entity.id, key] = None
    if not pairs:
        return dict(pool)
    passages = list(dict.fromkeys([*best, *(key for _, key in pairs)]))
    ranks = _ranks(pairs, passages, pool, best, named, damping, rounds)
    base = {**pool, **scorer.scores([key for key in passages if key not in pool])}
    highest = float(ranks.max())
    for key, rank in zip(passages, ranks, strict=True):
        if key in base:
            base[key] += strength * float(rank) / highest
    return base


def _ranks(
    pairs: Iterable[tuple[EntityId, Key]],
    passages: Sequence[Key],
    pool: Mapping[Key, float],
    best: Sequence[Key],
    named: Iterable[Entity],
    damping: float,
    rounds: int,
) -> NDArray[np.float64]:
    """The rank of each passage after the walk; names come first among the nodes."""
    names = list(dict.fromkeys(name for name, _ in pairs))
    place = {("name", name): i for i, name in enumerate(names)}
    place |= {("passage", key): len(names) + i for i, key in enumerate(passages)}
    size = len(place)
    ones = np.array([place["name", name] for name, _ in pairs])
    others = np.array([place["passage", key] for _, key in pairs])
    sources, targets = np.concatenate([ones, others]), np.concatenate([others, ones])
    out = 1.0 / np.maximum(np.bincount(sources, minlength=size), 1)
    start = np.zeros(size)
    lowest = min(pool[key] for key in best)
    for key in best:
        start[place["passage", key]] = pool[key] - 0.9 * lowest
    for entity in named:
        if ("name", entity.id) in place:
            start[place["name", entity.id]] = start.max()
    start /= start.sum() or 1.0
    rank = start.copy()
    for _ in range(rounds):
        flow = np.bincount(targets, weights=(rank * out)[sources], minlength=size)
        rank = (1.0 - damping) * start + damping * flow
    return rank[len(names) :]

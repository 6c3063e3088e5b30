"""Random walk with restart over passages and the names they share, to compare ``graph.spread``
with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from packwise.retrieval.graph import (
    MOST_TERMS,
    Asked,
    Bonus,
    Path,
    Scorer,
    Spread,
    names_asked,
)
from packwise.stores.base import Key
from packwise.stores.knowledge import EntityId, KnowledgeStore


def personalised(
    question: str,
    terms: Mapping[str, float],
    pool: Mapping[Key, float],
    graph: KnowledgeStore,
    scorer: Scorer,
    *,
    strength: float = 0.2,
    damping: float = 0.5,
    seeds: int = 10,
    places: int = 30,
    rounds: int = 20,
) -> Spread:
    """Random walk with restart over passages and the names they share, as a bonus of up to
    ``strength`` for the passage of highest rank.

    The walker starts at the best passages, by score, and at the names of the question.
    Measured beside ``spread``, which does better; see docs/graph.md.
    """
    if not pool or len(terms) > MOST_TERMS:
        return Spread((), held_back="no question to start from")
    asked = names_asked(question, graph)
    best = sorted(pool, key=lambda key: (-pool[key], str(key)))[:seeds]
    held = graph.entities_of(best)
    entities = {e.id: e for h in held.values() for e in h.entities if e.passages <= places}
    entities.update((e.id, e) for e in asked.entities if e.passages <= places)
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
        return Spread((), tuple(e.key for e in asked.entities), "no names are shared")
    names = list(dict.fromkeys(name for name, _ in pairs))
    passages = list(dict.fromkeys([*best, *(key for _, key in pairs)]))
    ranks = _walk_ranks(pairs, names, passages, pool, best, asked, damping, rounds)
    base = {**pool, **scorer.scores([key for key in passages if key not in pool])}
    highest = float(ranks.max())
    bonuses = [
        Bonus(key, base[key], strength * float(rank) / highest, Path("walk", "", None, 0))
        for key, rank in zip(passages, ranks, strict=True)
        if key in base and rank > 0
    ]
    bonuses.sort(key=lambda b: (-b.final, str(b.key)))
    return Spread(tuple(bonuses), tuple(e.key for e in asked.entities))


def _walk_ranks(
    pairs: Iterable[tuple[EntityId, Key]],
    names: Sequence[EntityId],
    passages: Sequence[Key],
    pool: Mapping[Key, float],
    best: Sequence[Key],
    asked: Asked,
    damping: float,
    rounds: int,
) -> NDArray[np.float64]:
    """Rank of each passage after the walk; names come first among the nodes."""
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
    for entity in asked.entities:
        if ("name", entity.id) in place:
            start[place["name", entity.id]] = start.max()
    start /= start.sum() or 1.0
    rank = start.copy()
    for _ in range(rounds):
        flow = np.bincount(targets, weights=(rank * out)[sources], minlength=size)
        rank = (1.0 - damping) * start + damping * flow
    return rank[len(names) :]

"""How much each leg counts for a question, and how two legs become one list.

A store that was measured when it was built (``retrieval/profile.py``) says how far the cosines of
its embedder spread and whether the embedder reads its documents; that sets the weights. A question
that comes closer to a passage than the store's own sentences do is a paraphrase, and the vector leg
counts more. A question that holds a number is answered where the number is, and embedders hardly
tell numbers apart: the keyword leg counts more. In a store that was not measured, the intent of the
question sets the weights (docs/search.md).

``combined`` is absolute: cosine clipped to 0..1 and BM25 over the highest BM25 this question
can reach, averaged by weight. It does not depend on what else was found, so it can be compared
across questions and with a threshold. Reciprocal ranks cannot (their best is 1/61), so ``rrf``
only orders the list and never replaces ``combined``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import EVERYTHING, Candidate, Filter, Fusion, Scores
from packwise.language.analyzer import terms as index_terms
from packwise.language.questions import Intent, parse_question
from packwise.models.base import Embedder, Vectors
from packwise.retrieval.profile import LegProfile, Profile
from packwise.settings import Settings
from packwise.stores import bm25
from packwise.stores.base import DirectScores, Key, Store, supports
from packwise.stores.languages import question_terms, visible_statistics

_RRF_K = 60
"""The constant of reciprocal rank fusion in the paper that introduced it."""

# What an intent adds to the share of the keyword leg, and to the number of candidates.
# Definitions and exact names are best found by their words. For measurements even weights lose,
# and only more candidates help.
_PRESETS = {
    Intent.LOOKUP: (0.2, 4),
    Intent.DEFINITION: (0.2, 4),
    Intent.MEASUREMENT: (0.0, 4),
}


class Weights(NamedTuple):
    """How much each leg counts; only their ratio matters."""

    vector: float
    keyword: float

    def normalised(self) -> Weights:
        total = self.vector + self.keyword
        return Weights(self.vector / total, self.keyword / total) if total else Weights(0.5, 0.5)


class MeasuredWeights(NamedTuple):
    """How the weights follow a store's profile; ``benchmarks/legs.py`` measures others.

    usual         log-odds of the keyword leg beside an embedder whose best cosines spread by
                  ``usual_spread``, as those of the default do
    scale         log-odds it gains as they spread e times as far: cosines that differ more
                  outweigh it, and those of small models differ most
    ahead, lead   where it finds more than e**ahead times as much as the vector leg, log-odds it
                  gains per factor e: the embedder does not read these documents
    closer        log-odds it loses per standard deviation that the best cosine of a question lies
                  above the usual one of the store's own sentences
    number        log-odds it gains if the question holds a number
    most          the highest share of the keyword leg
    """

    usual: float = -0.7
    usual_spread: float = 0.065
    scale: float = 2.0
    ahead: float = 0.5
    lead: float = 4.0
    closer: float = 0.6
    number: float = 0.7
    most: float = 0.85

    def weights(
        self, legs: LegProfile, best_cosine: float, configured: Weights, *, number: bool = False
    ) -> Weights:
        """The weights for a question. Configured weights other than 0.7 and 0.3 shift them."""
        odds = self.usual + self.scale * math.log(legs.scale / self.usual_spread)
        odds += self.lead * max(0.0, legs.keyword_lead - self.ahead)
        odds -= self.closer * max(0.0, (best_cosine - legs.best) / legs.spread)
        odds += self.number if number else 0.0
        odds += math.log(max(configured.keyword, 0.01) / max(configured.vector, 0.01))
        odds -= math.log(0.3 / 0.7)
        keyword = min(self.most, 1.0 / (1.0 + math.exp(-odds)))
        return Weights(1.0 - keyword, keyword)


@dataclass(frozen=True, slots=True)
class LegWeights:
    """The weights for one question before its legs have run.

    ``legs`` is what was measured in the store for the question's language, if anything was, and
    ``configured`` the weights of the settings. ``intent`` is ``None`` if they are not adapted.
    ``number`` says whether the question holds one.
    """

    intent: Intent | None
    weights: Weights
    k_base: int
    legs: LegProfile | None = None
    configured: Weights = field(default_factory=lambda: Weights(0.7, 0.3))
    number: bool = False

    def after(self, best_cosine: float) -> Weights:
        """The weights once the vector leg has found its best passage."""
        if self.legs is None:
            return self.weights
        return MeasuredWeights().weights(
            self.legs, best_cosine, self.configured, number=self.number
        )


def leg_weights(
    question: str, settings: Settings, lang: str = "", profile: Profile | None = None
) -> LegWeights:
    """The weights to start with; as configured when ``QUERY_ADAPTIVE_WEIGHTS`` is off."""
    weights = Weights(settings.vector_weight, settings.keyword_weight).normalised()
    if not settings.query_adaptive_weights:
        return LegWeights(None, weights, settings.k_base)
    intent = parse_question(question, lang).intent
    more_weight, more_candidates = _PRESETS.get(intent, (0.0, 0))
    keyword = min(1.0, weights.keyword + more_weight)
    return LegWeights(
        intent,
        Weights(1.0 - keyword, keyword),
        settings.k_base + more_candidates,
        profile.legs(lang.partition(" ")[0]) if profile else None,
        weights,
        any(map(str.isdecimal, question)),
    )


Leg = Mapping[Key, float]
"""The raw scores of the passages that one leg found."""


def fuse(
    vector: Leg | None,
    keyword: Leg | None,
    *,
    bound: float,
    weights: Weights,
    fusion: Fusion,
    similarity: Callable[[float], float | None],
) -> dict[Key, Scores]:
    """Every key of either leg with its scores, best first.

    A passage without any term of the question has a keyword score of 0. A leg that is ``None``
    did not run: its scores are ``None`` and ``combined`` is that of the other leg.
    """
    share = weights.normalised()
    if vector is None or keyword is None:
        share = Weights(0.0, 1.0) if vector is None else Weights(1.0, 0.0)
    vectors, keywords = vector or {}, keyword or {}
    by_rank: dict[Key, float] = {}
    if fusion == "rrf":
        for leg, weight in ((vectors, share.vector), (keywords, share.keyword)):
            ordered = sorted(leg, key=lambda key, leg=leg: (-leg[key], key))
            for rank, key in enumerate(ordered, start=1):
                by_rank[key] = by_rank.get(key, 0.0) + weight / (_RRF_K + rank)

    fused: dict[Key, Scores] = {}
    for key in vectors.keys() | keywords.keys():
        cosine = vectors.get(key)
        raw = keywords.get(key, 0.0) if keyword is not None else None
        relative = None if raw is None else min(1.0, raw / bound) if bound > 0 else 0.0
        clipped = min(1.0, max(0.0, cosine)) if cosine is not None else 0.0
        combined = share.vector * clipped + share.keyword * (relative or 0.0)
        fused[key] = Scores(
            vector=cosine,
            similarity=None if cosine is None else similarity(cosine),
            bm25=raw,
            keyword=relative,
            combined=combined,
            rrf=by_rank.get(key),
            final=by_rank.get(key, combined),
        )
    return dict(sorted(fused.items(), key=lambda item: (-item[1].final, item[0])))


def merged(lists: Sequence[dict[Key, Scores]]) -> dict[Key, Scores]:
    """One list of all; a passage found by several phrasings keeps its best scores."""
    if len(lists) == 1:
        return lists[0]
    best: dict[Key, Scores] = {}
    for key, scores in (item for found in lists for item in found.items()):
        if key not in best or scores.final > best[key].final:
            best[key] = scores
    return best_first(best)


def best_first(scores: Mapping[Key, Scores]) -> dict[Key, Scores]:
    """These passages by their final score."""
    return dict(sorted(scores.items(), key=lambda item: (-item[1].final, str(item[0]))))


def confidence(scores: Iterable[Scores]) -> float:
    """How close what was found is to the question, 0..1; 0 for an empty list.

    It is the best similarity of the vector leg, on the scale of the specification's table: 0.7
    and above is a direct match, below 0.5 is another topic. Without a vector leg it is the best
    keyword score. It is read from raw scores, never from a fused rank.
    """
    scores = list(scores)
    similarities = [s.similarity for s in scores if s.similarity is not None]
    if similarities:
        return max(0.0, min(1.0, max(similarities)))
    return max((s.keyword for s in scores if s.keyword is not None), default=0.0)


@dataclass(slots=True, kw_only=True)
class PassageScorer:
    """Scores passages that no leg found, as both legs and fusion would.

    ``vector`` is the embedded question (``None`` without a vector leg), ``bound`` the highest
    BM25 it can reach (0 without a keyword leg). ``scale`` is for a ranking whose scores have
    been scaled since.
    """

    store: Store
    vector: Vectors | None
    terms: Sequence[str]
    bound: float
    weights: Weights
    similarity: Callable[[float], float | None]
    where: Filter = EVERYTHING
    scale: float = 1.0
    _cosines: dict[Key, float] = field(default_factory=dict[Key, float])
    _words: dict[Key, float] = field(default_factory=dict[Key, float])
    _direct: DirectScores | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._direct = self.store if supports(self.store, DirectScores) else None

    @classmethod
    def of_question(
        cls,
        question: str,
        store: Store,
        embedder: Embedder,
        settings: Settings,
        where: Filter,
        vector: Vectors | None = None,
    ) -> PassageScorer:
        """A scorer with the configured weights of the legs; ``vector`` is that of the question,
        if it is known."""
        terms = question_terms(question, store, where)
        return cls(
            store=store,
            similarity=embedder.similarity,
            vector=embedder.embed_query(question) if vector is None else vector,
            terms=terms,
            bound=bm25.bound(terms, visible_statistics(store, terms, where)) if terms else 0.0,
            weights=Weights(settings.vector_weight, settings.keyword_weight),
            where=where,
        )

    def scores(self, keys: Sequence[Key]) -> Mapping[Key, float]:
        """The score search gives these passages; those the filter hides are left out."""
        keys, near, words = self._raw(keys)
        share = self.weights.normalised()
        if self.vector is None or self.bound <= 0:
            share = Weights(0.0, 1.0) if self.vector is None else Weights(1.0, 0.0)
        relative = np.minimum(1.0, words / self.bound) if self.bound > 0 else np.zeros(len(keys))
        combined = share.vector * np.clip(near, 0.0, 1.0) + share.keyword * relative
        self._cosines.update(zip(keys, near.tolist(), strict=True))
        self._words.update(zip(keys, words.tolist(), strict=True))
        return dict(zip(keys, (self.scale * combined).tolist(), strict=True))

    def found(self, key: Key) -> Scores:
        """All scores of a passage that ``scores`` returned one for."""
        near = None if self.vector is None else {key: self._cosines[key]}
        return self.fuse(near, {key: self._words[key]} if self.bound > 0 else None)[key]

    def _raw(
        self, keys: Sequence[Key]
    ) -> tuple[Sequence[Key], NDArray[np.float64], NDArray[np.float64]]:
        """Those of the passages that the filter shows, their cosines and BM25."""
        terms = self.terms if self.bound > 0 else ()
        if self._direct is not None:
            there, near, words = self._direct.score_passages(self.vector, terms, keys, self.where)
            if self.vector is None:
                there = words > 0
            if not there.all():
                keys = [key for key, shown in zip(keys, there.tolist(), strict=True) if shown]
            return keys, near[there], words[there]
        cosines: dict[Key, float] = {}
        if self.vector is not None:
            cosines = self._near(self.vector, keys)
            keys = list(cosines)
        found = self._keyword(keys, terms)
        if self.vector is None:
            keys = list(found)
        near = [cosines.get(key, 0.0) for key in keys]
        return keys, np.array(near), np.array([found.get(key, 0.0) for key in keys])

    def complete(self, vector: dict[Key, float], keyword: dict[Key, float]) -> int:
        """Give each leg its scores of passages that only the other found; how many there are."""
        no_vector = sorted(keyword.keys() - vector.keys(), key=str)
        no_keyword = sorted(vector.keys() - keyword.keys(), key=str)
        added = len(no_vector) + len(no_keyword)
        if self._direct is not None:
            keys = [*no_vector, *no_keyword]
            found = self._direct.score_passages(self.vector, self.terms, keys, self.where)
            rows = zip(keys, *(column.tolist() for column in found), strict=True)
            for row, (key, there, cosine, raw) in enumerate(rows):
                if row >= len(no_vector) and raw > 0:
                    keyword[key] = raw
                elif row < len(no_vector) and there and self.vector is not None:
                    vector[key] = cosine
            return added
        if no_vector and self.vector is not None:
            vector.update(self._near(self.vector, no_vector))
        if no_keyword:
            keyword.update(self._keyword(no_keyword, self.terms))
        return added

    def fuse(
        self, vector: Leg | None, keyword: Leg | None, fusion: Fusion = "weighted"
    ) -> dict[Key, Scores]:
        """Both legs as one list, with the bound and the weights of this question."""
        return fuse(
            vector,
            keyword,
            bound=self.bound,
            weights=self.weights,
            fusion=fusion,
            similarity=self.similarity,
        )

    def candidates(self, keys: Sequence[Key]) -> list[Candidate]:
        """These passages as candidates, best first; those the filter hides are left out."""
        if not keys:
            return []
        self.scores(keys)
        scored = [
            Candidate(key, passage, self.found(key))
            for key, passage in zip(keys, self.store.passages(keys), strict=True)
            if passage is not None and key in self._cosines
        ]
        return sorted(scored, key=lambda hit: -hit.scores.final)

    def terms_of(self, keys: Sequence[Key]) -> Mapping[Key, frozenset[str]]:
        """The terms of the question that these passages hold, with their headings."""
        if self._direct is not None:
            return self._direct.terms_held(keys, self.terms)
        passages = zip(keys, self.store.passages(keys), strict=True)
        return {
            key: frozenset(index_terms(passage.indexed_text, passage.lang))
            for key, passage in passages
            if passage is not None
        }

    def share(self, keys: Sequence[Key], terms: Sequence[str]) -> Mapping[Key, float]:
        """BM25 over these terms of the question alone, divided by the most that the whole
        question can reach; passages without any of them may be left out."""
        if self.bound <= 0:
            return {}
        return {key: raw / self.bound for key, raw in self._keyword(keys, terms).items()}

    def _near(self, vector: Vectors, keys: Sequence[Key]) -> dict[Key, float]:
        matches = self.store.vector_search(vector, len(keys), self.where, keys)
        return {match.key: match.score for match in matches}

    def _keyword(self, keys: Sequence[Key], terms: Sequence[str]) -> dict[Key, float]:
        if self._direct is not None:
            _, _, words = self._direct.score_passages(None, terms, keys, self.where)
            return {key: raw for key, raw in zip(keys, words.tolist(), strict=True) if raw > 0}
        matches = self.store.keyword_search(terms, len(keys), self.where, keys) if terms else []
        return {match.key: match.score for match in matches}

"""How much each leg counts for a question, and how two legs become one list.

The intent of the question sets the first weights. Then the vector leg shows how sure it is: if
its best passage nearly repeats the question in other words, the keyword leg counts less.
Measured on six sets: fixed weights fall below the vector leg where questions paraphrase their
answers, these do not (docs/search.md).

``combined`` is absolute: cosine clipped to 0..1 and BM25 over the highest BM25 this question
can reach, averaged by weight. It does not depend on what else was found, so it can be compared
across questions and with a threshold. Reciprocal ranks cannot (their best is 1/61), so ``rrf``
only orders the list and never replaces ``combined``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packwise.candidates import EVERYTHING, Candidate, Filter, Fusion, Scores
from packwise.language.analyzer import terms as index_terms
from packwise.language.questions import Intent, parse_question
from packwise.models.base import Embedder, Vectors
from packwise.settings import Settings
from packwise.stores import bm25
from packwise.stores.base import Key, Store

MOST_TERMS = 512
"""Distinct terms of a question that are searched; a longer text is a document."""

# What an intent adds to the share of the keyword leg, and to the number of candidates.
# Definitions and exact names are best found by their words. For measurements even weights lose,
# and only more candidates help.
_PRESETS = {
    Intent.LOOKUP: (0.2, 4),
    Intent.DEFINITION: (0.2, 4),
    Intent.MEASUREMENT: (0.0, 4),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each leg counts; only their ratio matters."""

    vector: float
    keyword: float

    def normalised(self) -> Weights:
        total = self.vector + self.keyword
        return Weights(self.vector / total, self.keyword / total) if total else Weights(0.5, 0.5)


@dataclass(frozen=True, slots=True)
class WeightShift:
    """How far the weights follow the vector leg; ``benchmarks/strengths.py`` measures others.

    low, high  similarities of the best passage between which the keyword leg loses its share
    less       how much of its share it loses at most
    more       how much it gains where the vector leg is unsure
    """

    low: float = 0.41
    high: float = 0.79
    less: float = 0.3
    more: float = 0.1


@dataclass(frozen=True, slots=True)
class LegWeights:
    """The weights for one question before its legs have run."""

    intent: Intent
    weights: Weights
    k_base: int
    shift: WeightShift | None

    def after(self, best_similarity: float | None) -> Weights:
        """The weights once the vector leg has found its best passage."""
        shift = self.shift
        if shift is None or best_similarity is None:
            return self.weights
        sure = min(1.0, max(0.0, (best_similarity - shift.low) / (shift.high - shift.low)))
        keyword = min(1.0, max(0.0, self.weights.keyword + shift.more - shift.less * sure))
        return Weights(1.0 - keyword, keyword)


def leg_weights(question: str, settings: Settings, shift: WeightShift | None = None) -> LegWeights:
    """The weights to start with; as configured when ``QUERY_ADAPTIVE_WEIGHTS`` is off."""
    weights = Weights(settings.vector_weight, settings.keyword_weight).normalised()
    if not settings.query_adaptive_weights:
        return LegWeights(Intent.EXPLORATORY, weights, settings.k_base, None)
    intent = parse_question(question).intent
    more_weight, more_candidates = _PRESETS.get(intent, (0.0, 0))
    keyword = min(1.0, weights.keyword + more_weight)
    return LegWeights(
        intent,
        Weights(1.0 - keyword, keyword),
        settings.k_base + more_candidates,
        shift or WeightShift(),
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
    similarity: Callable[[float], float],
    rrf_k: int = 60,
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
                by_rank[key] = by_rank.get(key, 0.0) + weight / (rrf_k + rank)

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
    BM25 it can reach (0 without a keyword leg). ``found`` keeps every score given; ``scale``
    is for a ranking whose scores have been scaled since.
    """

    store: Store
    vector: Vectors | None
    terms: Sequence[str]
    bound: float
    weights: Weights
    similarity: Callable[[float], float]
    where: Filter = EVERYTHING
    scale: float = 1.0
    found: dict[Key, Scores] = field(default_factory=dict[Key, Scores])

    @classmethod
    def of_question(
        cls, question: str, store: Store, embedder: Embedder, settings: Settings, where: Filter
    ) -> PassageScorer:
        """A scorer with the configured weights of the legs."""
        terms = list(dict.fromkeys(index_terms(question)))[:MOST_TERMS]
        return cls(
            store=store,
            similarity=embedder.similarity,
            vector=embedder.embed_query(question),
            terms=terms,
            bound=bm25.bound(terms, store.term_statistics(terms)) if terms else 0.0,
            weights=Weights(settings.vector_weight, settings.keyword_weight),
            where=where,
        )

    def scores(self, keys: Sequence[Key]) -> Mapping[Key, float]:
        """The score search gives these passages; those the filter hides are left out."""
        vector = None
        if self.vector is not None:
            matches = self.store.vector_search(self.vector, len(keys), self.where, keys)
            vector = {match.key: match.score for match in matches}
            keys = list(vector)
        keyword = self._keyword(keys, self.terms) if self.bound > 0 else None
        fused = self.fuse(vector, keyword)
        self.found.update(fused)
        return {key: self.scale * scores.combined for key, scores in fused.items()}

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
            Candidate(key, passage, self.found[key])
            for key, passage in zip(keys, self.store.passages(keys), strict=True)
            if passage is not None and key in self.found
        ]
        return sorted(scored, key=lambda hit: -hit.scores.final)

    def terms_of(self, keys: Sequence[Key]) -> Mapping[Key, frozenset[str]]:
        """The index terms of these passages, with their headings."""
        passages = zip(keys, self.store.passages(keys), strict=True)
        return {
            key: frozenset(index_terms(passage.indexed_text))
            for key, passage in passages
            if passage is not None
        }

    def share(self, keys: Sequence[Key], terms: Sequence[str]) -> Mapping[Key, float]:
        """BM25 over these terms of the question alone, divided by the most that the whole
        question can reach; passages without any of them may be left out."""
        if self.bound <= 0:
            return {}
        return {key: raw / self.bound for key, raw in self._keyword(keys, terms).items()}

    def _keyword(self, keys: Sequence[Key], terms: Sequence[str]) -> dict[Key, float]:
        matches = self.store.keyword_search(terms, len(keys), self.where, keys) if terms else []
        return {match.key: match.score for match in matches}

"""Scores of passages that no leg brought: what either leg would have said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packwise.candidates import EVERYTHING, Filter, Scores
from packwise.language.analyzer import terms as index_terms
from packwise.models.base import Embedder, Vectors
from packwise.retrieval.fusion import NOT_ASKED, Leg, Weights, fuse
from packwise.stores.base import Key, Store


class LegScorer:
    """Scores passages for one question with the two legs of a store, as fusion does.

    ``vector`` is the embedded question (``None`` without a vector leg), ``bound`` the
    highest BM25 it can reach (0 without a keyword leg). ``found`` keeps every score given;
    ``scale`` is for a ranking whose scores have been scaled since.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        vector: Vectors | None,
        terms: Sequence[str],
        bound: float,
        weights: Weights,
        where: Filter = EVERYTHING,
        scale: float = 1.0,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._scale = scale
        self._vector = vector
        self._terms = list(terms)
        self._bound = bound
        self._weights = weights
        self._where = where
        self.found: dict[Key, Scores] = {}

    def scores(self, keys: Sequence[Key]) -> Mapping[Key, float]:
        vector, keyword = NOT_ASKED, NOT_ASKED
        if self._vector is not None:
            matches = self._store.vector_search(self._vector, len(keys), self._where, keys)
            vector = Leg({match.key: match.score for match in matches})
            keys = [match.key for match in matches]
        if self._bound > 0:
            keyword = Leg(self._keyword(keys, self._terms))
        fused = fuse(
            vector,
            keyword,
            bound=self._bound,
            weights=self._weights,
            fusion="weighted",
            similarity=self._embedder.similarity,
        )
        self.found.update((entry.key, entry.scores) for entry in fused)
        return {entry.key: self._scale * entry.scores.combined for entry in fused}

    def terms_of(self, keys: Sequence[Key]) -> Mapping[Key, frozenset[str]]:
        passages = zip(keys, self._store.passages(keys), strict=True)
        return {
            key: frozenset(index_terms(passage.indexed_text))
            for key, passage in passages
            if passage is not None
        }

    def share(self, keys: Sequence[Key], terms: Sequence[str]) -> Mapping[Key, float]:
        if self._bound <= 0:
            return {}
        return {key: bm25 / self._bound for key, bm25 in self._keyword(keys, terms).items()}

    def _keyword(self, keys: Sequence[Key], terms: Sequence[str]) -> dict[Key, float]:
        matches = self._store.keyword_search(terms, len(keys), self._where, keys) if terms else []
        return {match.key: match.score for match in matches}

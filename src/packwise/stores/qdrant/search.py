"""Searching a store in Qdrant: by vector, by keywords, and both in one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from packwise.candidates import EVERYTHING, Filter
from packwise.stores.base import Key, Match, TermStatistics, Vectors
from packwise.stores.bm25 import term_hash
from packwise.stores.checks import question_vector, storable
from packwise.stores.qdrant.layout import (
    DENSE,
    HNSW_EF_SEARCH,
    SPARSE,
    Payload,
    QdrantState,
    all_of,
    has,
    has_any,
    tag,
    visible,
)
from packwise.stores.qdrant.points import conditions, indexed_prefixes, is_indexed_prefix
from packwise.stores.qdrant.reader import QdrantReader
from packwise.stores.qdrant.server import Address
from packwise.stores.qdrant.statistics import bm25_scores, sparse_query, unpack_terms

_EXTRA = 16
_ROUNDS = 6
_MOST_KEYS = 1 << 63
_LEEWAY = 1.02
"""How much more the unfetched passages may be underrated than the fetched ones."""


class QdrantSearch:
    """The searches of a store."""

    _address: Address
    _reader: QdrantReader

    def vector_search(
        self,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        if k <= 0 or (among is not None and not store_keys(among)):
            self._query_vector(vector, self._reader.state())
            return []
        has_direction = bool(np.any(vector))
        depth = k + _EXTRA
        for attempt in range(_ROUNDS + 1):

            def request(state: QdrantState, depth: int = depth) -> list[models.QueryRequest]:
                query = self._query_vector(vector, state)
                allowed = self._allowed(state, where, among)
                if not query.any():
                    # Nothing is nearer than anything else: the first passages by key.
                    passages = all_of(*has(tag("passages")), allowed)
                    return [models.QueryRequest(filter=passages, limit=k)]
                return [
                    models.QueryRequest(
                        query=query.tolist(),
                        using=DENSE,
                        filter=allowed,
                        params=models.SearchParams(hnsw_ef=max(HNSW_EF_SEARCH, depth)),
                        limit=depth,
                    )
                ]

            _, (points,) = self._reader.query(request)
            matches = _ranked(Match(p.id, p.score if has_direction else 0.0) for p in points)
            # Equal scores go by key, so everything that ties with the k-th must be seen.
            tied = len(matches) == depth and matches[-1].score == matches[k - 1].score
            if not tied or attempt == _ROUNDS:
                return matches[:k]
            depth *= 4
        raise AssertionError("unreachable")

    def keyword_search(
        self,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        if k <= 0 or not terms or (among is not None and not store_keys(among)):
            return []
        wanted = [storable(term) for term in dict.fromkeys(terms)]
        query = sparse_query(wanted)
        depth = 2 * k + _EXTRA
        for attempt in range(_ROUNDS + 1):

            def request(state: QdrantState, depth: int = depth) -> list[models.QueryRequest]:
                return [
                    models.QueryRequest(
                        query=query,
                        using=SPARSE,
                        filter=self._allowed(state, where, among),
                        limit=depth,
                        with_payload=["terms", "length"],
                    )
                ]

            state, (points,) = self._reader.query(request)
            matches, bound = self._rescored(state, wanted, points)
            certain = len(matches) >= k and matches[k - 1].score > bound
            if len(points) < depth or certain or attempt == _ROUNDS:
                return matches[:k]
            depth *= 2
        raise AssertionError("unreachable")

    def hybrid_search(
        self,
        vector: Vectors,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        *,
        prefetch: int = 100,
    ) -> list[Match]:
        """Vector and keyword search in one request, ``prefetch`` passages each, fused by the
        server with reciprocal ranks. The score is the fused one."""
        sparse = sparse_query([storable(term) for term in terms])

        def request(state: QdrantState) -> list[models.QueryRequest]:
            allowed = self._allowed(state, where, None)
            dense = models.Prefetch(
                query=self._query_vector(vector, state).tolist(),
                using=DENSE,
                filter=allowed,
                params=models.SearchParams(hnsw_ef=max(HNSW_EF_SEARCH, prefetch)),
                limit=prefetch,
            )
            keyword = models.Prefetch(query=sparse, using=SPARSE, filter=allowed, limit=prefetch)
            legs = [dense, keyword] if terms else [dense]
            fusion = models.FusionQuery(fusion=models.Fusion.RRF)
            return [models.QueryRequest(prefetch=legs, query=fusion, limit=max(k, 1))]

        _, (points,) = self._reader.query(request)
        return _ranked(Match(point.id, point.score) for point in points)[: max(k, 0)]

    def score_passages(
        self, vector: Vectors | None, terms: Sequence[str], keys: Sequence[Key], where: Filter
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
        """``DirectScores.score_passages``, in one request."""
        wanted = [storable(term) for term in dict.fromkeys(terms)]
        known = store_keys(keys)
        there, near, words = np.zeros(len(keys), bool), np.zeros(len(keys)), np.zeros(len(keys))
        if not known:
            return there, near, words

        def request(state: QdrantState) -> list[models.QueryRequest]:
            allowed = self._allowed(state, where, known)
            requests = [
                models.QueryRequest(
                    filter=all_of(*has(tag("passages")), allowed),
                    limit=len(known),
                    with_payload=["terms", "length"] if wanted else False,
                )
            ]
            query = None if vector is None else self._query_vector(vector, state)
            if query is not None and query.any():
                requests.append(
                    models.QueryRequest(
                        query=query.tolist(),
                        using=DENSE,
                        filter=allowed,
                        params=models.SearchParams(exact=True),
                        limit=len(known),
                    )
                )
            return requests

        state, (points, *nearest) = self._reader.query(request)
        held = {point.id: point.payload for point in points}
        cosines = {point.id: point.score for found in nearest for point in found}
        rows = [row for row, key in enumerate(keys) if key in held]
        there[rows] = True
        near[rows] = [cosines.get(keys[row], 0.0) for row in rows]
        if wanted:
            passages = [held[keys[row]] for row in rows]
            words[rows] = self._bm25(state, passages, self._frequencies(state, wanted))
        return there, near, words

    def terms_held(self, keys: Sequence[Key], terms: Sequence[str]) -> Mapping[Key, frozenset[str]]:
        """``DirectScores.terms_held``."""
        known = store_keys(keys)
        if not known:
            return {}
        inside = [models.HasIdCondition(has_id=[*known]), *has(tag("passages"))]
        points = self._reader.consistently(
            lambda state: self._reader.pick(state, inside, len(known), ["terms"]), checked=True
        )
        hashes = {term: term_hash(storable(term)) for term in terms}
        found: dict[Key, frozenset[str]] = {}
        for point in points:
            held = set(unpack_terms(point.payload["terms"])["hash"].tolist())
            found[point.id] = frozenset(term for term, hashed in hashes.items() if hashed in held)
        return found

    def term_statistics(self, terms: Sequence[str]) -> TermStatistics:
        def count(state: QdrantState) -> TermStatistics:
            found = self._frequencies(state, list(dict.fromkeys(terms)))
            return TermStatistics(state.passages, state.average_length, found)

        return self._reader.consistently(count)

    def _rescored(
        self, state: QdrantState, terms: list[str], points: Sequence[Any]
    ) -> tuple[list[Match], float]:
        """The points with their exact scores, best first, and the most that any other passage
        can score."""
        frequencies = self._frequencies(state, terms)
        exact = self._bm25(state, [point.payload for point in points], frequencies).tolist()
        scored = list(zip(points, exact, strict=True))
        matches = _ranked(Match(point.id, score) for point, score in scored if score > 0)
        underrated = max((s / p.score for p, s in scored if p.score > 0), default=1.0)
        return matches, points[-1].score * underrated * _LEEWAY if points else 0.0

    def _bm25(
        self, state: QdrantState, passages: Sequence[Payload], frequencies: Mapping[str, int]
    ) -> NDArray[np.float64]:
        """The exact score of each passage over these terms, given how many passages hold each."""
        return bm25_scores(
            [payload["terms"] for payload in passages],
            [payload["length"] for payload in passages],
            {term: count for term, count in frequencies.items() if count},
            state.passages,
            state.average_length,
        )

    def _frequencies(self, state: QdrantState, terms: Sequence[str]) -> dict[str, int]:
        held = self._reader.numbers(state, "terms", terms)
        return {term: int(held.get(term, 0)) for term in terms}

    def _allowed(
        self, state: QdrantState, where: Filter, among: Sequence[Key] | None
    ) -> models.Filter:
        """What a search may find. Every search carries the caller's tenant and groups."""
        found = [*visible(state.generation), *conditions(where)]
        if where.path_prefix:
            found.append(self._prefixed(state, storable(where.path_prefix)))
        if among is not None:
            found.append(models.HasIdCondition(has_id=[*store_keys(among)]))
        return all_of(*found)

    def _prefixed(self, state: QdrantState, prefix: str) -> Any:
        """A condition: the document id starts with ``prefix``."""
        if is_indexed_prefix(prefix):
            return has_any([tag("prefix", prefix)])
        # Look through the documents under the longest indexed prefix of it.
        shorter = indexed_prefixes(prefix)[-2]
        names = {
            record.payload["document"]
            for record in self._reader.find(state, has(tag("prefix", shorter)), ["document"])
        }
        matching = sorted(name for name in names if name.startswith(prefix))
        return has_any(tag("passages of", name) for name in matching)

    def _query_vector(self, vector: Vectors, state: QdrantState) -> Vectors:
        return question_vector(vector, state.dim, self._address.text)


def _ranked(matches: Iterable[Match]) -> list[Match]:
    return sorted(matches, key=lambda match: (-match.score, match.key))


def store_keys(keys: Iterable[Key]) -> list[int]:
    """Those keys that a store in Qdrant can have given out."""
    return [key for key in keys if isinstance(key, int) and 0 < key < _MOST_KEYS]

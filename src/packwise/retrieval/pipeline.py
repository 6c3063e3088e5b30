"""From a question to ranked candidates, one stage after the other.

    embed, vector leg ─┐
                       ├─ complete ─ fusion ─ fetch ─ confidence
    keyword leg ───────┘

The keyword leg runs while the question is embedded. ``complete`` asks each leg for its
score of what only the other one found, so no passage is ranked on half its evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from packwise.candidates import FUSIONS, MODES, Candidate, Query
from packwise.errors import UsageError
from packwise.models.base import Embedder, Vectors
from packwise.models.words import terms as index_terms
from packwise.retrieval.fusion import NOT_ASKED, Fused, Leg, Weights, fuse
from packwise.retrieval.gate import confidence
from packwise.settings import Settings
from packwise.stores import bm25
from packwise.stores.base import Match, Store
from packwise.trace import Trace

MOST_RESULTS = 1000
MOST_TERMS = 512
"""Distinct terms of a question that are searched: beyond that it is a document."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a search found, best first, with its record."""

    query: Query
    hits: tuple[Candidate, ...]
    confidence: float
    trace: Trace


def check(query: Query) -> None:
    """Raise ``UsageError`` on a query that cannot be answered as it stands."""
    if not query.text.strip():
        raise UsageError("the query is empty", fix="ask with at least one word")
    if not 1 <= query.k <= MOST_RESULTS:
        raise UsageError(f"k is 1 to {MOST_RESULTS}, not {query.k}")
    if query.mode not in MODES:
        raise UsageError(f"mode is one of {', '.join(MODES)}, not {query.mode!r}")
    if query.fusion not in FUSIONS:
        raise UsageError(f"fusion is one of {', '.join(FUSIONS)}, not {query.fusion!r}")


class Pipeline:
    """Searches one store with one embedder. Safe to use from several threads.

    ``embedder`` is called for the embedder when a question needs it: the keyword leg
    alone works on a machine without any model.
    """

    def __init__(self, store: Store, embedder: Callable[[], Embedder], settings: Settings) -> None:
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._legs = ThreadPoolExecutor(max_workers=4, thread_name_prefix="packwise-leg")

    def close(self) -> None:
        self._legs.shutdown(wait=True)

    def search(self, query: Query) -> Ranking:
        """The ``query.k`` best passages. Raises ``UsageError`` on a query that asks nothing."""
        check(query)
        trace, aside = Trace(), Trace()
        depth = max(query.k, self._settings.k_base)
        terms = list(dict.fromkeys(index_terms(query.text)))[:MOST_TERMS]
        vector, keyword, asked = NOT_ASKED, NOT_ASKED, None

        job = None
        if query.mode != "vector":
            job = self._legs.submit(self._keyword_leg, query, terms, depth, aside)
        if query.mode != "keyword":
            with trace.stage("embed"):
                asked = self._embedder().embed_query(query.text)
            with trace.stage("vector") as stage:
                found = self._store.vector_search(asked, depth, query.where)
                vector = _leg(found)
                stage.note(found=len(found), best=round(found[0].score, 6) if found else None)
        if job is not None:
            keyword = job.result()
            trace.stages.extend(aside.stages)

        if self._settings.completion and asked is not None and keyword.ran:
            with trace.stage("complete") as stage:
                vector, keyword, rescored = self._complete(vector, keyword, asked, terms)
                stage.note(rescored=rescored)
        with trace.stage("fusion") as stage:
            limit = bm25.bound(terms, self._store.term_statistics(terms)) if keyword.ran else 0.0
            weights = Weights(self._settings.vector_weight, self._settings.keyword_weight)
            fused = fuse(
                vector,
                keyword,
                bound=limit,
                weights=weights,
                fusion=query.fusion,
                rrf_k=self._settings.rrf_k,
                similarity=self._embedder().similarity if vector.ran else float,
            )
            stage.note(
                strategy=query.fusion,
                weights=[weights.vector, weights.keyword],
                bm25_bound=round(limit, 6),
                candidates=len(fused),
            )
        with trace.stage("fetch"):
            hits = self._fetch(fused, query.k, trace)
        return Ranking(query, tuple(hits), confidence([f.scores for f in fused]), trace)

    def _keyword_leg(self, query: Query, terms: Sequence[str], depth: int, trace: Trace) -> Leg:
        with trace.stage("keyword") as stage:
            found = self._store.keyword_search(terms, depth, query.where) if terms else []
            stage.note(found=len(found), best=round(found[0].score, 6) if found else None)
        return _leg(found)

    def _complete(
        self, vector: Leg, keyword: Leg, asked: Vectors, terms: Sequence[str]
    ) -> tuple[Leg, Leg, int]:
        """Both legs, each with its score of what only the other had found."""
        no_vector = sorted(keyword.scores.keys() - vector.scores.keys(), key=str)
        no_keyword = sorted(vector.scores.keys() - keyword.scores.keys(), key=str)
        if no_vector:
            more = self._store.vector_search(asked, len(no_vector), among=no_vector)
            vector = _leg(more, vector)
        if no_keyword and terms:
            more = self._store.keyword_search(terms, len(no_keyword), among=no_keyword)
            keyword = _leg(more, keyword)
        return vector, keyword, len(no_vector) + len(no_keyword)

    def _fetch(self, fused: Sequence[Fused], k: int, trace: Trace) -> list[Candidate]:
        """The first ``k`` distinct passages; one text stored twice is shown once."""
        hits: list[Candidate] = []
        seen: dict[str, str] = {}
        at = 0
        while len(hits) < k and at < len(fused):
            batch = fused[at : at + k - len(hits)]
            at += len(batch)
            for entry, passage in zip(
                batch, self._store.passages([f.key for f in batch]), strict=True
            ):
                if passage is None:
                    continue
                first = seen.setdefault(passage.content_hash, passage.id)
                if first != passage.id:
                    trace.drop(passage.id, "fetch", f"same text as {first}")
                    continue
                hits.append(Candidate(entry.key, passage, entry.scores))
        return hits


def _leg(found: Sequence[Match], more: Leg = NOT_ASKED) -> Leg:
    return Leg({**more.scores, **{match.key: match.score for match in found}})

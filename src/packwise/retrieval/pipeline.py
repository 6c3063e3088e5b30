"""From a question to ranked candidates, one stage after the other.

    embed, vector leg ─┐
                       ├─ complete ─ fusion ─ confidence, gate ─ (cross-encoder) ─ graph ─ (mmr)
    keyword leg ───────┘

The keyword leg runs while the question is embedded, unless that is quick. A leg returns distinct
passages (``retrieval/copies.py``). ``complete`` asks each leg for its score of passages that only
the other one found, so every passage is ranked by both. Other phrasings of the question run at the
same time; a passage keeps its best scores. The signs in the fused list become the probability that
it holds the answer (``retrieval/calibration.py``). A question that the gate refuses does not reach
the later, expensive stages. After the graph, lists of changes get lower scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from packwise.candidates import FUSIONS, GRAPHS, MODES, RERANKERS, Candidate, Query, Scores
from packwise.errors import ModelError, UsageError, expect
from packwise.models.base import CrossEncoder, Embedder
from packwise.retrieval import graph
from packwise.retrieval.cache import CacheInfo, QueryCache
from packwise.retrieval.calibration import (
    CROSS,
    READ,
    Calibration,
    default_calibration,
    signs,
    topic_similarity,
)
from packwise.retrieval.change_logs import lower_change_logs
from packwise.retrieval.copies import DistinctPassages
from packwise.retrieval.fusion import (
    PassageScorer,
    Weights,
    confidence,
    leg_weights,
    merged,
)
from packwise.retrieval.profile import Profile
from packwise.retrieval.ranking import Ranking
from packwise.retrieval.reranking import blend_pagerank, cross_encode, mmr
from packwise.settings import Settings
from packwise.stores import bm25, languages
from packwise.stores.base import Key, Match, Store, TermStatistics, one_state
from packwise.stores.name_graph import name_graph
from packwise.trace import Stage, Trace

MOST_RESULTS = 1000
_UNREAD_KEYWORDS = 0.85
"""The least share of the keyword leg in a language that the embedder does not read."""
_LONG_MS = 1.0
"""Embedding that takes longer leaves the keyword leg time to run beside it. Two threads that take
turns at the interpreter cost more than one."""


class _PhrasingResult(NamedTuple):
    """What one phrasing found: the fused list, and what it was made with."""

    fused: dict[Key, Scores]
    scorer: PassageScorer
    statistics: TermStatistics | None
    trace: Trace


def check(query: Query) -> None:
    """Raise ``UsageError`` on an invalid query."""
    expect(query.text, str, "a query is text")
    expect(query.k, int, f"k is a whole number of 1 to {MOST_RESULTS}")
    if not query.text.strip():
        raise UsageError("the query is empty", fix="ask with at least one word")
    if not 1 <= query.k <= MOST_RESULTS:
        raise UsageError(f"k is a whole number of 1 to {MOST_RESULTS}, not {query.k}")
    for name, value, choices in (
        ("mode", query.mode, MODES),
        ("fusion", query.fusion, FUSIONS),
        ("graph", query.graph, GRAPHS),
        ("rerank", query.rerank, RERANKERS),
    ):
        if value not in choices:
            raise UsageError(f"{name} is one of {', '.join(choices)}, not {value!r}")


class Pipeline:
    """Searches one store with one embedder. Safe to use from several threads.

    ``embedder`` and ``cross_encoder`` are called when a question needs their models: the
    keyword leg alone works without any. ``spread_parameters`` tune graph ranking; the weights of
    the legs follow ``profile``.
    """

    def __init__(
        self,
        store: Store,
        embedder: Callable[[], Embedder],
        settings: Settings,
        cross_encoder: Callable[[], CrossEncoder],
        calibration: Calibration | None = None,
        *,
        spread_parameters: graph.SpreadParameters | None = None,
        profile: Callable[[], Profile | None] = lambda: None,
    ) -> None:
        self._store = store
        self._spread_parameters = spread_parameters
        self._profile = profile
        self._calibration = calibration or default_calibration()
        self._embedder = embedder
        self._cross_encoder = cross_encoder
        self._settings = settings
        self._cache: QueryCache[Ranking] = QueryCache(settings.query_cache)
        self._slow_to_embed = True
        self._legs = ThreadPoolExecutor(max_workers=4, thread_name_prefix="packwise-leg")
        self._phrasings = ThreadPoolExecutor(max_workers=4, thread_name_prefix="packwise-ask")

    def close(self) -> None:
        self._phrasings.shutdown(wait=True)
        self._legs.shutdown(wait=True)

    def cache_info(self) -> CacheInfo:
        """How often a search was answered from memory."""
        return self._cache.info()

    def search(self, query: Query) -> Ranking:
        """The ``query.k`` best passages. Raises ``UsageError`` on an invalid query."""
        check(query)
        with one_state(self._store):
            return self._cached(query) if self._cache.enabled else self._search(query)

    def _cached(self, query: Query) -> Ranking:
        trace = Trace()
        with trace.stage("cache") as stage:
            version = self._store.version()
            known = self._cache.get(query, version)
            stage.note(hit=known is not None)
        if known is not None:
            gate = (s for s in known.trace.stages if s.name == "gate")
            trace.stages.extend(replace(stage, started=0) for stage in gate)
            trace.degraded.extend(known.trace.degraded)
            return replace(known, trace=trace)
        ranking = self._search(query)
        self._cache.put(query, version, ranking)
        return ranking

    def _search(self, query: Query) -> Ranking:
        passages = DistinctPassages(self._store)
        pool = max(query.k, READ)
        if query.rerank != "off":
            pool = max(pool, self._settings.rerank_pool)
        while True:
            trace = Trace()
            found = self._phrased(query, passages, trace)
            fused = merged([phrasing.fused for phrasing in found])
            with trace.stage("fetch"):
                hits = _candidates(fused, pool, passages)
            if passages.settled():
                break
        ranking = self._judged(query, hits, list(fused.values()), found[0], trace)
        if query.gated:
            with trace.stage("gate") as stage:
                passed = bool(hits) and ranking.confidence >= ranking.threshold
                stage.note(
                    confidence=round(ranking.confidence, 6),
                    threshold=ranking.threshold,
                    passed=passed,
                )
            ranking = replace(ranking, refused=not passed)
        if not ranking.refused:
            hits = self._reordered(query, hits, fused, found[0], pool, passages, trace)
            crossed = [hit.scores.cross for hit in hits if hit.scores.cross is not None]
            if crossed and ranking.signs:
                ranking = self._calibrated(ranking, {**ranking.signs, CROSS: max(crossed)})
        passages.record(hits, trace)
        return replace(ranking, hits=tuple(hits[: query.k]))

    def _reordered(
        self,
        query: Query,
        hits: list[Candidate],
        fused: Mapping[Key, Scores],
        found: _PhrasingResult,
        pool: int,
        passages: DistinctPassages,
        trace: Trace,
    ) -> list[Candidate]:
        """The hits after the stages that reorder them, as the query asks for them."""
        if query.rerank == "crossencoder":
            hits = self._cross_encode(query, hits, trace)
        if query.graph != "off" and query.mode == "hybrid":
            hits = self._rank_by_graph(query, hits, fused, found, pool, passages, trace)
        hits = lower_change_logs(query.text, hits, trace)
        return self._diversify(hits, trace) if query.rerank == "mmr" else hits

    def _judged(
        self,
        query: Query,
        hits: list[Candidate],
        scores: Sequence[Scores],
        found: _PhrasingResult,
        trace: Trace,
    ) -> Ranking:
        """The fused list with its confidence, and the probability that it holds the answer."""
        usual = self._settings.context_confidence_threshold
        threshold = usual if query.threshold is None else query.threshold
        vector = found.scorer.vector
        ranking = Ranking(query, tuple(hits), confidence(scores), threshold, trace, vector=vector)
        if found.statistics is None or vector is None:
            return ranking
        lang = languages.language_of(query.text, self._store)
        if unread := self._unread(query.text):
            trace.degraded.append(languages.unread_note(self._embedder().name, unread))
        # In a store too small to measure, nothing is known of the scale of some embedders.
        if unread or all(one.similarity is None for one in scores):
            best = self._embedder().similarity(max((s.vector or 0.0 for s in scores), default=0.0))
            near = topic_similarity(query.text, hits, found.statistics, lang, best)
            return replace(ranking, confidence=near)
        with trace.stage("confidence") as stage:
            judged = self._calibrated(
                ranking, signs(query.text, scores, hits, found.statistics, lang)
            )
            stage.note(
                similarity=round(ranking.confidence, 6),
                probability=None if judged.probability is None else round(judged.probability, 6),
                calibration=self._calibration.source,
            )
        return judged

    def _calibrated(self, ranking: Ranking, read: Mapping[str, float]) -> Ranking:
        """The ranking with its signs and their probability."""
        probability = self._calibration.probability(read) if read else None
        ranking = replace(ranking, probability=probability, signs=read)
        if probability is None or self._calibration.source == "default":
            return ranking
        # A threshold that the caller or the user set wins over the calibration's.
        unset = self._settings.origin("context_confidence_threshold") == "default"
        own = ranking.query.threshold is None and unset
        threshold = self._calibration.threshold if own else ranking.threshold
        return replace(ranking, confidence=probability, threshold=threshold)

    def _phrased(
        self, query: Query, passages: DistinctPassages, trace: Trace
    ) -> list[_PhrasingResult]:
        """What each phrasing found, the question itself first."""
        jobs = [
            self._phrasings.submit(self._find, replace(query, text=text), passages)
            for text in dict.fromkeys(query.alternatives)
            if text.strip() and text != query.text
        ]
        found = [self._find(query, passages), *(job.result() for job in jobs)]
        trace.stages.extend(found[0].trace.stages)
        if jobs:
            with trace.stage("phrasings") as stage:
                stage.note(
                    phrasings=len(found), candidates=[len(phrasing.fused) for phrasing in found]
                )
        return found

    def _find(self, query: Query, passages: DistinctPassages) -> _PhrasingResult:
        """Both legs for one phrasing, fused."""
        trace, aside = Trace(), Trace()
        lang = languages.language_of(query.text, self._store)
        first = leg_weights(query.text, self._settings, lang, self._profile())
        depth = max(query.depth or query.k, first.k_base)
        if query.rerank != "off":
            depth = max(depth, self._settings.rerank_pool)
        scorer = PassageScorer(
            store=self._store,
            vector=None,
            terms=languages.question_terms(query.text, self._store, query.where),
            bound=0.0,
            weights=first.weights,
            similarity=lambda _: None,
            where=query.where,
        )
        vector, keyword, statistics, job = None, None, None, None
        by_words = partial(self._keyword_leg, scorer, depth, passages, aside)
        if query.mode != "vector" and self._slow_to_embed:
            job = self._legs.submit(by_words)
        if query.mode != "keyword":
            with trace.stage("embed"):
                scorer.vector = self._embedder().embed_query(query.text)
                unread = self._unread(query.text)
                if not unread:
                    scorer.similarity = self._embedder().similarity
            with trace.stage("vector") as stage:
                search = partial(self._store.vector_search, scorer.vector, where=query.where)
                vector = _leg(search, depth, passages, stage)
            if vector:
                scorer.weights = first.after(max(vector.values()))
                if unread and first.intent is not None:
                    # A small store cannot be measured well enough to trust this leg more.
                    share = max(_UNREAD_KEYWORDS, scorer.weights.keyword)
                    scorer.weights = Weights(1.0 - share, share)
            self._slow_to_embed = trace.stages[0].ms > _LONG_MS
        if query.mode != "vector":
            keyword = job.result() if job else by_words()
            trace.stages.extend(aside.stages)
        if vector is not None and keyword is not None:
            passages.align(vector, keyword)
            if self._settings.completion:
                with trace.stage("complete") as stage:
                    stage.note(rescored=scorer.complete(vector, keyword))
        with trace.stage("fusion") as stage:
            if keyword is not None:
                statistics = languages.visible_statistics(self._store, scorer.terms, query.where)
                scorer.bound = bm25.bound(scorer.terms, statistics)
            fused = scorer.fuse(vector, keyword, query.fusion)
            weights = scorer.weights
            stage.note(
                strategy=query.fusion,
                intent=first.intent.value if first.intent else None,
                weights=[round(weights.vector, 6), round(weights.keyword, 6)],
                bm25_bound=round(scorer.bound, 6),
                candidates=len(fused),
            )
        return _PhrasingResult(fused, scorer, statistics, trace)

    def _unread(self, question: str) -> str:
        """The language of a question if the embedder does not read it, else empty."""
        return languages.unread_language(question, self._store, self._embedder().name)

    def _keyword_leg(
        self, scorer: PassageScorer, depth: int, passages: DistinctPassages, trace: Trace
    ) -> dict[Key, float]:
        search = partial(self._store.keyword_search, scorer.terms, where=scorer.where)
        with trace.stage("keyword") as stage:
            return _leg(search, depth, passages, stage) if scorer.terms else {}

    def _cross_encode(self, query: Query, hits: list[Candidate], trace: Trace) -> list[Candidate]:
        with trace.stage("cross_encoder") as stage:
            try:
                encoder = self._cross_encoder()
            except ModelError as error:
                trace.degraded.append(f"no cross-encoder: {error}")
                stage.note(read=0)
                if self._settings.reranker != "crossencoder":
                    return hits
                encoder = None
            if encoder is not None:
                pool = self._settings.rerank_pool
                stage.note(read=min(pool, len(hits)))
                weight = self._settings.cross_encoder_weight
                return cross_encode(query.text, hits, encoder, pool=pool, weight=weight)
        return self._diversify(hits, trace)

    def _diversify(self, hits: list[Candidate], trace: Trace) -> list[Candidate]:
        with trace.stage("mmr") as stage:
            stage.note(alpha=self._settings.mmr_alpha, candidates=len(hits))
            vectors = self._store.vectors([hit.key for hit in hits])
            return mmr(hits, vectors, self._settings.mmr_alpha)

    def _rank_by_graph(
        self,
        query: Query,
        hits: list[Candidate],
        fused: Mapping[Key, Scores],
        found: _PhrasingResult,
        most: int,
        passages: DistinctPassages,
        trace: Trace,
    ) -> list[Candidate]:
        with trace.stage("graph") as stage:
            if query.graph == "pagerank":
                return self._blend_pagerank(hits, stage.notes)
            if query.fusion == "rrf":
                stage.note(held_back="reciprocal ranks have no scale a bonus could be added to")
                return hits
            # As in ``cross_encode``: what the cross-encoder has not read does not fit.
            scale = 1.0
            if any(hit.scores.cross is not None for hit in hits):
                scale = 1.0 - self._settings.cross_encoder_weight
            scorer = replace(found.scorer, scale=scale)
            statistics = found.statistics or languages.visible_statistics(
                self._store, scorer.terms, query.where
            )
            rarity = {
                term: bm25.idf(statistics.passages, statistics.frequency.get(term, 0))
                for term in scorer.terms
            }
            listed = dict(fused)
            for key, scores in fused.items() if scale != 1.0 else ():
                listed[key] = replace(scores, final=scale * scores.final)
            listed.update((hit.key, hit.scores) for hit in hits)
            pool = {key: scores.final for key, scores in listed.items()}
            flow = graph.spread(
                query.text, rarity, pool, name_graph(self._store), scorer, self._spread_parameters
            )
            stage.note(**flow.notes())
            if not flow.bonuses:
                return hits
            gained = {bonus.key: bonus for bonus in flow.bonuses}
            final = pool | {key: bonus.final for key, bonus in gained.items()}
            ordered = sorted(final, key=lambda key: (-final[key], str(key)))

        def scores_of(key: Key) -> Scores:
            known = listed.get(key) or scorer.found(key)
            bonus = gained.get(key)
            return replace(known, graph=bonus.value, final=bonus.final) if bonus else known

        kept = passages.first(ordered, most)
        return [Candidate(key, passages[key], scores_of(key)) for key in kept]

    def _blend_pagerank(self, hits: list[Candidate], notes: dict[str, object]) -> list[Candidate]:
        info = self._store.info()
        similarities = {hit.key: _similarity(hit) for hit in hits}
        documents = {hit.key: hit.passage.document for hit in hits}
        blended, notes["pagerank"] = blend_pagerank(
            similarities,
            documents,
            self._store.pagerank(list(dict.fromkeys(documents.values()))),
            links=info.links,
            articles=info.documents,
        )
        if blended is None:
            return hits
        scored = [
            replace(
                hit, scores=replace(hit.scores, graph=final - similarities[hit.key], final=final)
            )
            for hit in hits
            for final in [blended[hit.key]]
        ]
        return sorted(scored, key=lambda hit: (-hit.scores.final, str(hit.key)))


def _similarity(hit: Candidate) -> float:
    """What PageRank is blended with: the similarity, or the score of the cross-encoder."""
    scores = hit.scores
    if scores.similarity is None or scores.cross is not None:
        return scores.final
    return scores.similarity


def _candidates(
    scores: Mapping[Key, Scores], most: int, passages: DistinctPassages
) -> list[Candidate]:
    """The first ``most`` distinct passages of a list."""
    return [Candidate(key, passages[key], scores[key]) for key in passages.first(scores, most)]


def _leg(
    search: Callable[[int], Sequence[Match]], depth: int, passages: DistinctPassages, stage: Stage
) -> dict[Key, float]:
    """The raw scores of the ``depth`` best distinct passages."""
    found = search(depth)
    stage.note(found=len(found), best=round(found[0].score, 6) if found else None)
    return passages.best(search, depth, found)

"""From a question to ranked candidates, one stage after the other.

    embed, vector leg ─┐
                       ├─ complete ─ fusion ─ (cross-encoder) ─ graph ─ (mmr) ─ candidates
    keyword leg ───────┘                │
                                        └─ confidence, from the raw scores

What the passages say of their own worth then becomes the probability that the answer is
there (``retrieval/calibration.py``).

The keyword leg runs while the question is embedded. ``complete`` asks each leg for its
score of what only the other one found, so no passage is ranked on half its evidence.
Other phrasings of the question run at the same time; a passage keeps its best scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from packwise.candidates import FUSIONS, GRAPHS, MODES, RERANKERS, Candidate, Query, Scores
from packwise.documents import Passage
from packwise.errors import ModelError, UsageError
from packwise.language.analyzer import terms as index_terms
from packwise.models.base import CrossEncoder, Embedder, Vectors
from packwise.retrieval import graph
from packwise.retrieval.cache import CacheInfo, QueryCache
from packwise.retrieval.calibration import READ, Calibration, default_calibration, signs
from packwise.retrieval.cross_encoding import cross_encode
from packwise.retrieval.diversity import mmr
from packwise.retrieval.fusion import NOT_ASKED, Fused, Leg, Weights, fuse
from packwise.retrieval.gate import confidence
from packwise.retrieval.leg_weights import LEANING, Leaning, weigh
from packwise.retrieval.pagerank_blend import blend_pagerank
from packwise.retrieval.random_walk import personalised
from packwise.retrieval.rescoring import LegScorer
from packwise.settings import Settings
from packwise.stores import bm25
from packwise.stores.base import Key, Match, Store, TermStatistics
from packwise.trace import Trace

MOST_RESULTS = 1000
MOST_TERMS = 512
"""Distinct terms of a question that are searched: beyond that it is a document."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a search found, best first, with its record.

    ``confidence`` is what the gate looks at: where the store has a calibration of its own,
    the ``probability`` that the answer is there, else the best similarity. ``threshold`` is
    the gate's, where the calibration sets one. ``signs`` is what the probability was read
    off; there is none unless both legs searched.
    """

    query: Query
    hits: tuple[Candidate, ...]
    confidence: float
    trace: Trace
    probability: float | None = None
    threshold: float | None = None
    signs: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class _Found:
    """What one phrasing brought: the fused list, and what it was made with."""

    fused: list[Fused]
    vector: Vectors | None
    terms: list[str]
    bound: float
    weights: Weights
    statistics: TermStatistics | None
    trace: Trace


def check(query: Query) -> None:
    """Raise ``UsageError`` on a query that cannot be answered as it stands."""
    if not query.text.strip():
        raise UsageError("the query is empty", fix="ask with at least one word")
    if not 1 <= query.k <= MOST_RESULTS:
        raise UsageError(f"k is 1 to {MOST_RESULTS}, not {query.k}")
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

    ``embedder`` and ``cross_encoder`` are called for their models when a question needs
    them: the keyword leg alone works on a machine without any model. ``knobs`` and ``leaning``
    are the strengths of graph ranking and of weighing the legs.
    """

    def __init__(
        self,
        store: Store,
        embedder: Callable[[], Embedder],
        settings: Settings,
        cross_encoder: Callable[[], CrossEncoder],
        calibration: Calibration | None = None,
        *,
        knobs: graph.Knobs = graph.DEFAULT,
        leaning: Leaning = LEANING,
    ) -> None:
        self._store = store
        self._knobs = knobs
        self._leaning = leaning
        self._calibration = calibration or default_calibration()
        self._embedder = embedder
        self._cross_encoder = cross_encoder
        self._settings = settings
        self._cache: QueryCache[Ranking] = QueryCache(
            settings.query_cache, settings.query_cache_seconds
        )
        self._legs = ThreadPoolExecutor(max_workers=4, thread_name_prefix="packwise-leg")
        self._phrasings = ThreadPoolExecutor(max_workers=4, thread_name_prefix="packwise-ask")

    def close(self) -> None:
        self._phrasings.shutdown(wait=True)
        self._legs.shutdown(wait=True)

    def cache_info(self) -> CacheInfo:
        """How often a search could be answered from memory."""
        return self._cache.info()

    def search(self, query: Query) -> Ranking:
        """The ``query.k`` best passages. Raises ``UsageError`` on a query that asks nothing."""
        check(query)
        if not self._cache.enabled:
            return self._search(query)
        trace = Trace()
        with trace.stage("cache") as stage:
            version = self._store.version()
            known = self._cache.get(query, version)
            stage.note(hit=known is not None)
        if known is not None:
            trace.degraded.extend(known.trace.degraded)
            return replace(known, trace=trace)
        ranking = self._search(query)
        self._cache.put(query, version, ranking)
        return ranking

    def _search(self, query: Query) -> Ranking:
        trace = Trace()
        found = self._phrased(query, trace)
        fused = _merged([phrasing.fused for phrasing in found])
        sure = confidence([entry.scores for entry in fused])
        pool = max(query.k, READ)
        if query.rerank != "off":
            pool = max(pool, self._settings.rerank_pool)
        with trace.stage("fetch"):
            hits = self._fetch(fused, pool, trace)
        if query.rerank == "crossencoder":
            hits = self._cross_encode(query, hits, trace)
        if query.graph != "off" and query.mode == "hybrid":
            hits = self._rank_by_graph(query, hits, fused, found[0], pool, trace)
        if query.rerank == "mmr":
            hits = self._spread_out(hits, trace)
        ranking = Ranking(query, tuple(hits[: query.k]), sure, trace)
        return self._calibrated(ranking, hits, [entry.scores for entry in fused], found[0])

    def _calibrated(
        self, ranking: Ranking, hits: list[Candidate], scores: Sequence[Scores], found: _Found
    ) -> Ranking:
        """The ranking with the probability that it holds the answer."""
        if found.statistics is None or found.vector is None:
            return ranking
        with ranking.trace.stage("confidence") as stage:
            read = signs(ranking.query.text, scores, hits, found.statistics)
            probability = self._calibration.probability(read) if read else None
            stage.note(
                similarity=round(ranking.confidence, 6),
                probability=None if probability is None else round(probability, 6),
                calibration=self._calibration.source,
            )
        ranking = replace(ranking, probability=probability, signs=read)
        if probability is None or self._calibration.source == "default":
            return ranking
        # A threshold that the user set wins over the calibration's.
        unset = self._settings.origin("context_confidence_threshold") == "default"
        threshold = self._calibration.threshold if unset else None
        return replace(ranking, confidence=probability, threshold=threshold)

    def _phrased(self, query: Query, trace: Trace) -> list[_Found]:
        """What each phrasing found, the question's own first."""
        jobs = [
            self._phrasings.submit(self._find, replace(query, text=text))
            for text in dict.fromkeys(query.alternatives)
            if text.strip() and text != query.text
        ]
        found = [self._find(query), *(job.result() for job in jobs)]
        trace.stages.extend(found[0].trace.stages)
        if jobs:
            with trace.stage("phrasings") as stage:
                stage.note(
                    phrasings=len(found), candidates=[len(phrasing.fused) for phrasing in found]
                )
        return found

    def _find(self, query: Query) -> _Found:
        """Both legs for one phrasing, fused."""
        trace, aside = Trace(), Trace()
        weighing = weigh(query.text, self._settings, self._leaning)
        depth = max(query.k, weighing.k_base)
        if query.rerank != "off":
            depth = max(depth, self._settings.rerank_pool)
        terms = list(dict.fromkeys(index_terms(query.text)))[:MOST_TERMS]
        vector, keyword, asked = NOT_ASKED, NOT_ASKED, None
        statistics: TermStatistics | None = None
        weights = weighing.weights

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
            if found:
                weights = weighing.after(self._embedder().similarity(found[0].score))
        if job is not None:
            keyword = job.result()
            trace.stages.extend(aside.stages)

        if self._settings.completion and asked is not None and keyword.ran:
            with trace.stage("complete") as stage:
                vector, keyword, rescored = self._complete(vector, keyword, asked, terms)
                stage.note(rescored=rescored)
        with trace.stage("fusion") as stage:
            limit = 0.0
            if keyword.ran:
                statistics = self._store.term_statistics(terms)
                limit = bm25.bound(terms, statistics)
            fused = fuse(
                vector,
                keyword,
                bound=limit,
                weights=weights,
                fusion=query.fusion,
                similarity=self._embedder().similarity if vector.ran else float,
            )
            stage.note(
                strategy=query.fusion,
                intent=weighing.intent.value if weighing.adaptive else None,
                weights=[round(weights.vector, 6), round(weights.keyword, 6)],
                bm25_bound=round(limit, 6),
                candidates=len(fused),
            )
        return _Found(fused, asked, terms, limit, weights, statistics, trace)

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

    def _fetch(
        self,
        fused: Sequence[Fused],
        k: int,
        trace: Trace,
        known: Mapping[Key, Passage] | None = None,
    ) -> list[Candidate]:
        """The first ``k`` distinct passages: one text, or one place of one page, stored twice
        is shown once. Passages that are ``known`` are not read again."""
        known = known or {}
        hits: list[Candidate] = []
        seen: dict[tuple[str, int], str] = {}
        at = 0
        while len(hits) < k and at < len(fused):
            batch = fused[at : at + k - len(hits)]
            at += len(batch)
            new = [entry.key for entry in batch if entry.key not in known]
            read = dict(zip(new, self._store.passages(new), strict=True)) if new else {}
            for entry in batch:
                passage = known.get(entry.key) or read.get(entry.key)
                if passage is None:
                    continue
                marks = [(passage.content_hash, -1)]
                if passage.url:
                    marks.append((passage.url, passage.start))
                first = next((seen[mark] for mark in marks if mark in seen), passage.id)
                if first != passage.id:
                    trace.drop(passage.id, "fetch", f"same text as {first}")
                    continue
                seen.update(dict.fromkeys(marks, passage.id))
                hits.append(Candidate(entry.key, passage, entry.scores))
        return hits

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
                return cross_encode(
                    query.text,
                    hits,
                    encoder,
                    pool=pool,
                    weight=self._settings.cross_encoder_weight,
                )
        return self._spread_out(hits, trace)

    def _spread_out(self, hits: list[Candidate], trace: Trace) -> list[Candidate]:
        with trace.stage("mmr") as stage:
            stage.note(alpha=self._settings.mmr_alpha, candidates=len(hits))
            vectors = self._store.vectors([hit.key for hit in hits])
            return mmr(hits, vectors, self._settings.mmr_alpha)

    def _rank_by_graph(
        self,
        query: Query,
        hits: list[Candidate],
        fused: Sequence[Fused],
        found: _Found,
        most: int,
        trace: Trace,
    ) -> list[Candidate]:
        with trace.stage("graph") as stage:
            if query.graph == "pagerank":
                return self._blend_pagerank(hits, stage.notes)
            if query.fusion == "rrf":
                stage.note(held_back="reciprocal ranks have no scale a bonus could be added to")
                return hits
            # What the cross-encoder has not read stands as it does there.
            scale = 1.0
            if any(hit.scores.cross is not None for hit in hits):
                scale = 1.0 - self._settings.cross_encoder_weight
            scorer = LegScorer(
                self._store,
                self._embedder(),
                vector=found.vector,
                terms=found.terms,
                bound=found.bound,
                weights=found.weights,
                where=query.where,
                scale=scale,
            )
            statistics = found.statistics or self._store.term_statistics(found.terms)
            rarity = {
                term: bm25.idf(statistics.passages, statistics.frequency.get(term, 0))
                for term in found.terms
            }
            pool = {entry.key: scale * entry.scores.final for entry in fused}
            pool.update((hit.key, hit.scores.final) for hit in hits)
            if query.graph == "walk":
                flow = personalised(query.text, rarity, pool, self._store, scorer)
            else:
                flow = graph.spread(query.text, rarity, pool, self._store, scorer, self._knobs)
            stage.note(**flow.notes())
            if not flow.bonuses:
                return hits
            return self._with_bonuses(hits, fused, flow, scorer, scale, most, trace)

    def _with_bonuses(
        self,
        hits: list[Candidate],
        fused: Sequence[Fused],
        flow: graph.Spread,
        scorer: LegScorer,
        scale: float,
        most: int,
        trace: Trace,
    ) -> list[Candidate]:
        """The list with its bonuses, passages from outside it included."""
        scores = {entry.key: entry.scores for entry in fused}
        if scale != 1.0:
            scores = {key: replace(s, final=scale * s.final) for key, s in scores.items()}
        scores.update((hit.key, hit.scores) for hit in hits)
        for bonus in flow.bonuses:
            known = scores.get(bonus.key) or scorer.found[bonus.key]
            scores[bonus.key] = replace(known, graph=bonus.value, final=bonus.final)
        ordered = sorted(scores, key=lambda key: (-scores[key].final, str(key)))
        passages = {hit.key: hit.passage for hit in hits}
        if all(key in passages for key in ordered[:most]):
            return [Candidate(key, passages[key], scores[key]) for key in ordered[:most]]
        return self._fetch([Fused(key, scores[key]) for key in ordered], most, trace, passages)

    def _blend_pagerank(self, hits: list[Candidate], notes: dict[str, object]) -> list[Candidate]:
        info = self._store.info()
        similarities = {hit.key: _similarity(hit) for hit in hits}
        documents = {hit.key: hit.passage.document for hit in hits}
        blend = blend_pagerank(
            similarities,
            documents,
            self._store.pagerank(list(dict.fromkeys(documents.values()))),
            links=info.links,
            articles=info.documents,
        )
        notes["pagerank"] = blend.note
        if not blend.applied:
            return hits
        blended = [
            replace(
                hit,
                scores=replace(
                    hit.scores,
                    graph=blend.scores[hit.key] - similarities[hit.key],
                    final=blend.scores[hit.key],
                ),
            )
            for hit in hits
        ]
        return sorted(blended, key=lambda hit: (-hit.scores.final, str(hit.key)))


def _similarity(hit: Candidate) -> float:
    """What PageRank is blended with; what the cross-encoder said stays in it."""
    scores = hit.scores
    if scores.similarity is None or scores.cross is not None:
        return scores.final
    return scores.similarity


def _merged(lists: Sequence[list[Fused]]) -> list[Fused]:
    """One list of all; a passage found by several phrasings keeps its best scores."""
    if len(lists) == 1:
        return lists[0]
    best: dict[Key, Fused] = {}
    for entry in (entry for entries in lists for entry in entries):
        known = best.get(entry.key)
        if known is None or entry.scores.final > known.scores.final:
            best[entry.key] = entry
    return sorted(best.values(), key=lambda entry: (-entry.scores.final, str(entry.key)))


def _leg(found: Sequence[Match], more: Leg = NOT_ASKED) -> Leg:
    return Leg({**more.scores, **{match.key: match.score for match in found}})

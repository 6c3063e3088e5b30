"""Step 6: a few articles, a few sections of each, and linked neighbours that fit.

What was found is grouped by article, that is by title: the best articles by the relevance
that their sections have together are kept, with the best sections of each. Articles they link
to may join when they resemble the question closely (``MIN_RELEVANCE``); the articles that were
retrieved need not, for the confidence gate has let them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from packwise.candidates import EVERYTHING, Candidate, Filter, Scores
from packwise.documents import Passage
from packwise.language.analyzer import terms as index_terms
from packwise.language.names import name_key
from packwise.models.base import Embedder
from packwise.retrieval.fusion import Weights
from packwise.retrieval.rescoring import LegScorer
from packwise.settings import Settings
from packwise.stores import bm25
from packwise.stores.base import Key, Store

NUM_DOCS = 5
MAX_SECTIONS = 3
MIN_RELEVANCE = 0.7

MOST_LINKED = 500
"""Linked articles that are looked at, in the order of the links."""

_FADE = 0.5
_MOST_TERMS = 512


@dataclass(frozen=True, slots=True)
class Chosen:
    """The passages that go on, best first, and how many articles they are of.

    ``joined`` names the linked articles among them.
    """

    candidates: tuple[Candidate, ...]
    articles: int
    joined: tuple[str, ...] = ()


def article_of(passage: Passage) -> str:
    """What makes passages one article: the title, or without one the document."""
    return name_key(passage.doc_title) or f"#{passage.document}"


def best_articles(
    hits: Sequence[Candidate], *, num_docs: int = NUM_DOCS, max_sections: int = MAX_SECTIONS
) -> Chosen:
    """The hits of the ``num_docs`` best articles, from at most ``max_sections`` sections each.

    An article's relevance is that of its kept sections together, each counting half as much
    as the one before it: a long article does not win by its length alone. Text without a
    heading counts as a section a passage.
    """
    groups: dict[str, dict[object, list[Candidate]]] = {}
    for hit in sorted(hits, key=lambda hit: -hit.scores.final):
        passage = hit.passage
        section = (passage.document, passage.section_path or passage.id)
        sections = groups.setdefault(article_of(passage), {})
        if section in sections or len(sections) < max_sections:
            sections.setdefault(section, []).append(hit)
    # Stable: articles of equal relevance keep the order of their best hits.
    order = sorted(groups, key=lambda article: -_relevance(groups[article]))
    kept = [
        hit for article in order[:num_docs] for found in groups[article].values() for hit in found
    ]
    kept.sort(key=lambda hit: -hit.scores.final)
    return Chosen(tuple(kept), min(len(groups), num_docs))


def _relevance(sections: Mapping[object, Sequence[Candidate]]) -> float:
    best = [max(hit.scores.final for hit in hits) for hits in sections.values()]
    return sum(score * _FADE**place for place, score in enumerate(best))


def with_linked(
    chosen: Chosen,
    question: str,
    *,
    store: Store,
    embedder: Embedder,
    settings: Settings,
    where: Filter = EVERYTHING,
    min_relevance: float = MIN_RELEVANCE,
    num_docs: int = NUM_DOCS,
    max_sections: int = MAX_SECTIONS,
) -> Chosen:
    """The chosen passages and those of linked articles with a similarity of at least
    ``min_relevance``: at most ``num_docs`` articles, ranked behind what was retrieved."""
    documents = list(dict.fromkeys(hit.passage.document for hit in chosen.candidates))
    linked = dict.fromkeys(link.target for _, link in store.links(documents) if link.target)
    targets = [name for name in linked if name not in documents and _may_be_seen(name, where)]
    if not targets:
        return chosen
    scorer = Scorer(question, store, embedder, settings, where)
    near = scorer.nearest(tuple(targets[:MOST_LINKED]), num_docs * max_sections, min_relevance)
    here = {article_of(hit.passage) for hit in chosen.candidates}
    new = [hit for hit in near if article_of(hit.passage) not in here]
    more = best_articles(new, num_docs=num_docs, max_sections=max_sections)
    floor = min((hit.scores.final for hit in chosen.candidates), default=1.0)
    joined = [
        replace(hit, scores=replace(hit.scores, final=min(hit.scores.final, floor)))
        for hit in more.candidates
    ]
    titles = dict.fromkeys(hit.passage.doc_title or hit.passage.document for hit in joined)
    return Chosen((*chosen.candidates, *joined), chosen.articles + more.articles, tuple(titles))


def _may_be_seen(document: str, where: Filter) -> bool:
    return not where.documents or document in where.documents


class Scorer:
    """Scores any passages of a store for one question, as search does."""

    def __init__(
        self, question: str, store: Store, embedder: Embedder, settings: Settings, where: Filter
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._where = where
        self._vector = embedder.embed_query(question)
        terms = list(dict.fromkeys(index_terms(question)))[:_MOST_TERMS]
        self._legs = LegScorer(
            store,
            embedder,
            vector=self._vector,
            terms=terms,
            bound=bm25.bound(terms, store.term_statistics(terms)) if terms else 0.0,
            weights=Weights(settings.vector_weight, settings.keyword_weight),
            where=where,
        )

    def nearest(
        self, documents: tuple[str, ...], most: int, least_similarity: float
    ) -> list[Candidate]:
        """The passages of these documents that resemble the question at least so much."""
        where = replace(self._where, documents=documents)
        found = self._store.vector_search(self._vector, most, where)
        near = [
            match.key
            for match in found
            if self._embedder.similarity(match.score) >= least_similarity
        ]
        return self.candidates(near)

    def candidates(self, keys: Sequence[Key]) -> list[Candidate]:
        """These passages as candidates, best first; those that may not be seen are left out."""
        if not keys:
            return []
        self._legs.scores(keys)
        known: Mapping[Key, Scores] = self._legs.found
        scored = [
            Candidate(key, passage, known[key])
            for key, passage in zip(keys, self._store.passages(keys), strict=True)
            if passage is not None and key in known
        ]
        return sorted(scored, key=lambda hit: -hit.scores.final)

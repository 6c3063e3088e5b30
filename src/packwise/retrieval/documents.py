"""Step 6: a few articles, a few sections of each, and linked articles that fit.

Passages are grouped by article, that is by title. The article of the best passage is always kept,
and those whose sections together are most relevant, with the best sections of each. Articles they
link to may join if they are similar enough to the question (``MIN_RELEVANCE``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from packwise.candidates import EVERYTHING, Candidate, Filter
from packwise.documents import Passage
from packwise.language.names import name_key
from packwise.models.base import Embedder, Vectors
from packwise.retrieval.copies import DistinctPassages
from packwise.retrieval.fusion import PassageScorer
from packwise.settings import Settings
from packwise.stores.base import Store

MOST_DOCUMENTS = 20
NUM_DOCS = 5
MAX_SECTIONS = 3
MIN_RELEVANCE = 0.7

MOST_LINKED = 500
"""Linked articles that are considered, in the order of the links."""

_FADE = 0.125
"""What each further section of an article counts, against the one before it. At 0.5, long articles
take the places of the second one that a question needs: .82 against .87 of the articles behind
HotpotQA questions are among the first two."""


@dataclass(frozen=True, slots=True)
class ChosenPassages:
    """The chosen passages, best first, and the number of articles they belong to.

    ``joined`` names the linked articles among them.
    """

    candidates: tuple[Candidate, ...]
    articles: int
    joined: tuple[str, ...] = ()


def clamp_results(max_results: int) -> int:
    """How many articles an answer may use: 1 to 20."""
    return max(1, min(max_results, MOST_DOCUMENTS))


def article_of(passage: Passage) -> str:
    """The key of a passage's article: its title, or its document if it has no title."""
    return name_key(passage.doc_title) or f"#{passage.document}"


def best_articles(
    hits: Sequence[Candidate], *, num_docs: int = NUM_DOCS, max_sections: int = MAX_SECTIONS
) -> ChosenPassages:
    """The hits of the ``num_docs`` best articles, from at most ``max_sections`` sections each.

    The article of the best hit comes first. The relevance of the others is the sum over their
    kept sections, each counting far less than the one before it, so a long article does not win
    by its length alone. A passage without a heading is a section of its own.
    """
    groups: dict[str, dict[object, list[Candidate]]] = {}
    for hit in sorted(hits, key=lambda hit: -hit.scores.final):
        passage = hit.passage
        section = (passage.document, passage.section_path or passage.id)
        sections = groups.setdefault(article_of(passage), {})
        if section in sections or len(sections) < max_sections:
            sections.setdefault(section, []).append(hit)
    # Stable: articles of equal relevance keep the order of their best hits.
    first, rest = list(groups)[:1], list(groups)[1:]
    order = first + sorted(rest, key=lambda article: -_relevance(groups[article]))
    kept = [
        hit for article in order[:num_docs] for found in groups[article].values() for hit in found
    ]
    kept.sort(key=lambda hit: -hit.scores.final)
    return ChosenPassages(tuple(kept), min(len(groups), num_docs))


def _relevance(sections: Mapping[object, Sequence[Candidate]]) -> float:
    best = [max(hit.scores.final for hit in hits) for hits in sections.values()]
    return sum(score * _FADE**place for place, score in enumerate(best))


def with_linked(
    chosen: ChosenPassages,
    question: str,
    *,
    store: Store,
    embedder: Embedder,
    settings: Settings,
    vector: Vectors | None = None,
    where: Filter = EVERYTHING,
    min_relevance: float = MIN_RELEVANCE,
    max_sections: int = MAX_SECTIONS,
) -> ChosenPassages:
    """The chosen passages, and behind them those of at most five linked articles with a
    similarity of at least ``min_relevance``. ``vector`` is that of the question, if it is known."""
    documents = list(dict.fromkeys(hit.passage.document for hit in chosen.candidates))
    linked = dict.fromkeys(link.target for _, link in store.links(documents) if link.target)
    targets = [
        name
        for name in linked
        if name not in documents and (not where.documents or name in where.documents)
    ]
    if not targets:
        return chosen
    scorer = PassageScorer.of_question(question, store, embedder, settings, where, vector)
    assert scorer.vector is not None
    among = replace(where, documents=tuple(targets[:MOST_LINKED]))
    search = partial(store.vector_search, scorer.vector, where=among)
    most = NUM_DOCS * max_sections
    found = DistinctPassages(store).best(search, most, search(most))
    near = [
        key
        for key, score in found.items()
        if (similarity := embedder.similarity(score)) is not None and similarity >= min_relevance
    ]
    here = {article_of(hit.passage) for hit in chosen.candidates}
    new = [hit for hit in scorer.candidates(near) if article_of(hit.passage) not in here]
    more = best_articles(new, max_sections=max_sections)
    floor = min((hit.scores.final for hit in chosen.candidates), default=1.0)
    joined = [
        replace(hit, scores=replace(hit.scores, final=min(hit.scores.final, floor)))
        for hit in more.candidates
    ]
    titles = dict.fromkeys(hit.passage.doc_title or hit.passage.document for hit in joined)
    return ChosenPassages(
        (*chosen.candidates, *joined), chosen.articles + more.articles, tuple(titles)
    )

"""What an answer is made from: the articles that are chosen, and the passages that are read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from packwise.answering.answer import AnswerRequest, Tools
from packwise.answering.blocks import SourcePassage, with_neighbours
from packwise.candidates import Candidate
from packwise.context.packer import Context
from packwise.retrieval.documents import ChosenPassages, best_articles, clamp_results, with_linked
from packwise.retrieval.fusion import PassageScorer
from packwise.retrieval.pipeline import Ranking
from packwise.stores.base import Store
from packwise.trace import Stage

_READ = 8
"""Passages that are read for an answer without a language model."""
_READ_WHOLE = 3
"""The first of them are read with their neighbours, so that a list they cut is whole."""


def choose(
    tools: Tools, question: str, options: AnswerRequest, ranking: Ranking, stage: Stage
) -> tuple[Candidate, ...]:
    """Step 6, and the passages that the caller adds to those of the search."""
    hits = ranking.hits
    if keep := options.keep:
        hits = tuple(hit for hit in hits if keep(hit.passage.text)) or hits
    number = clamp_results(options.num_docs or options.max_results)
    if not options.documents:
        kept = hits[:number]
        chosen = ChosenPassages(kept, len({hit.passage.document for hit in kept}))
    else:
        chosen = best_articles(hits, num_docs=number, max_sections=options.max_sections)
        if options.mode != "keyword":
            chosen = with_linked(
                chosen,
                question,
                store=tools.store,
                embedder=tools.embedder(),
                settings=tools.settings,
                where=options.where,
                min_relevance=options.min_relevance,
                max_sections=options.max_sections,
            )
    candidates = _with_extra(tools, question, options, chosen.candidates)
    stage.note(
        articles=chosen.articles,
        passages=len(candidates),
        joined=list(chosen.joined),
        extra=len(candidates) - len(chosen.candidates),
    )
    return candidates


def _with_extra(
    tools: Tools, question: str, options: AnswerRequest, candidates: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    known = {hit.key for hit in candidates}
    keys = [key for key in dict.fromkeys(options.extra) if key not in known]
    if not keys:
        return candidates
    scorer = PassageScorer.of_question(
        question, tools.store, tools.embedder(), tools.settings, options.where
    )
    # The caller asked for them: they rank with the best that search found, in their order.
    best = max((hit.scores.final for hit in candidates), default=1.0)
    found = {hit.key: hit for hit in scorer.candidates(keys)}
    extra = [found[key] for key in keys if key in found]
    return (*candidates, *(replace(e, scores=replace(e.scores, final=best)) for e in extra))


def sources(
    store: Store, context: Context, candidates: Sequence[Candidate], findings: int = 0
) -> list[SourcePassage]:
    """The best ranked passages, to be read whole.

    Packing may have left one out as too costly, but reading it costs nothing here. It is then
    cited after those of the context and the ``findings``.
    """
    markers = {name: shown.marker for shown in context.passages for name in shown.ids}
    unused = itertools.count(len(context.passages) + findings + 1)
    found: list[SourcePassage] = []
    for rank, hit in enumerate(candidates[:_READ]):
        passage = hit.passage
        if rank < _READ_WHOLE:
            near = store.neighbours(hit.key, 1, 1)
            passage = with_neighbours(passage, (other for _, other in near))
        marker = markers.get(hit.passage.id) or next(unused)
        found.append(SourcePassage(marker, passage, hit.scores.combined, rank))
    return found

"""What an answer is made from: the articles that are chosen, and the passages that are read."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from packwise.answering.answer import AnswerRequest, Citation, NumberedPassage, Tools
from packwise.answering.block_ranking import named_section
from packwise.answering.blocks import AnswerBlock, SourcePassage, announces, with_neighbours
from packwise.candidates import Candidate
from packwise.context.packer import Context
from packwise.documents import Passage, joined_places
from packwise.errors import ModelError
from packwise.language.questions import ParsedQuestion, parse_question
from packwise.models.base import CrossEncoder, SpanReader
from packwise.retrieval.documents import (
    MAX_SECTIONS,
    ChosenPassages,
    article_of,
    best_articles,
    clamp_results,
    with_linked,
)
from packwise.retrieval.fusion import PassageScorer
from packwise.retrieval.ranking import Ranking
from packwise.stores.base import Store
from packwise.stores.languages import unread_language
from packwise.trace import Stage

_READ = 12
"""Passages that are read for an answer without a language model."""
_OF_A_SECTION = 2
"""Passages of one section that are read before those of others: a long section that repeats the
words of the question would otherwise take all places."""
_READ_WHOLE = 3
"""The first of them are read with their neighbours, so that a list they cut is whole."""
_ANNOUNCED = 8
"""Passages after one that ends with an announcement in which what it announces is looked for."""


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
                vector=ranking.vector,
                where=options.where,
                min_relevance=options.min_relevance,
                max_sections=options.max_sections,
            )
    candidates = _with_extra(tools, question, options, ranking, chosen.candidates)
    stage.note(
        articles=chosen.articles,
        passages=len(candidates),
        joined=list(chosen.joined),
        extra=len(candidates) - len(chosen.candidates),
    )
    return candidates


def _with_extra(
    tools: Tools,
    question: str,
    options: AnswerRequest,
    ranking: Ranking,
    candidates: tuple[Candidate, ...],
) -> tuple[Candidate, ...]:
    known = {hit.key for hit in candidates}
    keys = [key for key in dict.fromkeys(options.extra) if key not in known]
    if not keys:
        return candidates
    scorer = PassageScorer.of_question(
        question, tools.store, tools.embedder(), tools.settings, options.where, ranking.vector
    )
    # The caller asked for them: they rank with the best that search found, in their order.
    best = max((hit.scores.final for hit in candidates), default=1.0)
    found = {hit.key: hit for hit in scorer.candidates(keys)}
    extra = [found[key] for key in keys if key in found]
    return (*candidates, *(replace(e, scores=replace(e.scores, final=best)) for e in extra))


def with_further_sections(
    candidates: Sequence[Candidate], ranking: Ranking, options: AnswerRequest
) -> list[Candidate]:
    """The candidates and the other hits of their articles, best first, to be read: of a manual in
    one file, three sections are few. A number of sections that the caller set is kept."""
    if not options.documents or options.max_sections != MAX_SECTIONS or options.keep:
        return list(candidates)
    known = {hit.key for hit in candidates}
    articles = {article_of(hit.passage) for hit in candidates}
    others = (hit for hit in ranking.hits if article_of(hit.passage) in articles)
    found = [*candidates, *(hit for hit in others if hit.key not in known)]
    return sorted(found, key=lambda hit: -hit.scores.final)


def sources(
    store: Store,
    candidates: Sequence[Candidate],
    context: Context | None = None,
    findings: int = 0,
    question: str = "",
) -> list[SourcePassage]:
    """The best ranked passages, to be read whole, few of each section but of one that the
    ``question`` names.

    Packing may have left one out as too costly, but reading it costs nothing here. It is then
    cited after those of the context and the ``findings``. A budget that holds no passage leaves
    nothing to read.
    """
    if context is not None and not context.passages:
        return []
    shown = context.passages if context else ()
    markers = {name: passage.marker for passage in shown for name in passage.ids}
    unused = itertools.count(len(shown) + findings + 1)
    found: list[SourcePassage] = []
    read: set[str] = set()
    for hit in _varied(candidates, parse_question(question)):
        rank, passage, parts = len(found), hit.passage, (hit.passage,)
        if rank == _READ:
            break
        if passage.id in read:
            continue
        if rank < _READ_WHOLE:
            passage, parts = _read_whole(store, hit)
        read.update(part.id for part in parts)
        marker = markers.get(hit.passage.id) or next(unused)
        found.append(SourcePassage(marker, passage, hit.scores.combined, rank, parts))
    return found


def _read_whole(store: Store, hit: Candidate) -> tuple[Passage, tuple[Passage, ...]]:
    """A passage with those that continue it, and all that it was joined of."""
    after = _ANNOUNCED if announces(hit.passage.text) else 1
    near = [other for _, other in store.neighbours(hit.key, 1, after)]
    whole = with_neighbours(hit.passage, near)
    inside = (p for p in near if whole.start <= p.start and p.end <= whole.end)
    return whole, (hit.passage, *inside)


def _varied(candidates: Sequence[Candidate], question: ParsedQuestion) -> list[Candidate]:
    """The candidates, those of a section that already has its share behind the others, unless the
    question names it."""
    sections: Counter[tuple[str, object]] = Counter()
    first: list[Candidate] = []
    later: list[Candidate] = []
    for hit in candidates:
        section = (hit.passage.document, hit.passage.section_path)
        sections[section] += 1
        few = sections[section] <= _OF_A_SECTION or named_section(question, hit.passage)
        (first if few else later).append(hit)
    return first + later


def citations_of(
    context: Context,
    findings: Sequence[NumberedPassage],
    blocks: Sequence[AnswerBlock],
    cited: Sequence[int],
) -> tuple[Citation, ...]:
    """What the markers in an answer refer to, in the order of ``cited``."""
    quoted = {passage.marker: Citation.of(passage) for passage in context.passages}
    places: dict[int, list[str]] = {}
    for block in blocks:
        known = quoted.get(block.source.marker)
        # A block that packing left out is shown with its whole passage.
        if known is None or block.text not in known.text:
            marker = block.source.marker
            places.setdefault(marker, []).extend(block.places)
            whole = Citation.of_passage(marker, block.source.passage)
            quoted[marker] = replace(whole, place=joined_places(places[marker]))
    for item in findings:
        quoted[item.marker] = Citation(item.marker, "", (), "", item.title, (), "", item.text)
    return tuple(quoted[marker] for marker in cited if marker in quoted)


_Model = TypeVar("_Model", CrossEncoder, SpanReader)


def reading_model(
    question: str,
    store: Store,
    degrade: Callable[[str], None],
    load: Callable[[], _Model | None] | None,
    what: str,
) -> _Model | None:
    """A model that reads the passages, if it can be loaded and reads the language of the question.

    Any text in another language would look like a bad answer to it.
    """
    try:
        model = load() if load is not None else None
    except ModelError as error:
        degrade(f"no {what}: {error}")
        return None
    if model is None or unread_language(question, store, model.name):
        return None
    return model

"""The candidates of one question: ranked, analyzed, without stubs and duplicates.

Each candidate and each of its units also has a share of the expected answer, a mass of 1
spread over all of them. A policy then spends tokens to cover mass.

A candidate's share falls with its rank and its relative score, never with the absolute one:
cosines, blends and reciprocal ranks have different scales. A unit's share within its passage
rises with the question's words it holds, rare ones counting more, and with holding the kind
of thing that is asked for.

How far words may overrule the ranking depends on whether one unit answers the question. Where
some unit holds nearly all its words, that unit is the likely answer, whichever passage it is
in. Where none does (two facts from two documents, other words), the mass follows the ranking.
A passage that graph ranking or a reranker raised above its search score never has less mass
than its rank gives it: it was not found by the question's words.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Candidate, Scores
from packwise.context.duplicates import find_duplicates
from packwise.context.quality import Exemption, exemption, keywords, quality
from packwise.context.trace import Dropped, DropReason, Selected
from packwise.documents import Passage
from packwise.language.questions import NO_ANSWER, Answerability, answerability, parse_question
from packwise.language.word_classes import NAME
from packwise.language.words import holds_word, words
from packwise.models.base import Vectors
from packwise.reading.passage_reading import (
    Reading,
    reading_of,
    term_hash,
    unit_names,
    unit_words,
    whole_text,
)
from packwise.settings import Settings
from packwise.stores import bm25
from packwise.stores.base import Key, Store
from packwise.stores.languages import question_terms

# The best passages are kept however short they are, copies not counted: a note of one line is
# often the answer. The quality filter acts on what is ranked lower.
_TRUSTED_RANKS = 3

_MOST_TERMS = 512
_EPSILON = 1e-3

Floats = NDArray[np.float64]


class EntryValue(NamedTuple):
    """How a policy values an entry: the share of the expected answer it holds, how much of
    that is selected, what similarity to the others leaves of it, the cost of all of it."""

    mass: float = 0.0
    value: float = 0.0
    novelty: float = 1.0
    cost: int | None = None


class PoolEntry(NamedTuple):
    """A passage that may go into the context.

    ``rank`` is its place among all candidates by final score, from 1. ``matching`` are the
    units that hold what the question asks for. ``attached_to`` is the id of the passage
    whose neighbour it is, if it was not a candidate itself. ``quality`` is ``None`` where
    the text was not analyzed.
    """

    key: Key
    passage: Passage
    scores: Scores
    rank: int
    reading: Reading
    quality: float | None
    exemption: Exemption | None
    answer: Answerability
    matching: int
    attached_to: str | None = None

    @property
    def id(self) -> str:
        return self.passage.id

    @property
    def final(self) -> float:
        return _final(self.scores)

    def dropped(self, reason: DropReason, of: str | None = None, **numbers: Any) -> Dropped:
        """The trace of this entry, when it is not in the context."""
        known = (self.passage.document, self.rank, self.scores, self.quality, self.answer.bonus)
        return Dropped(self.id, reason, of, *known, **numbers)

    def selected(self, marker: int, tokens: int, shown: int, value: EntryValue) -> Selected:
        """The trace of this entry, when ``shown`` units of it are in the context."""
        return Selected(
            id=self.id,
            marker=marker,
            document=self.passage.document,
            tokens=tokens,
            rank=self.rank,
            scores=self.scores,
            quality=self.quality,
            spared=self.exemption.value if self.exemption else None,
            bonus=self.answer.bonus,
            features=self.answer.features,
            novelty=value.novelty,
            mass=value.mass,
            value=value.value,
            sentences=(shown, len(self.reading.units)),
            reduced=shown < len(self.reading.units),
            attached_to=self.attached_to,
            span=(self.passage.start, self.passage.end),
        )


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """What a policy chooses from, best first.

    ``dropped`` are the candidates already excluded. ``unfiltered`` means that no candidate
    reached the quality threshold, so all were kept.
    """

    entries: tuple[PoolEntry, ...]
    dropped: tuple[Dropped, ...]
    unfiltered: bool


class EntryBuilder:
    """Makes the entries of one question."""

    def __init__(self, question: str, settings: Settings, lang: str = "") -> None:
        parsed = parse_question(question, lang)
        self.kind = parsed.kind
        self.question = question
        self._asked = parsed.features
        self._keywords = keywords(question)
        self._question_words = frozenset(words(question))
        self._bonus = settings.packing_answerability_bonus
        self._threshold = settings.packing_quality_threshold

    def build(
        self,
        key: Key,
        passage: Passage,
        scores: Scores,
        rank: int,
        attached_to: str | None = None,
    ) -> PoolEntry:
        reading = reading_of(passage)
        matched = self._keywords_held(passage.text, reading)
        worth = quality(reading.word_count, matched, len(self._keywords))
        matching = self._matching(passage.text, reading)
        answer = answerability(reading.all_features, matching != 0, self._bonus)
        return PoolEntry(
            key, passage, scores, rank, reading, worth, None, answer, matching, attached_to
        )

    def _keywords_held(self, text: str, reading: Reading) -> int:
        if reading.spaced:
            lower = text.lower()
            return sum(holds_word(lower, word) for word in self._keywords)
        return len(self._keywords.intersection(unit_words(text, reading.units)))

    def is_stub(self, entry: PoolEntry) -> bool:
        """Whether the quality of an entry is below the threshold."""
        return (entry.quality or 0.0) < self._threshold

    def exempted(self, entry: PoolEntry, place: int) -> PoolEntry:
        """A stub with the reason to keep it all the same, if there is one; ``place`` is its
        rank among the candidates that are not copies."""
        passage = entry.passage
        if place <= _TRUSTED_RANKS:
            return entry._replace(exemption=Exemption.BEST_RANKED)
        found = exemption(passage.text, self.question, passage.heading)
        return entry._replace(exemption=found)

    def _matching(self, text: str, reading: Reading) -> int:
        """The units that hold what the question asks for.

        A name counts only when it is not one of the question's own words.
        """
        hits = [found & self._asked for found in reading.features]
        names = unit_names(text, reading.units) if NAME in hits else ()
        matching = 0
        for i, hit in enumerate(hits):
            if hit and (hit != NAME or not names[i] <= self._question_words):
                matching |= 1 << i
        return matching


def build_pool(builder: EntryBuilder, candidates: Sequence[Candidate]) -> CandidatePool:
    """Rank the candidates and drop duplicates of better ones and stubs.

    When every candidate is a stub, all are kept.
    """
    entries: dict[str, PoolEntry] = {}
    dropped: list[Dropped] = []
    for rank, found in enumerate(_best_first(candidates), start=1):
        entry = builder.build(found.key, found.passage, found.scores, rank)
        if entries.setdefault(entry.id, entry) is not entry:
            dropped.append(entry.dropped(DropReason.DUPLICATE_OF, entry.id))
    every = list(entries.values())
    duplicates = find_duplicates([e.passage for e in every], [e.reading for e in every])
    for i, first in duplicates.items():
        dropped.append(every[i].dropped(DropReason.DUPLICATE_OF, every[first].id))
    distinct = [entry for i, entry in enumerate(every) if i not in duplicates]
    unfiltered = all(map(builder.is_stub, distinct))
    kept: list[PoolEntry] = []
    for place, entry in enumerate(distinct, start=1):
        if not unfiltered and builder.is_stub(entry):
            entry = builder.exempted(entry, place)
            if entry.exemption is None:
                dropped.append(entry.dropped(DropReason.BELOW_QUALITY))
                continue
        kept.append(entry)
    return CandidatePool(tuple(kept), tuple(dropped), unfiltered)


def unread_entries(candidates: Sequence[Candidate]) -> tuple[list[PoolEntry], list[Dropped]]:
    """The candidates, best final score first, not analyzed: the whole text is one unit; and
    the trace of those that are copies of a better one."""
    entries: dict[str, PoolEntry] = {}
    copies: list[Dropped] = []
    for rank, found in enumerate(_best_first(candidates), start=1):
        whole = whole_text(found.passage.text)
        fields = (found.key, found.passage, found.scores, rank, whole, None, None, NO_ANSWER, 0)
        entry = PoolEntry(*fields)
        first = entries.setdefault(entry.passage.text, entry)
        if first is not entry:
            copies.append(entry.dropped(DropReason.DUPLICATE_OF, first.id))
    return list(entries.values()), copies


def _final(scores: Scores) -> float:
    return scores.final if math.isfinite(scores.final) else 0.0


def _best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Equal scores keep their order."""
    return sorted(candidates, key=lambda candidate: -_final(candidate.scores))


def entry_vectors(entries: Sequence[PoolEntry], store: Store) -> Vectors:
    """The embedding of each entry."""
    if not entries:
        return np.zeros((0, 1), dtype=np.float32)
    return store.vectors([entry.key for entry in entries])


def neighbours(
    store: Store,
    builder: EntryBuilder,
    host: PoolEntry,
    known: Collection[str],
    before: int = 1,
    after: int = 1,
) -> list[tuple[PoolEntry, bool]]:
    """The passages right before and after one in its section, except the ``known`` ids; each
    with whether it comes after."""
    passage = host.passage
    if not before and not after:
        return []
    return [
        (
            builder.build(key, other, Scores(), host.rank, attached_to=host.id),
            other.order_index > passage.order_index,
        )
        for key, other in store.neighbours(host.key, before, after)
        if other.document == passage.document
        and other.section_path == passage.section_path
        and other.id not in known
        and other.text.strip()
    ]


@dataclass(frozen=True, slots=True)
class RelevanceParams:
    """How the expected answer is spread.

    First fitted on every second question of squad2, spans, hotpotqa-100 and musique-100, then
    compared with other values on their half ``tune`` by ``benchmarks/evidence.py``. Only
    ``rank_decay`` changed: nothing else that was tried is better beyond chance.

    rank_decay      power of a candidate's rank by which its share falls
    score_power     power of its score, over the best one's, by which it rises
    words           how much a unit gains that holds all of the question's words
    match           how much one gains that holds the kind of thing that is asked for
    surroundings    share of a passage's mass that goes to all of it, by length
    scattered       share of the question's words in the best unit up to which ranking decides
    in_one_place    the share from which words decide
    """

    rank_decay: float = 0.9
    score_power: float = 2.0
    words: float = 7.0
    match: float = 1.0
    surroundings: float = 0.3
    scattered: float = 0.4
    in_one_place: float = 0.8


DEFAULT_PARAMS = RelevanceParams()


@dataclass(frozen=True, slots=True)
class Relevance:
    """The mass of each entry and of each of its units; all units together have 1."""

    masses: Sequence[float]
    units: Sequence[Sequence[float]]


def term_weights(question: str, store: Store) -> dict[str, float]:
    """The index terms of a question, weighted by rarity; the weights sum to 1."""
    asked = question_terms(question, store)[:_MOST_TERMS]
    if not asked:
        return {}
    known = store.term_statistics(asked)
    rarity = {t: bm25.idf(known.passages, known.frequency.get(t, 0)) for t in asked}
    total = sum(rarity.values())
    return {term: value / total for term, value in rarity.items()}


def estimate_relevance(
    entries: Sequence[PoolEntry],
    weights: Mapping[str, float],
    params: RelevanceParams = DEFAULT_PARAMS,
) -> Relevance:
    """Spread the expected answer over the entries, which come best first."""
    counts = [len(entry.reading.units) for entry in entries]
    if not any(counts):
        return Relevance([0.0] * len(entries), [()] * len(entries))
    owners = np.repeat(np.arange(len(entries)), counts)
    held = _question_terms(entries, weights)
    matches = np.array(
        [
            entry.matching >> unit & 1
            for entry, n in zip(entries, counts, strict=True)
            for unit in range(n)
        ]
    )
    between = params.in_one_place - params.scattered
    in_one_place = float(np.clip((held.max() - params.scattered) / between, 0.0, 1.0))

    prior = _priors(entries, params)
    scores = np.exp(params.words * held + params.match * matches)
    own = _sums(scores, owners, len(entries))
    everywhere = float(prior @ own) or 1.0
    by_rank = prior / np.where(own > 0.0, own, 1.0)
    factors = (1.0 - in_one_place) * by_rank + in_one_place * prior / everywhere
    factors = np.where(_raised(entries), np.maximum(factors, by_rank), factors)
    factors /= float(factors @ own) or 1.0
    masses = factors * own
    lengths = np.array([end - start for entry in entries for start, end in entry.reading.units])
    whole = _sums(lengths, owners, len(entries))
    # The text around an answer helps to understand it.
    around = params.surroundings
    even = around * masses / np.where(whole > 0.0, whole, 1.0)
    spread = (1.0 - around) * factors[owners] * scores + even[owners] * lengths
    flat: list[float] = spread.tolist()
    ends: list[int] = np.cumsum(counts).tolist()
    units = [flat[end - n : end] for end, n in zip(ends, counts, strict=True)]
    return Relevance(masses.tolist(), units)


def _question_terms(entries: Sequence[PoolEntry], weights: Mapping[str, float]) -> Floats:
    """For each unit of each entry the share of the question's terms that it holds together
    with its heading."""
    # A place is a heading or a unit; the heading of an entry comes before its units.
    counts = [count for entry in entries for count in entry.reading.term_counts]
    sizes = np.array([len(entry.reading.term_counts) for entry in entries])
    headings = np.cumsum(sizes) - sizes
    places = np.repeat(np.arange(len(counts)), counts)
    hashes = np.concatenate([entry.reading.terms for entry in entries])
    found = np.zeros((len(weights), len(counts)), dtype=np.bool_)
    for row, term in zip(found, weights, strict=True):
        row[places[hashes == term_hash(term)]] = True
    in_heading = found[:, headings]
    held = np.zeros(len(entries))
    for row, weight in zip(in_heading, weights.values(), strict=True):
        held[row] += weight
    held = np.repeat(held, sizes)
    found &= ~np.repeat(in_heading, sizes, axis=1)
    for row, weight in zip(found, weights.values(), strict=True):
        held[row] += weight
    return np.delete(held, headings)


def _sums(values: NDArray[Any], owners: NDArray[np.int64], count: int) -> Floats:
    sums = np.zeros(count)
    np.add.at(sums, owners, values)
    return sums


def _raised(entries: Sequence[PoolEntry]) -> NDArray[np.bool_]:
    """Which entries a later stage ranks above their search score."""
    return np.array([entry.final > entry.scores.combined + _EPSILON for entry in entries])


def _priors(entries: Sequence[PoolEntry], params: RelevanceParams) -> Floats:
    """The share of each entry by rank and relative score; they sum to 1."""
    finals = np.array([entry.final for entry in entries])
    best = float(finals.max())
    # Ratios of scores close to 0 mean nothing.
    relative = np.maximum(finals / best, _EPSILON) if best > _EPSILON else np.ones(len(entries))
    answerable = 1.0 + np.array([entry.answer.bonus for entry in entries])
    by_rank = np.arange(1.0, len(entries) + 1) ** -params.rank_decay
    shares = by_rank * relative**params.score_power * answerable
    return shares / shares.sum()

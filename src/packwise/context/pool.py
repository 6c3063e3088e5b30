"""The candidates of one question, ranked, read and freed of what cannot be of use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from packwise.candidates import Candidate, Scores
from packwise.context.novelty import find_duplicates
from packwise.context.quality import Spared, keywords, quality, spared, words
from packwise.context.reading import Reading, read
from packwise.context.trace import Dropped, Reason
from packwise.documents import Passage
from packwise.language.questions import (
    NO_ANSWER,
    Answerability,
    QuestionKind,
    answerability,
    parse_question,
)
from packwise.language.word_classes import NAME
from packwise.models.base import Vectors
from packwise.settings import Settings
from packwise.stores.base import Key, Store

# What the ranking puts first is not noise, however short, if it is a sentence at all: on the
# multi-hop sets half of the judged passages that the filter took were among the first three.
_TRUSTED_RANKS = 3
_SENTENCE_WORDS = 10


class Entry(NamedTuple):
    """A passage in the running for a place in the context.

    ``rank`` is its place among all candidates by final score, 1 is best. ``fitting`` holds
    the units that hold what the question asks for, as bits. ``attached_to`` is the id of
    the passage it was fetched for, when it is a neighbour and not a candidate. ``quality``
    is unknown where nothing was read.
    """

    key: Key
    passage: Passage
    scores: Scores
    rank: int
    reading: Reading
    quality: float | None
    spared: Spared | None
    answer: Answerability
    fitting: int
    attached_to: str | None = None

    @property
    def id(self) -> str:
        return self.passage.id

    @property
    def final(self) -> float:
        """The score the list is sorted by; what is not a number counts as nothing."""
        return self.scores.final if math.isfinite(self.scores.final) else 0.0


@dataclass(frozen=True, slots=True)
class Pool:
    """What a policy chooses from, best first.

    ``dropped`` are the candidates that are out already. ``unfiltered`` says that nothing
    reached the quality threshold, so that all were let in.
    """

    question: str
    kind: QuestionKind
    entries: tuple[Entry, ...]
    dropped: tuple[Dropped, ...]
    unfiltered: bool


class Reader:
    """Makes entries for one question."""

    def __init__(self, question: str, settings: Settings) -> None:
        self.question = question
        parsed = parse_question(question)
        self.kind = parsed.kind
        self._asked = parsed.features
        self._keywords = keywords(question)
        self._known = frozenset(words(question))
        self._scale = settings.packing_answerability_bonus
        self._threshold = settings.packing_quality_threshold

    def entry(
        self,
        key: Key,
        passage: Passage,
        scores: Scores,
        rank: int,
        attached_to: str | None = None,
    ) -> Entry:
        """A passage with all that packing asks of it."""
        reading = read(passage.text)
        matched = len(self._keywords & reading.vocabulary)
        worth = quality(reading.word_count, matched, len(self._keywords))
        kept = self._spared(passage, reading, rank) if worth < self._threshold else None
        fitting = self._fitting(reading) if reading.holds & self._asked else 0
        answer = answerability(reading.holds, fitting != 0, self._scale)
        return Entry(key, passage, scores, rank, reading, worth, kept, answer, fitting, attached_to)

    def _spared(self, passage: Passage, reading: Reading, rank: int) -> Spared | None:
        """Why a passage below the threshold stays, if it does."""
        if rank <= _TRUSTED_RANKS and reading.word_count >= _SENTENCE_WORDS:
            return Spared.BEST_RANKED
        return spared(passage.text, self.question, passage.heading)

    def _fitting(self, reading: Reading) -> int:
        """The units that hold what the question asks for.

        A name answers only when it is not one of the question's own words.
        """
        fitting = 0
        for i, features in enumerate(reading.features):
            hit = features & self._asked
            if hit and (hit != NAME or not reading.names[i] <= self._known):
                fitting |= 1 << i
        return fitting


def prepare(reader: Reader, candidates: Sequence[Candidate], settings: Settings) -> Pool:
    """Rank the candidates and drop what is a stub, or a duplicate of a better one.

    When everything is a stub, nothing is: the filter is lifted as a whole.
    """
    threshold = settings.packing_quality_threshold
    entries: dict[str, Entry] = {}
    dropped: list[Dropped] = []
    for entry in ranked(reader, candidates):
        if entries.setdefault(entry.passage.id, entry) is not entry:
            dropped.append(drop(entry, Reason.DUPLICATE_OF, entry.id))
    stubs = [e for e in entries.values() if (e.quality or 0.0) < threshold and not e.spared]
    unfiltered = len(stubs) == len(entries)
    if stubs and not unfiltered:
        dropped.extend(drop(entry, Reason.BELOW_QUALITY) for entry in stubs)
        for entry in stubs:
            del entries[entry.id]

    kept = list(entries.values())
    repeated = find_duplicates([e.passage for e in kept], [e.reading for e in kept])
    dropped.extend(
        drop(kept[i], Reason.DUPLICATE_OF, kept[first].id) for i, first in repeated.items()
    )
    left = tuple(entry for i, entry in enumerate(kept) if i not in repeated)
    return Pool(reader.question, reader.kind, left, tuple(dropped), unfiltered)


def ranked(reader: Reader, candidates: Sequence[Candidate]) -> list[Entry]:
    """The candidates as entries, best final score first; equal scores keep their order."""
    return [
        reader.entry(candidate.key, candidate.passage, candidate.scores, rank)
        for rank, candidate in enumerate(_best_first(candidates), start=1)
    ]


def _best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    finals = [c.scores.final if math.isfinite(c.scores.final) else 0.0 for c in candidates]
    return [candidates[i] for i in sorted(range(len(candidates)), key=lambda i: -finals[i])]


def vectors_of(entries: Sequence[Entry], store: Store) -> Vectors:
    """The vector of each entry."""
    if not entries:
        return np.zeros((0, 1), dtype=np.float32)
    return store.vectors([entry.key for entry in entries])


def unread(candidates: Sequence[Candidate]) -> list[Entry]:
    """The candidates as entries, best final score first, of which nothing is known: the
    whole text is their only unit."""
    return [
        Entry(
            candidate.key,
            candidate.passage,
            candidate.scores,
            rank,
            replace(read(""), units=((0, len(candidate.passage.text)),)),
            None,
            None,
            NO_ANSWER,
            0,
        )
        for rank, candidate in enumerate(_best_first(candidates), start=1)
    ]


def drop(
    entry: Entry,
    reason: Reason,
    of: str | None = None,
    novelty: float | None = None,
    mass: float | None = None,
    tokens: int | None = None,
) -> Dropped:
    """The record of an entry that is out."""
    return Dropped(
        id=entry.id,
        document=entry.passage.document,
        reason=reason,
        of=of,
        rank=entry.rank,
        scores=entry.scores,
        quality=entry.quality,
        bonus=entry.answer.bonus,
        novelty=novelty,
        mass=mass,
        tokens=tokens,
    )

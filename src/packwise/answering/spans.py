"""The few words of a sentence that answer a question: a date, a name, a number, a phrase.

Every run of up to ten words is a candidate. Its score is linear in readable features: whether
its kind fits the question, whether it begins and ends where phrases do, how near the question's
words are, and, if a model marked the text, what it thinks of these words. The weights
(``span_weights.json``, written by ``benchmarks/spans.py``) were fitted on the even answerable
questions of the squad2 evaluation set; the odd ones are for measuring.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packwise.language.questions import AnswerKind, ParsedQuestion
from packwise.language.word_classes import CONTENT, PERIOD_WORDS, Word, WordClass, words_of
from packwise.models.base import SpanLogits

LONGEST = 10
_MOST_MARKED = 3.0
_MARK_SCALE = 4.0
_NEAR = 5.0
_MOST_WORDS = 120

Features = list[tuple[str, float]]
Columns = dict[str, NDArray[Any]]
"""The values of features, one for each run of words."""
_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

_NOT_FIRST = frozenset(
    map(WordClass, "comma close dash stop conjunction relative quote open determiner".split())
)
_NOT_LAST = frozenset(
    map(
        WordClass,
        "comma open dash conjunction determiner preposition relative auxiliary pronoun "
        "quote".split(),
    )
)
_INNER = tuple(
    map(
        WordClass,
        "comma preposition conjunction auxiliary relative determiner past ing pronoun open quote "
        "dash".split(),
    )
)
_SHAPES = (
    *("date", "time", "figures", "number word", "plain", "mixed"),
    *("one name", "name", "long name"),
)
_MEASURES = frozenset({"date", "time", "figures"})
_NUMERIC = frozenset({WordClass.NUMBER, WordClass.YEAR, WordClass.MONTH})
_LEADS = frozenset(
    "by in on at to of from as for with because called is was are were than about".split()
)


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """Words ``first:last`` of a sentence, ``start:end`` of its text, with their score."""

    first: int
    last: int
    start: int
    end: int
    score: float


class Marks:
    """What a model thinks of each run of words of a text as the answer."""

    def __init__(self, logits: SpanLogits) -> None:
        self._starts = np.array([start for start, _ in logits.offsets], dtype=np.int64)
        self._ends = np.array([end for _, end in logits.offsets], dtype=np.int64)
        self._scores = logits.scores() - logits.null
        self._best = float(self._scores.max()) if logits.offsets else 0.0

    def columns(self, starts: _Ints, ends: _Ints) -> Columns:
        """The features of the characters from each start to its end."""
        first = np.searchsorted(self._ends, starts, "right")
        last = np.searchsorted(self._starts, ends, "left") - 1
        marked = (first <= last) & (last < len(self._ends))
        if not marked.any():
            return {"unmarked": np.ones(len(starts))}
        score = self._scores[np.where(marked, first, 0), np.where(marked, last, 0)]
        return {
            "unmarked": ~marked,
            "marked": marked * _scaled(score),
            "marked:beside best": marked * _scaled(score - self._best),
            "marked:best": marked & (score == self._best),
        }


def _scaled(scores: NDArray[Any]) -> NDArray[Any]:
    return np.clip(scores / _MARK_SCALE, -_MOST_MARKED, _MOST_MARKED)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its score; ``marks`` are those of a text in which it begins at ``begin``."""

    text: str
    score: float
    lang: str = ""
    marks: Marks | None = None
    begin: int = 0


def spans(question: ParsedQuestion, sentence: Sentence) -> list[AnswerSpan]:
    """Every candidate of a sentence with its score; none when the sentence has no words."""
    weights = _weights()["words" if sentence.marks is None else "marks"]
    view = _SentenceView(question, sentence)
    if not len(view.first):
        return []
    scores = _scores(view.openings(), weights)[view.first]
    scores += _scores(view.closings(), weights)[view.last - 1]
    for name, values in view.columns().items():
        if weight := weights.get(name):
            scores += weight * values
    places = zip(view.first.tolist(), view.last.tolist(), strict=True)
    return [
        AnswerSpan(first, last, view.words[first].start, view.words[last - 1].end, score)
        for (first, last), score in zip(places, scores.tolist(), strict=True)
    ]


def candidates(
    question: ParsedQuestion, sentence: Sentence
) -> Iterator[tuple[int, int, int, int, Features]]:
    """Each run of words that may be an answer: the numbers of the first word and of the one after
    the last, where it starts and ends in the sentence, and its features. A feature that is there
    twice counts as the sum."""
    view = _SentenceView(question, sentence)
    if not len(view.first):
        return
    openings, closings = view.openings(), view.closings()
    columns = [(name, values.tolist()) for name, values in view.columns().items()]
    for run, (first, last) in enumerate(zip(view.first.tolist(), view.last.tolist(), strict=True)):
        between = [(name, float(values[run])) for name, values in columns if values[run]]
        features = [*openings[first], *closings[last - 1], *between]
        yield first, last, view.words[first].start, view.words[last - 1].end, features


def _scores(words: Sequence[Features], weights: Mapping[str, float]) -> _Floats:
    """What the features of each word add to the score."""
    return np.array([sum(weights.get(name, 0.0) * x for name, x in word) for word in words])


class _SentenceView:
    """A sentence as one question sees it, and its runs of words that may be an answer.

    Run ``i`` has the words ``first[i]:last[i]``. Features that depend only on where a run begins
    or only on where it ends are read once per word; those that depend on both are columns.
    """

    def __init__(self, question: ParsedQuestion, sentence: Sentence) -> None:
        self.question = question
        self.sentence = sentence
        self.words = words_of(sentence.text, sentence.lang)[:_MOST_WORDS]
        self._kinds = [word.kind for word in self.words]
        self._matched = [
            (i, question.weights[word.term])
            for i, word in enumerate(self.words)
            if word.term in question.weights
        ]
        self._places = {i for i, _ in self._matched}
        self.first, self.last = self._runs()

    def openings(self) -> list[Features]:
        """The features of a run that begins with a word, for each word."""
        return [self._opening(first) for first in range(len(self.words))]

    def closings(self) -> list[Features]:
        """The features of a run that ends with a word, for each word."""
        return [self._closing(last + 1) for last in range(len(self.words))]

    def columns(self) -> Columns:
        """The features that depend on both ends, a value for each run."""
        first, last = self.first, self.last
        content = _counts([bool(word.term) for word in self.words], first, last)
        asked = _counts([i in self._places for i in range(len(self.words))], first, last)
        left, right = self._nearest(before=True)[first], self._nearest(before=False)[last]
        heavier = (left[:, 1] > right[:, 1]) | (
            (left[:, 1] == right[:, 1]) & (left[:, 2] > right[:, 2])
        )
        before, after = (
            np.array(around, dtype=object)[at]
            for around, at in (([None, *self._kinds], first), ([*self._kinds, None], last))
        )
        found: Columns = {
            **self._forms(),
            "asked words": asked / np.maximum(content, 1),
            "asked words:any": asked > 0,
            "asked words:only": (asked > 0) & (asked == content),
            "near:closest": np.maximum(left[:, 0], right[:, 0]),
            "near:rarest": np.where(heavier, left[:, 2], right[:, 2]),
            "in brackets": (before == WordClass.OPEN) & (after == WordClass.CLOSE),
            "in quotes": (before == WordClass.QUOTE) & (after == WordClass.QUOTE),
        }
        if self._kinds[0] is WordClass.NAME:
            found["opens sentence"] = (first == 0) & (last == 1)
        if focus := self.question.focus:
            terms = [word.term for word in self.words]
            led = [focus in terms[max(0, at - 2) : at] for at in range(len(terms))]
            ends = [focus in terms[at - 1 : at + 1] for at in range(len(terms) + 1)]
            found["noun:before"] = np.array(led)[first] & ~np.array(ends)[last]
        if self.sentence.marks is not None:
            starts = np.array([word.start for word in self.words])[first]
            stops = np.array([word.end for word in self.words])[last - 1]
            at = self.sentence.begin
            found |= self.sentence.marks.columns(at + starts, at + stops)
        return found

    def _runs(self) -> tuple[_Ints, _Ints]:
        """Where the runs begin, and where they end."""
        kinds, past = self._kinds, len(self.words)
        reach = [0] * past
        for first in reversed(range(past)):
            if kinds[first] is WordClass.STOP:
                past = first
            reach[first] = min(past, first + LONGEST)
        if WordClass.CLOSE in kinds:
            reach = [self._unopened(first, last) for first, last in enumerate(reach)]
        begins = [at for at, kind in enumerate(kinds) if kind not in _NOT_FIRST]
        first = np.repeat(np.array(begins, dtype=np.int64), LONGEST)
        last = first + np.tile(np.arange(1, LONGEST + 1), len(begins))
        inside = last <= np.array(reach, dtype=np.int64)[first]
        first, last = first[inside], last[inside]
        filled = [kind in CONTENT or kind is WordClass.ADVERB for kind in kinds]
        ends = np.array([kind not in _NOT_LAST for kind in kinds], dtype=bool)
        before = np.cumsum([0, *filled])
        wanted = ends[last - 1] & (before[last] > before[first])
        return first[wanted], last[wanted]

    def _unopened(self, first: int, last: int) -> int:
        """Where a run ends at the latest that closes no bracket that it does not open."""
        opened = 0
        for at in range(first, last):
            kind = self._kinds[at]
            opened += (kind is WordClass.OPEN) - (kind is WordClass.CLOSE)
            if opened < 0:
                return at
        return last

    def _forms(self) -> Columns:
        """What the runs look like: their shape, their length, the kinds of their words."""
        asked, found = self.question.answer, dict[str, NDArray[Any]]()
        shapes = _shapes(self.words, self.first, self.last)
        for shape in set(shapes):
            found[f"fits:{asked}:{shape}"] = of_shape = np.array([one == shape for one in shapes])
            for last in np.unique(self.last[of_shape]) if shape in _MEASURES else ():
                name = f"ends:{shape}:{self._kinds[last - 1]}"
                found[name] = found.get(name, False) | (of_shape & (self.last == last))
        lengths = self.last - self.first
        for prefix, most in (("length", 7), (f"length:{asked}", 6)):
            limited = np.minimum(lengths, most)
            for length in range(1, most + 1):
                found[f"{prefix}:{length}"] = limited == length
        for inner in _INNER:
            if inner in self._kinds:
                held = _counts([kind is inner for kind in self._kinds], self.first, self.last)
                found[f"holds:{inner}"] = held > 0
        return found

    def _opening(self, first: int) -> Features:
        question, words, kinds = self.question, self.words, self._kinds
        opening, before = kinds[first], kinds[first - 1] if first else None
        found: Features = [("sentence", self.sentence.score)]
        found.append((f"before:{before or 'none'}", 1.0))
        found.append((f"first:{opening}", 1.0))
        if before is opening is WordClass.NAME:
            found.append(("cuts name:left", 1.0))
        if (
            before in (WordClass.LOWER, WordClass.PAST, WordClass.ING)
            and opening is WordClass.LOWER
        ):
            found.append(("cuts phrase:left", 1.0))
        if before in _NUMERIC and opening in _NUMERIC:
            found.append(("cuts number:left", 1.0))
        near, covered = self._nearness(first, before=True)
        found += [("near", near), ("covered", covered), (f"left:{question.answer}", covered)]
        if self._neighbour(first - 1, -1) in self._places:
            found += [("asked word before", 1.0), (f"asked word before:{question.answer}", 1.0)]
        if first and words[first - 1].lower in _LEADS:
            found.append((f"led:{question.answer}:{words[first - 1].lower}", 1.0))
        if (
            first > 1
            and kinds[first - 1] is WordClass.DETERMINER
            and kinds[first - 2] is WordClass.AUXILIARY
        ):
            found.append((f"is a:{question.answer}", 1.0))
        if question.verb and question.verb in (w.term for w in words[max(0, first - 4) : first]):
            found.append((f"verb before:{question.answer}", 1.0))
        return found

    def _closing(self, last: int) -> Features:
        question, words, kinds = self.question, self.words, self._kinds
        closing, after = kinds[last - 1], kinds[last] if last < len(kinds) else None
        found: Features = [(f"last:{closing}", 1.0), (f"after:{after or 'none'}", 1.0)]
        if after is closing is WordClass.NAME:
            found.append(("cuts name:right", 1.0))
        if after is closing is WordClass.LOWER:
            found.append(("cuts phrase:right", 1.0))
        if after in _NUMERIC and closing in _NUMERIC:
            found.append(("cuts number:right", 1.0))
        near, covered = self._nearness(last, before=False)
        found += [("near", near), ("covered", covered), (f"left:{question.answer}", -covered)]
        if self._neighbour(last, 1) in self._places:
            found += [("asked word after", 1.0), (f"asked word after:{question.answer}", 1.0)]
        if question.verb and question.verb in (word.term for word in words[last : last + 4]):
            found.append((f"verb after:{question.answer}", 1.0))
        # Where the noun of "which ..." or "how many ..." stands.
        if question.focus and words[last - 1].term == question.focus:
            found.append(("noun:last", 1.0))
        elif question.focus and last < len(words) and words[last].term == question.focus:
            counted = question.answer is AnswerKind.NUMBER
            found.append(("noun:after number" if counted else "noun:after", 1.0))
        return found

    def _nearness(self, border: int, *, before: bool) -> tuple[float, float]:
        """How near the asked words on one side of a border are, and what they weigh."""
        near = covered = 0.0
        for place, weight in self._matched:
            distance = border - place if before else place - border + 1
            if distance > 0:
                near += weight * math.exp(-distance / _NEAR)
                covered += weight
        return near, covered

    def _nearest(self, *, before: bool) -> _Floats:
        """For each border between words the nearness of the closest asked word on one side of it,
        and the weight and the nearness of the heaviest one."""
        found = np.zeros((len(self.words) + 1, 3))
        for border in range(len(self.words) + 1):
            closest, heaviest = 0.0, (0.0, 0.0)
            for place, weight in self._matched:
                distance = border - place if before else place - border + 1
                if distance > 0:
                    closest = max(closest, 1.0 / distance)
                    heaviest = max(heaviest, (weight, math.exp(-distance / _NEAR)))
            found[border] = closest, *heaviest
        return found

    def _neighbour(self, place: int, step: int) -> int:
        """The first content word from here on, in the same clause; -1 if there is none."""
        while 0 <= place < len(self.words) and self._kinds[place] is not WordClass.STOP:
            if self._kinds[place] in CONTENT:
                return place
            place += step
        return -1


def shape_of(words: Sequence[Word]) -> str:
    """The shape of a run of words: a date, a number, a name, or plain words."""
    (shape,) = _shapes(words, np.array([0]), np.array([len(words)]))
    return shape


def _shapes(words: Sequence[Word], first: _Ints, last: _Ints) -> list[str]:
    """The shapes of the runs of words ``first:last``."""
    kinds = [word.kind for word in words]
    numbers = [kind is WordClass.NUMBER for kind in kinds]
    period = np.array([False, *(word.lower in PERIOD_WORDS for word in words)])
    dates, spelled, figures, names, counted = (
        _counts(held, first, last)
        for held in (
            [kind in (WordClass.YEAR, WordClass.MONTH) for kind in kinds],
            numbers,
            [one and not word.text[0].isalpha() for one, word in zip(numbers, words, strict=True)],
            [kind is WordClass.NAME for kind in kinds],
            [bool(word.term) for word in words],
        )
    )
    # In the order of ``_SHAPES``: the first that holds is the shape.
    held = (
        dates > 0,
        period[last] | (period[last - 1] & (last - first > 1)),
        figures > 0,
        spelled > 0,
        names == 0,
        names < counted,
        names == 1,
        names <= 3,
        np.ones(len(first), dtype=bool),
    )
    return [_SHAPES[number] for number in np.argmax(held, axis=0).tolist()]


def _counts(held: Sequence[bool], first: _Ints, last: _Ints) -> _Ints:
    """How many of the words ``first:last`` are marked here."""
    before = np.cumsum([0, *held])
    return before[last] - before[first]


@lru_cache(maxsize=1)
def _weights() -> Mapping[str, Mapping[str, float]]:
    """The weights by feature, for sentences with marks and without."""
    stored = Path(__file__).with_name("span_weights.json").read_text("utf-8")
    return json.loads(stored)

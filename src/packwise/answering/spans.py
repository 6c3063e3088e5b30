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
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from packwise.language.questions import AnswerKind, ParsedQuestion
from packwise.language.word_classes import CONTENT, PERIOD_WORDS, Word, WordClass, words_of
from packwise.models.base import SpanLogits

LONGEST = 10
_MOST_MARKED = 3.0
_MARK_SCALE = 4.0
_NEAR = 5.0
_MOST_WORDS = 120

Features = list[tuple[str, float]]

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
        self._starts = [start for start, _ in logits.offsets]
        self._ends = [end for _, end in logits.offsets]
        self._scores = logits.scores() - logits.null
        self._best = float(self._scores.max()) if logits.offsets else 0.0

    def features(self, start: int, end: int) -> Features:
        """The features of the characters ``start:end``."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end) - 1
        if not first <= last < len(self._ends):
            return [("unmarked", 1.0)]
        score = float(self._scores[first, last])
        return [
            ("marked", _scaled(score)),
            ("marked:beside best", _scaled(score - self._best)),
            ("marked:best", float(score == self._best)),
        ]


def _scaled(score: float) -> float:
    return max(-_MOST_MARKED, min(_MOST_MARKED, score / _MARK_SCALE))


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
    found: list[AnswerSpan] = []
    for first, last, start, end, features in candidates(question, sentence):
        score = sum(weights.get(name, 0.0) * value for name, value in features)
        found.append(AnswerSpan(first, last, start, end, score))
    return found


def candidates(
    question: ParsedQuestion, sentence: Sentence
) -> Iterator[tuple[int, int, int, int, Features]]:
    """Each run of words that may be an answer: the numbers of the first word and of the one after
    the last, where it starts and ends in the sentence, and its features."""
    words = words_of(sentence.text, sentence.lang)[:_MOST_WORDS]
    view = _SentenceView(question, words, sentence.score)
    for first, word in enumerate(words):
        if word.kind in _NOT_FIRST:
            continue
        opened = filled = 0
        for last in range(first + 1, min(len(words), first + LONGEST) + 1):
            final = words[last - 1].kind
            opened += (final is WordClass.OPEN) - (final is WordClass.CLOSE)
            if final is WordClass.STOP or opened < 0:
                break
            filled += final in CONTENT or final is WordClass.ADVERB
            if filled and final not in _NOT_LAST:
                start, end = word.start, words[last - 1].end
                features = view.features(first, last)
                if sentence.marks is not None:
                    features += sentence.marks.features(
                        sentence.begin + start, sentence.begin + end
                    )
                yield first, last, start, end, features


class _SentenceView:
    """A sentence as one question sees it."""

    def __init__(self, question: ParsedQuestion, words: Sequence[Word], score: float) -> None:
        self.question = question
        self.words = words
        self.score = score
        self.matched = [
            (i, question.weights[word.term])
            for i, word in enumerate(words)
            if word.term in question.weights
        ]
        self.places = {i for i, _ in self.matched}

    def features(self, first: int, last: int) -> Features:
        """All features of the words ``first:last``, by name."""
        found: Features = [("sentence", self.score)]
        self._shape(first, last, found)
        self._borders(first, last, found)
        self._overlap(first, last, found)
        self._nearness(first, last, found)
        self._company(first, last, found)
        return found

    def _shape(self, first: int, last: int, found: Features) -> None:
        kind = self.question.answer
        inside = self.words[first:last]
        shape = shape_of(inside)
        found.append((f"fits:{kind}:{shape}", 1.0))
        if shape in _MEASURES:
            found.append((f"ends:{shape}:{inside[-1].kind}", 1.0))
        found.append((f"length:{min(last - first, 7)}", 1.0))
        found.append((f"length:{kind}:{min(last - first, 6)}", 1.0))
        held = {word.kind for word in inside}
        found.extend((f"holds:{inner}", 1.0) for inner in _INNER if inner in held)
        if first == 0 and last == 1 and inside[0].kind is WordClass.NAME:
            found.append(("opens sentence", 1.0))

    def _borders(self, first: int, last: int, found: Features) -> None:
        words = self.words
        opening, closing = words[first].kind, words[last - 1].kind
        before = words[first - 1].kind if first else None
        after = words[last].kind if last < len(words) else None
        found.append((f"before:{before or 'none'}", 1.0))
        found.append((f"first:{opening}", 1.0))
        found.append((f"last:{closing}", 1.0))
        found.append((f"after:{after or 'none'}", 1.0))
        if before is opening is WordClass.NAME:
            found.append(("cuts name:left", 1.0))
        if after is closing is WordClass.NAME:
            found.append(("cuts name:right", 1.0))
        if (
            before in (WordClass.LOWER, WordClass.PAST, WordClass.ING)
            and opening is WordClass.LOWER
        ):
            found.append(("cuts phrase:left", 1.0))
        if after is closing is WordClass.LOWER:
            found.append(("cuts phrase:right", 1.0))
        if before in _NUMERIC and opening in _NUMERIC:
            found.append(("cuts number:left", 1.0))
        if after in _NUMERIC and closing in _NUMERIC:
            found.append(("cuts number:right", 1.0))
        if before is WordClass.OPEN and after is WordClass.CLOSE:
            found.append(("in brackets", 1.0))
        if before is after is WordClass.QUOTE:
            found.append(("in quotes", 1.0))

    def _overlap(self, first: int, last: int, found: Features) -> None:
        content = [i for i in range(first, last) if self.words[i].term]
        asked = sum(i in self.places for i in content)
        if asked:
            found.append(("asked words", asked / len(content)))
            found.append(("asked words:any", 1.0))
            if asked == len(content):
                found.append(("asked words:only", 1.0))

    def _nearness(self, first: int, last: int, found: Features) -> None:
        near = left = right = 0.0
        closest, heaviest = 0.0, (0.0, 0.0)
        for place, weight in self.matched:
            if first <= place < last:
                continue
            distance = first - place if place < first else place - last + 1
            near += weight * math.exp(-distance / _NEAR)
            closest = max(closest, 1.0 / distance)
            heaviest = max(heaviest, (weight, math.exp(-distance / _NEAR)))
            if place < first:
                left += weight
            else:
                right += weight
        found.append(("near", near))
        found.append(("near:closest", closest))
        found.append(("near:rarest", heaviest[1]))
        found.append(("covered", left + right))
        found.append((f"left:{self.question.answer}", left - right))

    def _company(self, first: int, last: int, found: Features) -> None:
        question, words = self.question, self.words
        if self._neighbour(first - 1, -1) in self.places:
            found += [("asked word before", 1.0), (f"asked word before:{question.answer}", 1.0)]
        if self._neighbour(last, 1) in self.places:
            found += [("asked word after", 1.0), (f"asked word after:{question.answer}", 1.0)]
        if first and words[first - 1].lower in _LEADS:
            found.append((f"led:{question.answer}:{words[first - 1].lower}", 1.0))
        if (
            first > 1
            and words[first - 1].kind is WordClass.DETERMINER
            and words[first - 2].kind is WordClass.AUXILIARY
        ):
            found.append((f"is a:{question.answer}", 1.0))
        if question.verb:
            if any(word.term == question.verb for word in words[max(0, first - 4) : first]):
                found.append((f"verb before:{question.answer}", 1.0))
            if any(word.term == question.verb for word in words[last : last + 4]):
                found.append((f"verb after:{question.answer}", 1.0))
        if question.focus:
            self._focus(first, last, found)

    def _focus(self, first: int, last: int, found: Features) -> None:
        """Where the noun of "which ..." or "how many ..." stands."""
        focus, words = self.question.focus, self.words
        if words[last - 1].term == focus:
            found.append(("noun:last", 1.0))
        elif last < len(words) and words[last].term == focus:
            counted = self.question.answer is AnswerKind.NUMBER
            found.append(("noun:after number" if counted else "noun:after", 1.0))
        elif any(word.term == focus for word in words[max(0, first - 2) : first]):
            found.append(("noun:before", 1.0))

    def _neighbour(self, place: int, step: int) -> int:
        """The first content word from here on, in the same clause; -1 if there is none."""
        while 0 <= place < len(self.words) and self.words[place].kind is not WordClass.STOP:
            if self.words[place].kind in CONTENT:
                return place
            place += step
        return -1


def shape_of(words: Sequence[Word]) -> str:
    """The shape of a run of words: a date, a number, a name, or plain words."""
    kinds = {word.kind for word in words}
    if WordClass.YEAR in kinds or WordClass.MONTH in kinds:
        return "date"
    if any(word.lower in PERIOD_WORDS for word in words[-2:]):
        return "time"
    if WordClass.NUMBER in kinds:
        figures = any(w.kind is WordClass.NUMBER and not w.text[0].isalpha() for w in words)
        return "figures" if figures else "number word"
    names = sum(word.kind is WordClass.NAME for word in words)
    if not names:
        return "plain"
    if names < sum(bool(word.term) for word in words):
        return "mixed"
    return "one name" if names == 1 else "name" if names <= 3 else "long name"


@lru_cache(maxsize=1)
def _weights() -> Mapping[str, Mapping[str, float]]:
    """The weights by feature, for sentences with marks and without."""
    stored = files("packwise.answering").joinpath("span_weights.json").read_text("utf-8")
    return json.loads(stored)

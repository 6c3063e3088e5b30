"""The few words that answer a question, and whether they are worth showing.

A span reader finds them if the user has named one, otherwise the marks of the cross-encoder.
Without either, ``spans.py`` compares runs of words in the best sentences. What was marked is shown
only if those runs lead to the same words: among several numbers of a table or a list of options,
one of the two is often wrong, and seldom both alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packwise.answering.block_ranking import RankedBlock, RankedBlocks, judged_text
from packwise.answering.blocks import AnswerBlock, PartKind
from packwise.answering.spans import AnswerSpan, shape_of, spans
from packwise.context.markdown import one_line
from packwise.language.analyzer import terms
from packwise.language.questions import AnswerKind, ParsedQuestion
from packwise.language.sentences import sentence_spans
from packwise.language.word_classes import words_of
from packwise.models.base import SpanLogits, SpanReader

CONFIDENT = 0.65
"""Short answers from here on are shown."""

_SPANNED = 6
_BLOCK = 2.0
"""What the score of a block counts beside the logits of its spans."""
_TOKEN = 0.15
"""The cost of a further token in a span: without it spans are too long, and too unsure."""
_MARKED_CONFIDENT = 0.8
"""The same for spans that a model marked: 86% were right on 124 questions not fitted on."""
_SHORT = (PartKind.TEXT, PartKind.ITEM, PartKind.ROW)
_PROSE_ENDS = tuple(".!?…\"”’')]")
_MEASURED = frozenset({"date", "time", "figures", "number word"})


Reading = tuple[RankedBlock, str, SpanLogits]
"""A block, the text of it that was read, and where the answer may be in this text."""


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The few words of a block that answer; ``confidence`` (0..1) is how sure that is, and
    ``plausible`` whether they look like what the question asks for."""

    text: str
    block: AnswerBlock
    confidence: float
    plausible: bool


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence of a block; its score is that of the block and the share of the question's
    words that it holds."""

    text: str
    block: AnswerBlock
    score: float

    @property
    def lang(self) -> str:
        return self.block.source.passage.lang


def short_answer(ranked: RankedBlocks, reader: SpanReader | None = None) -> ShortAnswer | None:
    """The words among the first blocks that answer best, however unsure."""
    if reader is not None:
        return _marked(_read_by(reader, ranked), lambda text: True)
    readings = [
        (one, judged_text(one.block)[0], one.marks)
        for one in _looked_at(ranked)
        if one.marks is not None
    ]
    by_words = _best_run(ranked)
    if not readings:
        return by_words
    return _marked(
        readings,
        lambda text: (
            _fits(ranked.question, text) and by_words is not None and _agree(text, by_words.text)
        ),
    )


def _agree(one: str, other: str) -> bool:
    """Whether one of two short answers holds all words of the other."""
    first, second = set(terms(one)), set(terms(other))
    return bool(first and second) and (first <= second or second <= first)


def _best_run(ranked: RankedBlocks) -> ShortAnswer | None:
    """The run of words in the best sentences that answers best."""
    scored: list[tuple[ScoredSentence, AnswerSpan]] = [
        (sentence, span)
        for sentence in best_sentences(ranked)
        for span in spans(ranked.question, sentence.text, sentence.score, sentence.lang)
    ]
    if not scored:
        return None
    best, top = max(scored, key=lambda pair: pair[1].score)
    masses = [(one, span, math.exp(span.score - top.score)) for one, span in scored]
    # What overlaps the best candidate is the same answer with other borders.
    same = sum(
        mass
        for one, span, mass in masses
        if one is best and span.first < top.last and top.first < span.last
    )
    text = _whole_words(best.text, top.start, top.end)
    whole = best.text.rstrip().endswith(_PROSE_ENDS)
    confidence = same / sum(mass for *_, mass in masses)
    return ShortAnswer(text, best.block, confidence, whole and _fits(ranked.question, text))


def is_worth_showing(short: ShortAnswer | None, probability: float) -> bool:
    """Whether the short answer is likely right, given the probability of the whole answer."""
    if short is None or not short.plausible:
        return False
    return min(short.confidence, probability) >= CONFIDENT


def best_sentences(ranked: RankedBlocks) -> list[ScoredSentence]:
    """The sentences in which a short answer is looked for, best first."""
    found: list[ScoredSentence] = []
    weights = ranked.question.weights
    for one in _looked_at(ranked):
        text = one.block.text
        for start, end in sentence_spans(text):
            held = set(terms(text[start:end], one.block.source.passage.lang))
            covered = sum(weight for term, weight in weights.items() if term in held)
            found.append(ScoredSentence(text[start:end], one.block, one.score + covered))
    found.sort(key=lambda sentence: -sentence.score)
    return found[:_SPANNED]


def _read_by(reader: SpanReader, ranked: RankedBlocks) -> list[Reading]:
    first = _looked_at(ranked)
    texts = [one.block.text for one in first]
    logits = reader.read(ranked.question.text, texts)
    return list(zip(first, texts, logits, strict=True))


def _marked(readings: Sequence[Reading], plausible: Callable[[str], bool]) -> ShortAnswer | None:
    """The words that are marked as the answer. Their confidence is the share of all spans that
    overlap them, each text weighed by the score of its block."""
    top = max((one.score for one, *_ in readings), default=0.0)
    read = [
        (one, text, logits, _scores(logits) + _BLOCK * (one.score - top))
        for one, text, logits in readings
        if logits.offsets
    ]
    if not read:
        return None
    one, text, logits, scores = max(read, key=lambda reading: reading[3].max())
    best = scores.max()
    first, last = divmod(int(scores.argmax()), len(scores))
    starts, ends = np.indices(scores.shape)
    # What overlaps the best span is the same answer with other borders.
    same = float(np.exp(scores - best)[(starts <= last) & (ends >= first)].sum())
    confidence = same / sum(float(np.exp(other - best).sum()) for *_, other in read)
    words = _whole_words(text, logits.offsets[first][0], logits.offsets[last][1])
    sure = confidence >= _MARKED_CONFIDENT
    return ShortAnswer(words, one.block, confidence, sure and plausible(words))


def _scores(logits: SpanLogits) -> NDArray[np.float64]:
    """The scores of all spans against "no answer"; a long one must be better."""
    scores = logits.scores() - logits.null
    first, last = np.indices(scores.shape)
    return scores - _TOKEN * (last - first)


def _whole_words(text: str, start: int, end: int) -> str:
    """A span of a text, extended to the borders of words; ``FC_DEBUG`` is one, and 0.9.9.6."""
    while 0 < start < len(text) and _joined(text, start):
        start -= 1
    while 0 < end < len(text) and _joined(text, end):
        end += 1
    return one_line(text[start:end])


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and at a place are of one word or number."""
    before, after = text[at - 1], text[at]
    if before in ".,":
        return after.isdigit() and text[max(0, at - 2)].isdigit()
    if after in ".,":
        return before.isdigit() and text[at + 1 : at + 2].isdigit()
    return all(one.isalnum() or one == "_" for one in (before, after))


def _looked_at(ranked: RankedBlocks) -> list[RankedBlock]:
    return [one for one in ranked.blocks if one.block.kind in _SHORT][:_SPANNED]


def _fits(question: ParsedQuestion, text: str) -> bool:
    """Whether a few words can be the answer and look like it. Reasons, ways, events and
    differences need a sentence, and plain words are too often a piece of one."""
    wanted, shape = question.answer, shape_of(words_of(text))
    if wanted in (AnswerKind.TIME, AnswerKind.NUMBER):
        return shape in _MEASURED
    if wanted in (AnswerKind.PERSON, AnswerKind.PLACE):
        return shape not in _MEASURED
    if shape == "plain":
        return False
    if wanted is AnswerKind.WHICH:
        return True
    return wanted in (AnswerKind.DEFINITION, AnswerKind.OBJECT) and not question.compares

"""The few words that answer a question, and whether they are worth showing.

A span reader finds them if the user has named one. Otherwise ``spans.py`` compares runs of words
in the best sentences, also by what the cross-encoder marked there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packwise.answering.block_ranking import RankedBlock, RankedBlocks
from packwise.answering.blocks import AnswerBlock, PartKind
from packwise.answering.spans import Marks, Sentence, shape_of, spans
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
_MARKED_CONFIDENT = 0.9
"""The same where a model marked the text. Of questions not fitted on, 94% of 182 such answers were
right for SQuAD and 27 of 28 for TAT-QA; from 0.8 on, 88% and 32 of 43."""
_READER_CONFIDENT = 0.8
"""The same for a reader that the user has named."""
_SHORT = (PartKind.TEXT, PartKind.ITEM, PartKind.ROW)
_PROSE_ENDS = tuple(".!?…\"”’')]")
_MEASURED = frozenset({"date", "time", "figures", "number word"})


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The few words of a block that answer; ``confidence`` (0..1) is how sure that is, and
    ``plausible`` whether they look like what the question asks for."""

    text: str
    block: AnswerBlock
    confidence: float
    plausible: bool


def short_answer(ranked: RankedBlocks, reader: SpanReader | None = None) -> ShortAnswer | None:
    """The words among the first blocks that answer best, however unsure."""
    if reader is not None:
        return _marked(_read_by(reader, ranked))
    scored = [
        (sentence, block, span)
        for sentence, block in best_sentences(ranked)
        for span in spans(ranked.question, sentence)
    ]
    if not scored:
        return None
    best, block, top = max(scored, key=lambda found: found[2].score)
    masses = [(one, span, math.exp(span.score - top.score)) for one, _, span in scored]
    # What overlaps the best candidate is the same answer with other borders.
    same = sum(
        mass
        for one, span, mass in masses
        if one is best and span.first < top.last and top.first < span.last
    )
    text = _whole_words(best.text, top.start, top.end)
    confidence = same / sum(mass for *_, mass in masses)
    if best.marks is None:
        sure = best.text.rstrip().endswith(_PROSE_ENDS)
    else:
        sure = confidence >= _MARKED_CONFIDENT
    # Few words beside a table, a list or code that answers better are not what it says.
    first = ranked.blocks[0].block
    sure = sure and (first.kind in _SHORT or first.includes(block))
    return ShortAnswer(text, block, confidence, sure and _fits(ranked.question, text))


def is_worth_showing(short: ShortAnswer | None, probability: float) -> bool:
    """Whether the short answer is likely right, given the probability of the whole answer."""
    if short is None or not short.plausible:
        return False
    return min(short.confidence, probability) >= CONFIDENT


def best_sentences(ranked: RankedBlocks) -> list[tuple[Sentence, AnswerBlock]]:
    """The sentences in which a short answer is looked for, best first. The score of one is that of
    its block and the share of the question's words that it holds."""
    found: list[tuple[Sentence, AnswerBlock]] = []
    weights = ranked.question.weights
    for one in _looked_at(ranked):
        text, lang = one.block.text, one.block.source.passage.lang
        marks = None if one.marks is None else Marks(one.marks)
        for start, end in sentence_spans(text):
            held = set(terms(text[start:end], lang))
            covered = sum(weight for term, weight in weights.items() if term in held)
            sentence = Sentence(text[start:end], one.score + covered, lang, marks, start)
            found.append((sentence, one.block))
    found.sort(key=lambda pair: -pair[0].score)
    return found[:_SPANNED]


def _read_by(reader: SpanReader, ranked: RankedBlocks) -> list[tuple[RankedBlock, SpanLogits]]:
    first = _looked_at(ranked)
    logits = reader.read(ranked.question.text, [one.block.text for one in first])
    return list(zip(first, logits, strict=True))


def _marked(readings: Sequence[tuple[RankedBlock, SpanLogits]]) -> ShortAnswer | None:
    """The words that a reader marks as the answer. Their confidence is the share of all spans that
    overlap them, each text weighed by the score of its block."""
    top = max((one.score for one, _ in readings), default=0.0)
    read = [
        (one, logits, _scores(logits) + _BLOCK * (one.score - top))
        for one, logits in readings
        if logits.offsets
    ]
    if not read:
        return None
    one, logits, scores = max(read, key=lambda reading: reading[2].max())
    best = scores.max()
    first, last = divmod(int(scores.argmax()), len(scores))
    starts, ends = np.indices(scores.shape)
    # What overlaps the best span is the same answer with other borders.
    same = float(np.exp(scores - best)[(starts <= last) & (ends >= first)].sum())
    confidence = same / sum(float(np.exp(other - best).sum()) for *_, other in read)
    words = _whole_words(one.block.text, logits.offsets[first][0], logits.offsets[last][1])
    return ShortAnswer(words, one.block, confidence, confidence >= _READER_CONFIDENT)


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
    differences need a sentence, and plain words are too often a piece of one; a place may be
    "the north pier"."""
    wanted, shape = question.answer, shape_of(words_of(text))
    if wanted in (AnswerKind.TIME, AnswerKind.NUMBER):
        return shape in _MEASURED
    if wanted in (AnswerKind.PERSON, AnswerKind.PLACE):
        return shape not in _MEASURED and (shape != "plain" or " " in text)
    if shape == "plain":
        return False
    if wanted is AnswerKind.WHICH:
        return True
    return wanted in (AnswerKind.DEFINITION, AnswerKind.OBJECT) and not question.compares

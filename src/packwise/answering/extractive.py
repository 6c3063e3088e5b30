"""An answer without a language model: the best parts of the passages, each with its source.

A part is a paragraph, a list, rows of a table or a code block (``blocks.py``). A small model
ranks them and gives the probability that the answer is right (``block_ranking.py``). A date, a
name or a number that clearly answers comes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packwise.answering.answer import LIKELY
from packwise.answering.block_ranking import (
    RankedBlocks,
    answer_probability,
    rank_blocks,
    weighted_question,
)
from packwise.answering.blocks import (
    AnswerBlock,
    PartKind,
    SourcePassage,
    blocks_of,
    hull,
    one_line,
)
from packwise.answering.spans import AnswerSpan, shape_of, spans
from packwise.language.analyzer import terms
from packwise.language.questions import AnswerKind, ParsedQuestion
from packwise.language.sentences import sentence_spans
from packwise.language.word_classes import words_of
from packwise.models.base import CrossEncoder
from packwise.stores.base import TermStatistics

MOST_BLOCKS = 3
FURTHER = 600
"""Characters; longer lists, tables and code are shown only where they are the best answer."""
STRETCH = 900
"""Characters up to which two blocks of a passage are shown with what is between them."""
CONFIDENT = 0.65
"""Short answers from here on are shown."""

_SPANNED = 6
NEARLY_AS_LIKELY = 0.1
"""A further block is shown if it is at least this likely, relative to the best one."""
_SAME = 0.6
_PROSE_ENDS = tuple(".!?…\"”’')]")
_MEASURED = frozenset({"date", "time", "figures", "number word"})


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The few words of a block that answer; ``confidence`` (0..1) is how sure that is.
    ``in_prose`` says that they are part of a whole sentence."""

    text: str
    block: AnswerBlock
    confidence: float
    in_prose: bool


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """An answer made of blocks; its text is empty if there are none.

    ``probability`` is that of the best block being right. ``short`` is set only if it is part
    of the text; ``unsure_short`` is the best one, however unsure. ``cited`` are markers, in the
    order of first use; an answer that is not likely right cites the best passages too.
    """

    text: str = ""
    blocks: tuple[AnswerBlock, ...] = ()
    short: ShortAnswer | None = None
    cited: tuple[int, ...] = ()
    probability: float = 0.0
    unsure_short: ShortAnswer | None = None


def extract(
    question: str,
    sources: Sequence[SourcePassage],
    *,
    signs: Mapping[str, float] | None = None,
    statistics: TermStatistics | None = None,
    cross_encoder: CrossEncoder | None = None,
    most: int = MOST_BLOCKS,
) -> ExtractedAnswer:
    """One to ``most`` blocks of the passages that answer the question.

    ``statistics`` are those of the question's terms in the store; without them the rarity of a
    word is that in the passages. ``signs`` are those of the search.
    """
    blocks = blocks_of(sources)
    asked = weighted_question(question, blocks, statistics)
    ranked = rank_blocks(asked, blocks, cross_encoder)
    if not ranked.blocks:
        return ExtractedAnswer()
    probability = answer_probability(ranked, signs or {})
    short = best_short = short_answer(ranked)
    if short is not None and (
        min(short.confidence, probability) < CONFIDENT or not _worth_showing(asked, short)
    ):
        short = None
    chosen = _together(_choose(ranked, most))
    parts = _rendered(chosen)
    if short is not None:
        parts.insert(0, f"{short.text} [{short.block.source.marker}]")
    cited = [block.source.marker for block in chosen]
    if short is not None:
        cited.insert(0, short.block.source.marker)
    if probability < LIKELY:
        # The reader is to check: the best passages are shown, quoted or not.
        cited += [source.marker for source in sources[:MOST_BLOCKS]]
    return ExtractedAnswer(
        "\n\n".join(parts),
        tuple(chosen),
        short,
        tuple(dict.fromkeys(cited)),
        probability,
        best_short,
    )


def short_answer(ranked: RankedBlocks) -> ShortAnswer | None:
    """The words among the first sentences that answer best, however unsure."""
    scored: list[tuple[ScoredSentence, AnswerSpan]] = [
        (sentence, span)
        for sentence in best_sentences(ranked)
        for span in spans(ranked.question, sentence.text, sentence.score)
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
    text = one_line(best.text[top.start : top.end])
    whole = best.text.rstrip().endswith(_PROSE_ENDS)
    return ShortAnswer(text, best.block, same / sum(mass for *_, mass in masses), whole)


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A sentence of a block; its score is that of the block and the share of the question's
    words that it holds."""

    text: str
    block: AnswerBlock
    score: float


def best_sentences(ranked: RankedBlocks, most: int = _SPANNED) -> list[ScoredSentence]:
    """The sentences in which a short answer is looked for, best first."""
    found: list[ScoredSentence] = []
    weights = ranked.question.weights
    for one in [one for one in ranked.blocks if one.block.kind in _SHORT][:most]:
        text = one.block.text
        for start, end in sentence_spans(text):
            held = set(terms(text[start:end]))
            covered = sum(weight for term, weight in weights.items() if term in held)
            found.append(ScoredSentence(text[start:end], one.block, one.score + covered))
    found.sort(key=lambda sentence: -sentence.score)
    return found[:most]


_SHORT = (PartKind.TEXT, PartKind.ITEM, PartKind.ROW)


def _worth_showing(question: ParsedQuestion, short: ShortAnswer) -> bool:
    """Whether a few words can be the answer and look like it. Reasons, ways and events need a
    sentence, and lines of code and lists are not reliable."""
    if not short.in_prose:
        return False
    words = words_of(short.text)
    shape = shape_of(words)
    if question.answer in (AnswerKind.TIME, AnswerKind.NUMBER):
        return shape in _MEASURED
    if question.answer in (AnswerKind.PERSON, AnswerKind.PLACE):
        return shape not in _MEASURED
    # Plain words are too often a piece of a sentence.
    wanted = (AnswerKind.DEFINITION, AnswerKind.WHICH, AnswerKind.OBJECT)
    return question.answer in wanted and shape != "plain"


def _choose(ranked: RankedBlocks, most: int) -> list[AnswerBlock]:
    """The best block, and others that are nearly as likely and say something else."""
    best = ranked.blocks[0]
    chosen = [best.block]
    for one in ranked.blocks[1:]:
        if len(chosen) >= most or math.exp(one.score - best.score) < NEARLY_AS_LIKELY:
            break
        brief = one.block.end - one.block.start <= FURTHER
        if brief and not any(_overlap(one.block, other) for other in chosen):
            chosen.append(one.block)
    return chosen


def _together(chosen: Sequence[AnswerBlock]) -> list[AnswerBlock]:
    """The blocks, those that stand near each other with all that is between them."""
    best = chosen[0]
    near = [block for block in chosen if block.source is best.source]
    if len(near) == 1:
        return list(chosen)
    whole = hull(near)
    if whole.end - whole.start > STRETCH:
        return list(chosen)
    return [whole, *(block for block in chosen if block.source is not best.source)]


def _overlap(one: AnswerBlock, other: AnswerBlock) -> bool:
    """Whether two blocks would show the same text, or nearly the same words."""
    if one.source.passage.document == other.source.passage.document:
        at, there = one.source.passage.start, other.source.passage.start
        if one.start + at < other.end + there and other.start + there < one.end + at:
            return True
    mine, theirs = set(terms(one.text)), set(terms(other.text))
    return len(mine & theirs) > _SAME * min(len(mine), len(theirs))


def _rendered(chosen: Sequence[AnswerBlock]) -> list[str]:
    """The blocks as Markdown, each with the number of its source."""
    parts: list[str] = []
    for block in chosen:
        text, marker = block.shown, f"[{block.source.marker}]"
        lead, gap, rest = text.partition("\n")
        if not gap or block.kind is PartKind.TEXT:
            parts.append(f"{text} {marker}")
        elif block.above and one_line(block.above) == lead:
            parts.append(f"{lead} {marker}\n{rest}")
        else:
            parts.append(f"{text}\n\n{marker}")
    return parts

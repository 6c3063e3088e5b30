"""Which part of the passages answers best, and how likely it is that it is right.

Small linear models with named features, fitted by ``benchmarks/answer_model.py`` and stored in
``block_weights.json``: one ranks the blocks of a question, two give the probability that the best
of them is right, for documents with sections and for plain ones. There is a set of weights for
each judge of blocks: the cross-encoder, or words alone.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Literal

import numpy as np

from packwise.answering.blocks import SHORT, AnswerBlock, PartKind
from packwise.answering.mismatches import mismatches
from packwise.context.markdown import one_line
from packwise.documents import Passage
from packwise.language.analyzer import joined_verbs, terms
from packwise.language.identifiers import QUOTES, identifiers, plain_identifiers
from packwise.language.questions import AnswerKind, ParsedQuestion, parse_question
from packwise.language.word_classes import CONTENT, TIME_WORDS, Word, WordClass, words_of
from packwise.lazy_pattern import lazy_pattern
from packwise.models.base import CrossEncoder, MarkingCrossEncoder, SpanLogits
from packwise.retrieval.change_logs import is_unasked_change_log
from packwise.stores.base import TermStatistics
from packwise.stores.bm25 import idf

Judge = Literal["cross", "words"]

JUDGED = 6
"""Blocks that the cross-encoder reads, those that look best without it, and more of the first
passages, up to ``_OF_A_PASSAGE`` of each. Twice as many found 2 more of 866 answers."""
JUDGED_CHARACTERS = 400
_OF_A_PASSAGE = (4, 2, 1)

_SHOWN_BY_WORDS = (
    *(AnswerKind.TIME, AnswerKind.NUMBER, AnswerKind.PERSON, AnswerKind.PLACE, AnswerKind.REASON),
    AnswerKind.DEFINITION,
)
_PROSE = (PartKind.TEXT, PartKind.ITEM)
_OF_THE_BEST = (
    *("covered", "covered near", "unmet", "judge", "passage", "far", "suits"),
    *("only asker negates", "opposite"),
)
_COVERED = ("covered", "covered near", "covered heading")
_NEARLY_ALL = 0.95
_NAMING_WORDS = 3
"""Words of a question, at least, that name a section if all are in its heading."""
_NAMES = lazy_pattern(r"\(.*|[\[=].*?(?=,|$)|,?\s+")
"""What parts the names in the heading of a description: ``-f, --follow[=HOW]``."""
_NUMBERED = lazy_pattern(r"\(?\d+(?:\.\d+)*[.)]*\s+(?=\S)")
"""The number of a heading, which is no part of the name: ``(5) SQLITE_BUSY``."""
ASKS_MEANING = lazy_pattern(
    r"(?i)what (?:is|does|do|are) (?:the |an? )?(\S+?(?: (?!do\b|mean\b|stand\b|for\b)\S+?)?)"
    r"(?: (?:do|mean|stand for|for))?\W{0,3}$"
)
"""A question about nothing but the meaning of one name, which is told where it is described."""
_ELSEWHERE = frozenset(("see also", "references", "bibliography", "sources", "further reading"))
"""Headings above lists of other works, which name much and explain little, like a change log."""
_ASKS_HOW = lazy_pattern(r"(?i)how (?:do|can|to|would|should)\b")
"""A question that the first line of a manual, which says what a command is for, does not answer."""
_ASKER = frozenset("i me my we our you your can".split())
"""Words about who asks, which no answer repeats."""
_USUAL_TERMS = 8
_LONGEST = 800
_SUBJECT = 8
_EQUATES = frozenset("is are was were means refers denotes".split())
_REASONS = frozenset("because since due so therefore thus to result caused order reason".split())
_ASKS_LIST = lazy_pattern(
    r"\b(?:what|which) (?:are|were|(?:(?!is |was |does |has )\w+ ){0,2}"
    r"(?!does\b|this\b|has\b|was\b)\w+[^s\W]s)\b"
    r"|\b(?:list|kinds?|types|options|ways|steps|all)\b",
    re.I,
)
_ASKS_CODE = lazy_pattern(
    r"\bhow (?:do|can|to|would|should)\b|\b(?:command|example|syntax|code|snippet|install)\b", re.I
)
_ASKS_VALUE = lazy_pattern(r"\b(?:default|value|how (?:many|much|long|big|often))\b", re.I)


class Named(IntEnum):
    """How well a question names a section."""

    NOT = 0
    IN_WORDS = 1
    IN_OTHER_LETTERS = 2
    BY_MEANING = 3
    EXACTLY = 4


@dataclass(frozen=True, slots=True)
class RankedBlock:
    """A block with the score by which it is ranked and the features it is made of.

    ``marks`` say where in the text of the block the answer may be; ``None`` if no model has
    marked it.
    """

    block: AnswerBlock
    score: float
    features: Mapping[str, float] = field(default_factory=dict[str, float])
    marks: SpanLogits | None = None


@dataclass(frozen=True, slots=True)
class RankedBlocks:
    """The blocks of a question, best first, and what judged them."""

    question: ParsedQuestion
    judge: Judge
    blocks: tuple[RankedBlock, ...]


def rank_blocks(
    question: ParsedQuestion,
    blocks: Sequence[AnswerBlock],
    cross_encoder: CrossEncoder | None = None,
) -> RankedBlocks:
    """The blocks that answer best, best first."""
    read = [(block, features_of(question, block)) for block in blocks]
    by_words = weights("words")["rank"]
    read.sort(key=lambda pair: (-_score(by_words, pair[1]), pair[0].place))
    first = _worth_judging(question, read)
    judge: Judge = "words" if cross_encoder is None else "cross"
    marks: Sequence[SpanLogits | None] = [None] * len(first)
    if cross_encoder is not None and first:
        marks = _judge(question, first, cross_encoder)
    model = weights(judge)["rank"]
    ranked = [
        RankedBlock(block, _score(model, f), f, marked)
        for (block, f), marked in zip(first, marks, strict=True)
    ]
    ranked.sort(key=lambda one: (-one.score, one.block.place))
    return RankedBlocks(question, judge, tuple(ranked))


def _judge(
    question: ParsedQuestion,
    first: Sequence[tuple[AnswerBlock, dict[str, float]]],
    cross_encoder: CrossEncoder,
) -> Sequence[SpanLogits | None]:
    """Add what the cross-encoder says to the features, and return what it marks."""
    judged = [judged_text(block) for block, _ in first]
    texts = [text for text, _ in judged]
    marking = isinstance(cross_encoder, MarkingCrossEncoder)
    read = cross_encoder.marks(question.text, texts) if marking else None
    if read is None:
        given, marks = cross_encoder.score(question.text, texts), [None] * len(first)
    else:
        given = np.array([chance for chance, _ in read])
        marks = [
            marks_in_block(logits, block, begin)
            for (_, logits), (_, begin), (block, _) in zip(read, judged, first, strict=True)
        ]
    chances = np.clip(given, 1e-5, 1 - 1e-5)
    verdicts = (np.log(chances / (1 - chances)) / 4).tolist()
    for (_, features), verdict in zip(first, verdicts, strict=True):
        features["judge"] = verdict
        features["judge gap"] = verdict - max(verdicts)
    return marks


def opens_named_section(question: ParsedQuestion, block: AnswerBlock) -> Named:
    """How a question names the section that a block opens. There it says what that is, often
    without its name."""
    if block.start:
        return Named.NOT
    how = named_section(question, block.source.passage)
    # A heading may stand above nothing but other ways to write it.
    return Named.NOT if how is Named.BY_MEANING and len(block.text) <= SHORT else how


def named_section(question: ParsedQuestion, passage: Passage) -> Named:
    """How a question names the section of a passage: by an identifier ("What does vcl_hit do?"), in
    other letters (``-E`` for ``-e``), as what it asks the meaning of, or by all its words."""
    if not passage.section_path:
        return Named.NOT
    last = passage.section_path[-1]
    heading = last[number.end() :] if (number := _NUMBERED.match(last)) else last
    asked = identifiers(question.text)
    names = {name.strip(QUOTES) for name in (heading, *_NAMES.split(heading))} - {""}
    if (asked | plain_identifiers(question.text)) & names:
        return Named.EXACTLY
    if {name.lower() for name in asked} & {name.lower() for name in names}:
        return Named.IN_OTHER_LETTERS
    meant = ASKS_MEANING.match(question.text)
    if meant and meant[1].lower() == heading.lower():
        return Named.BY_MEANING
    held = set(terms(last, passage.lang))
    words = question.weights.keys()
    return Named(len(words) >= _NAMING_WORDS and held >= words)


def _worth_judging(
    question: ParsedQuestion, read: Sequence[tuple[AnswerBlock, dict[str, float]]]
) -> list[tuple[AnswerBlock, dict[str, float]]]:
    """The blocks that look best, the best few of each of the first passages, and those that open
    a section that the question names: the words of the question need not be in the answer."""
    taken: Counter[int] = Counter()
    first: list[tuple[AnswerBlock, dict[str, float]]] = []
    for place, (block, features) in enumerate(read):
        rank = block.source.rank
        own = _OF_A_PASSAGE[rank] if rank < len(_OF_A_PASSAGE) else 0
        if place < JUDGED or taken[rank] < own or opens_named_section(question, block):
            taken[rank] += 1
            first.append((block, features))
    return first


def answer_probability(ranked: RankedBlocks, signs: Mapping[str, float]) -> float:
    """The probability that the best block is right; ``signs`` are those of the search."""
    model = weights(ranked.judge)[answer_model(ranked)]
    return 1 / (1 + math.exp(-_score(model, answer_features(ranked, signs))))


def answer_model(ranked: RankedBlocks) -> str:
    """Which model of the probability to use: what the signs are worth differs between documents
    with sections and plain ones, which seem to answer more questions than they do."""
    sections = any(one.block.source.passage.section_path for one in ranked.blocks)
    return "answer" if sections else "answer without sections"


def answer_features(ranked: RankedBlocks, signs: Mapping[str, float]) -> dict[str, float]:
    """What tells whether the best block is right."""
    best = ranked.blocks[0]
    scores = np.array([one.score for one in ranked.blocks])
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    elsewhere = [
        s.score for s in ranked.blocks[1:] if s.block.source.passage != best.block.source.passage
    ]
    found = {
        "one": 1.0,
        "share": float(shares[0]),
        "score": best.score,
        "gap": best.score - (max(elsewhere) if elsewhere else best.score - 3.0),
        **{f"search {name}": value for name, value in signs.items()},
    }
    for name in _OF_THE_BEST:
        if name in best.features:
            found[name] = best.features[name]
    found["prose"] = float(best.block.kind is PartKind.TEXT)
    kinds = Counter(one.block.kind for one in ranked.blocks)
    if kinds[PartKind.TEXT] > _NEARLY_ALL * len(ranked.blocks):
        found["all prose"] = 1.0
        found["all prose, score"] = best.score
        for sign in ("judge", "covered", "unmet"):
            found[f"all prose, {sign}"] = best.features.get(sign, 0.0)
    return found


@cache
def weights(judge: Judge) -> Mapping[str, Mapping[str, float]]:
    """The models for a judge as weights by feature: ``rank``, and two for the probability."""
    path = Path(__file__).with_name("block_weights.json")
    return json.loads(path.read_text(encoding="utf-8"))[judge]


def has_words_of_question(one: RankedBlock) -> bool:
    """Whether a block, what introduces it or its heading has any word of the question."""
    return any(one.features.get(name, 0.0) for name in _COVERED)


def _score(model: Mapping[str, float], features: Mapping[str, float]) -> float:
    return sum(model.get(name, 0.0) * value for name, value in features.items())


def judged_text(block: AnswerBlock) -> tuple[str, int]:
    """What the judge reads of a block: its section, what introduces it, the beginning of it;
    and where the block begins in this text."""
    passage = block.source.passage
    heading = passage.header or passage.doc_title
    before = block.above if block.kind in _PROSE else f"{block.before} {block.above}"
    parts = (heading, one_line(before)[-JUDGED_CHARACTERS // 2 :])
    introduction = "".join(f"{part}. " for part in parts if part)
    return (introduction + one_line(block.text))[:JUDGED_CHARACTERS], len(introduction)


def marks_in_block(logits: SpanLogits, block: AnswerBlock, begin: int) -> SpanLogits:
    """The logits of what ``judged_text`` gives of a block, by offsets in the block's own text."""
    # The judge reads the same characters on one line.
    solid = [i for i, character in enumerate(block.text) if not character.isspace()]
    shown = one_line(block.text)
    before = [0, *accumulate(not character.isspace() for character in shown)]
    at = [i for i, (start, _) in enumerate(logits.offsets) if start >= begin]
    own = ((start - begin, end - begin) for start, end in (logits.offsets[i] for i in at))
    offsets = tuple((solid[before[start]], solid[before[end] - 1] + 1) for start, end in own)
    return SpanLogits(offsets, logits.start[at], logits.end[at], logits.null)


def features_of(question: ParsedQuestion, block: AnswerBlock) -> dict[str, float]:
    """What is known of a block without a judge."""
    text, source = block.text, block.source
    lang = source.passage.lang
    held = terms(text, lang)
    own = set(held)
    above = set(terms(block.above if block.kind in _PROSE else block.before, lang)) - own
    heading = set(terms(source.passage.heading, lang)) - own - above
    rarest = max(question.weights, key=question.weights.__getitem__, default="")
    kind = block.kind
    covered, near = _share(question, own), _share(question, above)
    found: dict[str, float] = {
        "covered": covered,
        "covered near": near,
        "covered heading": _share(question, heading),
        "unmet": float(bool(rarest) and rarest not in own | above | heading),
        "passage": source.score,
        "far": math.log1p(source.rank),
        "first": float(source.rank == 0),
        "long": math.log(max(1, len(held)) / _USUAL_TERMS),
        "says nothing": float(all(term in question.weights for term in held)),
        "leads on": float(text.rstrip().endswith(("?", ":"))),
        "broken": float(text[:1].islower() and text[:2].isalpha()),
        "suits": _suits(question, text, lang),
        f"is {kind.value}": 1.0,
        **mismatches(question, text, own | above | heading),
    }
    last = "".join(source.passage.section_path[-1:]).lower()
    named_only = last == "name" and _ASKS_HOW.match(question.text)
    if last in _ELSEWHERE or named_only or is_unasked_change_log(question.text, source.passage):
        found["in a change log"] = 1.0
    if kind in (PartKind.LIST, PartKind.ITEM):
        found["announced"] = float(block.above.rstrip().endswith((":", "：")))
    for name, pattern in (("list", _ASKS_LIST), ("code", _ASKS_CODE), ("value", _ASKS_VALUE)):
        if pattern.search(question.text):
            found[f"asks {name}, is {kind.value}"] = 1.0
            if name == "list" and kind in (PartKind.LIST, PartKind.TABLE):
                found["asks list, covered near"] = near
    return found


def _suits(question: ParsedQuestion, text: str, lang: str) -> float:
    """Whether a text holds the kind of thing asked for, beyond the question's own words; half
    where no kind shows in the words."""
    if question.answer not in _SHOWN_BY_WORDS:
        return 0.5
    words = words_of(text[:_LONGEST], lang)
    fresh = [word for word in words[1:] if word.term not in question.weights]
    if question.answer is AnswerKind.TIME:
        held = any(
            w.kind in (WordClass.YEAR, WordClass.MONTH) or w.lower in TIME_WORDS for w in fresh
        ) or (bool(words) and words[0].kind in (WordClass.YEAR, WordClass.MONTH))
    elif question.answer is AnswerKind.NUMBER:
        held = any(word.kind in (WordClass.NUMBER, WordClass.YEAR) for word in (*words[:1], *fresh))
    elif question.answer in (AnswerKind.PERSON, AnswerKind.PLACE):
        held = any(word.kind is WordClass.NAME for word in fresh)
    elif question.answer is AnswerKind.REASON:
        held = any(word.lower in _REASONS for word in words)
    else:
        held = _defines(question, words)
    return 1.0 if held else 0.0


def _defines(question: ParsedQuestion, words: Sequence[Word]) -> bool:
    """Whether a sentence opens with what is asked for and goes on to say what it is."""
    named = False
    for word in words[:_SUBJECT]:
        if word.lower in _EQUATES:
            return named
        if word.kind in CONTENT and word.term not in question.weights:
            return False
        named = named or word.term in question.weights
    return False


def _share(question: ParsedQuestion, held: set[str]) -> float:
    return sum(weight for term, weight in question.weights.items() if term in held)


def weighted_question(
    question: str,
    blocks: Sequence[AnswerBlock],
    statistics: TermStatistics | None = None,
    lang: str = "",
) -> ParsedQuestion:
    """The parsed question, its terms weighted by rarity in the store or else in the blocks."""
    parsed = parse_question(question, lang)
    if statistics is not None:
        known, frequency = statistics.passages, statistics.frequency
    else:
        known = len(blocks)
        frequency = Counter(t for b in blocks for t in set(terms(b.text, b.source.passage.lang)))
    if lang in ("", "en"):
        nouns = [noun for noun in joined_verbs(question) if frequency.get(noun)]
        asked = [term for term in parsed.weights if term not in _ASKER] or parsed.weights
        parsed = replace(parsed, weights=dict.fromkeys((*asked, *nouns), 1.0))
    rarity: Callable[[str], float] = lambda term: idf(known, frequency.get(term, 0))  # noqa: E731
    return parsed.weighted(rarity)

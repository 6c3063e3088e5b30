"""An answer without a language model: the best whole sentences, each with its source.

Sentences are scored by the question's words they hold (weighted by rarity), by their passage,
and by whether they hold the kind of thing the question asks for. A cross-encoder or an embedder
may judge them too. A date, a name or a number that clearly answers the question comes first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from packwise.answering.answer import NumberedPassage, titles_of
from packwise.answering.spans import AnswerSpan, shape_of, spans
from packwise.language.analyzer import terms
from packwise.language.questions import AnswerKind, ParsedQuestion, parse_question
from packwise.language.sentences import sentence_spans
from packwise.language.word_classes import CONTENT, TIME_WORDS, Word, WordClass, words_of
from packwise.models.base import CrossEncoder, Embedder
from packwise.stores.base import TermStatistics
from packwise.stores.bm25 import idf

MOST_SENTENCES = 3
CONFIDENT = 0.65
"""Short answers from here on are shown; on SQuAD three in four of them are right."""

_JUDGED = 10
_SPANNED = 6
_BEFORE_WEIGHT = 0.1
_AFTER_QUESTION_WEIGHT = 0.6
_HEADING_WEIGHT = 0.1
_SUITS_WEIGHT = 0.15
_LENGTH_WEIGHT = 0.05
_USUAL_TERMS = 8
_LONGEST = 800
_UNREADABLE = 0.3
_SAYS_NOTHING = 0.5
_LEADS_ON = 1.0
_CROSS_ENCODER_WEIGHT = 2.0
_COSINE_WEIGHT = 2.0

_NEARLY_AS_GOOD = 0.25
_ON_TOPIC = 0.4
_NEW_WORDS = 0.2
_SAME = 0.6

_LIST_MARK = re.compile(r"^\s*(?:[-*+•‣◦▪]|\d{1,3}[.)]|#{1,6}|>)\s+")
_SPACE = re.compile(r"\s+")
_FENCE = re.compile(r"(?m)^[^\S\n]*(?:```|~~~)[^\n]*$")
_PROSE_ENDS = tuple(".!?…\"”’')]")
_MEASURED = frozenset({"date", "time", "figures", "number word"})
_REFERS = frozenset(
    "it he she they this these those such his her their its him them both however therefore "
    "thus then also there another".split()
)
_EQUATES = frozenset("is are was were means refers denotes".split())
_SUBJECT = 8
_REASON_WORDS = frozenset(
    "because since due so therefore thus to result caused order reason".split()
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A whole sentence of the passages, the ``order``-th of its passage, with its score.

    ``covered`` is the share of the question's words it holds, by rarity.
    """

    text: str
    source: NumberedPassage
    order: int
    score: float
    covered: float

    @property
    def shown(self) -> str:
        """The sentence on one line, without a list mark, its source's number at the end."""
        return f"{_one_line(self.text)} [{self.source.marker}]"


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The few words of a sentence that answer; ``confidence`` (0..1) is how sure that is."""

    text: str
    sentence: Sentence
    confidence: float


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """An answer made of sentences; its text is empty if there are none.

    ``cited`` and ``sources`` are as in a synthesised answer. ``short`` is set only if it is part
    of the text.
    """

    text: str
    sentences: tuple[Sentence, ...]
    short: ShortAnswer | None
    cited: tuple[int, ...]
    sources: tuple[str, ...]


def extract(
    question: str,
    passages: Sequence[NumberedPassage],
    *,
    statistics: TermStatistics | None = None,
    embedder: Embedder | None = None,
    cross_encoder: CrossEncoder | None = None,
    most: int = MOST_SENTENCES,
) -> ExtractedAnswer:
    """One to ``most`` sentences that answer the question, in reading order.

    ``statistics`` are those of the question's terms in the store; without them the rarity of a
    word is that in the passages.
    """
    asked = weighted_question(question, passages, statistics)
    ranked = best_sentences(asked, passages, embedder=embedder, cross_encoder=cross_encoder)
    if not ranked:
        return ExtractedAnswer("", (), None, (), ())
    short = short_answer(asked, ranked)
    if short is not None and short.confidence < CONFIDENT:
        short = None
    chosen = _choose(asked, ranked, most, short)
    if short is not None and not _worth_showing(asked, short):
        short = None
    lines = [" ".join(sentence.shown for sentence in chosen)]
    if short is not None:
        lines.insert(0, f"{short.text} [{short.sentence.source.marker}]")
    cited = tuple(dict.fromkeys(sentence.source.marker for sentence in chosen))
    return ExtractedAnswer(
        "\n\n".join(lines), tuple(chosen), short, cited, titles_of(passages, cited)
    )


def best_sentences(
    question: ParsedQuestion,
    passages: Sequence[NumberedPassage],
    *,
    embedder: Embedder | None = None,
    cross_encoder: CrossEncoder | None = None,
) -> list[Sentence]:
    """All sentences of the passages, best first.

    The cross-encoder, or else the embedder, judges the ten that look best without it.
    """
    found = [sentence for item in passages for sentence in _scored(question, item)]
    found.sort(key=_rank)
    head = [
        replace(s, score=s.score + _SUITS_WEIGHT * _suits(question, s)) for s in found[:_JUDGED]
    ]
    if len(head) > 1 and (cross_encoder is not None or embedder is not None):
        head = _judged(question.text, head, embedder, cross_encoder)
    head.sort(key=_rank)
    # Judged sentences stay ahead of the others.
    return head + found[_JUDGED:]


def short_answer(question: ParsedQuestion, sentences: Sequence[Sentence]) -> ShortAnswer | None:
    """The words among the first sentences that answer best, however unsure."""
    scored: list[tuple[Sentence, AnswerSpan]] = [
        (sentence, span)
        for sentence in sentences[:_SPANNED]
        for span in spans(question, sentence.text, sentence.score)
    ]
    if not scored:
        return None
    best, top = max(scored, key=lambda pair: pair[1].score)
    masses = [(s, span, math.exp(span.score - top.score)) for s, span in scored]
    # What overlaps the best candidate is the same answer with other borders.
    same = sum(
        mass
        for s, span, mass in masses
        if s is best and span.first < top.last and top.first < span.last
    )
    text = _SPACE.sub(" ", best.text[top.start : top.end])
    return ShortAnswer(text, best, same / sum(mass for *_, mass in masses))


def _worth_showing(question: ParsedQuestion, short: ShortAnswer) -> bool:
    """Whether a few words can be the answer and look like it. Reasons, ways and events need a
    sentence, and lines of code and lists are not reliable."""
    if not short.sentence.text.endswith(_PROSE_ENDS):
        return False
    words = words_of(short.text)
    shape = shape_of(words)
    if question.answer in (AnswerKind.TIME, AnswerKind.NUMBER):
        return shape in _MEASURED
    if question.answer in (AnswerKind.PERSON, AnswerKind.PLACE):
        return shape not in _MEASURED
    if question.answer is AnswerKind.DEFINITION:
        return shape != "plain"
    # Plain words are shown as one phrase, not as a piece of a sentence.
    broken = any(word.kind in (WordClass.PREPOSITION, WordClass.CONJUNCTION) for word in words)
    return question.answer in (AnswerKind.WHICH, AnswerKind.OBJECT) and not (
        shape == "plain" and broken
    )


def _scored(question: ParsedQuestion, item: NumberedPassage) -> list[Sentence]:
    """The sentences of one passage with their first score."""
    heading = _share(question, set(terms(item.heading)))
    found: list[Sentence] = []
    before = 0.0
    for order, text in enumerate(_pieces(item.text)):
        held = terms(text)
        if not held:
            continue
        covered = _share(question, set(held))
        score = item.score + covered + before + _HEADING_WEIGHT * heading
        score -= _LENGTH_WEIGHT * max(0.0, math.log(len(held) / _USUAL_TERMS))
        if len(text) > _LONGEST or _unfit(text) or _broken(text):
            score -= _UNREADABLE
        if all(term in question.weights for term in held):
            score -= _SAYS_NOTHING
        # A question or a heading holds the words of the answer; what follows it, the answer.
        leads = _leads_on(text)
        score -= _LEADS_ON * leads
        found.append(Sentence(text, item, order, score, covered))
        before = covered * (_AFTER_QUESTION_WEIGHT if leads else _BEFORE_WEIGHT)
    return found


def _pieces(text: str) -> list[str]:
    """The sentences of a passage, and each line of the code it holds."""
    pieces: list[str] = []
    position, code = 0, False
    fences = [match.span() for match in _FENCE.finditer(text)]
    for start, end in [*fences, (len(text), len(text))]:
        part = text[position:start]
        if code:
            pieces.extend(line.strip() for line in part.splitlines())
        else:
            pieces.extend(part[a:b] for a, b in sentence_spans(part))
        position, code = end, not code
    return [piece for piece in pieces if piece]


def _judged(
    question: str,
    sentences: Sequence[Sentence],
    embedder: Embedder | None,
    cross_encoder: CrossEncoder | None,
) -> list[Sentence]:
    texts = [_one_line(sentence.text) for sentence in sentences]
    if cross_encoder is not None:
        verdicts = _CROSS_ENCODER_WEIGHT * cross_encoder.score(question, texts)
    else:
        assert embedder is not None
        cosines = embedder.embed_passages(texts) @ embedder.embed_query(question)
        verdicts = _COSINE_WEIGHT * cosines
    # Centred, so that scores stay on the scale that short answers were fitted on.
    verdicts = verdicts - np.mean(verdicts)
    return [replace(s, score=s.score + float(v)) for s, v in zip(sentences, verdicts, strict=True)]


def _suits(question: ParsedQuestion, sentence: Sentence) -> float:
    """Whether a sentence holds the kind of thing asked for, beyond the question's own words."""
    words = words_of(sentence.text)
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
        held = any(word.lower in _REASON_WORDS for word in words)
    elif question.answer is AnswerKind.DEFINITION:
        held = _defines(question, words)
    else:
        return 0.5
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


def _choose(
    question: ParsedQuestion, ranked: Sequence[Sentence], most: int, short: ShortAnswer | None
) -> list[Sentence]:
    """The best sentence, what it refers back to, and others that add to it."""
    by_place = {(s.source.marker, s.order): s for s in ranked}
    best = ranked[0] if short is None else short.sentence
    chosen = [best]
    if most > 1 and _refers_back(best):
        earlier = by_place.get((best.source.marker, best.order - 1))
        if earlier is not None and not _unfit(earlier.text) and not _leads_on(earlier.text):
            chosen.append(earlier)
    held = {term for sentence in chosen for term in terms(sentence.text)}
    for sentence in ranked[: _SPANNED * 2]:
        new = set(terms(sentence.text))
        gained = _share(question, new - held)
        if (
            len(chosen) < most
            and not _leads_on(sentence.text)
            and gained >= _NEW_WORDS
            and sentence.covered >= _ON_TOPIC
            and sentence.score >= best.score - max(_NEARLY_AS_GOOD, gained)
            and not any(_alike(sentence, other) for other in chosen)
        ):
            chosen.append(sentence)
            held |= new
    first = {marker: i for i, marker in enumerate(dict.fromkeys(s.source.marker for s in chosen))}
    return sorted(chosen, key=lambda s: (first[s.source.marker], s.order))


def _alike(one: Sentence, other: Sentence) -> bool:
    mine, theirs = set(terms(one.text)), set(terms(other.text))
    return len(mine & theirs) >= _SAME * min(len(mine), len(theirs))


def _refers_back(sentence: Sentence) -> bool:
    words = _one_line(sentence.text).split(maxsplit=1)
    return sentence.order > 0 and words[0].strip(",").lower() in _REFERS


def _leads_on(text: str) -> bool:
    """Whether this is a question or a heading, whose answer follows it."""
    return text.endswith("?") or text.startswith("#")


def _unfit(text: str) -> bool:
    """Code and rows of marks do not read as sentences."""
    letters = sum(c.isalpha() or c.isspace() for c in text)
    return text.lstrip().startswith("|") or letters < 0.6 * len(text)


def _broken(text: str) -> bool:
    """The rest of a sentence that began before a line of code or a table."""
    return text[0].islower() and text[:2].isalpha()


def _share(question: ParsedQuestion, held: set[str]) -> float:
    return sum(weight for term, weight in question.weights.items() if term in held)


def _rank(sentence: Sentence) -> tuple[float, int, int]:
    return (-sentence.score, sentence.source.marker, sentence.order)


def weighted_question(
    question: str, passages: Sequence[NumberedPassage], statistics: TermStatistics | None = None
) -> ParsedQuestion:
    """The parsed question, its terms weighted by rarity in the store or else in the passages."""
    parsed = parse_question(question)
    if statistics is not None:
        known, frequency = statistics.passages, statistics.frequency
    else:
        texts = dict.fromkeys(item.text for item in passages)
        pieces = [piece for text in texts for piece in _pieces(text)]
        known, frequency = len(pieces), Counter(t for p in pieces for t in set(terms(p)))
    return parsed.weighted(lambda term: idf(known, frequency.get(term, 0)))


def _one_line(text: str) -> str:
    return _SPACE.sub(" ", _LIST_MARK.sub("", text)).strip()

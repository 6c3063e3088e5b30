"""Words of a sentence with a rough part of speech, told by closed lists and spelling.

Enough to see where a name, a number or a noun phrase begins and ends; no model, no data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from packwise.language.analyzer import terms


class Class(StrEnum):
    """What a word or mark is, as far as its spelling tells."""

    NAME = "name"
    LOWER = "lower"
    PAST = "past"
    ING = "ing"
    ADVERB = "adverb"
    NUMBER = "number"
    YEAR = "year"
    MONTH = "month"
    DETERMINER = "determiner"
    PREPOSITION = "preposition"
    CONJUNCTION = "conjunction"
    RELATIVE = "relative"
    AUXILIARY = "auxiliary"
    PRONOUN = "pronoun"
    COMMA = "comma"
    OPEN = "open"
    CLOSE = "close"
    QUOTE = "quote"
    DASH = "dash"
    STOP = "stop"


CONTENT = frozenset(
    {Class.NAME, Class.LOWER, Class.PAST, Class.ING, Class.NUMBER, Class.YEAR, Class.MONTH}
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word or mark at ``start:end`` of its text; ``term`` is its index term, if any."""

    text: str
    lower: str
    start: int
    end: int
    kind: Class
    term: str


_WORD = re.compile(
    r"""
      [$€£¥]?\d++(?:,\d++)*+(?:\.\d++)?(?:%|°[CF]?|st\b|nd\b|rd\b|th\b|s\b)?
    | [^\W_]++(?:[-'’./&][^\W_]++)*+
    | [^\w\s] | _
    """,
    re.VERBOSE,
)
_YEAR = re.compile(r"(?:1\d{3}|20\d{2})s?|\d{2}0s")
_MARKS = {
    ",": Class.COMMA,
    "(": Class.OPEN,
    "[": Class.OPEN,
    ")": Class.CLOSE,
    "]": Class.CLOSE,
    **dict.fromkeys("\"“”'‘’«»`", Class.QUOTE),
    **dict.fromkeys("-–—", Class.DASH),
}
MONTHS = frozenset(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
NUMBERS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion trillion dozen half quarter third twice first second "
    "fourth fifth".split()
)
# Earlier lists win: "as" is a preposition here, "that" a relative.
_LISTS: tuple[tuple[Class, frozenset[str]], ...] = (
    (
        Class.DETERMINER,
        frozenset(
            "a an the this these those its his her their our my your some any each every no "
            "another such both all".split()
        ),
    ),
    (
        Class.PREPOSITION,
        frozenset(
            "of in on at by for with from to into onto upon over under about after before during "
            "through between among against within without toward towards around near since until "
            "till via per than as like beyond behind across along despite including following "
            "throughout outside inside above below off out up down".split()
        ),
    ),
    (
        Class.RELATIVE,
        frozenset(
            "which who whom whose that where when while because although though if whether what "
            "how why".split()
        ),
    ),
    (Class.CONJUNCTION, frozenset("and or but nor yet so & plus".split())),
    (
        Class.AUXILIARY,
        frozenset(
            "is are was were be been being am has have had having do does did can could will "
            "would shall should may might must became become becomes called known named "
            "cannot".split()
        ),
    ),
    (
        Class.PRONOUN,
        frozenset("he she it they we i you him them us me itself himself themselves there".split()),
    ),
    (Class.NUMBER, NUMBERS),
    (
        Class.ADVERB,
        frozenset(
            "not also only very more most less least often usually however then now still even "
            "just already never always approximately nearly almost roughly mainly mostly "
            "largely".split()
        ),
    ),
)


def words_of(text: str) -> list[Word]:
    """The words and marks of a text, in order."""
    found: list[Word] = []
    for match in _WORD.finditer(text):
        token = match[0]
        kind = _kind(token, token.lower())
        stems = terms(token) if kind in CONTENT or kind is Class.ADVERB else []
        term = stems[0] if stems else ""
        found.append(Word(token, token.lower(), match.start(), match.end(), kind, term))
    return found


def _kind(token: str, lower: str) -> Class:
    if not lower[0].isalnum() and not lower[-1].isalnum() and lower[-1] not in "%°":
        return _MARKS.get(lower, Class.STOP)
    if _YEAR.fullmatch(lower):
        return Class.YEAR
    if lower[0].isdigit() or lower[0] in "$€£¥":
        return Class.NUMBER
    if lower in MONTHS and token[0].isupper():
        return Class.MONTH
    for kind, listed in _LISTS:
        if lower in listed:
            return kind
    return _by_spelling(token, lower)


def _by_spelling(token: str, lower: str) -> Class:
    if lower.endswith("ly") and len(lower) > 4:
        return Class.ADVERB
    if token[0].isupper():
        return Class.NAME
    if lower.endswith("ed") and len(lower) > 3:
        return Class.PAST
    if lower.endswith("ing") and len(lower) > 4:
        return Class.ING
    return Class.LOWER

"""Whether a text looks like an answer to this kind of question.

Light features only: numbers with units, dates, definitions, lists, names, steps. They say
what a text could answer, not whether it does, so they move a score by a little: a share of
``PACKING_ANSWERABILITY_BONUS``, from half of it (some feature) to one and a half times it
(several, one of them what the question asks for).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

Features = int
"""A set of features, as bits: sums of the constants below."""

NUMBER = 1
QUANTITY = 2
"""a number with a unit, a currency or a percentage"""
DATE = 4
DURATION = 8
DEFINITION = 16
LIST = 32
STEPS = 64
"""numbered steps, or commands to type"""
NAME = 128
"""a capitalised name inside a sentence"""

# Nearly every text holds a number or a name: only as what is asked for do they say anything.
_TELLING: dict[Features, str] = {
    QUANTITY: "quantity",
    DATE: "date",
    DURATION: "duration",
    DEFINITION: "definition",
    LIST: "list",
    STEPS: "steps",
}


class QuestionKind(StrEnum):
    """What a question asks for."""

    WHO = "who"
    WHEN = "when"
    WHERE = "where"
    HOW_MANY = "how_many"
    HOW_LONG = "how_long"
    WHAT_IS = "what_is"
    HOW_TO = "how_to"
    OTHER = "other"


_ASKED: dict[QuestionKind, Features] = {
    QuestionKind.WHO: NAME,
    QuestionKind.WHERE: NAME,
    QuestionKind.WHEN: DATE,
    QuestionKind.HOW_MANY: NUMBER | QUANTITY,
    QuestionKind.HOW_LONG: DURATION,
    QuestionKind.WHAT_IS: DEFINITION,
    QuestionKind.HOW_TO: STEPS | LIST,
    QuestionKind.OTHER: 0,
}

_KINDS: tuple[tuple[QuestionKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (QuestionKind.HOW_LONG, r"\bhow (?:long|often|soon)\b|\bfor how many (?:years|days)\b"),
        (
            QuestionKind.HOW_MANY,
            r"\bhow (?:many|much|far|old|tall|big|large|high|fast|deep|heavy|wide)\b"
            r"|\b(?:what|which) (?:is the |was the |are the |were the )?(?:\w+ )?"
            r"(?:percent(?:age)?|number|amount|population|price|cost|limit|size|rate|ratio)\b",
        ),
        (
            QuestionKind.WHEN,
            r"\bwhen\b|\b(?:what|which|in what|on what) (?:year|date|day|month|century|decade)\b",
        ),
        (
            QuestionKind.WHERE,
            r"\bwhere\b|\b(?:what|which) (?:city|country|state|place|region|continent|county)\b",
        ),
        (
            QuestionKind.WHO,
            r"\bwho(?:m|se)?\b"
            r"|\b(?:what|which) (?:person|company|team|school|university|author|king|queen)\b",
        ),
        (
            QuestionKind.HOW_TO,
            r"\bhow (?:to|do i|do you|do we|can i|can you|can we|should i|does one)\b"
            r"|^\s*(?:steps|procedure|instructions) (?:to|for)\b",
        ),
        (
            QuestionKind.WHAT_IS,
            r"^\s*(?:what(?:'s|’s| is| are| was| were)|define|explain)\b"
            r"|\bwhat (?:does|do) .{1,80} mean\b|\bmeaning of\b|\bdefinition of\b",
        ),
    )
)

_COUNTS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty "
    "fifty sixty seventy eighty ninety hundred thousand million billion dozen half".split()
)
_UNITS = frozenset(
    "% ° percent dollar dollars euro euros pound pounds degree degrees people men women km cm mm "
    "m kg g mg lb lbs ton tons tonne tonnes mile miles foot feet ft inch inches acre acres "
    "hectare hectares litre litres liter liters gallon gallons byte bytes b kb mb gb tb kib mib "
    "gib bit bits hz khz mhz ghz w kw mw v token tokens word words character characters page "
    "pages million billion thousand member members student students times".split()
)
_TIMES = frozenset(
    "ms millisecond milliseconds second seconds sec secs minute minutes min mins hour hours hr "
    "hrs day days night nights week weeks month months year years decade decades century "
    "centuries".split()
)
_RHYTHMS = frozenset("daily hourly weekly monthly yearly annually nightly".split())
# "may" is a verb more often than a month.
_MONTHS = frozenset(
    "january february march april june july august september october november december jan feb "
    "apr jun jul aug sept sep oct nov dec".split()
)
_WEEKDAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
_ERAS = frozenset("century bc ad bce ce may".split())
_BEFORE_MONTH = frozenset("in since until by on every last next early late of from".split())
_CURRENCIES = frozenset("$€£¥")
_YEARS = range(1000, 2100)
# A pair of words that says what something is.
_DEFINING = frozenset(
    (first, second)
    for firsts, seconds in (
        ("is are was were", "a an the any one called known defined"),
        ("refers referred refer", "to"),
        ("defined known", "as"),
        ("stands stand", "for"),
        ("means denotes", "that the a an any"),
    )
    for first in firsts.split()
    for second in seconds.split()
)
_ARTICLES = frozenset(second for _, second in _DEFINING)
_SEQUENCE = frozenset("first then next finally".split())
_COMMANDS = frozenset(
    "run open create add set click press select install call use choose enter write type wait "
    "mark start stop copy restore".split()
)
_TELLS = _COUNTS | _UNITS | _TIMES | _RHYTHMS | _MONTHS | _WEEKDAYS | _ERAS | _ARTICLES | _COMMANDS

_TOKEN = re.compile(r"\d[\d,.]*+|[^\W\d_]++|[$€£¥%°]")
_LINE_MARK = re.compile(
    r"^[ \t]*+(?:(?P<step>\d{1,3}[.)][ \t]|[$>][ \t]\S|```)|[-*+•‣▪][ \t])", re.MULTILINE
)
# The first word of a sentence is capitalised for another reason.
_NAME = re.compile(r"[\w,;:)’'\"”] [\"“(]?([A-ZÀ-Þ][\w’'.-]*\w)")


@dataclass(frozen=True, slots=True)
class Answerability:
    """The bonus of a text for a question, what it was given for, and whether the text holds
    what the question asks for."""

    bonus: float
    features: tuple[str, ...]
    matches: bool


NO_ANSWER = Answerability(0.0, (), False)
"""Of a text that nobody looked at."""


@lru_cache(maxsize=256)
def kind_of(question: str) -> QuestionKind:
    """What a question asks for, by its wording."""
    text = question[:1000]
    for kind, pattern in _KINDS:
        if pattern.search(text):
            return kind
    return QuestionKind.OTHER


def features_of(text: str) -> Features:
    """What a text holds."""
    found = NAME if _NAME.search(text) else 0
    for _, features in find_features(text):
        found |= features
    return found


def find_features(text: str) -> Iterator[tuple[int, Features]]:
    """What a text holds, with the place where it shows, in one pass over its words.

    Names are not among them: see ``find_names``.
    """
    before, before_end, number_end, since_number = "", -9, -9, 9
    for token in _TOKEN.finditer(text.lower()):
        word, start = token[0], token.start()
        since_number += 1
        features = 0
        if word[0].isdigit():
            features = _number(word, before if start - before_end <= 1 else "")
        elif word in _TELLS:
            features = _word(word, before, start - number_end <= 1, since_number)
        if features:
            yield start, features
            if features & NUMBER:
                number_end, since_number = token.end(), 0
        before, before_end = word, token.end()
    for mark in _LINE_MARK.finditer(text):
        yield mark.start(), LIST | STEPS if mark["step"] else LIST


def _number(word: str, before: str) -> Features:
    features = NUMBER
    if before in _CURRENCIES:
        features |= QUANTITY
    digits = word.rstrip(".,")
    if (len(digits) == 4 and digits.isdecimal() and int(digits) in _YEARS) or before in _MONTHS:
        features |= DATE
    return features


def _word(word: str, before: str, counted: bool, since_number: int) -> Features:
    """What a word adds, given the word before it and whether it follows a number."""
    features = 0
    if counted and (word in _UNITS or word in _TIMES):
        features = QUANTITY | DURATION if word in _TIMES else QUANTITY
    if word in _COUNTS:
        features |= NUMBER
    if word in _RHYTHMS:
        features |= DURATION
    if word in _MONTHS or word in _ERAS:
        dated = since_number <= 3 or (word in _MONTHS and before in _BEFORE_MONTH)
        features |= DATE if dated else 0
    elif word in _WEEKDAYS:
        features |= DATE
    if (before, word) in _DEFINING:
        features |= DEFINITION
    if word in _COMMANDS and before in _SEQUENCE:
        features |= STEPS
    return features


def find_names(text: str) -> list[tuple[int, str]]:
    """The capitalised words inside the sentences of a text, in lower case, with their places."""
    return [(found.start(1), found[1].lower()) for found in _NAME.finditer(text)]


def asked_for(kind: QuestionKind) -> Features:
    """The features that answer a question of this kind, any of them."""
    return _ASKED[kind]


@lru_cache(maxsize=1024)
def answerability(features: Features, matches: bool, scale: float) -> Answerability:
    """The bonus for a text that holds these features: 0, or 0.5 to 1.5 times ``scale``.

    ``matches`` says that one of them is what the question asks for.
    """
    names = tuple(name for feature, name in _TELLING.items() if features & feature)
    strength = (0.0, 0.5, 0.75)[min(len(names), 2)]
    if matches:
        strength = max(strength, 0.5) + 0.75
    return Answerability(strength * scale, names, matches)

"""Words with a rough part of speech, and what a text holds: numbers, dates, lists, steps, names.

Closed word lists and spelling are enough to see where a name, a number or a noun phrase begins
and ends; no model is needed. Every list of months, units and number words is in this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from itertools import accumulate, compress
from typing import NamedTuple

from packwise.language.analyzer import CLUSTER, MARKS, UNSPACED, terms
from packwise.lazy_pattern import lazy_pattern


class WordClass(StrEnum):
    """What a word or mark is, as far as its spelling shows."""

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

    # That of enumerations is written in Python, and sets of kinds are asked for every word.
    __hash__ = str.__hash__


CONTENT = frozenset(map(WordClass, "name lower past ing number year month".split()))


class Word(NamedTuple):
    """A word or mark at ``start:end`` of its text; ``term`` is its index term, if any."""

    text: str
    lower: str
    start: int
    end: int
    kind: WordClass
    term: str


MONTH_NAMES = frozenset(
    "january february march april may june july august september october november december".split()
)
_MONTHS = MONTH_NAMES | frozenset("jan feb mar apr jun jul aug sep sept oct nov dec".split())
POINTERS = frozenset(("see", "enlarge", "class"))
"""Words before a name that point to it, in a reference or a caption."""

LABELS = POINTERS | frozenset(
    "caution classes example examples false faq faqs fig figure hint image none note notes null "
    "ok table tip todo true warning yes".split()
)
"""Words that label a place in a document or are values in code: they name nothing."""

WEEKDAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
_ERAS = frozenset("bc ad bce ce".split())
_CALENDAR_UNITS = frozenset(
    "day days month months year years decade decades century centuries".split()
)
_TIME_UNITS = _CALENDAR_UNITS | frozenset(
    "ms millisecond milliseconds second seconds sec secs minute minutes min mins hour hours hr "
    "hrs night nights week weeks".split()
)
_RHYTHMS = frozenset("daily hourly weekly monthly yearly annually nightly".split())
TIME_WORDS = (
    _CALENDAR_UNITS | _ERAS | _RHYTHMS | WEEKDAYS | frozenset("every noon midnight o'clock".split())
)
"""Words that say when something happens."""
PERIOD_WORDS = (
    _CALENDAR_UNITS
    | _ERAS
    | frozenset(
        "week weeks hour hours minute minutes era age morning night summer winter spring "
        "autumn".split()
    )
)
"""Words that end a phrase about time."""

_CARDINALS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion trillion dozen half".split()
)
_UNITS = frozenset(
    "% ° percent dollar dollars euro euros pound pounds degree degrees people men women km cm mm "
    "m kg g mg lb lbs ton tons tonne tonnes mile miles foot feet ft inch inches acre acres "
    "hectare hectares litre litres liter liters gallon gallons byte bytes b kb mb gb tb kib mib "
    "gib bit bits hz khz mhz ghz w kw mw v token tokens word words character characters page "
    "pages million billion thousand member members student students times".split()
)

_LISTS: dict[WordClass, str] = {
    WordClass.DETERMINER: "a an the this these those its his her their our my your some any each "
    "every no another such both all",
    WordClass.PREPOSITION: "of in on at by for with from to into onto upon over under about after "
    "before during through between among against within without toward towards around near since "
    "until till via per than as like beyond behind across along despite including following "
    "throughout outside inside above below off out up down",
    WordClass.RELATIVE: "which who whom whose that where when while because although though if "
    "whether what how why",
    WordClass.CONJUNCTION: "and or but nor yet so & plus",
    WordClass.AUXILIARY: "is are was were be been being am has have had having do does did can "
    "could will would shall should may might must became become becomes called known named cannot",
    WordClass.PRONOUN: "he she it they we i you him them us me itself himself themselves there",
    WordClass.NUMBER: " ".join(_CARDINALS) + " quarter third twice first second fourth fifth",
    WordClass.ADVERB: "not also only very more most less least often usually however then now "
    "still even just already never always approximately nearly almost roughly mainly mostly "
    "largely",
}
# Earlier lists win: "as" is a preposition here, "that" a relative.
_CLASSES = {w: kind for kind, listed in reversed(_LISTS.items()) for w in listed.split()}

_FIGURES = r"[$€£¥]?\d++(?:,\d++)*+(?:\.\d++)*+(?:%|°[CF]?|st\b|nd\b|rd\b|th\b|s\b)?"
_WORD = lazy_pattern(rf"{_FIGURES}|[^\W_]++(?:[-'’./&][^\W_]++)*+|[^\w\s]|_")
_YEAR = lazy_pattern(r"(?:1\d{3}|20\d{2})s?|\d{2}0s")
_MARKS = {
    ",": WordClass.COMMA,
    **dict.fromkeys("([", WordClass.OPEN),
    **dict.fromkeys(")]", WordClass.CLOSE),
    **dict.fromkeys("\"“”'‘’«»`", WordClass.QUOTE),
    **dict.fromkeys("-–—", WordClass.DASH),
}


@cache
def _any_word() -> re.Pattern[str]:
    """As ``_WORD``, for other scripts. It takes long to compile: texts in ASCII do without."""
    letter = rf"[^\W_][{MARKS}]*+"
    return re.compile(
        rf"(?P<pair>(?=[{UNSPACED}])(?:{CLUSTER}))|{_FIGURES}"
        rf"|(?:(?![{UNSPACED}]){letter})++(?:[-'’./&](?:(?![{UNSPACED}]){letter})++)*+|[^\w\s]|_"
    )


def words_of(text: str, lang: str = "") -> list[Word]:
    """The words and marks of a text in a language, in order.

    Where there are no spaces between words, each character is one; its term is that of the pair
    it makes with the next one.
    """
    plain = text.isascii()
    pattern = _WORD if plain else _any_word()
    found: list[Word] = []
    for match in pattern.finditer(text):
        token = match[0]
        if not plain and match["pair"]:
            following = pattern.match(text, match.end())
            pair = following and following["pair"]
            kind, stems = WordClass.LOWER, terms(token + (pair or ""), lang)
        else:
            kind = _kind(token, token.lower())
            counts = kind in CONTENT or kind is WordClass.ADVERB
            stems = terms(token, lang) if counts else []
        term = stems[0] if stems else ""
        found.append(Word(token, token.lower(), match.start(), match.end(), kind, term))
    return found


def _kind(token: str, lower: str) -> WordClass:
    if not lower[0].isalnum() and not lower[-1].isalnum() and lower[-1] not in "%°":
        return _MARKS.get(lower, WordClass.STOP)
    if _YEAR.fullmatch(lower):
        return WordClass.YEAR
    if lower[0].isdigit() or lower[0] in "$€£¥":
        return WordClass.NUMBER
    if lower in _MONTHS and token[0].isupper():
        return WordClass.MONTH
    return _CLASSES.get(lower) or _by_spelling(token, lower)


def _by_spelling(token: str, lower: str) -> WordClass:
    if lower.endswith("ly") and len(lower) > 4:
        return WordClass.ADVERB
    if token[0].isupper():
        return WordClass.NAME
    if lower.endswith("ed") and len(lower) > 3:
        return WordClass.PAST
    if lower.endswith("ing") and len(lower) > 4:
        return WordClass.ING
    return WordClass.LOWER


Features = int
"""A set of features of a text, as bits: sums of the constants below."""

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

# "may" is a verb more often than a month.
_CLEAR_MONTHS = _MONTHS - {"may", "mar"}
_DATING = _ERAS | {"century", "may"}
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
_SEQUENCE = frozenset("first then next finally".split())
_COMMANDS = frozenset(
    "run open create add set click press select install call use choose enter write type wait "
    "mark start stop copy restore".split()
)
_SIGNALS = frozenset().union(
    _CARDINALS, _UNITS, _TIME_UNITS, _RHYTHMS, _CLEAR_MONTHS, WEEKDAYS, _DATING
)
"""Words that may be a feature by themselves, ..."""
_SECOND = _COMMANDS | {second for _, second in _DEFINING}
_FIRST = _SEQUENCE | {first for first, _ in _DEFINING}
"""... and those that are one only after another."""

_TOKEN = lazy_pattern(r"(\d[\d,.]*+|[^\W\d_]++|[$€£¥%°])")
# The same for small letters in ASCII, in half the time.
_ASCII_TOKEN = lazy_pattern(r"([a-z]++|[0-9][0-9,.]*+|[$%])")
_LINE_MARK = lazy_pattern(
    r"^[ \t]*+(?:(?P<step>\d{1,3}[.)][ \t]|[$>][ \t]\S|```)|[-*+•‣▪][ \t])", re.MULTILINE
)
# The first word of a sentence is capitalised for another reason.
_NAME = lazy_pattern(r" (?<=[\w,;:)’'\"”] )[\"“(]?([A-ZÀ-Þ][\w’'.-]*\w)")


def find_features(text: str) -> Iterator[tuple[int, Features]]:
    """What a text holds, with the place where it shows, in one pass over its words.

    Names are not included: see ``find_names``.
    """
    # The words, and between them what stands between them: most of them say nothing.
    parts = (_ASCII_TOKEN if text.isascii() else _TOKEN).split(text.lower())
    words = parts[1::2]
    telling = _telling(words)
    edges = list(accumulate(map(len, parts))) if telling else []
    number, number_end = -9, -9
    for at in telling:
        word, before = words[at], words[at - 1] if at else ""
        start, features = edges[2 * at], 0
        if word[0].isdigit():
            features = _number_features(word, "" if len(parts[2 * at]) > 1 else before)
        elif word in _SIGNALS or word in _SECOND:
            features = _word_features(word, before, start - number_end <= 1, at - number)
        if features:
            yield start, features
            if features & NUMBER:
                number, number_end = at, edges[2 * at + 1]
    for mark in _LINE_MARK.finditer(text):
        yield mark.start(), LIST | STEPS if mark["step"] else LIST


def _telling(words: Sequence[str]) -> list[int]:
    """Which words may be a feature by themselves or after the word before them."""
    if len(_signs) > _MOST_KNOWN:
        _signs.clear()
    telling: list[int] = []
    for at in compress(range(len(words)), map(_signs.__getitem__, words)):
        if _signs[words[at]] & _TELLS and telling[-1:] != [at]:
            telling.append(at)
        if _signs[words[at]] & _OPENS and words[at + 1 : at + 2] and words[at + 1] in _SECOND:
            telling.append(at + 1)
    return telling


class _Signs(dict[str, int]):
    """Whether a word may be a feature by itself, and whether the word after it may be one."""

    def __missing__(self, word: str) -> int:
        tells = word in _SIGNALS or not word.isalpha()
        self[word] = found = tells * _TELLS | (word in _FIRST) * _OPENS
        return found


_TELLS, _OPENS = 1, 2
_MOST_KNOWN = 1 << 16
_signs = _Signs()


def find_names(text: str) -> list[tuple[int, str]]:
    """The capitalised words inside the sentences of a text, in lower case, with their places.

    Of several that follow each other, every second one is taken.
    """
    names: list[tuple[int, str]] = []
    past = 0
    for found in _NAME.finditer(text):
        if found.start() > past:
            names.append((found.start(1), found[1].lower()))
            past = found.end()
    return names


def _number_features(word: str, before: str) -> Features:
    features = NUMBER
    if before in _CURRENCIES:
        features |= QUANTITY
    digits = word.rstrip(".,")
    is_year = len(digits) == 4 and digits.isdecimal() and int(digits) in _YEARS
    return features | DATE if is_year or before in _CLEAR_MONTHS else features


def _word_features(word: str, before: str, counted: bool, since_number: int) -> Features:
    """What a word adds, given the word before it and whether it follows a number."""
    features = 0
    if counted and (word in _UNITS or word in _TIME_UNITS):
        features = QUANTITY | DURATION if word in _TIME_UNITS else QUANTITY
    if word in _CARDINALS:
        features |= NUMBER
    if word in _RHYTHMS:
        features |= DURATION
    if word in _CLEAR_MONTHS or word in _DATING:
        dated = since_number <= 3 or (word in _CLEAR_MONTHS and before in _BEFORE_MONTH)
        features |= DATE if dated else 0
    elif word in WEEKDAYS:
        features |= DATE
    if (before, word) in _DEFINING:
        features |= DEFINITION
    if word in _COMMANDS and before in _SEQUENCE:
        features |= STEPS
    return features

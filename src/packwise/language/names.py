"""What a text names, found by rule: names, identifiers, defined terms and titles.

Everything here is a pure function of the text and linear in its length, so a name means the
same in a passage and in a question. Capitals show what is a name: a script without them yields
identifiers and title mentions only. A doubtful word is left out or marked as not ``sure``,
because a wrong link between two passages costs more than a missed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from packwise.language.analyzer import LETTERS, fold
from packwise.language.sentences import OPENING_WORDS
from packwise.language.word_classes import LABELS, MONTH_NAMES, POINTERS, WEEKDAYS
from packwise.lazy_pattern import lazy_pattern

RULES = "packwise-names-3"
"""Name of these rules; a store keeps it and finds its entities again when it changes."""

MOST_NAME_WORDS = 8
"""Words in the longest name; anything longer is a heading in capitals or a sentence."""


class Kind(StrEnum):
    """What an entity is, as far as the rules show."""

    NAME = "name"
    IDENTIFIER = "identifier"
    TERM = "term"
    TITLE = "title"


@dataclass(frozen=True, slots=True)
class Name:
    """Something a text names: ``text == source[start:end]``.

    Names with equal ``key`` are the same entity. ``sure`` is false for a lone capitalised
    word that opens a sentence: it counts only if another passage uses it as a sure name.
    """

    text: str
    key: str
    kind: Kind
    start: int
    end: int
    sure: bool = True


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """Something a passage names, according to a language model."""

    name: str
    kind: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A statement about ``subject`` that a language model found in a passage."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedRelation:
    """How ``source`` is related to ``target``, according to a language model."""

    source: str
    relation: str
    target: str
    context: str = ""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a language model found in the passage of this ``order_index``."""

    order_index: int
    entities: tuple[ExtractedEntity, ...] = ()
    facts: tuple[ExtractedFact, ...] = ()
    relations: tuple[ExtractedRelation, ...] = ()


OPENERS = (OPENING_WORDS - frozenset("first it's none note several three".split())) | frozenset(
    "about above according across additionally again against along among around based below "
    "besides between consequently could currently due either eventually following formerly "
    "further historically initially into just last might near nevertheless originally previously "
    "recently should similarly sometimes them throughout together up us using who whom whose "
    "will would".split()
)
CALENDAR = MONTH_NAMES | WEEKDAYS
_HONORIFICS = frozenset("mr mrs ms messrs dr prof sir dame rev hon".split())
ARTICLES = frozenset(("the", "a", "an"))
_SKIPPED = _HONORIFICS | ARTICLES | POINTERS
_SKIPPED_FIRST = _SKIPPED | OPENERS
"""What is no part of a name that it stands before: anywhere, and at the beginning of a sentence."""
_NOT_NAMED = OPENERS | CALENDAR | _HONORIFICS | LABELS
_ABBREVIATIONS = "St|Mt|Ft|Mr|Mrs|Ms|Dr|Prof|Rev|Hon|Gen|Col|Lt|Capt|Sgt|Maj|Gov|Sen|Rep"
_LINKS = "of|de|la|von|van|du|del|della|der|den|di|da|dos|das|des|le|el|al|bin|ibn|ter|zu"
_MARKS = "\u0300-\u036f"
_LETTERS = rf"[^\W_]*+(?:[{_MARKS}][^\W_]*+)*+"
PLAIN_WORD = lazy_pattern(rf"{LETTERS}(?:['’]{LETTERS})*+")
_PART = lazy_pattern(r"\S+")
_PARENTHESES = lazy_pattern(r"\([^)]*(?:\)|$)")
# Each starts where a word does: a start inside a long word would make the time quadratic.
_NOT_TEXT = lazy_pattern(r"(?<![^\W_])[^\W_]++://\S++|www\.\S++|(?<![\w.+-])[\w.+-]++@[\w.-]++")
# Each begins with a character that is rare in prose, so a text without code costs little.
_CODE_SIGNS = (lazy_pattern(r"\.(?=[^\W\d])(?<=\w.)"), lazy_pattern(r"[A-Z](?<=[a-z].)"))
_IDENTIFIER = lazy_pattern(
    r"""
    (?<![\w.@/\\#-])(?:
        [^\W\d]\w++(?:(?:\.|::|->)[^\W\d]\w++)++(?:\(\))?+    # os.path.join, std::vector
      | _*+[^\W\d_][^\W_]*+(?:_++[^\W_]++)++_*+(?:\(\))?+       # snake_case, MAX_SIZE
      | __?[^\W\d_]\w*+(?:\(\))?+                             # __init__, _private
      | [^\W\d]\w++\(\)                                       # close()
      | [a-z]{2,}+(?:[A-Z][a-z0-9]++)++                       # camelCase
    )(?![\w@/\\-])
    """,
    re.VERBOSE,
)
_DOMAINS = frozenset("com org net edu gov io co uk de fr eu info html htm php jpg png".split())
_ACRONYM = lazy_pattern(r"\(([A-Z][A-Za-z]{0,7}[A-Z])s?\)")
_ACRONYM_REACH = 120
_CALLED = lazy_pattern(
    r"\b(?:called|termed|dubbed|known\sas|referred\sto\sas|defined\sas)\s(?:an?\s|the\s)?+"
    r"[\"“‘'*_`]{1,3}([^\W_][^\"”’'*_`\n]{1,58}[^\W_])[\"”’'*_`]"
)
_CALLING = ("called", "termed", "dubbed", "known", "referred", "defined")
_LINE_REACH = 40
_LOUD = 4
"""A longer word in capitals is a heading in front of its text."""


@lru_cache(maxsize=1 << 14)
def name_key(text: str) -> str:
    """The form in which names are compared: small letters without accents, articles or
    possessive, one space between words. Empty if the text has no word."""
    words = list(filter(None, map(bare, PLAIN_WORD.findall(fold(text)))))
    while len(words) > 1 and words[0] in ARTICLES:
        del words[0]
    return " ".join(words)


def names_in(text: str, lang: str = "") -> list[Name]:
    """The names, identifiers and defined terms of a text, in order; they do not overlap.

    Years, months and weekdays are not entities. In German a lone capitalised word is not a sure
    name: every noun has a capital.
    """
    may_hold_urls = "://" in text or "@" in text or "www." in text
    masked = [match.span() for match in _NOT_TEXT.finditer(text)] if may_hold_urls else []
    found = list(_identifiers(text, masked))
    taken = _TakenSpans([*masked, *((name.start, name.end) for name in found)])
    nouns = lang == "de"
    for run in _runs(text.isascii()).finditer(text):
        for name in _run_names(text, run, nouns):
            if taken.free(name.start, name.end):
                found.append(name)
    terms = sorted([*_acronyms(text), *_called(text)], key=lambda name: (name.start, -name.end))
    taken = _TakenSpans([*masked, *((n.start, n.end) for n in found)] if terms else ())
    past = 0
    for term in terms:
        if term.start >= past and taken.free(term.start, term.end):
            found.append(term)
            past = term.end
    found.sort(key=lambda name: name.start)
    return found


def title_aliases(title: str) -> tuple[str, ...]:
    """The keys under which other texts name an article of this title, the full title first.

    ``Boston (band)`` is also named "Boston", ``Paris, Texas`` also "Paris". A title that is a
    question or a sentence has none.
    """
    title = " ".join(title.split())
    if title.endswith("?"):
        return ()
    plain = " ".join(_PARENTHESES.sub("", title).split())
    forms = [title, plain, plain.replace("_", " ") if plain[:1].isupper() else plain]
    head, comma, rest = plain.partition(",")
    if comma and rest and all(word[0].isupper() for word in PLAIN_WORD.findall(head + rest)):
        forms.append(head)
    module, dash, _ = plain.partition(" — ")
    if dash and _IDENTIFIER.fullmatch(module):
        forms.append(module)
    keys = dict.fromkeys(
        fold(form.removesuffix("()")) if _IDENTIFIER.fullmatch(form) else name_key(form)
        for form in forms
    )
    return tuple(key for key in keys if key.count(" ") < MOST_NAME_WORDS and can_be_named(key))


class _TakenSpans:
    """Spans of a text that are taken; ask for free ones in rising order."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = sorted(spans)
        self._at = 0

    def free(self, start: int, end: int) -> bool:
        while self._at < len(self._spans) and self._spans[self._at][1] <= start:
            self._at += 1
        return self._at == len(self._spans) or self._spans[self._at][0] >= end


def bare(word: str) -> str:
    """A folded word without its apostrophes and without a possessive s."""
    if word.endswith(("'s", "’s")):
        word = word[:-2]
    return word.replace("'", "").replace("’", "")


@lru_cache(maxsize=2)
def _runs(plain: bool) -> re.Pattern[str]:
    """Capitalised words in a row, with the small words that link them. The pattern for a text in
    ASCII takes a twentieth of the time to make, which a first question waits for."""
    # Groups repeat a bounded number of times: unbounded ones take quadratic time.
    capital = f"[{''.join(filter(str.istitle, map(chr, range(0x80 if plain else 0x10000))))}]"
    word = (
        rf"(?:(?:{capital}\.){{1,8}}+(?:{capital}(?![^\W_]))?+"
        rf"|(?:{_ABBREVIATIONS})\.(?=[ \n]{capital})"
        rf"|{capital}{_LETTERS}(?:[-'’&][^\W_]{_LETTERS}){{0,8}}+)"
    )
    return re.compile(
        rf"(?<![\w@/\\#{_MARKS}-]){word}"
        rf"(?:[ \n](?:(?:{_LINKS})[ \n](?:the[ \n])?+)?+{word}){{0,32}}+"
        r"(?:[ ]\d{1,3}(?![\w.,%°]))?+"
    )


def _run_names(text: str, run: re.Match[str], nouns: bool) -> list[Name]:
    """The names in a run of capitalised words: mostly one."""
    opens = opens_sentence(text, run.start())
    if "\n" in run[0]:
        return _split_run(text, run.span(), opens, nouns)
    shift = run.start()
    return [
        Name(name.text, name.key, name.kind, name.start + shift, name.end + shift, name.sure)
        for name in _line_names(run[0], opens, nouns)
    ]


@lru_cache(maxsize=1 << 14)
def _line_names(run: str, opens: bool, nouns: bool) -> list[Name]:
    """The names in a run on one line: those do not depend on the text around it, but for whether
    it opens a sentence. Texts repeat most of their names."""
    return _split_run(run, (0, len(run)), opens, nouns)


def _split_run(text: str, run: tuple[int, int], opens: bool, nouns: bool) -> list[Name]:
    parts = [(m[0], *m.span()) for m in _PART.finditer(text, *run)]
    found: list[Name] = []
    first = 0
    for at in range(1, len(parts) + 1):
        if at == len(parts) or _breaks(text, parts[at - 1], parts[at]):
            begins = opens_sentence(text, parts[first][1]) if first else opens
            found += _name_of(text, parts[first:at], begins, nouns)
            first = at
    return found


def _breaks(text: str, before: tuple[str, int, int], after: tuple[str, int, int]) -> bool:
    """Whether a sentence or a line ends between two capitalised words."""
    ended = before[0].endswith(".") or (len(before[0]) > _LOUD and before[0].isupper())
    if fold(after[0]) in (OPENERS if ended else POINTERS):
        return True
    if text[before[2]] != "\n":
        return False
    # A full line goes on in the next one; a short one is a heading or an item of a list.
    return "\n" in text[max(0, before[2] - _LINE_REACH) : before[2]] or before[2] < _LINE_REACH


def _name_of(
    text: str, parts: Sequence[tuple[str, int, int]], opens: bool, nouns: bool
) -> list[Name]:
    """The name that these words make, if they make one. ``opens`` says that they open a
    sentence."""
    alone = len(parts) == 1
    skipped = _SKIPPED_FIRST if opens else _SKIPPED
    while parts and fold(parts[0][0]).rstrip(".") in skipped:
        parts = parts[1:]
    if not parts or len(parts) > MOST_NAME_WORDS or not parts[0][0][0].isupper():
        return []
    start, end = parts[0][1], parts[-1][2]
    if text[start:end].endswith(("'s", "’s")):
        end -= 2
    key = name_key(text[start:end])
    if not can_be_named(key):
        return []
    return [Name(text[start:end], key, Kind.NAME, start, end, not (alone and (opens or nouns)))]


def opens_sentence(text: str, start: int) -> bool:
    """Whether what begins at ``start`` is the first word of a sentence."""
    at = start - 1
    quoted = False
    while at >= 0 and text[at] in " \t\"“”‘'([*_>#-":
        quoted = quoted or text[at] in "\"“‘'"
        at -= 1
        if start - at > _LINE_REACH:
            return False
    return at < 0 or text[at] in ".!?:;…\n|•" or (quoted and text[at] == ",")


def can_be_named(key: str) -> bool:
    """Whether a key can be a name: not a number, a letter, or a word that every text holds."""
    if not key or len(key) < 2:
        return False
    if " " in key:
        # A date ("may 1984") is not an entity, nor is a lone number with an article.
        return any(map(names_something, key.split()))
    return not (key.isdigit() or key in _NOT_NAMED)


def names_something(word: str) -> bool:
    """Whether a word within a key says more than a number or a date."""
    return not word.isdigit() and word not in CALENDAR


def _identifiers(text: str, masked: Sequence[tuple[int, int]]) -> Iterator[Name]:
    if not any(sign in text for sign in ("_", "()", "::", "->")) and not any(
        sign.search(text) for sign in _CODE_SIGNS
    ):
        return
    taken = _TakenSpans(masked)
    for match in _IDENTIFIER.finditer(text):
        found = match[0]
        name = found.removesuffix("()")
        if name.rpartition(".")[2].lower() in _DOMAINS or _is_glued(text, found, match.start()):
            continue
        if taken.free(*match.span()):
            yield Name(found, fold(name), Kind.IDENTIFIER, match.start(), match.end())


def _is_glued(text: str, found: str, start: int) -> bool:
    """Whether a dotted form is two sentences without a space ("the end.Next"), or an
    abbreviation, rather than code."""
    parts = found.removesuffix("()").split(".")
    if len(parts) == 1:
        return False
    if min(map(len, parts)) < 2:
        return True
    code = found.endswith("()") or "_" in found or text[start - 1 : start] == "`"
    return len(parts) == 2 and parts[1][0].isupper() and not code


def _acronyms(text: str) -> Iterator[Name]:
    """Long forms that are followed by their acronym: "remote procedure call (RPC)"."""
    for match in _ACRONYM.finditer(text):
        letters = match[1].lower()
        end = match.start() - 1
        reach = max(0, end - _ACRONYM_REACH)
        before = list(PLAIN_WORD.finditer(text, reach, max(reach, end)))[-len(letters) :]
        if len(before) == len(letters) and all(
            fold(word[0])[:1] == letter for word, letter in zip(before, letters, strict=True)
        ):
            start = before[0].start()
            yield Name(text[start:end], name_key(text[start:end]), Kind.TERM, start, end)


def _called(text: str) -> Iterator[Name]:
    """Quoted terms that are introduced as such: is called "back pressure"."""
    if not any(word in text for word in _CALLING):
        return
    for match in _CALLED.finditer(text):
        key = name_key(match[1])
        if can_be_named(key) and key.count(" ") < MOST_NAME_WORDS:
            yield Name(match[1], key, Kind.TERM, match.start(1), match.end(1))

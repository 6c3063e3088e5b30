"""What a text names, found by rule: names, identifiers, defined terms, titles, definitions.

Everything here is a pure function of the text, in time linear in it, so a store can be
built one document at a time and a name means the same in a passage and in a question.
Names are told by their capitals: a script without them yields identifiers and title
mentions only. A doubtful word is left out or marked as not ``sure``; a wrong link between
two passages costs more than a missed one.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from packwise.documents import Passage
from packwise.language.sentences import sentence_spans

RULES = "packwise-names-1"
"""Name of these rules; a store keeps it and finds its entities anew when it changes."""

MOST_NAME_WORDS = 8
"""Words of the longest name: what is longer is a heading in capitals or a sentence."""

MOST_NAMESAKES = 8
"""Titles that may share an alias: what more articles are called says nothing about which."""


class Kind(StrEnum):
    """What an entity is, as far as the rules can tell."""

    NAME = "name"
    IDENTIFIER = "identifier"
    TERM = "term"
    TITLE = "title"


@dataclass(frozen=True, slots=True)
class Name:
    """Something a text names: ``text == source[start:end]``.

    Names with equal ``key`` are the same entity. ``sure`` is false for a lone capitalised
    word that opens a sentence: it counts where another passage has it beyond doubt.
    """

    text: str
    key: str
    kind: Kind
    start: int
    end: int
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that says what its subject is."""

    subject: str
    key: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """Something a language model found a passage to name."""

    name: str
    kind: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A statement about ``subject`` that a language model read in a passage."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedRelation:
    """What a language model read to tie ``source`` to ``target``."""

    source: str
    relation: str
    target: str
    context: str = ""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a language model read in the passage of this ``order_index``."""

    order_index: int
    entities: tuple[ExtractedEntity, ...] = ()
    facts: tuple[ExtractedFact, ...] = ()
    relations: tuple[ExtractedRelation, ...] = ()


_OPENERS = frozenset(
    "a about above according across additionally after again against all along also although "
    "among an and another any are around as at based because before below besides between both "
    "but by can consequently could currently despite did do does due during each either even "
    "eventually every few finally following for formerly from further furthermore given had has "
    "have he hence her here his historically how however i if in indeed initially instead into "
    "is it its just last later like many meanwhile might more moreover most much my near nearly "
    "neither nevertheless no nor not now of often on once one only or originally other our over "
    "perhaps previously rather recently she should similarly since so some sometimes soon still "
    "such that the their them then there therefore these they this those though through "
    "throughout thus to today together two under unlike until up upon us using was we were what "
    "when where whereas whether which while who whom whose why will with within without would "
    "yet you your".split()
)
_CALENDAR = frozenset(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday".split()
)
_HONORIFICS = frozenset("mr mrs ms messrs dr prof sir dame rev hon".split())
_ARTICLES = frozenset(("the", "a", "an"))
_ABBREVIATIONS = "St|Mt|Ft|Mr|Mrs|Ms|Dr|Prof|Rev|Hon|Gen|Col|Lt|Capt|Sgt|Maj|Gov|Sen|Rep"
_LINKS = "of|de|la|von|van|du|del|della|der|den|di|da|dos|das|des|le|el|al|bin|ibn|ter|zu"
_MARKS = "\u0300-\u036f"
_LETTERS = rf"[^\W_]*+(?:[{_MARKS}][^\W_]*+)*+"

_WORD = re.compile(rf"[^\W_]{_LETTERS}(?:['’][^\W_]{_LETTERS})*+")
_PLAIN_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_PART = re.compile(r"\S+")
_NOT_TEXT = re.compile(r"[^\W_]+://\S++|www\.\S++|[\w.+-]++@[\w.-]++")
# Each begins with what is rare in prose, so a text without code costs next to nothing.
_CODE_SIGNS = (
    re.compile(r"\.(?=[^\W\d])(?<=\w.)"),
    re.compile(r"[A-Z](?<=[a-z].)"),
)
_IDENTIFIER = re.compile(
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
_ACRONYM = re.compile(r"\(([A-Z][A-Za-z]{0,7}[A-Z])s?\)")
_ACRONYM_REACH = 120
_CALLED = re.compile(
    r"\b(?:called|termed|dubbed|known\sas|referred\sto\sas|defined\sas)\s(?:an?\s|the\s)?+"
    r"[\"“‘'*_`]{1,3}([^\W_][^\"”’'*_`\n]{1,58}[^\W_])[\"”’'*_`]"
)
_LINE_REACH = 40
_LOUD = 4
"""Capitals in a row beyond which a word is a heading set in front of its text."""

_DEFINITION = re.compile(
    r"""
    (?P<subject>(?:(?:The|A|An)\s)?+\S++(?:\s(?!(?:is|are|was|were|means|refers|stands)\s)\S++){0,9}?)
    (?:\s\([^()]{1,80}\))?+,?
    \s(?:(?:is|are|was|were)\s(?:(?:also|both|often|usually|typically)\s)?+
         (?:an?|the|one\sof|any|defined\sas)
       |means|refers\sto|stands\sfor)\s
    """,
    re.VERBOSE,
)
_NO_SUBJECT = (
    frozenset(
        "he her here his how i if in it its my she such that their then there these they this "
        "those to we what when where which who why you your".split()
    )
    | _CALENDAR
)
_MOST_SUBJECT_WORDS = 8


def name_key(text: str) -> str:
    """The form under which a name is compared: small letters, no accents, no articles, no
    possessive, words parted by one space. Empty when there is no word in it."""
    words = [_bare(word) for word in _PLAIN_WORD.findall(_fold(text))]
    words = [word for word in words if word]
    while len(words) > 1 and words[0] in _ARTICLES:
        del words[0]
    return " ".join(words)


def names_in(text: str) -> list[Name]:
    """The names, identifiers and defined terms of a text, in order; they do not overlap.

    Years, months and weekdays are not entities.
    """
    masked = [match.span() for match in _NOT_TEXT.finditer(text)] if _may_hold_urls(text) else []
    found = list(_identifiers(text, masked))
    taken = _Spans([*masked, *((name.start, name.end) for name in found)])
    found.extend(name for name in _capitalised(text) if taken.free(name.start, name.end))
    terms = sorted([*_acronyms(text), *_called(text)], key=lambda name: (name.start, -name.end))
    taken = _Spans([*masked, *((name.start, name.end) for name in found)])
    past = 0
    for term in terms:
        if term.start >= past and taken.free(term.start, term.end):
            found.append(term)
            past = term.end
    found.sort(key=lambda name: name.start)
    return found


def facts_in(text: str) -> list[Fact]:
    """The sentences of a text that define something ("X is a ...", "X refers to ...")."""
    facts: list[Fact] = []
    for start, end in sentence_spans(text):
        match = _DEFINITION.match(text, start, end)
        if match is None:
            continue
        subject = match["subject"].strip("\"'“”‘’*_`#, ")
        words = subject.split()
        key = name_key(subject)
        if not key or len(words) > _MOST_SUBJECT_WORDS or _fold(words[0]) in _NO_SUBJECT:
            continue
        facts.append(Fact(subject, key, text[start:end], start, end))
    return facts


def title_aliases(title: str) -> tuple[str, ...]:
    """The keys under which other texts name an article of this title, the full title first.

    ``Boston (band)`` is also named "Boston", ``Paris, Texas`` also "Paris". A question or
    a sentence as title has none: nobody names an article that way.
    """
    title = " ".join(title.split())
    if title.endswith("?"):
        return ()
    plain = _without_parentheses(title)
    forms = [title, plain]
    head, comma, rest = plain.partition(",")
    if comma and rest and all(word[0].isupper() for word in _PLAIN_WORD.findall(head + rest)):
        forms.append(head)
    module, dash, _ = plain.partition(" — ")
    if dash and _IDENTIFIER.fullmatch(module):
        forms.append(module)
    keys = dict.fromkeys(_alias_key(form) for form in forms)
    return tuple(key for key in keys if _can_be_named(key))


class KeyMatcher:
    """Finds names of which the keys are known in texts: longest match, word by word."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = frozenset(key for key in keys if key)
        lengths: dict[str, set[int]] = {}
        for key in self._keys:
            words = key.split(" ")
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    def mentions(self, text: str) -> list[Name]:
        """Where a text uses the keys as names, in order, without overlap.

        Capitals tell a name from ordinary words ("the Long Walk", not "a long walk"); in a
        text without any, keys of two or more words count as they stand. A lone word inside
        a longer name ("York" in "New York") is no mention.
        """
        words = _Words(text)
        keys = words.keys
        cased = text != text.lower()
        found: list[Name] = []
        past = 0
        for at, first in enumerate(keys):
            if at < past or first not in self._lengths:
                continue
            for length in self._lengths[first]:
                key = " ".join(keys[at : at + length])
                if at + length > len(keys) or key not in self._keys:
                    continue
                sure = _used_as_name(words, at, length, cased)
                if sure is not None:
                    start, end = words.start(at), words.end(at + length - 1)
                    found.append(Name(text[start:end], key, Kind.TITLE, start, end, sure))
                    past = at + length
                    break
        return found


class AliasIndex:
    """Which articles a text mentions, by title or alias.

    ``entries`` are (document id, title); several documents may share a title. Aliases of
    more than ``MOST_NAMESAKES`` different titles are left out.
    """

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        documents: dict[str, dict[str, None]] = {}
        titles: dict[str, set[str]] = {}
        for document, title in entries:
            for alias in title_aliases(title):
                documents.setdefault(alias, {})[document] = None
                titles.setdefault(alias, set()).add(name_key(title))
        self._documents = {
            alias: tuple(found)
            for alias, found in documents.items()
            if len(titles[alias]) <= MOST_NAMESAKES
        }
        self._titles = {alias: len(titles[alias]) for alias in self._documents}
        self._matcher = KeyMatcher(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __contains__(self, key: str) -> bool:
        return key in self._documents

    def documents(self, key: str) -> tuple[str, ...]:
        """The documents an alias may mean, in the order they were given."""
        return self._documents.get(key, ())

    def namesakes(self, key: str) -> int:
        """How many different titles share an alias; 0 for none."""
        return self._titles.get(key, 0)

    def mentions(self, text: str) -> list[Name]:
        """The aliases a text uses as names, as ``KeyMatcher.mentions`` finds them."""
        return self._matcher.mentions(text)


def passage_names(passage: Passage, aliases: AliasIndex | None = None) -> list[Name]:
    """Each entity a passage mentions, once: what is stored with it.

    Its section's heading is read too; offsets of what stands only there are -1. With
    ``aliases``, mentions of other articles' titles are among them. A name is sure when one
    of its mentions is.
    """
    by_key: dict[str, Name] = {}
    found = names_in(passage.text)
    if aliases is not None:
        found += aliases.mentions(passage.text)
    if passage.header:
        found += [
            Name(name.text, name.key, name.kind, -1, -1, name.sure)
            for name in names_in(passage.header)
        ]
    for name in found:
        known = by_key.get(name.key)
        if known is None or (name.sure and not known.sure):
            by_key[name.key] = name
    return list(by_key.values())


def phrases(text: str, most_words: int = 64) -> list[str]:
    """The keys of every run of words a question might name something with, longest first:
    what to look up in a store. Only the first ``most_words`` words are taken."""
    words = _Words(text).keys[:most_words]
    runs: dict[str, None] = {}
    for length in range(min(MOST_NAME_WORDS, len(words)), 0, -1):
        for at in range(len(words) - length + 1):
            runs[" ".join(words[at : at + length])] = None
    return [run for run in runs if _can_be_named(run)]


class _Words:
    """The words of a text as keys have them, articles included, and where they stand.

    Places are looked up when first asked for: most texts mention nothing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._spans: list[tuple[int, int]] | None = None
        if text.isascii():
            self.keys = _PLAIN_WORD.findall(text.lower())
            if "'" in text:
                self.keys = [_bare(key) if "'" in key else key for key in self.keys]
        else:
            self.keys = []
            self._spans = []
            for match in _WORD.finditer(text):
                # A ligature or a compatibility form can fold into several words.
                for part in _PLAIN_WORD.findall(_fold(match[0])):
                    self.keys.append(_bare(part))
                    self._spans.append(match.span())

    def start(self, at: int) -> int:
        return self._places()[at][0]

    def end(self, at: int) -> int:
        return self._places()[at][1]

    def capitalised(self, at: int) -> bool:
        return self.text[self.start(at)].isupper()

    def _places(self) -> list[tuple[int, int]]:
        if self._spans is None:
            self._spans = [match.span() for match in _PLAIN_WORD.finditer(self.text)]
        return self._spans


class _Spans:
    """Spans of a text that are spoken for; asked in rising order, one look each."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self._spans = sorted(spans)
        self._at = 0

    def free(self, start: int, end: int) -> bool:
        while self._at < len(self._spans) and self._spans[self._at][1] <= start:
            self._at += 1
        return self._at == len(self._spans) or self._spans[self._at][0] >= end


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Decomposed first: a compatibility form may hide a capital.
    folded = unicodedata.normalize("NFKD", text).casefold()
    decomposed = unicodedata.normalize("NFKD", folded)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _bare(word: str) -> str:
    """A folded word without its apostrophes and without a possessive s."""
    if word.endswith(("'s", "’s")):
        word = word[:-2]
    return word.replace("'", "").replace("’", "")


@lru_cache(maxsize=1)
def _capital() -> str:
    """A character class of all capitals of the Basic Multilingual Plane."""
    ranges: list[str] = []
    first = None
    for code in range(min(0x10000, sys.maxunicode) + 1):
        letter = chr(code)
        if letter.isupper() or letter.istitle():
            first = code if first is None else first
        elif first is not None:
            ranges.append(f"{chr(first)}-{chr(code - 1)}")
            first = None
    return f"[{''.join(ranges)}]"


@lru_cache(maxsize=1)
def _runs() -> re.Pattern[str]:
    """Capitalised words in a row, with the small words that link them."""
    # Groups repeat a bounded number of times: unbounded ones take quadratic time.
    capital = _capital()
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


def _capitalised(text: str) -> Iterator[Name]:
    for match in _runs().finditer(text):
        yield from _split_run(text, match.start(), match.end())


def _split_run(text: str, start: int, end: int) -> Iterator[Name]:
    """The names in a run of capitalised words: mostly one."""
    parts = [(m[0], start + m.start(), start + m.end()) for m in _PART.finditer(text[start:end])]
    first = 0
    for at in range(1, len(parts) + 1):
        if at == len(parts) or _breaks(text, parts[at - 1], parts[at]):
            yield from _name_of(text, parts[first:at])
            first = at


def _breaks(text: str, before: tuple[str, int, int], after: tuple[str, int, int]) -> bool:
    """Whether a sentence or a line ends between two capitalised words."""
    ended = before[0].endswith(".") or (len(before[0]) > _LOUD and before[0].isupper())
    if ended and _fold(after[0]) in _OPENERS:
        return True
    if text[before[2]] != "\n":
        return False
    # A full line goes on in the next one; a short one is a heading or an item of a list.
    return "\n" in text[max(0, before[2] - _LINE_REACH) : before[2]] or before[2] < _LINE_REACH


def _name_of(text: str, parts: Sequence[tuple[str, int, int]]) -> Iterator[Name]:
    opens = _opens_sentence(text, parts[0][1])
    at = 0
    while at < len(parts):
        word = _fold(parts[at][0]).rstrip(".")
        if word in _HONORIFICS or word in _ARTICLES or (opens and word in _OPENERS):
            at += 1
        else:
            break
    alone = len(parts) == 1
    parts = parts[at:]
    if not parts or len(parts) > MOST_NAME_WORDS or not parts[0][0][0].isupper():
        return
    start, end = parts[0][1], parts[-1][2]
    if text[start:end].endswith(("'s", "’s")):
        end -= 2
    key = name_key(text[start:end])
    if _can_be_named(key):
        yield Name(text[start:end], key, Kind.NAME, start, end, not (alone and opens))


def _opens_sentence(text: str, start: int) -> bool:
    at = start - 1
    quoted = False
    while at >= 0 and text[at] in " \t\"“”‘'([*_>#-":
        quoted = quoted or text[at] in "\"“‘'"
        at -= 1
        if start - at > _LINE_REACH:
            return False
    return at < 0 or text[at] in ".!?:;…\n|•" or (quoted and text[at] == ",")


def _can_be_named(key: str) -> bool:
    """Whether a key can stand for something: not a number, a letter, or a word that every
    text holds."""
    if not key or len(key) < 2:
        return False
    if " " in key:
        # A date ("may 1984") is not an entity, nor is a lone number with an article.
        return any(not word.isdigit() and word not in _CALENDAR for word in key.split())
    return not (key.isdigit() or key in _OPENERS or key in _CALENDAR or key in _HONORIFICS)


def _may_hold_urls(text: str) -> bool:
    return "://" in text or "@" in text or "www." in text


def _may_hold_code(text: str) -> bool:
    return any(sign in text for sign in ("_", "()", "::", "->")) or any(
        sign.search(text) for sign in _CODE_SIGNS
    )


def _identifiers(text: str, masked: Sequence[tuple[int, int]]) -> Iterator[Name]:
    if not _may_hold_code(text):
        return
    taken = _Spans(masked)
    for match in _IDENTIFIER.finditer(text):
        found = match[0]
        bare = found.removesuffix("()")
        if bare.rpartition(".")[2].lower() in _DOMAINS or not taken.free(*match.span()):
            continue
        if _is_glued(text, found, match.start()):
            continue
        yield Name(found, _fold(bare), Kind.IDENTIFIER, match.start(), match.end())


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
        before = list(_PLAIN_WORD.finditer(text, reach, max(reach, end)))[-len(letters) :]
        if len(before) == len(letters) and all(
            _fold(word[0])[:1] == letter for word, letter in zip(before, letters, strict=True)
        ):
            start = before[0].start()
            yield Name(text[start:end], name_key(text[start:end]), Kind.TERM, start, end)


def _called(text: str) -> Iterator[Name]:
    """Quoted terms that are introduced as such: is called "back pressure"."""
    for match in _CALLED.finditer(text):
        key = name_key(match[1])
        if _can_be_named(key) and key.count(" ") < MOST_NAME_WORDS:
            yield Name(match[1], key, Kind.TERM, match.start(1), match.end(1))


def _without_parentheses(title: str) -> str:
    head, bracket, rest = title.partition("(")
    while bracket:
        _, closed, rest = rest.partition(")")
        if not closed:
            break
        more, bracket, rest = rest.partition("(")
        head += more
    return " ".join(head.split())


def _alias_key(form: str) -> str:
    if _IDENTIFIER.fullmatch(form):
        return _fold(form.removesuffix("()"))
    key = name_key(form)
    return key if key.count(" ") < MOST_NAME_WORDS else ""


def _used_as_name(words: _Words, at: int, length: int, cased: bool) -> bool | None:
    """Whether words that form an alias are used as a name here: surely (true), perhaps
    (false), or not at all (``None``)."""
    opens = _opens_sentence(words.text, words.start(at))
    if length == 1:
        if not words.capitalised(at) or _inside_longer_name(words, at):
            return None
        return not opens
    capitals = [words.capitalised(i) for i in range(at, at + length)]
    if not cased or sum(capitals) > 1 or any(map(str.isdigit, words.keys[at : at + length])):
        return True
    if not any(capitals):
        return None
    return not (capitals[0] and opens)


def _inside_longer_name(words: _Words, at: int) -> bool:
    """Whether the word next to this one belongs to the same name."""
    if at > 0 and _joined(words, at - 1) and words.capitalised(at - 1):
        before = words.keys[at - 1]
        if before not in _OPENERS or not _opens_sentence(words.text, words.start(at - 1)):
            return before not in _ARTICLES
    return at + 1 < len(words.keys) and _joined(words, at) and words.capitalised(at + 1)


def _joined(words: _Words, at: int) -> bool:
    """Whether a word and the next are parted by one space, hyphen or ampersand."""
    end = words.end(at)
    return words.start(at + 1) == end + 1 and words.text[end] in " -&"

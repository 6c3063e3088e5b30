"""Questions in good English, from the headings and definitions of a text.

Each rule asks only where the words leave no doubt about the grammar: "Open a shell" becomes "How
do I open a shell?", while "Debug mode" is no request to debug something and becomes nothing.
Whether a word is a name is seen in the text itself: one that it also writes in lower case is not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from packwise.lazy_pattern import lazy_pattern

_WORD = lazy_pattern(r"[A-Za-z][\w'’.+/-]*")
_SENTENCE_START = lazy_pattern(r"(?:^|[.!?:\n\"“(>|*-]\s*)$")
VERBS = frozenset(
    """
    accept access activate add adjust allow apply archive assign attach authenticate automate avoid
    back block build call cancel capture catch change check choose clean clear clone close collect
    combine commit compare compile compress configure connect contribute control convert copy create
    customize debug declare decrypt define delete deploy describe detect develop disable discard
    display distribute document download edit embed enable encode encrypt escape evaluate exclude
    execute expand export expose extend extract fetch filter find fix follow format generate get
    give grant group handle hide host identify ignore implement import improve include increase
    inherit initialize insert inspect install integrate invoke join keep launch limit link list load
    lock log maintain make manage map measure merge migrate mock modify monitor mount move open
    optimize order organize override pack parse pass patch perform pin plan prepare prevent print
    process protect provide publish pull push query quote read rebuild receive record recover
    redirect reduce refresh register release reload remove rename render repair repeat replace
    report request reset resolve restart restore restrict retrieve return revert review revoke
    rotate run save scale schedule search secure select send serialize serve set share show sign
    silence skip sort specify split start stop store stream submit subscribe suppress switch
    synchronize tag tell terminate test trace track train transfer transform translate trigger
    troubleshoot tune turn undo uninstall unlock unpack update upgrade upload use validate verify
    view watch wrap write
    """.split()
)
# As in "Format options": before a plural they are nouns as often as verbs.
_ALSO_NOUNS = frozenset(
    """
    access archive block build call change check clone control copy debug display document download
    escape export filter fix format group handle host import install limit link list load lock log
    map mock monitor mount move order pack patch plan print process pull push query quote record
    release report request reset return review run scale schedule search set share show sign sort
    split start stop store stream switch tag test trace track train transfer trigger update upgrade
    upload use view watch
    """.split()
)
# "Using applications" is no question that anyone asks.
_BROAD = frozenset("use get make find handle manage".split())
_DETERMINERS = frozenset("a an the your my our this all each every any some multiple it".split())
_SMALL = _DETERMINERS | frozenset(
    "and or of for in on with without from to by as at into over under using via is are its"
    " behind between before after when if not".split()
)
# A subject with one of these words cannot be understood without the text around it.
VAGUE = frozenset(
    """
    it he she they we you this that these those there here who what which its his her their our my
    your as if when while although because one some many most other others another same only both
    such first second third last next previous following above below former latter example reason
    goal aim idea problem result value default argument parameter sender note half part rest way
    thing case point step answer question difference advantage option alternative output input
    return name key type object class function method section chapter page table figure image file
    purpose typically usually often also however thus so now then all any each every no not
    middle left right top bottom new old base main latest line lines row rows column columns steps
    """.split()
)
_DEFINITION = lazy_pattern(
    r"(?:(?P<article>An?|The) )?(?P<subject>[A-Za-z][\w.+/-]*(?: [\w.+/-]+){0,3}) "
    r"(?P<verb>is|are|was|were) (?P<what>(?:an?|the|one of) .+)",
    re.DOTALL,
)
_PERSON = lazy_pattern(
    r"\b\w*(?:ist|ician|ographer|actor|actress|writer|poet|singer|player|king|queen|president|"
    r"minister|politician|author|engineer|director|composer|painter|emperor|general|professor)\b"
)
_PLACEHOLDER = lazy_pattern(r"(\w)\1+|[A-Z-]{6,}")
"""As in "the VVV component" and "PATHPREFIX"."""
_MECHANISM = lazy_pattern(r"How (?P<what>.+?) (?P<verb>[Ww]orks?)")
_NUMBER = lazy_pattern(
    r"^(?:(?:chapter|section|part) (?:\d+(?:\.\d+)*|[ivx]+)|\d+(?:\.\d+)*)[.:)]? (?=\S)",
    re.IGNORECASE,
)
"""The number of a section: "7.8. What is a virtual package?"."""
_POINTING = frozenset("this that these those it them about not no if etc etc.".split())
_HELPERS = frozenset(
    "is are was were do does did can could should would will may might must has have".split()
)
_ASKS = frozenset(
    "how what why when where which who whose can could do does did is are should will may".split()
)


class Spelling:
    """How a text writes its words where they do not begin a sentence or a title."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._lower: Counter[str] = Counter()
        self._capital: Counter[str] = Counter()
        self._text = " ".join(texts)
        for match in _WORD.finditer(self._text):
            word = match[0].rstrip(".'’-/")
            if word[:1].islower():
                self._lower[word] += 1
            elif not _SENTENCE_START.search(self._text[max(0, match.start() - 3) : match.start()]):
                self._capital[word] += 1

    def within(self, word: str) -> str | None:
        """A word of a heading as it is written within a sentence; ``None`` if that is not seen.
        Words such as ``SQLite`` and ``config.py`` stay as they are."""
        if word == "I":
            return word
        if word.lower() in _SMALL:
            return word.lower()
        if not word[:1].isupper() or any(c.isupper() or c.isdigit() for c in word[1:]):
            return word
        lower, capital = self._lower[word.lower()], self._capital[word]
        if lower == capital == 0:
            return None
        return word.lower() if lower >= capital else word

    def is_name(self, word: str) -> bool:
        """Whether the text never writes the word in lower case."""
        return word[:1].isupper() and not self._lower[word.lower()]

    def is_capital(self, word: str) -> bool:
        """Whether the text writes the word with a capital within a sentence."""
        return self._capital[word] > 0

    def has_verb(self, verb: str, noun: str) -> bool:
        """Whether the text uses the word as a verb, with that noun after it."""
        stem = noun.lower().removesuffix("s").removesuffix("e")
        form = rf"{verb}(?:s|d|ed)?"
        if verb.endswith("y"):
            form += rf"|{verb[:-1]}(?:ies|ied)"
        pattern = rf"\b(?:{form})\b(?:[ ,]+[\w'’-]+){{0,3}}?[ ,]+{re.escape(stem)}"
        return re.search(pattern, self._text, re.IGNORECASE) is not None

    def base_form(self, gerund: str) -> str | None:
        """The verb that a word in -ing comes from, if it is a well-known one."""
        stem = gerund.lower().removesuffix("ing")
        forms = (stem, f"{stem}e", stem[:-1] if stem[-2:-1] == stem[-1:] else "")
        return next((form for form in forms if form in VERBS), None)


def in_first_person(words: Iterable[str]) -> list[str]:
    """The words of an instruction as the one who asks for it says them."""
    own = {"your": "my", "yours": "mine", "yourself": "myself", "you": "I"}
    return [own.get(word.lower(), word) for word in words]


def question_from_heading(heading: str, spelling: Spelling) -> str | None:
    """The question that a section with this heading answers; ``None`` if that is not sure."""
    heading = _NUMBER.sub("", " ".join(heading.split()).rstrip(".:"))
    words = heading.split()
    if heading.endswith("?"):
        asks = words[0].lower() in _ASKS and 3 <= len(words) <= 16
        asked = set(heading.lower().rstrip("?").split())
        asks = asks and not _POINTING.intersection(asked)
        asks = asks and (words[0].lower() != "how" or bool(_HELPERS.intersection(asked)))
        rest = [spelling.within(word) for word in heading.rstrip("?").split()[1:]]
        asks = asks and None not in rest
        return f"{words[0].capitalize()} {' '.join(map(str, rest))}?" if asks else None
    if not 2 <= len(words) <= 9 or not re.fullmatch(r"[\w\s'’./+-]+", heading):
        return None
    if mechanism := _MECHANISM.fullmatch(heading):
        return _mechanism(mechanism["what"].split(), mechanism["verb"], spelling)
    told_how = words[0].lower() == "how" and words[1].lower() == "to" and len(words) > 3
    if told_how:
        words = words[2:]
    first, rest = words[0].lower(), words[1:]
    if _POINTING.intersection(word.lower() for word in rest):
        return None
    verb = first if first in VERBS else None
    if verb is None and first.endswith("ing"):
        verb = spelling.base_form(first)
        ambiguous = False
    else:
        ambiguous = first in _ALSO_NOUNS
    if verb is None or not (told_how or _is_object(verb, rest, spelling, ambiguous)):
        return None
    spelled = [spelling.within(word) for word in rest]
    if any(word is None for word in spelled):
        return None
    return f"How do I {verb} {' '.join(in_first_person(map(str, spelled)))}?"


def _is_object(verb: str, words: list[str], spelling: Spelling, ambiguous: bool) -> bool:
    """Whether a verb with these words is a request: its object has an article, or is a name or a
    plural that the text uses with the verb."""
    first = words[0]
    if first.lower() in _DETERMINERS:
        return len(words) > 1
    if words[-1].lower() in _SMALL:
        return False
    nouns = [word for word in words if word.lower() not in _SMALL]
    end = next((at for at, word in enumerate(words) if word.lower() in _SMALL), len(words))
    if end == 0:
        # "Connect to a database": what follows the preposition needs its article as well.
        return first.lower() in ("to", "from", "with", "for", "on") and _is_phrase(words[1:])
    head = words[end - 1]
    if len(words) == 1 and verb in _BROAD:
        return False
    if spelling.is_name(head) and not ambiguous:
        return spelling.within(head) == head
    return bool(nouns) and not ambiguous and _is_plural(head) and spelling.has_verb(verb, head)


def _is_phrase(words: list[str]) -> bool:
    return len(words) > 1 and words[0].lower() in _DETERMINERS


def _is_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3


def _mechanism(words: list[str], verb: str, spelling: Spelling) -> str | None:
    spelled = [spelling.within(word) for word in words]
    if any(word is None for word in spelled):
        return None
    helper = "does" if verb.endswith("s") else "do"
    return f"How {helper} {' '.join(map(str, spelled))} work?"


def question_from_definition(sentence: str, spelling: Spelling) -> str | None:
    """The question that a sentence such as "A blueprint is a set of operations" answers."""
    found = _DEFINITION.fullmatch(" ".join(sentence.split()).rstrip("."))
    if found is None:
        return None
    article, subject, verb = found["article"] or "", found["subject"], found["verb"]
    words = subject.split()
    if VAGUE.intersection(word.lower() for word in words) or _SMALL.intersection(words):
        return None
    if len(subject) < 3 or "_" in subject or any(map(_PLACEHOLDER.fullmatch, words)):
        return None
    gerund = len(words) > 1 and words[0].lower().endswith("ing")
    if gerund or words[-1].lower().endswith(("ly", "ed")) or (article == "The" and len(words) < 2):
        return None
    names = all(word[:1].isupper() for word in words)
    if verb in ("was", "were") and not (article or names):
        return None
    asked = "What"
    if not article:
        if names and len(words) in (2, 3) and all(map(spelling.is_name, words)):
            if not _PERSON.search(found["what"]):
                return None
            asked = "Who"
        first = spelling.within(words[0])
        if len(words) == 1 and verb == "is" and spelling.is_capital(words[0]):
            # Only a name has no article: "Click is a package", whatever the code writes.
            first = words[0]
        if first is None:
            return None
        # Without an article a singular noun is not good English, unless it names a thing.
        singular = verb in ("is", "was") and first.islower() and not first.endswith("ing")
        if singular and (len(words) > 1 or _is_plural(first)):
            return None
        words[0] = first
    shown = f"{article.lower()} {' '.join(words)}".strip()
    return f"{asked} {verb} {shown}?"

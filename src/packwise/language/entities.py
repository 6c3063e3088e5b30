"""The entities and facts of passages, as stores keep them.

Both are found by rule (``names.py``) when a document is written, so a store can be built one
document at a time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from packwise.documents import Passage
from packwise.language.analyzer import fold
from packwise.language.key_matcher import KeyMatcher
from packwise.language.names import CALENDAR, Name, name_key, names_in, title_aliases
from packwise.language.sentences import OPENING_WORDS, sentence_spans
from packwise.lazy_pattern import lazy_pattern

MOST_NAMESAKES = 8
"""Titles that may share an alias; an alias of more titles does not say which one is meant."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that says what its subject is."""

    subject: str
    key: str
    text: str
    start: int
    end: int


_VERB = r"""
    \s(?:(?:is|are|was|were)\s(?:(?:also|both|often|usually|typically)\s)?+
         (?:an?|the|one\sof|any|defined\sas)
       |means|refers\sto|stands\sfor)(?=\s)
    """
_DEFINITION = lazy_pattern(
    rf"""
    (?P<subject>(?:(?:The|A|An)\s)?+\S++(?:\s(?!(?:is|are|was|were|means|refers|stands)\s)\S++){{0,9}}?)
    (?:\s\([^()]{{1,80}}\))?+,?
    {_VERB}
    """,
    re.VERBOSE,
)
_DEFINES = lazy_pattern(_VERB, re.VERBOSE)
_NO_SUBJECT = (
    frozenset(
        "he her here his how i if in it its my she such that their then there these they this "
        "those to we what when where which who why you your".split()
    )
    | CALENDAR
)
_NO_FIRST_WORD = (OPENING_WORDS - {"a", "an", "the"}) | {"using", "imagine", "notably"}
_MOST_SUBJECT_WORDS = 8
_LIST_MARK = lazy_pattern(r"(?:[-*+•]|\d{1,3}[.)])\s+")
_STUB = lazy_pattern(r":\s*\Z|\bEnlarge\b|(?:\A|\n)\s*#")
"""Announces a list, is a comment in code, or holds the caption of a picture."""


def facts_in(text: str) -> list[Fact]:
    """The sentences of a text that define something ("X is a ...", "X refers to ...")."""
    facts: list[Fact] = []
    defined = [match.end() for match in _DEFINES.finditer(text)]
    for start, end in sentence_spans(text) if defined else ():
        at = bisect_right(defined, start)
        if at == len(defined) or defined[at] >= end:
            continue
        mark = _LIST_MARK.match(text, start, end)
        start = mark.end() if mark else start
        match = _DEFINITION.match(text, start, end)
        if match is None or _STUB.search(text[start:end]):
            continue
        subject = match["subject"].strip("\"'“”‘’*_`, ")
        words = [fold(word).strip(",") for word in subject.split()]
        key = name_key(subject)
        if not key or len(words) > _MOST_SUBJECT_WORDS or words[0] in _NO_FIRST_WORD:
            continue
        if not _NO_SUBJECT.isdisjoint(words):
            continue
        facts.append(Fact(subject, key, text[start:end], start, end))
    return facts


class AliasIndex(KeyMatcher):
    """Finds the articles that a text mentions, by title or alias.

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
        super().__init__(self._documents)

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __contains__(self, key: str) -> bool:
        return key in self._documents

    def documents(self, key: str) -> tuple[str, ...]:
        """The documents an alias may mean, in the order they were given."""
        return self._documents.get(key, ())


def passage_names(passage: Passage, aliases: KeyMatcher | None = None) -> list[Name]:
    """Each entity that a passage or its heading mentions, once, as it is stored.

    Names that occur only in the heading have offsets of -1. With ``aliases``, mentions of other
    articles' titles are included. A name is sure when one of its mentions is.
    """
    by_key: dict[str, Name] = {}
    found = names_in(passage.text, passage.lang)
    if aliases is not None:
        found += aliases.mentions(passage.text)
    if passage.header:
        found += _names_in_heading(passage.header, passage.lang)
    for name in found:
        known = by_key.get(name.key)
        if known is None or (name.sure and not known.sure):
            by_key[name.key] = name
    return list(by_key.values())


@lru_cache(maxsize=64)
def _names_in_heading(heading: str, lang: str) -> tuple[Name, ...]:
    """The names in a heading, which the passages of a section have in common."""
    return tuple(replace(name, start=-1, end=-1) for name in names_in(heading, lang))

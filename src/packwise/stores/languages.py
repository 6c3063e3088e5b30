"""The languages that a store holds, and how a question is read in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from packwise.candidates import EVERYTHING, Filter
from packwise.language.analyzer import joined_verbs, terms
from packwise.language.compounds import has_compounds, parts, splits
from packwise.language.detection import guess, has_english_words, question_language
from packwise.language.languages import language_name
from packwise.models.table import languages_read
from packwise.stores.base import Store, TermStatistics

MOST_TERMS = 512
"""Distinct terms of a question that are searched; a longer text is a document."""
_MOST_CHECKED = 64
"""Terms of a question that are looked up one by one; those after count as unknown."""


class LanguageCounts:
    """The number of documents per language, counted once for each version of a store."""

    def __init__(self) -> None:
        self._known: tuple[str, Mapping[str, int]] = ("", {})

    def of(self, version: str, langs: Callable[[], Iterable[str]]) -> Mapping[str, int]:
        """The counts of a version; ``langs`` returns the language of each document."""
        known, counts = self._known
        if known != version:
            counts = dict(Counter(langs()).most_common())
            self._known = (version, counts)
        return counts


def language_of(question: str, store: Store) -> str:
    """The language in which to read a question to a store, as ``terms`` takes it."""
    return question_language(question, store.languages())


def unread_language(question: str, store: Store, model: str) -> str:
    """The language of a question if the model is known not to read it, else empty."""
    read = languages_read(model)
    if not read:
        return ""
    lang = language_of(question, store).partition(" ")[0]
    if lang in read:
        if "en" in read and has_english_words(question):
            return ""
        lang = guess(question) or lang
    return "" if lang in read else lang


def unread_note(model: str, lang: str) -> str:
    """What a user reads of a question in a language that the embedder does not read."""
    return (
        f"{model} does not read {language_name(lang)}: meaning is not compared, only words"
        " -> packwise build --embedder MODEL --reembed"
    )


def visible_statistics(store: Store, asked: Sequence[str], where: Filter) -> TermStatistics:
    """The statistics of terms for someone who sees the passages of a filter: a term that none of
    those holds counts as unknown. Scores would otherwise tell whether others have it."""
    known = store.term_statistics(asked)
    if not (where.tenant or where.acl):
        return known
    held = {
        term: known.frequency[term]
        for term in list(dict.fromkeys(asked))[:_MOST_CHECKED]
        if known.frequency.get(term) and store.keyword_search([term], 1, where)
    }
    return replace(known, frequency=held)


def question_terms(question: str, store: Store, where: Filter = EVERYTHING) -> list[str]:
    """The distinct terms with which a question is searched.

    Where its language is not clear, the terms of further languages count only if the store
    holds them: a word that is read in two ways must not look like two unknown words. The same
    holds for the nouns of phrasal verbs. A word that no passage holds is searched as the two words
    that it is made of ("Urlaubstage"), if the store holds both, else with the one that it holds.
    """
    lang = language_of(question, store)
    first, *others = lang.split() or ("",)
    found = dict.fromkeys(_with_parts(terms(question, first)[:MOST_TERMS], first, store, where))
    other_ways = terms(question, " ".join(others)) if others else []
    if first in ("", "en"):
        other_ways += joined_verbs(question)
    if more := [term for term in other_ways if term not in found]:
        frequency = visible_statistics(store, more, where).frequency
        found.update(dict.fromkeys(term for term in more if frequency.get(term)))
    return list(found)[:MOST_TERMS]


def _with_parts(asked: list[str], lang: str, store: Store, where: Filter) -> list[str]:
    """Terms of a question, those that the store does not hold as their parts."""
    if not has_compounds(lang):
        return asked
    known = visible_statistics(store, asked, where).frequency
    unknown = [
        part
        for term in asked
        if not known.get(term)
        for pair in splits(term, lang)
        for part in pair
    ]
    if not unknown:
        return asked
    held = {t for t, count in visible_statistics(store, unknown, where).frequency.items() if count}
    held.update(term for term in asked if known.get(term))
    return [part for term in asked for part in parts(term, lang, held)]

"""Words that are written together: "Urlaubstage" is "Urlaub" and "Tage".

No dictionary is needed: which readings of a word make sense shows the store that holds its parts.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from packwise.language.analyzer import terms
from packwise.language.languages import known_language

_FIRST, _LAST, _ALONE = 4, 3, 4
"""The least letters of the first part and of the last, and of a part that stands for both."""


def has_compounds(lang: str) -> bool:
    """Whether a language writes several words as one."""
    language = known_language(lang)
    return language is not None and language.compounds


def splits(term: str, lang: str) -> Iterator[tuple[str, str]]:
    """The index terms of both parts of a term, for every place where it may be two words; the
    most even parts come first. Nothing in a language that does not write words together."""
    if not has_compounds(lang) or not term.isalpha():
        return
    places = range(_LAST, len(term) - _LAST + 1)
    for at in sorted(places, key=lambda at: abs(2 * at - len(term))):
        first, last = terms(term[:at], lang), terms(term[at:], lang)
        if len(first) == len(last) == 1:
            yield first[0], last[0]


def parts(term: str, lang: str, held: Container[str]) -> tuple[str, ...]:
    """What a term is searched as: if it is not held itself, its parts where both are; else it
    and the longest part that is held, so that it still counts as a word that is not there."""
    if term in held:
        return (term,)
    pairs = list(splits(term, lang))
    for pair in pairs:
        if len(pair[0]) >= _FIRST and pair[0] in held and pair[1] in held:
            return pair
    alone = {part for pair in pairs for part in pair if len(part) >= _ALONE and part in held}
    return (term, max(sorted(alone), key=len)) if alone else (term,)

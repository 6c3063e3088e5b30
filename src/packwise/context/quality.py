"""The quality of a section, and what exempts a short one.

It is that of step 7 of the specification, to the digit:

    words < 20      0
    else            min(1, length + keywords)
    length          min(0.8, 0.2 + words / 200 * 0.6)
    keywords        0.2 * share of the question's keywords that the section holds
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from packwise.language.analyzer import FUNCTION_WORDS
from packwise.language.words import count_words, words
from packwise.lazy_pattern import lazy_pattern

QUALITY_THRESHOLD = 0.3
"""Sections that score less are left out."""

STUB_WORDS = 20
"""Sections with fewer words score 0."""

# Longer texts reach the quality threshold by their length.
_LONGEST_EXEMPT = 600
_DEFINES = lazy_pattern(
    r"\s*+(?:[-*•]\s+)?(?P<subject>[^\n;:|=()]{1,80}?)\s*(?:\([^()\n]{0,80}\)\s*)?"
    r"(?:(?:\bis|\bare|\bwas|\bwere|\bmeans?|\brefers? to|\bdenotes?|\bstands? for|\bequals?)\b"
    r"|:(?!:)|\s[–—=-]\s)\s*(?P<said>[^\n]+)"
)
_POINTERS = frozenset({"see", "also", "category", "categories", "main", "article", "contents"})
_SIGNATURE = lazy_pattern(r"(?P<name>[^\W\d][\w.]{0,80})\([^()\n]{0,200}\)")
_NAME_PARTS = lazy_pattern(r"[^\W_]+")


@lru_cache(maxsize=256)
def keywords(question: str) -> frozenset[str]:
    """The words of a question that are not function words."""
    return _content_words(question)


def _content_words(text: str) -> frozenset[str]:
    return frozenset(words(text)) - FUNCTION_WORDS


def quality(word_count: int, matched: int, wanted: int) -> float:
    """The score of a section with this many words and ``matched`` of ``wanted`` keywords."""
    if word_count < STUB_WORDS:
        return 0.0
    length = min(0.8, 0.2 + word_count / 200 * 0.6)
    return min(1.0, length + (matched / wanted * 0.2 if wanted else 0.0))


def section_quality(content: str, question: str) -> float:
    """The quality of a section for a question, 0..1."""
    found, wanted = words(content), keywords(question)
    return quality(count_words(found), len(wanted & set(found)), len(wanted))


class Exemption(StrEnum):
    """Why a passage below the quality threshold is kept."""

    DEFINITION = "definition"
    SIGNATURE = "signature"
    TABLE_ROW = "table_row"
    BEST_RANKED = "best_ranked"


def exemption(content: str, question: str, heading: str = "") -> Exemption | None:
    """Why a short passage answers the question directly, if it does.

    A definition of a term of the question or of what its own heading names, the signature
    of something the question names, or a table row about one of its terms.
    """
    wanted = keywords(question)
    if not wanted or len(content) > _LONGEST_EXEMPT:
        return None
    if _is_signature(content, wanted):
        return Exemption.SIGNATURE
    if _is_row(content, wanted):
        return Exemption.TABLE_ROW
    return Exemption.DEFINITION if _is_definition(content, wanted | keywords(heading)) else None


def _is_definition(content: str, wanted: frozenset[str]) -> bool:
    found = _DEFINES.match(content)
    if found is None:
        return False
    subject, said = _content_words(found["subject"]), _content_words(found["said"])
    return bool(subject & wanted) and not subject & _POINTERS and bool(said - subject - wanted)


def _is_signature(content: str, wanted: frozenset[str]) -> bool:
    named = {part for word in wanted for part in _NAME_PARTS.findall(word)} - FUNCTION_WORDS
    return any(
        named.intersection(_NAME_PARTS.findall(found["name"].lower()))
        for found in _SIGNATURE.finditer(content)
    )


def _is_row(content: str, wanted: frozenset[str]) -> bool:
    for line in content.splitlines():
        cells = [frozenset(words(cell)) for cell in re.split(r"\||\t", line)]
        named = any(cell & wanted for cell in cells)
        if named and any(cell and not cell & wanted for cell in cells):
            return True
    return False

"""Step 7: whether a section is worth the reader's tokens.

    words < 20      0
    else            min(1, length + keywords)
    length          min(0.8, 0.2 + words / 200 * 0.6)
    keywords        0.2 * share of the question's keywords that the section holds

The score is the specification's, to the digit. Words are counted without punctuation, so a
question mark does not cost a match. The filter, not the score, spares a short passage that
answers directly.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from packwise.language.analyzer import FUNCTION_WORDS

QUALITY_THRESHOLD = 0.3
"""Sections that score less are left out."""

STUB_WORDS = 20
"""Sections with fewer words score 0."""

_FULL_LENGTH = 200
_LENGTH_FLOOR, _LENGTH_RISE, _LENGTH_CEILING = 0.2, 0.6, 0.8
_KEYWORD_SHARE = 0.2

STOP_WORDS = FUNCTION_WORDS

# Longer ones reach the threshold by their length.
_LONGEST_SPARED = 600
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”‘’„«»‹›…–—¿¡·•。、，？！：；（）"


class Spared(StrEnum):
    """Why a passage below the threshold is kept after all."""

    DEFINITION = "definition"
    SIGNATURE = "signature"
    TABLE_ROW = "table_row"
    BEST_RANKED = "best_ranked"


def words(text: str) -> list[str]:
    """The words of a text in lower case, without the punctuation around them."""
    return [word for raw in text.lower().split() if (word := raw.strip(_PUNCTUATION))]


@lru_cache(maxsize=256)
def keywords(question: str) -> frozenset[str]:
    """The words of a question that are not function words."""
    return frozenset(words(question)) - STOP_WORDS


def quality(word_count: int, matched: int, wanted: int) -> float:
    """The score of a section of so many words that holds ``matched`` of ``wanted`` keywords."""
    if word_count < STUB_WORDS:
        return 0.0
    length = min(_LENGTH_CEILING, _LENGTH_FLOOR + word_count / _FULL_LENGTH * _LENGTH_RISE)
    overlap = matched / wanted if wanted else 0.0
    return min(1.0, length + min(_KEYWORD_SHARE, overlap * _KEYWORD_SHARE))


def section_quality(content: str, question: str) -> float:
    """The quality of a section for a question, 0..1."""
    found, wanted = words(content), keywords(question)
    return quality(len(found), len(wanted & set(found)), len(wanted))


def keep_section(content: str, question: str | None, threshold: float = QUALITY_THRESHOLD) -> bool:
    """Whether a section goes on. Without a question nothing is filtered."""
    if question is None or section_quality(content, question) >= threshold:
        return True
    return spared(content, question) is not None


_DEFINES = re.compile(
    r"\s*+(?:[-*•]\s+)?(?P<subject>[^\n;:|=()]{1,80}?)\s*(?:\([^()\n]{0,80}\)\s*)?"
    r"(?:(?:\bis|\bare|\bwas|\bwere|\bmeans?|\brefers? to|\bdenotes?|\bstands? for|\bequals?)\b"
    r"|:(?!:)|\s[–—=-]\s)\s*(?P<said>[^\n]+)"
)
_POINTERS = frozenset({"see", "also", "category", "categories", "main", "article", "contents"})
_SIGNATURE = re.compile(r"(?P<name>[^\W\d][\w.]{0,80})\([^()\n]{0,200}\)")
_NAME_PARTS = re.compile(r"[^\W_]+")


def spared(content: str, question: str, heading: str = "") -> Spared | None:
    """Why a short passage answers the question directly, if it does.

    A definition of a term of the question or of what its own heading names, the signature
    of something the question names, or a row of a table about one of its terms.
    """
    wanted = keywords(question)
    if not wanted or len(content) > _LONGEST_SPARED:
        return None
    if _is_signature(content, wanted):
        return Spared.SIGNATURE
    if _is_row(content, wanted):
        return Spared.TABLE_ROW
    if _is_definition(content, wanted | keywords(heading)):
        return Spared.DEFINITION
    return None


def _is_definition(content: str, wanted: frozenset[str]) -> bool:
    found = _DEFINES.match(content)
    if found is None:
        return False
    subject = frozenset(words(found["subject"])) - STOP_WORDS
    said = frozenset(words(found["said"])) - STOP_WORDS
    return bool(subject & wanted) and not subject & _POINTERS and bool(said - subject - wanted)


def _is_signature(content: str, wanted: frozenset[str]) -> bool:
    named = {part for word in wanted for part in _NAME_PARTS.findall(word)} - STOP_WORDS
    return any(
        named.intersection(_NAME_PARTS.findall(found["name"].lower()))
        for found in _SIGNATURE.finditer(content)
    )


def _is_row(content: str, wanted: frozenset[str]) -> bool:
    for line in content.splitlines():
        cells = [frozenset(words(cell)) for cell in re.split(r"\||\t", line)]
        named = [cell for cell in cells if cell & wanted]
        if named and any(cell and not cell & wanted for cell in cells):
            return True
    return False

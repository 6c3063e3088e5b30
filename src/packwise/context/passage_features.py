"""What is known of a passage from its text alone: its units, their words, its quality.

The quality of a section is that of step 7 of the specification, to the digit:

    words < 20      0
    else            min(1, length + keywords)
    length          min(0.8, 0.2 + words / 200 * 0.6)
    keywords        0.2 * share of the question's keywords that the section holds

Words are counted without punctuation, so a question mark does not cost a match. Scripts that
put no spaces between words (Chinese, Japanese, Thai and others) are read in overlapping pairs
of characters, and two characters count as one word.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from packwise.context.units import Units, read_clauses, read_units
from packwise.documents import Block, Passage
from packwise.language.analyzer import FUNCTION_WORDS, terms
from packwise.language.word_classes import NAME, Features, find_features, find_names

Integers = NDArray[np.int64]

QUALITY_THRESHOLD = 0.3
"""Sections that score less are left out."""

STUB_WORDS = 20
"""Sections with fewer words score 0."""

# Words per shingle, the unit in which repetition is measured.
_SHINGLE = 5
# One in so many shingles goes into the sample that is compared first.
_SAMPLE = 4
_MIX, _LOW, _HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFFFFFF), np.uint64(1 << 32)

# A text is a duplicate when this share of its shingles is found in a better one.
_DUPLICATE_SHARE = 0.8
# A text whose sample of shingles is smaller than this is compared in full.
_SMALL_SAMPLE = 4

# Longer texts reach the quality threshold by their length.
_LONGEST_EXEMPT = 600
# The scripts that are written without spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”‘’„«»‹›…–—¿¡·•。、，？！：；（）"
_DEFINES = re.compile(
    r"\s*+(?:[-*•]\s+)?(?P<subject>[^\n;:|=()]{1,80}?)\s*(?:\([^()\n]{0,80}\)\s*)?"
    r"(?:(?:\bis|\bare|\bwas|\bwere|\bmeans?|\brefers? to|\bdenotes?|\bstands? for|\bequals?)\b"
    r"|:(?!:)|\s[–—=-]\s)\s*(?P<said>[^\n]+)"
)
_POINTERS = frozenset({"see", "also", "category", "categories", "main", "article", "contents"})
_SIGNATURE = re.compile(r"(?P<name>[^\W\d][\w.]{0,80})\([^()\n]{0,200}\)")
_NAME_PARTS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class PassageFeatures:
    """What a text holds, without regard to a question.

    ``units`` are spans; ``term_units`` the units in which an index term occurs; ``brings`` the
    units that are shown with a unit, and ``code`` those that are code. ``names`` and
    ``features`` go by unit, ``all_features`` is the union. ``fingerprints`` are equal for
    units of the same words, 0 for units too short to compare. ``sample`` is a fixed part of
    ``shingles``: texts that share many shingles share some of these. ``lengths`` are the
    characters of the units.
    """

    units: tuple[tuple[int, int], ...]
    term_units: Mapping[str, int]
    features: tuple[Features, ...]
    names: tuple[frozenset[str], ...]
    fingerprints: Integers
    brings: tuple[int, ...]
    code: int
    word_count: int
    vocabulary: frozenset[str]
    shingles: frozenset[int]
    sample: Integers
    lengths: Integers
    all_features: Features

    @property
    def all_units(self) -> int:
        return (1 << len(self.units)) - 1


# One takes some ten kilobytes.
@lru_cache(maxsize=2048)
def passage_features(text: str, blocks: tuple[Block, ...] = ()) -> PassageFeatures:
    """Analyze the text of a passage; its blocks go by offsets in the text."""
    return _features(text, read_units(text, blocks))


def clause_features(passage: Passage) -> PassageFeatures:
    """The same with clauses for units."""
    return _features(passage.text, read_clauses(passage.text))


def _features(text: str, read: Units) -> PassageFeatures:
    units = read.spans
    term_units: dict[str, int] = {}
    for i, (start, end) in enumerate(units):
        for term in set(terms(text[start:end])):
            term_units[term] = term_units.get(term, 0) | 1 << i

    starts = [start for start, _ in units]
    features = [0] * len(units)
    names: list[set[str]] = [set() for _ in units]
    for place, found in find_features(text):
        features[max(0, bisect_right(starts, place) - 1)] |= found
    for place, name in find_names(text):
        unit = max(0, bisect_right(starts, place) - 1)
        names[unit].add(name)
        features[unit] |= NAME

    unit_words = [words(text[start:end]) for start, end in units]
    all_words = [word for unit in unit_words for word in unit]
    shingles = shingle_hashes(all_words)
    return PassageFeatures(
        units=units,
        term_units=term_units,
        features=tuple(features),
        names=tuple(map(frozenset, names)),
        # Python's own hash differs from process to process.
        fingerprints=_array(
            _crc(" ".join(unit)) | 1 << 32 if len(unit) >= _SHINGLE else 0 for unit in unit_words
        ),
        brings=read.brings,
        code=read.code,
        word_count=count_words(all_words),
        vocabulary=frozenset(all_words),
        shingles=shingles,
        sample=_array(sorted(value for value in shingles if value % _SAMPLE == 0)),
        lengths=_array(end - start for start, end in units),
        all_features=reduce(or_, features, 0),
    )


def shingle_hashes(text_words: list[str]) -> frozenset[int]:
    """The distinct shingles of a text, hashed; a text shorter than one is its own."""
    if not text_words:
        return frozenset()
    hashes = np.fromiter(map(_word_hash, text_words), dtype=np.uint64, count=len(text_words))
    last = max(1, len(hashes) - _SHINGLE + 1)
    mixed = np.zeros(last, dtype=np.uint64)
    for i in range(min(_SHINGLE, len(hashes))):
        # Unsigned numbers overflow modulo 2**64, as wanted.
        mixed = mixed * _MIX + hashes[i : i + last]
    mixed ^= mixed >> np.uint64(32)
    return frozenset(((mixed & _LOW) | _HIGH).tolist())


def _crc(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


_word_hash = lru_cache(maxsize=65536)(_crc)


def _array(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)


def words(text: str) -> list[str]:
    """The words of a text in lower case, without the punctuation around them; of text without
    spaces every pair of characters."""
    lower = text.lower()
    if not lower.isascii():
        lower = _UNSPACED.sub(_pairs, lower)
    return [word for raw in lower.split() if (word := raw.strip(_PUNCTUATION))]


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join(run[i : i + 2] for i in range(max(1, len(run) - 1)))} "


def count_words(found: Sequence[str]) -> int:
    """How many words a text has, of which ``words`` found these."""
    if all(map(str.isascii, found)):
        return len(found)
    pairs = sum(not word.isascii() and _UNSPACED.match(word) is not None for word in found)
    return len(found) - pairs // 2


@lru_cache(maxsize=256)
def keywords(question: str) -> frozenset[str]:
    """The words of a question that are not function words."""
    return _content_words(question)


def _content_words(text: str) -> frozenset[str]:
    return frozenset(words(text)) - FUNCTION_WORDS


def quality(word_count: int, matched: int, wanted: int) -> float:
    """The score of a section of so many words that holds ``matched`` of ``wanted`` keywords."""
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


def find_duplicates(
    passages: Sequence[Passage], features: Sequence[PassageFeatures]
) -> dict[int, int]:
    """For each text that repeats an earlier one: the first that it repeats.

    A text that holds an earlier one and more is not a duplicate of it. Chunks that overlap in
    their document are not duplicates either: they are joined by their offsets. Duplicates
    are not compared with any further text.
    """
    duplicates: dict[int, int] = {}
    similar = _similar_pairs([text.sample for text in features])
    for i, text in enumerate(features):
        if not text.units:
            continue
        for j in range(i) if len(text.sample) < _SMALL_SAMPLE else similar.get(i, ()):
            if j in duplicates or shared_characters(passages[i], passages[j]):
                continue
            same = passages[i].text == passages[j].text
            if same or containment(text, features[j]) >= _DUPLICATE_SHARE:
                duplicates[i] = j
                break
    return duplicates


def containment(text: PassageFeatures, other: PassageFeatures) -> float:
    """The share of a text's shingles that the other holds too."""
    return len(text.shingles & other.shingles) / len(text.shingles) if text.shingles else 0.0


def _similar_pairs(samples: Sequence[Integers]) -> dict[int, list[int]]:
    """For each text the earlier ones that hold half of its sample or more, in order."""
    hits: Counter[tuple[int, int]] = Counter()
    for places in equal_places(samples):
        holders = [text for text, _ in places]
        for at, i in enumerate(holders):
            hits.update((i, j) for j in holders[:at])
    similar: dict[int, list[int]] = {}
    for (i, j), n in sorted(hits.items()):
        if n * 2 >= len(samples[i]):
            similar.setdefault(i, []).append(j)
    return similar


def equal_places(hashes: Sequence[Integers]) -> list[list[tuple[int, int]]]:
    """For each hash but 0 that occurs more than once: the places, as text and position.

    Nearly all occur once: sorting finds the others faster than looking each of them up.
    """
    values = np.concatenate(hashes) if hashes else np.zeros(0, dtype=np.int64)
    ordered = np.sort(values)
    repeated = ordered[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)]
    if not len(repeated):
        return []
    ends = np.cumsum([len(array) for array in hashes])
    nearest = np.minimum(np.searchsorted(repeated, values), len(repeated) - 1)
    groups: dict[int, list[tuple[int, int]]] = {}
    for place in np.flatnonzero(repeated[nearest] == values).tolist():
        text = int(np.searchsorted(ends, place, side="right"))
        position = place - int(ends[text]) + len(hashes[text])
        groups.setdefault(int(values[place]), []).append((text, position))
    return list(groups.values())


def shared_characters(a: Passage, b: Passage) -> int:
    """How many characters of a document are in both of its passages."""
    if a.document != b.document:
        return 0
    return max(0, min(a.end, b.end) - max(a.start, b.start))

"""What a passage is made of, read once: its units, their words, what they hold.

A unit is the least that is ever shown of a passage: a sentence, or a table or code block
that means nothing in pieces. All of it depends on the text alone, so it is remembered.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from packwise.context.quality import words
from packwise.language.analyzer import terms
from packwise.language.sentences import sentence_spans
from packwise.language.word_classes import NAME, Features, find_features, find_names

REMEMBERED = 2048
"""Passages whose reading is kept; one takes some ten kilobytes."""

Prints = NDArray[np.int64]
"""Hashes of stretches of words, above 0."""

SHINGLE = 5
"""Words in a shingle, the unit in which repetition is measured."""

# Tables and code beyond this many characters are read line by line after all.
_LONGEST_BLOCK = 1200
_SAMPLE = 4
_MIX, _LOW, _HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFFFFFF), np.uint64(1 << 32)

_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^[ \t]*\|[^\n]*(?:\n[ \t]*\|[^\n]*)+", re.MULTILINE)
# A sentence that opens with one of these speaks of the sentence before it.
_LEANING = re.compile(
    r"[\"“'(]?(?:it|its|he|his|him|she|her|hers|they|their|theirs|them|this|these|those|such|both"
    r"|the (?:former|latter|same|other)|one of (?:these|them))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A text and what is known of it without a question.

    ``units`` are the spans of its units; ``where`` holds the units in which an index term
    occurs, as bits; ``leaning`` the units that cannot be understood without the one before.
    ``prints`` are equal for units of the same words, 0 for those too short to tell.
    ``sketch`` is a fixed sample of its ``shingles``: two texts that share many shingles
    share some of these. ``lengths`` are the characters of the units, ``holds`` is what any
    of them holds.
    """

    units: tuple[tuple[int, int], ...]
    where: Mapping[str, int]
    features: tuple[Features, ...]
    names: tuple[frozenset[str], ...]
    prints: Prints
    leaning: int
    word_count: int
    vocabulary: frozenset[str]
    shingles: frozenset[int]
    sketch: Prints
    lengths: NDArray[np.int64]
    holds: Features

    @property
    def everything(self) -> int:
        """All units, as bits."""
        return (1 << len(self.units)) - 1


@lru_cache(maxsize=REMEMBERED)
def read(text: str) -> Reading:
    """The reading of a passage's text."""
    units = unit_spans(text)
    where: dict[str, int] = {}
    leaning = 0
    for i, (start, end) in enumerate(units):
        bit = 1 << i
        for term in set(terms(text[start:end])):
            where[term] = where.get(term, 0) | bit
        if i and _LEANING.match(text, start, end):
            leaning |= bit

    starts = [start for start, _ in units]
    features = [0] * len(units)
    names: list[set[str]] = [set() for _ in units]
    for place, found in find_features(text):
        features[max(0, bisect_right(starts, place) - 1)] |= found
    for place, name in find_names(text):
        unit = max(0, bisect_right(starts, place) - 1)
        names[unit].add(name)
        features[unit] |= NAME

    by_unit = [words(text[start:end]) for start, end in units]
    found_words = [word for unit in by_unit for word in unit]
    shingles = shingle_hashes(found_words)
    return Reading(
        units=tuple(units),
        where=where,
        features=tuple(features),
        names=tuple(map(frozenset, names)),
        prints=_array(_hash(unit) if len(unit) >= SHINGLE else 0 for unit in by_unit),
        leaning=leaning,
        word_count=len(found_words),
        vocabulary=frozenset(found_words),
        shingles=shingles,
        sketch=_array(sorted(value for value in shingles if value % _SAMPLE == 0)),
        lengths=_array(end - start for start, end in units),
        holds=reduce(or_, features, 0),
    )


def unit_spans(text: str) -> list[tuple[int, int]]:
    """The units of a text in order: its sentences, with tables, fenced code and what
    announces a list kept in one piece."""
    sentences = sentence_spans(text)
    blocks = [
        found.span()
        for pattern in (_FENCE, _TABLE)
        for found in pattern.finditer(text)
        if found.end() - found.start() <= _LONGEST_BLOCK
    ]
    units: list[tuple[int, int]] = []
    for start, end in sentences:
        if units and _belongs(text, blocks, units[-1], start):
            units[-1] = (units[-1][0], max(units[-1][1], end))
        else:
            units.append((start, end))
    return units


def _belongs(text: str, blocks: list[tuple[int, int]], unit: tuple[int, int], start: int) -> bool:
    """Whether what begins at ``start`` is part of the unit before it."""
    if text[unit[1] - 1] == ":" and start - unit[0] <= _LONGEST_BLOCK:
        return True
    return any(first < start < last and unit[1] > first for first, last in blocks)


def shingle_hashes(found_words: list[str]) -> frozenset[int]:
    """The distinct shingles of a text, hashed; a text shorter than one is its own."""
    if not found_words:
        return frozenset()
    hashes = np.fromiter(map(_word_hash, found_words), dtype=np.uint64, count=len(found_words))
    last = max(1, len(hashes) - SHINGLE + 1)
    mixed = np.zeros(last, dtype=np.uint64)
    for i in range(min(SHINGLE, len(hashes))):
        # Modulo 2**64, which is how unsigned numbers overflow.
        mixed = mixed * _MIX + hashes[i : i + last]
    mixed ^= mixed >> np.uint64(32)
    return frozenset(((mixed & _LOW) | _HIGH).tolist())


@lru_cache(maxsize=65536)
def _word_hash(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _array(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


def _hash(found_words: list[str]) -> int:
    # Not Python's own hash: that one differs from process to process.
    return zlib.crc32(" ".join(found_words).encode("utf-8", "surrogatepass")) | 1 << 32

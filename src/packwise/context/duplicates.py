"""Texts that repeat one another, as a whole or sentence by sentence."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from packwise.documents import Passage
from packwise.language.words import words
from packwise.reading.passage_reading import Reading, unit_words

# Words per shingle, the unit in which repetition is measured.
_SHINGLE = 5
# A text is a duplicate when this share of its shingles is found in a better one.
_DUPLICATE_SHARE = 0.8
_MIX, _LOW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFFFFFF)

Shingles = frozenset[int]


def find_duplicates(passages: Sequence[Passage], readings: Sequence[Reading]) -> dict[int, int]:
    """For each text that repeats an earlier one: the first that it repeats.

    A text that holds an earlier one and more is not a duplicate of it. Chunks that overlap in
    their document are not duplicates either: they are joined by their offsets. Duplicates
    are not compared with any further text.
    """
    duplicates: dict[int, int] = {}
    shingles: dict[int, Shingles] = {}
    for i, j in _similar_pairs(readings):
        if i in duplicates or j in duplicates or shared_characters(passages[i], passages[j]):
            continue
        for text in (i, j):
            if text not in shingles:
                shingles[text] = text_shingles(passages[text].text, readings[text])
        same = passages[i].text == passages[j].text
        if same or containment(shingles[i], shingles[j]) >= _DUPLICATE_SHARE:
            duplicates[i] = j
    return duplicates


def _similar_pairs(readings: Sequence[Reading]) -> list[tuple[int, int]]:
    """Each text that is not empty with the earlier ones that hold half of its terms or more, in
    order: a text cannot share most of its shingles and fewer terms."""
    own = [reading.terms[reading.term_counts[0] :] for reading in readings]
    if not own:
        return []
    values, places = np.unique(np.concatenate(own), return_inverse=True)
    held = np.zeros((len(own), len(values)), dtype=np.bool_)
    held[np.repeat(np.arange(len(own)), [len(terms) for terms in own]), places] = True
    # One number per text, with a bit for each term: to compare thirty texts takes 0.1 ms.
    bits = [int.from_bytes(row.tobytes()) for row in np.packbits(held, axis=1)]
    similar: list[tuple[int, int]] = []
    for i, mine in enumerate(bits):
        half = (mine.bit_count() + 1) // 2
        if readings[i].units:
            similar += [(i, j) for j in range(i) if (mine & bits[j]).bit_count() >= half]
    return similar


def text_shingles(text: str, reading: Reading) -> Shingles:
    """The distinct shingles of a text, hashed."""
    return shingle_hashes(unit_words(text, reading.units))


def shingle_hashes(text_words: list[str]) -> Shingles:
    """The distinct shingles of a list of words, hashed; a list shorter than one is its own."""
    if not text_words:
        return frozenset()
    hashes = np.fromiter(map(_word_hash, text_words), dtype=np.uint64, count=len(text_words))
    last = max(1, len(hashes) - _SHINGLE + 1)
    mixed = np.zeros(last, dtype=np.uint64)
    for i in range(min(_SHINGLE, len(hashes))):
        # Unsigned numbers overflow modulo 2**64, as wanted.
        mixed = mixed * _MIX + hashes[i : i + last]
    mixed ^= mixed >> np.uint64(32)
    return frozenset((mixed & _LOW).tolist())


@lru_cache(maxsize=65536)
def _word_hash(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def containment(text: Shingles, other: Shingles) -> float:
    """The share of a text's shingles that the other holds too."""
    return len(text & other) / len(text) if text else 0.0


def repeated_units(
    passages: Sequence[Passage], readings: Sequence[Reading]
) -> list[list[tuple[int, int]]]:
    """The units whose words occur more than once: the places, as text and unit. Units shorter
    than a shingle are not compared."""
    places: dict[bytes, list[tuple[int, int]]] = {}
    for text, reading in enumerate(readings):
        for unit, terms in enumerate(reading.unit_terms()):
            places.setdefault(terms, []).append((text, unit))
    groups: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for alike in places.values():
        for text, unit in alike if len(alike) > 1 else ():
            start, end = readings[text].units[unit]
            found = tuple(words(passages[text].text[start:end]))
            if len(found) >= _SHINGLE:
                groups.setdefault(found, []).append((text, unit))
    return [group for group in groups.values() if len(group) > 1]


def shared_characters(a: Passage, b: Passage) -> int:
    """How many characters of a document are in both of its passages."""
    if a.document != b.document:
        return 0
    return max(0, min(a.end, b.end) - max(a.start, b.start))

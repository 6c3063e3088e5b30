"""A passage as packing reads it: its units, and what each of them costs and holds.

Reading a text takes longer than packing it. So stores keep the reading of a passage beside its
text, as one line of text that names the rules it was made by. A passage without one, or with one
by other rules, is read when it is needed; the next build stores it.

Index terms are kept as hashes of 32 bits: a question compares only its own terms with them.
"""

from __future__ import annotations

import struct
import zlib
from binascii import a2b_base64, b2a_base64
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate, chain, pairwise
from operator import or_

import numpy as np
from numpy.typing import NDArray

from packwise.documents import Block, Passage
from packwise.language.analyzer import ANALYZER, terms
from packwise.language.word_classes import NAME, Features, find_features, find_names
from packwise.language.words import is_spaced, word_count, words
from packwise.models.tokens import token_counter
from packwise.reading.units import Span, Units, read_clauses, read_units

READING_RULES = f"1-{ANALYZER}"
"""Name of these rules. Change it when a reading changes for the same text: the next build then
reads every document again, without embedding it."""

ENCODING = "o200k_base"
"""The encoding whose tokens are counted."""

Hashes = NDArray[np.uint32]

# In the stored form: the bit of a unit's features that says it is code.
_CODE = 1 << 15
_LARGEST = (1 << 16) - 1
_HEAD = struct.Struct("<5H")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a passage holds, without regard to a question.

    ``units`` are spans of the text; ``brings`` are the units that are shown with each, as bits,
    and ``code`` those that are code. ``tokens`` and ``features`` go by unit; a unit's tokens
    include the white space before it. ``spaced`` says that spaces set off every word.
    ``terms`` are the distinct index terms of the heading, then those of each unit, hashed;
    ``term_counts`` says how many each of them has.
    """

    units: tuple[Span, ...]
    brings: tuple[int, ...]
    code: int
    tokens: tuple[int, ...]
    features: tuple[Features, ...]
    word_count: int
    spaced: bool
    terms: Hashes
    term_counts: tuple[int, ...]

    @property
    def all_units(self) -> int:
        return (1 << len(self.units)) - 1

    @property
    def all_features(self) -> Features:
        return reduce(or_, self.features, 0)

    def units_with(self, wanted: Iterable[str]) -> list[Span]:
        """The units that hold one of these index terms, once for each that they hold."""
        hashes = frozenset(map(term_hash, wanted))
        heading, *_ = ends = list(accumulate(self.term_counts))
        places = (at for at, held in enumerate(self.terms.tolist()) if held in hashes)
        return [self.units[bisect_right(ends, at) - 1] for at in places if at >= heading]

    def unit_terms(self) -> list[bytes]:
        """The terms of each unit as bytes: equal for units of the same words."""
        raw = self.terms.tobytes()
        ends = [4 * count for count in accumulate(self.term_counts)]
        return [raw[start:end] for start, end in pairwise(ends)]


def whole_text(text: str) -> Reading:
    """A reading that knows nothing but that all of a text is one unit."""
    return Reading(((0, len(text)),), (0,), 0, (0,), (0,), 0, True, _hashes(()), (0, 0))


def reading_of(passage: Passage) -> Reading:
    """The reading of a passage: the stored one, else it is read now."""
    stored = known_reading(passage)
    return stored or _read_passage(_heading(passage), passage.text, passage.lang, _blocks(passage))


def clauses_of(passage: Passage) -> Reading:
    """The same with clauses for units."""
    return _read(_heading(passage), passage.text, passage.lang, read_clauses(passage.text))


def stored_reading(passage: Passage) -> str:
    """The reading of a passage in its stored form; empty where a number is too large for it."""
    if known_reading(passage) is not None:
        return passage.reading
    units = read_units(passage.text, _blocks(passage))
    reading = _read(_heading(passage), passage.text, passage.lang, units)
    brings = [
        (unit, other)
        for unit, brought in enumerate(reading.brings)
        if brought
        for other in range(brought.bit_length())
        if brought >> other & 1
    ]
    features = (
        found | (reading.code >> unit & 1) * _CODE for unit, found in enumerate(reading.features)
    )
    numbers = (
        *(len(passage.text), reading.word_count, reading.spaced, len(reading.units), len(brings)),
        *chain.from_iterable(zip(*reading.units, strict=True)),
        *reading.tokens,
        *features,
        *reading.term_counts,
        *chain.from_iterable(brings),
    )
    if max(numbers) > _LARGEST:
        return ""
    raw = struct.pack(f"<{len(numbers)}H", *numbers) + reading.terms.tobytes()
    return f"{READING_RULES}:{b2a_base64(raw, newline=False).decode()}"


def known_reading(passage: Passage) -> Reading | None:
    """The stored reading; ``None`` where there is none, it is another text's, or it is not as
    ``stored_reading`` makes them: a pack may come from someone else."""
    rules, _, encoded = passage.reading.partition(":")
    if rules != READING_RULES:
        return None
    try:
        raw = a2b_base64(encoded)
        length, word_count, spaced, n, brought = _HEAD.unpack_from(raw)
        size = 5 * n + 1 + 2 * brought
        numbers = struct.unpack_from(f"<{size}H", raw, _HEAD.size)
    except (ValueError, struct.error):
        return None
    pairs, held = numbers[5 * n + 1 :], sum(numbers[4 * n : 5 * n + 1])
    if length != len(passage.text) or len(raw) != _HEAD.size + 2 * size + 4 * held:
        return None
    if n == 0 or max(pairs, default=0) >= n or max(numbers[: 2 * n]) > length:
        return None
    features, code = numbers[3 * n : 4 * n], 0
    if max(features, default=0) >= _CODE:
        code = sum(1 << unit for unit, found in enumerate(features) if found & _CODE)
        features = tuple(found & ~_CODE for found in features)
    brings = [0] * n
    for unit, other in zip(pairs[::2], pairs[1::2], strict=True):
        brings[unit] |= 1 << other
    return Reading(
        units=tuple(zip(numbers[:n], numbers[n : 2 * n], strict=True)),
        brings=tuple(brings),
        code=code,
        tokens=numbers[2 * n : 3 * n],
        features=features,
        word_count=word_count,
        spaced=bool(spaced),
        terms=np.frombuffer(raw, dtype="<u4", offset=_HEAD.size + 2 * size),
        term_counts=numbers[4 * n : 5 * n + 1],
    )


def _heading(passage: Passage) -> str:
    return " ".join((passage.doc_title, *passage.section_path, passage.lead))


def _blocks(passage: Passage) -> tuple[Block, ...]:
    start = passage.start
    return tuple(Block(b.kind, b.start - start, b.end - start) for b in passage.blocks)


# For stores that were built by other rules.
@lru_cache(maxsize=2048)
def _read_passage(heading: str, text: str, lang: str, blocks: tuple[Block, ...]) -> Reading:
    return _read(heading, text, lang, read_units(text, blocks))


def _read(heading: str, text: str, lang: str, read: Units) -> Reading:
    units = read.spans
    features = [0] * len(units)
    starts = [start for start, _ in units]
    names = ((place, NAME) for place, _ in find_names(text))
    for place, found in chain(find_features(text), names):
        features[max(0, bisect_right(starts, place) - 1)] |= found
    parts = (heading, *(text[a:b] for a, b in units))
    held = [dict.fromkeys(terms(part, lang)) for part in parts]
    return Reading(
        units=units,
        brings=read.brings,
        code=read.code,
        tokens=tuple(token_counter(ENCODING).count_many(unit_pieces(text, units))),
        features=tuple(features),
        word_count=word_count(text[a:b] for a, b in units),
        spaced=is_spaced(text),
        terms=_hashes(map(term_hash, chain.from_iterable(held))),
        term_counts=tuple(map(len, held)),
    )


def unit_pieces(text: str, units: Sequence[Span]) -> list[str]:
    """The text of each unit with the white space before it, which is a space for the first."""
    ends = [0, *(end for _, end in units)]
    return [f" {text[a:b]}" if i == 0 else text[ends[i] : b] for i, (a, b) in enumerate(units)]


def unit_words(text: str, units: Iterable[Span]) -> list[str]:
    """The words of all units, in order."""
    return [word for start, end in units for word in words(text[start:end])]


def unit_names(text: str, units: Sequence[Span]) -> list[set[str]]:
    """The capitalised names in each unit, in lower case."""
    starts = [start for start, _ in units]
    names: list[set[str]] = [set() for _ in units]
    for place, name in find_names(text):
        names[max(0, bisect_right(starts, place) - 1)].add(name)
    return names


@lru_cache(maxsize=1 << 16)
def term_hash(term: str) -> int:
    """An index term as readings hold it. Python's own hash differs from process to process."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def _hashes(values: Iterable[int]) -> Hashes:
    return np.fromiter(values, dtype="<u4")

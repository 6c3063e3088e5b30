"""On which line of its file each part of a document's text is.

A document's text is its file's without the markup, mostly in the same order. So the two are aligned
word by word, whatever the format: at runs of words that occur exactly once in both, also where a
reader moved them, and onwards from these. Words that only one of them has get no line of their own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from packwise.documents import Place
from packwise.lazy_pattern import lazy_pattern

Indexes = NDArray[np.int64]

_CJK = "\u3040-\u9fff\uac00-\ud7af"
_WORD = lazy_pattern(rf"([{_CJK}]|[^\W{_CJK}]+)")
_ASCII_WORD = lazy_pattern(r"(\w+)", re.ASCII)
_LINE_END = lazy_pattern("\n")
_TAG = lazy_pattern(r"<[^<>]*>")
_RUN = 3
"""Words in a run that fixes a place."""
_MOST_NUMBERS = 1 << 20
"""Different words, so many that a run of them still has a number of 63 bits."""
_NEAR = 60
"""How many words of markup may stand between two words of a text."""


def line_places(source: str, text: str, *, tagged: bool = False) -> tuple[Place, ...]:
    """Where in ``text`` each line of ``source`` begins. ``tagged`` sources have HTML tags."""
    if tagged:
        source = html.unescape(_TAG.sub(lambda tag: " " + "\n" * tag[0].count("\n"), source))
    words, starts = _words(source)
    ends = np.array([match.start() for match in _LINE_END.finditer(source)], dtype=np.int64)
    lines = np.searchsorted(ends, starts) + 1
    words_here, starts_here = _words(text)
    found = _aligned(words_here, words)
    here = np.flatnonzero(found >= 0)
    lines = lines[found[here]]
    begins = np.flatnonzero(np.diff(lines, prepend=0))
    return tuple(
        Place(start, f"line {line}")
        for start, line in zip(
            starts_here[here[begins]].tolist(), lines[begins].tolist(), strict=True
        )
    )


def _words(text: str) -> tuple[list[str], Indexes]:
    """The words of a text, and where each of them begins."""
    parts = (_ASCII_WORD if text.isascii() else _WORD).split(text)
    ends = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
    return parts[1::2], ends[:-1:2]


def _aligned(text: Sequence[str], source: Sequence[str]) -> Indexes:
    """For each word of the text the equal one of the source, as an index; -1 where there is
    none."""
    found = _fixed(text, source)
    at = 0
    for here in np.flatnonzero(found < 0).tolist():
        if here and found[here - 1] >= 0:
            at = int(found[here - 1]) + 1
        found[here] = _next(text[here], text[here + 1 : here + 2], source, at)
    return found


def _fixed(text: Sequence[str], source: Sequence[str]) -> Indexes:
    """The same for the words that begin a run which occurs exactly once in both."""
    found = np.full(len(text), -1, dtype=np.int64)
    if min(len(text), len(source)) < _RUN:
        return found
    every = [*text, *source]
    numbers = {word: at for at, word in enumerate(dict.fromkeys(every))}
    words = np.fromiter(map(numbers.__getitem__, every), dtype=np.int64, count=len(every))
    # A number for every run, from those of its words.
    runs = words[: 1 - _RUN]
    for skip in range(1, _RUN):
        runs = runs * len(numbers) + words[skip : len(runs) + skip]
        if len(numbers) > _MOST_NUMBERS:
            runs = np.unique(runs, return_inverse=True)[1]
    (here, ours), (there, theirs) = (
        _unique(part) for part in (runs[: len(text) + 1 - _RUN], runs[len(text) :])
    )
    _, one, other = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    found[here[one]] = there[other]
    return found


def _unique(runs: Indexes) -> tuple[Indexes, Indexes]:
    """Where each run that occurs exactly once begins, and its number."""
    values, places, counts = np.unique(runs, return_index=True, return_counts=True)
    return places[counts == 1], values[counts == 1]


def _next(word: str, following: Sequence[str], source: Sequence[str], at: int) -> int:
    """Where a word is in the source from a place on; -1 if it is not near."""
    for there in range(at, min(at + _NEAR, len(source))):
        # Beyond the next word, two in a row have to agree: one "the" is found anywhere.
        if source[there] == word and (
            there == at or not following or source[there + 1 : there + 2] == following
        ):
            return there
    return -1

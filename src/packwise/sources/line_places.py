"""On which line of its file each part of a document's text is.

A document's text is its file's without the markup, mostly in the same order. So the two are aligned
word by word, whatever the format: at runs of words that occur exactly once in both, also where a
reader moved them, and onwards from these. Words that only one of them has get no line of their own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from packwise.documents import Place

_CJK = "\u3040-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_TAG = re.compile(r"<[^<>]*>")
_RUN = 3
"""Words in a run that fixes a place."""
_NEAR = 60
"""How many words of markup may stand between two words of a text."""


def line_places(source: str, text: str, *, tagged: bool = False) -> tuple[Place, ...]:
    """Where in ``text`` each line of ``source`` begins. ``tagged`` sources have HTML tags."""
    if tagged:
        source = html.unescape(_TAG.sub(lambda tag: " " + "\n" * tag[0].count("\n"), source))
    words: list[str] = []
    lines: list[int] = []
    for number, line in enumerate(source.split("\n"), start=1):
        found = _WORD.findall(line)
        words += found
        lines += [number] * len(found)
    spans = [(match[0], match.start()) for match in _WORD.finditer(text)]
    places: list[Place] = []
    last = 0
    for here, there in _aligned([word for word, _ in spans], words):
        if lines[there] != last:
            last = lines[there]
            places.append(Place(spans[here][1], f"line {last}"))
    return tuple(places)


def _aligned(text: Sequence[str], source: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs of equal words, as indexes into both, in the order of the text."""
    there = _unique_runs(source)
    fixed = {at: there[run] for run, at in _unique_runs(text).items() if run in there}
    at = 0
    for here, word in enumerate(text):
        found = fixed[here] if here in fixed else _next(word, text[here + 1 : here + 2], source, at)
        if found >= 0:
            yield here, found
            at = found + 1


def _unique_runs(words: Sequence[str]) -> dict[tuple[str, ...], int]:
    """Where each run of words that occurs exactly once begins."""
    found: dict[tuple[str, ...], int] = {}
    for at, run in enumerate(zip(*(words[skip:] for skip in range(_RUN)), strict=False)):
        found[run] = -1 if run in found else at
    return {run: at for run, at in found.items() if at >= 0}


def _next(word: str, following: Sequence[str], source: Sequence[str], at: int) -> int:
    """Where a word is in the source from a place on; -1 if it is not near."""
    for there in range(at, min(at + _NEAR, len(source))):
        # Beyond the next word, two in a row have to agree: one "the" is found anywhere.
        if source[there] == word and (
            there == at or not following or source[there + 1 : there + 2] == following
        ):
            return there
    return -1

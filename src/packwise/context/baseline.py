"""The policy ``baseline``: what the systems before did, kept to compare with.

Four characters are taken for a token, passages go in by score until the estimate is full,
repetitions and all, and the last one is cut where it stands. Because the estimate can be
too low, the result is cut again until it really fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from packwise.context.layout import Layout, Part, Stretch, block, section_line, title_line
from packwise.context.pool import Entry
from packwise.models.base import TokenCounter

_CHARACTERS_PER_TOKEN = 4


def fill_by_characters(entries: Sequence[Entry], counter: TokenCounter, budget: int) -> Layout:
    """As many of the entries, which come best first, as the estimate allows."""
    room = budget * _CHARACTERS_PER_TOKEN
    while True:
        layout = _cut(entries, room)
        tokens = counter.count(layout.text)
        if tokens <= budget:
            return layout
        room = min(room - 1, room * budget // tokens)


def _cut(entries: Sequence[Entry], room: int) -> Layout:
    stretches: list[Stretch] = []
    pieces: list[str] = []
    blocks: list[int] = []
    for entry in entries:
        lines = title_line(entry.passage) + section_line(entry.passage)
        marker = len(stretches) + 1
        text = entry.passage.text[: max(0, room - len(lines) - len(block(marker, "")))]
        if not text.strip():
            break
        start = entry.passage.start
        shown = sum(end <= len(text) for _, end in entry.reading.units)
        part = Part(entry, (1 << shown) - 1)
        span = (start, start + len(text))
        stretches.append(Stretch((part,), (span,), text, (text,), (shown,)))
        blocks.append(len(pieces))
        pieces.append(lines + block(marker, text))
        room -= len(pieces[-1])
    return Layout(tuple(stretches), tuple(pieces), tuple(blocks))

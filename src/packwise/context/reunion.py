"""Bringing together what chunking took apart: the neighbours of a passage, from the store."""

from __future__ import annotations

from collections.abc import Collection

from packwise.candidates import Scores
from packwise.context.pool import Entry, Reader
from packwise.stores.base import Store

MOST_REUNIONS = 8
"""Passages whose neighbours are looked up, the best first: each is a read from the store."""

# The share of a passage's mass that its neighbour's nearest sentence may hold, and how fast
# that falls with every sentence further away.
_NEXT_DOOR = 0.05
_FALL = 0.5


def neighbours(
    store: Store, reader: Reader, host: Entry, known: Collection[str]
) -> list[tuple[Entry, bool]]:
    """The passages right before and after one, in its section and not among the ``known``
    ids; each with whether it comes after."""
    found: list[tuple[Entry, bool]] = []
    passage = host.passage
    for key, other in store.neighbours(host.key, before=1, after=1):
        same = other.document == passage.document and other.section_path == passage.section_path
        if not same or other.id in known or not other.text.strip():
            continue
        entry = reader.entry(key, other, Scores(), host.rank, attached_to=host.id)
        found.append((entry, other.order_index > passage.order_index))
    return found


def border_worth(host: Entry, mass: float, entry: Entry, after: bool) -> list[float]:
    """What each unit of a neighbour is worth, by its distance from the host.

    Sentences that both hold lie on the host's side of the border and are worth nothing more.
    """
    worth = [0.0] * len(entry.reading.units)
    start = entry.passage.start
    order = range(len(worth)) if after else range(len(worth) - 1, -1, -1)
    left = mass * _NEXT_DOOR
    for i in order:
        a, b = entry.reading.units[i]
        if host.passage.start <= start + a and start + b <= host.passage.end:
            continue
        worth[i] = left
        left *= _FALL
    return worth


def touches(host: Entry, units: int, after: bool) -> bool:
    """Whether the chosen units of a passage reach the border to its neighbour."""
    last = len(host.reading.units) - 1
    return bool(units >> (last if after else 0) & 1)

"""Which units of a section become one passage: the cut with the lowest sum of the costs of its
borders and of squared deviations from the even size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple, Protocol


class TokenCounts(Protocol):
    """Counts the tokens of a text up to a place."""

    def before(self, position: int) -> int: ...


class Unit(NamedTuple):
    """A piece of a section that is not cut further.

    ``prose`` may be repeated in the next passage. A unit that ``opens`` begins a sentence.
    ``surplus`` counts the tokens it has by itself beyond those as part of its word, ``lead``
    those of the text that a passage which begins here needs from before it.
    """

    start: int
    end: int
    cost: float
    prose: bool
    opens: bool = True
    surplus: int = 0
    lead: int = 0


class Partition:
    """Chooses which units become one passage."""

    def __init__(
        self, units: Sequence[Unit], tokens: TokenCounts, capacity: int, overlap: float
    ) -> None:
        self._units = units
        self._capacity = capacity
        self._overlap = overlap
        # Tokens up to the beginning and up to the end of each unit.
        surplus = [0, *accumulate(unit.surplus for unit in units)]
        self._begin = [tokens.before(u.start) + n for u, n in zip(units, surplus, strict=False)]
        self._end = [tokens.before(u.end) + n for u, n in zip(units, surplus[1:], strict=True)]
        total = self._end[-1] - self._begin[0]
        # n passages that share ``overlap`` of their size s hold s * (n - (n - 1) * overlap).
        count = max(2, ceil((total / capacity - overlap) / (1 - overlap)))
        self._size = total / (count - (count - 1) * overlap)
        self._repeated = [self._repeat_from(i, self._size * overlap) for i in range(len(units))]

    def _repeat_from(self, index: int, wanted: float) -> int:
        """The first unit a passage that starts at ``index`` repeats: ``index`` for none.

        As near to ``wanted`` tokens as whole sentences come, and always below twice that.
        Inside a sentence that is longer than a passage, parts of it may be repeated.
        """
        distances: list[tuple[float, int]] = []
        for i in range(index - 1, -1, -1):
            tokens = self._end[index - 1] - self._begin[i]
            if tokens >= 2 * wanted or not self._units[i].prose:
                break
            if tokens:
                distances.append((abs(tokens - wanted), -i))
        whole = [found for found in distances if self._units[-found[1]].opens]
        if not whole and not self._units[index].opens:
            whole = distances
        return -min(whole)[1] if whole else index

    def passages(self) -> list[tuple[int, int, bool]]:
        """Start and end of each passage in the text, and whether there is room for its lead."""
        borders = self._borders()
        found: list[tuple[int, int, bool]] = []
        for previous, first, last in zip([-1, *borders], borders, borders[1:], strict=False):
            unit = self._overlapped(previous, first, last)
            tokens = self._end[last - 1] - self._begin[unit] + self._units[unit].lead
            found.append(
                (self._units[unit].start, self._units[last - 1].end, tokens <= self._capacity)
            )
        return found

    def _borders(self) -> list[int]:
        """The units that begin a passage's own text, and the number of units."""
        begin, end, capacity, size = self._begin, self._end, self._capacity, self._size
        repeated = [end[i - 1] - begin[r] if r < i else 0 for i, r in enumerate(self._repeated)]
        # A passage that repeats the end of the one before begins there, not at its own lead.
        repeated = [n or unit.lead for n, unit in zip(repeated, self._units, strict=True)]
        costs = [unit.cost for unit in self._units]
        costs[0] = 0.0
        cheapest, origin = [0.0], [0]
        for j, past in enumerate(end, start=1):
            best, best_i = float("inf"), j - 1
            for i in range(j - 1, -1, -1):
                tokens = past - begin[i]
                if tokens > capacity:
                    break
                tokens += repeated[i]
                # A unit may be too long to stand beside a repetition: it then stands alone.
                if tokens > capacity and i < j - 1:
                    continue
                cost = cheapest[i] + costs[i] + (tokens / size - 1) ** 2
                if cost < best:
                    best, best_i = cost, i
            cheapest.append(best)
            origin.append(best_i)
        borders = [len(costs)]
        while borders[-1]:
            borders.append(origin[borders[-1]])
        return borders[::-1]

    def _overlapped(self, previous: int, first: int, last: int) -> int:
        """The unit a passage begins with once it repeats the end of the one before."""
        torn = not self._units[first].opens
        for i in range(max(self._repeated[first], previous + 1), first):
            tokens = self._end[last - 1] - self._begin[i]
            repeated = self._end[first - 1] - self._begin[i]
            fits = tokens <= self._capacity and repeated <= 2 * self._overlap * tokens
            if fits and (torn or self._units[i].opens):
                return i
        return first

"""Charts of the report page: the scales of the SVG that ``templates/charts.html`` draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 436, 12, 230
"""The borders of the plot within the chart."""

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart; ``tone`` is the number of its colour."""

    name: str
    points: Points
    tone: int = 0
    dashed: bool = False
    dots: bool = True


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines with a legend. ``whole_y`` makes the scale go from 0 to 1, otherwise it fits the
    data; without ``marks_x``, the ticks are round numbers."""

    title: str
    note: str
    lines: Sequence[ChartLine]
    x: str
    y: str
    percent_x: bool = False
    percent_y: bool = True
    log_x: bool = False
    whole_y: bool = False
    marks_x: Sequence[float] = ()

    @property
    def points(self) -> list[tuple[float, float]]:
        return [point for line in self.lines for point in line.points]

    @property
    def ticks_x(self) -> list[float]:
        low, high = min(self.points)[0], max(self.points)[0]
        return [tick for tick in self.marks_x or _round_ticks(low, high) if low <= tick <= high]

    @property
    def ticks_y(self) -> tuple[float, ...]:
        values = [0.0, 1.0] if self.whole_y else [y for _, y in self.points]
        return _round_ticks(min(values), max(values))

    def at_x(self, value: float) -> float:
        low, high = min(self.points)[0], max(self.points)[0]
        if high == low:
            share = 0.5
        elif self.log_x:
            share = math.log(value / low) / math.log(high / low)
        else:
            share = (value - low) / (high - low)
        return LEFT + share * (RIGHT - LEFT)

    def at_y(self, value: float) -> float:
        low, *_, high = self.ticks_y
        return BOTTOM + (value - low) / (high - low) * (TOP - BOTTOM)

    def label_x(self, value: float) -> str:
        return f"{value:.0%}" if self.percent_x else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class BarChart:
    """Stacked horizontal bars on a common scale: per row a label and the parts by name."""

    title: str
    note: str
    rows: Sequence[tuple[str, dict[str, float]]]
    unit: str

    @property
    def longest(self) -> float:
        return max((sum(parts.values()) for _, parts in self.rows), default=0.0)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for _, parts in self.rows for name in parts))


def _round_ticks(low: float, high: float) -> tuple[float, ...]:
    """Round numbers that enclose the data, at least two."""
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    raw = (high - low) / 4
    size = 10 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw - 1e-12)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(i * step, 10) for i in range(first, last + 1))

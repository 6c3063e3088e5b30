"""Charts of the report page: geometry for the SVG that ``templates/charts.html`` draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
class DrawnLine:
    """A line as an SVG path, and its dots with what each shows under the pointer."""

    line: ChartLine
    path: str
    dots: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines with a legend. Ticks are a position and a label; no lines, no chart."""

    title: str
    note: str
    x: str
    y: str
    lines: tuple[DrawnLine, ...] = ()
    ticks_x: tuple[tuple[float, str], ...] = ()
    ticks_y: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class BarChart:
    """Stacked horizontal bars on a common scale: per row a label and the parts by name."""

    title: str
    note: str
    rows: tuple[tuple[str, dict[str, float]], ...]
    unit: str

    @property
    def longest(self) -> float:
        return max((sum(parts.values()) for _, parts in self.rows), default=0.0)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for _, parts in self.rows for name in parts))


def line_chart(
    title: str,
    note: str,
    lines: Sequence[ChartLine],
    *,
    x: str,
    y: str,
    percent_x: bool = False,
    percent_y: bool = True,
    log_x: bool = False,
    whole_y: bool = False,
    ticks_x: Sequence[float] = (),
) -> LineChart:
    """Place the points. ``whole_y`` makes the scale go from 0 to 1, otherwise it fits the data;
    without ``ticks_x``, round numbers are chosen."""
    points = [point for line in lines for point in line.points]
    if not points:
        return LineChart(title, note, x, y)
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    lowest, highest = min(p[1] for p in points), max(p[1] for p in points)
    ticks_y = _ticks(0.0, 1.0) if whole_y else _ticks(lowest, highest)
    at_x = _scale(left, right, LEFT, RIGHT, log_x)
    at_y = _scale(ticks_y[0], ticks_y[-1], BOTTOM, TOP, False)

    def label_x(value: float) -> str:
        return f"{value:.0%}" if percent_x else f"{value:,.0f}"

    def drawn(line: ChartLine) -> DrawnLine:
        placed = [(at_x(px), at_y(py)) for px, py in line.points]
        path = " ".join(f"{'L' if i else 'M'}{a:.1f} {b:.1f}" for i, (a, b) in enumerate(placed))
        labels = [
            f"{line.name}, {x} {label_x(px)}: {f'{py:.1%}' if percent_y else f'{py:.3g}'}"
            for px, py in line.points
        ]
        dots = [(a, b, text) for (a, b), text in zip(placed, labels, strict=True)]
        return DrawnLine(line, path, tuple(dots) if line.dots else ())

    return LineChart(
        title,
        note,
        x,
        y,
        tuple(drawn(line) for line in lines),
        tuple((at_x(t), label_x(t)) for t in ticks_x or _ticks(left, right) if left <= t <= right),
        tuple((at_y(t), f"{t:.0%}" if percent_y else f"{t:g}") for t in ticks_y),
    )


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Round numbers that enclose the data."""
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    raw = (high - low) / 4
    size = 10 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw - 1e-12)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(i * step, 10) for i in range(first, last + 1))


def _scale(
    low: float, high: float, start: float, end: float, logarithmic: bool
) -> Callable[[float], float]:
    def position(value: float) -> float:
        if high == low:
            share = 0.5
        elif logarithmic:
            share = math.log(value / low) / math.log(high / low)
        else:
            share = (value - low) / (high - low)
        return start + share * (end - start)

    return position

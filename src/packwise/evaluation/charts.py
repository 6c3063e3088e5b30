"""Line and bar charts as inline SVG: no script, colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 24, 12, 40


@dataclass(frozen=True, slots=True)
class Line:
    """Points of one series; ``tone`` is the number of its colour."""

    name: str
    points: tuple[tuple[float, float], ...]
    tone: int = 0
    dashed: bool = False
    dots: bool = True


def lines(
    series: Sequence[Line],
    *,
    x: str,
    y: str,
    percent_x: bool = False,
    percent_y: bool = True,
    log_x: bool = False,
    whole_y: bool = False,
    ticks_x: Sequence[float] = (),
) -> str:
    """A chart of several lines with a legend. ``whole_y`` starts the scale at 0 and ends it
    at 1; else it is fitted to the data."""
    points = [point for one in series for point in one.points]
    if not points:
        return '<p class="soft">Nothing to draw.</p>'
    xs = [p[0] for p in points]
    ys = [p[1] for p in points]
    low, high, ticks_y = _scale(0.0 if whole_y else min(ys), 1.0 if whole_y else max(ys))
    left, right = min(xs), max(xs)
    place_x = _placer(left, right, _LEFT, WIDTH - _RIGHT, log_x)
    place_y = _placer(low, high, HEIGHT - _BOTTOM, _TOP, False)
    parts = [_grid(ticks_y, place_y, percent_y)]
    shown = ticks_x or _scale(left, right)[2]
    for tick in (t for t in shown if left <= t <= right):
        at = place_x(tick)
        label = f"{tick:.0%}" if percent_x else f"{tick:,.0f}"
        parts.append(f'<text class="tick" x="{at:.1f}" y="{HEIGHT - 22}" text-anchor="middle">')
        parts.append(f"{label}</text>")
    parts.append(
        f'<text class="axis" x="{(_LEFT + WIDTH - _RIGHT) / 2:.0f}" y="{HEIGHT - 5}" '
        f'text-anchor="middle">{escape(x)}</text>'
    )
    for one in series:
        parts.append(_line(one, place_x, place_y, x, y, percent_x, percent_y))
    legend = "".join(
        f'<span class="key"><i class="t{one.tone}{" dashed" if one.dashed else ""}"></i>'
        f"{escape(one.name)}</span>"
        for one in series
    )
    return (
        f'<div class="keys">{legend}</div><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(y)} by {escape(x)}">{"".join(parts)}</svg>'
    )


def stacks(rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], *, unit: str) -> str:
    """Horizontal bars made of parts, one a row, on a common scale; the parts are named in a
    legend and in what shows under the pointer."""
    longest = max((sum(v for _, v in parts) for _, parts in rows), default=0.0)
    if not longest:
        return '<p class="soft">Nothing to draw.</p>'
    names = list(dict.fromkeys(name for _, parts in rows for name, _ in parts))
    body: list[str] = []
    for label, parts in rows:
        total = sum(value for _, value in parts)
        cells = "".join(
            f'<i class="s{names.index(name) % 10}" style="width:{value / longest * 100:.2f}%" '
            f'title="{escape(name)}: {value:.1f} {unit}"></i>'
            for name, value in parts
        )
        body.append(
            f'<div class="row"><b>{escape(label)}</b><span class="num soft">{total:.1f} {unit}'
            f'</span></div><div class="stack">{cells}</div>'
        )
    legend = "".join(
        f'<span class="key"><i class="box s{i % 10}"></i>{escape(name)}</span>'
        for i, name in enumerate(names)
    )
    return f'{"".join(body)}<div class="keys">{legend}</div>'


def _line(
    one: Line,
    place_x: Callable[[float], float],
    place_y: Callable[[float], float],
    x: str,
    y: str,
    percent_x: bool,
    percent_y: bool,
) -> str:
    path = " ".join(
        f"{'L' if i else 'M'}{place_x(px):.1f} {place_y(py):.1f}"
        for i, (px, py) in enumerate(one.points)
    )
    dash = ' stroke-dasharray="5 4"' if one.dashed else ""
    parts = [f'<path class="line t{one.tone}" d="{path}"{dash}/>']
    if one.dots:
        for px, py in one.points:
            at = f"{px:.0%}" if percent_x else f"{px:,.0f}"
            value = f"{py:.1%}" if percent_y else f"{py:.3g}"
            parts.append(
                f'<circle class="dot t{one.tone}" cx="{place_x(px):.1f}" cy="{place_y(py):.1f}" '
                f'r="3.2"><title>{escape(one.name)}, {escape(x)} {at}: {value}</title></circle>'
            )
    return "".join(parts)


def _grid(ticks: Sequence[float], place: Callable[[float], float], percent: bool) -> str:
    parts: list[str] = []
    for tick in ticks:
        at = place(tick)
        label = f"{tick:.0%}" if percent else f"{tick:g}"
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{label}</text>'
        )
    return "".join(parts)


def _scale(low: float, high: float) -> tuple[float, float, tuple[float, ...]]:
    """Borders around the data and round numbers between them."""
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    raw = (high - low) / 4
    size = 10 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw - 1e-12)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(i * step, 10) for i in range(first, last + 1))
    return ticks[0], ticks[-1], ticks


def _placer(
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

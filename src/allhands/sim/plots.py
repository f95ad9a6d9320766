"""Lines over two axes as SVG text, for pages that must open without a network. It draws what it is given."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 44
COLOURS: Final = ("#2f6fde", "#d9822b", "#2a9d5c", "#b5459b", "#7b61c9", "#c0392b", "#1f9aa6", "#8d7a1f")
LEGEND_ROW: Final = 18


class Line(NamedTuple):
    name: str
    points: tuple[tuple[float, float], ...]
    is_stepped: bool = False
    """Whether a value holds until the next one."""


class Axis:
    """From values to places between two ends."""

    def __init__(self, values: Sequence[float], begin: float, end: float, *, logarithmic: bool = False) -> None:
        self._scale: Callable[[float], float] = (lambda value: math.log10(max(value, 1.0))) if logarithmic else float
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        self._is_logarithmic = logarithmic
        if not logarithmic:
            low = min(low, 0.0)
        self._low = math.floor(self._scale(low)) if logarithmic else low
        self._high = max(math.ceil(self._scale(high)) if logarithmic else high, self._low + 1e-9)
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        part = (self._scale(value) - self._low) / (self._high - self._low)
        return round(self._begin + part * (self._end - self._begin), 1)

    def ticks(self) -> list[float]:
        """At most about six round numbers."""
        if self._is_logarithmic:
            return [10.0**power for power in range(int(self._low), int(self._high) + 1)]
        step = 10 ** math.floor(math.log10(self._high - self._low))
        for smaller in (5, 2):
            if (self._high - self._low) / step < 4:
                step /= smaller if smaller == 2 else 2
        first = math.ceil(self._low / step)
        return [round(number * step, 10) for number in range(first, math.floor(self._high / step + 1e-9) + 1)]


def plot(lines: Sequence[Line], across: str, upwards: str, *, logarithmic: bool = False) -> str:
    """`across` and `upwards` say what the axes show; the former may be logarithmic, where less than 1 counts as 1."""
    height = HEIGHT + LEGEND_ROW * (len(lines) > 1)
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x_axis = Axis(xs, LEFT, WIDTH - RIGHT, logarithmic=logarithmic)
    y_axis = Axis(ys, HEIGHT - BOTTOM, TOP)
    label = html.escape(f"{upwards} over {across}")
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">']
    parts += _grid(x_axis, y_axis)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(_text(WIDTH / 2, HEIGHT - 6, across, "middle"))
    parts.append(
        f'<text class="faint" text-anchor="middle" transform="translate(14 {middle}) rotate(-90)">'
        f"{html.escape(upwards)}</text>"
    )
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        if line.points:
            name = html.escape(line.name)
            parts.append(f'<path stroke="{colour}" d="{_path(line, x_axis, y_axis)}"><title>{name}</title></path>')
        if len(lines) > 1:
            parts.append(_legend(line, number, len(lines), colour))
    return "\n".join([*parts, "</svg>"])


def _legend(line: Line, number: int, count: int, colour: str) -> str:
    x = LEFT + number * (WIDTH - LEFT - RIGHT) // count
    swatch = f'<rect x="{x}" y="{HEIGHT + 4}" width="12" height="3" fill="{colour}"/>'
    return swatch + f'<text x="{x + 16}" y="{HEIGHT + 10}">{html.escape(line.name)}</text>'


def _grid(x_axis: Axis, y_axis: Axis) -> list[str]:
    bottom = HEIGHT - BOTTOM
    parts = []
    for tick in x_axis.ticks():
        x = x_axis.place(tick)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 16, _number(tick), "middle"))
    for tick in y_axis.ticks():
        y = y_axis.place(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(tick), "end"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="faint" x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"


def _path(line: Line, x_axis: Axis, y_axis: Axis) -> str:
    parts: list[str] = []
    for number, (x, y) in enumerate(line.points):
        across, upwards = x_axis.place(x), y_axis.place(y)
        if number == 0:
            parts.append(f"M{across} {upwards}")
        else:
            parts.append(f"H{across}V{upwards}" if line.is_stepped else f"L{across} {upwards}")
    return "".join(parts)

"""Line charts as SVG: a pure function from points to the text of a file, the same text for the same points."""

import math
from collections.abc import Sequence
from html import escape

import msgspec

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 46, 52
"""Room around the field of the lines, in px: for the numbers of y, nothing, the title, those of x."""

LEGEND_ROW_PX = 18

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Told apart by the colour-blind as well; after Okabe and Ito. Lines beyond them are dashed."""

MOST_TICKS = 8
LEGEND_LETTER_PX = 6.6
"""Of the legend's font, on average."""


class Axis(msgspec.Struct, frozen=True):
    """`label` names what is along it, with the unit. `log`: equal factors are equally far apart."""

    label: str
    log: bool = False


class Line(msgspec.Struct, frozen=True):
    """A named line through points (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]


class Scale(msgspec.Struct, frozen=True):
    """Where the values of an axis are, in px from `start` to `end`, and its ticks."""

    low: float
    high: float
    ticks: list[float]
    log: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the place of a value."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        place = math.log10(value) if self.log else value
        return self.start + (self.end - self.start) * (place - low) / (high - low)


def linear_ticks(low: float, high: float) -> list[float]:
    """Return round values at equal distances that enclose the range; there are at most `MOST_TICKS` steps."""
    span = (high - low) or abs(high) or 1.0
    magnitude = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    step = next(m * magnitude for m in (1, 2, 5, 10) if span / (m * magnitude) <= MOST_TICKS)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(n * step, 12) for n in range(first, max(last, first + 1) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return values that enclose the range: powers of ten, with twos and fives between them where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    factors = (1, 2, 5) if last - first < MOST_TICKS // 2 else (1,)
    every = [round(m * 10.0**n, 12) for n in range(first, last + 1) for m in factors]
    below = [tick for tick in every if tick <= low] or every[:1]
    above = [tick for tick in every if tick >= high] or every[-1:]
    return [tick for tick in every if below[-1] <= tick <= above[0]]


def chart(title: str, x: Axis, y: Axis, lines: Sequence[Line]) -> str:
    """Return a chart. Raises `ValueError` without points, or for one that is not above zero on a log axis."""
    places = [point for line in lines for point in line.points]
    if not places:
        raise ValueError("no points")
    across = _scale(x, [place[0] for place in places], LEFT, WIDTH - RIGHT)
    keys = _legend([line.name for line in lines])
    top = keys[-1][1] + LEGEND_ROW_PX
    up = _scale(y, [place[1] for place in places], HEIGHT - BOTTOM, top)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="sans-serif" font-size="12" fill="#222" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        *_grid(x, y, across, up),
    ]
    for number, (line, (left, down)) in enumerate(zip(lines, keys, strict=True)):
        dashes = ' stroke-dasharray="5 4"' if number >= len(COLOURS) else ""
        stroke = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2"{dashes}'
        points = " ".join(f"{across.at(px):.1f},{up.at(py):.1f}" for px, py in line.points)
        parts.append(f'<polyline points="{points}" fill="none" {stroke}/>')
        parts.append(f'<path d="M{left:.0f} {down - 4}h16" {stroke}/>')
        parts.append(f'<text x="{left + 21:.0f}" y="{down}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _legend(names: Sequence[str]) -> list[tuple[float, int]]:
    """Return where each name of the legend begins, row by row."""
    left, down, places = float(LEFT), TOP, []
    for name in names:
        width = 42 + LEGEND_LETTER_PX * len(name)
        if left > LEFT and left + width > WIDTH:
            left, down = float(LEFT), down + LEGEND_ROW_PX
        places.append((left, down))
        left += width
    return places


def _scale(axis: Axis, values: Sequence[float], start: float, end: float) -> Scale:
    if axis.log and min(values) <= 0:
        raise ValueError(f"{axis.label}: a value of {min(values)} has no place on a log axis")
    low, high = min(values), max(values)
    ticks = log_ticks(low, high) if axis.log else linear_ticks(min(low, 0.0), high)
    return Scale(ticks[0], ticks[-1], ticks, axis.log, start, end)


def _grid(x: Axis, y: Axis, across: Scale, up: Scale) -> list[str]:
    """Return the grid, the numbers at it and the names of the axes."""
    bottom, middle = HEIGHT - BOTTOM, (up.end + HEIGHT - BOTTOM) / 2
    parts = []
    for tick in up.ticks:
        at = up.at(tick)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    for tick in across.ticks:
        at = across.at(tick)
        parts.append(f'<path d="M{at:.1f} {up.end:g}V{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{_number(tick)}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x.label)}</text>'
    )
    parts.append(
        f'<text transform="translate(16 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>'
    )
    return parts


def _number(value: float) -> str:
    """Return a number as people write it: no exponents."""
    return f"{value:,.0f}" if value >= 1 and value == int(value) else f"{value:g}"

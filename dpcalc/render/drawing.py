"""A chart as inline SVG: readable without a script, in the colours of the page around it, named for screen readers."""

from __future__ import annotations

import math
from collections.abc import Callable
from xml.sax.saxutils import escape

from dpcalc.charts import Axis, Bars, Chart, Line, is_logarithmic, tick_text
from dpcalc.report import shortened

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 16, 48
_LABEL_GAP = 15.0
_BAR_PITCH, _BARS_START, _BARS_END, _MOST_LETTERS = 28, 170, 490, 24


def as_svg(chart: Chart) -> str:
    """The chart as an SVG element; its numbers stand in a table elsewhere, its title and text say what it shows."""
    heights = chart.y_values()
    x = Axis.over(chart.x_values(), _LEFT, _WIDTH - _RIGHT, logarithmic=chart.x_is_logarithmic())
    y = Axis.over(heights, _HEIGHT - _BOTTOM, _TOP, logarithmic=is_logarithmic(heights), from_zero=True)
    told = f"{chart.title}. {chart.y_label} against {chart.x_label}. {_described(chart)}"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(told, {chr(34): "&quot;"})}">',
        f"<title>{escape(chart.title)}</title>",
        *_axes(chart, x, y),
        *(_identity(x, y) if chart.identity else []),
        *_limit(chart, x, y),
    ]
    for line in sorted(chart.lines, key=lambda line: (chart.hidden(line), line.main)):
        kind = "over" if chart.hidden(line) else "main" if line.main else "other"
        parts += [
            *_band(line, x, y),
            _path(line, x.at, y.at, kind, steps=chart.steps),
            *_marks(line, x, y, rising=chart.identity),
        ]
    return "\n".join([*parts, *_labels(chart, x, y), "</svg>"])


def bars_as_svg(bars: Bars) -> str:
    """Shares as bars, each with its name to the left and its numbers to the right."""
    height = _BAR_PITCH * len(bars.bars) + _TOP
    told = f"{bars.title}. " + "; ".join(f"{name}: {text}" for name, _, text in bars.bars)
    quoted = escape(told, {chr(34): "&quot;"})
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{quoted}">']
    parts.append(f"<title>{escape(bars.title)}</title>")
    for index, (name, share, text) in enumerate(bars.bars):
        top, length = _TOP + _BAR_PITCH * index, max(share * (_BARS_END - _BARS_START), 1.0)
        middle, kind = top + _BAR_PITCH / 2 - 4, "main" if index == 0 else "other"
        parts += [
            f'<text class="tick" x="{_BARS_START - 8}" y="{_number(middle)}" dy="4" text-anchor="end">'
            f"{escape(shortened(name, _MOST_LETTERS))}</text>",
            f'<rect class="{kind}" x="{_BARS_START}" y="{top}" width="{_number(length)}" height="{_BAR_PITCH - 8}"/>',
            f'<text class="end {kind}" x="{_number(_BARS_START + length + 6)}" y="{_number(middle)}" dy="4">'
            f"{escape(text)}</text>",
        ]
    return "\n".join([*parts, "</svg>"])


def _described(chart: Chart) -> str:
    ends = [(line.label, line.points()) for line in chart.lines]
    return "; ".join(
        f"{label}: from {tick_text(points[0][1])} to {tick_text(points[-1][1])}" for label, points in ends if points
    )


def _axes(chart: Chart, x: Axis, y: Axis) -> list[str]:
    parts = []
    for value in y.ticks(5):
        place = _number(y.at(value))
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{place}" y2="{place}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 8}" y="{place}" dy="4" text-anchor="end">{tick_text(value)}</text>'
        )
    for value in x.ticks(6):
        place = _number(x.at(value))
        below = f'x="{place}" y="{_HEIGHT - _BOTTOM + 18}"'
        parts.append(f'<text class="tick" {below} text-anchor="middle">{tick_text(value)}</text>')
    middle = _number((_LEFT + _WIDTH - _RIGHT) / 2)
    parts.append(
        f'<text class="axis" x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(chart.x_label)}</text>'
    )
    height = _number((_TOP + _HEIGHT - _BOTTOM) / 2)
    parts.append(
        f'<text class="axis" x="14" y="{height}" transform="rotate(-90 14 {height})" text-anchor="middle">'
        f"{escape(chart.y_label)}</text>"
    )
    return parts


def _path(line: Line, x: Callable[[float], float], y: Callable[[float], float], kind: str, *, steps: bool) -> str:
    pieces: list[str] = []
    command = "M"
    before: float | None = None
    for at, value in zip(line.x, line.y, strict=True):
        if value is None or not math.isfinite(value):
            command = "M"
            continue
        if steps and command == "L" and before is not None:
            pieces.append(f"L{_number(x(at))} {_number(y(before))}")
        pieces.append(f"{command}{_number(x(at))} {_number(y(value))}")
        command, before = "L", value
    return f'<path class="{kind}" d="{"".join(pieces)}"/>'


def _band(line: Line, x: Axis, y: Axis) -> list[str]:
    """What lies between the certified bounds, where both are known."""
    rows = [
        (at, high, low)
        for at, high, low in zip(line.x, line.y, line.lower or (None,) * len(line.x), strict=True)
        if high is not None and low is not None and math.isfinite(high)
    ]
    if len(rows) < 2:
        return []
    there = [f"{_number(x.at(at))},{_number(y.at(high))}" for at, high, _ in rows]
    back = [f"{_number(x.at(at))},{_number(y.at(low))}" for at, _, low in reversed(rows)]
    return [f'<polygon class="band" points="{" ".join([*there, *back])}"/>']


def _limit(chart: Chart, x: Axis, y: Axis) -> list[str]:
    if chart.limit is None:
        return []
    place = _number(y.at(chart.limit))
    return [
        f'<line class="limit" x1="{_number(x.start)}" x2="{_number(x.end)}" y1="{place}" y2="{place}"/>',
        f'<text class="limit" x="{_number(x.start + 4)}" y="{place}" dy="-5">{chart.limit_text()}</text>',
    ]


def _identity(x: Axis, y: Axis) -> list[str]:
    low, high = max(x.low, y.low), min(x.high, y.high)
    places = [low * (high / low) ** (i / 40) if low > 0 else high * i / 40 for i in range(41)]
    points = " ".join(f"{_number(x.at(place))},{_number(y.at(place))}" for place in places)
    return [f'<polyline class="identity" points="{points}"/>']


def _marks(line: Line, x: Axis, y: Axis, *, rising: bool) -> list[str]:
    """Points that are told, with their values above them, on the side where the line is not."""
    parts = []
    side = 'dx="-7" text-anchor="end"' if rising else 'dx="7"'
    for at, value, text in line.marks:
        across, up = _number(x.at(at)), _number(y.at(value))
        parts.append(f'<circle class="mark" cx="{across}" cy="{up}" r="4"/>')
        parts.append(f'<text class="end main" x="{across}" y="{up}" {side} dy="-7">{escape(text)}</text>')
    return parts


def _labels(chart: Chart, x: Axis, y: Axis) -> list[str]:
    """The name of every line at its right end with the value there, moved apart where they would overlap."""
    right = [(max(line.points()), line) for line in chart.lines if line.points()]
    wanted = sorted(((y.at(point[1]), point, line) for point, line in right), key=lambda item: item[0])
    parts, lowest = [], -math.inf
    for height, (at, _), line in wanted:
        lowest = max(height, lowest + _LABEL_GAP)
        kind, place = "main" if line.main else "other", f'x="{_number(x.at(at) + 6)}" y="{_number(lowest)}"'
        parts.append(f'<text class="end {kind}" {place} dy="4">{escape(line.end())}</text>')
    return parts


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

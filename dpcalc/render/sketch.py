"""A chart as a few lines of text: enough to see how a curve runs, where somebody reads it in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from dpcalc.charts import Axis, Chart, Line, is_logarithmic, tick_text
from dpcalc.report import rounded_up

_ROWS = 8
_WIDEST = 48
_NARROWEST = 20
_ACROSS, _DOWN = 2, 4  # dots of a Braille character
_EMPTY = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def as_sketch(chart: Chart, width: int) -> list[str]:
    """The chart in lines no wider than that, the names of its lines at their ends; empty where there is no room."""
    xs, ys = chart.x_values(), chart.y_values()
    y = Axis.over(ys, _DOWN * _ROWS - 1, 0, logarithmic=is_logarithmic(ys), from_zero=True)
    left = {round(y.at(value)) // _DOWN: tick_text(value) for value in y.ticks(3)}
    right = _ends(chart, y)
    margin = max(map(len, left.values()), default=0)
    columns = min(_WIDEST, width - margin - 3 - max(map(len, right.values()), default=0))
    if columns < _NARROWEST:
        return []
    x = Axis.over(xs, 0, _ACROSS * columns - 1, logarithmic=chart.x_is_logarithmic())
    grid = [[_EMPTY] * columns for _ in range(_ROWS)]
    for across, down in _drawn(chart, x, y):
        grid[down // _DOWN][across // _ACROSS] |= _DOTS[across % _ACROSS][down % _DOWN]
    lines = [f"{chart.y_label} against {chart.x_label}"]
    for row, cells in enumerate(grid):
        drawn = "".join(" " if cell == _EMPTY else chr(cell) for cell in cells)
        lines.append(f"{left.get(row, ''):>{margin}} │{drawn} {right.get(row, '')}".rstrip())
    return [*lines, f"{'':>{margin}} └{'─' * columns}", f"{'':>{margin}}  {_below(x, columns)}".rstrip()]


def _ends(chart: Chart, y: Axis) -> dict[int, str]:
    """What stands to the right of each row: the name of a line and its last value, one below the other."""
    last = [(line.points()[-1][1], line.label) for line in chart.lines if line.points()]
    told = [(y.at(value), f"{label} {rounded_up(value)}") for value, label in last if label]
    told += [] if chart.limit is None else [(y.at(chart.limit), chart.limit_text())]
    placed: dict[int, str] = {}
    for place, text in sorted(told):
        row = max(round(place) // _DOWN, *(taken + 1 for taken in placed), 0)
        placed[row] = text
    excess = max(placed, default=0) - (_ROWS - 1)
    while excess > 0:  # too low: the block at the end moves up into the first gap above it
        row = max(placed)
        while row in placed:
            row -= 1
        if row < 0:
            break
        placed = {place - 1 if place > row else place: text for place, text in placed.items()}
        excess -= 1
    return placed


def _drawn(chart: Chart, x: Axis, y: Axis) -> Iterator[tuple[int, int]]:
    """The dots: every one of the line that answers, one in three of the rest, few of the limit."""
    for line in chart.lines:
        yield from (dot for i, dot in enumerate(_line(line, x, y)) if line.main or i % 3 == 0)
    if chart.limit is not None:
        yield from ((across, round(y.at(chart.limit))) for across in range(0, int(x.end) + 1, 4))


def _line(line: Line, x: Axis, y: Axis) -> Iterator[tuple[int, int]]:
    """The dots between neighbours; a missing value is a gap."""
    for (x0, y0), (x1, y1) in pairwise(zip(line.x, line.y, strict=True)):
        if y0 is None or y1 is None or not math.isfinite(y0 + y1):
            continue
        start, end = (x.at(x0), y.at(y0)), (x.at(x1), y.at(y1))
        count = max(1, math.ceil(max(abs(end[0] - start[0]), abs(end[1] - start[1]))))
        for i in range(count + 1):
            part = i / count
            yield round(start[0] + part * (end[0] - start[0])), round(start[1] + part * (end[1] - start[1]))


def _below(x: Axis, columns: int) -> str:
    """The ticks of the x axis, each in the middle under its place, none over another."""
    text = ""
    for value in x.ticks(4):
        told = tick_text(value)
        start = min(max(round(x.at(value)) // _ACROSS - len(told) // 2, 0), columns - len(told))
        if not text or start > len(text):
            text = f"{text:<{start}}{told}"
    return text

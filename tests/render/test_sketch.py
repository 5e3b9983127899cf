"""Drawings in text: they fit, rise where the curve rises, and name what they show."""

from __future__ import annotations

import math

import pytest

import dpcalc as library
from dpcalc.charts import Chart, Line
from dpcalc.render.screen import as_text
from dpcalc.render.sketch import as_sketch

BLANK = {" ", "│"}


def chart(*lines: Line, limit: float | None = None) -> Chart:
    return Chart(title="", x_label="steps", y_label="ε", lines=lines, limit=limit)


def tops(drawn: list[str]) -> list[int]:
    """The highest row with a dot in every column that has one."""
    rows = [line.partition("│")[2] for line in drawn if "│" in line]
    wide = max(map(len, rows))
    columns = ([row[i : i + 1] for row in rows] for i in range(wide))
    found = ([k for k, letter in enumerate(column) if letter and 0x2800 < ord(letter) < 0x2900] for column in columns)
    return [rows[0] for rows in found if rows]


def test_a_rising_line_rises_from_the_lowest_row_to_the_highest() -> None:
    heights = tops(as_sketch(chart(Line(label="", x=(0, 1, 2), y=(0, 1, 2))), 60))
    assert (heights[0], heights[-1]) == (7, 0)
    assert heights == sorted(heights, reverse=True)


def test_what_is_missing_or_infinite_is_a_gap() -> None:
    whole = tops(as_sketch(chart(Line(label="", x=(0, 1, 2, 3), y=(1, 1, 1, 2))), 60))
    gap = tops(as_sketch(chart(Line(label="", x=(0, 1, 2, 3), y=(1, 1, math.inf, 2))), 60))
    assert len(gap) < len(whole)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("last", [(1.0, 1.0, 1.0, 1.0), (1.0, 40.0, 41.0, 42.0), (0.0, 0.0, 0.0, 5.0)])
def test_every_name_stands_at_an_end_and_no_line_is_too_wide(width: int, last: tuple[float, ...]) -> None:
    lines = [Line(label=f"way {i}", x=(1, 10, 500), y=(0.5, 0.7, end)) for i, end in enumerate(last)]
    drawn = as_sketch(chart(*lines, limit=3.0), width)
    assert max(map(len, drawn)) <= width
    assert len(drawn) == 11
    text = "\n".join(drawn)
    assert all(text.count(f"way {i} ") == 1 for i in range(len(last)))
    assert text.count("limit 3") == 1


def test_no_room_no_drawing() -> None:
    assert as_sketch(chart(Line(label="a very long name", x=(1, 2), y=(1, 2))), 30) == []


def test_a_curve_is_drawn_on_a_terminal_and_told_in_bars_on_a_pipe() -> None:
    result = library.compose(library.GDP(mu=1.0), delta=[1e-3, 1e-5, 1e-7, 1e-9])._complete
    screen, pipe = as_text(result, width=80), as_text(result)
    assert "ε against δ" in screen
    assert "└──" in screen
    assert "█" not in screen
    assert "█" in pipe
    assert "└──" not in pipe
    two = as_text(library.compose(library.GDP(mu=1.0), delta=[1e-3, 1e-5])._complete, width=80)
    assert "█" in two
    assert "└──" not in two

"""A picture as data: lines, a band, a limit. Matplotlib, the page and the terminal draw the same chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpcalc.report import beside_a_budget, rounded_up, written

# From this ratio between the largest and the smallest on, a logarithmic axis shows more than a linear one.
LOGARITHMIC_FROM = 8.0
_CLOSE = 0.02  # lines this near look like one
_COUNTED = 1000  # whole numbers from here on are counts of records


@dataclass(frozen=True, kw_only=True)
class Line:
    """Values over x, with a name that stands at its end; `lower` is what is certified from below.

    Where a value is missing or infinite there is a gap. `main` is the line that answers the question; `marks` are
    points of it that are told with their values.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    lower: tuple[float | None, ...] = ()
    main: bool = True
    marks: tuple[tuple[float, float, str], ...] = ()

    def end(self) -> str:
        """What stands at its right end: its name, and the value there where no mark tells one."""
        value = max(self.points())[1]
        told = f"{value:,.0f}" if value >= _COUNTED and value == int(value) else beside_a_budget(value)
        return self.label if self.marks else f"{self.label} {told}".strip()

    def points(self) -> list[tuple[float, float]]:
        """The points that can be drawn."""
        return [(x, y) for x, y in zip(self.x, self.y, strict=True) if y is not None and math.isfinite(y)]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines over one x axis; `limit` is a value that y should not pass, `identity` asks for the line y = x.

    `steps` says that x counts steps, of which each has a value that holds to the next; `timed` that it counts steps of
    which some are shown. Either way the axis stays linear.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    subtitle: str = ""
    limit: float | None = None
    identity: bool = False
    steps: bool = False
    timed: bool = False

    def hidden(self, line: Line) -> bool:
        """Whether a line lies under the main one for a part of its way, so that it would not be seen."""
        if line.main:
            return False
        mains = [dict(other.points()) for other in self.lines if other.main]
        close = [x in main and abs(y - main[x]) <= _CLOSE * abs(y) for main in mains for x, y in line.points()]
        return sum(close) > 1

    def x_values(self) -> list[float]:
        """Every x of a point that can be drawn."""
        return [x for line in self.lines for x, _ in line.points()]

    def y_values(self) -> list[float]:
        """Every y that can be drawn, with the limit and the line y = x."""
        lower = [y for line in self.lines for y in line.lower if y is not None and math.isfinite(y)]
        drawn = [y for line in self.lines for _, y in line.points()]
        drawn += self.x_values() if self.identity else []
        return [*drawn, *lower, *([] if self.limit is None else [self.limit])]

    def x_is_logarithmic(self) -> bool:
        """Whether the x axis is logarithmic; time is not."""
        return not (self.steps or self.timed) and is_logarithmic(self.x_values())

    def limit_text(self) -> str:
        """What stands at the line of the limit."""
        exact = written(self.limit)
        return f"limit {exact if len(exact) <= 7 else rounded_up(self.limit)}"

    def is_empty(self) -> bool:
        """Whether there is nothing to see: no line of two points."""
        return all(len(line.points()) < 2 for line in self.lines)


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Shares of a whole: the name of each, the share, and its numbers in words."""

    title: str
    bars: tuple[tuple[str, float, str], ...]
    subtitle: str = ""


@dataclass(frozen=True)
class Axis:
    """Values to places on the paper."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    @classmethod
    def over(
        cls, values: Sequence[float], start: float, end: float, *, logarithmic: bool, from_zero: bool = False
    ) -> Axis:
        """The axis from one place to another that has room for all values."""
        low, high = min(values), max(values)
        if not logarithmic and from_zero and low >= 0:
            low = 0.0
        if high <= low:
            low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
        return cls(low, high, start, end, logarithmic)

    def at(self, value: float) -> float:
        """Where a value is."""
        low, high, found = self.low, self.high, value
        if self.logarithmic:
            low, high, found = math.log(low), math.log(high), math.log(max(value, self.low))
        return self.start + (found - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int) -> list[float]:
        """Round values on it."""
        return ticks(self.low, self.high, logarithmic=self.logarithmic, count=count)


def is_logarithmic(values: Iterable[float]) -> bool:
    """Whether the values are positive and so far apart that a linear axis would press most of them together."""
    found = list(values)
    return bool(found) and min(found) > 0 and max(found) >= LOGARITHMIC_FROM * min(found)


def ticks(low: float, high: float, *, logarithmic: bool, count: int = 5) -> list[float]:
    """Round values to write at an axis: powers of ten, or multiples of 1, 2 or 5."""
    if logarithmic:
        return _powers(low, high, count)
    if high <= low:
        return [low]
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= rough * (1 - 1e-12))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float, count: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 2:
        every = max(1, -(-(last - first + 1) // (count + 1)))
        return [10.0**power for power in range(first, last + 1, every)]
    exponents = range(math.floor(math.log10(low)), last + 1)
    found = [m * 10.0**power for power in exponents for m in (1, 2, 5)]
    return [value for value in found if low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9)]


def tick_text(value: float) -> str:
    """A tick as short as it can be told."""
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        head = mantissa.rstrip("0").rstrip(".")
        return f"{head}e{int(exponent)}"
    return f"{value:,.6g}"

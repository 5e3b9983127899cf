"""A curve δ(ε) as one number: the least μ with δ(ε) ≤ δ_μ(ε) + s at every ε ≥ 0, and the regret of telling it.

H(t) = δ(log t) is convex and falls, so that between two knots it is at most the chord of upper bounds. From below the
Gaussian's H_μ has a line for every threshold c, that of the test which rejects above it: H_μ(t) ≥ Φ(μ − c) − t·Φ(−c). A
chord that is at most such a line plus s at both of its ends is so between them, whatever c is; the best c is where the
slopes agree, clipped to the tangents of the cell.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from dpcalc.conversions.gaussian import gdp_delta, gdp_lower
from dpcalc.conversions.normal import log_tail, tail_below
from dpcalc.numbers import SMALLEST
from dpcalc.rounding import FUNCTION, LARGEST_EXPONENT, UNIT

_PROBES = 400  # points of a curve that are asked for at most
_NARROWEST = 1e-7  # a cell of this width, relative to its ε, is not split
_LARGEST_MU = 1e6
_HALVINGS = 60

_REGRET_PROBES = 40
_REGRET_CLOSE = 2e-3  # of the regret, and
_OF_THE_GAP = 1.0  # of that between the bounds at 0: what it may be above what its knots show
_FAR = 40.0  # an ε beyond which no regret is seen: it is below e^-40


class Knot(NamedTuple):
    """A point of a curve and certified bounds on δ at it."""

    epsilon: float
    lower: float
    upper: float


class Cell(NamedTuple):
    """Two neighbouring knots' ε and upper bounds, and the threshold whose line has the slope of their chord."""

    left: float
    right: float
    above: float
    below: float
    threshold: float


def fitted_mu(
    delta_at: Callable[[float], float], slack: float, beyond: float, *, close: float = 1e-4
) -> tuple[float, float]:
    """The least μ found with δ(ε) ≤ δ_μ(ε) + slack for all ε ≥ 0, and the ε that binds; ∞ where none is certified.

    `delta_at` are upper bounds on a privacy profile, and from `beyond` on it is known to be at most the slack. Knots
    are added until μ is above what they need by less than `close` of itself.
    """
    if not beyond < math.inf:
        return math.inf, math.inf
    upper = {beyond: slack}
    for share in range(4):
        upper.setdefault(beyond * share / 4, delta_at(beyond * share / 4))
    if upper[0.0] <= slack:
        return 0.0, 0.0
    needed = {epsilon: _needed(epsilon, delta, slack) for epsilon, delta in upper.items()}
    mu = max(needed.values()) * (1 + close)
    while len(upper) < _PROBES and mu < math.inf:
        wide = [cell for cell in _cells(upper) if cell.right - cell.left > _NARROWEST * (1 + cell.right)]
        splits = [(cell.left + cell.right) / 2 for cell in wide if not _holds(cell, mu, slack)]
        if not splits:
            break
        for epsilon in splits:
            upper[epsilon] = delta_at(epsilon)
            needed[epsilon] = _needed(epsilon, upper[epsilon], slack)
        mu = max(needed.values()) * (1 + close)
    cells, margin = _cells(upper), close
    while mu < _LARGEST_MU and not all(_holds(cell, mu, slack) for cell in cells):
        mu, margin = mu * (1 + margin), 2 * margin
    certain = mu < _LARGEST_MU and all(_holds(cell, mu, slack) for cell in cells)
    return (mu if certain else math.inf), max(needed, key=lambda epsilon: needed[epsilon])


def _needed(epsilon: float, delta: float, slack: float) -> float:
    """About the least μ with δ ≤ δ_μ(ε) + slack: a hint; ∞ where there is none."""
    low, high = 0.0, 1.0
    while high < _LARGEST_MU and not delta <= gdp_lower(high, epsilon=epsilon) + slack:
        low, high = high, 2 * high
    if high >= _LARGEST_MU:
        return math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if delta <= gdp_lower(middle, epsilon=epsilon) + slack else (middle, high)
    return high


def _cells(upper: dict[float, float]) -> list[Cell]:
    """The cells between knots; the curve falls, so that a bound holds further on too."""
    cells, (left, *others) = [], sorted(upper)
    above = upper[left]
    for right in others:
        below = above if above < upper[right] else upper[right]
        cells.append(_cell(left, right, above, below))
        left, above = right, below
    return cells


@lru_cache(maxsize=1024)
def _cell(left: float, right: float, above: float, below: float) -> Cell:
    """A cell with its threshold, which only steers."""
    threshold = math.inf
    if above > below:
        log_slope = math.log(above - below) - left - _log_expm1(right - left)
        threshold = tail_below(log_slope) if log_slope < -1 else 0.0
    return Cell(left, right, above, below, threshold)


def _log_expm1(x: float) -> float:
    return math.log(math.expm1(x)) if x < 1 else x + math.log1p(-math.exp(-x))


def _threshold(cell: Cell, mu: float) -> float:
    """The threshold of the cell's line, clipped to those of tangents in the cell; it is positive."""
    return min(max(cell.threshold, cell.left / mu + mu / 2), cell.right / mu + mu / 2)


def _holds(cell: Cell, mu: float, slack: float) -> bool:
    """Whether the chord surely is at most the line of its threshold plus the slack: false where anything is NaN."""
    threshold = _threshold(cell, mu)
    log_missed, error = log_tail(threshold)
    if cell.right + log_missed > LARGEST_EXPONENT:
        return False
    detected = _probability_above(mu - threshold)
    for epsilon, delta in ((cell.left, cell.above), (cell.right, cell.below)):
        exponent = epsilon + log_missed
        missed = math.exp(exponent) * (1 + error + 2 * FUNCTION + 2 * UNIT * (epsilon + abs(log_missed)))
        rounding = 4 * UNIT * (slack + detected + missed) + 4 * SMALLEST
        if not delta <= slack + detected - missed - rounding:
            return False
    return True


def _probability_above(x: float) -> float:
    """Φ(x) from below, at an x that errs by UNIT of itself."""
    log_rest, error = log_tail(abs(x))
    rest, relative = math.exp(log_rest), error + 2 * FUNCTION
    return rest * (1 - relative) if x < 0 else (1 - rest * (1 + relative)) * (1 - 2 * UNIT)


def regret(
    bounds_at: Callable[[float], tuple[float, float]], mu: float, slack: float, beyond: float
) -> tuple[float, float]:
    """An upper bound on sup (δ_μ(ε) + slack − δ(ε))/(1 + e^ε) over ε ≥ 0, and about where it is.

    `bounds_at` gives certified bounds on δ. Convexity bounds H from below in a cell by the chords of its neighbours,
    drawn on: from the left one up to where they meet, from the right one from there. δ_μ less a line is convex in t,
    and a convex function over 1 + t is largest at an end.
    """
    end = min(beyond, _FAR)
    knots = [Knot(epsilon, *bounds_at(epsilon)) for epsilon in (0.0, end / 4, end / 2, end)]
    noise = _OF_THE_GAP * (knots[0].upper - knots[0].lower)
    shown = max((_excess(knot.epsilon, knot.lower, mu, slack), knot.epsilon) for knot in knots)
    while True:
        cells = [_largest(knots, i, mu, slack) for i in range(len(knots) - 1)]
        tail = _excess(end, 0.0, mu, slack)  # beyond the last knot 0 is a line from below
        if any(math.isnan(value) for value in (*cells, tail)):
            raise ArithmeticError("a regret that is not a number")
        worst = max(range(len(cells)), key=lambda i: cells[i])
        narrow = knots[worst + 1].epsilon - knots[worst].epsilon < _NARROWEST
        if cells[worst] <= shown[0] * (1 + _REGRET_CLOSE) + noise or len(knots) >= _REGRET_PROBES or narrow:
            return max(*cells, tail, 0.0), shown[1]
        epsilon = (knots[worst].epsilon + knots[worst + 1].epsilon) / 2
        knot = Knot(epsilon, *bounds_at(epsilon))
        insort(knots, knot)
        shown = max(shown, (_excess(epsilon, knot.lower, mu, slack), epsilon))


def _excess(epsilon: float, lower: float, mu: float, slack: float) -> float:
    """(δ_μ(ε) + slack − lower)/(1 + e^ε) from above."""
    total = float(gdp_delta(mu, epsilon)) + slack
    value = (total - lower + 4 * UNIT * (total + abs(lower))) / (1 + math.exp(epsilon))
    return value + abs(value) * (FUNCTION + 4 * UNIT)


def _largest(knots: list[Knot], i: int, mu: float, slack: float) -> float:
    """An upper bound on the excess in the cell between knot i and the next."""
    left, right = knots[i], knots[i + 1]
    start, stop = math.exp(left.epsilon), math.exp(right.epsilon)
    before, above = (math.exp(knots[i - 1].epsilon), knots[i - 1].upper) if i else (0.0, 1.0)  # H(0) = 1
    steep, flat, after = (left.lower - above) / (start - before), 0.0, math.inf
    if i + 2 < len(knots):
        after = math.exp(knots[i + 2].epsilon)
        flat = min((knots[i + 2].upper - right.lower) / (after - stop), 0.0)
    met = start + (stop - start) / 2
    if steep < flat:
        met = start + (right.lower - left.lower + flat * (start - stop)) / (steep - flat)
    epsilon = min(max(math.log(met) if met > start else left.epsilon, left.epsilon), right.epsilon)
    met = math.exp(epsilon)
    # A line errs by the rounding of its three e^ε, as far as it is drawn on.
    from_left = left.lower + steep * (met - start)
    from_left -= 32 * UNIT * (1 - steep * stop * (1 + (met - start) / (start - before)))
    from_right = right.lower + flat * (met - stop)
    from_right -= 32 * UNIT * (1 - flat * after * (1 + (stop - met) / (after - stop))) if flat < 0 else 0.0
    return max(
        _excess(left.epsilon, left.lower, mu, slack),
        _excess(epsilon, min(from_left, from_right), mu, slack),
        _excess(right.epsilon, right.lower, mu, slack),
    )

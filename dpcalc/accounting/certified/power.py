"""*Power*: many copies of many laws composed in one transform of one window (lemmas T and W)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, UPPER, Component, Direction, Law
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.arrays import Complexes, Floats
from dpcalc.rounding import SMALLEST_NORMAL, TRANSFORM, UNIT, accumulated

_MULTIPLICATION = 3.0  # units of a product of complex numbers (Higham 2002, Lemma 3.5: √2·2u/(1-2u))
_GROWN = 0.01  # what errors of factors may add to any product of their sizes, all in all
_SMALLEST = 16  # points of a transform, so that a stage of radix 5 is made up for by others
_UNHEARD = 2.0**-100  # what a frequency may be left out for
_MANY = 8  # copies, from which it is worth looking for such
_AT_ONCE = 1 << 21  # complex numbers held at once


@dataclass(frozen=True)
class Orders:
    """Hints: weights beyond a window are bounded by their moments of order `rise`, those before it by -`fall`.

    Moments of X in the scale of the rows; the nearer to the best order the better the bound.
    """

    rise: float
    fall: float


@dataclass(frozen=True)
class Window:
    """Hints: which points of the finest grid a product is computed on, and orders of the bounds on all others."""

    first: int
    size: int
    outside: Orders  # for the mass above and below the window
    wrapped: Orders  # for what wraps around into the lower rows
    faint: Orders | None = None  # for weights within it, where they are smaller than the errors of transforms

    def points(self, step: float) -> Floats:
        return np.arange(self.first, self.first + self.size, dtype=np.float64) * step


def good_size(points: float) -> int:
    """The least of 4, 5 and 6 times a power of two that is at least so large: its transform is fast, and within T."""
    power = 1 << max(math.ceil(math.log2(max(points, _SMALLEST))) - 3, 0)
    return next(power * factor for factor in (4, 5, 6, 8, 10) if power * factor >= max(points, _SMALLEST))


def powered(laws: Sequence[tuple[Law, int]], window: Window, *, worse: Direction) -> Law:
    """The law of so many independent copies of each law (a batch is the product of its laws), on one window.

    Indices count modulo the size of the window, so that every weight on the window is there and some from outside are
    added: above, that may be, and below it is taken off. What lies outside is bounded by moments (W); the errors of
    transforms and of powers are bounded in the maximum norm (T) and stand in the weights.
    """
    one = laws[0][0]
    if any((law.step, law.tilt) != (one.step, one.tilt) for law, _ in laws):
        raise ValueError("laws on different grids or scales have no product")
    factors = [_Factor(law, count) for law, count in laws]
    grid = min(k for law, _ in laws for k in law.components)
    window = replace(window, size=good_size(window.size))
    step = one.step_of(grid)
    found, origin, errors = _product(factors, grid, window.size)
    rows = np.roll(found, (origin - window.first) % window.size, axis=-1)
    detected, other = (P_LOWER, Q_LOWER) if worse == "remove" else (Q_LOWER, P_LOWER)
    rows[detected] -= errors[detected] + _wrapped(factors, detected, window, step)
    for row in (UPPER, other):
        rows[row] += errors[row]
        if window.faint is not None:
            points = window.points(step)
            for order in (window.faint.rise, -window.faint.fall):
                np.minimum(rows[row], _by_moment(factors, row, order, points), out=rows[row])
    ledger, scale, factor = _scaled(factors, grid, window.size)
    rows = np.maximum(rows, 0.0) * factor
    lower = frozenset({worse}).intersection(*(law.lower for law, _ in laws))
    count = sum(law.count * copies for law, copies in laws)
    law = Law(one.step, {grid: Component(window.first, rows)}, ledger, count, lower, one.tilt, scale)
    return _with_outside(law, factors, window, step, math.log(factor))


class _Factor:
    """One law, its rows divided by their largest total, and how many copies of it there are."""

    def __init__(self, law: Law, count: int) -> None:
        if not law.components:
            raise ValueError("a law without points has no powers")
        self.law, self.count = law, count
        parts = {k: part.rows if part.rows.ndim == 3 else part.rows[None] for k, part in law.components.items()}
        sums = sum(rows.sum(axis=-1) for rows in parts.values())
        self.totals = np.asarray(sums).max(axis=-1)
        if not (np.isfinite(self.totals).all() and (self.totals > 1e-250).all()):
            raise OverflowError("weights beyond the range of doubles")
        self.parts = {k: rows / self.totals[:, None, None] for k, rows in parts.items()}
        self.points = law.points

    def start(self, grid: int) -> int:
        """The index of the first point on the finest grid."""
        return min(part.start * _stride(k, grid) for k, part in self.law.components.items())

    def width(self, grid: int) -> int:
        end = max((part.start + part.size - 1) * _stride(k, grid) for k, part in self.law.components.items())
        return end - self.start(grid) + 1

    def windows(self, grid: int, size: int) -> int:
        """How many windows of this size the points reach over."""
        return -(-self.width(grid) // size)

    def rounding(self) -> float:
        """How far the products of all copies' sums of rows may be above 1."""
        return len(self.totals) * self.count * accumulated(self.points + 8)

    def dense(self, grid: int, size: int) -> Iterator[Floats]:
        """The rows on the finest grid, its first point first, modulo the size; some laws of a batch at a time."""
        start, windows = self.start(grid), self.windows(grid, size)
        for chosen in _chunks(len(self.totals), 3 * size * windows):
            rows = np.zeros((chosen.stop - chosen.start, 3, size * windows))
            for k, part in self.law.components.items():
                stride = _stride(k, grid)
                at = part.start * stride - start
                rows[..., at : at + (part.size - 1) * stride + 1 : stride] += self.parts[k][chosen]
            yield rows if windows == 1 else rows.reshape(*rows.shape[:-1], windows, size).sum(axis=-2)

    def log_moment(self, row: int, order: float) -> float:
        """An upper bound on the log of Σ row·X^order of all copies."""
        total, furthest = np.zeros(len(self.totals)), order * np.array(self._ends())
        top = float(furthest.max())
        for k, rows in self.parts.items():
            total += rows[:, row] @ np.exp(order * self.law.losses(k) - top)
        total += self.points * SMALLEST_NORMAL
        logs = np.log(total) + top
        error = accumulated(self.points + 32 + 8 * float(np.abs(furthest).max()))
        # Of a logarithm 4 units, and one each for what is added to it, the sum, the allowance and the copies.
        return self.count * (math.fsum(logs) + len(logs) * error + 8 * UNIT * float(np.abs(logs).sum()))

    def _ends(self) -> tuple[float, float]:
        losses = [(part.start * s, (part.start + part.size - 1) * s) for s, part in self._steps()]
        return min(low for low, _ in losses), max(high for _, high in losses)

    def _steps(self) -> Iterator[tuple[float, Component]]:
        return ((self.law.step_of(k), part) for k, part in self.law.components.items())


def _stride(k: int, grid: int) -> int:
    """How many points of a grid make one of the coarser grid k."""
    return 1 << 2 * (k - grid)


def _chunks(count: int, size: int) -> Iterator[slice]:
    at_once = max(1, 2 * _AT_ONCE // size)
    return (slice(start, min(start + at_once, count)) for start in range(0, count, at_once))


def _product(factors: Sequence[_Factor], grid: int, size: int) -> tuple[Floats, int, Floats]:
    """The circular product of all rows, the index of its first entry, and a bound on the error of any entry (T)."""
    unit = TRANSFORM * math.log2(size) * UNIT
    whole: Complexes | None = None
    norms: list[tuple[int, Floats]] = []
    copies, grown, origin, unheard = 0, 0.0, 0, 0.0
    for factor in sorted(factors, key=lambda factor: -factor.count):
        for rows in factor.dense(grid, size):
            norm = np.sqrt(np.einsum("kri,kri->kr", rows, rows))
            norms.append((factor.count, norm))
            transform = np.fft.rfft(rows)
            transform = np.multiply.reduce(transform if whole is None else transform[..., : whole.shape[-1]], axis=0)
            error = 1.02 * (
                unit * math.sqrt(size) * float(norm.max(axis=-1).sum()) + _MULTIPLICATION * UNIT * len(rows)
            )
            transform, rest = _audible(transform, factor.count, 1.02 * error)
            transform = _raised(transform, factor.count)
            whole = transform if whole is None else whole[:, : transform.shape[-1]] * transform
            unheard += rest
        copies += factor.count * len(factor.totals)
        origin += factor.count * len(factor.totals) * factor.start(grid)
        grown += factor.rounding()
    grown += sum(count * float(norm.max(axis=-1).sum()) for count, norm in norms) * unit * math.sqrt(size)
    if not grown < _GROWN:
        raise OverflowError("so many copies that the errors of transforms could add up")
    assert whole is not None
    found = np.fft.irfft(whole, size)
    first_order = np.sum([count * norm.sum(axis=0) for count, norm in norms], axis=0)
    powers = _MULTIPLICATION * UNIT * copies
    spread = np.sqrt(np.einsum("ri,ri->r", found, found)) * (1 + 2 * unit) + 1.02 * (unit * first_order + powers)
    errors = np.zeros(3)
    for count, norm in norms:
        errors += count * norm.sum(axis=0) * np.minimum(math.sqrt(2) * spread ** (1 - 1 / count), 1.0)
    return found, origin, 1.05 * (unit * errors + (powers + unit) * spread + unheard)


def _audible(values: Complexes, power: int, error: float) -> tuple[Complexes, float]:
    """The frequencies up to the last whose power counts, and what all others add to any entry at most.

    Values are off by `error` each; the mean of what is left out is at most its largest.
    """
    if power < _MANY:
        return values, 0.0
    squares = (np.square(values.real) + np.square(values.imag)).max(axis=0)
    loud = np.flatnonzero(squares > _UNHEARD ** (2 / power))
    end = int(loud[-1]) + 1 if loud.size else 1
    if end == len(squares):
        return values, 0.0
    # Two units of a root of squares and one each of a product and a sum: four stay for `power` to spend, 32 and more.
    largest = math.sqrt(float(squares[end:].max())) * (1 + 8 * UNIT) + error
    return values[:, :end], largest**power


def _raised(values: Complexes, power: int) -> Complexes:
    """Powers by squaring: power - 1 products, whatever their order, so that their errors add up to as many."""
    found = values
    for bit in bin(power)[3:]:
        found = np.square(found)
        if bit == "1":
            found *= values
    return found


def _scaled(factors: Sequence[_Factor], grid: int, size: int) -> tuple[Ledger, int, float]:
    """The ledger of all copies, the power of two of what rows were divided by, and its remaining factor."""
    ledger, logs, roundings, scale = Ledger(), [], 0.0, 0
    for factor in factors:
        copies = factor.law.ledger.times(factor.count)
        lost = factor.law.ledger.lost * factor.count * float((1 / factor.totals).sum())
        ledger = ledger.then(replace(copies, lost=lost))
        terms = factor.count * np.log2(factor.totals)
        logs.extend(terms)
        # Entries were divided and added to those of other grids and windows; logarithms and sums are off by 4 units.
        entry = 4 + len(factor.parts) + factor.windows(grid, size)
        roundings += accumulated(entry * factor.count * len(terms) + 16 * (float(np.abs(terms).sum()) + 1))
        scale += factor.count * factor.law.scale
    total = math.fsum(logs)
    whole = math.floor(total)
    ledger = replace(ledger.plus(relative=roundings), lost=2 * ledger.lost)
    return ledger, scale + whole, 2.0 ** (total - whole)


def _wrapped(factors: Sequence[_Factor], row: int, window: Window, step: float) -> Floats | float:
    """What the weights of a row outside the window may have added to each entry (W)."""
    length = window.size * step
    if min(window.wrapped.rise, window.wrapped.fall) * length < math.log(2):
        return math.inf
    points = window.points(step)
    above = _by_moment(factors, row, window.wrapped.rise, points, further=length)
    below = _by_moment(factors, row, -window.wrapped.fall, points, further=length)
    return 2.001 * (above + below)  # all windows beyond the next: a geometric series of ratio at most one half


def _log_moment(factors: Sequence[_Factor], row: int, order: float) -> float:
    """An upper bound on the log of Σ row·X^order of the whole product, but for one rounding."""
    return math.fsum(factor.log_moment(row, order) for factor in factors)


def _by_moment(factors: Sequence[_Factor], row: int, order: float, points: Floats, *, further: float = 0.0) -> Floats:
    """Bounds on the weights of a row at some points, or further out on the side of the order (W)."""
    bound = _log_moment(factors, row, order) - abs(order) * further
    largest = max(abs(float(points[0])), abs(float(points[-1]))) + 2 * further
    rounding = accumulated(8 * (1 + abs(bound) + abs(order) * largest))
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(bound - order * points + rounding) + SMALLEST_NORMAL)


def _with_outside(law: Law, factors: Sequence[_Factor], window: Window, step: float, offset: float) -> Law:
    """The law with what is above the window on {last point, ∞} and what is below it on {0, first point} (L2, W).

    `offset` is the logarithm of what rows were multiplied by.
    """
    high, low = (window.first + window.size) * step, (window.first - 1) * step
    rise, fall = max(window.outside.rise, 1 - law.tilt), max(window.outside.fall, law.tilt)
    p_mass = _log_moment(factors, UPPER, rise) - (rise - (1 - law.tilt)) * high + offset
    q_mass = _log_moment(factors, UPPER, -fall) + (fall - law.tilt) * low + offset
    sizes = abs(p_mass) + abs(q_mass) + (1 + abs(law.tilt) + rise + fall) * (abs(high) + abs(low)) + abs(law.scale)
    more = 2 * (law.ledger.relative + law.ledger.shift) + accumulated(64 + 16 * sizes)
    (grid, part), power = next(iter(law.components.items())), law.scale * math.log(2)
    with np.errstate(over="ignore"):
        part.rows[UPPER, -1] += np.exp(p_mass - high + law.tilt * (high - step) + more) + SMALLEST_NORMAL
        part.rows[UPPER, 0] += np.exp(q_mass + law.tilt * (low + step) + more) + SMALLEST_NORMAL
        infinite, zero = float(np.exp(p_mass + power + more)), float(np.exp(q_mass + power + more))
    if not np.isfinite(part.rows).all():
        raise OverflowError("weights beyond the range of doubles")
    return replace(law, components={grid: part}, ledger=law.ledger.plus(infinite=infinite, zero=zero))

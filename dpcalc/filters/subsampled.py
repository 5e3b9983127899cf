"""RDP of Poisson-subsampled Gaussian steps for millions of norms at once: chords of a convex function, never below it.

With u = (norm/σ)² and Z = e^{√u·N − u/2}, F(u) = E(1 − q + qZ)^α = e^{(α−1)ρ(u)} is convex in u for every order α > 1
and every rate q. Proof: Z is a geometric Brownian motion at time u, so F″ = ¼E[Z²h″(Z)], h(Z) = Z²·∂²(1−q+qZ)^α/∂Z².
Up to a positive factor h = Z²A^{α−2}, A = 1 − q + x, x = qZ. For α ≥ 2 it is a product of rising convex functions. For
α < 2, with β = 2 − α, h″ has the sign of 2r² − 4βr + β(β+1) with r = A/x ≥ 1 (as q ≤ 1), which rises in r from
(1−β)(2−β) ≥ 0. ∎

So between two nodes F is at most its chord, and below the lowest node F − 1 is at most proportional to u. The logarithm
of a chord is above the chord of the logarithms by at most G(d) = log((eᵈ−1)/d) − 1 + d/(eᵈ−1), d the difference of the
ends' logarithms: it is added, and a charge is one linear function of u in each cell. The values at the nodes are upper
bounds themselves. RDP of the remove direction is not below that of the add direction (Mironov, Talwar, Zhang 2019).
Budgets are planned and steps are charged by the same function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats, Indices
from dpcalc.pairs.subsampled_gaussian import rdp

_LOWEST = -32  # octave of u; below it F − 1 counts as proportional to u
_HIGHEST = 40
_TOGETHER = 8  # a table begins at a multiple of so many octaves
_CLOSE = 5e-4  # how far the chords may be above the curve, relatively, while cells can be halved
_FINEST = 12  # halvings of an octave
_MANTISSA, _BIAS = 52, 1023


class _Lines(NamedTuple):
    """(α−1)ρ ≤ start + slope·u in each of 2^bits equal cells of an octave of u."""

    bits: int
    start: Floats
    slope: Floats


@dataclass(frozen=True, kw_only=True)
class SubsampledRenyi:
    """Upper bounds on the RDP of a subsampled Gaussian step at some orders, as a function of u = (norm/σ)²."""

    orders: tuple[float, ...]
    sampling_rate: float

    def rdp(self, squares: Floats) -> Floats:
        """RDP at each order (the new first axis) for each u; 0 where u = 0.

        Above the exact value by less than 0.1 %, and at most a few per cent where it grows a thousandfold per per cent.
        """
        result = np.zeros((len(self.orders), *squares.shape))
        largest = float(squares.max(initial=0.0))
        if largest == 0:
            return result
        smallest = float(squares.min())
        if smallest == 0:
            smallest = float(squares.min(where=squares > 0, initial=largest))
        low, high = (min(max(math.frexp(u)[1] - 1, _LOWEST), _HIGHEST) for u in (smallest, largest))
        low = low // _TOGETHER * _TOGETHER
        tables = [_table(order, self.sampling_rate, low, high + 1) for order in self.orders]
        sizes = {bits: start.size for start, _, bits in tables}
        cells = {bits: _cells(squares, low, bits, size) for bits, size in sizes.items()}
        for row, (order, (start, slope, bits)) in enumerate(zip(self.orders, tables, strict=True)):
            cell = cells[bits]
            np.multiply(slope.take(cell), squares, out=result[row])
            result[row] += start.take(cell)
            if largest >= 2.0 ** (_HIGHEST + 1):
                beyond = squares >= 2.0 ** (_HIGHEST + 1)
                result[row][beyond] = order * squares[beyond] / 2  # that of the step without sampling
        return result


def _cells(squares: Floats, low: int, bits: int, count: int) -> Indices:
    """The cell of each u among `count`, the octaves from `low` on halved so often; 0 is below the lowest octave."""
    cell: Indices = squares.view(np.int64) >> (_MANTISSA - bits)
    cell -= ((low + _BIAS) << bits) - 1
    np.minimum(cell, count - 1, out=cell)
    np.maximum(cell, 0, out=cell)
    return cell


def gaussian_rdp(orders: Floats, noise_multiplier: float, sampling_rate: float) -> Floats:
    """Upper bounds on the RDP of one subsampled Gaussian step at each order, without chords."""
    found: Floats = rdp(np.asarray(orders, dtype=np.float64), np.array([noise_multiplier]), sampling_rate)[0]
    return found


@lru_cache(maxsize=256)
def _table(order: float, rate: float, low: int, high: int) -> tuple[Floats, Floats, int]:
    """ρ ≤ start + slope·u in each cell of these octaves, all halved alike; first what is below all octaves."""
    octaves = [_lines(order, rate, octave) for octave in range(low, high)]
    bits = max(lines.bits for lines in octaves)
    starts = [np.repeat(lines.start, 1 << (bits - lines.bits)) for lines in octaves]
    slopes = [np.repeat(lines.slope, 1 << (bits - lines.bits)) for lines in octaves]
    lowest = 2.0**_LOWEST
    first = math.expm1(float(_exact(order, rate, np.array([lowest]))[0])) / lowest if low == _LOWEST else 0.0
    scale = (1 + 2e-15) / (order - 1)
    return np.concatenate([[0.0], *starts]) * scale, np.concatenate([[first], *slopes]) * scale, bits


@lru_cache(maxsize=8192)
def _lines(order: float, rate: float, octave: int) -> _Lines:
    """The chords of one octave: cells are halved until the chords are close to the curve."""
    low, unit = 2.0**octave, 2.0 ** (octave - _FINEST)
    place, todo = np.array([0, 1 << _FINEST]), np.array([0])
    logs = _exact(order, rate, low + unit * place)
    while todo.size:  # cells that begin at these places
        left = np.searchsorted(place, todo)
        middle = (place[left] + place[left + 1]) // 2
        between = _exact(order, rate, low + unit * middle)
        chords = _log_chord(logs[left], logs[left + 1]) + _gaps(logs[left + 1] - logs[left])
        rough = (chords > between * (1 + _CLOSE)) & (middle - todo > 1)
        place, logs = np.insert(place, left + 1, middle), np.insert(logs, left + 1, between)
        todo = np.sort(np.concatenate([todo[rough], middle[rough]]))
    width, rise = np.diff(place), np.diff(logs)
    slope = rise / (unit * width)
    # Beside the gap of a logarithm: what pays for the rounding of this line.
    start = logs[:-1] - slope * (low + unit * place[:-1]) + _gaps(rise) + 4e-15 * (logs[1:] + slope * 2 * low)
    bits = _FINEST - int(math.log2(width.min()))
    count = width >> (_FINEST - bits)
    return _Lines(bits, np.repeat(start, count), np.repeat(slope, count))


def _exact(order: float, rate: float, squares: Floats) -> Floats:
    """(α−1)ρ at each u; lines through it are raised by its rounding."""
    found = order * squares / 2 if rate == 1 else rdp(np.array([order]), 1 / np.sqrt(squares), rate)[:, 0]
    return (order - 1) * found


def _log_chord(left: Floats, right: Floats) -> NDArray[np.float64]:
    """log of the mean of e^left and e^right, without cancellation where both are small."""
    rise = right - left
    return np.where(
        right < 1,
        np.log1p((np.expm1(np.minimum(left, 1.0)) + np.expm1(np.minimum(right, 1.0))) / 2),
        right + np.log1p(np.exp(-rise)) - math.log(2),
    )


def _gaps(rise: Floats) -> Floats:
    """G(d), rounded up: d²/8 − d⁴/576 + … where the formula would cancel, d where it would overflow."""
    d = np.abs(rise)
    inside = np.clip(d, 0.05, 500.0)
    exact = np.log(np.expm1(inside) / inside) - 1 + inside / np.expm1(inside)
    return np.where(d < 0.05, d * d / 8, np.where(d > 500, d, exact)) * (1 + 1e-9)

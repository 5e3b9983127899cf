"""Finite pairs that dominate a subsampled Gaussian step at every edge, all on one grid of privacy losses.

In every cell of the grid Q-mass and P-mass are kept and moved onto its two ends ("connect the dots": Doroshenko et al.
2022). H becomes its chords, so the pair dominates the step in both directions, and its moments are finite sums: there
is no quadrature whose error would have to be guessed. What lies beyond the last cell goes onto its end and onto a loss
of ∞; the lowest loss, log(1−q), is an atom of its own. Masses are rounded up: a larger measure has a larger δ at every
ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss

from dpcalc.arrays import Floats, Indices
from dpcalc.rounding import LEAST_DIVISOR, NORMAL_TAIL

_CAP = 0.05  # of cells
_FURTHEST = 25.0  # standard deviations; keeps every mass well above the smallest double
_UNIT = 2.0**-52
_NDTR = (NORMAL_TAIL[0] + NORMAL_TAIL[1] * 38**2) * _UNIT  # of the normal distribution function; at -38.5 doubles end
_QUADRATURE = 4e-13  # of a narrow cell's mass: 6 nodes err by less than 1e-14 (`_narrow`), e^{-x²/2} by x² units
_POINTS, _WEIGHTS = leggauss(6)


@dataclass(frozen=True)
class EdgeLosses:
    """Atoms at `losses`; `masses[e, k]` is at least the Q-mass of atom k of a pair that dominates a step at edge e.

    `infinite` is the P-mass at a loss of ∞. `infinite_add` is Q-mass of the lowest atom that may count as a loss of ∞
    of Q against P (and must, without sampling). The atoms lie within `slips` of those of an exactly dominating pair.
    """

    losses: Floats
    masses: Floats
    infinite: Floats
    infinite_add: Floats
    slips: Floats


def edge_losses(edges: Floats, rate: float, lost: float, finest: float = 0.05, relative: float = 0.03) -> EdgeLosses:
    """The dominating pair of a step at each edge, with about `lost` of P at a loss of ∞.

    Cells are `relative` to the loss, those next to 0 `finest` standard deviations of the smallest edge's loss wide. The
    variance they add is at most a sixth of the square of that share of the second moment.
    """
    finite = edges[np.isfinite(edges)]
    high = np.minimum(_upper_quantile(min(lost / rate, 0.4)), _FURTHEST) + finite
    low = -min(_upper_quantile(min(lost, 0.4)), _FURTHEST)
    widest = float(finite.max())
    largest = float(_loss(finite * (high - finite / 2), rate).max())
    reach = largest, widest * (low - widest / 2)
    losses = _grid(finest * rate * float(finite.min()), relative, rate, reach)
    log_ratio = _log_ratio(losses, rate)
    log_ratio[0] = -math.inf
    masses = np.zeros((edges.size, losses.size))
    infinite = np.full(edges.size, rate)
    bounds = log_ratio[None, :] / finite[:, None] + finite[:, None] / 2
    # The last one below `low`: neighbouring edges then agree on whether what is beyond it counts as a loss of ∞.
    first = np.maximum(np.argmax(bounds >= low, axis=1) - 1, 1)
    last = np.maximum(np.argmax(bounds >= high[:, None], axis=1), first)
    last = np.where(bounds[:, -1] < high, losses.size - 1, last)
    place = np.arange(losses.size - 1)
    inside = (place >= first[:, None]) & (place < last[:, None])
    row, cell = np.nonzero(inside)
    lower, upper = _split(bounds[row, cell], bounds[row, cell + 1], finite[row])
    np.add.at(masses, (row, cell), lower)
    np.add.at(masses, (row, cell + 1), upper)
    every = np.arange(finite.size)
    left, right = bounds[every, first], bounds[every, last]
    _add_below(masses, left, first, finite)
    ends, beyond = _above(right, finite)
    masses[every, last] += ends
    infinite[: finite.size] = rate * beyond
    if edges.size > finite.size:
        masses[-1, 0] = 1.0
    # Q against P: little mass at the largest loss there is counts as ∞, lest it dominates every moment.
    infinite_add = np.where((masses[:, 0] <= lost) | (rate == 1), masses[:, 0], 0.0)
    if rate == 1:
        masses[:, 0], losses[0] = 0.0, losses[1]
    return EdgeLosses(losses, masses, infinite, infinite_add, _slips(losses, log_ratio, rate, float(finite.max())))


def _add_below(masses: Floats, left: Floats, first: Indices, m: Floats) -> None:
    """What is below the first cell: onto the lowest loss and onto the cell's end."""
    from scipy.special import ndtr

    every = np.arange(m.size)
    up = np.minimum(ndtr(left - m) * np.exp(-m * (left - m / 2)), ndtr(left)) * (1 + 4 * _NDTR)
    masses[every, first] += up
    masses[every, 0] += np.maximum(ndtr(left) * (1 + _NDTR) - up * (1 - 8 * _NDTR), 0.0)


def _above(right: Floats, m: Floats) -> tuple[Floats, Floats]:
    """What is above the last cell: Q-mass onto its end, and the P-mass that this does not carry onto ∞."""
    from scipy.special import ndtr

    mass = ndtr(-right)
    kept = mass * np.exp(m * (right - m / 2)) * (1 - 4 * _NDTR)
    return mass * (1 + _NDTR), np.maximum(ndtr(m - right) * (1 + _NDTR) - kept, 0.0)


def _upper_quantile(mass: float) -> float:
    from scipy.special import ndtri_exp

    return -float(ndtri_exp(math.log(mass)))


def _loss(z: Floats, rate: float) -> Floats:
    """log(1 − q + qe^z)."""
    return np.where(z < 30, np.log1p(rate * np.expm1(np.minimum(z, 30.0))), np.log(rate) + z)


def _log_ratio(losses: Floats, rate: float) -> Floats:
    """log((e^loss − 1 + q)/q), of the pair without sampling: far below 0, 1 + (e^loss − 1)/q would lose digits."""
    with np.errstate(divide="ignore"):
        near = np.log1p(np.maximum(np.expm1(losses) / rate, -1.0))
        far = np.log(np.maximum(np.exp(np.minimum(losses, 0.0)) - (1 - rate), 0.0)) - math.log(rate)
    return np.where(losses < -0.5, far, near)


def _grid(finest: float, relative: float, rate: float, reach: tuple[float, float]) -> Floats:
    """Losses on both sides of 0, their distance proportional to themselves; the first is the lowest loss there is."""
    largest, lowest = reach
    points = [max(finest, 1e-14 * largest)]
    end = max(largest, -float(_loss(np.array(lowest), rate)))
    while points[-1] < end:
        points.append(points[-1] + min(relative * points[-1], _CAP))
    positive = np.array(points)
    bottom = math.log1p(-rate) if rate < 1 else lowest
    negative = positive[positive < -bottom * (1 - relative / 2)]
    if rate == 1:
        negative = np.append(negative, -bottom)
        bottom = 2 * bottom
    return np.concatenate([[bottom], -negative[::-1], [0.0], positive])


def _split(left: Floats, right: Floats, m: Floats) -> tuple[Floats, Floats]:
    """The Q-mass of each cell on its lower and its upper end, rounded up."""
    lower, upper = np.empty_like(left), np.empty_like(left)
    narrow = (right - left) * (np.maximum(np.abs(left), np.abs(right)) + m + 4) <= 1
    lower[narrow], upper[narrow] = _narrow(left[narrow], right[narrow], m[narrow])
    lower[~narrow], upper[~narrow] = _wide(left[~narrow], right[~narrow], m[~narrow])
    return lower, upper


def _narrow(left: Floats, right: Floats, m: Floats) -> tuple[Floats, Floats]:
    """By 6 Gauss–Legendre nodes: nothing cancels.

    The rule errs by Δ¹³·(6!)⁴/(13·(12!)³) = 1.9e-16·Δ¹³ times a twelfth derivative, which is at most 14·A¹²/(AΔ) times
    the largest integrand, A = |x| + m + 4 (Hermite polynomials: |He_n(x)| ≤ (|x| + √n)ⁿ); cells are narrow if AΔ ≤ 1.
    """
    width = right - left
    lower, upper = np.zeros_like(left), np.zeros_like(left)
    scale = m * width
    whole = np.expm1(scale)
    for point, weight in zip((_POINTS + 1) / 2, _WEIGHTS / 2, strict=True):
        x = left + width * point
        share = np.where(scale > 0, np.expm1(scale * point) / np.where(scale > 0, whole, 1.0), point)
        density = np.exp(-x * x / 2) * (weight / math.sqrt(2 * math.pi))
        lower += density * (1 - share)
        upper += density * share
    return lower * width * (1 + _QUADRATURE), upper * width * (1 + _QUADRATURE)


def _wide(left: Floats, right: Floats, m: Floats) -> tuple[Floats, Floats]:
    """By distribution functions, taken on the side of the tail, with the errors of the differences added."""
    mass, mass_error = _between(left, right)
    moved, moved_error = _between(left - m, right - m)
    scale = np.exp(-m * (left - m / 2))
    moved, moved_error = moved * scale, moved_error * scale  # P-mass over the lower end's ratio
    growth = np.expm1(m * (right - left))
    error = (moved_error + mass_error * (1 + growth)) / growth + mass_error
    upper = (moved - mass) / growth
    # Where the ratio grows much all of it is at the lower end; the upper one never has all but a millionth.
    return np.clip(mass - upper + error, 0.0, mass + mass_error), np.clip(upper + error, 0.0, mass)


def _between(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    from scipy.special import ndtr

    flip = left > 0
    near, far = ndtr(np.where(flip, -left, right)), ndtr(np.where(flip, -right, left))
    return near - far, 2 * _NDTR * near


def _slips(losses: Floats, log_ratio: Floats, rate: float, largest: float) -> Floats:
    """How far the atoms may be from the true ends of the cells: rounding of the ratio and of where it is attained."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(np.minimum(log_ratio, 700.0))
        sampled = np.where(log_ratio > -math.inf, rate * ratio / (1 - rate + rate * ratio), 0.0)
        inside = np.where(log_ratio > -math.inf, sampled * (2 + np.abs(log_ratio) + largest**2), 0.0)
        shift = rate / np.maximum(1 - rate + rate * ratio, LEAST_DIVISOR) * (1 + np.minimum(np.abs(ratio - 1), 1.0))
    slips: Floats = 8 * _UNIT * (inside + np.minimum(shift, 2.0) + np.abs(losses))
    return slips

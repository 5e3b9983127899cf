"""Rényi and zero-concentrated differential privacy to (ε,δ), optimised over real orders.

Each order gives a valid bound, so the best of all orders is valid. Three published conversions are used at every order:
Mironov (2017, Proposition 3), Balle et al. / Canonne et al. (2020), and Asoodeh et al. (2020, Theorem 3).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np
from numpy.typing import ArrayLike

from dpcalc.arrays import Floats
from dpcalc.conversions.ranges import expect
from dpcalc.convex import convex_minorant
from dpcalc.errors import InputError
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY, RENYI_ORDER, SMALLEST

Curve = Callable[[Floats], Floats]

# Rounding in the formulas themselves, relative to the largest term; added so that upper stays upper.
_ROUNDING = 1e-14


def rdp_epsilons(orders: ArrayLike, rdps: ArrayLike, delta: float) -> Floats:
    """Upper bounds on ε at δ from RDP at each order: the best of the published conversions at that order."""
    alpha, rho = np.asarray(orders, dtype=np.float64), np.asarray(rdps, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mironov = rho - log(delta) / (alpha - 1)
        canonne = rho + np.log1p(-1 / alpha) - (np.log(alpha) + log(delta)) / (alpha - 1)
        bounds = np.stack([mironov, canonne, _asoodeh_epsilon(alpha, rho, delta)])
        scale = rho + (abs(log(delta)) + np.log(alpha)) / (alpha - 1)
        best = np.min(np.where(np.isnan(bounds), np.inf, bounds), axis=0) + _ROUNDING * scale
        best = np.where(_total_variation(rho) <= delta, 0.0, best)
    return np.where(np.isfinite(rho), np.maximum(best, 0.0), np.inf)


def _total_variation(rho: Floats) -> Floats:
    """δ at ε = 0, by Pinsker and by Bretagnolle–Huber: a Rényi divergence of order > 1 is at least KL."""
    bound: Floats = np.minimum(np.sqrt(rho / 2), np.sqrt(-np.expm1(-rho))) * (1 + _ROUNDING)
    return bound


def _asoodeh_epsilon(alpha: Floats, rho: Floats, delta: float) -> Floats:
    exponent = (alpha - 1) * rho
    small = np.log1p(np.expm1(np.minimum(exponent, 30.0)) / (alpha * delta))
    large = exponent - np.log(alpha * delta) + np.log1p((alpha * delta - 1) * np.exp(-np.maximum(exponent, 30.0)))
    bound: Floats = np.where(exponent < 30, small, large) / (alpha - 1)
    return bound


def rdp_deltas(orders: ArrayLike, rdps: ArrayLike, epsilon: ArrayLike) -> Floats:
    """Upper bounds on δ at ε (one, or a column of them) from RDP at each order: the conversions, solved for δ."""
    alpha, rho = np.asarray(orders, dtype=np.float64), np.asarray(rdps, dtype=np.float64)
    epsilon = np.asarray(epsilon, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        gap = (alpha - 1) * (rho - epsilon)
        canonne = gap + (alpha - 1) * np.log1p(-1 / alpha) - np.log(alpha)
        asoodeh = gap + np.log(np.expm1(-(alpha - 1) * rho) / np.expm1(-(alpha - 1) * epsilon)) - np.log(alpha)
        logs = np.stack([gap, canonne, asoodeh])
        best = np.min(np.where(np.isnan(logs), np.inf, logs), axis=0)
        best = best + _ROUNDING * (1 + (alpha - 1) * (rho + epsilon) + np.log(alpha))
        best = np.where(np.isnan(best), np.inf, best)
        deltas = np.minimum(np.maximum(np.exp(best), SMALLEST), _total_variation(rho))
    return np.where(np.isfinite(rho), np.minimum(deltas, 1.0), 1.0)


def rdp_epsilon(orders: ArrayLike, rdps: ArrayLike, delta: float) -> float:
    """Upper bound on ε at δ from RDP known at some orders, using every order below the largest that they imply."""
    _expect_curve(orders, rdps)
    expect("delta", delta, PROBABILITY, single=True)
    curve, largest = rdp_between(orders, rdps)
    return rdp_curve_epsilon(curve, delta, largest=largest, also=np.atleast_1d(np.asarray(orders, dtype=np.float64)))


def rdp_delta(orders: ArrayLike, rdps: ArrayLike, epsilon: float) -> float:
    """Upper bound on δ at ε from RDP known at some orders."""
    _expect_curve(orders, rdps)
    expect("epsilon", epsilon, NON_NEGATIVE, single=True)
    curve, largest = rdp_between(orders, rdps)
    return rdp_curve_delta(curve, epsilon, largest=largest, also=np.atleast_1d(np.asarray(orders, dtype=np.float64)))


def _expect_curve(orders: ArrayLike, rdps: ArrayLike) -> None:
    expect("orders", orders, RENYI_ORDER)
    known = np.asarray(rdps)
    finite = known[~np.isposinf(known)] if known.dtype.kind == "f" else known  # infinite where nothing is known
    expect("rdps", finite, NON_NEGATIVE)
    if known.shape != np.shape(orders):
        raise InputError(f"Expected an RDP for each order, got shapes {known.shape} and {np.shape(orders)}.")


def rdp_between(orders: ArrayLike, rdps: ArrayLike) -> tuple[Curve, float]:
    """The RDP that a few orders imply for all orders up to the largest: (α−1)·RDP is convex in α and 0 at α = 1.

    A convex function lies below its chords, so the lower hull of the known points and (1, 0) is an upper bound.
    """
    alpha, rho = (np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (orders, rdps))
    with np.errstate(over="ignore"):
        moments = (alpha - 1) * rho
    order = np.lexsort((rho, alpha))
    known = order[np.isfinite(moments[order])]
    xs = np.append(1.0, alpha[known])
    ys = np.append(0.0, moments[known])
    first = np.append(True, np.diff(xs) > 0)  # of one order given twice, the smaller bound
    xs, ys = xs[first], ys[first]
    corners = convex_minorant(xs, ys)
    xs, ys = xs[corners], ys[corners]

    def curve(at: Floats) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):  # slopes beyond the doubles
            found = np.interp(at, xs, ys) / (at - 1)
        return np.where((at <= xs[-1]) & ~np.isnan(found), found, np.inf)

    return curve, float(xs[-1])


def rdp_curve_epsilon(curve: Curve, delta: float, *, largest: float = 1e12, also: Floats | None = None) -> float:
    """Upper bound on ε at δ from an RDP curve known at every order up to `largest`, optimised over real orders."""
    return _smallest(lambda alpha: rdp_epsilons(alpha, curve(alpha), delta), largest, also)


def rdp_curve_delta(curve: Curve, epsilon: float, *, largest: float = 1e12, also: Floats | None = None) -> float:
    """Upper bound on δ at ε from an RDP curve known at every order up to `largest`."""
    return _smallest(lambda alpha: rdp_deltas(alpha, curve(alpha), epsilon), largest, also)


def _smallest(bound: Curve, largest: float, also: Floats | None) -> float:
    """The smallest value of a bound over orders in (1, largest]: a logarithmic grid, then zoom on its best cells."""
    grid = np.linspace(np.log(1e-7), np.log(max(largest - 1, 1e-6)), 241)

    def at_order(logarithms: Floats) -> Floats:
        return bound(np.minimum(1 + np.exp(logarithms), largest))

    values = at_order(grid)
    best = float(np.min(values))
    if also is not None and also.size:
        best = min(best, float(np.min(bound(also))))
    starts = np.sort(np.argsort(values, kind="stable")[:3])
    for cells in np.split(starts, np.flatnonzero(np.diff(starts) > 1) + 1):  # neighbours are one valley
        low, high = grid[max(cells[0] - 1, 0)], grid[min(cells[-1] + 1, grid.size - 1)]
        while high - low > 1e-8:
            fine = np.linspace(low, high, 17)
            at = at_order(fine)
            centre = int(np.argmin(at))
            best = min(best, float(at[centre]))
            low, high = fine[max(centre - 1, 0)], fine[min(centre + 1, 16)]
    return best


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Upper bound on ε at δ of a ρ-zCDP mechanism; at most Bun–Steinke's ρ + 2√(ρ log(1/δ))."""
    expect("rho", rho, NON_NEGATIVE, single=True)
    expect("delta", delta, PROBABILITY, single=True)
    bun_steinke = rho + 2 * np.sqrt(rho * log(1 / delta))
    return min(rdp_curve_epsilon(lambda alpha: _times(alpha, rho), delta), float(bun_steinke) * (1 + _ROUNDING))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Upper bound on δ at ε of a ρ-zCDP mechanism."""
    expect("rho", rho, NON_NEGATIVE, single=True)
    expect("epsilon", epsilon, NON_NEGATIVE, single=True)
    return rdp_curve_delta(lambda alpha: _times(alpha, rho), epsilon)


def _times(alpha: Floats, rho: float) -> Floats:
    with np.errstate(over="ignore"):
        return alpha * rho


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest ρ, rounded down, such that this module's bound makes every ρ-zCDP mechanism (ε,δ)-DP."""
    expect("epsilon", epsilon, NON_NEGATIVE, single=True)
    expect("delta", delta, PROBABILITY, single=True)
    low, high = 1e-300, 1e300
    if zcdp_epsilon(low, delta) > epsilon:
        return 0.0
    while high > low * (1 + 1e-12):
        middle = float(np.sqrt(low) * np.sqrt(high))
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low

"""Certified Rényi divergences of the Poisson-subsampled Gaussian: a trapezoid rule with a bound on its error.

With r(x) = 1 - q + q e^z, z = x/σ - 1/(2σ²) and x ~ N(0, 1), the divergence of order β is log E[r^β] / (β - 1) for
removing, the worse direction (Mironov, Talwar, Zhang 2019, Theorem 5). For F analytic in |Im x| < w the rule of step h
is off by at most κ max_y ∫|F(x + iy)|dx, κ = 2 / (e^{2πw/h} - 1) (Trefethen, Weideman 2014, Theorem 5.1). Off the real
line φ grows by e^{y²/2} and |r(x + iy)| ≤ r(x), as long as |y| < πσ, where r has its zeros. So with κ' = κe^{w²/2}

- the rule for E[r^β] is off by at most κ' E[r^β];
- for g = r^β - 1 - β(r - 1) = β(β-1) ∫₀¹ (1-s)(r-1)² (1 + s(r-1))^{β-2} ds and β ≥ 2 it is off by at most
  κ' ((1 + Cq) E[g] + C(q + q²)), C = β(β-1)θ²/2, θ = w/σ, since |r(x+iy) - 1|² ≤ (r-1)² + q²θ²e^z, qe^z ≤ r and
  E[r^{β-1}] ≤ E[r^β] = 1 + E[g];
- for β < 2 and w ≤ πσ/2, by at most κ' β(β-1)/2 (1-q)^{β-2} q² (e^{1/σ²} - 1 + θ²), as |1 + s(r-1)| ≥ 1 - q there.

What lies beyond the nodes is bounded where it is left out, and added. And where e^z is all that counts there is no need
of the rule: (E[r^β])^{1/β} ≤ 1 - q + q e^{(β-1)/(2σ²)} by Minkowski's inequality, and r ≥ q e^z shows how near that is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.elementary import exp_remainder, ndtr
from dpcalc.pairs.moments import ROUNDING

_REACH = 12.0  # standard deviations beyond the outermost maximum
_DIGITS = 44.0  # e^-44 is below the rounding of the sum
_MOST_NODES = 40_000
_LEAST = -700.0  # log of the least excess that is told: sums below the range of doubles have no logarithm
_LARGE = 200.0  # log E[r^β] from which the 1 in it does not matter
_TOGETHER = 200_000  # values held at once
_ALIKE = 1.3  # the ratio of σ that share their number of nodes

Bound = Callable[[Floats, Floats, Floats], Floats]
"""Of powers, and of columns of σ and q: one row for each of these."""


def log_excess(powers: Floats, sigmas: Floats, rates: float | Floats) -> Floats:
    """Upper bounds on log(E[r^β] - 1) for every σ with its q, 0 < q < 1, and every β > 1: one row for each σ.

    The powers are sorted by how they are computed, each bounded by convexity where the rule would be too long.
    """
    sigma = sigmas[:, None]
    rate = np.broadcast_to(rates, sigmas.shape)[:, None]
    with np.errstate(over="ignore", divide="ignore"):
        exponent = powers * (powers - 1) / (2 * sigma * sigma)
        result: Floats = np.where(exponent < 700, np.log(rate) + np.log(np.expm1(np.minimum(exponent, 700.0))), np.inf)
        result = np.where(exponent < 700, result, np.logaddexp(np.log1p(-rate), np.log(rate) + exponent))
        apart = (powers - 1) / (2 * sigma * sigma)
        result = np.minimum(result, powers * np.logaddexp(np.log1p(-rate), np.log(rate) + apart))
        settled = powers * np.exp(np.log1p(-rate) - np.log(rate) - apart) <= ROUNDING * exponent
    result += ROUNDING * (1 + exponent + powers * np.abs(np.log(rate)))
    large = exponent + powers * np.log(rate) > _LARGE  # from some power on, as this is convex and begins below
    for members in _alike(sigmas, large.sum(axis=1)):
        far = large[members[0]]
        left = far & ~settled[members].all(axis=0)
        for chosen, bound in ((~far & (powers < 2), _small_powers), (~far & (powers >= 2), _excess), (left, _large)):
            at = np.flatnonzero(chosen)
            if at.size:
                found = _in_parts(bound, powers[at], sigma[members], rate[members])
                result[members[:, None], at] = np.minimum(result[members[:, None], at], found)
    return np.maximum(result, _LEAST)


def _alike(sigmas: Floats, kinds: Indices) -> list[Indices]:
    """Indices of σ of the same kind that are near to each other."""
    if len(sigmas) == 1:
        return [np.zeros(1, dtype=np.intp)]
    keys = np.stack((kinds, np.floor(np.log(sigmas) / np.log(_ALIKE))))
    order = np.lexsort(keys)
    return np.split(order, np.flatnonzero(np.any(np.diff(keys[:, order], axis=1) != 0, axis=0)) + 1)


def _in_parts(bound: Bound, powers: Floats, sigma: Floats, rate: Floats) -> Floats:
    """A bound of some σ and some powers at a time."""
    least = float(sigma.min())
    nodes = (powers.max() / least + 2 * _REACH) * _DIGITS / (np.pi**2 * min(least, 2.0))
    fit = _TOGETHER // min(nodes, _MOST_NODES)
    rows, columns = int(max(1, fit // len(powers))), int(max(1, fit))
    if rows >= len(sigma) and columns >= len(powers):
        return bound(powers, sigma, rate)
    out = np.empty((len(sigma), len(powers)))
    for i in range(0, len(sigma), rows):
        for j in range(0, len(powers), columns):
            some, at = slice(i, i + rows), slice(j, j + columns)
            out[some, at] = bound(powers[at], sigma[some], rate[some])
    return out


def _small_powers(powers: Floats, sigma: Floats, rate: Floats) -> Floats:
    """For 1 < β < 2: half the strip, and the third of the bounds."""
    width = np.minimum(np.pi * sigma / 2, 6.0)
    square = np.minimum(1 / (sigma * sigma), 300.0)
    outside = powers * (powers - 1) / 2 * (1 - rate) ** (powers - 2) * rate**2
    outside = outside * (np.expm1(square) + (width / sigma) ** 2)
    digits = _DIGITS + width**2 / 2 + square - 2 * np.log1p(-rate) + 5
    value = _with_error(powers, sigma, rate, width=width, digits=digits, inside=np.zeros(()), outside=outside)
    return np.where(square < 300, value, np.inf)


def _excess(powers: Floats, sigma: Floats, rate: Floats) -> Floats:
    """For β ≥ 2: the second of the bounds."""
    width = np.minimum(np.pi * sigma, 6.0) * (1 - 1e-12)
    factor = powers * (powers - 1) / 2 * np.minimum((width / sigma) ** 2, 4.0)
    digits = _DIGITS + width**2 / 2 + np.log1p(factor.max(axis=1, keepdims=True) * rate) + 5 - np.log(rate)
    inside, outside = factor * rate, factor * (rate + rate**2)
    return _with_error(powers, sigma, rate, width=width, digits=digits, inside=inside, outside=outside)


def _with_error(
    powers: Floats, sigma: Floats, rate: Floats, *, width: Floats, digits: Floats, inside: Floats, outside: Floats
) -> Floats:
    """log of (T + κ'·outside) / (1 - κ'(1 + inside)), T the rule for E[g] with what it leaves out."""
    step = 2 * np.pi * width / digits
    kappa = 2 * np.exp(width**2 / 2) / np.expm1(np.minimum(2 * np.pi * width / step, 700.0))
    nodes, fits = _nodes(powers, sigma, step)
    v = _log_ratio(nodes, sigma, rate)
    log_weight = -nodes * nodes / 2 + np.log(step / np.sqrt(2 * np.pi))
    first, last = nodes[:, :1], nodes[:, -1:]
    left = _gap(powers, np.log1p(-rate)) * (ndtr(first) + np.exp(log_weight[:, :1]))
    right = np.exp(powers * v[:, -1:] + log_weight[:, -1:]) / -np.expm1((powers / sigma - last) * step)
    shares = kappa * (1 + inside)
    bound = (_sums(powers, v, log_weight) + left + right + kappa * outside) / (1 - shares)
    furthest = np.abs(v).max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(bound) + ROUNDING * (1 + powers * furthest + last**2 + (1 + last) / sigma**2)
    return np.where((shares < 0.5) & fits, value, np.inf)


def _nodes(powers: Floats, sigma: Floats, step: Floats) -> tuple[Floats, Bools]:
    """From -12 or before to the largest β/σ + 12 or beyond, as many for each σ; and where that is not too many."""
    highest = float(powers.max()) / sigma + _REACH
    fits = (highest + _REACH) / step <= _MOST_NODES
    below, above = (int(np.ceil(np.max(end / step, where=fits, initial=1.0))) for end in (_REACH, highest))
    return step * np.arange(-below, above + 1), fits


def _sums(powers: Floats, v: Floats, log_weight: Floats) -> Floats:
    """Σ w g with g = R(βv) - βR(v), R(z) = e^z - 1 - z; where e^{βv} is large, with its weight in the exponent."""
    column, weight = powers[:, None], np.exp(log_weight)[..., None]
    exponents = column * v[:, None]
    far = exponents > 30.0
    grown = exp_remainder(np.minimum(exponents, 30.0))
    taken = column * exp_remainder(np.minimum(v, 30.0))[:, None]
    near = np.maximum(grown - taken, 0.0) + ROUNDING * (grown + taken)
    value = (np.where(far, 0.0, near) @ weight)[..., 0]
    if far.any():
        plain = np.exp(np.where(far, exponents + log_weight[:, None], -np.inf))
        first = np.exp(v + log_weight)[:, None] * np.where(far, column, 0.0)
        value = value + (plain - np.minimum(first * (1 - ROUNDING), plain)).sum(axis=-1)
        value = value + (np.where(far, column - 1, 0.0) @ weight)[..., 0]
    return np.asarray(value)


def _gap(powers: Floats, losses: Floats) -> Floats:
    """g at r = e^loss ≤ 1, from above."""
    grown, taken = exp_remainder(powers * losses), powers * exp_remainder(losses)
    return np.asarray(np.maximum(grown - taken, 0.0) + ROUNDING * (grown + taken))


def _large(powers: Floats, sigma: Floats, rate: Floats) -> Floats:
    """log E[r^β] where it is large: the first of the bounds, on nodes around β/σ where that is enough."""
    width = np.minimum(np.pi * sigma, 6.0) * (1 - 1e-12)
    step = 2 * np.pi * width / (_DIGITS + width**2 / 2)
    kappa = 2 * np.exp(width**2 / 2) / np.expm1(2 * np.pi * width / step)
    result = np.full((len(sigma), len(powers)), np.inf)
    short = np.flatnonzero(2 * _REACH / step <= _MOST_NODES)
    if short.size:
        result[short] = _around(powers, sigma[short], rate[short], step[short])
    wide = short[np.any(result[short] == np.inf, axis=1)]
    if wide.size:
        throughout = _throughout(powers, sigma[wide], rate[wide], step[wide])
        result[wide] = np.where(result[wide] == np.inf, throughout, result[wide])
    largest = powers * (np.abs(np.log(rate)) + powers / (sigma * sigma) + _REACH / sigma)
    return np.asarray(result - np.log1p(-kappa) + ROUNDING * (1 + largest))


def _around(powers: Floats, sigma: Floats, rate: Floats, step: Floats) -> Floats:
    """The rule for log E[r^β] from β/σ - 12 to β/σ + 12; inf where what is to the left might count.

    To the left, down to y where the logistic weight s = σr'/r is within 6σ/β of one, log(r^β φ) rises by at least
    βs/σ - x ≥ 6; left of y, r is at most r(y). To the right it falls by at least 12.
    """
    centre = powers / sigma
    count = min(int(np.ceil(np.max(2 * _REACH / step))), _MOST_NODES) + 1
    nodes = centre[..., None] - _REACH + step[..., None] * np.arange(count)
    terms = powers[:, None] * _log_ratio(nodes, sigma[..., None], rate[..., None]) - nodes * nodes / 2
    top = terms.max(axis=-1)
    shares = np.exp(terms - top[..., None])
    total = shares.sum(axis=-1) - shares[..., 0] / np.expm1(-6.0 * step) - shares[..., -1] / np.expm1(-12.0 * step)
    y = sigma * np.log((1 - rate) / rate * np.maximum(centre / 6, 1.0)) + 1 / (2 * sigma)
    value = np.log(total) + top + np.log(step / np.sqrt(2 * np.pi))
    left = powers * _log_ratio(y, sigma, rate) + np.log1p(step)
    return np.where((y < nodes[..., 0]) & (left < value - 33), np.logaddexp(value, left), np.inf)


def _throughout(powers: Floats, sigma: Floats, rate: Floats, step: Floats) -> Floats:
    """The rule for log E[r^β] from -12 to β/σ + 12; inf where that is too long."""
    nodes, fits = _nodes(powers, sigma, step)
    v = _log_ratio(nodes, sigma, rate)
    terms = powers[:, None] * v[:, None] - (nodes * nodes / 2)[:, None]
    top = terms.max(axis=-1)
    shares = np.exp(terms - top[..., None])
    total = shares.sum(axis=-1) - shares[..., -1] / np.expm1((powers / sigma - nodes[:, -1:]) * step)
    left = powers * v[:, :1] + np.log(ndtr(nodes[:, :1]) + step)
    value = np.logaddexp(np.log(total) + top + np.log(step / np.sqrt(2 * np.pi)), left)
    return np.where(fits, value, np.inf)


def _log_ratio(nodes: Floats, sigma: Floats, rate: Floats) -> Floats:
    """log r at x."""
    z = nodes / sigma - 1 / (2 * sigma * sigma)
    near = np.log1p(rate * np.expm1(np.minimum(z, 30.0)))
    if z.max() <= 30.0:
        return np.asarray(near)
    return np.where(z > 30.0, np.logaddexp(np.log1p(-rate), z + np.log(rate)), near)

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

What lies beyond the nodes is bounded where it is left out, and added.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from dpcalc.arrays import Floats
from dpcalc.elementary import exp_remainder
from dpcalc.pairs.moments import ROUNDING, mixed_losses

_REACH = 12.0  # standard deviations beyond the outermost maximum
_DIGITS = 44.0  # e^-44 is below the rounding of the sum
_MOST_NODES = 40_000
_LARGE = 200.0  # log E[r^β] from which the 1 in it does not matter
_TOGETHER = 1_000_000  # values held at once


def log_excess(powers: Floats, sigmas: Floats, rate: float) -> Floats:
    """Upper bounds on log(E[r^β] - 1) for every σ and every β > 1, 0 < q < 1: one row for each σ."""
    return np.stack([_of_one(powers, float(sigma), rate) for sigma in sigmas])


def _of_one(powers: Floats, sigma: float, rate: float) -> Floats:
    """The powers sorted by how they are computed, each bounded by convexity where the rule would be too long."""
    with np.errstate(over="ignore"):
        exponent = powers * (powers - 1) / (2 * sigma * sigma)
        result = np.where(exponent < 700, np.log(rate) + np.log(np.expm1(np.minimum(exponent, 700.0))), np.inf)
        result = np.where(exponent < 700, result, np.logaddexp(np.log1p(-rate), np.log(rate) + exponent))
    result = np.asarray(result + ROUNDING * (1 + exponent + powers * abs(np.log(rate))))
    large = exponent + powers * np.log(rate) > _LARGE
    for chosen, bound in (
        (~large & (powers < 2), _small_powers),
        (~large & (powers >= 2), _excess),
        (large, _large_moments),
    ):
        at = np.flatnonzero(chosen)
        if at.size:
            result[at] = np.minimum(result[at], bound(powers[at], sigma, rate))
    return result


def _small_powers(powers: Floats, sigma: float, rate: float) -> Floats:
    """For 1 < β < 2: half the strip, and the third of the bounds."""
    width = min(np.pi * sigma / 2, 6.0)
    square = 1 / (sigma * sigma)
    if square > 300:
        return np.full(powers.shape, np.inf)
    outside = powers * (powers - 1) / 2 * (1 - rate) ** (powers - 2) * rate**2
    outside = outside * (np.expm1(square) + (width / sigma) ** 2)
    digits = _DIGITS + width**2 / 2 + square - 2 * np.log1p(-rate) + 5
    inside = np.zeros_like(powers)
    return _with_error(powers, sigma, rate, width=width, digits=digits, inside=inside, outside=outside)


def _excess(powers: Floats, sigma: float, rate: float) -> Floats:
    """For β ≥ 2: the second of the bounds."""
    width = min(np.pi * sigma, 6.0) * (1 - 1e-12)
    factor = powers * (powers - 1) / 2 * min((width / sigma) ** 2, 4.0)
    digits = _DIGITS + width**2 / 2 + float(np.log1p(factor.max() * rate)) + 5 - np.log(rate)
    inside, outside = factor * rate, factor * (rate + rate**2)
    return _with_error(powers, sigma, rate, width=width, digits=digits, inside=inside, outside=outside)


def _with_error(
    powers: Floats, sigma: float, rate: float, *, width: float, digits: float, inside: Floats, outside: Floats
) -> Floats:
    """log of (T + κ'·outside) / (1 - κ'(1 + inside)), T the rule for E[g] with what it leaves out."""
    step = 2 * np.pi * width / digits
    kappa = 2 * np.exp(width**2 / 2) / np.expm1(2 * np.pi * width / step)
    highest = float(powers.max()) / sigma + _REACH
    if (highest + _REACH) / step > _MOST_NODES:
        return np.full(powers.shape, np.inf)
    nodes = step * np.arange(-np.ceil(_REACH / step), np.ceil(highest / step) + 1)
    v = _log_ratio(nodes, sigma, rate)
    log_weight = -nodes * nodes / 2 + np.log(step / np.sqrt(2 * np.pi))
    total = np.concatenate([_sums(part, v, log_weight) for part in _chunks(powers, nodes.size)])
    left = _gap(powers, np.log1p(-rate)) * (ndtr(nodes[0]) + np.exp(log_weight[0]))
    right = np.exp(powers * v[-1] + log_weight[-1]) / -np.expm1((powers / sigma - nodes[-1]) * step)
    shares = kappa * (1 + inside)
    bound = (total + left + right + kappa * outside) / (1 - shares)
    with np.errstate(divide="ignore"):
        value = np.log(bound) + ROUNDING * (1 + powers * np.abs(v).max() + nodes[-1] ** 2 + (1 + nodes[-1]) / sigma**2)
    return np.where(shares < 0.5, value, np.inf)


def _sums(powers: Floats, v: Floats, log_weight: Floats) -> Floats:
    """Σ w g with g = R(βv) - βR(v), R(z) = e^z - 1 - z; where e^{βv} is large, with its weight in the exponent."""
    exponents = np.multiply.outer(powers, v)
    far = exponents > 30.0
    grown = exp_remainder(np.minimum(exponents, 30.0))
    taken = np.multiply.outer(powers, exp_remainder(np.minimum(v, 30.0)))
    near = np.maximum(grown - taken, 0.0) + ROUNDING * (grown + taken)
    value = np.where(far, 0.0, near) @ np.exp(log_weight)
    if far.any():
        plain = np.exp(np.where(far, exponents + log_weight, -np.inf))
        first = np.exp(v + log_weight) * np.where(far, powers[:, None], 0.0)
        value = value + (plain - np.minimum(first * (1 - ROUNDING), plain)).sum(axis=-1)
        value = value + np.where(far, powers[:, None] - 1, 0.0) @ np.exp(log_weight)
    return np.asarray(value)


def _gap(powers: Floats, loss: float) -> Floats:
    """g at r = e^loss ≤ 1, from above."""
    grown, taken = exp_remainder(powers * loss), powers * float(exp_remainder(np.array(loss)))
    return np.asarray(np.maximum(grown - taken, 0.0) + ROUNDING * (grown + taken))


def _large_moments(powers: Floats, sigma: float, rate: float) -> Floats:
    """log E[r^β] where it is large: the first of the bounds, on nodes around β/σ where that is enough."""
    width = min(np.pi * sigma, 6.0) * (1 - 1e-12)
    step = 2 * np.pi * width / (_DIGITS + width**2 / 2)
    kappa = 2 * np.exp(width**2 / 2) / np.expm1(2 * np.pi * width / step)
    if 2 * _REACH / step > _MOST_NODES:
        return np.full(powers.shape, np.inf)
    parts = [_around(part, sigma, rate, step) for part in _chunks(powers, int(2 * _REACH / step) + 2)]
    result = np.concatenate(parts)
    wide = np.flatnonzero(result == np.inf)
    wide = wide[(powers[wide] / sigma + 2 * _REACH) / step <= _MOST_NODES]
    if wide.size:
        longest = int((powers[wide].max() / sigma + 2 * _REACH) / step) + 2
        result[wide] = np.concatenate([_throughout(part, sigma, rate, step) for part in _chunks(powers[wide], longest)])
    largest = powers * (np.abs(np.log(rate)) + powers / (sigma * sigma) + _REACH / sigma)
    return np.asarray(result - np.log1p(-kappa) + ROUNDING * (1 + largest))


def _around(powers: Floats, sigma: float, rate: float, step: float) -> Floats:
    """The rule for log E[r^β] from β/σ - 12 to β/σ + 12; inf where what is to the left might count.

    To the left, down to y where the logistic weight s = σr'/r is within 6σ/β of one, log(r^β φ) rises by at least
    βs/σ - x ≥ 6; left of y, r is at most r(y). To the right it falls by at least 12.
    """
    centre = powers / sigma
    nodes = centre[:, None] - _REACH + step * np.arange(int(np.ceil(2 * _REACH / step)) + 1)
    terms = powers[:, None] * _log_ratio(nodes, sigma, rate) - nodes * nodes / 2
    top = terms.max(axis=1)
    shares = np.exp(terms - top[:, None])
    total = shares.sum(axis=1) - shares[:, 0] / np.expm1(-6.0 * step) - shares[:, -1] / np.expm1(-12.0 * step)
    y = sigma * np.log((1 - rate) / rate * np.maximum(centre / 6, 1.0)) + 1 / (2 * sigma)
    value = np.log(total) + top + np.log(step / np.sqrt(2 * np.pi))
    left = powers * _log_ratio(y, sigma, rate) + np.log1p(step)
    return np.where((y < nodes[:, 0]) & (left < value - 33), np.logaddexp(value, left), np.inf)


def _throughout(powers: Floats, sigma: float, rate: float, step: float) -> Floats:
    """The rule for log E[r^β] from -12 to β/σ + 12."""
    nodes = step * np.arange(-np.ceil(_REACH / step), np.ceil((powers.max() / sigma + _REACH) / step) + 1)
    v = _log_ratio(nodes, sigma, rate)
    terms = np.multiply.outer(powers, v) - nodes * nodes / 2
    top = terms.max(axis=1)
    shares = np.exp(terms - top[:, None])
    total = shares.sum(axis=1) - shares[:, -1] / np.expm1((powers / sigma - nodes[-1]) * step)
    left = powers * v[0] + np.log(ndtr(nodes[0]) + step)
    return np.asarray(np.logaddexp(np.log(total) + top + np.log(step / np.sqrt(2 * np.pi)), left))


def _log_ratio(nodes: Floats, sigma: float, rate: float) -> Floats:
    """log r at x."""
    return mixed_losses(nodes / sigma - 1 / (2 * sigma * sigma), rate)


def _chunks(powers: Floats, nodes: int) -> list[Floats]:
    size = max(1, _TOGETHER // nodes)
    return [powers[start : start + size] for start in range(0, powers.size, size)]

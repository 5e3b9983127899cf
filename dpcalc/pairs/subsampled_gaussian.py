"""The transform log E_P[e^{λL}] of the Poisson-subsampled Gaussian, at real and complex λ.

With r(x) = 1 - q + q exp((2x - 1) / (2σ²)) the density ratio of (1-q)N(0,σ²) + qN(1,σ²) to N(0,σ²) and x ~ N(0,σ²),

    remove:  E[r(x)^{1+λ}],        add:  E[r(x)^{-λ}].

Both are integrals of a function analytic in a strip, so the trapezoid rule converges exponentially. λ = α - 1 gives
(α - 1) times the Rényi divergence of order α (Mironov, Talwar, Zhang 2019, which proves remove ≥ add there).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcalc.arrays import Floats
from dpcalc.pairs.moments import ROUNDING
from dpcalc.pairs.subsampled_renyi import log_excess

Direction = Literal["remove", "add"]

_DIGITS = 42.0  # e^-42: below the rounding of the sum
_CHUNK = 500_000  # complex numbers held at once
_FACTORIALS = np.cumprod(np.arange(2.0, 10.0))  # 2! … 9!
_FURTHEST = 2e4  # standard deviations up to which the quadrature reaches


def log_mgf(
    exponents: ArrayLike, noise_multiplier: ArrayLike, sampling_rate: float, direction: Direction = "remove"
) -> NDArray[Any]:
    """log E_P[exp(λL)] for every noise multiplier and exponent λ: shape noise_multiplier.shape + exponents.shape.

    Real exponents give real values. The relative accuracy is about 1e-12 (of the value itself, however small).
    """
    given = np.asarray(exponents)
    powers = (1 + given if direction == "remove" else -given).ravel()
    powers = powers.astype(np.complex128 if np.iscomplexobj(powers) else np.float64)
    sigmas = np.asarray(noise_multiplier, dtype=np.float64)
    flat = sigmas.ravel()
    result = np.empty((flat.size, powers.size), dtype=powers.dtype)
    order = np.argsort(powers.real)
    for k, sigma in enumerate(flat):
        if sampling_rate == 1.0:
            result[k] = powers * (powers - 1) / (2 * sigma * sigma)
            continue
        for block in _blocks_of_similar(powers.real[order]):
            chosen = order[block]
            if powers[chosen].real.max() > _FURTHEST * sigma or powers[chosen].real.min() < -_FURTHEST:
                result[k, chosen] = _log_bound(powers[chosen], float(sigma), sampling_rate)
            else:
                result[k, chosen] = _log_moments(powers[chosen], float(sigma), sampling_rate)
    return result.reshape(sigmas.shape + given.shape)


def rdp(orders: Floats, noise_multipliers: Floats, sampling_rate: float) -> Floats:
    """Upper bounds on the Rényi divergence of the worse direction (remove): one row per noise multiplier.

    Never more than without sampling.
    """
    unsampled = np.multiply.outer(1 / (2 * noise_multipliers**2), orders) * (1 + ROUNDING)
    if sampling_rate == 1.0:
        return unsampled
    sampled = np.logaddexp(0.0, log_excess(orders, noise_multipliers, sampling_rate)) / (orders - 1) * (1 + ROUNDING)
    return np.minimum(sampled, unsampled)


def _blocks_of_similar(sorted_powers: Floats) -> list[slice]:
    """Runs of exponents close enough to share their quadrature nodes."""
    blocks, start = [], 0
    for i in range(1, sorted_powers.size + 1):
        if i == sorted_powers.size or sorted_powers[i] - sorted_powers[start] > 8 + 0.3 * abs(sorted_powers[start]):
            blocks.append(slice(start, i))
            start = i
    return blocks


def _log_bound(powers: NDArray[Any], sigma: float, rate: float) -> NDArray[Any]:
    """An upper bound for real β, where the quadrature would be too long; NaN for complex ones.

    r^β ≤ 1 - q + q e^{βz} for β > 1 by convexity, r^β ≤ (1 - q)^β for β < 0.
    """
    if np.iscomplexobj(powers) and np.any(powers.imag != 0):
        return np.full(powers.shape, np.nan, dtype=powers.dtype)
    beta = powers.real
    above = np.logaddexp(np.log1p(-rate), np.log(rate) + beta * (beta - 1) / (2 * sigma * sigma))
    return np.asarray(np.where(beta > 0, above, beta * np.log1p(-rate)).astype(powers.dtype))


def _log_moments(powers: NDArray[Any], sigma: float, rate: float) -> NDArray[Any]:
    """log E[r^β] for each β, as log1p of E[r^β - 1 - β(r - 1)] (E[r] = 1), or scaled where that overflows."""
    nodes, step = _nodes(powers, sigma, rate)
    log_ratio = log_density_ratio(nodes, sigma, rate)
    log_weight = -nodes * nodes / 2 + np.log(step) - np.log(2 * np.pi) / 2
    largest = float(np.max(log_weight[:, None] + np.outer(log_ratio, [powers.real.min(), powers.real.max()])))
    size = max(1, _CHUNK // max(1, nodes.size))
    parts = []
    for start in range(0, powers.size, size):
        beta = powers[start : start + size]
        if largest > 300:
            terms = log_weight + np.multiply.outer(beta, log_ratio)
            top = terms.real.max(axis=-1)
            parts.append(_log(np.exp(terms - top[:, None]).sum(axis=-1)) + top)
        else:
            parts.append(_log1p(_excess(beta, log_ratio, log_weight)))
    return np.concatenate(parts)


def _excess(beta: NDArray[Any], v: Floats, log_weight: Floats) -> NDArray[Any]:
    """Σ w (e^{βv} - 1 - β(e^v - 1)) without cancellation where βv is small, nor overflow where it is large."""
    reach = np.abs(v) * max(1.0, float(np.abs(beta).max()))
    small, large = reach < 0.02, reach > 10.0
    middle = ~(small | large)
    weight = np.exp(log_weight)
    total = _series(beta, v[small], weight[small])
    total += np.expm1(np.multiply.outer(beta, v[middle])) @ weight[middle]
    total += np.exp(np.multiply.outer(beta, v[large]) + log_weight[large]).sum(axis=-1) - weight[large].sum()
    ratio = np.exp(v + log_weight) - weight
    return np.asarray(total - beta * (ratio[middle].sum() + ratio[large].sum()))


def _series(beta: NDArray[Any], v: Floats, weight: Floats) -> NDArray[Any]:
    """Σ w (e^{βv} - 1 - β(e^v - 1)) = Σ_{k ≥ 2} (β^k - β) Σ w v^k / k!, for small βv."""
    moments = np.multiply.accumulate(np.broadcast_to(v, (9, v.size)), axis=0)[1:] @ weight
    powers = np.multiply.accumulate(np.broadcast_to(beta, (9, beta.size)), axis=0)[1:]
    return np.asarray((moments / _FACTORIALS) @ (powers - beta))


def _log(z: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(z))


def _log1p(z: NDArray[Any]) -> NDArray[Any]:
    if not np.iscomplexobj(z):
        return np.asarray(np.log1p(z))
    near = np.abs(z) < 0.5
    real = np.where(near, 0.5 * np.log1p(np.where(near, 2 * z.real + z.real**2 + z.imag**2, 0.0)), _log(np.abs(1 + z)))
    return np.asarray(real + 1j * np.arctan2(z.imag, 1 + z.real))


def log_density_ratio(nodes: Floats, sigma: float | Floats, rate: float) -> Floats:
    """log r at x = σ·nodes."""
    z = nodes / sigma - 1 / (2 * sigma * sigma)
    near = np.log1p(rate * np.expm1(np.minimum(z, 30.0)))
    return np.where(z > 30.0, z + np.log(rate) + np.log1p((1 - rate) / rate * np.exp(-np.maximum(z, 30.0))), near)


def _nodes(powers: NDArray[Any], sigma: float, rate: float) -> tuple[Floats, float]:
    """Trapezoid nodes in units of σ that cover every integrand, and their step.

    r has its zeros at Im x = ±πσ²; half-way there |r| is at least 1 - q and its argument at most π/2. The exponent
    -u²/2 + β log r(u) has all its maxima between 0 and β/σ (for β < 0, to the right of where r has levelled off), and
    for β > 0 none narrower than a unit Gaussian, so that a scan in half units misses none.
    """
    width = min(np.pi * sigma / 2, 6.0)
    real, imaginary = powers.real, np.abs(powers.imag).max() if np.iscomplexobj(powers) else 0.0
    growth = width**2 / 2 + 0.35 * max(0.0, -float(real.min())) + imaginary * min(width / sigma, np.pi / 2)
    step = 2 * np.pi * width / (_DIGITS + growth)
    left = max(0.0, sigma * float(np.log(max(1.0, -float(real.min()) * rate))))  # there r^β is flat for β < 0
    coarse = np.arange(-np.sqrt(left**2 + 102) - 1, max(1.0, float(real.max())) / sigma + 10.5, 0.5)
    log_ratio = log_density_ratio(coarse, sigma, rate)
    sizes = [-coarse * coarse / 2 + power * log_ratio for power in (float(real.min()), float(real.max()))]
    if max(float(size.max()) for size in sizes) <= 300:  # the terms 1 and r of `_excess` count as well
        sizes += [-coarse * coarse / 2, -coarse * coarse / 2 + log_ratio]
    inside = np.flatnonzero(np.any([size > size.max() - 50 for size in sizes], axis=0))
    first, last = coarse[inside[0]] - 0.5, coarse[inside[-1]] + 0.5
    count = int(np.ceil((last - first) / step)) + 1
    return first + step * np.arange(count), float(step)

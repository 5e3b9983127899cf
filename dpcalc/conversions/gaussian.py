"""Gaussian differential privacy to and from (ε,δ), exact and rounded to the safe side.

With a = ε/μ − μ/2 and b = ε/μ + μ/2 the privacy profile is δ = Φ(−a) − e^ε Φ(−b) (Dong, Roth, Su, Corollary 2.13).
Since φ(a) = e^ε φ(b), it is φ(a)·(R(a) − R(b)) with the Mills ratio R = Φ(−x)/φ(x) = √(π/2)·erfcx(x/√2): nothing
overflows, and for small μ the difference is the integral of −R′ = 1 − xR over [a, b], so nothing cancels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, ndtr, ndtri

from dpcalc.arrays import Floats
from dpcalc.conversions.ranges import expect
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY, SMALLEST, Range

# Above this μ the Mills ratios at a and b differ enough to be subtracted.
_SMALL_MU = 0.5
# Rounding of exp, erfcx and of a itself, relative to δ; checked against mpmath in the tests.
_DELTA_ROUNDING = 4e-13
_EPSILON_ROUNDING = 2e-13

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)

# Above this μ, ε is μ²/2 to all digits of a double.
_LARGE_MU = 1e50


def _mills(x: Floats) -> Floats:
    ratio: Floats = np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
    return ratio


def _minus_mills_slope(x: Floats) -> Floats:
    """1 − x·R(x), by its asymptotic series where the difference would cancel."""
    square = 1 / np.maximum(x, 20.0) ** 2
    term, series = np.ones_like(square), np.zeros_like(square)
    for k in range(1, 12):
        term = term * -(2 * k - 1) * square
        series -= term
    return np.where(x > 20, series, 1 - x * _mills(np.minimum(x, 20.0)))


def _log_profile(mu: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """log δ(ε), and its derivative in ε, for arrays of one shape with μ > 0 and ε ≥ 0."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        a = epsilon / mu - mu / 2
        b = a + mu
        log_phi = -0.5 * a * a - _LOG_SQRT_2PI
        mills_b = _mills(b)
        small = mu < _SMALL_MU
        half = np.where(small, mu / 2, 0.0)[..., None]
        middle = np.where(small, a + mu / 2, 0.0)[..., None]
        integral = (half * _WEIGHTS * _minus_mills_slope(middle + half * _NODES)).sum(-1)
        difference = np.where(small, integral, _mills(a) - mills_b)
        left = ndtr(-a) - np.exp(log_phi) * mills_b
        log_delta = np.where((a < 0) & ~small, np.log(left), log_phi + np.log(difference))
        slope = -np.exp(log_phi + np.log(mills_b) - log_delta)
    # Where φ(a) is below the range of doubles so is δ, or a is far to the left and δ is one.
    return np.where(np.isnan(log_delta), np.where(a < 0, 0.0, -np.inf), log_delta), slope


def _as_arrays(*values: ArrayLike) -> list[Floats]:
    return [np.array(x) for x in np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values))]


def _like_input(value: Floats) -> Any:
    return float(value) if value.ndim == 0 else value


def gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> Any:
    """Upper bound on δ at ε of a μ-GDP mechanism, above the exact value by less than 1e-12 of it."""
    expect("mu", mu, NON_NEGATIVE)
    expect("epsilon", epsilon, NON_NEGATIVE)
    mus, epsilons = _as_arrays(mu, epsilon)
    log_delta, _ = _log_profile(np.where(mus > 0, mus, 1.0), epsilons)
    delta = np.clip(np.exp(log_delta) * (1 + _DELTA_ROUNDING), SMALLEST, 1.0)
    return _like_input(np.where(mus > 0, delta, 0.0))


def gdp_epsilon(mu: ArrayLike, delta: ArrayLike) -> Any:
    """Upper bound on ε at δ of a μ-GDP mechanism, above the exact value by less than 1e-12 of it.

    log δ is concave in ε (a convolution of log-concave functions), so Newton's method from the right stays right.
    """
    expect("mu", mu, NON_NEGATIVE)
    expect("delta", delta, PROBABILITY)
    given, deltas = _as_arrays(mu, delta)
    positive, large = given > 0, given > _LARGE_MU
    mus = np.where(positive & ~large, given, 1.0)
    target = np.log(deltas)
    at_zero, _ = _log_profile(mus, np.zeros_like(mus))
    epsilon = mus * mus / 2 + mus * np.sqrt(np.maximum(-2 * target, 0.0))
    moving = np.ones_like(epsilon, dtype=bool)
    for _ in range(100):
        log_delta, slope = _log_profile(mus, epsilon)
        following = np.maximum(epsilon - (log_delta - target) / slope, 0.0)
        settled = np.abs(following - epsilon) <= 1e-11 * epsilon  # the next step would be quadratically small
        # A value that has settled stays, so that it does not depend on what else is in the array.
        epsilon, moving = np.where(moving, following, epsilon), moving & ~settled
        if not moving.any():
            break
    _, slope = _log_profile(mus, epsilon)
    epsilon = epsilon * (1 + _EPSILON_ROUNDING) + _DELTA_ROUNDING / np.abs(slope)
    with np.errstate(over="ignore"):
        beyond = given * (given / 2) * (1 + _EPSILON_ROUNDING)
    return _like_input(np.where(large, beyond, np.where(positive & (target < at_zero), epsilon, 0.0)))


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest μ, rounded down, such that every μ-GDP mechanism is (ε,δ)-DP."""
    expect("epsilon", epsilon, NON_NEGATIVE)
    expect("delta", delta, PROBABILITY)
    low, high = 1e-150, 1e150
    while high > low * (1 + 1e-15):
        middle = float(np.sqrt(low) * np.sqrt(high))
        if not low < middle < high:
            break
        if gdp_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def gdp_rho(mu: float) -> float:
    """The ρ of ρ-zCDP, rounded up, that μ-GDP implies: μ²/2, the Rényi divergence of the Gaussian over its order."""
    return math.nextafter(mu * mu / 2, math.inf)


def gdp_tradeoff(mu: float, false_positive_rate: ArrayLike) -> Any:
    """Upper bound on the true positive rate of any attack at a false positive rate: 1 − Φ(Φ⁻¹(1−x) − μ)."""
    expect("mu", mu, NON_NEGATIVE)
    expect("false_positive_rate", false_positive_rate, Range(low=0, high=1))
    (rates,) = _as_arrays(false_positive_rate)
    return _like_input(np.minimum(ndtr(ndtri(rates) + mu) * (1 + _DELTA_ROUNDING), 1.0))

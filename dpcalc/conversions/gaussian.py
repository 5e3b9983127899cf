"""Gaussian differential privacy to and from (ε,δ), exact and rounded to the safe side.

With a = ε/μ − μ/2 and b = ε/μ + μ/2 the privacy profile is δ = Φ(−a) − e^ε Φ(−b) (Dong, Roth, Su 2022, Corollary 1).
Since φ(a) = e^ε φ(b), it is φ(a)·(R(a) − R(b)) with the Mills ratio R = Φ(−x)/φ(x): nothing overflows, and the
difference is taken without cancellation. a is worked out in integers: it is the difference of two numbers that may
agree in all their digits, and a²/2 is an exponent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpcalc.conversions.normal import (
    DIFFERENCE,
    LOG_SQRT_2PI,
    MILLS,
    half_square,
    least,
    mills,
    mills_difference,
    probability_below,
    tail_above,
    tail_below,
)
from dpcalc.conversions.ranges import expect
from dpcalc.numbers import NON_NEGATIVE, PROBABILITY, SMALLEST, Range
from dpcalc.rounding import FUNCTION, UNIT

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpcalc.arrays import Floats

THEOREM = "Dong, Roth, Su 2022, Corollaries 1 and 2: μ² adds, and gives δ at every ε"

# gdp_epsilon is above the truth by less than this much of μ is worth, and gdp_delta by less than this much of itself.
_SHADE = 1e-12

# Of a μ = 1/σ that is rounded itself, of its square, and of ρ times an order.
_RHO_ROUNDING = 8 * UNIT

# Beyond this a, δ is 0 or 1 to all digits of all doubles, and a² is within their range.
_FAR = 1e100

# Nothing is told from below of a μ that is not larger.
_SMALLEST_MU = 1e-300

# A difference of Mills ratios that is smaller counts as this one: it belongs to an a beyond 1,000, where δ is 0, or to
# a μ whose half has lost digits.
_LEAST_GAP = 1e-307


def _log_profile(mu: float, epsilon: float) -> tuple[float, float, float, float]:
    """An exponent, a term and an error with log δ(ε) ≤ term − exponent + error, and the slope of log δ; μ > 0, ε ≥ 0.

    The slope only steers.
    """
    half = mu / 2
    if abs(epsilon / mu - half) > _FAR:
        return (math.inf if epsilon / mu > half else 0.0), 0.0, 0.0, 0.0
    (top, bottom), (over, under) = mu.as_integer_ratio(), epsilon.as_integer_ratio()
    numerator, denominator = 2 * over * bottom * bottom - top * top * under, 2 * under * top * bottom
    a = numerator / denominator
    square, rest = half_square(numerator, denominator)
    if a >= 2 or half <= 0.25:
        gap, beyond = mills_difference(a, half)
        gap = max(gap, _LEAST_GAP)
        term = math.log(gap) - LOG_SQRT_2PI - rest
        return square, term, DIFFERENCE + 2 * FUNCTION * abs(term), -beyond / gap
    right = math.exp(-square - LOG_SQRT_2PI) * mills(epsilon / mu + half)  # e^ε Φ(−b)
    error = 2 * MILLS + 4 * UNIT * square  # of both terms, relative to them; the second MILLS is that of a logarithm
    tail = 0.5 * math.erfc(abs(a) / math.sqrt(2))
    if a >= 0:
        delta = tail - right
        return 0.0, math.log(delta), error * (tail + right) / delta, -right / delta
    rest = tail + right
    return 0.0, math.log1p(-rest), error * rest / (1 - rest), -right / (1 - rest)


def _delta(mu: float, epsilon: float) -> float:
    if mu == 0:
        return 0.0
    exponent, term, error, _ = _log_profile(mu, epsilon)
    if exponent > 760:  # δ ≤ φ(a)·R(2) is less than the smallest double
        return SMALLEST
    return min(math.exp(-exponent) * math.exp(term) * (1 + error + 4 * FUNCTION) + 2 * SMALLEST, 1.0)


def _epsilon(mu: float, delta: float, near: float | None = None) -> float:
    """ε at δ, looked for from `near` if it is given, which changes the last digits at most."""
    if mu == 0:
        return 0.0
    target = math.log(delta)

    def excess(epsilon: float) -> tuple[float, float]:
        exponent, term, error, slope = _log_profile(mu, epsilon)
        return (term - exponent) - target + (error + 2 * UNIT * exponent + FUNCTION * abs(target)), slope

    if not near and excess(0.0)[0] <= 0:
        return 0.0
    # δ ≤ Φ(−a) ≤ ½·e^(−a²/2); the rounding of a μ above 1e16 is more than the ½ is worth
    enough = (mu * (mu / 2) + mu * math.sqrt(-2 * target)) * (1 + 8 * UNIT)
    return least(excess, 0.0, enough, near, min(-target, 1.0)) if enough < math.inf else math.inf


def _near(mu: Floats, delta: Floats) -> Floats:
    """Where to look for the ε of many μ and δ, 0 for no idea: Newton's method on the plain formula; no bound."""
    import numpy as np
    from scipy.special import erf, log_ndtr

    with np.errstate(all="ignore"):
        target = np.log(delta)
        epsilon = mu * (mu / 2 + np.sqrt(-2 * target))
        for _ in range(6):
            left, right = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
            log_delta = left + np.log1p(-np.exp(right - left))
            epsilon = epsilon + (log_delta - target) * np.exp(log_delta - right)
    surely_positive = erf(mu / math.sqrt(8)) > delta * (1 + 1e-9)
    return np.where(np.isfinite(epsilon) & surely_positive, epsilon, 0.0)


def _true_positive_rate(mu: float, rate: float) -> float:
    if rate in (0.0, 1.0):
        return rate
    quantile = -tail_below(math.log(rate)) if rate <= 0.5 else tail_above(math.log(1 - rate))
    if quantile + mu > 40:  # Φ is 1 to all digits of a double
        return 1.0
    return max(probability_below(quantile + mu), rate)


def _each(function: Callable[..., float], *values: ArrayLike) -> Any:
    """A function of numbers, at numbers or at arrays element by element."""
    if all(isinstance(value, (int, float)) for value in values):
        return function(*map(float, values))  # type: ignore[arg-type]
    import numpy as np

    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values))
    if function is _epsilon:
        arrays = (*arrays, _near(*arrays))
    found = [function(*row) for row in zip(*(array.ravel().tolist() for array in arrays), strict=True)]
    return np.array(found).reshape(arrays[0].shape) if arrays[0].ndim else found[0]


def gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> Any:
    """Upper bound on δ at ε of a μ-GDP mechanism, above the exact value by less than 1e-12 of it."""
    expect("mu", mu, NON_NEGATIVE)
    expect("epsilon", epsilon, NON_NEGATIVE)
    return _each(_delta, mu, epsilon)


def gdp_epsilon(mu: ArrayLike, delta: ArrayLike) -> Any:
    """Upper bound on ε at δ of a μ-GDP mechanism: the smallest found at which the bound on its δ is small enough.

    It is above the exact value by as much as 1e-12 of δ is worth, or by a rounding.
    """
    expect("mu", mu, NON_NEGATIVE)
    expect("delta", delta, PROBABILITY)
    return _each(_epsilon, mu, delta)


def gdp_lower(mu: float, *, delta: float | None = None, epsilon: float | None = None) -> float:
    """Lower bound on ε at δ, or on δ at ε, of the Gaussian mechanism that is μ-GDP and no more."""
    if mu < 2 * _SMALLEST_MU:
        return 0.0
    if delta is not None:
        return float(gdp_epsilon(mu * (1 - _SHADE), delta))
    return max(float(gdp_delta(mu, epsilon or 0.0)) * (1 - _SHADE) - 4 * SMALLEST, 0.0)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest μ, rounded down, such that every μ-GDP mechanism is (ε,δ)-DP."""
    expect("epsilon", epsilon, NON_NEGATIVE, single=True)
    expect("delta", delta, PROBABILITY, single=True)
    low, high = 1e-307, 1e154
    if _delta(low, float(epsilon)) > delta:
        return 0.0
    while high > low * (1 + 1e-15):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        if _delta(middle, float(epsilon)) <= delta:
            low = middle
        else:
            high = middle
    return low


def gdp_rho(mu: float) -> float:
    """The ρ of ρ-zCDP, rounded up, that μ-GDP implies: μ²/2, the Rényi divergence of the Gaussian over its order.

    Rounded by enough for a μ = 1/σ that is rounded itself, and for ρ times an order.
    """
    return mu * mu / 2 * (1 + _RHO_ROUNDING)


def gdp_tradeoff(mu: float, false_positive_rate: ArrayLike) -> Any:
    """Upper bound on the true positive rate of any attack at a false positive rate: 1 − Φ(Φ⁻¹(1−x) − μ)."""
    expect("mu", mu, NON_NEGATIVE)
    expect("false_positive_rate", false_positive_rate, Range(low=0, high=1))
    return _each(_true_positive_rate, mu, false_positive_rate)

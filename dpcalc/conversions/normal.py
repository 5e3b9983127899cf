"""The normal distribution for single numbers, to within stated errors and with the standard library alone.

The moments m_j(c) = ∫₀^∞ t^j e^(−ct−t²/2) dt start with the Mills ratio m₀(c) = R(c) = Φ(−c)/φ(c), and integration by
parts gives m_(j+1) = j·m_(j−1) − c·m_j. Their ratios ρ_j = m_j/m_(j−1) grow with j (m is log-convex), so that
ρ_j = j/(c + ρ_(j+1)) is at most U_j = (√(c² + 4j) − c)/2. From c = 2 on they are computed downwards from U: every
operation is on positive numbers and passes less than U/(c + U) of an error on, so that the start is forgotten to below
one rounding and fewer than 5 roundings remain. Below c = 2 the C library's erfc is accurate enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from operator import mul

from dpcalc.numbers import SMALLEST
from dpcalc.rounding import FUNCTION, UNIT

ERFC = 16 * UNIT
"""Relative error of the C library's erfc and erf (glibc documents at most 5 units in the last place)."""

MILLS = 64 * UNIT
"""Relative error of `mills`, and of ½·erfc(x/√2) up to 2, at an x that errs by 2 UNIT: 4·x/R(x) ≤ 19 for the argument
of erfc, 16 for erfc itself, 16 for x²/2 and exp, and a few operations; from 2 on less than 10 in all."""

DIFFERENCE = 640 * UNIT
"""Relative error of `mills_difference`: see there."""

_NEAR = 2.0
_SQRT_2, _SQRT_HALF_PI = math.sqrt(2), math.sqrt(math.pi / 2)
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SMALL, _TERMS = 0.25, 15


def _depth(c: float) -> int:
    """At which ratio to start, so that what U is too large by is less than UNIT/2 of the first one."""
    return int(3 + 70 / c + 200 / (c * c))


def _ratio(c: float, index: int = 1) -> float:
    """ρ_index for c ≥ 2."""
    start = max(_depth(c), index) + 1
    ratio = 2 * start / (math.sqrt(c * c + 4 * start) + c)
    for j in range(start - 1, index - 1, -1):
        ratio = j / (c + ratio)
    return ratio


def mills(x: float) -> float:
    """R(x) = Φ(−x)/φ(x) for x ≥ 0, to within MILLS of it."""
    if x < _NEAR:
        return _SQRT_HALF_PI * math.exp(x * x / 2) * math.erfc(x / _SQRT_2)
    return 1 / (x + _ratio(x))


def mills_difference(a: float, h: float) -> tuple[float, float]:
    """R(a) − R(a + 2h) to within DIFFERENCE of it, for a ≥ 2, or h ≤ ¼ and a ≥ −h; a may err by UNIT. And R(a + 2h).

    With R = 1/(x + ρ₁) it is R(a)·R(b)·(b − a − (ρ₁(a) − ρ₁(b))), where from a = 2 on the last difference is less than
    0.4 of b − a. For small h it is 2·Σ h^j/j!·m_j(a + h) over odd j: all terms are positive, and each is less than
    h²/√(j² − j) of the one before, so that those beyond the 15th are below UNIT/4 of the first. From a + h = 2 on m_j
    is a product of ratios. Below, the recurrence upwards errs by E_(j+1) ≤ j·E_(j−1) + c·E_j and its own rounding,
    with E_0 ≤ MILLS·m_0; since m_1 ≥ m_1(2) > 0.157, the sum of E_j·h^(j−1)/j! is at most 600 UNIT of the first term.
    """
    if h > _SMALL:
        b = a + 2 * h
        first, second = _ratio(a), _ratio(b)
        return (2 * h - (first - second)) / (a + first) / (b + second), 1 / (b + second)
    odd, even, moments = 0.0, 0.0, _moments(max(a + h, 0.0))
    for j in range(_TERMS, 0, -2):
        odd = moments[j] + odd * h * h / ((j + 1) * (j + 2))
        even = moments[j - 1] + even * h * h / (j * (j + 1))
    return 2 * h * odd, even - h * odd


def _moments(c: float) -> list[float]:
    """m_0, m_1, …, m_15."""
    if c < _NEAR:
        moments = [mills(c)]
        moments.append(1 - c * moments[0])
        for j in range(1, _TERMS):
            moments.append(j * moments[j - 1] - c * moments[j])
        return moments
    ratios = [_ratio(c, _TERMS)]
    for j in range(_TERMS - 1, 0, -1):
        ratios.append(j / (c + ratios[-1]))
    return list(accumulate(reversed(ratios), mul, initial=1 / (c + ratios[-1])))


def half_square(numerator: int, denominator: int) -> tuple[float, float]:
    """x²/2 of a ratio x of integers as a double and the rest, exact but for a rounding of the rest."""
    top, bottom = numerator * numerator, 2 * denominator * denominator
    square = top / bottom  # Python rounds the quotient of integers correctly
    above, below = square.as_integer_ratio()
    return square, (top * below - above * bottom) / (bottom * below)


def log_tail(x: float) -> tuple[float, float]:
    """log Φ(−x) for x ≥ 0, and how far it may be from the truth at an x that errs by UNIT of itself."""
    if x < _NEAR:
        return math.log(0.5 * math.erfc(x / _SQRT_2)), MILLS + ERFC
    square, rest = half_square(*x.as_integer_ratio())
    value = -square + (math.log(mills(x)) - LOG_SQRT_2PI - rest)
    return value, MILLS + ERFC + 4 * UNIT * abs(value)


def tail_above(log_probability: float) -> float:
    """The smallest z found, z ≥ 0, that surely has Φ(−z) at most a probability ≤ ½.

    Here and below the logarithm may err by 2 FUNCTION of itself, and so may the probability in `centre_above`.
    """

    def excess(z: float) -> tuple[float, float]:
        value, error = log_tail(z)
        return value - log_probability + (error + 2 * FUNCTION * abs(log_probability)), -1 / mills(z)

    # Φ(−z) ≤ ½·e^(−z²/2); the rounding of a z above 1e16 is more than the ½ is worth
    return least(excess, 0.0, math.sqrt(-2 * log_probability) * (1 + 8 * UNIT))


def tail_below(log_probability: float) -> float:
    """The largest z found, z ≥ 0, that surely has Φ(−z) at least a probability ≤ ½; 0 if none is sure."""

    def excess(opposite: float) -> tuple[float, float]:
        value, error = log_tail(-opposite)
        return log_probability - value + (error + 2 * FUNCTION * abs(log_probability)), -1 / mills(-opposite)

    return -least(excess, -math.sqrt(-2 * log_probability), 0.0)


def centre_above(probability: float) -> float:
    """The smallest z found that surely has P(|N| ≤ z) = erf(z/√2) at least a probability < ½."""

    def excess(z: float) -> tuple[float, float]:
        inside = math.erf(z / _SQRT_2)
        return math.log(probability / inside) + (ERFC + 3 * FUNCTION + 8 * UNIT), -math.exp(-z * z / 2) / (
            _SQRT_HALF_PI * inside
        )

    return least(excess, 0.0, 2 * _SQRT_HALF_PI * probability) if probability > 0 else 0.0


def probability_below(x: float) -> float:
    """Φ(x) from above."""
    value, error = log_tail(abs(x))
    slack = math.exp(value) * (error + 2 * FUNCTION)
    if x < 0:
        return max(math.exp(value) + slack, SMALLEST)
    return min(1.0, (1 - math.exp(value)) + (slack + 2 * UNIT))


def least(
    excess: Callable[[float], tuple[float, float]],
    low: float,
    high: float,
    near: float | None = None,
    scale: float = 1.0,
) -> float:
    """The smallest x found in [low, high] with excess(x) ≤ 0; `high` must have it, and it is returned at worst.

    `excess`, a difference of logarithms as large as `scale` near its root, tells its slope too: Newton's method steers,
    a bracket decides.
    """
    guess = near if near is not None and low < near < high else high
    for _ in range(200):
        value, slope = excess(guess)
        near = 32 * UNIT * max(abs(slope * guess), scale)
        if value <= 0:
            high = guess
            if -value <= near:
                break
        else:
            low = guess
        # A shade to the safe side of the root.
        guess = guess - (value + near / 4) / slope if slope else low
        if not low < guess < high:
            guess = low + (high - low) / 2
            if not low < guess < high:
                break
    return high

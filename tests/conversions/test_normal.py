"""The normal distribution for single numbers: every stated error against mpmath, and no slack on the safe side."""

from __future__ import annotations

import math
import random

import mpmath
import pytest

from dpcalc.conversions import gdp_delta, gdp_epsilon, gdp_lower, gdp_mu, gdp_tradeoff, laplace_mu, normal, pure_dp_mu
from dpcalc.rounding import UNIT

RANDOM = random.Random(20261116)


def mills(x: mpmath.mpf) -> mpmath.mpf:
    """Φ(−x)/φ(x); far out by its asymptotic series, whose error is below the first term left out."""
    if x < 1000:
        return mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(x * x / 2) * mpmath.erfc(x / mpmath.sqrt(2))
    return mpmath.fsum((-1) ** k * mpmath.fac2(2 * k - 1) / x ** (2 * k + 1) for k in range(12))


def exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    a = e / m - m / 2
    if a > 1000:
        return mpmath.exp(-a * a / 2) / mpmath.sqrt(2 * mpmath.pi) * (mills(a) - mills(a + m))
    density = mpmath.exp(-a * a / 2) / mpmath.sqrt(2 * mpmath.pi)
    return mpmath.erfc(a / mpmath.sqrt(2)) / 2 - density * mills(a + m)


def statements(count: int) -> list[tuple[float, float]]:
    mus = [10 ** RANDOM.uniform(-8, RANDOM.choice((0.7, 3, 154))) for _ in range(count)]
    small = (10 ** RANDOM.uniform(-300, -0.1), 10 ** RANDOM.uniform(-12, -0.1), 1 - 10 ** RANDOM.uniform(-12, -0.1))
    return [(mu, RANDOM.choice(small) * RANDOM.uniform(0.9, 1)) for mu in mus]


@pytest.mark.parametrize(
    ("mu", "delta"), [*statements(60), (0.5, 0.19), (1e154, 0.5), (1e-8, 1e-300), (2e9, 1 - 1e-12)]
)
def test_epsilon_and_delta_are_never_below_the_truth(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    with mpmath.workdps(700):
        assert exact_delta(mu, epsilon) <= mpmath.mpf(delta)
        for at in (epsilon, epsilon * RANDOM.uniform(0.3, 1.5), 10 ** RANDOM.uniform(-12, 300), 0.0):
            exact, found = exact_delta(mu, min(at, 1e300)), gdp_delta(mu, min(at, 1e300))
            assert exact <= mpmath.mpf(found)
            assert found <= exact * (1 + mpmath.mpf("2e-13")) + 2e-323
        assert gdp_lower(mu, epsilon=epsilon) <= exact_delta(mu, epsilon)
        if epsilon > 0:
            assert exact_delta(mu, gdp_lower(mu, delta=delta)) >= mpmath.mpf(delta)
            assert exact_delta(gdp_mu(epsilon, delta), epsilon) <= mpmath.mpf(delta)


@pytest.mark.parametrize("rate", [1e-300, 3e-9, 1e-3, 0.1, 0.49999, 0.5, 0.77, 1 - 1e-9])
def test_true_positive_rates_are_never_below_the_truth(rate: float) -> None:
    for mu in (1e-8, 0.03, 1.7, 6.0, 41.0):
        with mpmath.workdps(60):
            quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(rate) - 1) if rate > 1e-20 else None
            if quantile is None:
                quantile = mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(mpmath.mpf(rate)), -37)
            exact, found = mpmath.ncdf(quantile + mu), gdp_tradeoff(mu, rate)
            assert exact <= found <= exact * (1 + mpmath.mpf("1e-12" if rate > 1e-100 else "1e-11"))


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 0.3, 0.9999, 1.0, 7.7, 660.0, 1e9, 1e300])
def test_the_gaussians_above_pure_privacy_are_large_enough(epsilon: float) -> None:
    with mpmath.workdps(700):
        e = mpmath.mpf(epsilon)
        for found, log_tail in (
            (pure_dp_mu(epsilon), -e - mpmath.log1p(mpmath.exp(-e))),
            (laplace_mu(epsilon), -e / 2 - mpmath.log(2)),
        ):
            for mu, above in ((found, True), (found * (1 - 1e-13), False)):
                half = mpmath.mpf(mu) / 2
                reached = -half * half / 2 - mpmath.log(2 * mpmath.pi) / 2 + mpmath.log(mills(half))
                assert (reached <= log_tail) == above


def test_mills_ratios_and_their_differences_err_by_less_than_they_say() -> None:
    with mpmath.workdps(60):
        for x in (0.0, 0.4, 1.1, 1.9999, 2.0, 2.3, 3.9, 8.0, 37.0, 1e3, 1e9, 1e200):
            exact = mills(mpmath.mpf(x))
            assert abs(normal.mills(x) / exact - 1) <= normal.MILLS
        for a, h in (
            (-0.2, 0.25),
            (0.0, 1e-9),
            (1.6, 0.2),
            (1.8, 1e-5),
            (2.0, 0.26),
            (2.1, 0.1),
            (20.0, 3.0),
            (38.0, 0.3),
        ):
            exact = mills(mpmath.mpf(a)) - mills(mpmath.mpf(a) + 2 * mpmath.mpf(h))
            found, beyond = normal.mills_difference(a, h)
            assert abs(found / exact - 1) <= normal.DIFFERENCE
            assert beyond == pytest.approx(float(mills(mpmath.mpf(a) + 2 * mpmath.mpf(h))), rel=1e-9)


def test_the_continued_fraction_is_deep_enough() -> None:
    """What the first ratio is too large by, bounded step by step; for a fixed depth it falls with c."""

    def largest(j: int, c: float) -> float:
        return 2 * j / (math.sqrt(c * c + 4 * j) + c)

    for k in range(4000):
        c = 2 * 1.005**k
        depth = normal._depth(c)
        error = largest(depth + 1, c) * (c + largest(depth + 2, c)) / (depth + 1) - 1
        for j in range(depth, -1, -1):
            error *= largest(j + 1, c) / (c + largest(j + 1, c))
        assert error <= UNIT / 2


def test_the_recurrence_of_moments_loses_no_more_than_it_says() -> None:
    """The bound of the docstring, with c ≤ 2, m_j(c) ≤ m_j(0) and h = ¼, in units of rounding."""
    moments = [math.sqrt(math.pi / 2), 1.0]
    for j in range(1, 15):
        moments.append(j * moments[j - 1])
    errors = [64 * 0.43, 2 * 64 * 0.43 + 3]  # MILLS·R(2), the largest of c·R(c)·MILLS being at c = 2
    for j in range(1, 15):
        errors.append(j * errors[j - 1] + 2 * errors[j] + 4 * (j * moments[j - 1] + 2 * moments[j]))
    lost = sum(errors[j] * 0.25 ** (j - 1) / math.factorial(j) for j in range(1, 16, 2))
    assert lost / 0.157 <= 600

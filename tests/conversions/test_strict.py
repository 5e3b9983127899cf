"""Bounds without slack: what is called an upper bound is never below the exact value, not even in the last place.

Removing any one allowance for rounding makes some of these fail: half of all unrounded results lie below the truth.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import mpmath
import pytest

from dpcalc.accounting.implied import convert
from dpcalc.conversions import (
    dp_delta,
    dp_epsilon,
    dp_true_positive_rate,
    gdp_delta,
    group_dp,
    pure_dp_mu,
    pure_dp_rdp,
    pure_dp_rho,
)
from dpcalc.conversions.attack import bayes_accuracy, true_positive_rate
from dpcalc.conversions.pure import laplace_mu, laplace_rho, pure_dp_rdp_at
from dpcalc.conversions.renyi import rdp_epsilons
from dpcalc.mechanisms.declared import DeclaredDP

DRAWS = 400
CLOSE = mpmath.mpf("1e-11")


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def drawn(low: float, high: float, seed: int) -> list[float]:
    """Numbers spread evenly on a logarithmic scale."""
    chosen = random.Random(seed)
    return [math.exp(chosen.uniform(math.log(low), math.log(high))) for _ in range(DRAWS)]


def never_below(found: float, exact: mpmath.mpf) -> None:
    assert exact <= found
    assert found <= exact * (1 + CLOSE) + mpmath.mpf("1e-14")


def two_point_rdp(epsilon: float, order: float) -> mpmath.mpf:
    e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
    return mpmath.log(mpmath.cosh((a - mpmath.mpf(0.5)) * e) / mpmath.cosh(e / 2)) / (a - 1)


def test_rdp_of_pure_privacy() -> None:
    for epsilon, above in zip(drawn(1e-6, 50, 1), drawn(1e-3, 1e3, 2), strict=True):
        exact = two_point_rdp(epsilon, 1 + above)
        never_below(float(pure_dp_rdp(epsilon, 1 + above)), exact)
        never_below(pure_dp_rdp_at(epsilon, 1 + above), exact)


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (pure_dp_rho, lambda e: e * mpmath.tanh(e / 2)),
        (laplace_rho, lambda e: e + mpmath.expm1(-e)),
        (pure_dp_mu, lambda e: -2 * normal_quantile(1 / (1 + mpmath.exp(e)))),
        (laplace_mu, lambda e: -2 * normal_quantile(mpmath.exp(-e / 2) / 2)),
    ],
    ids=["rho of pure privacy", "rho of Laplace", "mu of pure privacy", "mu of Laplace"],
)
def test_one_number_of_a_pure_mechanism(
    function: Callable[[float], float], exact: Callable[[mpmath.mpf], mpmath.mpf]
) -> None:
    for epsilon in drawn(1e-4, 60, 3):
        never_below(function(epsilon), exact(mpmath.mpf(epsilon)))


def normal_quantile(tail: mpmath.mpf) -> mpmath.mpf:
    return -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail) if tail > mpmath.mpf("1e-3") else _far_quantile(tail)


def _far_quantile(tail: mpmath.mpf) -> mpmath.mpf:
    start = -mpmath.sqrt(-2 * mpmath.log(tail))
    return mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x)) - mpmath.log(tail), start)


def test_other_points_of_approximate_privacy() -> None:
    rows = zip(drawn(1e-3, 20, 4), drawn(1e-9, 0.3, 5), drawn(1e-3, 1, 6), drawn(1e-8, 1, 7), strict=True)
    for epsilon, delta, share, more in rows:
        e, d, at = mpmath.mpf(epsilon), mpmath.mpf(delta), share * epsilon
        exact = d + (1 - d) * (mpmath.exp(e) - mpmath.exp(mpmath.mpf(at))) / (1 + mpmath.exp(e))
        never_below(dp_delta(epsilon, delta, at), exact)
        wanted = min(delta + more * (1 - delta), 1.0)
        inner = 1 - (mpmath.mpf(wanted) - d) / (1 - d) * (1 + mpmath.exp(-e))
        truth = max(e + mpmath.log(inner), mpmath.mpf(0)) if inner > 0 else mpmath.mpf(0)
        assert truth <= dp_epsilon(epsilon, delta, wanted) <= truth + mpmath.mpf("1e-9") * (1 + mpmath.exp(e))


def test_groups_under_approximate_privacy() -> None:
    for epsilon, delta in zip(drawn(1e-3, 2, 8), drawn(1e-12, 1e-4, 9), strict=True):
        assert 5 * mpmath.mpf(epsilon) <= group_dp(epsilon, delta, 5)[0]
        exact = mpmath.mpf(delta) * mpmath.expm1(5 * mpmath.mpf(epsilon)) / mpmath.expm1(mpmath.mpf(epsilon))
        never_below(group_dp(epsilon, delta, 5)[1], min(exact, mpmath.mpf(1)))


def exact_rate(epsilon: float, delta: float, rate: float) -> mpmath.mpf:
    e, d, x = mpmath.mpf(epsilon), mpmath.mpf(delta), mpmath.mpf(rate)
    return min(mpmath.mpf(1), d + mpmath.exp(e) * x, 1 - mpmath.exp(-e) * (1 - d - x))


@pytest.mark.parametrize("function", [true_positive_rate, dp_true_positive_rate])
def test_true_positive_rates(function: Callable[[float, float, float], float]) -> None:
    for epsilon, delta, rate in zip(drawn(1e-3, 9, 10), drawn(1e-9, 0.5, 11), drawn(1e-4, 0.9, 12), strict=True):
        never_below(function(epsilon, delta, rate), exact_rate(epsilon, delta, rate))


def test_accuracy_of_the_best_guess() -> None:
    for share, slope in zip(drawn(1e-6, 1, 13), drawn(0.1, 1, 14), strict=True):
        prior, e = share / 2, mpmath.log(mpmath.mpf(share) / 2) - mpmath.log1p(-mpmath.mpf(share) / 2)
        exact = 1 - mpmath.mpf(prior) + mpmath.mpf(prior) * mpmath.exp(mpmath.mpf(slope) * e)

        def rounded_up(epsilon: float, slope: float = slope) -> float:
            return math.nextafter(float(mpmath.exp(-mpmath.mpf(slope) * mpmath.mpf(epsilon))), 2)

        never_below(bayes_accuracy(rounded_up, prior), exact)


def test_epsilon_of_one_renyi_order() -> None:
    rows = zip(drawn(0.05, 200, 15), drawn(1e-4, 5, 16), drawn(1e-12, 0.1, 17), strict=True)
    for above, rdp, delta in rows:
        order = 1 + above
        a, r, d = mpmath.mpf(order), mpmath.mpf(rdp), mpmath.mpf(delta)
        mironov = r - mpmath.log(d) / (a - 1)
        canonne = r + mpmath.log(1 - 1 / a) - (mpmath.log(a) + mpmath.log(d)) / (a - 1)
        asoodeh = mpmath.log(1 + mpmath.expm1((a - 1) * r) / (a * d)) / (a - 1)
        exact = max(min(mironov, canonne, asoodeh), mpmath.mpf(0))
        if min(mpmath.sqrt(r / 2), mpmath.sqrt(-mpmath.expm1(-r))) <= d * (1 + CLOSE):
            exact = mpmath.mpf(0)
        never_below(float(rdp_epsilons(order, rdp, delta)), exact)


def test_lower_bounds_of_converted_privacy_are_below_the_truth() -> None:
    for epsilon, delta, share in zip(drawn(1e-2, 5, 18), drawn(1e-9, 0.1, 19), drawn(1e-2, 0.9, 20), strict=True):
        e, d, at = mpmath.mpf(epsilon), mpmath.mpf(delta), share * epsilon
        exact = d + (1 - d) * (mpmath.exp(e) - mpmath.exp(mpmath.mpf(at))) / (1 + mpmath.exp(e))
        found = convert(DeclaredDP(epsilon=epsilon, delta=delta), epsilon=at)[0]
        assert found.delta_lower is not None
        assert exact * (1 - CLOSE) <= found.delta_lower <= exact


def test_the_gaussian_curve_of_a_mu_without_all_its_digits() -> None:
    """Below 4e-308 half of μ is rounded, at worst to 0."""
    with mpmath.workdps(660):
        for mu in (5e-324, 1.5e-323, 1e-315, 2e-308, 5e-308, 3e-307, 1e-304):
            for epsilon in (0.0, mu / 3, 1.7 * mu, 20 * mu):
                m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
                exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
                assert mpmath.mpf(float(gdp_delta(mu, epsilon))) >= exact

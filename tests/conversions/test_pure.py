"""ε-DP and (ε,δ)-DP: what they imply, against the worst mechanism computed exactly."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

EPSILONS = st.floats(math.log(1e-6), math.log(200)).map(math.exp)


def two_point_rdp(epsilon: float, order: float) -> mpmath.mpf:
    with mpmath.workdps(250):  # e^-200 beside 1
        e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
        p, q = 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))
        return mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


@settings(max_examples=80, deadline=None)
@given(epsilon=EPSILONS, order=st.floats(math.log(1e-5), math.log(1e4)).map(lambda x: 1 + math.exp(x)))
def test_rdp_is_the_two_point_divergence(epsilon: float, order: float) -> None:
    exact = two_point_rdp(epsilon, order)
    assert exact <= pure_dp_rdp(epsilon, order) <= exact * (1 + mpmath.mpf("1e-9"))


@settings(max_examples=80, deadline=None)
@given(epsilon=EPSILONS)
def test_rho_is_the_supremum_of_rdp_over_order(epsilon: float) -> None:
    rho = pure_dp_rho(epsilon)
    orders = [1 + 10.0**k for k in range(-9, 6)]
    ratios = [two_point_rdp(epsilon, order) / order for order in orders]
    assert max(ratios) <= rho <= epsilon**2 / 2 * (1 + 1e-12)
    assert float(max(ratios)) == pytest.approx(rho, rel=1e-6)


@settings(max_examples=80, deadline=None)
@given(epsilon=st.floats(1e-6, 100))
def test_mu_is_the_smallest_gaussian_below_randomised_response(epsilon: float) -> None:
    """f_ε ≥ G(μ) iff e^ε ≤ (1 − Φ(−μ/2))/Φ(−μ/2)."""
    mu = pure_dp_mu(epsilon)

    def reached(value: float) -> mpmath.mpf:
        with mpmath.workdps(60):
            half = mpmath.mpf(value) / 2
            return mpmath.log(mpmath.ncdf(half) / mpmath.ncdf(-half))

    assert reached(mu) >= epsilon
    assert reached(mu) <= epsilon * (1 + 1e-9)


def test_gaussian_profile_covers_randomised_response() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        for at in np.linspace(0, epsilon, 9):
            assert gdp_delta(pure_dp_mu(epsilon), float(at)) >= dp_delta(epsilon, 0.0, float(at)) * (1 - 1e-9)


@settings(max_examples=80, deadline=None)
@given(epsilon=st.floats(0.01, 20), delta=st.floats(0, 0.1), share=st.floats(0.01, 0.99))
def test_other_points_of_the_profile_round_trip(epsilon: float, delta: float, share: float) -> None:
    at = share * epsilon
    there = dp_delta(epsilon, delta, at)
    back = dp_epsilon(epsilon, delta, there)
    lost = 1e-12 * math.exp(epsilon - at)  # what one digit of δ is worth there
    assert at - lost <= back <= at + lost
    assert dp_epsilon(epsilon, delta, delta) == epsilon


def test_a_smaller_delta_than_its_own_is_not_implied() -> None:
    assert math.isinf(dp_epsilon(1.0, 1e-6, 1e-7))


def test_group_privacy_adds_the_deltas_up() -> None:
    assert group_dp(1.0, 1e-6, 2) == pytest.approx((2.0, 1e-6 * (1 + math.e)))
    assert group_dp(0.5, 0.0, 3) == (1.5, 0.0)
    assert group_dp(0.0, 1e-6, 4)[1] == pytest.approx(4e-6)
    assert group_dp(800.0, 1e-6, 2)[1] == 1.0


def test_true_positive_rate_obeys_both_inequalities() -> None:
    assert dp_true_positive_rate(math.log(3), 0.0, 0.25) == pytest.approx(0.75)
    assert dp_true_positive_rate(1.0, 0.1, 0.95) <= 1.0
    assert dp_true_positive_rate(0.0, 0.0, 0.3) == pytest.approx(0.3)

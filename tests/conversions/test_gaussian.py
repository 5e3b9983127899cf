"""μ-GDP to and from (ε,δ), against mpmath and published numbers."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from dpcalc.conversions import gdp_delta, gdp_epsilon, gdp_mu, gdp_tradeoff
from dpcalc.conversions.gaussian import gdp_lower

MUS = st.floats(math.log(1e-4), math.log(50)).map(math.exp)
DELTAS = st.floats(math.log(1e-100), math.log(0.5)).map(math.exp)


def oracle_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def oracle_epsilon(mu: float, delta: float, near: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        return mpmath.findroot(lambda e: mpmath.log(oracle_delta(mu, e)) - mpmath.log(mpmath.mpf(delta)), near)


@settings(max_examples=150, deadline=None)
@given(mu=MUS, delta=DELTAS)
def test_epsilon_is_exact_and_never_below(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    if epsilon == 0:
        assert oracle_delta(mu, 0) <= delta
        return
    exact = oracle_epsilon(mu, delta, epsilon)
    assert epsilon >= exact
    # Where ε itself is tiny it is the difference of nearly equal numbers: what δ can resolve counts.
    assert epsilon - exact <= 1e-9 * exact + 1e-15


@settings(max_examples=150, deadline=None)
@given(mu=MUS, delta=DELTAS)
def test_delta_is_exact_and_never_below(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    exact = oracle_delta(mu, epsilon)
    assert 0 <= (gdp_delta(mu, epsilon) - exact) / exact <= 1e-9


def test_the_corners_of_the_range_are_exact() -> None:
    for mu in (1e-4, 1e-2, 0.499, 0.501, 5.0, 50.0):
        for delta in (0.5, 1e-5, 1e-100):
            epsilon = gdp_epsilon(mu, delta)
            if epsilon > 0:
                assert epsilon == pytest.approx(float(oracle_epsilon(mu, delta, epsilon)), rel=1e-9)


@pytest.mark.parametrize(
    ("mu", "epsilon", "digits"),
    [
        (1.2, 5.41348598, 8),  # worked example
        (math.sqrt(420) / 100, 0.7451, 4),  # Koskela et al., σ = 100, k = 420
        (math.sqrt(495) / 100, 0.8152, 4),
        (math.sqrt(50) / 10.61, 2.7524, 4),  # Koskela et al., §E
    ],
)
def test_published_epsilons_at_delta_1e_5(mu: float, epsilon: float, digits: int) -> None:
    assert gdp_epsilon(mu, 1e-5) == pytest.approx(epsilon, abs=0.6 * 10**-digits)


def test_last_iterate_epsilons_of_bok_et_al_table_4() -> None:
    for epochs, published in ((50, 4.339), (100, 5.601), (200, 7.579)):
        c, batches, step_mu = 0.9999, 40, 10 / (1500 * 0.01)
        tail = c ** (batches * (epochs - 1))
        shift = c ** (2 * batches - 2) * (1 - c**2) / (1 - c**batches) ** 2 * (1 - tail) / (1 + tail)
        assert gdp_epsilon(step_mu * math.sqrt(1 + shift), 1e-5) == pytest.approx(published, abs=6e-4)


@settings(max_examples=60, deadline=None)
@given(epsilon=st.floats(1e-3, 50), delta=DELTAS)
def test_mu_is_the_largest_that_implies_epsilon_delta(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(mu, epsilon) <= delta
    assert gdp_delta(mu * (1 + 1e-9), epsilon) > delta * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(mu=MUS, delta=DELTAS, factor=st.floats(1.001, 3))
def test_less_privacy_never_gives_a_smaller_epsilon(mu: float, delta: float, factor: float) -> None:
    assert gdp_epsilon(mu * factor, delta) >= gdp_epsilon(mu, delta)
    assert gdp_epsilon(mu, delta / factor) >= gdp_epsilon(mu, delta)


def test_arrays_agree_with_scalars() -> None:
    mus = np.array([0.0, 0.01, 0.3, 1.0, 7.0])
    assert gdp_epsilon(mus, 1e-6) == pytest.approx([gdp_epsilon(float(mu), 1e-6) for mu in mus], rel=1e-14)
    assert gdp_delta(mus, 0.4).tolist() == [gdp_delta(float(mu), 0.4) for mu in mus]
    assert gdp_epsilon(mus, 1e-6)[0] == 0


def test_tradeoff_touches_the_profile() -> None:
    """max (TPR − FPR) of the trade-off is δ at ε = 0."""
    rates = np.linspace(1e-6, 1 - 1e-6, 200001)
    assert np.max(gdp_tradeoff(1.0, rates) - rates) == pytest.approx(gdp_delta(1.0, 0.0), rel=1e-9)


def test_tradeoff_is_never_below() -> None:
    """TPR = Φ(Φ⁻¹(x) + μ), Φ⁻¹ solved for in 40 digits."""
    rates = np.concatenate((np.geomspace(1e-200, 0.5, 25), 1 - np.geomspace(1e-9, 0.4, 10)))
    for mu in (0.011, 0.7, 3.3):
        for rate, found in zip(rates.tolist(), gdp_tradeoff(mu, rates).tolist(), strict=True):
            with mpmath.workdps(40):
                start = mpmath.mpf(float(ndtri(rate)))
                quantile = mpmath.findroot(lambda z, x=rate: mpmath.log(mpmath.ncdf(z)) - mpmath.log(x), start)
                exact = mpmath.ncdf(quantile + mpmath.mpf(mu))
                assert exact <= found <= exact * (1 + mpmath.mpf("2e-12"))


@pytest.mark.parametrize("mu", [5e-324, 1e-310, 2.3e-308, 1e-299])
def test_the_smallest_mu_has_bounds(mu: float) -> None:
    """δ(0) = 2Φ(μ/2) − 1 is μ/√(2π) there, whose half is no double."""
    exact = mpmath.mpf(mu) / mpmath.sqrt(2 * mpmath.pi)
    assert gdp_lower(mu, epsilon=0.0) <= exact <= gdp_delta(mu, 0.0)
    assert gdp_epsilon(mu, 1e-5) == 0
    assert gdp_epsilon(1e-299, 1e-300) > 0


@pytest.mark.parametrize("epsilon", [1e-201, 1e-230, 1e-299])
def test_the_smallest_epsilon_has_a_mu(epsilon: float) -> None:
    """δ ≤ Φ(μ/2 − ε/μ): already at a = 7 it is below 1e-11, so that μ is at least ε/8."""
    assert gdp_mu(epsilon, 1e-5) >= min(epsilon / 8, 1e-5)
    assert 0 <= gdp_delta(1e-300, epsilon) <= 1e-299

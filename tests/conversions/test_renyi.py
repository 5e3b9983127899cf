"""RDP and zCDP to (ε,δ): as tight as the published conversions, and sound for Gaussians."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.conversions import (
    gdp_delta,
    gdp_epsilon,
    rdp_between,
    rdp_delta,
    rdp_epsilon,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

RHOS = st.floats(math.log(1e-8), math.log(1e3)).map(math.exp)
DELTAS = st.floats(math.log(1e-60), math.log(0.4)).map(math.exp)


def published_conversions(order: float, rdp: float, delta: float) -> float:
    """The three conversions as printed, in plain floating point."""
    mironov = rdp + math.log(1 / delta) / (order - 1)
    canonne = rdp + math.log(1 - 1 / order) - math.log(order * delta) / (order - 1)
    exponent = (order - 1) * rdp
    asoodeh = math.log(1 + math.expm1(exponent) / (order * delta)) / (order - 1) if exponent < 600 else math.inf
    return max(0.0, min(mironov, canonne, asoodeh))


@settings(max_examples=100, deadline=None)
@given(rho=RHOS, delta=DELTAS)
def test_zcdp_is_at_least_as_tight_as_any_grid_of_orders(rho: float, delta: float) -> None:
    grid = 1 + np.geomspace(1e-4, 1e6, 300)
    best = min(published_conversions(float(a), float(a) * rho, delta) for a in grid)
    bun_steinke = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert zcdp_epsilon(rho, delta) <= min(best, bun_steinke) * (1 + 1e-9) + 1e-12


@settings(max_examples=100, deadline=None)
@given(rho=RHOS, delta=DELTAS)
def test_zcdp_is_never_below_the_gaussian_of_the_same_rho(rho: float, delta: float) -> None:
    mu = math.sqrt(2 * rho)
    epsilon = zcdp_epsilon(rho, delta)
    assert epsilon >= gdp_epsilon(mu, delta) * (1 - 1e-12)
    assert zcdp_delta(rho, epsilon) >= gdp_delta(mu, epsilon) * (1 - 1e-12)


@settings(max_examples=50, deadline=None)
@given(rho=RHOS, delta=DELTAS)
def test_round_trips_close(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    if 0 < epsilon < 600:
        assert zcdp_delta(rho, epsilon) <= delta * (1 + 1e-6)
        assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=1e-6)


@pytest.mark.parametrize(("sigma", "steps", "published"), [(170, 112, 0.3007), (130, 180, 0.5005), (100, 420, 1.0044)])
def test_feldman_zrnic_epsilons_with_mironovs_conversion(sigma: float, steps: int, published: float) -> None:
    rho = steps / (2 * sigma**2)
    orders = 1 + np.geomspace(1, 1e4, 200_001)
    mironov = np.min(orders * rho + math.log(1e5) / (orders - 1))
    assert mironov == pytest.approx(published, abs=6e-5)
    assert zcdp_epsilon(rho, 1e-5) < mironov


def test_koskela_rdp_epsilon() -> None:
    assert zcdp_epsilon(420 / (2 * 100**2), 1e-5) == pytest.approx(0.8156, abs=6e-5)


def test_tighter_threshold_than_the_closed_form_of_theorem_4_9() -> None:
    log = math.log(1e6)
    closed_form = (math.sqrt(log + 1) - math.sqrt(log)) ** 2
    assert closed_form == pytest.approx(0.0174689, abs=5e-8)
    assert zcdp_rho(1.0, 1e-6) > closed_form


def test_known_orders_imply_the_orders_between_them() -> None:
    """(α−1)·RDP of the Laplace mechanism is convex: chords are above it."""

    def laplace(alpha: float, scale: float = 1.0) -> float:
        first = alpha / (2 * alpha - 1) * math.exp((alpha - 1) / scale)
        second = (alpha - 1) / (2 * alpha - 1) * math.exp(-alpha / scale)
        return math.log(first + second) / (alpha - 1)

    known = np.array([1.5, 3.0, 10.0])
    curve, largest = rdp_between(known, [laplace(a) for a in known])
    assert largest == 10
    for order in np.linspace(1.05, 10, 60):
        assert curve(np.array([order]))[0] >= laplace(float(order)) * (1 - 1e-12)
    assert math.isinf(curve(np.array([10.5]))[0])


def test_more_orders_never_hurt() -> None:
    few = rdp_epsilon([4, 8], [0.4, 0.8], 1e-5)
    more = rdp_epsilon([2, 4, 8, 16], [0.2, 0.4, 0.8, 1.6], 1e-5)
    assert more <= few <= published_conversions(8, 0.8, 1e-5) * (1 + 1e-12)
    assert rdp_delta([2, 4, 8, 16], [0.2, 0.4, 0.8, 1.6], more) == pytest.approx(1e-5, rel=1e-6)


def test_zero_divergence_costs_nothing() -> None:
    assert rdp_epsilon([2.0], [0.0], 1e-5) == 0
    assert rdp_delta([2.0], [0.0], 0.5) == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-200), (1e-250, 1e-300), (0.0, 1e-5), (1e-9, 1e-160)])
def test_the_largest_rho_is_enough_for_what_is_asked(epsilon, delta):
    """Also where no ρ that doubles hold is: 0 is."""
    assert zcdp_epsilon(zcdp_rho(epsilon, delta), delta) <= epsilon

"""What a ledger tells is on the safe side of the exact value, without slack."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.ledger import amounts
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.units import UNIT, float_down, float_up
from dpcalc.mechanisms.declared import DeclaredDP
from dpcalc.mechanisms.gaussian import Gaussian

mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def test_units_are_the_nearest_doubles_on_their_side() -> None:
    chosen = random.Random(1)
    for _ in range(300):
        units = chosen.randrange(2**60, 2**110)
        assert Fraction(float_down(units)) <= Fraction(units, UNIT) <= Fraction(float_up(units))


def test_what_is_left_of_a_gaussian_budget_is_rounded_down() -> None:
    for multiplier in np.linspace(15.0, 40.0, 25):
        terms = open_terms("b", epsilon=3.0, delta=1e-6, filter="gdp")
        left = amounts.remaining(terms, terms.measure.cost(((Gaussian(noise_multiplier=float(multiplier)), 30),)))
        mu, epsilon = mpf(left["mu"]), mpf(left["epsilon"])
        a = epsilon / mu - mu / 2
        assert mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-a - mu) >= mpf(1e-6)


def test_the_rho_of_a_gaussian_budget_is_rounded_up() -> None:
    for epsilon in np.linspace(0.5, 8, 40):
        told = open_terms("b", epsilon=float(epsilon), delta=1e-6, filter="gdp").guarantee()
        assert told.rho is not None
        assert told.mu is not None
        assert Fraction(told.rho) >= Fraction(told.mu) ** 2 / 2


def test_what_one_order_may_spend_alone_is_rounded_down() -> None:
    """ε + (log δ + log α)/(α - 1) - log(1 - 1/α), at its share of δ."""
    for epsilon in np.linspace(0.5, 8, 25):
        terms = open_terms("b", epsilon=float(epsilon), delta=1e-6, filter="rdp")
        rule = terms.mixture
        for order, weight, room in zip(rule.orders, rule.weights, terms._alone, strict=True):
            a = mpf(float(order))
            share = mpf(rule.delta) * mpf(float(weight))
            exact = mpf(rule.epsilon) + (mpmath.log(share) + mpmath.log(a)) / (a - 1) - mpmath.log(1 - 1 / a)
            assert mpf(room) / UNIT <= max(exact, mpf(0))


def test_the_delta_of_what_was_spent_is_rounded_up() -> None:
    chosen = random.Random(2)
    for _ in range(40):
        terms = open_terms("b", epsilon=3.0, delta=1e-6, filter="rdp")
        own = chosen.uniform(1e-9, 1e-7)
        total = terms.measure.cost(((Gaussian(noise_multiplier=4.0), 3), (DeclaredDP(epsilon=0.01, delta=own), 1)))
        spent = amounts.spent(terms, total)
        assert Fraction(spent["delta"]) >= Fraction(terms.mixture.delta) + Fraction(own)

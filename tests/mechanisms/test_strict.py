"""Costs of many are at least as many times the cost of one, in exact arithmetic: not even the last place is lost."""

from __future__ import annotations

import random
from fractions import Fraction

import mpmath
import numpy as np

from dpcalc.mechanisms.declared import DeclaredGDP
from dpcalc.mechanisms.histogram import Histogram

DRAWS = 300


def test_the_mu_of_repeated_steps() -> None:
    chosen = random.Random(1)
    for _ in range(DRAWS):
        mu, times = chosen.uniform(0.01, 3), chosen.randint(2, 10**6)
        with mpmath.workdps(50):
            exact = mpmath.mpf(mu) * mpmath.sqrt(times)
            assert exact <= DeclaredGDP(mu=mu).repeated(times).mu <= exact * (1 + mpmath.mpf("1e-14"))


def test_the_cells_of_a_histogram() -> None:
    chosen, orders = random.Random(2), np.array([1.5, 2.0, 7.0, 33.0])
    for _ in range(DRAWS):
        histogram = Histogram(sigma=chosen.uniform(0.5, 9), cells=chosen.choice([3, 5, 7, 11, 13]))
        one = histogram.cell.zcdp()
        assert one is not None
        assert Fraction(histogram.zcdp()) >= histogram.cells * Fraction(one)
        for many, single in zip(histogram.rdp(orders), histogram.cell.rdp(orders), strict=True):
            assert Fraction(float(many)) >= histogram.cells * Fraction(float(single))

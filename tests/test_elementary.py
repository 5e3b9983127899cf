"""Elementary functions keep their digits where the plain formulas lose them."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpcalc.elementary import exp_minus_ratio, exp_remainder, two_product


@pytest.mark.parametrize("z", [1e-9, -3e-5, 0.0199, -0.0201, 0.3, -2.0, 40.0])
def test_exp_remainder_keeps_its_digits(z):
    with mpmath.workdps(60):
        exact = mpmath.expm1(mpmath.mpf(z)) - mpmath.mpf(z)
        assert abs(mpmath.mpf(float(exp_remainder(np.array(z)))) / exact - 1) < mpmath.mpf("3e-14")


@pytest.mark.parametrize("sigma", [0.7, 3.1, 1234.5])
def test_a_large_quotient_in_the_exponent_costs_no_digits(sigma):
    """e^{-x²/2σ²} at 5 to 37 standard deviations; a rounded exponent alone would cost up to 700 units of rounding."""
    square, rest = (float(2 * part) for part in two_product(np.asarray(sigma), np.asarray(sigma)))
    for deviations in (5.3, 21.7, 36.9):
        x = float(round(deviations * sigma * 8)) / 8
        found = float(exp_minus_ratio(np.array(x * x), square, rest))
        with mpmath.workdps(60):
            exact = mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(sigma) ** 2))
            assert abs(mpmath.mpf(found) / exact - 1) < 6 * mpmath.mpf(2) ** -53

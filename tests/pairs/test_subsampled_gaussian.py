"""The transform of the subsampled Gaussian against sums and integrals in high precision."""

import math

import mpmath
import numpy as np
import pytest

from dpcalc.pairs.subsampled_gaussian import log_mgf


def binomial_formula(order, noise_multiplier, rate):
    """log E[r^α] at an integer order (Mironov, Talwar, Zhang 2019, §3.3) in 60 digits."""
    mpmath.mp.dps = 60
    s, q = mpmath.mpf(noise_multiplier), mpmath.mpf(rate)
    return mpmath.log(
        sum(
            mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k * mpmath.exp(k * (k - 1) / (2 * s**2))
            for k in range(order + 1)
        )
    )


@pytest.mark.parametrize("noise_multiplier", [0.1, 0.5, 1.1, 30.0, 1e5])
@pytest.mark.parametrize("rate", [1e-7, 0.004, 0.5, 0.999])
@pytest.mark.parametrize("order", [2, 3, 17, 200])
def test_integer_orders_agree_with_the_binomial_formula(noise_multiplier, rate, order):
    exact = float(binomial_formula(order, noise_multiplier, rate))
    assert log_mgf(np.array([order - 1.0]), noise_multiplier, rate)[0] == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("exponent", [0.5, 6.0, 4 + 9j])
def test_real_and_complex_exponents_agree_with_direct_integration(direction, exponent):
    mpmath.mp.dps = 30
    s, q = mpmath.mpf("0.9"), mpmath.mpf("0.02")
    power = 1 + exponent if direction == "remove" else -exponent
    ratio = lambda u: 1 - q + q * mpmath.exp(u / s - 1 / (2 * s**2))  # noqa: E731
    exact = mpmath.log(mpmath.quad(lambda u: mpmath.npdf(u) * ratio(u) ** power, [-14, -4, 0, 4, 8, 12, 22]))
    assert complex(log_mgf(np.array([exponent]), 0.9, 0.02, direction)[0]) == pytest.approx(complex(exact), rel=1e-9)


def test_rate_one_is_the_gaussian():
    exponents = np.array([0.5, 3.0])
    assert log_mgf(exponents, 2.0, 1.0) == pytest.approx(exponents * (1 + exponents) / 8, rel=1e-14)


def test_many_noise_multipliers_at_once_equal_one_at_a_time():
    sigmas = np.array([[0.4, 1.0], [3.0, 50.0]])
    exponents = np.array([0.7, 12.0, 90.0])
    together = log_mgf(exponents, sigmas, 0.01)
    assert together.shape == (2, 2, 3)
    for index in np.ndindex(2, 2):
        assert together[index] == pytest.approx(log_mgf(exponents, float(sigmas[index]), 0.01), rel=1e-9)


def test_far_orders_are_finite_and_convex():
    orders = 1 + np.geomspace(1e-6, 1e5, 60)
    values = log_mgf(orders - 1, 0.7, 0.01)
    slopes = np.diff(values) / np.diff(orders)
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(slopes) >= -1e-6 * np.abs(slopes[1:]))


def test_removing_is_at_least_adding_at_real_orders():
    orders = np.array([0.3, 2.0, 20.0])
    assert np.all(log_mgf(orders, 1.1, 0.01) >= log_mgf(orders, 1.1, 0.01, "add"))
    assert math.isfinite(log_mgf(np.array([2.0]), 1.1, 0.01, "add")[0])

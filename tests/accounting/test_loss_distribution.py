"""Loss distributions: certified intervals hold exact values, closed forms and high-precision sums."""

import math

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.loss_distribution import LossDistribution
from dpcalc.conversions import gdp_delta, gdp_epsilon
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled
from dpcalc.pairs.gaussian import GaussianPair


def poisson(noise_multiplier, rate):
    return PoissonSampled(base=Gaussian(noise_multiplier=noise_multiplier), sampling_rate=rate)


def distribution(pair, count):
    return LossDistribution([(pair, count)], [(pair, count)])


@pytest.mark.parametrize(
    ("noise_multiplier", "rate", "steps", "delta", "exact"),
    [
        (1.1, 256 / 60000, 14063, 1e-5, 2.38168973),
        (0.8, 0.001, 1_000_000, 1e-8, 12.42193),
        (0.5, 0.01, 10_000, 1e-6, 47.51701),
    ],
)
def test_exact_epsilon_of_dp_sgd_is_inside_a_narrow_certificate(noise_multiplier, rate, steps, delta, exact):
    pair = poisson(noise_multiplier, rate).pairs()[0]
    bounds = distribution(pair, steps).epsilon(delta, 1e-3)
    assert bounds.lower <= exact * (1 + 1e-7)
    assert exact * (1 - 1e-7) <= bounds.upper
    assert bounds.upper - bounds.lower <= 1e-3 * exact


@pytest.mark.parametrize(("direction", "exact"), [(0, 4.328259281e-6), (1, 1.227087200e-6)])
def test_exact_delta_of_both_directions_is_inside_the_certificate(direction, exact):
    pair = poisson(1.1, 256 / 60000).pairs()[direction]
    bounds = distribution(pair, 14063).delta(2.5, 1e-2)
    assert bounds.lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= bounds.upper
    assert bounds.upper / bounds.lower < 1.02


@pytest.mark.parametrize("mu", [1e-4, 0.03, 1.0, 12.0])
@pytest.mark.parametrize("count", [1, 7, 1000, 10**8])
@pytest.mark.parametrize("delta", [0.2, 1e-5, 1e-20, 1e-60])
def test_composed_gaussians_agree_with_the_closed_form(mu, count, delta):
    step = mu / math.sqrt(count)
    exact = gdp_epsilon(mu, delta)
    bounds = distribution(GaussianPair(step), count).epsilon(delta, 1e-3)
    assert bounds.lower <= exact * (1 + 1e-9)
    assert bounds.upper >= exact * (1 - 1e-9)
    if step > 1e-6:  # below, the allowance for rounding in 1e8 steps is larger than the answer
        assert bounds.upper <= exact * 1.01 + 1e-9


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.3, 2.0, 30.0])
def test_delta_of_composed_gaussians_agrees_with_the_closed_form(epsilon):
    exact = gdp_delta(1.5, epsilon)
    bounds = distribution(GaussianPair(0.15), 100).delta(epsilon, 1e-2)
    assert bounds.lower <= exact * (1 + 1e-9)
    assert bounds.upper >= exact * (1 - 1e-9)
    assert bounds.upper <= 1.03 * exact


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_single_laplace_agrees_with_its_closed_form(delta):
    pair = Laplace(scale=2.0).pairs()[0]
    exact = 0.5 + 2 * math.log1p(-delta)  # δ = 1 - e^{(ε - Δ/b)/2}
    bounds = distribution(pair, 1).epsilon(delta, 1e-3)
    assert bounds.lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= bounds.upper <= exact * 1.001


def randomized_response_delta(epsilon, count, at):
    """Exact δ of `count` randomised responses (Kairouz, Oh, Viswanath 2015, Theorem 3.3) in 60 digits."""
    mpmath.mp.dps = 60
    e = mpmath.mpf(epsilon)
    total = mpmath.mpf(0)
    for k in range(count + 1):
        loss = (count - 2 * k) * e
        if loss > at:
            p = mpmath.binomial(count, k) * mpmath.exp((count - k) * e) / (1 + mpmath.exp(e)) ** count
            total += p * (1 - mpmath.exp(at - loss))
    return total


@pytest.mark.parametrize(("epsilon", "count", "at"), [(0.1, 50, 1.0), (1.0, 9, 5.5), (0.01, 400, 0.7), (3.0, 2, 5.9)])
def test_composed_randomized_response_agrees_with_the_exact_sum(epsilon, count, at):
    exact = float(randomized_response_delta(epsilon, count, at))
    pair = RandomizedResponse(epsilon=epsilon).pairs()[0]
    bounds = distribution(pair, count).delta(at, 1e-3)
    assert bounds.lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= bounds.upper <= exact * 1.01


def mpmath_delta(noise_multiplier, rate, at):
    """Exact δ of one Poisson-sampled Gaussian step (remove), by its threshold in closed form."""
    mpmath.mp.dps = 50
    s, q = mpmath.mpf(noise_multiplier), mpmath.mpf(rate)
    x = s**2 * mpmath.log((mpmath.exp(at) - 1 + q) / q) + mpmath.mpf(1) / 2
    above = lambda centre: mpmath.erfc((x - centre) / (s * mpmath.sqrt(2))) / 2  # noqa: E731
    return (1 - q) * above(0) + q * above(1) - mpmath.exp(at) * above(0)


@pytest.mark.parametrize("noise_multiplier", [0.1, 0.7, 5.0, 1e3])
@pytest.mark.parametrize("rate", [1e-3, 0.4])
def test_a_single_sampled_step_agrees_with_a_50_digit_value(noise_multiplier, rate):
    at = float(min(3.0, math.log1p(rate * math.expm1(min(40.0, 3 / noise_multiplier)))))
    exact = float(mpmath_delta(noise_multiplier, rate, at))
    bounds = distribution(poisson(noise_multiplier, rate).pairs()[0], 1).delta(at, 1e-2)
    assert bounds.lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= bounds.upper <= exact * 1.05


@pytest.mark.parametrize("noise_multiplier", [0.1, 0.7, 5.0, 1e3])
def test_a_single_step_of_a_tiny_rate_is_bracketed(noise_multiplier):
    at = float(min(3.0, math.log1p(1e-7 * math.expm1(min(40.0, 3 / noise_multiplier)))))
    exact = float(mpmath_delta(noise_multiplier, 1e-7, at))
    bounds = distribution(poisson(noise_multiplier, 1e-7).pairs()[0], 1).delta(at, 1e-2)
    assert bounds.lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= bounds.upper


def test_mass_at_infinity_is_a_floor_of_delta():
    from dpcalc.pairs.points import pure_dp_pair

    bounds = distribution(pure_dp_pair(0.1, 1e-4), 3)
    assert bounds.epsilon(2.9e-4, 1e-3).upper == np.inf
    exact = -math.expm1(3 * math.log1p(-1e-4))
    assert bounds.delta(0.31, 1e-3).lower <= exact * (1 + 1e-12)
    assert bounds.delta(0.31, 1e-3).upper >= exact * (1 - 1e-12)

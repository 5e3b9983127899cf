"""calibrate: the answer meets the target, and a nudge the other way does not."""

import pytest

from dpcalc.accounting.calibrate import calibrate
from dpcalc.accounting.compose import compose
from dpcalc.conversions import gdp_epsilon
from dpcalc.errors import InputError
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled


def poisson(noise_multiplier, rate):
    return PoissonSampled(base=Gaussian(noise_multiplier=noise_multiplier), sampling_rate=rate)


def test_noise_for_a_gaussian_agrees_with_the_closed_form():
    found = calibrate(
        lambda s: [(Gaussian(noise_multiplier=s), 10)], epsilon=2, delta=1e-5, increasing=False, low=0.01, high=1e6
    )
    assert gdp_epsilon(10**0.5 / found.value, 1e-5) <= 2
    assert gdp_epsilon(10**0.5 / (found.value / 1.001), 1e-5) > 2


@pytest.mark.parametrize(
    ("build", "increasing", "low", "high", "integer"),
    [
        (lambda s: [(poisson(s, 0.01), 5000)], False, 1e-2, 1e6, False),
        (lambda q: [(poisson(1.0, q), 500)], True, 1e-7, 1.0, False),
        (lambda n: [(poisson(1.0, 0.01), int(n))], True, 1, 1e9, True),
        (lambda b: [(Laplace(scale=b), 10)], False, 1e-2, 1e6, False),
    ],
)
def test_the_answer_meets_the_target_and_a_nudge_exceeds_it(build, increasing, low, high, integer):
    found = calibrate(build, epsilon=2, delta=1e-5, increasing=increasing, low=low, high=high, integer=integer)
    assert compose(build(found.value), delta=1e-5).epsilon <= 2
    assert compose(build(found.too_much), delta=1e-5).epsilon > 2
    assert found.too_much == pytest.approx(found.value + 1 if integer else found.value, rel=1.1e-3)


def test_no_solution_says_why():
    with pytest.raises(InputError, match="even at the most private value 2"):
        calibrate(
            lambda s: [(Gaussian(noise_multiplier=s), 1)], epsilon=0.1, delta=1e-5, increasing=False, low=1, high=2
        )
    with pytest.raises(InputError, match="stays below"):
        calibrate(
            lambda n: [(Gaussian(noise_multiplier=1e4), int(n))],
            epsilon=1.0,
            delta=1e-5,
            increasing=True,
            low=1,
            high=10,
            integer=True,
        )


def test_a_rough_estimate_does_not_leave_the_solution_too_private() -> None:
    """With Laplace in the list the estimate is rough; the answer must still be tight to a nudge."""

    def build(noise_multiplier):
        return [(Laplace(scale=50.0), 12), (poisson(noise_multiplier, 512 / 100_000), 1954)]

    found = calibrate(build, epsilon=2.0, delta=1e-5, increasing=False, low=1e-2, high=1e4)
    assert found.guarantee.epsilon is not None
    assert found.guarantee.epsilon <= 2.0 < found.too_much_epsilon
    assert found.too_much == pytest.approx(found.value / 1.001)


@pytest.mark.parametrize(
    ("build", "epsilon", "delta", "increasing"),
    [
        (lambda value: [(Exponential(epsilon=value), 1)], 1e12, 0.999, True),
        (lambda value: [(RandomizedResponse(epsilon=value), 1)], 3e11, 0.99, True),
    ],
)
def test_a_target_that_is_never_passed_ends_the_search(build, epsilon, delta, increasing):
    """The estimate may say otherwise: what is certified stays within the target up to the end of the range."""
    with pytest.raises(InputError, match="no solution"):
        calibrate(build, epsilon=epsilon, delta=delta, increasing=increasing, low=1e-6, high=epsilon / 2)

"""Losses beyond the range of doubles: an answer from another accountant, never a small number."""

import math

import pytest

from dpcalc.accounting.compose import compose
from dpcalc.conversions import gdp_epsilon
from dpcalc.errors import InputError
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled


@pytest.mark.parametrize(
    ("mechanism", "count", "least"),
    [
        # A pure ε-DP mechanism with two outcomes has δ(x) = (e^ε - e^x)/(1 + e^ε): ε - 1e-5 at δ = 1e-5.
        (DeclaredDP(epsilon=800.0), 1, 800 - 1.1e-5),
        (DeclaredDP(epsilon=1e300), 1, 1e300 * (1 - 1e-9)),
        (Laplace(scale=1e-300), 1, 1e300 * (1 - 1e-9)),
        (DiscreteLaplace(scale=1e-3, sensitivity=1), 1, 1000 - 1.1e-5),
        (DiscreteLaplace(scale=1e-3, sensitivity=1), 5, 4999.0),
        (DeclaredZCDP(rho=1e6), 1, gdp_epsilon(math.sqrt(2e6), 1e-5)),
        (DeclaredZCDP(rho=100.0), 1, gdp_epsilon(math.sqrt(200), 1e-5)),
        (DeclaredRDP(orders=(2.0,), epsilons=(1e300,)), 1, 1e299),
        (DiscreteGaussian(sigma=1e-5, sensitivity=1), 1, 4.9e9),
        (PoissonSampled(base=Gaussian(noise_multiplier=0.01), sampling_rate=0.5), 3, gdp_epsilon(100, 1e-4)),
        (Exponential(epsilon=2000.0), 1, 1999.0),
    ],
)
def test_a_huge_loss_is_never_answered_with_a_small_epsilon(mechanism, count, least) -> None:
    guarantee = compose([(mechanism, count)], delta=1e-5)
    assert guarantee.epsilon >= least
    assert guarantee.epsilon_lower is None or guarantee.epsilon_lower <= guarantee.epsilon


def test_a_declared_failure_above_delta_is_infinite() -> None:
    assert math.isinf(compose([(DeclaredDP(epsilon=1.0, delta=0.1), 1)], delta=1e-5).epsilon)


def test_noise_on_the_integers_that_does_not_fit_into_memory_is_refused() -> None:
    with pytest.raises(InputError, match="sigma=1e"):
        DiscreteGaussian(sigma=1e9)
    with pytest.raises(InputError, match="sensitivity"):
        DiscreteLaplace(scale=1.0, sensitivity=10**9)


def overflow(*_: object, **__: object) -> None:
    raise OverflowError


def test_a_composed_loss_that_overflows_is_left_to_another_accountant(monkeypatch) -> None:
    monkeypatch.setattr("dpcalc.accounting.engines.by_laws", overflow)
    guarantee = compose([(PoissonSampled(base=Gaussian(noise_multiplier=1.1), sampling_rate=0.01), 1000)], delta=1e-5)
    assert guarantee.accountant == "rdp"
    assert guarantee.epsilon_lower is None


def test_a_replaced_record_costs_at_least_a_removed_one_where_losses_are_huge() -> None:
    """Replacing a record by one that contributes nothing is removing it."""
    base, rate, delta = Gaussian(noise_multiplier=0.19382591372369137), 0.022847436783573694, 2.532140562696461e-29
    replaced = compose([(PoissonSampled(base=base, sampling_rate=rate, adjacency="replace-one"), 238339)], delta=delta)
    removed = compose([(PoissonSampled(base=base, sampling_rate=rate), 238339)], delta=delta)
    assert replaced.epsilon >= (removed.epsilon_lower or 0.0)


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (Gaussian(noise_multiplier=1.0), 1000.0),
        (PoissonSampled(base=Gaussian(noise_multiplier=57_100.0), sampling_rate=0.027), 0.866),
    ],
)
def test_a_delta_too_small_for_doubles_is_not_called_zero(mechanism, epsilon) -> None:
    assert compose([(mechanism, 1)], epsilon=epsilon).delta > 0
    assert compose([(mechanism, 1)], epsilon=epsilon, accountant="rdp").delta > 0


def test_delta_is_zero_where_no_loss_can_exceed_epsilon() -> None:
    assert compose([(Exponential(epsilon=0.5), 3)], epsilon=1.51).delta == 0
    assert compose([(Exponential(epsilon=0.5), 3)], epsilon=1.4).delta > 0


@pytest.mark.parametrize(
    ("runs", "exact", "gap"),
    [
        (10**9, 40.7996, 6e-2),
        (10**10, 113.2569, 0.4),
        (10**11, 493.813, 1.3),
    ],  # rounding of 10¹¹ steps: no lower bound
    ids=lambda value: f"{value:g}",
)
def test_rare_jumps_keep_the_drift_of_all_other_runs(runs, exact, gap) -> None:
    """Compound Poisson: jumps of a σ = .1 Gaussian at rate q on a drift of -q; exact by a fine transform of that."""
    mechanism = PoissonSampled(base=Gaussian(noise_multiplier=0.1), sampling_rate=1e-10)
    guarantee = compose([(mechanism, runs)], delta=1e-2, tolerance=1e-2)
    assert guarantee.epsilon_lower <= exact * (1 + 1e-6)
    assert guarantee.epsilon >= exact * (1 - 1e-6)
    assert guarantee.epsilon - guarantee.epsilon_lower <= gap * exact


@pytest.mark.parametrize(
    ("mechanism", "largest", "delta", "tolerance"),
    [
        (RandomizedResponse(epsilon=0.6346742375551122), 0.6346742375551122, 1.84e-58, 0.07),
        (Laplace(scale=1.2775753014546027), 1 / 1.2775753014546027, 1.23e-48, 0.167),
        (RandomizedResponse(epsilon=1.0), 1.0, 1e-30, 1e-4),
    ],
)
def test_no_lower_bound_exceeds_the_largest_loss(mechanism, largest, delta, tolerance) -> None:
    guarantee = compose([(mechanism, 1)], delta=delta, tolerance=tolerance)
    assert guarantee.epsilon_lower <= largest <= guarantee.epsilon * (1 + 1e-15)


def test_a_loss_that_is_nearly_certain_is_never_below_its_sum() -> None:
    guarantee = compose([(RandomizedResponse(epsilon=5.562590039710395), 100)], delta=4.75e-44, tolerance=1.3e-4)
    assert (guarantee.epsilon_lower or 0.0) <= 100 * 5.562590039710395 <= guarantee.epsilon <= 556.26


@pytest.mark.parametrize("epsilon", [2.0, 8.0, 20.0])
def test_a_direction_without_so_large_losses_takes_nothing_from_the_other(epsilon) -> None:
    """Adding a record loses at most -3·log(1 - q): its δ is 0, which grids for both directions could not tell."""
    steps, rate = 3, 0.01
    mechanism = PoissonSampled(base=Gaussian(noise_multiplier=1.0), sampling_rate=rate)
    guarantee = compose([(mechanism, steps)], epsilon=epsilon)
    assert -steps * math.log1p(-rate) < epsilon
    assert guarantee.delta - guarantee.delta_lower <= 1e-3 * guarantee.delta


def test_what_is_surely_lost_is_not_forgotten_where_no_finite_loss_is_so_large() -> None:
    """(ε,δ)-DP thrice: above 3ε nothing is left but what is lost, in either direction: 1 - (1-δ)³."""
    guarantee = compose([(DeclaredDP(epsilon=0.5, delta=1e-3), 3)], epsilon=1.6)
    exact = 1 - (1 - 1e-3) ** 3
    assert exact * (1 - 1e-12) <= guarantee.delta <= exact * (1 + 2e-3)


def test_a_law_without_a_mass_in_range_leaves_the_question_to_others() -> None:
    """A hundred releases of large RDP beside others, asked far below their ε, ended with a fault of the program."""
    parts = [
        (DeclaredRDP(orders=(2.0, 8.0, 32.0), epsilons=(0.7738, 2.661, 12.23)), 100),
        (PoissonSampled(base=Gaussian(noise_multiplier=3.824), sampling_rate=0.02802), 146),
        (PoissonSampled(base=DeclaredZCDP(rho=0.02406), sampling_rate=0.005334), 1),
    ]
    assert compose(parts, epsilon=7.0).delta == 1.0

"""Random allocation and truncated Poisson batches: published intervals, limits, enumeration and traps."""

import importlib.util
import math
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from dpcalc.accounting.compose import compose
from dpcalc.errors import IncompatibleError, InputError
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.declared import DeclaredZCDP
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled
from dpcalc.mechanisms.truncated import TruncatedPoisson, binomial_tail

_SPEC = importlib.util.spec_from_file_location(
    "exact_pairs", Path(__file__).parent.parent / "accounting" / "exact_pairs.py"
)
exact_pairs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(exact_pairs)

# σ, t, epochs, δ, and an interval that was certified by other code.
INTERVALS = [
    (1, 2, 1, 1e-5, 3.6973835, 3.6973887),
    (1, 10, 1, 1e-5, 2.1888368, 2.1888716),
    (1, 100, 1, 1e-5, 0.6209308, 0.6209498),
    (1, 1000, 1, 1e-5, 0.1388349, 0.1388608),
    (1, 100000, 1, 1e-6, 0.01302753, 0.01302991),
    (0.5, 100, 1, 1e-5, 5.396571, 5.396649),
    (0.3, 10, 1, 1e-5, 16.828176, 16.828197),
    (0.3, 1000, 1, 1e-6, 13.873467, 13.873481),
    (0.3, 100000, 1, 1e-15, 20.003148, 20.003175),
    (2, 50, 1, 3e-3, 0.1049044, 0.1049081),
    (5, 1000, 1, 1e-5, 0.01649294, 0.01649383),
    (100, 1000, 1, 1e-5, 4.637664e-4, 4.637905e-4),
    (1, 1000, 10, 1e-6, 0.5400237, 0.5400839),
    (0.8, 234, 60, 1e-5, 4.425605, 4.426060),
    (1.1, 234, 60, 1e-5, 2.340399, 2.340691),
    (2, 100, 1000, 1e-5, 8.106422, 8.107477),
    (20, 10, 100, 1e-8, 0.7977185, 0.7977523),
    (1, 20, 5, 1e-2, 1.321787, 1.321842),
    (0.8, 100, 10, 5e-3, 1.429903, 1.429978),
    (1, 10000, 1000, 1e-6, 1.836094, 1.837333),
]


def allocated(sigma, steps, **others):
    return RandomlyAllocated(base=Gaussian(noise_multiplier=sigma), steps=steps, **others)


@pytest.mark.parametrize("case", INTERVALS)
def test_intervals_meet_those_of_other_code(case):
    sigma, steps, epochs, delta, low, high = case
    found = compose([(allocated(sigma, steps), epochs)], delta=delta)
    assert found.epsilon_lower <= high
    assert found.epsilon >= low
    assert found.epsilon - found.epsilon_lower <= 1e-3 * found.epsilon


@pytest.mark.parametrize(("sigma", "steps", "epochs", "delta"), [(0.5, 10, 1000, 1e-5), (100, 100_000, 1, 1e-15)])
def test_hard_cases_are_narrow_too(sigma, steps, epochs, delta):
    """Losses in the hundreds, and ε far below the noise of a step."""
    found = compose([(allocated(sigma, steps), epochs)], delta=delta)
    assert found.epsilon - found.epsilon_lower <= 1.1e-3 * found.epsilon < math.inf


def test_one_step_or_all_of_them_is_the_gaussian():
    alone = compose([(Gaussian(noise_multiplier=2.0), 12)], delta=1e-6)
    for mechanism, count in ((allocated(2.0, 1), 12), (allocated(2.0, 4, selected=4), 3)):
        found = compose([(mechanism, count)], delta=1e-6)
        assert found.accountant == "gdp"
        assert found.epsilon == pytest.approx(alone.epsilon, rel=1e-12)


def test_all_steps_of_another_mechanism_are_that_mechanism():
    alone = compose([(Laplace(scale=5.0, sensitivity=1.0), 6)], delta=1e-4)
    found = compose([(RandomlyAllocated(base=Laplace(scale=5.0, sensitivity=1.0), steps=3, selected=3), 2)], delta=1e-4)
    assert found.epsilon_lower <= alone.epsilon
    assert alone.epsilon_lower <= found.epsilon
    assert found.epsilon_lower > 0.99 * found.epsilon


def test_more_steps_and_more_noise_cost_less_and_epochs_cost_more():
    def upper(sigma, steps, epochs):
        return compose([(allocated(sigma, steps), epochs)], delta=1e-5, tolerance=1e-2).epsilon

    assert upper(1.0, 20, 3) > upper(1.0, 40, 3)
    assert upper(1.0, 20, 3) > upper(1.3, 20, 3)
    assert upper(1.0, 20, 3) < upper(1.0, 20, 6)


def random_coin():
    return RandomizedResponse(epsilon=1.5), 1 / (1 + math.exp(-1.5))


@pytest.mark.parametrize(("steps", "selected"), [(2, 1), (5, 1), (4, 2), (5, 2)])
def test_enumeration_of_randomised_response(steps, selected):
    """Every outcome of an epoch, with the record in each subset of steps: X = e_k(Z)/C(t, k)."""
    base, likely = random_coin()
    ratios = {0: (1 - likely) / likely, 1: likely / (1 - likely)}
    weights = {0: likely, 1: 1 - likely}
    chosen = list(combinations(range(steps), selected))
    mechanism = RandomlyAllocated(base=base, steps=steps, selected=selected)
    for epsilon in (0.0, 0.2, 0.6):
        remove = add = 0.0
        for outcome in product((0, 1), repeat=steps):
            q = math.prod(weights[each] for each in outcome)
            x = sum(math.prod(ratios[outcome[i]] for i in subset) for subset in chosen) / len(chosen)
            remove += q * max(x - math.exp(epsilon), 0)
            add += q * max(1 - math.exp(epsilon) * x, 0)
        truth = max(remove, add)
        found = compose([(mechanism, 1)], epsilon=epsilon)
        assert found.delta >= truth * (1 - 1e-12)
        if selected == 1:
            assert found.delta_lower <= truth * (1 + 1e-12)
            assert found.delta <= truth * (1 + 2e-3) + 1e-12
        else:
            assert found.delta_lower is None


def test_several_of_the_steps_have_no_lower_bound():
    found = compose([(allocated(1.0, 10, selected=3), 1)], delta=1e-5)
    assert found.epsilon_lower is None
    four_three = compose([(allocated(1.0, 3), 2), (allocated(1.0, 4), 1)], delta=1e-5)
    assert found.epsilon == pytest.approx(four_three.epsilon, rel=2e-3)


def test_replace_one_is_a_removal_and_an_addition():
    """At most the group of two, at least what a removal costs."""
    one = compose([(allocated(1.0, 20), 1)], delta=1e-5)
    both = compose([(allocated(1.0, 20, adjacency="replace-one"), 1)], delta=1e-5)
    assert both.adjacency == "replace-one"
    assert one.epsilon_lower < both.epsilon
    # δ(2ε) ≤ (1 + e^ε)δ′ at the ε of δ′ = δ/(1 + e^ε), solved roughly.
    again = compose([(allocated(1.0, 20), 1)], delta=1e-5 / (1 + math.exp(1.7)))
    assert both.epsilon <= 2.01 * max(again.epsilon, 1.7)
    with pytest.raises(IncompatibleError):
        allocated(1.0, 20, selected=2, adjacency="replace-one")


def test_what_cannot_be_allocated_is_refused():
    with pytest.raises(InputError):
        allocated(1.0, 3, selected=4)
    with pytest.raises(IncompatibleError):
        RandomlyAllocated(base=PoissonSampled(base=Gaussian(noise_multiplier=1.0), sampling_rate=0.1), steps=3)
    with pytest.raises(IncompatibleError):
        RandomlyAllocated(base=Gaussian(noise_multiplier=1.0, adjacency="replace-one"), steps=3)


# Truncated Poisson ----------------------------------------------------------------------------------------------------


def truncated(sigma, rate, size, largest):
    return TruncatedPoisson(
        base=Gaussian(noise_multiplier=sigma), sampling_rate=rate, dataset_size=size, largest_batch=largest
    )


@pytest.mark.parametrize("least", [1, 2, 5, 9, 15, 29, 30, 31])
@pytest.mark.parametrize("rate", [Fraction(1, 8), Fraction(1, 2), Fraction(1023, 1024)])
def test_binomial_tails_are_bracketed(rate, least):
    exact = sum((math.comb(30, k) * rate**k * (1 - rate) ** (30 - k) for k in range(least, 31)), Fraction(0))
    low, high = binomial_tail(30, float(rate), least)
    assert Fraction(low) <= exact <= Fraction(high)
    assert high - low <= 1e-11 * high + 1e-290


def test_tails_of_large_data_sets_are_bracketed():
    """P(Bin(60000, 256/60000) ≥ 320), from sums in 50 digits."""
    import mpmath

    with mpmath.workdps(50):
        q = mpmath.mpf(256 / 60000)
        exact = mpmath.betainc(320, 60000 - 320 + 1, 0, q, regularized=True)
        low, high = binomial_tail(60000, 256 / 60000, 320)
        assert mpmath.mpf(low) <= exact <= mpmath.mpf(high)
        assert high <= low * (1 + 1e-7)


def test_an_upper_bound_on_the_overflow_alone_is_unsound():
    """q = .8, σ = 1, B = 1, one other record of the opposite gradient: δ_add(.5) = .00807, and .00083 with τ = 1."""
    q, t = 0.8, math.exp(0.5)

    def density(x, mean):
        return math.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)

    def without(x):
        return (1 - q) * density(x, 0) + q * density(x, -1)

    def with_record(x):  # alone, not at all, or one of the two that were sampled
        alone = (1 - q) * ((1 - q) * density(x, 0) + q * density(x, 1))
        return alone + q * ((1 - q) * density(x, -1) + q * (density(x, -1) + density(x, 1)) / 2)

    exact = quad(lambda x: max(without(x) - t * with_record(x), 0), -12, 12, limit=500)[0]
    assert exact == pytest.approx(0.00807, abs=2e-5)
    mechanism = truncated(1.0, q, 2, 1)
    assert mechanism.overflow == pytest.approx((q, 1 - (1 - q) ** 2))
    assert compose([(mechanism, 1)], epsilon=0.5).delta >= exact
    replaced = PoissonSampled(base=Gaussian(noise_multiplier=0.5), sampling_rate=q / 2)
    low, high = (replaced.pairs()[1].masses(np.array([0.5]))[k][1] for k in (0, 1))
    assert low - t * high < 0.11 * exact  # what 1 for τ would have said


def test_batches_that_are_never_cut_are_poisson_batches():
    plain = PoissonSampled(base=Gaussian(noise_multiplier=1.0), sampling_rate=0.01)
    expected = compose([(plain, 500)], delta=1e-5)
    for largest in (100, 101, 1000):
        found = compose([(truncated(1.0, 0.01, 100, largest), 500)], delta=1e-5)
        assert found.epsilon == pytest.approx(expected.epsilon, rel=2e-3)
    assert found.epsilon_lower is not None


def test_the_more_is_cut_the_more_it_costs_up_to_replacing():
    uppers = [compose([(truncated(1.0, 0.1, 1000, largest), 20)], delta=1e-5).epsilon for largest in (160, 120, 90)]
    assert uppers == sorted(uppers)


@pytest.mark.parametrize("largest", [1, 2, 4, 6])
@pytest.mark.parametrize("rate", [Fraction(1, 8), Fraction(1, 2), Fraction(7, 8), Fraction(1)])
def test_the_rate_at_which_a_record_stays_is_that_of_all_draws(rate, largest):
    """Every batch of six records, and of those that are too large a uniform part."""
    exact = Fraction(0)
    for batch in product((0, 1), repeat=6):
        chance = math.prod((rate if drawn else 1 - rate for drawn in batch), start=Fraction(1))
        exact += chance * batch[0] * min(Fraction(1), Fraction(largest, max(sum(batch), 1)))
    found = Fraction(truncated(1.0, float(rate), 6, largest)._kept)
    assert exact * (1 - Fraction(1e-11)) <= found <= exact


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_lower_bounds_of_truncated_batches_are_attained(noise):
    """Six records of which five contribute nothing, at most two kept: the half-line where the mixture is above e^ε."""
    rate, t = 0.4, math.exp(0.2)
    kept = sum(math.comb(6, m) * rate**m * (1 - rate) ** (6 - m) * min(m, 2) for m in range(7)) / 6
    start = 0.5 + noise**2 * math.log((t - 1 + kept) / kept)
    exact = float(kept * ndtr((1 - start) / noise) - (t - 1 + kept) * ndtr(-start / noise))
    found = compose([(truncated(noise, rate, 6, 2), 1)], epsilon=0.2)
    assert 0.999 * exact <= found.delta_lower <= exact * (1 + 1e-9)
    assert found.delta_lower <= found.delta


def test_the_last_of_truncated_batches_keeps_the_record_as_rarely_as_the_others():
    """A declared release that may be chosen last: at the rate at which the record stays, and not at that of Poisson."""
    base = DeclaredZCDP(rho=0.5)
    cut = TruncatedPoisson(base=base, sampling_rate=0.4, dataset_size=6, largest_batch=2)
    kept = sum(math.comb(6, m) * 0.4**m * 0.6 ** (6 - m) * min(m, 2) for m in range(7)) / 6
    found = compose([(cut, 1)], epsilon=0.5).delta_lower
    assert found <= compose([(PoissonSampled(base=base, sampling_rate=kept), 1)], epsilon=0.5).delta
    assert found <= 0.95 * compose([(PoissonSampled(base=base, sampling_rate=0.4), 1)], epsilon=0.5).delta_lower


def test_batches_that_are_rarely_cut_are_known_from_both_sides():
    found = compose([(truncated(1.0, 0.1, 1000, 150), 20)], delta=1e-5)
    assert found.epsilon_lower >= (1 - 1e-3) * found.epsilon

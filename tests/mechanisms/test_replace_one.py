"""Replace-one from add-remove: every mechanism's own conversion, against a removal and an addition chained."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.errors import IncompatibleError
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.mechanisms.staircase import Staircase
from dpcalc.mechanisms.truncated import TruncatedPoisson
from dpcalc.pairs.profile import group_of_two

CLOSED_FORMS = [
    (Gaussian(noise_multiplier=1.7), lambda m: m.noise_multiplier, 0.85),
    (Laplace(scale=2.5, sensitivity=1.5), lambda m: m.epsilon, 1.2),
    (DiscreteGaussian(sigma=2.3, sensitivity=3), lambda m: m.sensitivity, 6),
    (DiscreteLaplace(scale=1.9, sensitivity=2), lambda m: m.sensitivity, 4),
    (RandomizedResponse(epsilon=0.45), lambda m: m.epsilon, 0.9),
    (Exponential(epsilon=0.35), lambda m: m.epsilon, 0.7),
    (Staircase(epsilon=0.65), lambda m: m.epsilon, 1.3),
    (DeclaredDP(epsilon=0.55, delta=0.0), lambda m: m.epsilon, 1.1),
    (DeclaredDP(epsilon=0.5, delta=1e-4), lambda m: m.delta, 1e-4 * (1 + math.exp(0.5))),
    (DeclaredGDP(mu=0.65), lambda m: m.mu, 1.3),
    (DeclaredZCDP(rho=0.15), lambda m: m.rho, 0.6),
    (OncePerEpoch(base=Gaussian(noise_multiplier=1.9)), lambda m: m.base.noise_multiplier, 0.95),
]


def delta(pair, epsilon):
    a, b = pair.masses(np.array([epsilon]))
    return float(a[1] - math.exp(epsilon) * b[1])


@pytest.mark.parametrize(
    ("mechanism", "parameter", "expected"), CLOSED_FORMS, ids=lambda value: getattr(value, "type", "")
)
def test_the_conversion_has_the_parameter_of_a_group_of_two(mechanism, parameter, expected):
    replaced = mechanism.as_replace_one()
    assert replaced.adjacency == "replace-one"
    assert parameter(replaced) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("mechanism", "parameter", "expected"), CLOSED_FORMS, ids=lambda value: getattr(value, "type", "")
)
def test_the_conversion_dominates_a_removal_and_what_it_says_is_attained(mechanism, parameter, expected):
    replaced = mechanism.as_replace_one()
    attained = replaced.attained_pairs()
    assert attained is not None
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        for k in (0, 1):
            above = delta(replaced.pairs()[k], epsilon) * (1 + 1e-9) + 1e-13
            assert above >= delta(mechanism.attained_pairs()[k], epsilon)
            assert above >= delta(attained[k], epsilon)


def test_two_links_of_a_pure_mechanism_do_not_attain_twice_its_epsilon():
    """Geometric noise has three answers: its total variation at two steps is 1 - e^-ε, and tanh ε is more."""
    mechanism = RandomizedResponse(epsilon=0.8).as_replace_one()
    attained = mechanism.attained_pairs()
    assert delta(attained[0], 0.0) <= 1 - math.exp(-0.8)
    assert delta(mechanism.pairs()[0], 0.0) >= 1 - math.exp(-0.8)


def test_what_has_no_proved_conversion_is_refused():
    sampled = PoissonSampled(base=Gaussian(noise_multiplier=1.0), sampling_rate=0.1)
    for mechanism in (DeclaredRDP(orders=(4,), epsilons=(0.2,)), sampled):
        with pytest.raises(IncompatibleError, match="no proved conversion"):
            mechanism.as_replace_one()


def opposed_delta(sigma, rate, epsilon):
    """H_ε((1-q)N(0) + qN(1) ‖ (1-q)N(0) + qN(-1)) in 30 digits: the ratio is monotone, so a threshold is best."""
    with mpmath.workdps(30):
        s, q, t = mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.exp(mpmath.mpf(epsilon))
        mixed = lambda x: 1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s))  # noqa: E731
        ratio = lambda x: mixed(x) / mixed(-x)  # noqa: E731
        x = mpmath.mpf(0)
        if epsilon > 0:
            low, high = mpmath.mpf(0), mpmath.mpf(1)
            while ratio(high) < t:
                high *= 2
            for _ in range(90):
                middle = (low + high) / 2
                low, high = (middle, high) if ratio(middle) < t else (low, middle)
            x = high
        above = lambda centre: mpmath.erfc((x - centre) / (s * mpmath.sqrt(2))) / 2  # noqa: E731
        return (1 - q) * above(0) + q * above(1) - t * ((1 - q) * above(0) + q * above(-1))


@pytest.mark.parametrize(("sigma", "rate"), [(2.0, 0.5), (1.1, 0.05), (0.7, 0.2), (5.0, 0.9)])
def test_poisson_replace_one_is_a_record_turned_into_its_opposite(sigma, rate):
    mechanism = PoissonSampled(base=Gaussian(noise_multiplier=sigma), sampling_rate=rate, adjacency="replace-one")
    upper, lower = mechanism.pairs()[0], mechanism.attained_pairs()[0]
    for epsilon in (0.0, 0.05, 0.3, 1.0, 2.0):
        exact = float(opposed_delta(sigma, rate, epsilon))
        if exact > 1e-12:
            assert delta(lower, epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-15)
            assert delta(upper, epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-15)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


NOISE = {
    "gaussian": (Gaussian(noise_multiplier=1.4), lambda x: np.exp(-((x / 1.4) ** 2) / 2)),
    "laplace": (Laplace(scale=0.9, sensitivity=1.0), lambda x: np.exp(-np.abs(x) / 0.9)),
    "discrete-gaussian": (DiscreteGaussian(sigma=2.1, sensitivity=3), lambda x: np.exp(-((x / 2.1) ** 2) / 2)),
    "discrete-laplace": (DiscreteLaplace(scale=1.7, sensitivity=3), lambda x: np.exp(-np.abs(x) / 1.7)),
}


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("rate", [0.03, 0.4, 0.9])
def test_no_replacement_of_a_sampled_record_is_worse_than_by_its_opposite(kind, rate):
    """Shifts a and b of up to the sensitivity, by sums over the line; the opposite ends attain the bound."""
    base, noise = NOISE[kind]
    mechanism = PoissonSampled(base=base, sampling_rate=rate, adjacency="replace-one")
    upper, lower = mechanism.pairs()[0], mechanism.attained_pairs()[0]
    discrete = kind.startswith("discrete")
    step, reach = (1.0, 3) if discrete else (1 / 512, 1)
    x = np.arange(-120.0, 120.0 + step / 2, step) if discrete else np.arange(-40.0, 40.0, step) + step / 2
    moved = {shift: noise(x - shift) / noise(x).sum() for shift in reach * np.array([-1, -2 / 3, 0, 1 / 3, 1])}
    for epsilon in (0.0, 0.1, 0.7, 1.5):
        found = {
            (a, b): hockey_stick(
                (1 - rate) * moved[0.0] + rate * moved[a], (1 - rate) * moved[0.0] + rate * moved[b], epsilon
            )
            for a in moved
            for b in moved
        }
        worst = max(found.values())
        slack = 1e-12 if discrete else 1e-5
        assert found[(-reach, reach)] == pytest.approx(worst, rel=1e-9, abs=1e-15)
        assert delta(upper, epsilon) == pytest.approx(worst, rel=slack, abs=1e-12)
        assert delta(lower, epsilon) == pytest.approx(worst, rel=slack, abs=1e-12)


@pytest.mark.parametrize("angle", [0.3, 1.5, 2.6])
def test_gradients_that_are_not_on_a_line_are_not_worse(angle):
    """The plane: a record's gradient and its replacement's at an angle, by a sum over squares."""
    sigma, rate = 1.2, 0.35
    upper = PoissonSampled(base=Gaussian(noise_multiplier=sigma), sampling_rate=rate, adjacency="replace-one").pairs()[
        0
    ]
    x = np.linspace(-8, 9, 900)
    gaussian = lambda a, b: np.exp(-((x[:, None] - a) ** 2 + (x[None] - b) ** 2) / (2 * sigma**2))  # noqa: E731
    unit = gaussian(0, 0).sum()
    still, first, second = (
        density / unit for density in (gaussian(0, 0), gaussian(1, 0), gaussian(math.cos(angle), math.sin(angle)))
    )
    for epsilon in (0.0, 0.2, 0.8):
        found = hockey_stick((1 - rate) * still + rate * first, (1 - rate) * still + rate * second, epsilon)
        assert found <= delta(upper, epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_fixed_size_add_remove_is_attained_where_all_others_are_opposed(rate):
    """n records at -C and one at C: the sum of a batch is -bC, or (2 - b)C if the one is in it."""
    sigma = 1.3
    mechanism = FixedSizeSampled(base=Gaussian(noise_multiplier=sigma), sampling_rate=rate)
    for epsilon in (0.01, 0.2, 0.9):
        t, mu = math.exp(epsilon), 2 / sigma
        x = (math.log((t - 1 + rate) / rate) + mu * mu / 2) / mu
        above = lambda centre: math.erfc((x - centre) / math.sqrt(2)) / 2  # noqa: B023, E731
        exact = (1 - rate) * above(0) + rate * above(mu) - t * above(0)
        assert delta(mechanism.pairs()[0], epsilon) == pytest.approx(exact, rel=1e-9)
        assert mechanism.attained_pairs()[0] == mechanism.pairs()[0]


def test_fixed_size_replace_one_attains_one_side_at_a_time():
    """Randomised response ε = .8 at rate .4, twice: the symmetrised pair has more δ than two one-sided steps."""
    base = RandomizedResponse(epsilon=0.8, adjacency="replace-one")
    mechanism = FixedSizeSampled(base=base, sampling_rate=0.4)
    remove, add = mechanism.attained_pairs()
    assert remove == base.pairs()[0].mixed(0.4)
    assert add == remove.reversed()

    def twice(pair):
        points = [(loss, p) for loss, p in zip(pair.losses, pair.p, strict=True)]
        return sum(p * r * max(0.0, -math.expm1(0.1 - loss - other)) for loss, p in points for other, r in points)

    p = 1 / (1 + math.exp(-0.8))
    up = math.log(0.6 + 0.4 * math.exp(0.8))
    q_up = 1 - p
    p_up = q_up * math.exp(up)
    symmetric = [(up, p_up), (-up, q_up), (0.0, 1 - p_up - q_up)]
    both = sum(a * b * max(0.0, -math.expm1(0.1 - k - l)) for k, a in symmetric for l, b in symmetric)  # noqa: E741
    assert max(twice(remove), twice(add)) < 0.999 * both


def test_nothing_is_attained_where_nobody_knows_it():
    assert OncePerEpoch(base=Gaussian(noise_multiplier=1.0), shuffled=True).attained_pairs() is None
    declared = DeclaredRDP(orders=(4,), epsilons=(0.0,))
    assert declared.attained_pairs() is None
    assert PoissonSampled(base=declared, sampling_rate=0.1).attained_pairs() is None


def test_what_samples_of_declared_guarantees_attain_is_that_of_their_worst_mechanism():
    zcdp = PoissonSampled(base=DeclaredZCDP(rho=0.08), sampling_rate=0.2)
    gaussian = PoissonSampled(base=Gaussian(noise_multiplier=2.5), sampling_rate=0.2)  # 1/σ = √(2ρ)
    for epsilon in (0.0, 0.1, 0.4):
        ours, theirs = (delta(mechanism.attained_pairs()[0], epsilon) for mechanism in (zcdp, gaussian))
        assert ours == pytest.approx(theirs, rel=1e-9)
        assert delta(zcdp.pairs()[0], epsilon) >= ours


@pytest.mark.parametrize("epsilon", [0.3, 1.4])
def test_two_links_of_pure_dp_are_geometric_noise_moved_by_two(epsilon):
    """α - t·g(g(α)) at its best α, g the least Q-mass that ε-DP allows; for any t and by rationals of g's corners."""
    (pair, other), attained = RandomizedResponse(epsilon=epsilon).replaced()
    assert pair == other
    assert attained == (pair, pair)
    g = lambda a: max(0.0, a * math.exp(-epsilon), 1 - (1 - a) * math.exp(epsilon))  # noqa: E731
    for at in (0.0, 0.2, epsilon, 1.7 * epsilon):
        best = max(a - math.exp(at) * g(g(a)) for a in np.linspace(0, 1, 4001))
        assert delta(pair, at) == pytest.approx(best, abs=3e-4)
        assert delta(pair, at) >= best - 1e-15


@pytest.mark.parametrize(
    ("scale", "shift", "rate"), [(4.5, 1, 2.3e-5), (24.0, 2, 1.1e-12), (0.4, 3, 0.31), (3.0, 1, 1e-17)]
)
def test_the_largest_loss_of_a_turned_record_is_not_rounded_away(scale: float, shift: int, rate: float) -> None:
    """Of discrete and continuous noise, and of a removal: at tiny rates the ratios of masses are 1 in doubles."""
    with mpmath.workdps(40):
        q, epsilon = mpmath.mpf(rate), mpmath.mpf(shift) / mpmath.mpf(scale)
        top, bottom = (1 + q * mpmath.expm1(side * epsilon) for side in (1, -1))
        for base in (
            DiscreteLaplace(scale=scale, sensitivity=shift),
            Laplace(scale=scale, sensitivity=float(shift)),
        ):
            for adjacency, exact in (("replace-one", mpmath.log(top / bottom)), ("add-remove", mpmath.log(top))):
                found = PoissonSampled(base=base, sampling_rate=rate, adjacency=adjacency).pure_epsilon()
                assert exact <= found <= exact * (1 + mpmath.mpf("1e-13"))


@pytest.mark.parametrize(("sigma", "rate"), [(2.0, 0.5), (0.9, 0.1)])
def test_a_chain_of_a_removal_and_an_addition_dominates_the_opposite(sigma: float, rate: float) -> None:
    """Where no turned record is known: what two links allow is at least what a record and its opposite attain."""
    remove, add = PoissonSampled(base=Gaussian(noise_multiplier=sigma), sampling_rate=rate).pairs()
    chain = group_of_two(remove, add)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        exact = float(opposed_delta(sigma, rate, epsilon))
        assert exact <= delta(chain, epsilon) <= 1.6 * exact


REPLACED = {"base": Gaussian(noise_multiplier=2.5), "adjacency": "replace-one"}


@pytest.mark.parametrize(
    "mechanism",
    [
        PoissonSampled(sampling_rate=0.9999, **REPLACED),
        TruncatedPoisson(sampling_rate=0.9999, dataset_size=50, largest_batch=60, **REPLACED),
        TruncatedPoisson(base=Gaussian(noise_multiplier=2.5), sampling_rate=0.9999, dataset_size=50, largest_batch=40),
        RandomlyAllocated(steps=1, **REPLACED),
        FixedSizeSampled(base=Gaussian(noise_multiplier=2.5), sampling_rate=0.9999),
    ],
    ids=["poisson", "truncated", "truncated, added in another's place", "allocated", "fixed-size"],
)
def test_nearly_all_records_cost_what_replacing_one_costs(mechanism) -> None:
    """A record is in (nearly) every batch, in the place of another one: μ = 2/σ, ρ = 2/σ², RDP 2α/σ²."""
    assert mechanism.gdp() >= 0.8
    assert mechanism.zcdp() >= 0.32
    assert mechanism.rdp(np.array([2.0, 8.0])) == pytest.approx([0.64, 2.56], rel=0.05)


@pytest.mark.parametrize("base", [Gaussian(noise_multiplier=1.5), DeclaredGDP(mu=0.4)])
def test_shuffling_may_amplify_so_that_nothing_of_it_is_exact(base: Mechanism) -> None:
    shuffled, fixed = (compose([(OncePerEpoch(base=base, shuffled=way), 4)], delta=1e-5) for way in (True, False))
    assert shuffled.epsilon == fixed.epsilon
    assert shuffled.epsilon_lower is None
    assert (shuffled.mu_kind, fixed.mu_kind) == ("upper", "exact")


def test_shuffled_runs_attain_nothing_that_is_known() -> None:
    base = Exponential(epsilon=0.5)  # has runs and a last one of its own
    for shuffled, known in ((OncePerEpoch(base=base, shuffled=True), False), (OncePerEpoch(base=base), True)):
        assert (shuffled.attained_runs(3, lambda: 2.0) is not None) is known
        assert (shuffled.attained_last(3, lambda: 2.0) is not None) is known


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.01), (0.7, 0.5), (30.0, 1e-4), (2.0, 0.99)])
def test_renyi_divergences_of_a_turned_record_are_amplified_and_never_too_small(sigma, rate) -> None:
    """By quadrature in 30 digits of (1-q)N(0) + qN(1) against (1-q)N(0) + qN(-1); far orders have the unsampled one."""
    mechanism = PoissonSampled(base=Gaussian(noise_multiplier=sigma), sampling_rate=rate, adjacency="replace-one")
    orders = np.array([1.2, 2.0, 8.0, 16.0, 300.0])
    found = mechanism.rdp(orders)
    with mpmath.workdps(30):
        mu, q = 1 / mpmath.mpf(sigma), mpmath.mpf(rate)

        def side(x, sign):
            return 1 - q + q * mpmath.exp(sign * mu * x - mu * mu / 2)

        for order, bound in zip(map(mpmath.mpf, orders.tolist()), found.tolist(), strict=True):
            middle = order * mu
            places = [-40, -12, 0, middle / 2, middle, middle + 12, middle + 40]
            moment = mpmath.quad(
                lambda x, order=order: mpmath.npdf(x) * side(x, 1) ** order * side(x, -1) ** (1 - order), places
            )
            exact = mpmath.log(moment) / (order - 1)
            assert bound >= exact * (1 - mpmath.mpf("1e-13"))
            unsampled = order * (2 * mu) ** 2 / 2
            assert bound <= unsampled * (1 + mpmath.mpf("1e-12"))
            if middle < 20:
                assert bound <= exact * mpmath.mpf("1.01")

"""Mechanisms: pairs are distributions, they dominate what they must, and bad parameters are refused."""

import math

import numpy as np
import pytest

from dpcalc.errors import IncompatibleError, InputError
from dpcalc.guarantee import ADJACENCIES
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.randomized_response import KaryRandomizedResponse, RandomizedResponse
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.spec.entries import read_entry
from dpcalc.spec.inline import parse_inline
from dpcalc.spec.types import ENTRY_TYPES


def from_the_table():
    """Every example of every type that a spec may name, under each adjacency that it has."""
    for word, kind in ENTRY_TYPES.items():
        for entry in (parse_inline(f"{word},{example}") for example in kind.examples):
            for adjacency in ADJACENCIES:
                try:
                    yield read_entry(entry, adjacency).mechanism
                except InputError:
                    continue


GAUSSIAN = Gaussian(noise_multiplier=1.3)
REPLACING = Gaussian(noise_multiplier=1.3, adjacency="replace-one")
ALL = [
    GAUSSIAN,
    Laplace(scale=2.0),
    DiscreteGaussian(sigma=2.0, sensitivity=2),
    DiscreteLaplace(scale=2.0, sensitivity=3),
    RandomizedResponse(epsilon=0.7),
    KaryRandomizedResponse(p=0.6, k=4),
    Exponential(epsilon=0.8),
    DeclaredDP(epsilon=0.4, delta=1e-4),
    DeclaredGDP(mu=0.4),
    DeclaredZCDP(rho=0.1),
    DeclaredRDP(orders=(2, 8), epsilons=(0.2, 0.5)),
    PoissonSampled(base=GAUSSIAN, sampling_rate=0.1),
    PoissonSampled(base=Laplace(scale=1.0), sampling_rate=0.1),
    PoissonSampled(base=GAUSSIAN, sampling_rate=0.1, adjacency="replace-one"),
    FixedSizeSampled(base=REPLACING, sampling_rate=0.1),
    FixedSizeSampled(base=GAUSSIAN, sampling_rate=0.1),
    OncePerEpoch(base=GAUSSIAN),
    *from_the_table(),
]


def profile(pair, epsilons):
    """δ(ε) of a pair from the masses of the two sides of each ε."""
    values = []
    for epsilon in epsilons:
        a, b = pair.masses(np.array([epsilon]))
        values.append(a[1] - math.exp(epsilon) * b[1])
    return np.array(values)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: f"{mechanism.type}-{mechanism.adjacency}")
def test_pairs_are_distributions_with_a_convex_profile(mechanism):
    edges = np.linspace(-6, 6, 2001)
    for pair in mechanism.pairs():
        a, b = pair.masses(edges)
        assert np.all(a >= 0)
        assert np.all(b >= 0)
        assert 1 - 1e-9 <= a.sum() <= 1 + 1e-5  # a pair made from a profile is rounded up
        assert b.sum() == pytest.approx(1, abs=1e-5)
        inside = (a[1:-1] > 1e-14) & (b[1:-1] > 1e-14)
        losses = np.log(a[1:-1][inside] / b[1:-1][inside])
        assert np.all(losses >= edges[:-1][inside] - 1e-6)
        assert np.all(losses <= edges[1:][inside] + 1e-6)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: f"{mechanism.type}-{mechanism.adjacency}")
def test_attained_pairs_are_below_the_dominating_ones(mechanism):
    attained = mechanism.attained_pairs()
    epsilons = np.linspace(0, 4, 41)
    for upper, lower in zip(mechanism.pairs(), attained or (), strict=False):
        assert np.all(profile(lower, epsilons) <= profile(upper, epsilons) + 1e-12)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: f"{mechanism.type}-{mechanism.adjacency}")
def test_rdp_is_at_least_that_of_the_attained_pairs(mechanism):
    orders = np.array([1.5, 2.0, 7.0])
    for pair in mechanism.attained_pairs() or ():
        transform = pair.log_mgf((orders - 1).astype(complex))
        if transform is not None:
            assert np.all(mechanism.rdp(orders) >= transform.real / (orders - 1) * (1 - 1e-9))


def test_laplace_profile_is_the_closed_form():
    epsilons = np.linspace(0, 0.49, 20)
    pair = Laplace(scale=2.0).pairs()[0]
    assert profile(pair, epsilons) == pytest.approx(-np.expm1((epsilons - 0.5) / 2), rel=1e-12)


def test_discrete_laplace_of_sensitivity_one_is_randomized_response():
    """Its loss takes the two values ±1/b only."""
    epsilons = np.linspace(0, 0.6, 7)
    discrete = DiscreteLaplace(scale=1.5).pairs()[0]
    response = RandomizedResponse(epsilon=1 / 1.5).pairs()[0]
    assert profile(discrete, epsilons) == pytest.approx(profile(response, epsilons), rel=1e-12)


def test_bounded_range_envelope_is_above_every_two_point_pair():
    """Dong, Durfee, Rogers 2020: losses t and t - ε for any t in [0, ε]."""
    epsilon = 0.8
    pair = Exponential(epsilon=epsilon).pairs()[0]
    epsilons = np.linspace(0, 0.79, 40)
    envelope = profile(pair, epsilons)
    for t in np.linspace(0, epsilon, 33):
        q = (math.exp(-t) - math.exp(-epsilon)) / -math.expm1(-epsilon)
        two_point = np.maximum(math.exp(t) * q - np.exp(epsilons) * q, 0)
        assert np.all(two_point <= envelope + 1e-14)


def test_fixed_size_profile_is_that_of_bok_et_al():
    """Proposition D.4: δ(ε) = P(Y < -ε) - e^ε P(X > ε) with the stated distribution functions."""
    from scipy.special import ndtr

    mu, p = 1 / 1.3, 0.1
    pair = FixedSizeSampled(base=REPLACING, sampling_rate=p).pairs()[0]
    epsilons = np.array([0.05, 0.2, 0.7])
    inner = np.log((p - 1 + np.exp(epsilons)) / p)
    above_p = p * ndtr(-(inner / mu - mu / 2)) + (1 - p) * ndtr(-(inner / mu + mu / 2))
    above_q = ndtr(-(inner / mu + mu / 2))
    assert profile(pair, epsilons) == pytest.approx(above_p - np.exp(epsilons) * above_q, rel=1e-10)
    a, _ = pair.masses(np.array([-1e-12, 1e-12]))
    assert a[1] > 0.1  # the atom at 0


def test_replace_one_poisson_is_at_least_a_removal_and_at_most_no_sampling():
    epsilons = np.linspace(0, 3, 16)
    sampled = PoissonSampled(base=GAUSSIAN, sampling_rate=0.1, adjacency="replace-one")
    removal = PoissonSampled(base=GAUSSIAN, sampling_rate=0.1)
    group = profile(sampled.pairs()[0], epsilons)
    assert np.all(group >= profile(removal.pairs()[0], epsilons) - 1e-12)
    assert np.all(group <= profile(GAUSSIAN.as_replace_one().pairs()[0], epsilons) + 1e-9)


def test_rate_one_is_the_mechanism_itself():
    for mechanism in (
        PoissonSampled(base=GAUSSIAN, sampling_rate=1.0),
        FixedSizeSampled(base=REPLACING, sampling_rate=1.0),
    ):
        assert mechanism.gdp() == pytest.approx(1 / 1.3)
        assert mechanism.gdp_is_exact()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian(noise_multiplier=0.0), "noise_multiplier=0.0 in"),
        (lambda: Gaussian(noise_multiplier=math.nan), "noise_multiplier=nan in"),
        (lambda: Laplace(scale=-1.0), "scale=-1.0 in"),
        (lambda: PoissonSampled(base=GAUSSIAN, sampling_rate=1.2), r"sampling_rate=1.2 in \(0, 1\]"),
        (lambda: DiscreteGaussian(sigma=1.0, sensitivity=1.5), "sensitivity=1.5 to be a whole number"),
        (lambda: KaryRandomizedResponse(p=0.2, k=4), "p=0.2 in"),
        (lambda: DeclaredDP(epsilon=1.0, delta=1.0), "delta=1.0 in"),
        (lambda: DeclaredRDP(orders=(1.0,), epsilons=(0.1,)), "orders=1.0 in"),
        (lambda: DeclaredRDP(orders=(2.0, 3.0), epsilons=(0.1,)), "as many epsilons"),
    ],
)
def test_bad_parameters_are_refused_by_name(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_sampling_twice_and_unproved_combinations_are_refused():
    with pytest.raises(IncompatibleError, match="already sampled"):
        PoissonSampled(base=PoissonSampled(base=GAUSSIAN, sampling_rate=0.5), sampling_rate=0.5)
    with pytest.raises(IncompatibleError, match="add-remove"):
        PoissonSampled(base=REPLACING, sampling_rate=0.5)
    with pytest.raises(IncompatibleError, match="no proved conversion"):
        DeclaredRDP(orders=(2,), epsilons=(0.1,)).as_replace_one()

"""Rényi divergences of pairs: never below what 30 digits say, in either direction, and not far above."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpcalc.mechanisms.discrete import DiscreteGaussian
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.pairs.bounded_range import BoundedRangePair
from dpcalc.pairs.cells import tail_errors
from dpcalc.pairs.discrete_gaussian import discrete_gaussian_pairs
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.laplace import LaplacePair
from dpcalc.pairs.points import pure_dp_pair
from dpcalc.pairs.subsampled_gaussian import rdp
from dpcalc.pairs.symmetrised import symmetrised

mp = mpmath.mp


@pytest.fixture(autouse=True)
def _many_digits():
    with mpmath.workdps(30):
        yield


def excess(ratio, beta):
    """f_β(x) = x^β - 1 - β(x - 1)."""
    return ratio**beta - 1 - beta * (ratio - 1)


def divergence(mean_excess, order):
    return mpmath.log1p(mean_excess) / (order - 1)


def binomial_divergence(order, sigma, rate):
    """Mironov, Talwar, Zhang (2019): Σ C(α,k)(1-q)^{α-k} q^k (e^{k(k-1)/2σ²} - 1), all terms positive."""
    s, q = mpmath.mpf(sigma), mpmath.mpf(rate)
    terms = (
        mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k * mpmath.expm1(k * (k - 1) / (2 * s * s))
        for k in range(2, order + 1)
    )
    return divergence(sum(terms), order)


@pytest.mark.parametrize(("sigma", "rate"), [(20.1, 0.0013), (9.7, 3.6e-4), (5.2, 0.0091), (0.31, 0.02), (1.3, 0.77)])
@pytest.mark.parametrize("order", [2, 19, 256])
def test_subsampled_gaussian_at_whole_orders_is_above_the_binomial_sum(sigma, rate, order):
    bound = mpmath.mpf(float(rdp(np.array([float(order)]), np.array([sigma]), rate)[0, 0]))
    exact = binomial_divergence(order, sigma, rate)
    assert exact <= bound <= exact * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize("order", [1.003, 1.6, 2.6, 8.5])
@pytest.mark.parametrize(("sigma", "rate"), [(0.45, 0.3), (1.2, 0.004), (6.0, 0.9)])
def test_subsampled_gaussian_at_other_orders_is_above_the_integral(sigma, rate, order):
    s, q, a = (mpmath.mpf(value) for value in (sigma, rate, order))
    integrand = lambda x: excess(1 - q + q * mpmath.exp(x / s - 1 / (2 * s * s)), a) * mpmath.npdf(x)  # noqa: E731
    exact = divergence(mpmath.quad(integrand, np.arange(-14.0, order / sigma + 17.0, 3.0)), a)
    bound = mpmath.mpf(float(rdp(np.array([order]), np.array([sigma]), rate)[0, 0]))
    assert exact <= bound <= exact * (1 + mpmath.mpf("1e-8"))


def test_the_error_of_the_rule_is_covered_where_its_strip_is_narrow(monkeypatch):
    """With steps five times as wide the rule is off in its third digit; the stated error must still cover it."""
    from dpcalc.pairs import subsampled_renyi

    monkeypatch.setattr(subsampled_renyi, "_DIGITS", 4.0)
    loosest = 0.0
    for order in (2, 3, 5, 8):
        for sigma, rate in ((0.5, 0.4), (0.8, 0.2), (2.0, 0.6)):
            exact = binomial_divergence(order, sigma, rate)
            bound = mpmath.mpf(float(rdp(np.array([float(order)]), np.array([sigma]), rate)[0, 0]))
            assert exact <= bound
            loosest = max(loosest, float(bound / exact - 1))
    assert loosest > 1e-3  # the error is not hidden by other allowances


def laplace_excess(epsilon, rate, beta):
    """Atoms of Lap(ε) against Lap(0) at ±ε, and a density in between: x under Q is 0 … ε with ratio e^{ε - 2x}."""
    e, q = mpmath.mpf(epsilon), mpmath.mpf(rate)
    mixed = lambda loss: 1 - q + q * mpmath.exp(loss)  # noqa: E731
    ends = mpmath.exp(-e) / 2 * excess(mixed(e), beta) + excess(mixed(-e), beta) / 2
    inner = lambda x: mpmath.exp(-x) / 2 * excess(mixed(2 * x - e), beta)  # noqa: E731
    return ends + mpmath.quad(inner, np.linspace(0, float(epsilon), 4))


def bounded_range_excess(epsilon, rate, beta):
    """Losses t and t - ε, for the worst of 2,000 t."""
    e, q = mpmath.mpf(epsilon), mpmath.mpf(rate)
    worst = mpmath.mpf(0)
    for k in range(1, 2000):
        t = e * k / 2000
        high = (mpmath.exp(-t) - mpmath.exp(-e)) / -mpmath.expm1(-e)
        parts = ((high, t), (1 - high, t - e))
        worst = max(worst, sum(mass * excess(1 - q + q * mpmath.exp(loss), beta) for mass, loss in parts))
    return worst


@pytest.mark.parametrize(("mechanism", "mean_excess"), [(Laplace, laplace_excess), (Exponential, bounded_range_excess)])
@pytest.mark.parametrize(("epsilon", "rate"), [(0.3, 1e-5), (1.4, 0.02), (6.0, 0.7)])
@pytest.mark.parametrize("order", [1.2, 2.0, 23.0])
def test_sampled_laplace_and_exponential_are_above_both_directions(mechanism, mean_excess, epsilon, rate, order):
    base = Laplace(scale=1 / epsilon) if mechanism is Laplace else Exponential(epsilon=epsilon)
    bound = mpmath.mpf(float(PoissonSampled(base=base, sampling_rate=rate).rdp(np.array([order]))[0]))
    pure, a = mpmath.mpf(base.epsilon), mpmath.mpf(order)
    exact = max(divergence(mean_excess(pure, rate, beta), a) for beta in (a, 1 - a))
    unsampled = mpmath.mpf(float(base.rdp(np.array([order]))[0]))
    loose = mpmath.mpf("0.15" if mechanism is Exponential else "1e-3")  # of each moment the worst t by itself
    assert min(exact, unsampled) <= bound <= exact * (1 + loose)


@pytest.mark.parametrize(("sigma", "shift", "rate"), [(0.8, 1, 0.07), (3.0, 2, 0.4), (0.4, 1, 1e-4)])
@pytest.mark.parametrize("order", [1.5, 2.0, 9.0])
def test_a_sampled_discrete_gaussian_is_above_its_sum(sigma, shift, rate, order):
    s, q, a = (mpmath.mpf(value) for value in (sigma, rate, order))
    points = range(-90, 91)
    total = sum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s * s)) for x in points)
    exact = mpmath.mpf(0)
    for beta in (a, 1 - a):
        terms = (
            mpmath.exp(-(mpmath.mpf(x - shift) ** 2) / (2 * s * s))
            / total
            * excess(1 - q + q * mpmath.exp((shift * shift - 2 * shift * x) / (2 * s * s)), beta)
            for x in points
        )
        exact = max(exact, divergence(sum(terms), a))
    mechanism = PoissonSampled(base=DiscreteGaussian(sigma=sigma, sensitivity=shift), sampling_rate=rate)
    bound = mpmath.mpf(float(mechanism.rdp(np.array([order]))[0]))
    assert exact <= bound <= exact * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize(("sigma", "rate"), [(0.7, 0.05), (1.5, 0.3), (4.0, 0.001)])
@pytest.mark.parametrize("order", [1.3, 2.0, 5.0])
def test_fixed_size_sampling_is_above_the_integral_of_its_symmetrised_pair(sigma, rate, order):
    mu, q, a = 1 / mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.mpf(order)
    ratio = lambda x: 1 - q + q * mpmath.exp(mu * x - mu * mu / 2)  # noqa: E731
    both = lambda x: (excess(ratio(x), a) + excess(ratio(x), 1 - a)) * mpmath.npdf(x)  # noqa: E731
    exact = divergence(mpmath.quad(both, [mu / 2 + k for k in range(0, int(order / sigma) + 18, 3)]), a)
    base = Gaussian(noise_multiplier=sigma, adjacency="replace-one")
    bound = mpmath.mpf(float(FixedSizeSampled(base=base, sampling_rate=rate).rdp(np.array([order]))[0]))
    assert exact <= bound <= exact * (1 + mpmath.mpf("1e-3"))


@pytest.mark.parametrize(
    "pair",
    [LaplacePair(0.9), BoundedRangePair(1.2), pure_dp_pair(0.6), discrete_gaussian_pairs(1.3, 2)[0]],
    ids=lambda pair: type(pair).__name__,
)
def test_the_two_sides_add_up_and_the_reverse_swaps_them(pair):
    powers = np.array([1.5, 3.0, -0.5, -4.0])
    made = pair.mixed(0.3)
    whole, above, below = (made.log_excess(powers, side) for side in (0, 1, -1))
    known = np.isfinite(above) & np.isfinite(below)
    assert np.logaddexp(above, below)[known] == pytest.approx(whole[known], rel=1e-3, abs=1e-3)
    assert made.reversed().log_excess(1 - powers, -1) == pytest.approx(above, rel=1e-9)


def test_a_sampled_laplace_is_far_below_the_unsampled_one():
    """Poisson-sampled Laplace of scale 1.3 at rate .02, order 3: the integral says 1.9e-4 where the base has .52."""
    mechanism = PoissonSampled(base=Laplace(scale=1.3), sampling_rate=0.02)
    bound = float(mechanism.rdp(np.array([3.0]))[0])
    exact = divergence(laplace_excess(mechanism.base.epsilon, 0.02, mpmath.mpf(3)), 3)
    assert exact <= bound < 1.001 * float(exact) < 1e-3


@pytest.mark.parametrize("make", [symmetrised, lambda p: p.reversed(), lambda p: p])
def test_errors_of_cells_grow_with_the_mu_behind_a_sampled_pair(make) -> None:
    """The argument t/μ ± μ/2 of a distribution function is off by more the larger μ is, whoever asks for its masses."""
    edges = np.linspace(-3.0, 3.0, 40)
    pair = make(GaussianPair(40.0).mixed(0.2))
    assert pair.sharpness() == 40.0
    charged = pair.cells(edges).q_error
    assert np.all(charged >= tail_errors(pair.masses(edges)[1], 40.0))

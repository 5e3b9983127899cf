"""Rényi divergences of sampled mechanisms that are known by a Rényi curve alone, against 40 digits."""

from __future__ import annotations

import math
import random

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.compose import compose
from dpcalc.arrays import Floats
from dpcalc.mechanisms.declared import DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.mechanisms.truncated import TruncatedPoisson
from dpcalc.pairs.sampled_curve import _GAMMAS, MOST_TERMS, _by_curvature, binomial_excess, sampled_excess

mpmath.mp.dps = 40
Law = list[tuple[mpmath.mpf, mpmath.mpf]]  # Q-mass and likelihood ratio


def random_law(draw: random.Random) -> Law:
    """A few ratios, some of them far from 1, of mean 1."""
    ratios = [mpmath.exp(draw.uniform(-1, 1) * draw.choice([0.01, 0.5, 3.0])) for _ in range(draw.choice([2, 3, 5]))]
    masses = [mpmath.mpf(draw.random() ** draw.choice([1, 8])) for _ in ratios]
    total = sum(masses)
    mean = sum(mass * ratio for mass, ratio in zip(masses, ratios, strict=True)) / total
    return [(mass / total, ratio / mean) for mass, ratio in zip(masses, ratios, strict=True)]


def moment(law: Law, power: mpmath.mpf) -> mpmath.mpf:
    return sum(mass * ratio**power for mass, ratio in law)


def batch(law: Law, rate: float) -> Law:
    q = mpmath.mpf(rate)
    return [(mass, 1 - q + q * ratio) for mass, ratio in law]


def divergences(law: Law) -> object:
    """The larger of both divergences of a law, at any orders, a unit in the last place up."""

    def curve(orders: Floats) -> Floats:
        found = [
            max(mpmath.log(moment(law, order)), mpmath.log(moment(law, 1 - order))) / (order - 1)
            for order in map(mpmath.mpf, np.ravel(orders).tolist())
        ]
        return np.reshape([math.nextafter(float(each), math.inf) for each in found], np.shape(orders))

    return curve


@pytest.mark.parametrize("seed", range(40))
def test_no_law_within_a_curve_has_larger_divergences_when_sampled(seed: int) -> None:
    draw = random.Random(seed)
    law, rate = random_law(draw), draw.choice([1e-6, 1e-3, 0.02, 0.3, 0.9, 0.999])
    orders = np.array(sorted([1 + 10 ** draw.uniform(-3, 0), 2.0, draw.uniform(2, 3), 3.0, draw.uniform(3, 30), 17.0]))
    curve = divergences(law)
    removing, adding = sampled_excess(curve, lambda whole: binomial_excess(curve, rate, whole), rate, orders)
    sampled = batch(law, rate)
    for order, over, under in zip(orders.tolist(), removing.tolist(), adding.tolist(), strict=True):
        assert mpmath.exp(over) >= moment(sampled, mpmath.mpf(order)) - 1
        assert mpmath.exp(under) >= moment(sampled, 1 - mpmath.mpf(order)) - 1


def gaussian_excess(rho: float, rate: float, n: int) -> mpmath.mpf:
    """E[X^n] - 1 of a sampled Gaussian, by its binomial sum."""
    q, r = mpmath.mpf(rate), mpmath.mpf(rho)
    terms = (mpmath.binomial(n, k) * (1 - q) ** (n - k) * q**k * mpmath.expm1(k * (k - 1) * r) for k in range(2, n + 1))
    return mpmath.fsum(terms)


@pytest.mark.parametrize(("rho", "rate"), [(0.1, 0.1), (4.5, 6e-4), (3e-7, 0.2), (0.02, 0.97), (1e-3, 1e-7)])
def test_at_whole_orders_a_gaussian_is_the_worst(rho: float, rate: float) -> None:
    orders = np.array([2.0, 3.0, 7.0, 40.0, 300.0])
    sampled = PoissonSampled(base=DeclaredZCDP(rho=rho), sampling_rate=rate)
    terms = binomial_excess(lambda at: at * rho, rate, orders)
    for order, rdp, log in zip(orders.tolist(), sampled.rdp(orders).tolist(), terms.tolist(), strict=True):
        exact = gaussian_excess(rho, rate, int(order))
        removed = mpmath.log1p(exact) / (order - 1)
        assert removed <= rdp <= max(removed * (1 + mpmath.mpf(2) ** -30), rho * order * (1 + mpmath.mpf(2) ** -50))
        assert exact <= mpmath.exp(log) <= exact * (1 + mpmath.mpf(2) ** -24)


def test_binomial_terms_are_as_many_as_are_worth_it() -> None:
    few, many = binomial_excess(lambda at: 0.01 * at, 0.1, np.array([float(MOST_TERMS), MOST_TERMS + 1.0]))
    assert few < many == math.inf


def test_orders_that_are_not_known_bound_nothing() -> None:
    base = DeclaredRDP(orders=(1.5, 4.0), epsilons=(0.1, 0.3))
    found = PoissonSampled(base=base, sampling_rate=0.01).rdp(np.array([1.2, 1.5, 4.0, 4.5]))
    assert (found[:3] < 0.01).all()
    assert found[3] == math.inf


@pytest.mark.parametrize(("rho", "rate", "order"), [(0.1, 0.1, 5.0), (0.5, 0.3, 2.5), (1e-3, 0.5, 20.0)])
def test_batches_of_fixed_size_take_both_sides(rho: float, rate: float, order: float) -> None:
    """C_p of a Gaussian: the ratio of removing where it is above 1, and its reciprocal below."""
    mu, q, a = mpmath.sqrt(2 * mpmath.mpf(rho)), mpmath.mpf(rate), mpmath.mpf(order)

    def integrand(u: mpmath.mpf) -> mpmath.mpf:
        x = 1 - q + q * mpmath.exp(mu * u - mu * mu / 2)
        both = x**a - 1 - a * (x - 1) + x ** (1 - a) - 1 - (1 - a) * (x - 1)
        return both * mpmath.npdf(u)

    exact = mpmath.log1p(mpmath.quad(integrand, mpmath.linspace(mu / 2, mu / 2 + 12 + a * mu, 12))) / (a - 1)
    base = DeclaredZCDP(rho=rho, adjacency="replace-one")
    found = FixedSizeSampled(base=base, sampling_rate=rate).rdp(np.array([order]))[0]
    assert exact <= found <= 2.2 * (2 - rate) * exact


def test_the_record_and_its_replacement_may_be_bad_at_different_places() -> None:
    """A batch without the record is a third law: δ of two members, with weights that are at most 1 - q and 1."""
    rate, orders = 0.1, np.array([2.0, 3.0, 7.0])
    base = DeclaredZCDP(rho=0.01, adjacency="replace-one")
    removing, adding = base.sampled_excess(rate, orders) or (np.zeros(3), np.zeros(3))
    found = FixedSizeSampled(base=base, sampling_rate=rate)._excess(orders)
    assert found is not None
    for one, other, *both in zip(removing.tolist(), adding.tolist(), *(each.tolist() for each in found), strict=True):
        least = (2 - mpmath.mpf(rate)) * (mpmath.exp(one) + mpmath.exp(other))
        assert all(least <= mpmath.exp(each) <= least * (1 + mpmath.mpf(2) ** -30) for each in both)


@pytest.mark.parametrize("rate", [1 - 1e-12, 1 - 1e-9, 0.5, 1e-9])
def test_bounds_by_curvature_are_not_below_their_formula(rate: float) -> None:
    """1 - q + qw is 1 - q in the end, of which 1 + q(w - 1) had lost the digits. Known up to order 2 alone."""
    q, rho = mpmath.mpf(rate), 2.7e-4
    for power in (*(-np.geomspace(0.01, 5e3, 40)).tolist(), 1.3):
        p, least = mpmath.mpf(power), mpmath.inf
        for each in (*_GAMMAS.tolist(), rate * power + 2 * (1 - rate)):
            gamma = mpmath.mpf(each)
            if p < gamma and -1 <= gamma <= 2 and not 0 <= gamma <= 1:
                w = (2 - gamma) * (1 - q) / (q * (gamma - p))
                ratio = p * (p - 1) * q**2 / (gamma * (gamma - 1)) * w ** (2 - gamma) * (1 - q + q * w) ** (p - 2)
                least = min(least, mpmath.log(ratio * mpmath.expm1(max(gamma - 1, -gamma) * mpmath.mpf(rho))))
        found = _by_curvature(lambda at: np.where(at <= 2, rho, np.inf), rate, np.array([power]))[0]
        assert least <= found <= least + mpmath.mpf(10) ** -5


def test_an_excess_below_the_range_of_doubles_is_not_none() -> None:
    sampled = PoissonSampled(base=DeclaredZCDP(rho=1e-300), sampling_rate=1e-30)
    assert (sampled.rdp(np.array([1.0001, 1.5, 3.0])) > 0).all()


def whole_orders_epsilon(rho: float, rate: float, count: int, delta: float) -> float:
    """The best conversion of Canonne et al. over whole orders of a sampled Gaussian."""
    best = mpmath.inf
    for n in range(2, 120):
        rdp = count * mpmath.log1p(gaussian_excess(rho, rate, n)) / (n - 1)
        best = min(best, rdp + mpmath.log(1 - mpmath.mpf(1) / n) - mpmath.log(n * mpmath.mpf(delta)) / (n - 1))
    return float(best)


@pytest.mark.parametrize(("rho", "rate", "count", "delta"), [(0.1, 0.1, 20, 1e-6), (0.4998, 0.01261, 260, 1.999e-7)])
def test_sampled_zcdp_costs_no_more_than_its_moments(rho: float, rate: float, count: int, delta: float) -> None:
    """From 11.7 and 217 by `rdp` before, and 1.36 and 2.31 by dominating pairs."""
    part = (PoissonSampled(base=DeclaredZCDP(rho=rho), sampling_rate=rate), count)
    most = whole_orders_epsilon(rho, rate, count, delta)
    for accountant in ("rdp", "auto"):
        found = compose([part], delta=delta, accountant=accountant)  # type: ignore[arg-type]
        assert found.epsilon is not None
        assert found.epsilon <= most * (1 + 1e-9)
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= found.epsilon


def test_the_bernoulli_pair_that_is_attained_is_within_the_curve() -> None:
    rho = 4.5
    frontier = DeclaredZCDP(rho=rho).frontier()
    assert frontier is not None
    for order in (0.1, 1.0, 4.0, 30.0):
        pair, log = frontier.worst(order, 6e-4)
        assert pair is not None
        p, q = ([mpmath.mpf(each) for each in side.tolist()] for side in (pair.p, pair.q))
        for alpha in (1.01, 1.5, 2.0, 3.7, 10.0, 100.0):
            for one, other in ((p, q), (q, p)):
                ratio = mpmath.fsum(x**alpha * y ** (1 - mpmath.mpf(alpha)) for x, y in zip(one, other, strict=True))
                assert mpmath.log(ratio) <= alpha * (alpha - 1) * rho
        mixed = [6e-4 * x + (1 - mpmath.mpf(6e-4)) * y for x, y in zip(p, q, strict=True)]
        exact = mpmath.log(mpmath.fsum(x * (x / y) ** order for x, y in zip(mixed, q, strict=True)))
        assert log == pytest.approx(float(exact), rel=1e-9)


def test_rare_large_losses_of_sampled_zcdp_are_attained_by_two_outcomes() -> None:
    """A Gaussian of the same ρ has at most 23.54 there, and with a last run of two outcomes 23.94 was known."""
    found = compose([(PoissonSampled(base=DeclaredZCDP(rho=4.237), sampling_rate=0.009032), 18)], delta=2.129e-10)
    assert found.epsilon_lower is not None
    assert found.epsilon is not None
    assert 24.4 < found.epsilon_lower <= found.epsilon < 26.8


def test_truncated_batches_add_the_moments_of_both_cases() -> None:
    """Of two records one alone is kept: E X^α of the mixture that dominates, term by term, of a Gaussian."""
    rho, rate, size, largest = 0.3, 0.4, 6, 1
    sampled = TruncatedPoisson(base=DeclaredZCDP(rho=rho), sampling_rate=rate, dataset_size=size, largest_batch=largest)
    none = (1 - mpmath.mpf(rate)) ** (size - 1)  # of five others, or of six
    for order, rdp in zip((2, 3, 6), sampled.rdp(np.array([2.0, 3.0, 6.0])).tolist(), strict=True):
        replaced = gaussian_excess(4 * rho, rate / 2, order)
        least = gaussian_excess(rho, rate, order) * none + replaced * (1 - none)
        assert mpmath.log1p(least) / (order - 1) <= rdp <= 1.2 * mpmath.log1p(least) / (order - 1)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 6.0, 40.0, 800.0])
def test_divergences_of_bounded_range_are_those_of_the_worst_t(epsilon: float) -> None:
    orders = np.array([1.001, 1.5, 2.0, 5.0, 33.3, 1e4])
    e = mpmath.mpf(epsilon)
    for order, bound in zip(map(mpmath.mpf, orders.tolist()), Exponential(epsilon=epsilon).rdp(orders), strict=True):
        best = mpmath.mpf(0)
        for k in range(1, 400):
            t = e * k / 400
            p = mpmath.expm1(t - e) / mpmath.expm1(-e)
            best = max(best, mpmath.log(p * mpmath.exp((order - 1) * t) + (1 - p) * mpmath.exp((order - 1) * (t - e))))
        assert best / (order - 1) <= bound <= best / (order - 1) * mpmath.mpf("1.003") + mpmath.mpf(10) ** -17


@pytest.mark.parametrize("epsilon", [1e-10, 1.3111e-47, 1.074730359941107e-65, 6.3e-55, 3.5475e-94, 2.1362e-108])
def test_divergences_of_a_small_bounded_range_are_not_below_their_limit(epsilon: float) -> None:
    """αε²/8, of which the next term is ε² times smaller: logarithms that cancel made it -4e-11 and the like."""
    orders = np.append(1 + np.geomspace(1e-12, 1e3, 300), [1.0000019758302932, 1.0000000000022684])
    limits = [mpmath.mpf(order) * mpmath.mpf(epsilon) ** 2 / 8 for order in orders.tolist()]
    for limit, bound in zip(limits, Exponential(epsilon=epsilon).rdp(orders).tolist(), strict=True):
        assert limit * (1 - mpmath.mpf(10) ** -13) <= bound <= limit * (1 + mpmath.mpf(10) ** -13)


def test_a_sampled_exponential_mechanism_costs_no_more_than_its_moments() -> None:
    """A class of two-point laws: the worst t of each moment, in 40 digits; by dominating pairs it was 7.53."""
    part = (PoissonSampled(base=Exponential(epsilon=0.5), sampling_rate=0.5), 100)
    found = compose([part], delta=1e-6)
    assert found.epsilon is not None
    assert 6.36 < found.epsilon < 6.87

"""What a mechanism says of itself is at least the exact value, in exact arithmetic: not even the last place is lost."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.mechanisms import truncated
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.declared.renyi import together
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.histogram import Histogram
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import KaryRandomizedResponse
from dpcalc.mechanisms.truncated import TruncatedPoisson, binomial_tail

DRAWS = 300
ORDERS = np.array([1.5, 2.0, 7.0, 33.0])
mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def test_the_mu_of_repeated_steps() -> None:
    chosen = random.Random(1)
    for _ in range(DRAWS):
        mu, times = chosen.uniform(0.01, 3), chosen.randint(2, 10**6)
        exact = mpf(mu) * mpmath.sqrt(times)
        assert exact <= DeclaredGDP(mu=mu).repeated(times).mu <= exact * (1 + mpf("1e-14"))


def test_other_notions_of_repeated_steps_and_of_groups() -> None:
    chosen = random.Random(3)
    for _ in range(DRAWS):
        value, delta, times = chosen.uniform(0.01, 3), chosen.uniform(1e-9, 1e-8), chosen.choice([3, 5, 11, 1001])
        repeated = DeclaredDP(epsilon=value, delta=delta).repeated(times)
        assert Fraction(repeated.epsilon) >= times * Fraction(value)
        assert Fraction(repeated.delta) >= times * Fraction(delta)
        assert Fraction(DeclaredZCDP(rho=value).repeated(times).rho) >= times * Fraction(value)
        renyi = DeclaredRDP(orders=(9.0,), epsilons=(value,))
        assert Fraction(renyi.repeated(times).epsilons[0]) >= times * Fraction(value)
        assert Fraction(renyi.group(3).epsilons[0]) >= 9 * Fraction(value)
        assert Fraction(DeclaredGDP(mu=value).group(times).mu) >= times * Fraction(value)
        assert Fraction(DeclaredZCDP(rho=value).group(times).rho) >= times**2 * Fraction(value)
        assert Fraction(DeclaredDP(epsilon=value, delta=0.0).group(times).epsilon) >= times * Fraction(value)
        for order, bound in zip(ORDERS, DeclaredGDP(mu=value).rdp_at(ORDERS.tolist()), strict=True):
            assert Fraction(bound) >= Fraction(float(order)) * Fraction(value) ** 2 / 2


def test_the_epsilon_of_laplace_noise_on_either_line() -> None:
    chosen = random.Random(5)
    for _ in range(DRAWS):
        scale, sensitivity = chosen.uniform(0.05, 30), chosen.randint(1, 9)
        exact = Fraction(sensitivity) / Fraction(scale)
        for mechanism in (
            Laplace(scale=scale, sensitivity=sensitivity),
            DiscreteLaplace(scale=scale, sensitivity=sensitivity),
        ):
            assert exact <= Fraction(mechanism.pure_epsilon() or 0.0) <= exact * (1 + Fraction(1, 1 << 52))
    assert Laplace(scale=3.0, sensitivity=3.0).pure_epsilon() == 1.0


def test_the_epsilon_of_answers_that_are_nearly_all_alike() -> None:
    """At p = (1 + 1e-9)/k the ratio of the answers is 1 in doubles, up to eight digits."""
    chosen = random.Random(6)
    for _ in range(DRAWS):
        k = chosen.randint(2, 9)
        p = (1 + 10 ** chosen.uniform(-10, 0) * (k - 1) * 0.99) / k
        exact = mpmath.log(mpf(p) * (k - 1) / (1 - mpf(p)))
        found = KaryRandomizedResponse(p=p, k=k).pure_epsilon() or 0.0
        assert exact <= found <= exact * (1 + mpf("2e-14"))


def test_declared_zcdp_at_its_orders_and_the_gaussian_that_attains_it() -> None:
    chosen = random.Random(7)
    for _ in range(DRAWS):
        rho = chosen.uniform(1e-3, 3)
        declared = DeclaredZCDP(rho=rho)
        for order, bound in zip(ORDERS, declared.rdp(ORDERS), strict=True):
            assert Fraction(float(bound)) >= Fraction(float(order)) * Fraction(rho)
        assert Fraction(declared.attained_pairs()[0].mu) ** 2 <= 2 * Fraction(rho)


def test_the_cells_of_a_histogram() -> None:
    chosen = random.Random(2)
    for _ in range(DRAWS):
        histogram = Histogram(sigma=chosen.uniform(0.5, 9), cells=chosen.choice([3, 5, 7, 11, 13]))
        cells, one = histogram.cells, histogram.cell
        assert Fraction(histogram.zcdp()) >= cells * Fraction(one.zcdp() or 0.0)
        for many, single in zip(histogram.rdp(ORDERS), one.rdp(ORDERS), strict=True):
            assert Fraction(float(many)) >= cells * Fraction(float(single))


def test_the_cells_of_a_histogram_under_basic_composition(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(4)
    for _ in range(DRAWS):
        single = chosen.uniform(0.1, 2), chosen.uniform(1e-9, 1e-3)
        monkeypatch.setattr(DiscreteGaussian, "basic_dp", lambda _, single=single: single)
        histogram = Histogram(sigma=1.0, cells=chosen.choice([3, 5, 7, 11, 13]))
        for many, one in zip(histogram.basic_dp(), single, strict=True):
            assert Fraction(many) >= histogram.cells * Fraction(one)


def worst_bounded_range(epsilon: mpf, order: mpf) -> mpf:
    """The largest divergence of losses t and t - ε: a look at all t, and a closer one around the best."""

    def divergence(t: mpf) -> mpf:
        p = mpmath.expm1(t - epsilon) / mpmath.expm1(-epsilon)
        moment = p * mpmath.exp((order - 1) * t) + (1 - p) * mpmath.exp((order - 1) * (t - epsilon))
        return mpmath.log(moment) / (order - 1)

    centre, width = epsilon / 2, epsilon / 2
    for _ in range(12):
        places = [centre + width * mpf(k) / 4 for k in range(-3, 4)]
        centre, width = max(places, key=divergence), width / 3
    return divergence(centre)


def test_divergences_of_discrete_gaussians_and_of_the_exponential_mechanism() -> None:
    chosen = random.Random(5)
    for _ in range(DRAWS):
        sigma, sensitivity = chosen.uniform(0.5, 9), chosen.choice([1, 3, 5])
        noise = DiscreteGaussian(sigma=sigma, sensitivity=sensitivity)
        rho = Fraction(sensitivity) ** 2 / (2 * Fraction(sigma) ** 2)
        assert Fraction(noise.zcdp() or 0.0) >= rho
        epsilon = chosen.uniform(0.01, 2)
        choice = Exponential(epsilon=epsilon)
        assert Fraction(choice.zcdp() or 0.0) >= Fraction(epsilon) ** 2 / 8
        for order, found in zip(ORDERS, noise.rdp(ORDERS), strict=True):
            assert Fraction(float(found)) >= Fraction(float(order)) * rho
        for order, found in zip(ORDERS[:2], choice.rdp(ORDERS[:2]), strict=True):
            assert mpf(float(found)) >= worst_bounded_range(mpf(epsilon), mpf(float(order)))


def test_several_steps_of_an_epoch() -> None:
    chosen = random.Random(6)
    for _ in range(DRAWS):
        base = Gaussian(noise_multiplier=chosen.uniform(0.5, 9))
        selected = chosen.choice([3, 5, 7])
        allocated = RandomlyAllocated(base=base, steps=9, selected=selected)
        assert mpf(allocated.gdp() or 0.0) >= mpf(base.gdp() or 0.0) * mpmath.sqrt(selected)
        assert Fraction(allocated.zcdp() or 0.0) >= selected * Fraction(base.zcdp() or 0.0)
        for many, one in zip(allocated.rdp(ORDERS), base.rdp(ORDERS), strict=True):
            assert Fraction(float(many)) >= selected * Fraction(float(one))


def test_basic_composition_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(7)
    for _ in range(DRAWS):
        single = chosen.uniform(0.1, 2), chosen.uniform(1e-9, 1e-3)
        monkeypatch.setattr(Gaussian, "basic_dp", lambda _, single=single: single)
        selected = chosen.choice([3, 5, 7])
        found = RandomlyAllocated(base=Gaussian(noise_multiplier=1.0), steps=9, selected=selected).basic_dp()
        for many, one in zip(found, single, strict=True):
            assert Fraction(many) >= selected * Fraction(one)


def test_a_rate_of_renyi_privacy_is_at_most_its_advantage_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is rounded up, where it is the better bound."""
    chosen = random.Random(8)
    for _ in range(DRAWS):
        advantage, rate = chosen.uniform(0.01, 0.3), chosen.uniform(0.01, 0.3)
        monkeypatch.setattr(DeclaredZCDP, "advantage", lambda _, advantage=advantage: advantage)
        monkeypatch.setattr("dpcalc.conversions.bernoulli.RenyiRegion.true_positive_rate", lambda *_: 1.0)
        assert Fraction(DeclaredZCDP(rho=0.1).true_positive_rate(rate)) >= Fraction(advantage) + Fraction(rate)


def exact_tail(trials: int, rate: float, least: int) -> mpmath.mpf:
    q = mpf(rate)
    if least > trials * q:
        return mpmath.fsum(
            mpmath.binomial(trials, k) * q**k * (1 - q) ** (trials - k) for k in range(least, trials + 1)
        )
    return 1 - mpmath.fsum(mpmath.binomial(trials, k) * q**k * (1 - q) ** (trials - k) for k in range(least))


@pytest.mark.parametrize("seed", range(30))
def test_binomial_tails(seed: int) -> None:
    chosen = random.Random(seed)
    trials, rate = chosen.randint(20, 300), chosen.uniform(0.02, 0.6)
    deviation = math.sqrt(trials * rate * (1 - rate))
    for z in (-6.5, -5, -3, -1, 0, 1, 3, 6):
        least = round(trials * rate + z * deviation)
        low, high = binomial_tail(trials, rate, least)
        exact = exact_tail(trials, rate, least)
        assert low <= exact <= high
        assert high - low <= 1e-9 * exact + 1e-300


def test_a_tail_below_the_range_of_doubles() -> None:
    low, high = binomial_tail(400, 0.05, 399)
    assert low <= exact_tail(400, 0.05, 399) <= high
    assert exact_tail(400, 0.05, 399) > 0


def test_weights_and_rates_of_truncated_batches() -> None:
    """The rate at which a record takes another's place, and the weights of both cases, are rounded up."""
    chosen = random.Random(9)
    for _ in range(60):
        rate, batch = chosen.uniform(0.05, 0.3), chosen.choice([3, 5, 6, 9, 11])
        base = Gaussian(noise_multiplier=1.0)
        sampled = TruncatedPoisson(base=base, sampling_rate=rate, dataset_size=40, largest_batch=batch)
        low, high = sampled.overflow
        remove, _ = sampled.pairs()
        assert Fraction(remove.first_weight) >= 1 - Fraction(low)
        assert remove.second_weight == high
        assert Fraction(remove.second.rate) >= Fraction(rate) * batch / (batch + 1)


def test_the_rate_at_which_a_record_stays_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(10)
    for _ in range(DRAWS):
        rate, batch, more, fewer = chosen.uniform(0.05, 0.3), chosen.randint(2, 30), chosen.random(), chosen.random()
        monkeypatch.setattr(truncated, "binomial_tail", lambda *_, low=more, high=fewer: (low, high))
        base = Gaussian(noise_multiplier=1.0)
        sampled = TruncatedPoisson(base=base, sampling_rate=rate, dataset_size=41, largest_batch=batch)
        exact = Fraction(rate) * (1 - Fraction(fewer)) + Fraction(batch, 41) * Fraction(more)
        assert Fraction(sampled._kept) <= exact


def test_declared_curves_are_added_up_and_rounded_up() -> None:
    chosen = random.Random(11)
    for _ in range(DRAWS):
        rhos = [(chosen.random(), chosen.randint(1, 99)) for _ in range(chosen.randint(2, 20))]
        curves = [(DeclaredZCDP(rho=rho), count) for rho, count in rhos]
        total = sum(Fraction(rho) * count for rho, count in rhos)
        [(whole, _)] = together(curves)
        assert Fraction(whole.rho) >= total
        stated = DeclaredRDP(orders=(1.1, 7.3), epsilons=(chosen.random(), 1 + chosen.random()))
        for parts in (curves, curves[:1]):
            [(whole, _)] = together([*parts, (stated, 7)])
            for order, epsilon, found in zip(stated.orders, stated.epsilons, whole.epsilons, strict=True):
                added = sum(Fraction(curve.rho) * count for curve, count in parts)
                assert Fraction(found) >= Fraction(order) * added + 7 * Fraction(epsilon)
        [(whole, _)] = together([(stated, 7)])
        assert all(Fraction(a) >= 7 * Fraction(b) for a, b in zip(whole.epsilons, stated.epsilons, strict=True))


def test_the_mu_of_a_noise_multiplier() -> None:
    chosen = random.Random(2)
    for _ in range(DRAWS):
        noise = chosen.uniform(0.05, 20)
        assert Fraction(Gaussian(noise_multiplier=noise).gdp() or 0.0) >= 1 / Fraction(noise)

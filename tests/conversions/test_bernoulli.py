"""RDP and zCDP to (ε,δ), advantage and true positive rates: exactly what some Bernoulli pair attains, and no less."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.compose import answer_of
from dpcalc.accounting.question import Question
from dpcalc.conversions import gdp_epsilon, rdp_deltas
from dpcalc.conversions.bernoulli import RenyiRegion
from dpcalc.mechanisms.declared import DeclaredRDP, DeclaredZCDP


def divergence(p: float, q: float, order: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        p, q, a = mpmath.mpf(p), mpmath.mpf(q), mpmath.mpf(order)
        if a == 1:
            return p * mpmath.log(p / q) + (1 - p) * mpmath.log((1 - p) / (1 - q))
        return mpmath.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)


def worst(p: float, q: float, order: float) -> float:
    """The larger of both directions, as a double not above it."""
    return math.nextafter(float(max(divergence(p, q, order), divergence(q, p, order))), 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_every_bernoulli_pair_is_within_what_its_own_divergences_imply(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = float(np.exp(generator.uniform(-30, -0.1)))
    y = float(x + (1 - x) * np.exp(generator.uniform(-25, -0.05)))
    orders = np.sort(1 + np.exp(generator.uniform(-3, 5, size=1 + seed % 3)))
    region = RenyiRegion(orders, np.array([worst(y, x, order) for order in orders]) * (1 + 1e-12))
    assert region.true_positive_rate(x) >= y
    steepest = math.log(y / x)
    for epsilon in (0.0, 0.3 * steepest, 0.9 * steepest):
        assert region.delta(epsilon) >= y - mpmath.exp(epsilon) * x
    delta = y / 3
    if delta > 1e-14:
        assert region.epsilon(delta) >= mpmath.log((y - delta) / mpmath.mpf(x))


@pytest.mark.parametrize(("order", "rho"), [(8.0, 0.4), (2.0, 0.01), (1.3, 2.0), (60.0, 0.05)])
def test_what_it_allows_is_attained(order: float, rho: float) -> None:
    """The pair at the rate found has just the divergence that was given, so that no smaller rate would do."""
    region = RenyiRegion(np.array([order]), np.array([rho]))
    for x in (1e-6, 0.003, 0.2, 0.7):
        y = region.true_positive_rate(x)
        if y < 1 - 1e-9:
            assert float(max(divergence(y, x, order), divergence(x, y, order))) == pytest.approx(rho, rel=1e-9)


@pytest.mark.parametrize(("order", "rho", "epsilon"), [(8.0, 0.4, 1.0), (3.0, 0.2, 2.5), (100.0, 1e-3, 0.01)])
def test_the_best_of_many_bernoulli_pairs_comes_near_the_bound(order: float, rho: float, epsilon: float) -> None:
    region = RenyiRegion(np.array([order]), np.array([rho]))
    bound = region.delta(epsilon)
    rates = np.exp(np.linspace(math.log(bound) - 8, -0.05, 40))
    found = max(region.true_positive_rate(float(rate)) - math.exp(epsilon) * rate for rate in rates)
    assert found <= bound * (1 + 1e-12)
    assert found >= 0.95 * bound
    assert bound < float(rdp_deltas([order], [rho], epsilon)[0])


def test_one_order_against_published_values() -> None:
    """TPR at .001, .01, .1 of (8, .4)-RDP; the advantage is that of the pair (1 ± a)/2."""
    notion = DeclaredRDP(orders=(8.0,), epsilons=(0.4,))
    rates = [notion.true_positive_rate(rate) for rate in (1e-3, 1e-2, 1e-1)]
    assert rates == pytest.approx([0.0033393809, 0.0250629581, 0.1886650], rel=1e-6)
    a = mpmath.findroot(lambda a: divergence((1 + a) / 2, (1 - a) / 2, 8) - mpmath.mpf("0.4"), 0.23)
    assert a <= notion.advantage() <= a * (1 + 1e-9)


@pytest.mark.parametrize("rho", [1e-6, 0.03, 0.1, 0.5, 2.0])
def test_the_advantage_of_zcdp_is_that_of_its_symmetric_pair(rho: float) -> None:
    """a log((1+a)/(1-a)) = ρ: at x = (1-a)/2 the Kullback–Leibler divergence decides."""
    with mpmath.workdps(30):
        half = mpmath.sqrt(mpmath.mpf(rho) / 2)
        around = (half * mpmath.mpf("0.6"), min(half, 1 - mpmath.mpf("1e-9")))
        a = mpmath.findroot(lambda a: a * mpmath.log((1 + a) / (1 - a)) - mpmath.mpf(rho), around, solver="anderson")
        bound = DeclaredZCDP(rho=rho).advantage()
        assert a <= bound <= a * (1 + mpmath.mpf("1e-8"))


@pytest.mark.parametrize("rho", [0.05, 0.7])
@pytest.mark.parametrize("rate", [1e-3, 0.5, 0.9])
def test_rates_of_zcdp_are_at_least_those_of_its_gaussian(rho: float, rate: float) -> None:
    with mpmath.workdps(30):
        z = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(rate) - 1)
        gaussian = mpmath.ncdf(z + mpmath.sqrt(2 * mpmath.mpf(rho)))
        assert gaussian <= DeclaredZCDP(rho=rho).true_positive_rate(rate) <= gaussian * 1.6


def attained_epsilon(rho: float, delta: float) -> float:
    """The largest ε at δ of Bernoulli pairs whose divergences of many orders are all within ρ-zCDP: about the truth."""
    orders = 1 + np.geomspace(1e-5, 60.0, 2500) / math.sqrt(rho)

    def holds(y: float, x: float) -> bool:
        for p, q in ((y, x), (x, y)):
            first = orders * math.log(p) + (1 - orders) * math.log(q)
            second = orders * math.log1p(-p) + (1 - orders) * math.log1p(-q)
            if (np.logaddexp(first, second) > orders * (orders - 1) * rho * (1 + 1e-9) + 1e-13).any():
                return False
        return True

    def largest(x: float) -> float:
        low, high = x, 1 - 1e-12
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle, x) else (low, middle)
        return low

    def score(x: float) -> float:
        return math.log(max(largest(x) - delta, 1e-300) / x)

    rates = np.geomspace(1e-16, 0.6, 60)
    for _ in range(2):
        best = int(np.argmax([score(float(x)) for x in rates]))
        rates = np.geomspace(rates[max(best - 1, 0)], rates[min(best + 1, rates.size - 1)], 12)
    return max(score(float(x)) for x in rates)


@pytest.mark.parametrize(
    ("rho", "delta"), [(0.1, 0.2), (1.0, 0.5), (1.0, 0.2), (1e-3, 0.01), (0.1, 0.01), (0.1, 1e-5), (10.0, 1e-3)]
)
def test_zcdp_says_what_bernoulli_pairs_attain(rho: float, delta: float) -> None:
    notion, attained = DeclaredZCDP(rho=rho), attained_epsilon(rho, delta)
    found = notion.epsilon_at(delta)
    assert attained * (1 - 1e-5) <= found <= attained * 1.001
    assert delta * (1 - 1e-5) <= notion.delta_at(attained) <= delta * 1.002


def test_several_orders_are_no_worse_than_each_and_better_than_the_chords() -> None:
    both = DeclaredRDP(orders=(2.0, 16.0), epsilons=(0.05, 0.3))
    singles = [DeclaredRDP(orders=(order,), epsilons=(bound,)) for order, bound in ((2.0, 0.05), (16.0, 0.3))]
    for delta in (1e-3, 1e-6):
        assert both.epsilon_at(delta) <= min(single.epsilon_at(delta) for single in singles) * (1 + 1e-9)
    assert both.advantage() <= min(single.advantage() for single in singles) * (1 + 1e-9)


@pytest.mark.parametrize(("orders", "bounds"), [((8.0,), (0.3,)), ((2.0, 20.0), (0.07, 0.4)), ((1.4,), (1.8,))])
def test_the_whole_profile_is_above_every_pair_and_near_the_best(orders: tuple, bounds: tuple) -> None:
    region = RenyiRegion(np.array(orders), np.array(bounds))
    epsilons = np.array([0.0, 0.07, 0.6, 1.9])
    for epsilon, delta in zip(epsilons, region.profile(epsilons), strict=True):
        for rate in np.exp(np.linspace(-14, -0.2, 12)):
            assert delta >= region.true_positive_rate(float(rate)) * (1 - 1e-12) - math.exp(epsilon) * rate
        assert delta <= region.delta(float(epsilon)) * 1.01


def test_tiny_divergences_at_a_tiny_delta_are_not_free() -> None:
    """A Gaussian within the bounds has an ε > 0: a total of P above 1 once made δ(0) negative, and ε = 0 enough."""
    orders, bounds = (16.23447797154691, 26.809070556497073), (7.214057027758934e-11, 5.346689737645604e-12)
    mu = math.sqrt(2 * min(bound / order for order, bound in zip(orders, bounds, strict=True))) * (1 - 1e-12)
    delta = 9.193997553790118e-249
    answer = answer_of([(DeclaredRDP(orders=orders, epsilons=bounds), 1)], Question(delta, None))
    assert answer.upper >= float(gdp_epsilon(mu, delta)) > 1e-5

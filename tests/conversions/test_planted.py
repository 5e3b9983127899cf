"""Bounds hold with functions that err as much as they may: each error that is allowed for is planted where it arises.

Nothing here has slack. Without its allowance each bound is false: half of all unrounded results lie below the truth,
and what no natural error reaches, a planted one does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcalc.conversions import (
    bernoulli,
    fitted,
    gaussian,
    gdp_delta,
    gdp_epsilon,
    gdp_lower,
    gdp_rho,
    gdp_tradeoff,
    normal,
    pure,
    rdp_deltas,
    rdp_epsilons,
    renyi,
    zcdp_epsilon,
)
from dpcalc.conversions.attack import true_positive_rate
from dpcalc.conversions.bernoulli import RenyiRegion
from dpcalc.rounding import UNIT

mpf = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    m, e = mpf(mu), mpf(epsilon)
    a, b = e / m - m / 2, e / m + m / 2
    return mpmath.ncdf(-a) - mpmath.exp(e) * mpmath.ncdf(-b)


# Gaussian privacy


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("low", "high"), [(0.02, 0.5), (0.6, 3.0), (4.0, 9.0)])
def test_the_gaussian_curve_with_erring_ratios(erring: Callable[..., None], sign: int, low: float, high: float) -> None:
    chosen = random.Random(f"{sign} {low}")
    erring(gaussian, mills=-sign * 0.99 * normal.MILLS)
    erring(gaussian, "math", erfc=sign * 0.99 * normal.ERFC, exp=sign * 2 * UNIT, log=2 * UNIT, log1p=-2 * UNIT)
    true_difference = gaussian.mills_difference

    def difference(a: float, h: float) -> tuple[float, float]:
        gap, beyond = true_difference(a, h)
        return gap * (1 + sign * 0.99 * normal.DIFFERENCE), beyond

    gaussian.mills_difference = difference
    try:
        for _ in range(40):
            mu = chosen.uniform(low, high)
            for epsilon in (0.0, chosen.uniform(0, 0.5) * mu * mu, mu * (mu / 2 + chosen.uniform(0.1, 8))):
                assert exact_delta(mu, epsilon) <= gdp_delta(mu, epsilon)
            delta = chosen.choice((0.3 * 10 ** chosen.uniform(-12, 0), chosen.uniform(0.3, 1.0)))
            assert exact_delta(mu, gdp_epsilon(mu, delta)) <= delta
    finally:
        gaussian.mills_difference = true_difference


def test_the_gaussian_curve_near_one() -> None:
    """Where δ is almost 1 the exponential of its logarithm is all that is rounded."""
    chosen = random.Random(3)
    for _ in range(200):
        mu = chosen.uniform(9, 20)
        epsilon = mu * (mu / 2 - chosen.uniform(4.5, 7))
        if epsilon > 0:
            assert gdp_lower(mu, epsilon=epsilon) <= exact_delta(mu, epsilon) <= gdp_delta(mu, epsilon)


def test_lower_bounds_of_epsilon_near_certainty() -> None:
    """The search must end as near the root as δ is to 1."""
    chosen = random.Random(4)
    for _ in range(60):
        mu, delta = chosen.uniform(8, 20), 1 - 10 ** chosen.uniform(-11, -1)
        lower, upper = gdp_lower(mu, delta=delta), gdp_epsilon(mu, delta)
        assert exact_delta(mu, upper) <= delta
        assert lower == 0 or exact_delta(mu, lower) >= delta


@pytest.mark.parametrize("mu", [3.3e16, 7.1e19, 2.9e43, 6.7e120])
def test_epsilon_where_doubles_are_wider_than_the_curve(mu: float) -> None:
    for delta in (0.9, 1e-3, 1e-200):
        with mpmath.workdps(600):
            e, m = mpf(gdp_epsilon(mu, delta)), mpf(mu)
            assert e / m - m / 2 >= mpmath.sqrt(-2 * mpmath.log(delta)) / 2
    for epsilon in (mu * 0.9, mu * 3.7):
        with mpmath.workdps(600):
            found = mpf(pure.pure_dp_mu(epsilon)) / 2
            assert found * found / 2 + mpmath.log(found) >= mpf(epsilon) - 2


@pytest.mark.parametrize("mu", [5e-324, 1.5e-323, 2.5e-318, 3e-310, 2e-308])
def test_the_smallest_parameters(mu: float) -> None:
    assert mpf(mu) / mpmath.sqrt(2 * mpmath.pi) <= gdp_delta(mu, 0.0)
    assert gdp_delta(mu, 1.0) > 0


def test_parameters_whose_half_is_no_double() -> None:
    """13 units of 2^-1074: δ at ε = 0 is 5.19 of them, and would be 4.79 for a half rounded to 6."""
    assert gdp_epsilon(13 * 5e-324, 5 * 5e-324) > 0
    assert 0 < gdp_delta(1e-300, 1e-250) < 1e-300


def test_the_smallest_deltas() -> None:
    """Results below the normal range are off by whole units."""
    chosen = random.Random(5)
    for _ in range(200):
        mu = chosen.uniform(0.5, 2)
        epsilon = mu * (mu / 2 + chosen.uniform(37.4, 38.6))
        assert gdp_lower(mu, epsilon=epsilon) <= exact_delta(mu, epsilon) <= gdp_delta(mu, epsilon)
    assert gdp_delta(1.0, 100.0) > 0
    assert gdp_tradeoff(0.1, 1e-320) >= 1e-320
    assert normal.probability_below(-39.0) > 0
    assert float(rdp_deltas(2.0, 0.1, 2000.0)) > 0


def test_rho_of_a_gaussian() -> None:
    chosen = random.Random(6)
    for _ in range(300):
        sigma = chosen.uniform(0.1, 30)
        for order in (1.0, chosen.uniform(1, 100)):
            assert mpf(gdp_rho(1 / sigma) * order) >= mpf(order) / (2 * mpf(sigma) ** 2)


# The normal distribution


@pytest.mark.parametrize("sign", [-1, 1])
def test_probabilities_with_erring_exponentials(
    monkeypatch: pytest.MonkeyPatch, erring: Callable[..., None], sign: int
) -> None:
    """Logarithms to the last digit, and exponentials that are off by as much as is allowed: both sides of Φ hold."""

    def tail(x: float) -> tuple[float, float]:
        value = float(mpmath.log(mpmath.ncdf(-mpf(x))))
        return value, UNIT * abs(value)

    for module in (normal, fitted):
        monkeypatch.setattr(module, "log_tail", tail)
        erring(module, "math", exp=sign * 3.9 * UNIT)
    chosen = random.Random(11)
    for _ in range(150):
        x = chosen.uniform(-3, 8)
        assert fitted._probability_above(x) <= mpmath.ncdf(mpf(x)) <= normal.probability_below(x)


@pytest.mark.parametrize("sign", [-1, 1])
def test_quantiles_with_erring_tails(monkeypatch: pytest.MonkeyPatch, sign: int) -> None:
    true_tail = normal.log_tail

    def tail(x: float) -> tuple[float, float]:
        value, error = true_tail(x)
        return value + 0.6 * sign * error, error

    monkeypatch.setattr(normal, "log_tail", tail)
    chosen = random.Random(7)
    for _ in range(60):
        logarithm = -(10 ** chosen.uniform(-0.15, 2.8))
        assert mpmath.log(mpmath.ncdf(-mpf(normal.tail_above(logarithm)))) <= logarithm
        assert mpmath.log(mpmath.ncdf(-mpf(normal.tail_below(logarithm)))) >= logarithm
        x = chosen.uniform(-38, 8)
        assert mpmath.ncdf(x) <= normal.probability_below(x)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_middle_with_an_erring_function(erring: Callable[..., None], sign: int) -> None:
    erring(normal, "math", erf=sign * 0.98 * normal.ERFC, log=2 * UNIT, exp=2 * UNIT)
    chosen = random.Random(8)
    for _ in range(80):
        probability = 10 ** chosen.uniform(-12, -0.31)
        assert mpmath.erf(mpf(normal.centre_above(probability)) / mpmath.sqrt(2)) >= probability


@pytest.mark.parametrize("sign", [-1, 1])
def test_true_positive_rates_of_the_gaussian(erring: Callable[..., None], sign: int) -> None:
    erring(normal, "math", exp=sign * 2 * UNIT, log=-sign * 2 * UNIT)
    chosen = random.Random(9)
    for _ in range(150):
        mu, rate = chosen.uniform(0.01, 6), chosen.uniform(0.001, 0.999)
        exact = mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(2 * mpf(rate) - 1) + mpf(mu))
        assert exact <= gdp_tradeoff(mu, rate)


# Pure and approximate privacy


@pytest.mark.parametrize("sign", [-1, 1])
def test_pure_privacy_with_erring_functions(erring: Callable[..., None], sign: int) -> None:
    errors = dict.fromkeys(("exp", "expm1", "log", "log1p", "tanh"), sign * 2 * UNIT)
    erring(pure, "math", **errors)
    chosen = random.Random(10)
    for _ in range(300):
        epsilon = 10 ** chosen.uniform(-4, 1.8)
        e = mpf(epsilon)
        assert e + mpmath.expm1(-e) <= pure.laplace_rho(epsilon)
        assert e * mpmath.tanh(e / 2) <= pure.pure_dp_rho(epsilon)
        delta, share = 10 ** chosen.uniform(-9, -1), 10 ** chosen.uniform(-6, 0)
        d, at = mpf(delta), share * epsilon
        exact = d + (1 - d) * (mpmath.exp(e) - mpmath.exp(mpf(at))) / (1 + mpmath.exp(e))
        assert exact <= pure.dp_delta(epsilon, delta, at)
        wanted = min(1.0, delta + (1 - delta) * chosen.choice((share, 0.999 * chosen.random())))
        inner = 1 - (mpf(wanted) - d) / (1 - d) * (1 + mpmath.exp(-e))
        if inner > 0:
            assert e + mpmath.log(inner) <= pure.dp_epsilon(epsilon, delta, wanted)


def test_rates_beyond_the_range_of_exponentials() -> None:
    """e^720 · 1e-310 is 49, although e^700 · 1e-310 is below 1e-5."""
    assert true_positive_rate(720.0, 0.0, 1e-310) == 1.0
    assert true_positive_rate(800.0, 1e-5, 0.0) == pytest.approx(1e-5)


# Rényi privacy


@pytest.mark.parametrize("sign", [-1, 1])
def test_renyi_conversions_with_erring_functions(erring: Callable[..., None], sign: int) -> None:
    erring(renyi, "np", **dict.fromkeys(("exp", "expm1", "log", "log1p", "sqrt"), sign * 2 * UNIT))
    chosen = random.Random(11)
    for _ in range(300):
        order, rdp = 1 + 10 ** chosen.uniform(-1.3, 2.3), 10 ** chosen.uniform(-4, 0.7)
        epsilon, delta = 10 ** chosen.uniform(-2, 1), 10 ** chosen.uniform(-12, -1)
        a, r, e, d = mpf(order), mpf(rdp), mpf(epsilon), mpf(delta)
        close = min(mpmath.sqrt(r / 2), mpmath.sqrt(-mpmath.expm1(-r)))
        logs = [(a - 1) * (r - e)]
        logs.append(logs[0] + (a - 1) * mpmath.log(1 - 1 / a) - mpmath.log(a))
        logs.append(logs[0] + mpmath.log(mpmath.expm1(-(a - 1) * r) / mpmath.expm1(-(a - 1) * e)) - mpmath.log(a))
        assert min(mpmath.exp(min(logs)), close, mpf(1)) <= float(rdp_deltas(order, rdp, epsilon))
        epsilons = [r - mpmath.log(d) / (a - 1)]
        epsilons.append(r + mpmath.log(1 - 1 / a) - (mpmath.log(a) + mpmath.log(d)) / (a - 1))
        epsilons.append(mpmath.log(1 + mpmath.expm1((a - 1) * r) / (a * d)) / (a - 1))
        if close > d:
            assert max(min(epsilons), mpf(0)) <= float(rdp_epsilons(order, rdp, delta))


def test_total_variation_is_never_below_pinsker() -> None:
    for rdp in np.geomspace(1e-9, 3, 300):
        r = mpf(float(rdp))
        exact = min(mpmath.sqrt(r / 2), mpmath.sqrt(-mpmath.expm1(-r)))
        assert exact <= float(renyi._total_variation(np.asarray(rdp)))


def test_zcdp_whose_best_order_is_out_of_reach() -> None:
    """Bun and Steinke's bound decides there, and is rounded up."""
    chosen = random.Random(12)
    for _ in range(40):
        rho, delta = 10 ** chosen.uniform(16, 20), 10 ** chosen.uniform(-9, -1)
        exact = mpf(rho) + 2 * mpmath.sqrt(mpf(rho) * mpmath.log(1 / mpf(delta)))
        assert exact <= zcdp_epsilon(rho, delta) <= exact * (1 + mpf("1e-12"))


# Bernoulli pairs


def divergence(p: mpmath.mpf, q: mpmath.mpf, order: float) -> mpmath.mpf:
    a = mpf(order)
    if a == 1:
        return p * mpmath.log(p / q) + (1 - p) * mpmath.log((1 - p) / (1 - q))
    return mpmath.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)


def rate(odds: float) -> mpmath.mpf:
    return 1 / (1 + mpmath.exp(-mpf(odds)))


def test_divergences_are_never_above_the_truth() -> None:
    generator = np.random.default_rng(13)
    orders = np.array([1.0, 1 + 1e-6, 1.01, 1.5, 8.0, 60.0])
    for _ in range(60):
        first, second = generator.uniform(-4, 4, size=2)
        if abs(first - second) > 0.2:
            found = bernoulli._divergences(np.array([first]), np.array([second]), orders)[0]
            for order, value in zip(orders, found, strict=True):
                exact = divergence(rate(float(first)), rate(float(second)), float(order))
                assert value <= exact
                assert value >= exact * (1 - mpf("1e-12") - mpf("1e-12") / (abs(order - 1) or 1))


def test_rates_of_near_pairs_are_never_below_the_truth() -> None:
    """Pairs so near that what lowers their divergence does not hide the rounding of their rates."""
    generator = np.random.default_rng(14)
    for _ in range(40):
        x = float(np.exp(generator.uniform(-30, -3)))
        y = x * (1 + float(np.exp(generator.uniform(-9, -5))))
        order = float(1 + np.exp(generator.uniform(0, 3)))
        worst = max(divergence(mpf(y), mpf(x), order), divergence(mpf(x), mpf(y), order))
        bound = math.nextafter(float(worst), math.inf)
        assert RenyiRegion(np.array([order]), np.array([bound])).true_positive_rate(x) >= y


@pytest.fixture
def careless_rates(monkeypatch: pytest.MonkeyPatch) -> float:
    """True positive rates that err by as much as they may, here by a twentieth."""
    allowed = 0.05
    true_largest = RenyiRegion._largest

    def largest(self: RenyiRegion, odds: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bernoulli, "_ROUNDING", 1e-13)
            rates = bernoulli._rate(true_largest(self, odds)) * (1 - 0.9 * allowed)
        return np.log(rates) - np.log1p(-rates)

    monkeypatch.setattr(RenyiRegion, "_largest", largest)
    monkeypatch.setattr(bernoulli, "_ROUNDING", allowed)
    return allowed


@pytest.mark.parametrize(("order", "rho"), [(8.0, 0.4), (2.0, 0.05)])
def test_erring_rates_do_not_make_a_bound_false(careless_rates: float, order: float, rho: float) -> None:
    """The pair (y, x) with a divergence of ρ in the worse direction bounds everything from below."""
    region = RenyiRegion(np.array([order]), np.array([rho]))
    for odds in (-4.0, -1.0):
        x = rate(odds)
        y = mpmath.findroot(
            lambda y, x=x: max(divergence(y, x, order), divergence(x, y, order)) - rho,
            (x * mpf("1.0001"), 1 - (1 - x) * mpf("1e-6")),
            solver="anderson",
            tol=1e-12,
        ) * (1 - mpf("1e-5"))
        assert region.true_positive_rate(float(x)) >= y
        for share in (0.0, 0.7):
            epsilon = share * float(mpmath.log(y / x))
            delta = y - mpmath.exp(epsilon) * x
            assert region.delta(epsilon) >= delta
            assert float(region.profile(np.array([epsilon]))[0]) >= delta
            assert region.epsilon(float(delta)) >= epsilon


def test_erring_logarithms_do_not_make_epsilon_false(careless_rates: float, erring: Callable[..., None]) -> None:
    """At order 2 and ρ = log 4 the largest y is x + √(3x(1 − x)) up to 1/2: ε at δ = .2 is at least what these give."""
    pairs = [(x, x + math.sqrt(3 * x * (1 - x))) for x in np.linspace(0.02, 0.06, 400).tolist()]
    exact = max(math.log((y - 0.2) / x) for x, y in pairs if y < 0.5)
    erring(bernoulli, "np", log=0.8 * careless_rates)
    assert RenyiRegion(np.array([2.0]), np.array([math.log(4)])).epsilon(0.2) >= exact

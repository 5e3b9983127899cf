"""What a budget's filter allows: closed forms, published counts, and equality."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpcalc.errors import InputError
from dpcalc.ledger import amounts
from dpcalc.ledger.measure import Measure
from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.requests import asked
from dpcalc.ledger.units import INFINITE, add, float_up
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled


def fitting(terms, mechanism, most=10**7) -> int:
    """How many releases fit into an empty budget."""
    low, high = 0, 1
    while high <= most and terms.fits(terms.measure.cost(((mechanism, high),))):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if terms.fits(terms.measure.cost(((mechanism, middle),))) else (low, middle)
    return low


def test_the_gdp_filter_takes_as_many_gaussians_as_their_composition_allows() -> None:
    assert fitting(open_terms("b", epsilon=3, delta=1e-5, filter="gdp"), DeclaredGDP(mu=0.05)) == 206
    assert fitting(open_terms("b", epsilon=8, delta=1e-8, filter="gdp"), DeclaredGDP(mu=0.05)) == 714


@pytest.mark.parametrize("count", [3, 7, 10, 1000, 10**6])
@pytest.mark.parametrize("whole", [0.09, 0.3, 1.7])
def test_equal_shares_of_a_stated_rho_fill_it_and_one_more_does_not(whole, count) -> None:
    terms = open_terms("b", rho=whole)
    share = terms.measure.cost(((DeclaredZCDP(rho=whole / count), 1),))
    total = tuple(count * value for value in share)  # one by one, not as one entry with a count
    assert terms.fits(total)
    assert not terms.fits(add(total, share))


@pytest.mark.parametrize("mu", [0.5, 1.0, 1.3])
@pytest.mark.parametrize("count", [2, 3, 49, 1000])
def test_equal_shares_of_a_stated_mu_fill_it_and_one_more_does_not(mu, count) -> None:
    terms = open_terms("b", mu=mu)
    share = terms.measure.cost(((Gaussian(noise_multiplier=math.sqrt(count) / mu), 1),))
    total = tuple(count * value for value in share)
    assert terms.fits(total)
    assert not terms.fits(add(total, share))
    assert mu <= terms.guarantee().mu <= mu * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "step", "count"), [(1.0, 0.1, 10), (3.0, 0.3, 10), (0.7, 0.07, 10), (2.0, 0.4, 5)])
def test_basic_composition_is_free(epsilon, step, count) -> None:
    """Σε_t ≤ ε passes though the mixture alone would refuse it, and equality counts as typed."""
    terms = open_terms("b", epsilon=epsilon, delta=1e-6)
    assert fitting(terms, DeclaredDP(epsilon=step)) == count
    for mechanism in (Laplace(scale=1 / step), Exponential(epsilon=step), RandomizedResponse(epsilon=step)):
        assert fitting(terms, mechanism) >= count


def test_one_gaussian_release_brings_back_what_pure_ones_have_spent() -> None:
    terms = open_terms("b", epsilon=1.0, delta=1e-6)
    pure = terms.measure.cost(((DeclaredDP(epsilon=0.1), 10),))
    assert terms.fits(pure)
    assert not terms.fits(add(pure, terms.measure.cost(((Gaussian(noise_multiplier=50), 1),))))


def test_the_delta_of_releases_is_counted_apart() -> None:
    terms = open_terms("b", epsilon=2.0, delta=1e-6)
    one = terms.measure.cost(((DeclaredDP(epsilon=0.01, delta=1e-7), 1),))
    assert terms.fits(tuple(5 * value for value in one))
    assert not terms.fits(tuple(6 * value for value in one))
    assert float_up(one[-2]) == pytest.approx(1e-7, rel=1e-15)


def test_the_steps_share_of_delta_can_be_chosen() -> None:
    terms = open_terms("b", epsilon=2.0, delta=1e-6, step_delta=9e-7)
    one = terms.measure.cost(((DeclaredDP(epsilon=0.01, delta=1e-7), 1),))
    assert terms.fits(tuple(9 * value for value in one))
    assert terms.mixture.delta + 9e-7 - terms.mixture.delta * 9e-7 <= 1e-6


def test_a_sampled_declared_guarantee_is_charged_by_amplification() -> None:
    """(ε,δ) sampled at q is (log(1 + q(e^ε − 1)), qδ)-DP (Balle, Barthe, Gaboardi 2018, Theorem 8)."""
    sampled = PoissonSampled(base=DeclaredDP(epsilon=1.2, delta=1e-6), sampling_rate=0.02)
    *_, failure, loss = Measure("rdp", (2.0, 16.0)).cost(((sampled, 3),))
    assert float_up(failure) == pytest.approx(3 * 0.02 * 1e-6, rel=1e-12)
    assert float_up(loss) == pytest.approx(3 * math.log1p(0.02 * math.expm1(1.2)), rel=1e-12)


def test_orders_that_a_declared_curve_does_not_reach_are_lost_and_the_rest_stands() -> None:
    terms = open_terms("b", epsilon=3.0, delta=1e-5)
    cost = terms.measure.cost(((DeclaredRDP(orders=(2, 4, 8, 16), epsilons=(0.01, 0.02, 0.04, 0.08)), 1),))
    by_order = dict(zip(terms.orders, cost, strict=False))
    assert by_order[128] == INFINITE
    assert float_up(by_order[8]) == pytest.approx(0.04, rel=1e-9)
    assert terms.fits(cost)


def test_a_plan_gives_half_of_the_weight_to_its_own_order() -> None:
    run = PoissonSampled(base=Gaussian(noise_multiplier=1.0), sampling_rate=0.01)
    blind = open_terms("b", epsilon=3, delta=1e-5, filter="rdp")
    planned = open_terms("b", epsilon=3, delta=1e-5, plan=asked([(run, 1000)], "add-remove"))
    assert planned.filter == "rdp"
    assert planned.weights[0] == 0.5
    assert fitting(planned, run) > 1.1 * fitting(blind, run)


def test_auto_takes_gdp_for_a_gaussian_plan_and_says_why() -> None:
    terms = open_terms("b", epsilon=3, delta=1e-5, plan=asked([(Gaussian(noise_multiplier=20), 10)], "add-remove"))
    assert terms.filter == "gdp"
    assert "20 times" in terms.reason  # 206 of μ = .05, ten at a time


def test_what_has_no_mu_is_refused_by_a_gdp_filter_with_the_reason() -> None:
    terms = open_terms("b", mu=1.0)
    with pytest.raises(InputError, match="no finite μ"):
        terms.measure.cost(((DeclaredZCDP(rho=0.1), 1),))
    with pytest.raises(InputError, match="needs the GDP filter"):
        open_terms("b", mu=1.0, filter="rdp")


@pytest.mark.parametrize("kind", ["gdp", "rdp"])
def test_spent_and_remaining_are_on_the_safe_side(kind) -> None:
    terms = open_terms("b", epsilon=3.0, delta=1e-6, filter=kind)
    total = terms.measure.cost(((Gaussian(noise_multiplier=20), 30),))
    spent, left = amounts.spent(terms, total), amounts.remaining(terms, total)
    mu = math.sqrt(30) / 20
    exact = norm.cdf(-spent["epsilon"] / mu + mu / 2) - math.exp(spent["epsilon"]) * norm.cdf(
        -spent["epsilon"] / mu - mu / 2
    )
    assert exact <= 1e-6 * (1 + 1e-9)
    assert 0 < amounts.level(terms, total) < 1
    if kind == "gdp":
        more = terms.measure.cost(((DeclaredGDP(mu=left["mu"]), 1),))
    else:
        more = terms.measure.cost(((DeclaredDP(epsilon=left["epsilon"], delta=left["delta"]), 1),))
    assert terms.fits(add(total, more))


def test_nothing_is_spent_of_a_new_budget() -> None:
    for terms in (open_terms("b", epsilon=1, delta=1e-6), open_terms("b", epsilon=1, delta=1e-6, filter="gdp")):
        nothing = terms.measure.nothing
        assert amounts.level(terms, nothing) == 0
        assert amounts.spent(terms, nothing)["epsilon"] == 0
        assert amounts.remaining(terms, nothing)["epsilon"] == pytest.approx(1, rel=1e-9)


def test_costs_of_gaussians_are_never_below_the_exact_square() -> None:
    from fractions import Fraction

    from dpcalc.ledger.units import UNIT

    for multiplier in np.random.default_rng(3).uniform(0.5, 300, 200):
        (cost,) = Measure("gdp").cost(((Gaussian(noise_multiplier=float(multiplier)), 7),))
        exact = 7 / Fraction(float(multiplier)) ** 2
        assert exact <= Fraction(cost, UNIT) <= exact * (1 + Fraction(1, 10**13))


def test_losses_and_deltas_that_were_computed_are_never_below_the_exact_ones() -> None:
    from fractions import Fraction

    import mpmath

    from dpcalc.ledger.units import UNIT

    def exact(value: float) -> mpmath.mpf:
        return mpmath.mpf(str(value))

    generator = np.random.default_rng(5)
    measure = Measure("rdp", (2.0,))
    with mpmath.workdps(50):
        for _ in range(300):
            epsilon, rate, scale = (round(float(x), 3) for x in generator.uniform((0.01, 0.01, 0.5), (3, 0.9, 30)))
            sampled = PoissonSampled(base=DeclaredDP(epsilon=epsilon, delta=3e-7), sampling_rate=rate)
            *_, failure, loss = measure.cost(((sampled, 1),))
            *_, laplace = measure.cost(((Laplace(scale=scale), 1),))
            for charged, truth in (
                (failure, exact(rate) * exact(3e-7)),
                # The part of mass δ that a record added takes away has the loss −log(1−q).
                (loss, max(mpmath.log1p(exact(rate) * mpmath.expm1(exact(epsilon))), -mpmath.log1p(-exact(rate)))),
                (laplace, 1 / exact(scale)),
            ):
                found = Fraction(charged, UNIT)
                ratio = mpmath.mpf(found.numerator) / found.denominator / truth
                assert 1 <= ratio < 1 + 1e-14


def test_what_is_asked_beyond_the_budget_is_told_in_full() -> None:
    terms = open_terms("b", epsilon=1.0, delta=1e-6)
    cost = terms.measure.cost(((Gaussian(noise_multiplier=1), 4),))
    exact = 12.39  # a 2-GDP mechanism at δ = 1e-6 has ε = 12.396
    assert amounts.spent(terms, cost)["epsilon"] > exact
    assert amounts.spent(terms, terms.measure.cost(((DeclaredDP(epsilon=2.5), 2),)))["epsilon"] <= 5.0

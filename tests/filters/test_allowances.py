"""Each allowance of a rule is needed: with errors of the size that it says, the guarantee holds by it and not without.

The tolerance is planted (1e-3 instead of 2.5e-13), sums are put exactly where they are just accepted, and everything is
compared in rational numbers, without any slack.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc import conversions
from dpcalc.filters.filters import GlobalFilter, IndividualFilter
from dpcalc.filters.odometer import Odometer
from dpcalc.filters.rule import ROUNDING, Rule, storage_tolerance
from dpcalc.filters.rules import dp_rule, gdp_rule, own_delta_split, rdp_rule, unlimited

# What a sum in two parts may be off by, relative to the budget (`totals`), and an error on top of a planted tolerance.
SUMS = Fraction(1, 2**45)
PLANTED = [ROUNDING, 1e-6, 1e-3]
RNG = np.random.default_rng(8)
CASES = [tuple(10 ** RNG.uniform(-2, 2, 3)) for _ in range(12)]


def largest_sum(rule: Rule, row: int = 0) -> Fraction:
    """The largest true sum of costs that the filter may accept in a row."""
    return Fraction(float(rule.accepted[row])) * (1 + SUMS)


@pytest.mark.parametrize("tolerance", PLANTED)
@pytest.mark.parametrize(("budget", "sigma", "epsilon"), CASES)
def test_the_stated_mu_covers_every_sum_that_is_accepted(
    tolerance: float, budget: float, sigma: float, epsilon: float
) -> None:
    stated = [gdp_rule(sigma=sigma, mu=budget, tolerance=tolerance)]
    stated.append(gdp_rule(sigma=sigma, norm_budget=budget, tolerance=tolerance))
    for rule in stated:
        assert largest_sum(rule) <= (Fraction(rule.notion.gdp()) * Fraction(sigma)) ** 2
    # A budget (ε,δ) has the tolerance inside it: what is accepted is within the μ that gives (ε,δ).
    rule = gdp_rule(sigma=sigma, epsilon=epsilon, delta=1e-6, tolerance=tolerance)
    assert rule.notion.gdp() == conversions.gdp_mu(epsilon, 1e-6)
    assert largest_sum(rule) <= (Fraction(rule.notion.gdp()) * Fraction(sigma)) ** 2


@pytest.mark.parametrize("tolerance", PLANTED)
@pytest.mark.parametrize(("budget", "sigma", "epsilon"), CASES)
def test_the_stated_rho_covers_every_sum_that_is_accepted(
    tolerance: float, budget: float, sigma: float, epsilon: float
) -> None:
    for rule in (
        rdp_rule(sigma=sigma, mu=budget, tolerance=tolerance),
        rdp_rule(sigma=sigma, norm_budget=budget, tolerance=tolerance),
        rdp_rule(sigma=sigma, orders=[4], rhos=[budget], tolerance=tolerance),
        rdp_rule(sigma=sigma, epsilon=epsilon, delta=1e-6, tolerance=tolerance),
    ):
        assert largest_sum(rule) <= 2 * Fraction(rule.notion.zcdp()) * Fraction(sigma) ** 2
    assert rule.notion.zcdp() == conversions.zcdp_rho(epsilon, 1e-6)


@pytest.mark.parametrize("tolerance", PLANTED)
@pytest.mark.parametrize(("budget", "order", "epsilon"), CASES)
def test_the_stated_rdp_covers_every_sum_that_is_accepted(
    tolerance: float, budget: float, order: float, epsilon: float
) -> None:
    order += 30
    stated = rdp_rule(quantity="rho", orders=[order], rhos=[budget], tolerance=tolerance)
    assert largest_sum(stated) <= Fraction(float(stated.notion.rdp(np.array([order]))[0]))
    inside = rdp_rule(quantity="rho", orders=[order], epsilon=1 + epsilon, delta=1e-6, tolerance=tolerance)
    accepted = float(largest_sum(inside))
    assert conversions.rdp_epsilons([order], [accepted], 1e-6)[0] <= 1 + epsilon


@pytest.mark.parametrize("tolerance", PLANTED)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 7.0])
def test_a_mixture_is_asked_about_the_largest_true_sums(tolerance: float, epsilon: float) -> None:
    """The last sums that the rule admits, as large as they may truly be, are still allowed by the mixture itself."""
    rule = dp_rule(epsilon=epsilon, delta=1e-6, tolerance=tolerance)
    cost = rule.costs(np.array([1e-3 * epsilon]))[:, 0]
    low, high = 0.0, 1e9
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if rule.admits(middle * cost[:, None])[0] else (low, middle)
    true = low * cost * (1 + tolerance) * (1 + float(SUMS))
    assert rule.mixture is not None
    assert rule.mixture.allows(true[:1], math.inf)
    assert not rule.mixture.allows(true[:1] * (1 + 3 * tolerance + 1e-9), math.inf)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 3.0])
def test_steps_far_below_the_budget_are_counted(epsilon: float) -> None:
    """Twenty steps of a twentieth fit exactly by basic composition; their RDP, of the order of ε², is not lost."""
    rule = dp_rule(epsilon=epsilon, delta=1e-10)
    run = GlobalFilter(rule)
    assert all(run.step(epsilon / 20) for _ in range(20))
    assert run.spent == pytest.approx(epsilon, rel=1e-12)
    assert not run.step(10 * epsilon)
    tiny = IndividualFilter(rule, individuals=1)
    for _ in range(50):
        tiny.step([epsilon * 1e-4])
    assert tiny.totals[:, 0] == pytest.approx(
        50 * rule.costs(np.array([epsilon * 1e-4]))[:, 0], rel=1e-9, abs=1e-18 * epsilon
    )


def test_the_verdict_on_a_small_budget_is_as_sharp_as_its_filter() -> None:
    """A run that is over is tracked in units of its budget, not of 1."""
    budget = gdp_rule(quantity="mu", mu=1e-9)
    for count, within in ((1000, True), (1001, False)):
        tracked = IndividualFilter(budget.without_limits(), individuals=1)
        for _ in range(count):
            tracked.step([1e-9 / math.sqrt(1000)])
        assert budget.admits(tracked.totals)[0] == within


def test_nothing_spent_is_within_every_budget() -> None:
    rule = rdp_rule(quantity="rho", several_orders=True, orders=[2, 3], epsilon=1e-3, delta=1e-9)
    assert rule.admits(np.zeros((2, 1)))[0]
    assert not rule.admits(np.full((2, 1), 1e-9))[0]


@pytest.mark.parametrize("tolerance", PLANTED)
@pytest.mark.parametrize("steps", [1e-9, 3.3e-7, 9e-7])
def test_what_the_own_deltas_pass_their_part_by_is_paid_by_the_other(tolerance: float, steps: float) -> None:
    split = own_delta_split(1e-6, steps, tolerance)
    rule = dp_rule(epsilon=1.0, delta=split.filter, tolerance=tolerance).with_split(split)
    together = 1 - (1 - Fraction(split.filter)) * (1 - largest_sum(rule, row=-1))
    assert together <= Fraction(1e-6)


@pytest.mark.parametrize("tolerance", PLANTED)
@pytest.mark.parametrize(("kind", "power"), [("gdp", 2), ("rdp", 1)])
def test_an_odometer_covers_what_a_stretch_accepts(tolerance: float, kind: str, power: int) -> None:
    """A stretch that is filled to the last bit that it accepts, over and over."""
    rule = unlimited(kind, quantity="mu" if kind == "gdp" else "rho", tolerance=tolerance)  # type: ignore[arg-type]
    width = 0.7
    odometer = Odometer(rule, width=width, individuals=1)
    full = width * (1 + tolerance) ** (1 / power) * (1 - 1e-14)
    for step in range(4):
        odometer.step(step, np.array([full]))
    assert odometer.restarts.tolist() == [3]
    for count, loss in enumerate(odometer.losses(np.arange(1, 5)).tolist(), start=1):
        assert count * Fraction(width) ** power * (1 + Fraction(tolerance)) * (1 + SUMS) <= Fraction(loss) ** power


@pytest.mark.parametrize("seed", range(4))
def test_norms_that_were_rounded_down_when_stored_are_charged_in_full(seed: int) -> None:
    """At order 2 the subsampled RDP is log(1 + q²(e^u − 1)) (Mironov, Talwar, Zhang 2019), here at the true norm."""
    rng = np.random.default_rng(seed)
    norms = rng.uniform(0.1, 4.0, 4000)
    stored = norms.astype(np.float32)
    rule = rdp_rule(
        sigma=1.0, orders=[2], rhos=[1.0], sampling_rate=0.02, tolerance=storage_tolerance(np.dtype(np.float32))
    )
    exact = np.log1p(0.02**2 * np.expm1(norms**2))
    assert np.any(stored < norms)
    assert np.all(rule.costs(stored.astype(np.float64))[0] >= exact)

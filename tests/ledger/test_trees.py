"""The best adversary there is, found by exact enumeration, stays within what a ledger's own rule lets it spend.

An adversary is a tree: after each outcome it takes the release that serves it best, or stops. With finitely many
outcomes the largest δ(ε) that any tree reaches is a maximum over finitely many choices, computed from the last step
back. Each rule below that looks alike but is not proved is beaten here by its own tree; a ledger is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpcalc.ledger.opening import open_terms
from dpcalc.ledger.terms import Terms
from dpcalc.ledger.units import INFINITE, Vector, units_up
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import DeclaredDP, DeclaredGDP
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled

Outcomes = tuple[tuple[float, float], ...]  # P-masses and losses


def beyond(epsilon: float, loss: float) -> float:
    """(1 − e^{ε−ℓ})₊, whose mean under P is δ(ε)."""
    return max(0.0, -math.expm1(epsilon - loss))


def pure(epsilon: float, delta: float = 0.0) -> tuple[Mechanism, Outcomes]:
    """(ε,δ)-DP at its worst (Kairouz, Oh, Viswanath 2015)."""
    yes = (1 - delta) / (1 + math.exp(-epsilon))
    outcomes: Outcomes = ((yes, epsilon), (1 - delta - yes, -epsilon))
    return DeclaredDP(epsilon=epsilon, delta=delta), (*outcomes, (delta, math.inf)) if delta else outcomes


def quantised_gaussian(mu: float, cuts: Sequence[float]) -> tuple[Mechanism, Outcomes]:
    """A Gaussian of which the adversary sees only between which cuts it fell."""
    edges = np.array([-math.inf, *cuts, math.inf])
    p, q = np.diff(norm.cdf(edges - mu)), np.diff(norm.cdf(edges))
    return DeclaredGDP(mu=mu), tuple((float(a), math.log(a / b)) for a, b in zip(p, q, strict=True))


def randomized_sampled(rate: float, epsilon: float) -> tuple[Mechanism, Outcomes]:
    """Randomised response on a Poisson sample, a record removed."""
    yes, no = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    mixed = [((1 - rate) * b + rate * a, b) for a, b in ((yes, no), (no, yes))]
    mechanism = PoissonSampled(base=RandomizedResponse(epsilon=epsilon), sampling_rate=rate)
    return mechanism, tuple((a, math.log(a / b)) for a, b in mixed)


def best_adversary(terms: Terms, menu: Sequence[tuple[Mechanism, Outcomes]]) -> float:
    """The largest δ(ε) that any choice of releases, each made from all outcomes so far, reaches within the budget."""
    assert terms.epsilon is not None
    epsilon = terms.epsilon
    costs = [terms.measure.cost(((mechanism, 1),)) for mechanism, _ in menu]

    @cache
    def fits(counts: tuple[int, ...]) -> bool:
        return terms.fits(
            tuple(sum(n * c[k] for n, c in zip(counts, costs, strict=True)) for k in range(len(costs[0])))
        )

    @cache
    def value(seen: tuple[tuple[int, ...], ...]) -> float:
        """`seen` counts every outcome of every release."""
        losses = [loss for _, outcomes in menu for _, loss in outcomes]
        counted = [n for found in seen for n in found]
        loss = sum(n * each for n, each in zip(counted, losses, strict=True) if n)
        best = beyond(epsilon, loss)
        if best == 1.0:
            return best
        for i, (_, outcomes) in enumerate(menu):
            counts = tuple(sum(found) + (j == i) for j, found in enumerate(seen))
            if fits(counts):
                after = (
                    p * value((*seen[:i], tuple(n + (j == o) for j, n in enumerate(seen[i])), *seen[i + 1 :]))
                    for o, (p, _) in enumerate(outcomes)
                )
                best = max(best, math.fsum(after))
        return best

    return value(tuple((0,) * len(outcomes) for _, outcomes in menu))


def rule(epsilon: float, delta: float, orders: tuple[float, ...], *, step_delta: float) -> Terms:
    """A budget with these orders, equally weighted."""
    limit = {"epsilon": epsilon, "delta": delta, "step_delta": step_delta}
    weights = (1 / len(orders),) * len(orders)
    kind = {"filter": "rdp", "adjacency": "add-remove", "unit": "person"}
    return Terms(name="b", orders=orders, weights=weights, **limit, **kind)  # type: ignore[arg-type]


MENUS = {
    "pure": [pure(0.3), pure(0.6), pure(1.0)],
    "with their own δ": [pure(0.5), pure(0.2, 0.01), pure(0.0, 0.005)],
    "quantised Gaussians": [quantised_gaussian(0.45, (0.5, 1.2)), quantised_gaussian(0.8, (0.9,)), pure(0.4)],
    "sampled": [randomized_sampled(0.3, 1.5), pure(0.35), quantised_gaussian(0.6, (0.8,))],
}


@pytest.mark.parametrize("menu", MENUS)
@pytest.mark.parametrize(("epsilon", "delta", "step_delta"), [(1.0, 0.2, 0.1), (0.3, 0.3, 0.1), (2.0, 0.1, 0.05)])
def test_the_best_tree_stays_within_the_mixture_of_orders(menu, epsilon, delta, step_delta) -> None:
    terms = open_terms("b", epsilon=epsilon, delta=delta, filter="rdp", step_delta=step_delta)
    assert 0.05 * delta < best_adversary(terms, MENUS[menu]) <= delta


def test_the_best_tree_stays_within_few_orders_and_wastes_little() -> None:
    """Two orders, and steps small enough for a tree of eleven: a rule that were much too careful would show."""
    terms = rule(0.5, 0.2, (1.8, 4.0), step_delta=1e-9)
    assert 0.4 * 0.2 < best_adversary(terms, [pure(0.2), pure(0.4)]) <= 0.2


@pytest.mark.parametrize(("epsilon", "delta"), [(1.2, 0.05), (0.5, 0.1), (2.0, 0.03)])
def test_the_best_tree_stays_within_the_gdp_filter(epsilon, delta) -> None:
    menu = [quantised_gaussian(0.3, (0.4, 1.0)), quantised_gaussian(0.5, (0.7,)), pure(0.3)]
    reached = best_adversary(open_terms("b", epsilon=epsilon, delta=delta, filter="gdp"), menu)
    assert 0.3 * delta < reached <= delta


def test_no_stopping_rule_gains_on_the_gdp_filter() -> None:
    """B = 1, ε = 1: δ_B(1) = .1269367; a walk of 64 Gaussian steps that may stop at any time reaches less than that.

    Stopping is all there is to choose: going on with less of the rest is going on and stopping later.
    """
    terms = open_terms("b", mu=1.0)
    steps, epsilon = 64, 1.0
    step = 1 / math.sqrt(steps)
    assert terms.fits(terms.measure.cost(((DeclaredGDP(mu=step), steps),)))
    assert not terms.fits(terms.measure.cost(((DeclaredGDP(mu=step), steps + 1),)))
    losses = np.linspace(-6, 8, 2801)
    points, weights = np.polynomial.hermite_e.hermegauss(24)
    stopped = np.maximum(-np.expm1(epsilon - losses), 0.0)
    value = stopped.copy()
    for _ in range(steps):
        after = np.interp(losses[:, None] + step * points + step * step / 2, losses, value)
        value = np.maximum(stopped, after @ weights / weights.sum())
    reached = float(np.interp(0.0, losses, value))
    assert 0.11 < reached <= 0.1269367375 + 1e-4  # the grid's own error


def pair(*points: tuple[float, float]) -> Outcomes:
    """P-masses at losses, the rest of P at the one loss with which Q sums to one."""
    rest, q = 1 - sum(p for p, _ in points), 1 - sum(p * math.exp(-loss) for p, loss in points)
    return (*points, (rest, math.log(rest / q)))


def charged(orders: Sequence[float], *steps: Outcomes, delta: float = 0.0) -> Vector:
    """What steps cost at each order, both directions, their own δ, and that nothing else bounds their losses."""
    total = [0.0] * len(orders)
    for step in steps:
        for k, order in enumerate(orders):
            there = math.log(sum(p * math.exp((order - 1) * loss) for p, loss in step)) / (order - 1)
            back = math.log(sum(p * math.exp(-order * loss) for p, loss in step)) / (order - 1)
            total[k] += max(there, back)
    return (*(units_up(value) for value in total), units_up(delta), INFINITE)


def realised(epsilon: float, *steps: tuple[float, Outcomes]) -> float:
    """Σ over a first outcome (its P-mass and its loss are the step's first pair) of what the second step reaches."""
    return sum(mass * beyond(epsilon, loss) for weight, step in steps for p, loss in step for mass in (weight * p,))


def shifted(step: Outcomes, by: float) -> Outcomes:
    return tuple((p, loss + by) for p, loss in step)


def test_two_orders_do_not_spend_the_same_delta_twice() -> None:
    """Orders 4 and 60, ε = 6: going on while either is within what alone gives (ε,δ) reaches 1.93356e-6 of 1e-6."""
    orders, delta = (4.0, 60.0), 1e-6
    first = pair((0.65, 0.65), (6.8e-5, 1.54))
    seconds = [pair((5.8e-6, 5.645)), pair((0.8, 4.478))]
    branches = [(first[i][0], shifted(second, first[i][1])) for i, second in enumerate(seconds)]
    assert realised(6.0, *branches) == pytest.approx(1.93356e-6, rel=1e-5)
    alone = [6 + (math.log(delta) - math.log((1 / a) * (1 - 1 / a) ** (a - 1))) / (a - 1) for a in orders]
    assert alone == pytest.approx([2.144610, 5.852042], abs=1e-6)
    costs = [charged(orders, first, second) for second in seconds]
    for k, cost in enumerate(costs):  # each branch is within one order's own budget
        assert cost[k] <= units_up(alone[k])
    terms = rule(6.0, delta, orders, step_delta=1e-12)
    allowed = [branch for branch, cost in zip(branches, costs, strict=True) if terms.fits(cost)]
    assert realised(6.0, *allowed) <= delta


def test_what_the_steps_left_of_delta_is_not_for_the_tail() -> None:
    """Order 60, ε = 6: on one outcome the tail takes all of δ = 1e-6, on the others a step's own δ does: 1.99192e-6.

    With halves fixed beforehand the same tree, as large as the ledger lets it be, reaches nearly 1e-6 and not more.
    """
    first, order = pair((0.001, 1.0)), (60.0,)

    def reached(tail_mass: float, own: float) -> float:
        on_it = (first[0][0], shifted(pair((tail_mass, 5.0168)), 1.0))
        return realised(6.0, on_it) + (1 - first[0][0]) * own

    assert reached(0.0596, 1e-6) == pytest.approx(1.99192e-6, rel=1e-5)
    terms = rule(6.0, 1e-6, order, step_delta=5e-7)
    assert not terms.fits(charged(order, first, pair((0.0596, 5.0168))))
    assert not terms.fits(charged(order, first, delta=1e-6))
    assert terms.fits(charged(order, first, delta=5e-7))
    low, high = 0.0, 0.0596
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if terms.fits(charged(order, first, pair((middle, 5.0168)))) else (low, middle)
    assert 0.98e-6 < reached(low, 5e-7) <= 1e-6


def test_what_the_composed_curve_allows_is_refused_by_every_filter() -> None:
    """ε = 4: μ = 1, then by outcome RR(2) or μ = 1.25249616: either list has δ = .01842947762, the run .02854710."""
    epsilon, mu, second = 4.0, 1.0, 1.25249616
    whole = math.hypot(mu, second)
    delta = norm.cdf(-epsilon / whole + whole / 2) - math.exp(epsilon) * norm.cdf(-epsilon / whole - whole / 2)
    assert delta == pytest.approx(0.01842947762, rel=1e-7)
    response = pure(2.0)[1]

    def by_response(loss: float) -> float:
        return sum(p * beyond(epsilon, loss + more) for p, more in response)

    def by_gaussian(loss: float) -> float:
        rest = epsilon - loss
        return float(norm.cdf(-rest / second + second / 2) - math.exp(rest) * norm.cdf(-rest / second - second / 2))

    def mean(of, low: float, high: float) -> float:
        return quad(lambda loss: norm.pdf(loss - mu * mu / 2) * of(loss), low, high, epsabs=1e-12, limit=400)[0]

    assert mean(by_response, -9, 2) + mean(by_response, 2, 6) + mean(by_response, 6, 11) == pytest.approx(
        delta, rel=1e-6
    )
    run = mean(by_gaussian, -9, 2.0934) + mean(by_response, 2.0934, 5.9066) + mean(by_gaussian, 5.9066, 11)
    assert run == pytest.approx(0.02854710, rel=1e-5)
    for kind in ("gdp", "rdp"):
        terms = open_terms("b", epsilon=epsilon, delta=float(delta) * (1 + 1e-9), filter=kind)
        assert not terms.fits(terms.measure.cost(((DeclaredGDP(mu=mu), 1), (DeclaredDP(epsilon=2.0), 1))))


@pytest.mark.parametrize(
    ("epsilon", "delta", "mechanism", "count"),
    [
        (3.0, 1e-5, DeclaredGDP(mu=0.05), 149),
        (3.0, 1e-5, RandomizedResponse(epsilon=0.05), 154),
        (8.0, 1e-8, DeclaredGDP(mu=0.05), 588),
        (8.0, 1e-8, Laplace(scale=5.0), 47),
    ],
)
def test_as_many_steps_fit_as_the_mixture_of_fourteen_orders_allows(epsilon, delta, mechanism, count) -> None:
    terms = open_terms("b", epsilon=epsilon, delta=delta, filter="rdp", step_delta=delta * 1e-9)
    assert terms.fits(terms.measure.cost(((mechanism, count),)))
    assert not terms.fits(terms.measure.cost(((mechanism, count + 1),)))


@pytest.mark.parametrize(("step_delta", "count"), [(1e-15, 490), (5e-7, 462)])
def test_one_good_order_takes_as_many_pure_steps_as_two_point_divergences_allow(step_delta, count) -> None:
    """Steps of ε = .01 at (1, 1e-6): 490 at the best order; by zCDP with half of δ for the steps 458, here 462."""
    orders = np.arange(20.0, 25.0, 0.25)
    yes, no = 1 / (1 + math.exp(-0.01)), 1 / (1 + math.exp(0.01))
    divergences = np.log(yes**orders * no ** (1 - orders) + no**orders * yes ** (1 - orders)) / (orders - 1)
    rooms = 1 + (math.log(1e-6 - step_delta) + np.log(orders)) / (orders - 1) - np.log1p(-1 / orders)
    assert int(np.max(rooms / divergences)) == count

    def fits(order: float, steps: int) -> bool:
        terms = rule(1.0, 1e-6, (float(order),), step_delta=step_delta)
        return terms.fits(terms.measure.cost(((DeclaredDP(epsilon=0.01), steps),)))

    assert any(fits(order, count) for order in orders)
    assert not any(fits(order, count + 1) for order in orders)

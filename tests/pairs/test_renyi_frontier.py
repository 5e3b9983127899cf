"""Declared Rényi curves from both sides: mechanisms that mpmath finds within them, linear programs, planted faults."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.optimize import linprog

from dpcalc.accounting.compose import compose
from dpcalc.mechanisms.declared import DeclaredGDP, DeclaredRDP, DeclaredZCDP
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled
from dpcalc.pairs import adaptive_attack, renyi_frontier
from dpcalc.pairs.points import BoundPair
from dpcalc.pairs.renyi_frontier import Frontier, _log_moments, rdp_frontier, zcdp_frontier
from dpcalc.rounding import UNIT

ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def divergence(p, q, order):
    """D_α(p‖q) of probabilities in 40 digits."""
    total = mpmath.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))
    return mpmath.log(total) / (order - 1)


def largest_ratio(p, q, curve, orders):
    """The largest divergence over its bound, both ways."""
    return max(divergence(*pair, order) / curve(order) for pair in ((p, q), (q, p)) for order in orders)


def member(draw, limits, orders):
    """A pair of a few outcomes within limits on log E X^α, both ways: drawn together until it is nearly at them."""
    count = draw.choice([2, 2, 3, 4])
    q = np.array([draw.uniform(0.02, 1) ** draw.choice([1, 3, 8]) for _ in range(count)])
    q, losses = q / q.sum(), np.array([draw.gauss(0, 1) for _ in range(count)])
    low, high, best = 0.0, 40.0, q
    for _ in range(40):
        scale = (low + high) / 2
        p = q * np.exp(scale * losses) / (q * np.exp(scale * losses)).sum()
        powers = np.multiply.outer(np.concatenate((orders, 1 - orders)), np.log(p / q))
        with np.errstate(over="ignore"):
            holds = np.log((q * np.exp(powers)).sum(axis=-1)) <= np.tile(limits, 2)
        low, high, best = (scale, high, p) if holds.all() else (low, scale, best)
    return best, q


def exact_delta(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def profile_at(losses, deltas, epsilon):
    """The chord, in t = e^ε, of upper bounds on a convex function; 1 beyond them."""
    return float(np.interp(math.exp(epsilon), np.exp(losses), deltas, left=1.0, right=1.0))


def minorant(losses, deltas):
    """The points that are on their own lower hull in t = e^ε."""
    kept: list[int] = []
    t = np.exp(losses)
    for i in range(len(t)):
        while len(kept) > 1 and (deltas[kept[-1]] - deltas[kept[-2]]) * (t[i] - t[kept[-1]]) >= (
            deltas[i] - deltas[kept[-1]]
        ) * (t[kept[-1]] - t[kept[-2]]):
            kept.pop()
        kept.append(i)
    return losses[kept], deltas[kept]


@pytest.mark.parametrize("seed", range(6))
def test_no_mechanism_within_a_curve_is_above_its_profile(seed):
    draw = random.Random(f"frontier {seed}")
    rho = 10 ** draw.uniform(-4, 0.7)
    many = 1 + np.geomspace(1e-3, 1e3, 500) * (1 + 1 / math.sqrt(rho))
    few = np.array(sorted(draw.sample(ORDERS, 3)))
    epsilons = few * rho * np.array([draw.uniform(0.7, 1.3) for _ in few])
    stated = rdp_frontier(tuple(few.tolist()), tuple(epsilons.tolist()))
    cases = ((zcdp_frontier(rho), many, many * (many - 1) * rho, 1e-4), (stated, few, (few - 1) * epsilons, 1e-9))
    for frontier, orders, limits, between in cases:
        losses, deltas = minorant(*frontier.profile())
        for _ in range(15):
            p, q = member(draw, limits, orders)
            for pair in ((p, q), (q, p)):
                for epsilon in (draw.uniform(0.01, 4) * math.sqrt(rho) for _ in range(10)):
                    assert profile_at(losses, deltas, epsilon) >= exact_delta(*pair, epsilon) * (1 - between)


def corners(pair: BoundPair):
    """P- and Q-mass above each loss of a pair below, the rarest first."""
    p, q = (np.cumsum(masses[::-1]) for masses in (pair.p, pair.q))
    return [(mpf(a), mpf(b)) for a, b in zip(p, q, strict=True) if 0 < a <= 0.5]


@pytest.mark.parametrize("rho", [1e-10, 3e-4, 0.2, 7.0])
def test_every_test_below_is_one_of_a_mechanism_within_the_curve(rho):
    """At orders that are not those it was checked at: near 1, between, and beyond the last."""
    draw = random.Random(f"within {rho}")
    orders = [1 + mpf(10) ** draw.uniform(-5, 4) / mpf(rho) ** 0.5 * (mpf(rho) ** 0.5 + 1) for _ in range(60)]
    pair = zcdp_frontier(rho).tests()
    for y, x in draw.sample(corners(pair), 12):
        with mpmath.workdps(40):
            assert largest_ratio([y, 1 - y], [x, 1 - x], lambda order: order * rho, orders) <= 1 + mpf(10) ** -11


def test_every_test_below_is_within_the_orders_that_are_stated():
    draw = random.Random(7)
    for _ in range(8):
        few = tuple(sorted(draw.sample(ORDERS, 3)))
        epsilons = tuple(10 ** draw.uniform(-4, 1) for _ in few)
        stated = dict(zip(few, epsilons, strict=True))
        for y, x in draw.sample(corners(rdp_frontier(few, epsilons).tests()), 8):
            with mpmath.workdps(40):
                assert largest_ratio([y, 1 - y], [x, 1 - x], stated.get, few) <= 1 + mpf(10) ** -11


def test_a_limit_that_is_too_high_or_too_low_is_noticed():
    """Planted: bounds of 1.01 times the ρ let tests in that are outside, and of .99 times a profile below them."""
    right = zcdp_frontier(0.1)
    wide = replace(right, narrower=right.narrower * 1.01, b=right.b * 1.004)
    outside = [
        largest_ratio(
            [y, 1 - y], [x, 1 - x], lambda order: order * mpf(0.1), [1 + mpf(1.3) ** k for k in range(-20, 20)]
        )
        for y, x in corners(wide.tests())[::40]
    ]
    assert max(outside) > 1
    losses, deltas = minorant(*replace(right, limits=right.limits * 0.99).profile())
    assert any(
        profile_at(losses, deltas, math.log(y / x) / 2) < y - math.sqrt(y * x) for y, x in corners(right.tests())
    )


def by_linear_program(value, rho):
    """sup E value(X) over laws within ρ-zCDP, on points and with the moments of some orders, both ways."""
    logs = np.concatenate((np.linspace(-9, 9, 181) * math.sqrt(2 * rho), [0.0]))
    orders = 1 + np.geomspace(0.05, 30, 60) / math.sqrt(rho)
    rows = np.vstack(
        [
            np.exp(np.minimum(power * logs - orders[k % 60] * (orders[k % 60] - 1) * rho, 300))
            for k, power in enumerate(np.concatenate((orders, 1 - orders)))
        ]
    )
    inside = rows.max(axis=0) < 1e9
    found = linprog(
        -value(np.exp(logs[inside])),
        A_ub=rows[:, inside],
        b_ub=np.ones(len(rows)),
        A_eq=np.vstack((np.ones(inside.sum()), np.exp(logs[inside]))),
        b_eq=[1, 1],
    )
    return -found.fun


@pytest.mark.parametrize(("rho", "epsilon"), [(0.01, 0.2), (0.2, 0.3), (0.2, 2.5), (1.0, 1.0)])
def test_one_release_is_what_a_linear_program_finds(rho, epsilon):
    found = compose([(DeclaredZCDP(rho=rho), 1)], epsilon=epsilon)
    truth = by_linear_program(lambda x: np.maximum(x - math.exp(epsilon), 0.0), rho)
    assert found.delta_lower <= truth * 1.02
    assert found.delta >= truth * 0.98  # points of the program are not all that there are, nor are its orders
    assert found.delta_lower >= 0.995 * found.delta


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_a_release_after_others_is_the_worst_for_each_of_their_outcomes(epsilon):
    """Three answers of randomised response, then a declared release: a program for every number of ones."""
    rho, t = 0.1, math.exp(epsilon)
    likely = 1 / (1 + math.exp(-0.4))
    truth = 0.0
    for ones in range(4):
        ratio = math.exp(0.4 * (2 * ones - 3))
        chance = math.comb(3, ones) * (1 - likely) ** ones * likely ** (3 - ones)
        truth += chance * by_linear_program(lambda x, ratio=ratio: np.maximum(ratio * x - t, 0.0), rho)
    found = compose([(RandomizedResponse(epsilon=0.4), 3), (DeclaredZCDP(rho=rho), 1)], epsilon=epsilon)
    assert found.delta_lower <= truth * 1.02
    assert found.delta >= truth * 0.98
    assert found.delta_lower >= 0.99 * found.delta


CURVE = DeclaredRDP(orders=ORDERS, epsilons=tuple(0.02 * order for order in ORDERS))


@pytest.mark.parametrize(
    "parts",
    [
        [(DeclaredZCDP(rho=1e-6), 1)],
        [(DeclaredZCDP(rho=0.3), 1), (Laplace(scale=8.0), 10)],
        [(CURVE, 1)],
        [(CURVE, 1), (DeclaredGDP(mu=0.3), 1)],
        [(DeclaredRDP(orders=(2.0,), epsilons=(0.5,)), 1)],
        [(PoissonSampled(base=DeclaredZCDP(rho=0.5), sampling_rate=0.1), 1)],
        [(DeclaredZCDP(rho=1e-5), 30_000)],
    ],
)
def test_declared_curves_are_known_from_both_sides(parts):
    found = compose(parts, delta=1e-6)
    assert found.epsilon_lower >= (1 - 1e-3) * found.epsilon


def test_orders_of_several_declarations_add_up():
    """Two curves are no worse than one that is their sum."""
    alone = compose([(DeclaredZCDP(rho=0.3), 1)], delta=1e-6)
    found = compose([(DeclaredZCDP(rho=0.1), 1), (DeclaredZCDP(rho=0.2), 1)], delta=1e-6)
    assert 0.97 * alone.epsilon <= found.epsilon_lower <= found.epsilon <= alone.epsilon * (1 + 1e-3)
    both = compose([(CURVE, 1), (DeclaredZCDP(rho=0.28), 1), (Laplace(scale=50.0), 1)], delta=1e-6)
    assert both.epsilon <= alone.epsilon + 0.05


@pytest.mark.parametrize("rho", [1e-8, 0.02, 3.0, 40.0])
@pytest.mark.parametrize("way", [1, -1])
def test_every_line_is_above_the_exact_one(rho, way):
    """y - sx + (M - ψ)/ψ_y in 50 digits, at the doubles a, b and α that were taken, for both kinds of moments."""
    frontier = zcdp_frontier(rho)
    up, down = (frontier.a, frontier.b)[::way]
    log_slopes, heights = frontier._lines(up, down, way)
    tops = np.argmax(_log_moments(up, down, frontier.orders) / frontier.limits, axis=-1)
    for k in random.Random(f"{rho} {way}").sample(range(250), 25):
        with mpmath.workdps(50):
            a, b, alpha = mpf(frontier.a[k]), mpf(frontier.b[k]), mpf(frontier.orders[tops[k]])
            beta = alpha if way == 1 else 1 - alpha
            y = mpmath.expm1(-b) / mpmath.expm1(-(a + b))
            x = y * mpmath.exp(-a)
            psi = x * mpmath.exp(beta * a) + (1 - x) * mpmath.exp(-beta * b)
            by_y = beta * (mpmath.exp((beta - 1) * a) - mpmath.exp((1 - beta) * b))
            slope = (beta - 1) * (mpmath.exp(beta * a) - mpmath.exp(-beta * b)) / by_y
            exact = y - slope * x + (mpmath.exp(alpha * (alpha - 1) * mpf(rho)) - psi) / by_y
            assert exact <= heights[k] <= exact + (abs(exact) + y) * mpf(10) ** -6
            assert abs(mpmath.log(slope) - log_slopes[k]) <= 2.0**-40 * abs(log_slopes[k]) + 64 * 2.0**-53


def test_moments_of_two_outcomes_are_on_their_side_of_the_exact_ones() -> None:
    """log E_Q X^α of losses a and -b in mpmath, without slack."""
    rng = np.random.default_rng(12)
    orders = np.array([1.001, 1.4, 2.0, 9.0, 60.0])
    with mpmath.workdps(60):
        for _ in range(60):
            a, b = 10 ** rng.uniform(-4, 1, 2)
            above, below = (_log_moments(np.array([a]), np.array([b]), orders, sign)[0] for sign in (1, -1))
            x, y = mpmath.exp(mpmath.mpf(a)), mpmath.exp(-mpmath.mpf(b))
            likely = (1 - y) / (x - y)
            for order, high, low in zip(orders.tolist(), above.tolist(), below.tolist(), strict=True):
                exact = mpmath.log(likely * x ** mpmath.mpf(order) + (1 - likely) * y ** mpmath.mpf(order))
                assert high >= exact
                assert low <= exact or order * a > 690


def test_moments_beyond_the_doubles_are_above_the_exact_ones() -> None:
    """Their largest part alone, e^{αa} times a mass that is anything between 1e-300 and 1, also where both cancel."""
    rng = np.random.default_rng(5)
    with mpmath.workdps(60):
        for _ in range(300):
            a, b = 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-250, 1)
            order = 700 / a * 10 ** rng.uniform(0, 1)
            found = float(_log_moments(np.array([a]), np.array([b]), np.array([order]))[0, 0])
            x, y = mpmath.exp(mpf(a)), mpmath.exp(-mpf(b))
            likely = -mpmath.expm1(-mpf(b)) / (x - y)
            assert found >= mpmath.log(likely * x ** mpf(order) + (1 - likely) * y ** mpf(order))


@pytest.mark.parametrize("rho", [1e-8, 0.02, 3.0])
@pytest.mark.parametrize("way", [1, -1])
def test_lines_far_below_the_limits_are_above_the_exact_ones(rho, way):
    """A line may touch anywhere; (M - ψ)/ψ_y then is most of its height, and M is what the limit is as a double."""
    frontier = zcdp_frontier(rho)
    frontier = replace(frontier, b=frontier.b * 1e-4)
    up, down = (frontier.a, frontier.b)[::way]
    heights = frontier._lines(up, down, way)[1]
    tops = np.argmax(_log_moments(up, down, frontier.orders) / frontier.limits, axis=-1)
    for k in np.flatnonzero(np.isfinite(heights))[::6]:
        with mpmath.workdps(50):
            a, b, alpha = mpf(frontier.a[k]), mpf(frontier.b[k]), mpf(frontier.orders[tops[k]])
            beta = alpha if way == 1 else 1 - alpha
            y = mpmath.expm1(-b) / mpmath.expm1(-(a + b))
            x = y * mpmath.exp(-a)
            psi = x * mpmath.exp(beta * a) + (1 - x) * mpmath.exp(-beta * b)
            by_y = beta * (mpmath.exp((beta - 1) * a) - mpmath.exp((1 - beta) * b))
            slope = (beta - 1) * (mpmath.exp(beta * a) - mpmath.exp(-beta * b)) / by_y
            assert heights[k] >= y - slope * x + (mpmath.exp(mpf(frontier.limits[tops[k]])) - psi) / by_y


@pytest.mark.parametrize("rho", [3e-4, 0.2, 1.0])
def test_masses_of_tests_are_on_their_side_of_the_exact_ones(rho, monkeypatch):
    """What is made a pair of: P-masses below, and Q-masses above those of the losses a and -b, which are doubles."""
    given = {}
    made = adaptive_attack._corners
    monkeypatch.setattr(adaptive_attack, "_corners", lambda p, q: given.update(p=p, q=q) or made(p, q))
    frontier = zcdp_frontier(rho)
    usual = slice(200)
    frontier = replace(frontier, a=frontier.a[usual], b=frontier.b[usual] / 2)  # within the limits, all of them
    frontier.tests()
    with mpmath.workdps(40):
        for a, b, p, q in zip(frontier.a[::-1], frontier.b[::-1], given["p"], given["q"], strict=True):
            exact = mpmath.expm1(-mpf(b)) / mpmath.expm1(-(mpf(a) + mpf(b)))
            assert p <= exact
            assert q >= exact * mpmath.exp(-mpf(a))


def test_limits_are_above_the_exact_ones_and_narrower_ones_below() -> None:
    for rho in (0.013, 0.37, 2.9):
        found = zcdp_frontier(rho)
        assert found is not None
        orders = [Fraction(float(order)) for order in found.orders]
        for k in range(1, len(orders) - 1):
            most = Fraction(rho) * orders[k] * (orders[k] - 1)
            apart = max(orders[k] - orders[k - 1], orders[k + 1] - orders[k])
            assert Fraction(float(found.limits[k])) >= most
            assert Fraction(float(found.narrower[k])) <= most - Fraction(rho) * apart**2 / 4


def test_lines_are_told_with_the_errors_of_their_slopes_and_functions(erring, monkeypatch) -> None:
    """Slopes as far off as is allowed; those below 1 mirrored, by exponentials that err by 60 units."""
    found = zcdp_frontier(0.37)
    assert found is not None
    rng = np.random.default_rng(3)
    slopes, heights = np.concatenate((rng.uniform(0.01, 3, 40), -rng.uniform(0.01, 3, 40))), rng.uniform(0.01, 0.2, 80)
    heights[40:] = 1 - np.exp(slopes[40:]) * rng.uniform(0.5, 0.9, 40)  # so that what is mirrored is between 0 and 1
    monkeypatch.setattr(
        Frontier, "_lines", lambda _, __, ___, way: (slopes, heights) if way == 1 else (slopes[:0],) * 2
    )
    erring(renyi_frontier, "np", exp=-60 * UNIT, expm1=60 * UNIT)
    told = dict(zip(*found.profile(), strict=True))
    losses = sorted(told)
    assert len(losses) == 80
    with mpmath.workdps(40):
        for slope, height in zip(slopes.tolist(), heights.tolist(), strict=True):
            least = abs(mpf(slope)) * (1 + mpf("0.99") * 2.0**-40) + mpf("0.99") * 64 * UNIT
            loss = min(losses, key=lambda each: abs(each - abs(slope)))
            assert mpf(loss) >= least
            grown = mpmath.exp(-mpf(slope))
            assert mpf(told[loss]) >= (height if slope > 0 else grown * mpf(height) + 1 - grown)

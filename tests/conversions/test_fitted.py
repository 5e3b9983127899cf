"""A fitted μ is a guarantee: the exact curve is below that of μ plus the slack, and little less would not do."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import pytest

from dpcalc.conversions import fitted, gdp_delta, normal
from dpcalc.conversions.fitted import Cell, Knot, fitted_mu, regret
from dpcalc.rounding import UNIT

mpf = mpmath.mpf
Profile = Callable[[mpmath.mpf], mpmath.mpf]


def gaussian(mu: float) -> Profile:
    def delta(epsilon: mpmath.mpf) -> mpmath.mpf:
        m, e = mpf(mu), mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

    return delta


def responses(loss: float, count: int) -> Profile:
    """Randomised response so often, by its binomial losses."""
    p = 1 / (1 + mpmath.exp(-mpf(loss)))
    losses = [
        ((2 * k - count) * mpf(loss), math.comb(count, k) * p**k * (1 - p) ** (count - k)) for k in range(count + 1)
    ]

    def delta(epsilon: mpmath.mpf) -> mpmath.mpf:
        return mpmath.fsum(mass * (1 - mpmath.exp(epsilon - at)) for at, mass in losses if at > epsilon)

    return delta


def laplace(loss: float) -> Profile:
    return lambda epsilon: max(1 - mpmath.exp((mpf(epsilon) - mpf(loss)) / 2), mpf(0))


CURVES = {
    "gaussian": (gaussian(0.9), 7.0),
    "faint": (gaussian(0.05), 0.4),
    "loud": (gaussian(6.0), 60.0),
    "responses": (responses(0.7, 6), 4.2),
    "laplace": (laplace(2.5), 2.5),
}


def above(profile: Profile) -> Callable[[float], float]:
    """The profile at doubles, rounded up."""
    return lambda epsilon: math.nextafter(float(profile(mpf(epsilon))), math.inf)


def around(profile: Profile) -> Callable[[float], tuple[float, float]]:
    return lambda epsilon: (max(math.nextafter(float(profile(mpf(epsilon))), 0.0), 0.0), above(profile)(epsilon))


def end_of(profile: Profile, slack: float, end: float) -> float:
    """An ε at which the profile is at most the slack."""
    low, high = 0.0, end
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if profile(mpf(middle)) <= slack else (middle, high)
    return high


def largest_excess(profile: Profile, mu: float, slack: float, end: float, points: int = 600) -> mpmath.mpf:
    own = gaussian(mu)
    places = [mpf(end) * k / points for k in range(points + 1)]
    return max(profile(epsilon) - own(epsilon) - mpf(slack) for epsilon in places)


@pytest.mark.parametrize("slack", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("name", CURVES)
def test_the_least_mu_holds_and_less_does_not(name: str, slack: float) -> None:
    profile, end = CURVES[name]
    if profile(mpf(0)) <= slack:
        pytest.skip("everything is within the slack")
    mu, binding = fitted_mu(above(profile), slack, end_of(profile, slack, end))
    assert largest_excess(profile, mu, slack, end) <= 0
    less = mu * (1 - 4e-4)
    near = [mpf(binding) + mpf(k) / 400 for k in range(-20, 21) if binding + k / 400 >= 0]
    assert max(profile(e) - gaussian(less)(e) for e in near) > slack


def test_a_gaussian_has_its_own_mu_but_for_the_slack() -> None:
    found = [
        fitted_mu(above(gaussian(0.9)), slack, end_of(gaussian(0.9), slack, 9.0))[0] for slack in (1e-10, 1e-6, 1e-3)
    ]
    assert found[0] == pytest.approx(0.9, rel=3e-4)
    assert all(larger > smaller for larger, smaller in pairwise(found))
    assert found[-1] < 0.9


def test_curves_within_the_slack_need_no_mu() -> None:
    assert fitted_mu(above(gaussian(1e-4)), 1e-3, 1.0) == (0.0, 0.0)
    assert fitted_mu(above(gaussian(1e-4)), 1e-3, 0.0) == (0.0, 0.0)


def test_nothing_is_fitted_to_what_is_not_known() -> None:
    assert fitted_mu(above(gaussian(1.0)), 1e-5, math.inf)[0] == math.inf
    for hole in (0.0, 0.5):
        assert fitted_mu(lambda e: math.nan if e >= hole else gdp_delta(1.0, e), 1e-5, 5.0)[0] == math.inf  # noqa: B023
    with pytest.raises(ArithmeticError):
        regret(lambda e: (math.nan if e > 1 else 0.1, 0.4), 1.0, 1e-5, 5.0)


@pytest.mark.parametrize("planted", ["ends", "low"])
def test_the_oracle_finds_planted_errors(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    """Cells that are looked at in their ends alone, and a curve that is 0.1 % too low."""
    profile, end = CURVES["responses"]
    slack, known = 1e-5, above(CURVES["responses"][0])
    if planted == "ends":
        monkeypatch.setattr(fitted, "_holds", lambda *_: True)
    mu, _ = fitted_mu(known if planted == "ends" else lambda e: 0.999 * known(e), slack, end_of(profile, slack, end))
    assert largest_excess(profile, mu, slack, end) > 0


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 1), (1, -1), (-1, 1)])
def test_a_chord_above_its_line_is_refused(
    monkeypatch: pytest.MonkeyPatch, erring: Callable[..., None], first: int, second: int
) -> None:
    """By the last digit, and with tails and exponentials that err as much as they may, for better or worse."""
    erring(fitted, "math", exp=-3.9 * UNIT)
    true_tail = normal.log_tail

    def tail(x: float) -> tuple[float, float]:
        error = true_tail(x)[1]
        exact = mpmath.log(mpmath.ncdf(-abs(mpf(mu) - mpf(threshold)) if x == abs(detected) else -mpf(threshold)))
        off = first if x == threshold else second * math.copysign(1, detected)
        value = float(exact - off * mpf(error))
        return value if abs(value - exact) <= error else math.nextafter(value, float(exact)), error

    chosen = random.Random(f"line {first} {second}")
    monkeypatch.setattr(fitted, "log_tail", tail)
    with mpmath.workdps(50):
        for _ in range(500):
            mu, touched = chosen.uniform(0.05, 4), chosen.uniform(0.1, 6)
            threshold = touched / mu + mu / 2
            detected = mu - threshold
            left, right = touched * chosen.uniform(0.2, 0.95), touched * chosen.uniform(1.05, 2)
            slack = chosen.choice((0.0, 10 ** chosen.uniform(-12, -2)))
            if slack == 0:  # a right end next to where the line is 0: its terms are far larger than it
                zero = mpmath.log(mpmath.ncdf(mpf(mu) - mpf(threshold)) / mpmath.ncdf(-mpf(threshold)))
                right = touched + (float(zero) - touched) * chosen.uniform(0.5, 0.999)
            exact = [
                mpf(slack) + mpmath.ncdf(mpf(mu) - mpf(threshold)) - mpmath.exp(e) * mpmath.ncdf(-mpf(threshold))
                for e in (mpf(left), mpf(right))
            ]
            ends = [float(value) for value in exact]
            ends = [
                end if end > value else math.nextafter(end, math.inf) for end, value in zip(ends, exact, strict=True)
            ]
            if min(ends) > 0:
                for above_by in ((ends[0], 0.0), (0.0, ends[1])):
                    assert not fitted._holds(Cell(left, right, *above_by, threshold), mu, slack)


def largest(function: Callable[[Any], Any], end: float) -> Any:
    """The largest value that is seen up to `end`: on a grid, and on one a hundred times finer around its best point."""
    places = [mpf(end) * k / 200 for k in range(201)]
    best = max(places, key=function)
    return max(function(max(best + mpf(end) * k / 20_000, mpf(0))) for k in range(-100, 101, 5))


@pytest.mark.parametrize("slack", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("name", ["gaussian", "responses", "laplace"])
def test_regret_is_above_the_largest_and_near_it(name: str, slack: float) -> None:
    profile, end = CURVES[name]
    mu = {"gaussian": 1.0, "responses": 1.9, "laplace": 2.3}[name]
    own = gaussian(mu)
    exact = largest(lambda e: (own(e) + mpf(slack) - profile(e)) / (1 + mpmath.exp(e)), 2 * end)
    found, where = regret(around(profile), mu, slack, end)
    assert exact <= found <= exact * mpf("1.01")
    assert abs((own(mpf(where)) + mpf(slack) - profile(mpf(where))) / (1 + mpmath.exp(where)) - exact) < 0.01 * exact


def test_regret_with_a_gap_between_the_bounds() -> None:
    """Lower bounds that are 1 % low, upper ones that are 1 % high, at random: the bound stays one."""
    chosen = random.Random(8)
    for _ in range(10):
        profile, end = CURVES[chosen.choice(["gaussian", "responses", "laplace"])]
        mu = chosen.uniform(0.8, 3)

        def bounds(epsilon: float) -> tuple[float, float]:
            delta = float(profile(mpf(epsilon)))  # noqa: B023
            return delta * (1 - chosen.uniform(0, 0.01)), delta * (1 + chosen.uniform(0, 0.01)) + 1e-15

        own = gaussian(mu)
        exact = largest(lambda e: (own(e) - profile(e)) / (1 + mpmath.exp(e)), 2 * end)  # noqa: B023
        assert exact <= regret(bounds, mu, 0.0, end)[0] <= max(exact, 0) + mpf("0.02")


def test_regret_beyond_the_last_knot() -> None:
    """It is largest near 2.5, where no knot is."""
    profile, mu = laplace(2.5), 2.3
    exact = max((gaussian(mu)(e) - profile(e)) / (1 + mpmath.exp(e)) for e in (mpf(k) / 100 for k in range(600)))
    assert regret(around(profile), mu, 0.0, 0.5)[0] >= exact


def test_regret_between_knots() -> None:
    """Lines through neighbours, drawn on to where one is 0, with knots that are close."""
    chosen = random.Random(11)
    with mpmath.workdps(50):
        for _ in range(300):
            mu, at = chosen.uniform(0.5, 3), chosen.uniform(0.1, 1)
            first, second = at, at + 10 ** chosen.uniform(-6, -3)
            lower = chosen.uniform(0.01, 0.3)
            upper = lower + (second - first) * chosen.uniform(0.3, 0.8)
            knots = [Knot(first, upper, upper), Knot(second, lower, lower), Knot(second + 3, 0.0, 0.0)]
            before, start = mpmath.exp(mpf(first)), mpmath.exp(mpf(second))
            meeting = start + mpf(lower) * (start - before) / (mpf(upper) - mpf(lower))
            epsilon = mpmath.log(meeting)
            if epsilon < second + 3:
                assert fitted._largest(knots, 1, mu, 0.0) >= gaussian(mu)(epsilon) / (1 + meeting)


def test_regret_before_knots() -> None:
    """The line from H(0) = 1 meets that of the two knots behind the cell, which are close."""
    chosen, met = random.Random(13), 0
    with mpmath.workdps(50):
        for _ in range(600):
            mu, at = chosen.uniform(0.5, 3), chosen.uniform(0.1, 1)
            first = at + chosen.uniform(0.3, 1)
            second, lower = first + 10 ** chosen.uniform(-6, -3), chosen.uniform(0.01, 0.1)
            upper = lower * (1 - (second - first) * chosen.uniform(0.3, 1))
            start, stop, after = (mpmath.exp(mpf(epsilon)) for epsilon in (at, first, second))
            flat = (mpf(upper) - mpf(lower)) / (after - stop)
            own = float(lower + flat * (start - stop)) + chosen.uniform(0.01, 0.1)
            steep = (mpf(own) - 1) / start
            meeting = start + (mpf(lower) - mpf(own) + flat * (start - stop)) / (steep - flat)
            if steep < flat and start < meeting < stop:
                met += 1
                knots = [Knot(at, own, own), Knot(first, lower, lower), Knot(second, upper, upper)]
                height = mpf(own) + steep * (meeting - start)
                exact = (gaussian(mu)(mpmath.log(meeting)) - height) / (1 + meeting)
                assert fitted._largest(knots, 0, mu, 0.0) >= exact
    assert met > 100


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_rounding_of_an_excess(erring: Callable[..., None], sign: int) -> None:
    erring(fitted, "math", exp=sign * 3.9 * UNIT)
    chosen = random.Random(12)
    with mpmath.workdps(50):
        for _ in range(300):
            slack, epsilon = chosen.uniform(0, 1), chosen.choice((0.0, chosen.uniform(0, 5)))
            lower = chosen.choice((0.0, slack, slack * (1 + chosen.uniform(-1, 1) * 1e-12), chosen.uniform(0, 1)))
            mu = chosen.choice((0.0, 1e-18))
            own = gaussian(mu)(mpf(epsilon)) if mu else mpf(0)
            exact = (own + mpf(slack) - mpf(lower)) / (1 + mpmath.exp(mpf(epsilon)))
            assert fitted._excess(epsilon, lower, mu, slack) >= exact

"""Full batches: published cells, quadratics whose privacy is known exactly, and large t near c = 1."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.last_iterate import gradient_descent
from dpcalc.last_iterate.setting import Setting


def strongly(c: float, t: int, step_mu: float = 0.1) -> Setting:
    return Setting(
        algorithm="gd",
        learning_rate=1,
        sigma=1,
        sensitivity=step_mu,
        dataset_size=1,
        steps=t,
        strong_convexity=1 - c,
        smoothness=1,
    )


def projected(rate: float, over_n: float, t: int, sigma: float = 8, **losses: float) -> Setting:
    return Setting(
        algorithm="gd",
        learning_rate=rate,
        sigma=sigma,
        sensitivity=over_n,
        dataset_size=1,
        steps=t,
        diameter=1,
        smoothness=1,
        **losses,
    )


def test_table_7(published) -> None:
    for t, (composed, ours) in published.TABLE_7.items():
        assert gradient_descent.composition(strongly(0.99, t)).mu == pytest.approx(composed, abs=5.01e-4)
        for c, mu in zip(published.TABLE_7_CONTRACTIONS, ours, strict=True):
            assert gradient_descent.strongly_convex(strongly(c, t)).mu == pytest.approx(mu, abs=5.01e-4)


def test_table_8(published) -> None:
    for over_n, row in published.TABLE_8.items():
        for rate, (threshold, mu) in zip(published.TABLE_8_RATES, row, strict=True):
            bound = gradient_descent.constrained(projected(rate, over_n, 10 * threshold))
            assert bound.mu == pytest.approx(mu, abs=5.01e-4)
            # t* is where composition reaches μ*.
            at = gradient_descent.composition(projected(rate, over_n, threshold)).mu
            before = gradient_descent.composition(projected(rate, over_n, threshold - 1)).mu
            assert before < bound.mu <= at * (1 + 1e-9)


quadratics = st.fixed_dictionaries(
    {
        "m": st.floats(0.01, 2),
        "ratio": st.floats(1, 10),
        "share": st.floats(0.01, 1),
        "t": st.integers(1, 400),
        "L": st.floats(0.1, 5),
        "sigma": st.floats(0.1, 5),
    }
)


@settings(max_examples=200, deadline=None)
@given(quadratics)
def test_quadratics_attain_the_bound_up_to_two_over_m_plus_m(q) -> None:
    M = q["m"] * q["ratio"]
    eta = q["share"] * 2 / (M + q["m"]) * (1 - 1e-12)
    setting = Setting(
        algorithm="gd",
        learning_rate=eta,
        sigma=q["sigma"],
        sensitivity=q["L"],
        dataset_size=7,
        steps=q["t"],
        strong_convexity=q["m"],
        smoothness=M,
    )
    # X ← (1-ηm)X + ηL/n + ησZ from 0: mean and variance step by step.
    mean = variance = 0.0
    for _ in range(q["t"]):
        mean = (1 - eta * q["m"]) * mean + eta * q["L"] / 7
        variance = (1 - eta * q["m"]) ** 2 * variance + (eta * q["sigma"]) ** 2
    bound = gradient_descent.strongly_convex(setting)
    if bound.optimal:
        assert bound.mu == pytest.approx(mean / math.sqrt(variance), rel=1e-9)
    assert bound.mu >= mean / math.sqrt(variance) * (1 - 1e-12)


@settings(max_examples=200, deadline=None)
@given(quadratics, st.floats(0, 1), st.floats(1.0, 1.99))
def test_no_quadratic_exceeds_the_bound_at_any_step_size(q, between, scale) -> None:
    M = q["m"] * q["ratio"]
    eta = scale / M
    setting = Setting(
        algorithm="gd",
        learning_rate=eta,
        sigma=q["sigma"],
        sensitivity=q["L"],
        dataset_size=3,
        steps=q["t"],
        strong_convexity=q["m"],
        smoothness=M,
    )
    factor = 1 - eta * (q["m"] + between * (M - q["m"]))
    mean = variance = 0.0
    for _ in range(q["t"]):
        mean, variance = factor * mean + eta * q["L"] / 3, factor**2 * variance + (eta * q["sigma"]) ** 2
    best = min(bound.mu for bound in gradient_descent.bounds(setting) if bound.rho is None)
    assert abs(mean) / math.sqrt(variance) <= best


@pytest.mark.parametrize("gap", [1e-3, 1e-8, 1e-13])
@pytest.mark.parametrize("t", [1, 1000, 10**6, 10**9])
def test_nothing_cancels_near_c_equal_to_one(gap, t) -> None:
    mu = gradient_descent.strongly_convex(strongly(1 - gap, t, 1.0)).mu
    with mpmath.workdps(60):
        c = 1 - mpmath.mpf(1 - (1 - gap))
        exact = mpmath.sqrt((1 - c**t) / (1 + c**t) * (1 + c) / (1 - c))
        assert 0 <= mu / exact - 1 < 1e-11


@settings(max_examples=100, deadline=None)
@given(st.floats(0.01, 1.9), st.floats(0.01, 3), st.integers(1, 300), st.floats(0, 1), st.floats(0.05, 20))
def test_the_best_number_of_unrolled_steps_is_found(rate, over_n, t, m, sigma) -> None:
    setting = projected(rate, over_n, t, sigma=sigma, strong_convexity=m)
    c, s, w = setting.contraction.factor, setting.injection, setting.noise

    def energy(r: int, c: float) -> float:
        sums = (sum(c**k for k in range(r)), sum(c ** (2 * k) for k in range(r)))
        return (c**r + s * sums[0]) / math.sqrt(sums[1]) / w

    convex = gradient_descent.constrained(setting)
    assert convex.mu == pytest.approx(min(energy(r, 1.0) for r in range(1, t + 1)), rel=1e-9)
    assert convex.mu == pytest.approx(energy(t - convex.tau, 1.0), rel=1e-9)
    if setting.strongly_convex:
        both = gradient_descent.constrained_strongly_convex(setting)
        assert both.mu == pytest.approx(min(energy(r, c) for r in range(1, t + 1)), rel=1e-7)
        assert both.mu <= convex.mu * (1 + 1e-9)


def test_the_bound_does_not_grow_once_it_has_converged() -> None:
    mus = [min(b.mu for b in gradient_descent.bounds(projected(0.1, 0.5, t)) if b.rho is None) for t in (10, 80, 10**9)]
    assert mus[0] < mus[1] == mus[2]


def test_the_prior_renyi_bound_is_never_below_ours() -> None:
    for c in (0.0, 0.3, 0.9, 0.999):
        for t in (1, 2, 10, 1000):
            setting = strongly(c, t)
            ours = gradient_descent.strongly_convex(setting).mu ** 2 / 2
            assert gradient_descent.prior_rdp(setting).rho >= ours * (1 - 1e-15)


@pytest.mark.parametrize(("rate", "optimal"), [(0.4, True), (1.25, True), (1.26, False), (1.9, False)])
def test_the_bound_is_exact_up_to_rates_of_two_over_both_curvatures(rate: float, optimal: bool) -> None:
    """M = 1 and m = .6: beyond η = 1.25 no quadratic attains the contraction; and constraints may help."""
    losses = {"strong_convexity": 0.6}
    free = replace(projected(rate, 0.1, 30, **losses), diameter=None)
    assert gradient_descent.strongly_convex(free).optimal is optimal
    assert not gradient_descent.strongly_convex(projected(rate, 0.1, 30, **losses)).optimal

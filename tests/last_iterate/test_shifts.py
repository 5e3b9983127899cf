"""The best shifts of Theorem C.3: feasible, optimal, and Cauchy–Schwarz where that is feasible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpcalc.last_iterate.shifts import least_energy

sizes = st.lists(st.floats(0.05, 2.0), min_size=1, max_size=6)


def weighed(c, s, w, z0):
    """Widths and rises of every step, as the module weighs them."""
    left = np.array([np.prod(c[k + 1 :]) for k in range(len(c))])
    rises = left * s
    rises[0] += z0 * np.prod(c)
    return (left * w) ** 2, rises


def simulate(c, s, a, z0):
    z, path = z0, []
    for ck, sk, ak in zip(c, s, a, strict=True):
        z = ck * z + sk - ak
        path.append(z)
    return path


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 7), st.floats(0, 3))
def test_no_feasible_shifts_have_less_energy(data, t, z0) -> None:
    draw = lambda low, high: np.array(data.draw(st.lists(st.floats(low, high), min_size=t, max_size=t)))  # noqa: E731
    c, s, w = draw(0.2, 1.0), draw(0.0, 1.0), draw(0.3, 2.0)
    energy = least_energy(*weighed(c, s, w, z0))
    z, spent = z0, 0.0
    for k in range(t):  # any shifts: a random share of what there is, all of it at the end
        available = c[k] * z + s[k]
        share = 1.0 if k == t - 1 else data.draw(st.floats(0, 1))
        z, spent = (1 - share) * available, spent + (share * available / w[k]) ** 2
    assert energy <= spent * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_a_general_solver(seed) -> None:
    rng = np.random.default_rng(seed)
    t = 5
    c, w, z0 = rng.uniform(0.3, 1, t), rng.uniform(0.3, 2, t), rng.choice([0.0, 1.5])
    s = rng.uniform(0, 1, t) * rng.integers(0, 2, t)
    s[-1] += 0.1
    start = np.array([ck * 0 + 0.0 for ck in c])
    constraints = [
        {"type": "ineq", "fun": lambda a: np.array(simulate(c, s, a, z0))[:-1]},
        {"type": "eq", "fun": lambda a: simulate(c, s, a, z0)[-1]},
    ]
    found = minimize(
        lambda a: np.sum((a / w) ** 2),
        start,
        bounds=[(0, None)] * t,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert least_energy(*weighed(c, s, w, z0)) == pytest.approx(found.fun, rel=1e-5)


def test_it_is_cauchy_schwarz_where_the_straight_line_is_feasible() -> None:
    t, c, s, w, z0 = 30, 0.9, 0.2, 0.7, 2.0
    widths, rises = weighed(np.full(t, c), np.full(t, s), np.full(t, w), z0)
    assert least_energy(widths, rises) == pytest.approx(rises.sum() ** 2 / widths.sum(), rel=1e-12)


def test_noise_before_the_first_injection_does_not_help() -> None:
    widths, rises = weighed(np.ones(10), np.array([0.0] * 9 + [1.0]), np.ones(10), 0.0)
    assert least_energy(widths, rises) == pytest.approx(1.0, rel=1e-14)

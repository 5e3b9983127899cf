"""Many zCDP mechanisms are nearly Gaussian: every step of the bound against linear programs, and its limits."""

from __future__ import annotations

import math
import random

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr

from dpcalc.conversions.many_runs import zcdp_runs_mu


def gaussian_profile(x, s):
    """E(xX - 1)⁺ of the Gaussian of μ = √(2s)."""
    mu, epsilon = math.sqrt(2 * s), -np.log(x)
    return x * ndtr(mu / 2 - epsilon / mu) - ndtr(-mu / 2 - epsilon / mu)


def worst_step(x, s, rho):
    """sup E v_s(xX) over ρ-zCDP steps: a linear program on points, with the moments of some orders both ways."""
    logs = np.linspace(-8, 8, 201) * math.sqrt(2 * rho)
    centre = 0.5 - math.log(x) / (2 * s)
    orders = 1 + np.unique(np.concatenate((np.geomspace(0.02, 20, 16) / math.sqrt(rho), np.abs([centre, centre - 1]))))
    orders = orders[orders > 1]
    powers = np.concatenate((orders, 1 - orders))
    rows = np.exp(np.minimum(np.multiply.outer(powers, logs) - (powers * (powers - 1) * rho)[:, None], 300))
    inside = rows.max(axis=0) < 1e9
    scale = gaussian_profile(x, s + rho)
    found = linprog(
        -gaussian_profile(x * np.exp(logs[inside]), s) / scale,
        A_ub=rows[:, inside],
        b_ub=np.ones(len(rows)),
        A_eq=np.vstack((np.ones(inside.sum()), np.exp(logs[inside]))),
        b_eq=[1, 1],
    )
    return 0.0 if found.fun is None else -found.fun * scale  # a few are beyond the program's digits


@pytest.mark.parametrize("seed", range(8))
def test_a_step_after_a_gaussian_is_below_a_little_larger_one(seed):
    draw = random.Random(f"step {seed}")
    for _ in range(4):
        rho = 10 ** draw.uniform(-4, -0.5)
        s = rho * 10 ** draw.uniform(math.log10(2.7), 2)
        x = math.exp(draw.uniform(-4, 4) * math.sqrt(2 * (s + rho)))
        assert worst_step(x, s, rho) <= gaussian_profile(x, s + rho / (1 - rho / s - rho / 4)) * (1 + 1e-7)


def test_no_more_than_a_step_of_its_own_would_be_too_little():
    """Planted: ρ added to s, as Gaussian steps add it, is below the worst step in the tails."""
    rho, s = 0.01, 0.03
    x = math.exp(-4 * math.sqrt(2 * (s + rho)))
    assert worst_step(x, s, rho) > gaussian_profile(x, s + rho) * 1.01


def test_gaussian_steps_add_up_to_less_and_nearly_as_much():
    for rho, count in ((1e-3, 10), (0.1, 100), (1e-6, 10**5), (0.5, 3), (1e-9, 10**9)):
        square = zcdp_runs_mu(rho, count) ** 2 / (2 * rho * count)
        assert 1 < square <= (1 + (math.log(count) + 3) / count) * (1 + rho / 3)


def test_every_step_is_paid_for():
    """The closed form is at least what its steps are one by one, from the start that it takes."""
    for rho, count in ((0.01, 7), (0.3, 200), (1e-5, 3000)):
        s = 2.6 * rho / (1 - rho / 4)
        for _ in range(count):
            s += rho / (1 - rho / s - rho / 4)
        assert math.sqrt(2 * s) <= zcdp_runs_mu(rho, count) <= math.sqrt(2 * s) * (1 + 1 / count)


def test_large_steps_are_not_covered():
    assert zcdp_runs_mu(0.6, 1000) == math.inf


def test_the_closed_form_is_rounded_up() -> None:
    """√(2ρ(x + n + 1/y + log((y + n − 1)/y))/c), c = 1 − ρ/4, y = 1.6 and x = y + 1, in 40 digits."""
    with mpmath.workdps(40):
        for k in range(1, 120):
            rho, count = 0.5 / k, 3 * k * k
            y, n = mpmath.mpf(1.6), mpmath.mpf(count)
            grown = y + 1 + n + 1 / y + mpmath.log((y + n - 1) / y)
            exact = mpmath.sqrt(2 * mpmath.mpf(rho) * grown / (1 - mpmath.mpf(rho) / 4))
            assert exact <= zcdp_runs_mu(rho, count) <= exact * (1 + mpmath.mpf("1e-13"))

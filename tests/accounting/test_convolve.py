"""Composed grids: whatever the window, what is computed stays on its side of exact sums."""

import math

import numpy as np
import pytest

from dpcalc.accounting.convolve import compose_grids
from dpcalc.accounting.curve import Curve
from dpcalc.accounting.discretise import Grid
from dpcalc.accounting.pilot import Window

COUNT, STEP = 60, 0.1
# A loss of ±1 with P-masses e/(1+e) and 1/(1+e): randomized response with ε = 1.
COIN = math.e / (1 + math.e)


def exact_delta(epsilon: float) -> float:
    terms = [
        math.comb(COUNT, k) * COIN**k * (1 - COIN) ** (COUNT - k) * max(0.0, -math.expm1(epsilon - (2 * k - COUNT)))
        for k in range(COUNT + 1)
    ]
    return math.fsum(terms)


@pytest.mark.parametrize("theta", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(("low", "high"), [(-70.0, 70.0), (20.0, 40.0), (-5.0, 30.0), (25.0, 30.0), (45.0, 60.0)])
@pytest.mark.parametrize("log_mass", [-24.0, 5.0])
def test_any_window_is_sound(theta, low, high, log_mass):
    masses = np.zeros(21)
    masses[0], masses[-1] = 1 - COIN, COIN
    grid = Grid(STEP, -10, masses).tilted(theta)
    composed = compose_grids([(grid, COUNT)], Window(low, -0.3, high, 0.3), log_mass=log_mass, log_untilted=log_mass)
    for epsilon in (28.0, 35.5, 41.0, 55.0):
        sides = [
            Curve(composed, side=side, near=epsilon, shift=0.0, steps=COUNT, lost=0.0).delta(epsilon)
            for side in ("lower", "upper")
        ]
        assert sides[0] <= exact_delta(epsilon) * (1 + 1e-12)
        assert exact_delta(epsilon) <= sides[1] * (1 + 1e-12)


def test_a_wide_window_is_tight():
    masses = np.zeros(21)
    masses[0], masses[-1] = 1 - COIN, COIN
    grid = Grid(STEP, -10, masses).tilted(0.3)
    composed = compose_grids([(grid, COUNT)], Window(-70.0, -0.3, 70.0, 0.3), log_mass=-24.0, log_untilted=-24.0)
    for side in ("lower", "upper"):
        curve = Curve(composed, side=side, near=41.0, shift=0.0, steps=COUNT, lost=0.0)
        assert curve.delta(41.0) == pytest.approx(exact_delta(41.0), rel=1e-9)


def test_a_short_window_is_stretched_until_little_is_outside():
    masses = np.full(21, 1 / 21)
    short = Window(-1.0, -1.0, 1.0, 1.0)
    grid = Grid(STEP, -10, masses)
    kept, stretched = (compose_grids([(grid, 4)], short, log_mass=log, log_untilted=5.0) for log in (5.0, -24.0))
    assert stretched.wrapped < kept.wrapped
    assert len(stretched.grid.masses) > len(kept.grid.masses)

"""Grids: one distribution on cells of any width, above and below the truth at every ε."""

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.discretise import (
    cells_of_pair,
    even_knots,
    lower_grid,
    lower_masses,
    upper_grid,
    widening_knots,
)
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.sampled import PoissonSampled
from dpcalc.mechanisms.stacked import stacks


def exact_delta(noise_multiplier, rate, epsilon, direction):
    """δ(ε) of one Poisson-sampled Gaussian step in 40 digits; adding is δ'(ε) = 1 - e^ε + e^ε δ(-ε)."""
    mpmath.mp.dps = 40
    s, q, t = mpmath.mpf(noise_multiplier), mpmath.mpf(rate), mpmath.exp(epsilon)
    if direction == 1:
        return 1 - t + t * exact_delta(noise_multiplier, rate, -epsilon, 0)
    if t <= 1 - q:
        return 1 - t
    x = s**2 * mpmath.log((t - 1 + q) / q) + mpmath.mpf(1) / 2
    above = lambda centre: mpmath.erfc((x - centre) / (s * mpmath.sqrt(2))) / 2  # noqa: E731
    return (1 - q) * above(0) + q * above(1) - t * above(0)


def grid_delta(grid, epsilon):
    losses = grid.losses
    inside = losses > epsilon
    return float((grid.masses[inside] * -np.expm1(epsilon - losses[inside])).sum()) + grid.infinite


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(("noise_multiplier", "rate"), [(0.6, 0.01), (1.1, 0.3), (3.0, 0.001)])
@pytest.mark.parametrize("ratio", [0.125, 0.02])
def test_one_step_on_widening_cells_is_bracketed_at_every_epsilon(noise_multiplier, rate, direction, ratio):
    pair = PoissonSampled(base=Gaussian(noise_multiplier=noise_multiplier), sampling_rate=rate).pairs()[direction]
    step = 0.1 * rate / noise_multiplier
    knots = widening_knots(-int(2 / step), int(2 / step), ratio)
    cells = cells_of_pair(pair, step=step, knots=knots)
    upper, lower = upper_grid(cells, step=step, knots=knots), lower_grid(cells, step=step, knots=knots)
    edges = step * knots[:: max(1, len(knots) // 60)]
    for epsilon in np.sort(np.concatenate((edges, edges + 0.4 * step, edges + 3.3 * step))):
        exact = float(exact_delta(noise_multiplier, rate, float(epsilon), direction))
        assert grid_delta(lower, epsilon) <= exact * (1 + 1e-12) + 1e-18
        assert exact * (1 - 1e-12) - 1e-18 <= grid_delta(upper, epsilon)


@pytest.mark.parametrize("ratio", [0.125, 0.01, 1e-6])
@pytest.mark.parametrize(("first", "last"), [(-5, 3), (-1, 40_000), (-77_777, 12), (300, 9_000)])
def test_widening_knots_cover_the_range_and_keep_to_the_ratio(first, last, ratio):
    knots = widening_knots(first, last, ratio)
    widths, distances = np.diff(knots), np.minimum(np.abs(knots[1:]), np.abs(knots[:-1]))
    assert knots[0] <= first
    assert last <= knots[-1]
    assert np.all((widths == 1) | ((widths > 1) & (widths <= ratio * distances * (1 + 1e-12))))


def test_even_knots_are_every_grid_point():
    assert even_knots(-2, 1).tolist() == [-2, -1, 0, 1]


@pytest.mark.parametrize("direction", [0, 1])
def test_stacked_pairs_have_the_masses_and_lower_bounds_of_each(direction):
    noises = [1.0, 1.5, 0.7]
    pairs = [PoissonSampled(base=Gaussian(noise_multiplier=s), sampling_rate=0.02).pairs()[direction] for s in noises]
    (stack,) = stacks(pairs)
    knots = widening_knots(-3_000, 3_000, 0.03)
    together = cells_of_pair(stack.rows, step=1e-3, knots=knots)
    lowered = lower_masses(together, step=1e-3, knots=knots)
    assert set(stack.members) == set(pairs)
    for k, pair in enumerate(stack.members):
        alone = cells_of_pair(pair, step=1e-3, knots=knots)
        np.testing.assert_allclose(together.row(k).mass, alone.mass, rtol=1e-14)
        np.testing.assert_allclose(together.row(k).lifted, alone.lifted, rtol=1e-12, atol=1e-300)
        expected = lower_grid(alone, step=1e-3, knots=knots).masses
        np.testing.assert_allclose(lowered[k], expected, rtol=1e-9, atol=1e-18)

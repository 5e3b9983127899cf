"""Grids: one distribution on cells of any width, above and below the truth at every ε."""

import mpmath
import numpy as np
import pytest

from dpcalc.accounting.discretise import (
    Grid,
    cells_of_grid,
    cells_of_pair,
    even_knots,
    lower_grid,
    lower_masses,
    lump_of_grid,
    lumped,
    occupied_knots,
    upper_grid,
    widening_knots,
)
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.sampled import PoissonSampled
from dpcalc.pairs.stacked import stacks


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


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(("noise_multiplier", "rate"), [(0.3, 1e-4), (0.6, 1e-3), (1.1, 1e-5)])
def test_lumping_small_losses_stays_below_at_every_epsilon_and_keeps_the_jumps(noise_multiplier, rate, direction):
    pair = PoissonSampled(base=Gaussian(noise_multiplier=noise_multiplier), sampling_rate=rate).pairs()[direction]
    step = 0.05
    lump = lumped(pair, step / 2)
    assert lump is not None
    knots = even_knots(-200, 800)
    grid = lower_grid(cells_of_pair(lump, step=step, knots=knots), step=step, knots=knots)
    for epsilon in (-1.0, -1e-3, -rate, 0.0, rate, 1e-3, 0.02, 0.05, 0.0777, 0.31, 1.0, 3.3):
        exact = float(exact_delta(noise_multiplier, rate, epsilon, direction))
        assert grid_delta(grid, epsilon - lump.offset) <= exact * (1 + 1e-12) + 1e-15
        if direction == 0 and exact > 1e-12 and epsilon >= 0.31:
            assert grid_delta(grid, epsilon - lump.offset) >= 0.7 * exact


@pytest.mark.parametrize("theta", [0.0, 0.7, 9.0])
@pytest.mark.parametrize("seed", range(4))
def test_lumping_the_bulk_of_a_fine_grid_stays_below_at_every_epsilon(theta, seed):
    generator = np.random.default_rng(seed)
    step, factor = 0.003, 17
    masses = 1e-3 * generator.random(900) ** 8
    masses[400:407] += generator.random(7)
    fine = Grid(step, -350, masses / masses.sum())
    tilted = fine.tilted(theta)
    lump = lump_of_grid(tilted, step * factor / 2)
    assert lump is not None
    cells, first = cells_of_grid(tilted, factor=factor, lump=lump)
    knots = even_knots(first, first + len(cells.mass))
    coarse = lower_grid(cells, step=step * factor, knots=knots, theta=theta)
    logs = tilted.log_scale - theta * (coarse.losses + lump.at)
    plain = Grid(coarse.step, coarse.start, coarse.masses * np.exp(logs), knots=knots)
    for epsilon in np.linspace(-1.2, 1.8, 301):
        assert grid_delta(plain, epsilon - lump.at) <= grid_delta(fine, epsilon) * (1 + 1e-12) + 1e-15
    assert grid_delta(plain, 0.5 - lump.at) >= 0.8 * grid_delta(fine, 0.5)


@pytest.mark.parametrize("mechanism", [RandomizedResponse(epsilon=0.7), Laplace(scale=2.0)])
def test_leaving_out_empty_cells_changes_nothing(mechanism):
    pair, step = mechanism.pairs()[0], 0.013
    few, all_of_them = occupied_knots(pair, step, -80, 80), even_knots(-80, 80)
    assert len(few) < len(all_of_them)
    for make in (upper_grid, lower_grid):
        one, other = (make(cells_of_pair(pair, step=step, knots=k), step=step, knots=k) for k in (few, all_of_them))
        for epsilon in np.linspace(-1, 1, 41):
            assert grid_delta(one, epsilon) == pytest.approx(grid_delta(other, epsilon), abs=1e-14)


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

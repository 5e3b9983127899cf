"""The secure Gaussians: that they are Gaussian in every part of the ziggurat, and that their bits are used once."""

import math
import os

import numpy as np
import pytest
from scipy.special import erfc, ndtr

from dpcalc.training import gaussians
from dpcalc.training.gaussians import system_bits, system_gaussians
from dpcalc.training.noise import grid


def _distance(draws, distribution):
    """Kolmogorov and Smirnov's √n sup|F_n − F|: above 2.5 once in 100,000 times."""
    expected = distribution(np.sort(draws))
    count = np.arange(draws.size + 1) / draws.size
    return math.sqrt(draws.size) * max((count[1:] - expected).max(), (expected - count[:-1]).max())


def test_draws_follow_the_normal_distribution():
    assert _distance(system_gaussians(1_000_000), ndtr) < 2.5


def test_draws_beyond_the_layers_follow_the_tail_of_the_normal_distribution():
    def distribution(x):
        return 1 - erfc(x / math.sqrt(2)) / math.erfc(gaussians._TAIL / math.sqrt(2))

    assert _distance(gaussians._tail_draws(300_000), distribution) < 2.5


def test_tail_probabilities_are_those_of_the_normal_distribution():
    draws = system_gaussians(1_000_000)
    for z in (-4, -3.6, -3, -2, -1, -0.1, 0, 0.2, 1, 2, 3, 3.7):
        expected = 0.5 * math.erfc(-z / math.sqrt(2))
        allowed = 5 * math.sqrt(expected * (1 - expected) / draws.size)
        assert np.mean(draws <= z) == pytest.approx(expected, abs=allowed)


def test_every_stretch_between_two_edges_gets_its_share():
    draws = np.abs(system_gaussians(2_000_000))
    edges = gaussians._EDGES[:0:-1]
    found = np.histogram(draws, [*edges, np.inf])[0]
    expected = -draws.size * np.diff(erfc(np.array([*edges, np.inf]) / math.sqrt(2)))
    freedom = len(found) - 1
    assert (((found - expected) ** 2) / expected).sum() == pytest.approx(freedom, abs=6 * math.sqrt(2 * freedom))


@pytest.mark.parametrize(
    ("power", "moment", "variance"), [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)]
)
def test_moments_are_those_of_the_normal_distribution(power, moment, variance):
    draws = system_gaussians(500_000)
    assert np.mean(draws**power) == pytest.approx(moment, abs=5 * math.sqrt(variance / draws.size))


def test_the_layers_of_the_ziggurat_have_equal_area():
    widths, heights = gaussians._EDGES[1:-1], gaussians._HEIGHTS
    assert widths * (heights[2:] - heights[1:-1]) == pytest.approx(gaussians._AREA, rel=1e-12)


@pytest.mark.parametrize("count", [0, 1, 16_383, 16_384, 16_385, 100_001])
def test_as_many_come_as_are_asked_for_and_all_are_different(count):
    draws = system_gaussians(count)
    assert draws.shape == (count,)
    assert np.unique(draws).size == count


def test_no_draw_is_used_twice():
    first, second = system_gaussians(100_000), system_gaussians(100_000)
    assert np.intersect1d(first, second).size == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_draws_other_bits():
    system_bits(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, system_bits(64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        os.close(writing)
        theirs = np.frombuffer(pipe.read(), dtype=np.uint64)
    assert theirs.size == 64
    assert np.intersect1d(theirs, system_bits(64)).size == 0


def test_neighbouring_draws_are_independent():
    draws = system_gaussians(200_000)
    half = draws.size // 2
    for first, second in ((draws[:-1], draws[1:]), (draws[:half], draws[half:])):
        allowed = 5 / math.sqrt(first.size)
        assert np.corrcoef(first, second)[0, 1] == pytest.approx(0, abs=allowed)
        assert np.corrcoef(np.abs(first), np.abs(second))[0, 1] == pytest.approx(0, abs=allowed)


@pytest.mark.parametrize("deviation", [1.0, 1.4, 1.999])
def test_values_of_the_grid_stand_for_millions_of_draws_and_are_as_likely_as_they_should_be(deviation):
    """Counted exactly: the positions of each layer that round to a value of the grid, against its share."""
    width, enlarged = grid(1, deviation=deviation, sensitivity=1.0)
    errors = []
    for place in np.random.default_rng(1).standard_normal(200).clip(-3.5, 3.5):
        layers = np.flatnonzero(abs(place) + width < gaussians._INNER)
        scale, value = enlarged / width, round(place * enlarged / width)
        counts = _first_at(value + 1, layers, scale) - _first_at(value, layers, scale)
        shares = 1 / (gaussians._OUTER[layers] * scale)
        assert counts.min() > 8_000_000
        errors.append((counts - shares).sum() / shares.sum())
    assert np.sqrt(np.mean(np.square(errors))) < 4e-8
    assert np.abs(errors).max() < 2e-7


def _first_at(value, layers, scale):
    """The first position in each layer that is rounded to at least `value` widths."""
    low, high = np.full(layers.shape, -(2**52)), np.full(layers.shape, 2**52)
    while (low < high).any():
        middle = (low + high) // 2
        reached = np.rint((middle + 0.5) * gaussians._OUTER[layers] * scale) >= value
        low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    return high

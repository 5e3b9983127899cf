"""Clipping strategies: what a record can contribute, how noise is split, and how the clip moves."""

import math

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.training.clipping import FixedClip, Online, OnlineClip, QuantileClip, scale_to
from dpcalc.training.noise import SeededNoise, grid

NORMS = np.array([0.0, 1e-3, 0.5, 1.0, 1.5, 10.0, 1e6])


class _Silent:
    """Noise that records what was asked of it and adds none."""

    def __init__(self):
        self.asked = []

    def add(self, sums, *, deviation, sensitivity):
        self.asked.append((deviation, sensitivity))
        return sums.copy()


STRATEGIES = [
    FixedClip(1.0, 2.0),
    QuantileClip(1.0, 2.0, quantile=0.5, batch_size=100),
    OnlineClip(1.0, 2.0),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_record_contributes_more_than_the_clip(strategy):
    contributed = strategy.weights(NORMS)[0] * NORMS
    assert (contributed <= strategy.clip).all()
    assert contributed == pytest.approx(np.minimum(NORMS, strategy.clip), rel=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_step_is_one_gaussian_of_the_runs_noise_multiplier(strategy):
    """A record's squared shares of all queries of a step add up to at most 1/z²."""
    shares = strategy.spent(NORMS)
    assert shares.max() <= strategy.clip
    assert shares.max() == pytest.approx(strategy.clip, rel=1e-12)


@pytest.mark.parametrize("limit", [0.0, 1e-300, 1.0, 100.0, 1e300])
def test_scaling_never_overflows_and_never_enlarges(limit):
    scales = scale_to(NORMS, limit)
    assert ((scales >= 0) & (scales <= 1)).all()
    assert (scales * NORMS <= limit).all()


def test_the_online_split_of_the_paper_leaves_one_percent_more_noise_for_the_gradient():
    assert OnlineClip(1.0, 3.0).noise_multiplier / 3.0 == pytest.approx(1.01, abs=1e-4)


def test_online_directions_are_unit_vectors_of_the_clipped_records():
    strategy = OnlineClip(0.1, 1.0)
    directions = strategy.weights(NORMS)[1] * NORMS
    assert directions[NORMS <= 0.1].tolist() == [0, 0]
    assert (directions <= 1).all()
    assert directions[NORMS > 0.1] == pytest.approx(1, rel=1e-4)


def test_online_clip_and_rate_follow_the_signs_of_algorithm_1():
    strategy, noise = OnlineClip(0.5, 1.0), _Silent()
    strategy.release(np.array([[1.0, 0.0], [0.0, 1.0]]), 0.0, batch_size=1, noise=noise)
    assert (strategy.clip, strategy.rate_factor) == (0.5, 1.0)
    strategy.release(np.array([[-1.0, 2.0], [0.0, 0.0]]), 0.0, batch_size=1, noise=noise)
    assert strategy.clip == pytest.approx(0.5 * math.exp(2.5e-3))
    assert strategy.rate_factor == pytest.approx(math.exp(-2.5e-3))


def test_online_noise_is_that_of_the_gradient_and_of_the_direction():
    strategy, noise = OnlineClip(0.5, 2.0), _Silent()
    strategy.release(np.zeros((2, 3)), 0.0, batch_size=1, noise=noise)
    (gradient, _), (direction, unit) = noise.asked
    assert direction == pytest.approx(7.124 * 2)
    assert unit == 1
    assert (gradient / 0.5) ** -2 + direction**-2 == pytest.approx(2.0**-2)


@pytest.mark.parametrize(("within", "direction"), [(50.0, -1), (-50.0, 1), (0.0, 0)])
def test_the_quantile_clip_moves_towards_its_quantile(within, direction):
    strategy = QuantileClip(1.0, 1.0, quantile=0.5, batch_size=100)
    strategy.release(np.zeros((1, 2)), within, batch_size=100, noise=_Silent())
    assert np.sign(math.log(strategy.clip)) == direction
    assert math.log(strategy.clip) == pytest.approx(-0.2 * within / 100)


def test_quantile_noise_split_is_that_of_andrew_et_al():
    strategy, noise = QuantileClip(0.7, 1.5, quantile=0.5, batch_size=200), _Silent()
    strategy.release(np.zeros((1, 2)), 0.0, batch_size=200, noise=noise)
    (gradient, clip), (count, half) = noise.asked
    assert (count, half, clip) == (10, 0.5, 0.7)
    assert (gradient / 0.7) ** -2 + (2 * count) ** -2 == pytest.approx(1.5**-2)


def test_too_much_noise_for_the_quantile_is_refused():
    with pytest.raises(InputError, match="noise multiplier below batch size / 10"):
        QuantileClip(1.0, 20.0, quantile=0.5, batch_size=100)


def test_online_rates_and_noise_are_options():
    """ρ_c = ρ_r = 0 moves nothing; ν_q = 2ν leaves ν_g = ν/√(1 − 1/4) for the gradient."""
    clip = OnlineClip(0.5, 3.0, online=Online(clip_rate=0.0, lr_rate=0.0, split=2.0))
    assert clip.noise_multiplier == pytest.approx(3.0 / math.sqrt(0.75))
    for _ in range(3):
        clip.release(np.ones((2, 5)), 0.0, batch_size=2, noise=SeededNoise(1))
    assert (clip.clip, clip.rate_factor) == (0.5, 1.0)
    fast = OnlineClip(0.5, 1e-9, online=Online(clip_rate=0.1, lr_rate=0.2))
    for _ in range(2):
        fast.release(np.ones((2, 5)), 0.0, batch_size=2, noise=SeededNoise(1))
    assert fast.clip == pytest.approx(0.5 * math.exp(0.1))
    assert fast.rate_factor == pytest.approx(math.exp(0.2))


@pytest.mark.parametrize("multiplier", [0.7, 40.0])
def test_a_filter_charges_what_the_grid_of_the_noise_adds_to_a_small_norm(multiplier):
    """Every number half a width from where rounding turns: a step of norm 1e-9 moves 10⁴ of them by a width each."""
    clip, count = 2.0, 10_000
    width, deviation = grid(count, deviation=multiplier * clip, sensitivity=clip)
    before = np.full(count, 0.5 * width * (1 - 1e-6))
    after = before + 1e-6 * width
    norm = np.linalg.norm(after - before)
    released = np.linalg.norm(np.rint(after / width) - np.rint(before / width)) * width
    assert released == pytest.approx(width * math.sqrt(count))
    strategy = FixedClip(clip, multiplier, parameters=count)
    assert released / deviation <= strategy.spent(np.array([norm]))[0] / (multiplier * clip)
    assert strategy.spent(np.array([clip]))[0] == clip

"""The noise that is released: its grid, what it costs, and that nothing about it repeats."""

import math

import numpy as np
import pytest

from dpcalc.training.noise import GRID_BITS, SeededNoise, SystemNoise, grid


@pytest.mark.parametrize("noise", [SeededNoise(3), SystemNoise()])
def test_noise_has_the_stated_deviation_and_no_bias(noise):
    added = noise.add(np.zeros(200_000), deviation=2.5, sensitivity=1.0)
    assert added.mean() == pytest.approx(0, abs=5 * 2.5 / math.sqrt(200_000))
    assert added.std() == pytest.approx(2.5, rel=0.01)


def test_every_released_number_lies_on_the_grid_whatever_the_sum():
    width, _ = grid(1000, deviation=3.0, sensitivity=1.0)
    sums = np.random.default_rng(0).standard_normal(1000) * 50
    released = SystemNoise().add(sums.copy(), deviation=3.0, sensitivity=1.0)
    assert np.array_equal(np.rint(released / width) * width, released)
    assert released - sums == pytest.approx(0, abs=8 * 3.0)


def test_the_true_sums_are_overwritten():
    for noise in (SeededNoise(1), SystemNoise()):
        sums = np.zeros(10)
        assert noise.add(sums, deviation=1.0, sensitivity=1.0) is sums
        assert sums.all()


def test_sums_as_large_as_stated_are_added_exactly():
    deviation, count = 2.0 - 1e-9, 1000
    width, _ = grid(count, deviation=deviation, sensitivity=1.0)
    sums = deviation * 2.0**24 * np.linspace(-1, 1, count)
    released = SystemNoise().add(sums.copy(), deviation=deviation, sensitivity=1.0)
    assert np.array_equal(np.rint(released / width) * width, released)
    assert released - sums == pytest.approx(0, abs=8 * deviation)


def test_the_grid_is_a_power_of_two_and_finer_than_the_noise():
    for deviation in (1e-6, 0.3, 1.0, 1700.0):
        width, _ = grid(10, deviation=deviation, sensitivity=1.0)
        assert math.log2(width) == int(math.log2(width))
        assert width <= deviation * 2.0**-GRID_BITS


def test_the_deviation_pays_for_what_rounding_adds_to_the_sensitivity():
    count, deviation, sensitivity = 26_010, 170.0, 1.0
    width, enlarged = grid(count, deviation=deviation, sensitivity=sensitivity)
    rounded_sensitivity = sensitivity + width * math.sqrt(count)
    assert enlarged / rounded_sensitivity >= deviation / sensitivity * (1 - 1e-15)


def test_a_seed_repeats_the_noise_and_streams_differ():
    draws = [SeededNoise(5, stream=s).add(np.zeros(4), deviation=1.0, sensitivity=1.0) for s in (0, 0, 1)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_system_noise_never_repeats():
    first, second = (SystemNoise().add(np.zeros(4), deviation=1.0, sensitivity=1.0) for _ in range(2))
    assert not np.array_equal(first, second)


def test_every_vector_of_system_noise_has_fresh_entropy(monkeypatch):
    seeds = []
    monkeypatch.setattr("ssl.RAND_add", lambda entropy, amount: seeds.append((entropy, amount)))
    noise = SystemNoise()
    noise.add(np.zeros(3), deviation=1.0, sensitivity=1.0)
    noise.add(np.zeros(3), deviation=1.0, sensitivity=1.0)
    noise.uniforms(3)
    assert [(len(entropy), amount) for entropy, amount in seeds] == [(32, 32.0)] * 3
    assert len(set(seeds)) == 3


def test_a_restored_state_goes_on_with_the_same_noise():
    import json

    noise = SeededNoise(9)
    noise.uniforms(3)
    noise.add(np.zeros(3), deviation=1.0, sensitivity=1.0)
    state = json.loads(json.dumps(noise.state(), default=lambda value: value.tolist()))
    expected = noise.add(np.zeros(5), deviation=1.0, sensitivity=1.0)
    other = SeededNoise(0)
    other.restore(state)
    assert np.array_equal(other.add(np.zeros(5), deviation=1.0, sensitivity=1.0), expected)


def test_uniforms_are_below_one_and_spread():
    for noise in (SeededNoise(1), SystemNoise()):
        values = noise.uniforms(50_000)
        assert values.min() >= 0
        assert values.max() < 1
        assert values.mean() == pytest.approx(0.5, abs=0.01)

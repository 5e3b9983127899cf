"""Sums in slots: their margin, the machines they may run on, and who sits where."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from dpcalc.errors import CertificationError, InputError
from dpcalc.training.backends.layers import Dense
from dpcalc.training.batches import Batches, seated
from dpcalc.training.models import MODELS, build
from dpcalc.training.noise import SeededNoise
from dpcalc.training.sums import SlotSums, margin
from dpcalc.training.tiles import aligned


@pytest.mark.parametrize(("model", "slots"), [("logistic", 1000), ("mlp", 500), ("cnn-small", 60), ("autoencoder", 9)])
def test_the_sum_errs_by_less_than_the_margin_says(model, slots):
    """Against sums of the same single-precision factors in double precision: one tile's error, and all tiles'."""
    generator = np.random.default_rng(11)
    network = build(model, features=256, classes=3, hidden=(9,))
    sums = SlotSums(network, slots)
    x, y = generator.standard_normal((slots, 256)).astype(np.float32), generator.integers(0, 3, slots)
    parameters = network.initial(generator.random)
    for count in (sums.tile, slots):
        seats = np.where(np.arange(slots) < count, np.arange(slots), -1)
        single, norms = _clipped_sum(sums, parameters, x, y, seats)
        each = [_clipped_sum(sums, parameters, x, y, np.where(seats == i, seats, -1))[0] for i in range(count)]
        assert norms.max() > 0
        tiles = -(-count // sums.tile)
        assert np.linalg.norm(single - np.sum(each, axis=0)) <= tiles * margin(sums.tile, slots) / 2


def _clipped_sum(sums, parameters, x, y, seats):
    def to_one(norms, present, _):
        return (present / np.maximum(norms, 1))[None]

    found = sums.run(parameters, x, y, seats, to_one)
    return found.sums[0], found.norms


def test_the_margin_is_that_of_the_theorem():
    unit, double = Fraction(1, 2**24), Fraction(1, 2**53)
    for tile, slots in ((32, 10_000), (64, 10**6), (7, 20), (64, 10**7)):
        tiles = -(-slots // tile)
        product = (tile + 1) * unit / (1 - (tile + 1) * unit)
        adding = (tiles + 1) * double / (1 - (tiles + 1) * double)
        exact = 2 * tile * product + 2 * slots * adding
        assert exact < Fraction(margin(tile, slots)) < exact + Fraction(1, 2**49)


def test_batches_that_are_too_large_for_the_theorem_are_refused():
    with pytest.raises(InputError, match="at most 10,000,000"):
        SlotSums(build("logistic", features=3, classes=2), 10_000_001)


@pytest.mark.parametrize("model", MODELS)
def test_machines_that_mix_records_are_found_out(model, monkeypatch):
    network = build(model, features=256, classes=3)
    sums, parameters = SlotSums(network, 40), network.initial(np.random.default_rng(0).random)
    sums.test_locality(parameters)
    for layer in network.layers:
        if layer.shapes:
            forward = layer.forward
            monkeypatch.setattr(layer, "forward", _mixing(forward))
            with pytest.raises(CertificationError, match="one record change another's gradient"):
                sums.test_locality(parameters)
            monkeypatch.setattr(layer, "forward", forward)


def _mixing(forward):
    """A product in which one row's bits depend on the last bit of another row."""

    def mixed(inputs, parameters):
        outputs = forward(inputs, parameters)
        flat = outputs.reshape(len(outputs), -1)
        last = flat[:, 0].copy().view(np.int32) & 1
        flat[np.roll(last, 1) > 0] *= np.float32(1 + 2.0**-20)
        return outputs

    return mixed


def test_buffers_are_aligned_and_stay_where_they_are():
    layer = Dense(7, 3)
    parameters = [np.ones((7, 3), np.float32), np.ones(3, np.float32)]
    first = layer.forward(aligned((5, 7)), parameters)
    assert first.ctypes.data % 64 == 0
    assert layer.forward(aligned((5, 7)), parameters).ctypes.data == first.ctypes.data


@pytest.mark.parametrize(("records", "size", "slots"), [(100, 10, 20), (40, 20, 31), (300, 4, 17), (50, 45, 49)])
def test_overflow_is_at_least_the_chance_of_a_batch_without_room(records, size, slots):
    batches = Batches(algorithm="sgd", records=records, batch_size=size, fixed_size=False)
    rate, others = Fraction(batches.sampling_rate), records - 1
    chances = (math.comb(others, k) * rate**k * (1 - rate) ** (others - k) for k in range(slots, others + 1))
    exact = sum(chances)
    assert exact <= Fraction(batches.overflow(slots)) <= 30 * exact


def test_slots_are_the_fewest_that_keep_the_allowed_chance():
    batches = Batches(algorithm="sgd", records=10_000, batch_size=300, fixed_size=False)
    slots = batches.slots_within(1e-11)
    assert batches.overflow(slots) <= 1e-11 < batches.overflow(slots - 1)
    assert replace(batches, records=310).slots_within(1e-300) == 310
    assert replace(batches, records=310).overflow(310) == 0
    assert replace(batches, fixed_size=True).slots_within(1e-11) == 300


def test_a_batch_sits_in_its_slots_uniformly_at_random():
    noise, counts = SeededNoise(3), np.zeros((3, 5))
    for _ in range(6000):
        seats = seated(np.array([4, 7, 9]), 5, noise)
        assert sorted(seats[seats >= 0]) == [4, 7, 9]
        for row, record in enumerate((4, 7, 9)):
            counts[row, np.flatnonzero(seats == record)] += 1
    # Twelve degrees of freedom at most: beyond 40 once in 10⁴ times.
    assert ((counts - 1200) ** 2 / 1200).sum() < 40


def test_a_batch_without_room_keeps_a_random_part():
    seats = seated(np.arange(9), 4, SeededNoise(1))
    assert (seats >= 0).all()
    assert len(set(seats)) == 4


class _Scripted:
    """Uniform numbers that were chosen beforehand, as whole multiples of 2⁻⁵³."""

    def __init__(self, *draws):
        self.draws = [np.array(draw, dtype=np.float64) / 2**53 for draw in draws]

    def uniforms(self, count):
        draw = self.draws.pop(0)
        assert len(draw) == count
        return draw


@pytest.mark.parametrize(("size", "records"), [(1, 3), (7, 10), (3, 1_000_003), (256, 60_000), (5, 8)])
def test_the_chance_of_a_record_is_the_rate_to_the_last_bit(size, records):
    """Those below the rate's first 53 digits, and of those equal to them as many as the next digits say."""
    batches = Batches(algorithm="sgd", records=records, batch_size=size, fixed_size=False)
    digits = Fraction(batches.sampling_rate) * 2**53
    whole = int(digits)
    rest = int((digits - whole) * 2**53)
    assert whole + Fraction(rest, 2**53) == digits
    keys = np.full(records, whole + 1)
    keys[:3] = whole - 1, whole, whole
    assert list(batches.draw(0, _Scripted(keys, [max(rest - 1, 0), rest]))) == ([0, 1] if rest else [0])


def test_steps_of_an_epoch_are_equally_likely_to_the_last_bit():
    batches = Batches(algorithm="sgd", records=5, batch_size=2, fixed_size=False, allocated=True)  # three steps
    share = 2**53 // 3
    keys = [0, share - 1, share, 3 * share - 1, 3 * share]
    assert list(batches.allocation(_Scripted(keys, [share]))) == [0, 0, 1, 2, 1]


def test_ties_are_drawn_again():
    fixed = Batches(algorithm="sgd", records=4, batch_size=2, fixed_size=True)
    assert list(fixed.draw(0, _Scripted([9, 5, 5, 1], [7, 2, 8, 1]))) == [3, 1]
    assert list(fixed.draw(0, _Scripted([5, 5, 9, 9], [6, 5, 9, 9]))) == [1, 0]
    assert list(seated(np.array([6, 8]), 3, _Scripted([4, 4, 1], [2, 1, 3]))) == [8, 6, -1]


def test_a_batch_of_fixed_size_sits_in_every_order_alike():
    """By rank, putting one record in the place of another would move all those between them to other slots."""
    batches, noise = Batches(algorithm="sgd", records=3, batch_size=2, fixed_size=True), SeededNoise(5)
    drawn = [tuple(batches.draw(0, noise).tolist()) for _ in range(6000)]
    counts = np.array([drawn.count(pair) for pair in permutations(range(3), 2)])
    assert counts.sum() == 6000
    assert np.abs(counts - 1000).max() < 5 * (6000 * 5 / 36) ** 0.5

"""What may not be claimed: combinations without a proof are refused, and the worse of two directions counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dpcalc.errors import IncompatibleError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.allocated import RandomlyAllocated
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.exponential import Exponential
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.once_per_epoch import OncePerEpoch
from dpcalc.mechanisms.randomized_response import KaryRandomizedResponse
from dpcalc.mechanisms.sampled import FixedSizeSampled, PoissonSampled
from dpcalc.mechanisms.truncated import TruncatedPoisson
from dpcalc.pairs.base import Pair
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import PointPair

GAUSSIAN = Gaussian(noise_multiplier=2.0)
REPLACED = Gaussian(noise_multiplier=2.0, adjacency="replace-one")
SAMPLERS: dict[str, Callable[[Any], Mechanism]] = {
    "poisson": lambda base: PoissonSampled(base=base, sampling_rate=0.1),
    "truncated": lambda base: TruncatedPoisson(base=base, sampling_rate=0.1, dataset_size=50, largest_batch=9),
    "allocated": lambda base: RandomlyAllocated(base=base, steps=5),
    "fixed-size": lambda base: FixedSizeSampled(base=base, sampling_rate=0.1),
    "once": lambda base: OncePerEpoch(base=base),
}


@dataclass(frozen=True, kw_only=True)
class Lopsided(Mechanism):
    """Two directions that have nothing to do with each other."""

    type: ClassVar[str] = "lopsided"
    remove: Pair
    add: Pair
    adjacency: Adjacency = "add-remove"

    def pairs(self) -> tuple[Pair, Pair]:
        return self.remove, self.add

    def spec(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("outer", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("inner", SAMPLERS.values(), ids=SAMPLERS)
def test_nothing_is_sampled_twice(outer, inner):
    with pytest.raises(IncompatibleError, match="already sampled"):
        outer(inner(GAUSSIAN))


@pytest.mark.parametrize("name", ["poisson", "truncated", "allocated"])
def test_a_batch_with_and_without_a_record_needs_a_base_that_is_stated_so(name):
    with pytest.raises(IncompatibleError, match="under add-remove"):
        SAMPLERS[name](REPLACED)


def test_what_has_no_proof_is_refused():
    with pytest.raises(IncompatibleError, match="several of an epoch's steps"):
        RandomlyAllocated(base=GAUSSIAN, steps=5, selected=2, adjacency="replace-one")
    with pytest.raises(IncompatibleError, match="replace-one mechanism"):
        KaryRandomizedResponse(p=0.5, k=3, adjacency="add-remove")
    base = Lopsided(remove=GaussianPair(1.0), add=GaussianPair(0.5), adjacency="replace-one")
    with pytest.raises(IncompatibleError, match="symmetric pair"):
        FixedSizeSampled(base=base, sampling_rate=0.1).pairs()


def test_the_worse_direction_counts():
    orders = np.array([2.0, 9.0])
    steep, flat = GaussianPair(1.0), GaussianPair(0.5)
    for mechanism in (Lopsided(remove=steep, add=flat), Lopsided(remove=flat, add=steep)):
        assert np.all(mechanism.rdp(orders) >= orders / 2)
        assert np.all(Mechanism.rdps.__func__(Lopsided, [mechanism], orders)[0] >= orders / 2)
    losses, half = np.array([-0.4, 0.4]), np.array([0.5, 0.4])
    failing, sure = (
        PointPair(losses, half, half[::-1].copy(), 0.1, 0.1),
        PointPair(losses, half / 0.9, half[::-1] / 0.9),
    )
    for mechanism in (Lopsided(remove=failing, add=sure), Lopsided(remove=sure, add=failing)):
        assert mechanism.basic_dp()[1] >= 0.1


def test_every_block_of_every_epoch_is_counted():
    (short, two), (long, one) = RandomlyAllocated(base=GAUSSIAN, steps=7, selected=3).runs(4)
    assert (two, one) == (8, 4)
    assert (short[0].steps, long[0].steps) == (2, 3)


def test_losses_that_doubles_cannot_hold_are_not_steered():
    (_, seven), (steered, once) = Exponential(epsilon=60.0).attained_last(12, lambda: 1.0)
    assert (seven, once) == (7, 1)
    assert 240 < steered[0].losses.max() < 300
    assert Exponential(epsilon=301.0).attained_last(2, lambda: 1.0) is None

"""Which records take part in a step, and in which slots of the sum they sit.

Who sits where must not betray who is there (docs/train.md): file order and ranks of batches of fixed size are the same
for the others whether or not a record is blank or replaced; a batch of random size is put into its slots at random.

The chances are exactly those that are accounted for, although a random number has 53 bits: coins look at more of them
where these do not decide, and what cannot be shared out evenly (ties, remainders) is drawn again, whoever is concerned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpcalc.asked import Algorithm
from dpcalc.numbers import SMALLEST
from dpcalc.training.noise import Noise

Records: TypeAlias = slice | NDArray[np.int64]

_DIGITS = 2**53  # uniform numbers are multiples of 1/_DIGITS


@dataclass(frozen=True, kw_only=True)
class Batches:
    """How batches come about; nothing here depends on what the records say."""

    algorithm: Algorithm
    records: int
    batch_size: int
    fixed_size: bool
    allocated: bool = False
    """Whether each record is drawn into one step of every epoch, by itself."""

    @property
    def sampling_rate(self) -> float:
        """The chance of a record to be in a step's batch."""
        return 1 / self.steps_per_epoch if self.allocated else self.batch_size / self.records

    @property
    def has_random_size(self) -> bool:
        """Whether every record is drawn on its own, so that the size of a batch is random."""
        return self.algorithm == "sgd" and not self.fixed_size and self.sampling_rate < 1

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every record has taken part once, or would have on average."""
        return 1 if self.algorithm == "gd" else -(-self.records // self.batch_size)

    def allocation(self, noise: Noise) -> NDArray[np.int64]:
        """Each record's step of an epoch, drawn uniformly and by itself; as secret as the noise."""
        return _numbers_below(self.steps_per_epoch, self.records, noise)

    def draw(self, step: int, noise: Noise) -> Records:
        """The records of this step. The random choices are as secret as the noise."""
        if self.algorithm == "gd":
            return slice(0, self.records)
        if self.algorithm == "cgd":
            start = step % self.steps_per_epoch * self.batch_size
            return slice(start, min(start + self.batch_size, self.records))
        if self.fixed_size:
            return _subset(self.batch_size, self.records, noise)
        return np.flatnonzero(_coins(self.sampling_rate, self.records, noise))

    def overflow(self, slots: int) -> float:
        """At least the chance that a step draws `slots` or more of all records but one: Chernoff's bound.

        Of those that a Poisson step draws, or that are allocated to it.
        """
        others, rate = self.records - 1, self.sampling_rate
        if not self.has_random_size or slots > others:
            return 0.0
        share = slots / others
        if share <= rate:
            return 1.0
        spread = share * math.log(share / rate)
        if share < 1:
            spread += (1 - share) * (math.log1p(-share) - math.log1p(-rate))
        # The sum cancels to about (share − rate)², and is rounded by less than 1e-14 of one and the logarithm.
        exponent = others * (spread - 1e-14 * (1 + abs(math.log(share / rate))))
        return min(1.0, math.exp(-exponent) + SMALLEST)

    def slots_within(self, allowed: float) -> int:
        """The fewest slots for which a step overflows with probability at most `allowed`."""
        if not self.has_random_size:
            return self.batch_size
        low, high = self.batch_size, self.records
        while low < high:
            middle = (low + high) // 2
            if self.overflow(middle) <= allowed:
                high = middle
            else:
                low = middle + 1
        return low


def seated(drawn: NDArray[np.int64], slots: int, noise: Noise) -> NDArray[np.int64]:
    """A batch of random size in slots by a uniformly random injection, −1 where nobody sits.

    Restricted to the others it is uniform again, whoever else is drawn. Of a batch that overflows, a random part sits:
    what is done then does not matter, since the chance of it is part of δ.
    """
    places = _permutation(max(slots, len(drawn)), noise)[: len(drawn)]
    seats = np.full(slots, -1, dtype=np.int64)
    fits = places < slots
    seats[places[fits]] = drawn[fits]
    return seats


def _coins(rate: float, count: int, noise: Noise) -> NDArray[np.bool_]:
    """Independent coins that show True with probability `rate` exactly, for every rate of at least 2⁻⁵³.

    The first 53 binary digits of a uniform number decide, unless they are those of the rate: then the next 53 do, and a
    double has no more.
    """
    whole, rest = divmod(rate * _DIGITS, 1.0)
    keys = noise.uniforms(count) * _DIGITS
    coins = np.asarray(keys < whole)
    undecided = np.flatnonzero(keys == whole)
    if undecided.size:
        coins[undecided] = noise.uniforms(undecided.size) < rest
    return coins


def _numbers_below(limit: int, count: int, noise: Noise) -> NDArray[np.int64]:
    """Independent whole numbers, uniform on 0, 1, …, limit − 1."""
    found = (noise.uniforms(count) * _DIGITS).astype(np.int64) // (_DIGITS // limit)
    beyond = np.flatnonzero(found >= limit)
    if beyond.size:
        found[beyond] = _numbers_below(limit, beyond.size, noise)
    return found


def _subset(size: int, count: int, noise: Noise) -> NDArray[np.int64]:
    """A set of `size` of `count` records, each as likely as any other, in an order that is as likely as any other.

    Those with the smallest keys, by their keys, which are exchangeable, also given that none in the set equals another
    one; otherwise they are drawn again.
    """
    while True:
        keys = noise.uniforms(count)
        order = np.argpartition(keys, size - 1)
        inside, outside = order[:size], order[size:]
        inside = inside[np.argsort(keys[inside])]
        ordered = keys[inside]
        if np.all(np.diff(ordered) > 0) and (not outside.size or ordered[-1] < keys[outside].min()):
            return inside


def _permutation(count: int, noise: Noise) -> NDArray[np.int64]:
    """An order of `count` places, each as likely as any other; drawn again where two keys are equal."""
    while True:
        keys = noise.uniforms(count)
        order = np.argsort(keys)
        if np.all(np.diff(keys[order]) > 0):
            return order

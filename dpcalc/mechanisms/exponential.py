"""The exponential mechanism, through its bounded range."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.conversions import bounded_range_rdp
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive
from dpcalc.pairs.adaptive_attack import MOST_STEERED, steered_pair, two_point_pair, worst_t
from dpcalc.pairs.adaptive_range import MOST_RUNS, adaptive_range_mu, adaptive_range_pair
from dpcalc.pairs.base import Pair, Runs
from dpcalc.pairs.bounded_range import BoundedRangePair
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import LARGEST_LOSS
from dpcalc.pairs.sampled_curve import binomial_excess, sampled_excess
from dpcalc.rounding import up


@dataclass(frozen=True, kw_only=True)
class Exponential(Mechanism):
    """The exponential mechanism with parameter ε (also report-noisy-max with Gumbel noise): ε-bounded range.

    ε-DP and ε²/8-zCDP (Cesar, Rogers 2021).
    """

    type: ClassVar[str] = "exponential"

    epsilon: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("epsilon", self.epsilon)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> BoundedRangePair:
        return BoundedRangePair(self.epsilon)

    def zcdp(self) -> float | None:
        return up(self.epsilon**2 / 8, 1)

    def rdp(self, orders: Floats) -> Floats:
        return np.minimum(bounded_range_rdp(self.epsilon, orders), self.epsilon)

    def sampled_excess(self, rate: float, orders: Floats) -> tuple[Floats, Floats] | None:
        """By moments, each at most that of its worst t; the pair lets t be chosen after the outcome."""
        return sampled_excess(self.rdp, lambda whole: binomial_excess(self.rdp, rate, whole), rate, orders)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """Two candidates whose likelihood ratio varies most, which is what samplers leave to be seen."""
        middle = math.log1p(math.expm1(self.epsilon) / 2) if self.epsilon < LARGEST_LOSS else self.epsilon / 2
        pair = two_point_pair(self.epsilon, middle)
        return pair, pair.reversed()

    def attained_runs(self, count: int, order: Callable[[], float]) -> Runs | None:
        """Two candidates, with the t that is about worst for the whole list."""
        pair = two_point_pair(self.epsilon, worst_t(self.epsilon, order()))
        return (((pair, pair), count),)

    def attained_sampled(self, rate: float, order: Callable[[], float]) -> tuple[Pair, Pair] | None:
        pair = two_point_pair(self.epsilon, worst_t(self.epsilon, order(), rate))
        return pair, pair.reversed()

    def attained_last(self, count: int, order: Callable[[], float]) -> Runs | None:
        """Two candidates with t by what came before, of many runs for the last ones; of one run all of the envelope."""
        steered = int(min(count, MOST_STEERED, LARGEST_LOSS / self.epsilon))
        if not steered:
            return None
        last = self._pair if steered == 1 else steered_pair(self.epsilon, steered)
        first = self.attained_runs(count - steered, order) if count > steered else ()
        return (*(first or ()), ((last, last), 1))

    def runs(self, count: int) -> Runs:
        """All together as bad as the best adversary makes them who may choose t anew before every run.

        Losses that doubles cannot hold are left to blocks.
        """
        block = int(min(MOST_RUNS, LARGEST_LOSS / self.epsilon))
        if block == 0 or count == 1:
            return ((self.pairs(), count),)
        if count > block == MOST_RUNS:
            pair: Pair = GaussianPair(adaptive_range_mu(self.epsilon, count))
            return (((pair, pair), 1),)
        blocks = ((min(count, block), count // block or 1), (count % block if count > block else 0, 1))
        pairs = [(adaptive_range_pair(self.epsilon, size), times) for size, times in blocks if size]
        return tuple(((pair, pair), times) for pair, times in pairs)

    def as_replace_one(self) -> Mechanism:
        """Replacing is removing and adding: the ranges add."""
        return Exponential(epsilon=2 * self.epsilon, adjacency="replace-one")

    def theorem(self) -> str:
        return "exponential mechanism, bounded range (Dong, Durfee, Rogers 2020)"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "epsilon": self.epsilon}

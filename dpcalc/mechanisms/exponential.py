"""The exponential mechanism, through its bounded range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.conversions import pure_dp_rdp
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive
from dpcalc.pairs.adaptive_range import adaptive_range_pair, guess_worst_t, two_point_pair
from dpcalc.pairs.base import Pair
from dpcalc.pairs.bounded_range import BoundedRangePair
from dpcalc.pairs.points import LARGEST_LOSS, pure_dp_pair
from dpcalc.rounding import UNIT, up

_BLOCK = 16  # runs that are taken together


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

    @cached_property
    def _symmetric_case(self) -> Pair:
        return pure_dp_pair(self.epsilon / 2)

    def zcdp(self) -> float | None:
        return up(self.epsilon**2 / 8, 1)

    def rdp(self, orders: Floats) -> Floats:
        return np.minimum(orders * self.epsilon**2 / 8 * (1 + 4 * UNIT), pure_dp_rdp(self.epsilon, orders))

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """Two candidates whose scores move in opposite directions: randomised response with ε/2."""
        return self._symmetric_case, self._symmetric_case

    def attained_by_runs(
        self, count: int, *, delta: float | None = None, epsilon: float | None = None
    ) -> tuple[Pair, Pair] | None:
        """Two candidates, and the t at which so many runs are about worst."""
        pair = two_point_pair(self.epsilon, guess_worst_t(self.epsilon, count, delta=delta, at=epsilon))
        return pair, pair

    def runs(self, count: int) -> tuple[tuple[tuple[Pair, Pair], int], ...]:
        """In blocks, each as bad as the best adversary makes it who may choose t anew before every run."""
        if self.epsilon * _BLOCK > LARGEST_LOSS:
            return ((self.pairs(), count),)
        blocks = ((min(count, _BLOCK), count // _BLOCK or 1), (count % _BLOCK if count > _BLOCK else 0, 1))
        pairs = [(adaptive_range_pair(self.epsilon, size), times) for size, times in blocks if size]
        return tuple(((pair, pair), times) for pair, times in pairs)

    def as_replace_one(self) -> Mechanism:
        """Replacing is removing and adding: the ranges add."""
        return Exponential(epsilon=2 * self.epsilon, adjacency="replace-one")

    def theorem(self) -> str:
        return "exponential mechanism, bounded range (Dong, Durfee, Rogers 2020)"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "epsilon": self.epsilon}

"""The staircase mechanism, which adds the least noise of all ε-DP mechanisms (Geng, Viswanath 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import ReplacedDP
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive, expect_proportion
from dpcalc.pairs.base import Pair
from dpcalc.pairs.points import LARGEST_LOSS, PointPair, pure_dp_pair, two_links_pair


@dataclass(frozen=True, kw_only=True)
class Staircase(Mechanism):
    """Noise whose density falls by e^{-ε} at (k + γ)Δ for k = 0, 1, …, on a query of sensitivity Δ.

    `gamma` is the length of the first stair, by default 1/(1 + e^{ε/2}), which makes the expected size of the noise
    the least (Geng, Viswanath 2015, Theorem 3).
    """

    type: ClassVar[str] = "staircase"

    epsilon: float
    gamma: float | None = None
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("epsilon", self.epsilon)
        expect_adjacency(self.adjacency)
        if self.gamma is None:
            object.__setattr__(self, "gamma", math.exp(-self.epsilon / 2) / (1 + math.exp(-self.epsilon / 2)))
        expect_proportion("gamma", self._stair)

    @property
    def _stair(self) -> float:
        assert self.gamma is not None
        return self.gamma

    @cached_property
    def _pair(self) -> PointPair:
        """Three losses dominate every shift d ≤ Δ, and the shift by Δ attains them.

        Stairs end Δ apart, so that x and x - d are at most one apart and the loss is ε, 0 or -ε. If it is ε with
        probability p, then δ(t) = p(1 - e^{t-ε}) for 0 ≤ t ≤ ε, and p(1 - e^{-ε}) is the total variation, which grows
        with d as the density is symmetric and falls on both sides: it is the mass of [-d/2, d/2].
        """
        if self.epsilon > LARGEST_LOSS:
            return pure_dp_pair(self.epsilon)
        fall, gamma = math.exp(-self.epsilon), self._stair
        total = gamma + fall * (1 - gamma)
        up = (min(gamma, 0.5) + fall * max(0.5 - gamma, 0.0)) / total
        level = -math.expm1(-self.epsilon) * abs(1 - 2 * gamma) * (fall if gamma < 0.5 else 1.0) / (2 * total)
        losses = np.array([-self.epsilon, 0.0, self.epsilon])
        return PointPair(losses, np.array([fall * up, level, up]), np.array([up, level, fall * up]))

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        return self.pairs() if self.epsilon <= LARGEST_LOSS else None

    def pure_epsilon(self) -> float:
        return self.epsilon

    def as_replace_one(self) -> Mechanism:
        """Replacing is removing and adding: ε-DP twice."""
        return ReplacedDP(epsilon=2 * self.epsilon, adjacency="replace-one", base=self)

    def replaced(self) -> tuple[tuple[Pair, Pair], tuple[Pair, Pair] | None]:
        pair = two_links_pair(self.epsilon)
        return (pair, pair), self.attained_pairs()

    def theorem(self) -> str:
        return "staircase mechanism (Geng, Viswanath 2015), exact pair of its three losses"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "epsilon": self.epsilon, "gamma": self._stair}

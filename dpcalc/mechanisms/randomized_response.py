"""Randomised response."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.errors import IncompatibleError, InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import ReplacedDP
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive, expect_whole
from dpcalc.pairs.base import Pair
from dpcalc.pairs.points import PointPair, pure_dp_pair, two_links_pair
from dpcalc.rounding import OUTWARD


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Mechanism):
    """The worst ε-DP mechanism (two answers), under the adjacency it is declared for."""

    type: ClassVar[str] = "randomized-response"

    epsilon: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("epsilon", self.epsilon)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> PointPair:
        return pure_dp_pair(self.epsilon)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def as_replace_one(self) -> Mechanism:
        """Replacing is removing and adding: ε-DP twice."""
        return ReplacedDP(epsilon=2 * self.epsilon, adjacency="replace-one", base=self)

    def replaced(self) -> tuple[tuple[Pair, Pair], tuple[Pair, Pair] | None]:
        pair = two_links_pair(self.epsilon)
        return (pair, pair), (pair, pair)

    def theorem(self) -> str:
        return "ε-DP is dominated by randomised response (Kairouz, Oh, Viswanath 2015)"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "epsilon": self.epsilon}


@dataclass(frozen=True, kw_only=True)
class KaryRandomizedResponse(Mechanism):
    """One of k answers: the true one with probability p, each other one with probability (1 - p) / (k - 1).

    A record's answer is replaced by another, so it is a replace-one mechanism.
    """

    type: ClassVar[str] = "randomized-response"

    p: float
    k: int
    adjacency: Adjacency = "replace-one"

    def __post_init__(self) -> None:
        expect_whole("k", self.k, low=2)
        if not 1 / self.k < self.p < 1:
            raise InputError(f"Expected p={self.p} in (1/k, 1) = ({1 / self.k:g}, 1).")
        if self.adjacency != "replace-one":
            raise IncompatibleError("randomized-response with p and k is a replace-one mechanism.")

    @property
    def epsilon(self) -> float:
        """The pure-DP parameter log(p(k-1)/(1-p)), rounded up: near p = 1/k it is the excess pk - 1 that counts."""
        p = Fraction(self.p)
        return math.log1p(float((p * self.k - 1) / (1 - p))) * OUTWARD

    @cached_property
    def _pair(self) -> PointPair:
        other = (1 - self.p) / (self.k - 1)
        losses = np.array([-self.epsilon, 0.0, self.epsilon])
        neither = (self.k - 2) * other
        return PointPair(losses, np.array([other, neither, self.p]), np.array([self.p, neither, other]))

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def theorem(self) -> str:
        return "k-ary randomised response, exact pair"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "p": self.p, "k": self.k}

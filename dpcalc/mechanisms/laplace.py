"""The Laplace mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.conversions import pure_dp_mu, pure_dp_rdp, pure_dp_rho
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive
from dpcalc.pairs.base import Pair
from dpcalc.pairs.laplace import LaplacePair


def _exp_remainder(z: Floats) -> Floats:
    """e^z - 1 - z without cancellation."""
    series = z * z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6 * (1 + z / 7)))))
    return np.where(np.abs(z) < 0.01, series, np.expm1(z) - z)


@dataclass(frozen=True, kw_only=True)
class Laplace(Mechanism):
    """Laplace noise of scale `scale` on a query of ℓ1-sensitivity `sensitivity` under `adjacency`: (Δ/b)-DP."""

    type: ClassVar[str] = "laplace"

    scale: float
    sensitivity: float = 1.0
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("scale", self.scale)
        expect_positive("sensitivity", self.sensitivity)
        expect_adjacency(self.adjacency)

    @property
    def epsilon(self) -> float:
        """The pure-DP parameter Δ/b."""
        return self.sensitivity / self.scale

    @cached_property
    def _pair(self) -> LaplacePair:
        return LaplacePair(self.epsilon)

    def gdp(self) -> float | None:
        return pure_dp_mu(self.epsilon)

    def zcdp(self) -> float | None:
        return pure_dp_rho(self.epsilon)

    def rdp(self, orders: Floats) -> Floats:
        """log((αe^x + (α-1)e^-y) / (2α-1)) / (α-1), x = (α-1)ε, y = αε (Mironov 2017, Proposition 6), rounded up.

        αx = (α-1)y cancels, so for small ε the remainders e^x - 1 - x are summed and not the exponentials.
        """
        x, y = (orders - 1) * self.epsilon, orders * self.epsilon
        first, second = orders / (2 * orders - 1), (orders - 1) / (2 * orders - 1)
        small = np.log1p(first * _exp_remainder(np.minimum(x, 1.0)) + second * _exp_remainder(-np.minimum(y, 2.0)))
        large = x + np.log(first) + np.log1p((orders - 1) / orders * np.exp(-x - y))
        exact = np.where(y < 1.0, small, large) / (orders - 1)
        return np.minimum(exact * (1 + 1e-12), pure_dp_rdp(self.epsilon, orders))

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def as_replace_one(self) -> Mechanism:
        """Replacing a record moves the query by at most a removal and an addition: twice the sensitivity."""
        return Laplace(scale=self.scale, sensitivity=2 * self.sensitivity, adjacency="replace-one")

    def theorem(self) -> str:
        return "Laplace mechanism, exact dominating pair"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "scale": self.scale, "sensitivity": self.sensitivity}

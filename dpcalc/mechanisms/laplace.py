"""The Laplace mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from dpcalc.conversions import laplace_mu, laplace_rho
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive
from dpcalc.pairs.base import Pair
from dpcalc.pairs.laplace import LaplacePair
from dpcalc.pairs.points import LARGEST_LOSS
from dpcalc.pairs.turned import TurnedLaplace
from dpcalc.rounding import over_up


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
        """The pure-DP parameter Δ/b, rounded up."""
        return over_up(self.sensitivity, self.scale)

    @cached_property
    def _pair(self) -> LaplacePair:
        return LaplacePair(self.epsilon)

    def gdp(self) -> float | None:
        return laplace_mu(self.epsilon)

    def zcdp(self) -> float | None:
        return laplace_rho(self.epsilon)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def turned(self, rate: float) -> tuple[Pair, Pair] | None:
        if self.epsilon > LARGEST_LOSS:
            return None
        pair = TurnedLaplace(self.epsilon, rate)
        return pair, pair

    def as_replace_one(self) -> Mechanism:
        """Replacing a record moves the query by at most a removal and an addition: twice the sensitivity."""
        return Laplace(scale=self.scale, sensitivity=2 * self.sensitivity, adjacency="replace-one")

    def theorem(self) -> str:
        return "Laplace mechanism, exact dominating pair"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "scale": self.scale, "sensitivity": self.sensitivity}

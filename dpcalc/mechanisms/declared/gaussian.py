"""μ-GDP (Dong, Roth, Su 2022): no easier to attack than N(0,1) against N(μ,1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc import conversions
from dpcalc.conversions.gaussian import THEOREM
from dpcalc.conversions.ranges import expect
from dpcalc.guarantee import Adjacency, MuKind
from dpcalc.mechanisms.declared.base import Declared, times
from dpcalc.mechanisms.validation import expect_adjacency
from dpcalc.numbers import Range
from dpcalc.rounding import up

if TYPE_CHECKING:
    from dpcalc.arrays import Floats
    from dpcalc.pairs.base import Pair
    from dpcalc.pairs.gaussian import GaussianPair

# The square of a larger μ, and so ε, is beyond the range of doubles.
_LARGEST_MU = 1e154


@dataclass(frozen=True, kw_only=True)
class DeclaredGDP(Declared):
    """Any μ-GDP mechanism: the Gaussian is the worst of them."""

    type: ClassVar[str] = "gdp"
    name: ClassVar[str] = "μ-GDP"
    conversion: ClassVar[str] = THEOREM
    accountant: ClassVar[str] = "gdp"
    mu_kind: ClassVar[MuKind | None] = "exact"
    attained: ClassVar[bool] = True

    mu: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect("mu", self.mu, Range(low=0, high=_LARGEST_MU, low_open=True))
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> GaussianPair:
        from dpcalc.pairs.gaussian import GaussianPair

        return GaussianPair(self.mu)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def gdp(self) -> float:
        return self.mu

    def gdp_is_exact(self) -> bool:
        return True

    def zcdp(self) -> float:
        return conversions.gdp_rho(self.mu)

    def rdp(self, orders: Floats) -> Floats:
        return orders * self.zcdp()

    def rdp_at(self, orders: Sequence[float]) -> list[float]:
        return [order * self.zcdp() for order in orders]

    def epsilon_at(self, delta: float) -> float:
        return float(conversions.gdp_epsilon(self.mu, delta))

    def delta_at(self, epsilon: float) -> float:
        return float(conversions.gdp_delta(self.mu, epsilon))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        return float(conversions.gdp_tradeoff(self.mu, false_positive_rate))

    def group(self, size: int) -> DeclaredGDP:
        """Dong, Roth, Su (2022), Theorem 3."""
        return DeclaredGDP(mu=times(self.mu, 1, size), adjacency=self.adjacency)

    def repeated(self, times: int) -> DeclaredGDP:
        return DeclaredGDP(mu=up(self.mu * math.sqrt(times), 2), adjacency=self.adjacency)

    def turned(self, rate: float) -> tuple[Pair, Pair] | None:
        from dpcalc.pairs.turned import TurnedGaussian

        pair = TurnedGaussian(self.mu, rate)
        return pair, pair

    def as_replace_one(self) -> DeclaredGDP:
        """Group privacy: two records are 2μ-GDP (Dong, Roth, Su 2022, Theorem 3)."""
        return DeclaredGDP(mu=2 * self.mu, adjacency="replace-one")

    def theorem(self) -> str:
        return "declared GDP: the Gaussian is the worst case"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "mu": self.mu}

"""The Gaussian mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc.conversions import gdp_rho
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive
from dpcalc.rounding import over_up

if TYPE_CHECKING:
    from dpcalc.arrays import Floats
    from dpcalc.pairs.base import Pair
    from dpcalc.pairs.gaussian import GaussianPair


@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """Gaussian noise of standard deviation noise_multiplier × sensitivity, the sensitivity under `adjacency`.

    Exactly (1 / noise_multiplier)-GDP (Dong, Roth, Su 2022, Theorem 1).
    """

    type: ClassVar[str] = "gaussian"

    noise_multiplier: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("noise_multiplier", self.noise_multiplier, least=1e-300)  # its reciprocal is used
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> GaussianPair:
        from dpcalc.pairs.gaussian import GaussianPair

        return GaussianPair(1 / self.noise_multiplier)

    def gdp(self) -> float | None:
        return over_up(1.0, self.noise_multiplier)

    def gdp_is_exact(self) -> bool:
        return True

    def zcdp(self) -> float | None:
        return gdp_rho(1 / self.noise_multiplier)

    def rdp(self, orders: Floats) -> Floats:
        return orders * gdp_rho(1 / self.noise_multiplier)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def turned(self, rate: float) -> tuple[Pair, Pair] | None:
        from dpcalc.pairs.turned import TurnedGaussian

        pair = TurnedGaussian(1 / self.noise_multiplier, rate)
        return pair, pair

    def as_replace_one(self) -> Mechanism:
        """Replacing a record moves the query by at most a removal and an addition: twice the sensitivity."""
        return Gaussian(noise_multiplier=self.noise_multiplier / 2, adjacency="replace-one")

    def theorem(self) -> str:
        return "Gaussian mechanism, exactly 1/σ-GDP"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "noise_multiplier": self.noise_multiplier}

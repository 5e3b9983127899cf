"""Guarantees that someone else vouches for, as mechanisms: (ε,δ)-DP, GDP, zCDP and RDP."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.conversions import gdp_rho, group_dp, rdp_between, rdp_deltas
from dpcalc.conversions.bernoulli import RenyiRegion
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_adjacency, expect_non_negative, expect_positive, expect_probability
from dpcalc.notions import RenyiDP, ZeroConcentratedDP
from dpcalc.pairs.base import Pair
from dpcalc.pairs.gaussian import GaussianPair
from dpcalc.pairs.points import LARGEST_LOSS, PointPair, pure_dp_pair
from dpcalc.pairs.profile import pair_of_profiles

_DECLARED = "the declared guarantee holds for adaptively chosen inputs"


@dataclass(frozen=True, kw_only=True)
class DeclaredDP(Mechanism):
    """Any (ε,δ)-DP mechanism: two points at ±ε and δ at infinity dominate it (Kairouz, Oh, Viswanath 2015)."""

    type: ClassVar[str] = "dp"

    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_non_negative("epsilon", self.epsilon)
        expect_probability("delta", self.delta)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> PointPair:
        return pure_dp_pair(self.epsilon, self.delta)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def as_replace_one(self) -> Mechanism:
        """Replacing is removing and adding: a group of two."""
        epsilon, delta = group_dp(self.epsilon, self.delta, 2)
        return ReplacedDP(epsilon=epsilon, delta=delta, adjacency="replace-one", base=self)

    def theorem(self) -> str:
        return "declared (ε,δ): two points and δ at infinity dominate it (Kairouz, Oh, Viswanath 2015)"

    def assumptions(self) -> tuple[str, ...]:
        return (_DECLARED,)

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, kw_only=True)
class ReplacedDP(DeclaredDP):
    """What (ε,δ)-DP under add-remove implies under replace-one; replaced by one without influence is removed."""

    base: Mechanism

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        return self.base.attained_pairs()


@dataclass(frozen=True, kw_only=True)
class DeclaredGDP(Mechanism):
    """Any μ-GDP mechanism: the Gaussian is the worst of them."""

    type: ClassVar[str] = "gdp"

    mu: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("mu", self.mu)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> GaussianPair:
        return GaussianPair(self.mu)

    def gdp(self) -> float | None:
        return self.mu

    def gdp_is_exact(self) -> bool:
        return True

    def zcdp(self) -> float | None:
        return gdp_rho(self.mu)

    def rdp(self, orders: Floats) -> Floats:
        return orders * gdp_rho(self.mu)

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def as_replace_one(self) -> Mechanism:
        """Group privacy: two records are 2μ-GDP (Dong, Roth, Su 2022, Theorem 3)."""
        return DeclaredGDP(mu=2 * self.mu, adjacency="replace-one")

    def theorem(self) -> str:
        return "declared GDP: the Gaussian is the worst case"

    def assumptions(self) -> tuple[str, ...]:
        return (_DECLARED,)

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "mu": self.mu}


class _FromRdp(Mechanism):
    """What a declared Rényi curve shares: its pair is the best δ(ε) that the curve implies, at every ε of a grid."""

    def _profile_pair(self, orders: Floats, largest_loss: float) -> PointPair:
        largest_loss = min(largest_loss, LARGEST_LOSS)
        losses = np.sinh(np.linspace(0.0, np.arcsinh(1e3 * largest_loss), 600)) / 1e3
        rdps, known = self.rdp(orders), self._region().profile(losses)
        deltas = np.concatenate(
            [rdp_deltas(orders, rdps, chunk[:, None]).min(axis=1) for chunk in np.array_split(losses, 12)]
        )
        deltas = np.minimum(deltas, known)
        return pair_of_profiles(losses, deltas, deltas)

    @abstractmethod
    def _region(self) -> RenyiRegion:
        """The tests that some of the orders allow."""

    def assumptions(self) -> tuple[str, ...]:
        return (_DECLARED,)


@dataclass(frozen=True, kw_only=True)
class DeclaredZCDP(_FromRdp):
    """Any ρ-zCDP mechanism: RDP at most αρ at every order."""

    type: ClassVar[str] = "zcdp"

    rho: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("rho", self.rho)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pair(self) -> PointPair:
        reach = self.rho + 2 * np.sqrt(self.rho * 180)
        orders = 1 + np.geomspace(1e-3, 1e3, 400) * (1 + 20 / np.sqrt(self.rho))
        return self._profile_pair(orders, float(reach))

    def _region(self) -> RenyiRegion:
        return ZeroConcentratedDP(parameter=self.rho).region()

    @cached_property
    def _gaussian(self) -> GaussianPair:
        return GaussianPair(float(np.sqrt(2 * self.rho)))

    def zcdp(self) -> float | None:
        return self.rho

    def rdp(self, orders: Floats) -> Floats:
        return orders * self.rho

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """The Gaussian of μ = √(2ρ) is one of the mechanisms described."""
        return self._gaussian, self._gaussian

    def as_replace_one(self) -> Mechanism:
        """Group privacy: two records are 4ρ-zCDP (Bun, Steinke 2016, Proposition 27)."""
        return DeclaredZCDP(rho=4 * self.rho, adjacency="replace-one")

    def theorem(self) -> str:
        return "declared zCDP: added as RDP, or through the δ(ε) it implies at every ε"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "rho": self.rho}


@dataclass(frozen=True, kw_only=True)
class DeclaredRDP(_FromRdp):
    """A mechanism whose Rényi divergence is at most epsilons[i] at orders[i]; between them, by convexity."""

    type: ClassVar[str] = "rdp"

    orders: tuple[float, ...]
    epsilons: tuple[float, ...]
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(float(order) for order in self.orders))
        object.__setattr__(self, "epsilons", tuple(float(epsilon) for epsilon in self.epsilons))
        expect_adjacency(self.adjacency)
        if not self.orders or len(self.orders) != len(self.epsilons):
            raise InputError(
                f"Expected as many epsilons ({len(self.epsilons)}) as orders ({len(self.orders)}), at least one."
            )
        for order, epsilon in zip(self.orders, self.epsilons, strict=True):
            if not 1 < order < np.inf:
                raise InputError(f"Expected orders={order} in (1, inf).")
            expect_non_negative("epsilons", epsilon)

    def rdp(self, orders: Floats) -> Floats:
        curve, _ = rdp_between(self.orders, self.epsilons)
        return curve(orders)

    def _region(self) -> RenyiRegion:
        return RenyiDP(orders=self.orders, epsilons=self.epsilons).region()

    @cached_property
    def _pair(self) -> PointPair:
        _, largest = rdp_between(self.orders, self.epsilons)
        orders = np.union1d(1 + np.geomspace(1e-4, largest - 1, 200), self.orders)
        orders = orders[orders <= largest]
        reach = max(self.epsilons) + 180 / (largest - 1)
        return self._profile_pair(orders, float(reach))

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        return None

    def theorem(self) -> str:
        return "declared RDP: added per order, or through the δ(ε) it implies at every ε"

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "orders": list(self.orders), "epsilons": list(self.epsilons)}

"""The notions of privacy a guarantee can be stated in. Each answers the same questions: what does it imply?

An answer is an upper bound, or None where the notion implies nothing finite; `reasons` then says why.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc import conversions
from dpcalc.arrays import Floats
from dpcalc.conversions.bernoulli import RenyiRegion
from dpcalc.conversions.ranges import expect
from dpcalc.errors import InputError
from dpcalc.guarantee import MuKind
from dpcalc.numbers import NON_NEGATIVE, POSITIVE, RENYI_ORDER, Range

# The square of a larger μ, and so ε, is beyond the range of doubles.
_LARGEST_MU = 1e154


def _times(value: float, factor: float, size: int) -> float:
    """value × factor × size for a group of so many records."""
    if size > 1e150 or not value * factor * size < 1e150:
        raise InputError(f"groups of {size:.3g} records are too large: nothing finite holds for them", where="--group")
    return value * factor * size


class Notion(ABC):
    """A statement of privacy, and what follows from it."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    exact: ClassVar[bool]
    mu_kind: ClassVar[MuKind | None] = None

    def mu(self) -> float | None:
        """The smallest μ with μ-GDP."""
        return None

    def rho(self) -> float | None:
        """The smallest ρ with ρ-zCDP."""
        return None

    def rdp(self, orders: Floats) -> Floats:
        """RDP at each order; infinity where nothing is implied."""
        return np.full_like(orders, math.inf)

    @abstractmethod
    def epsilon(self, delta: float) -> float | None:
        """ε at δ."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """δ at ε."""

    @abstractmethod
    def true_positive_rate(self, false_positive_rate: float) -> float:
        """The largest true positive rate of any attack at a false positive rate."""

    @abstractmethod
    def group(self, size: int) -> Notion:
        """What holds for a group of so many records."""

    @abstractmethod
    def spec(self) -> Mapping[str, Any]:
        """The entry of a spec that declares this notion."""

    def reasons(self) -> tuple[str, ...]:
        """Why some answers are missing."""
        return ()

    def advantage(self) -> float:
        """The largest true positive rate minus false positive rate of any attack: δ at ε = 0."""
        return self.delta(0.0)


@dataclass(frozen=True, kw_only=True)
class GaussianDP(Notion):
    """μ-GDP (Dong, Roth, Su 2022): no easier to attack than N(0,1) against N(μ,1)."""

    parameter: float
    name = "μ-GDP"
    theorem = "Dong, Roth, Su (2022), Corollary 2.13: exact (ε,δ) profile of μ-GDP"
    exact = True
    mu_kind = "exact"

    def __post_init__(self) -> None:
        expect("mu", self.parameter, Range(low=0, high=_LARGEST_MU, low_open=True))

    def mu(self) -> float:
        return self.parameter

    def rho(self) -> float:
        return conversions.gdp_rho(self.parameter)

    def rdp(self, orders: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return orders * self.rho()

    def epsilon(self, delta: float) -> float:
        return float(conversions.gdp_epsilon(self.parameter, delta))

    def delta(self, epsilon: float) -> float:
        return float(conversions.gdp_delta(self.parameter, epsilon))

    def true_positive_rate(self, false_positive_rate: float) -> float:
        return float(conversions.gdp_tradeoff(self.parameter, false_positive_rate))

    def group(self, size: int) -> GaussianDP:
        return GaussianDP(parameter=_times(self.parameter, 1.0, size))

    def spec(self) -> Mapping[str, Any]:
        return {"type": "gdp", "mu": self.parameter}


class _Renyi(Notion):
    """What the notions that bound a Rényi curve have in common."""

    theorem = "RDP to (ε,δ): the Bernoulli pairs within it (exact at the orders given), and the best over real orders"
    exact = False

    @abstractmethod
    def largest_order(self) -> float:
        """Up to which order the curve is known."""

    @abstractmethod
    def region(self) -> RenyiRegion:
        """The Bernoulli pairs that some of the orders allow."""

    def epsilon(self, delta: float) -> float:
        return conversions.rdp_curve_epsilon(self.rdp, delta, largest=self.largest_order())

    def delta(self, epsilon: float) -> float:
        return conversions.rdp_curve_delta(self.rdp, epsilon, largest=self.largest_order())

    def true_positive_rate(self, false_positive_rate: float) -> float:
        shifted = false_positive_rate + self.advantage()
        return min(self.region().true_positive_rate(false_positive_rate), shifted * (1 + 1e-15))

    def advantage(self) -> float:
        return self._advantage

    @cached_property
    def _advantage(self) -> float:
        return min(self.region().delta(0.0), self.delta(0.0))


@dataclass(frozen=True, kw_only=True)
class ZeroConcentratedDP(_Renyi):
    """ρ-zCDP (Bun, Steinke 2016): RDP αρ at every order α."""

    parameter: float
    name = "ρ-zCDP"

    def rho(self) -> float:
        return self.parameter

    def __post_init__(self) -> None:
        expect("rho", self.parameter, POSITIVE)

    def largest_order(self) -> float:
        return 1e12

    def region(self) -> RenyiRegion:
        """The Kullback–Leibler divergence is at most ρ too, and decides where errors of both kinds are alike."""
        orders = np.append(1.0, 1 + np.geomspace(0.03, 300.0, 18) * min(1.0, 10 / math.sqrt(self.parameter)))
        return RenyiRegion(orders, orders * self.parameter)

    def rdp(self, orders: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return orders * self.parameter

    def group(self, size: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(parameter=_times(self.parameter, size, size))

    def spec(self) -> Mapping[str, Any]:
        return {"type": "zcdp", "rho": self.parameter}

    def reasons(self) -> tuple[str, ...]:
        return ("μ is not given: zCDP bounds Rényi divergences, and no finite μ-GDP is known to follow from them.",)


@dataclass(frozen=True, kw_only=True)
class RenyiDP(_Renyi):
    """RDP at some orders (Mironov 2017), and what they imply for the orders in between."""

    orders: tuple[float, ...]
    epsilons: tuple[float, ...]
    name = "RDP"

    def __post_init__(self) -> None:
        expect("orders", self.orders, RENYI_ORDER)
        expect("epsilons", self.epsilons, NON_NEGATIVE)
        if not self.orders or len(self.orders) != len(self.epsilons):
            raise InputError(
                f"Expected as many epsilons ({len(self.epsilons)}) as orders ({len(self.orders)}), at least one."
            )

    def largest_order(self) -> float:
        return max(self.orders)

    def region(self) -> RenyiRegion:
        # Divergences grow with the order, so that the bound of a very large order holds at a smaller one too.
        return RenyiRegion(np.minimum(self.orders, 1e6), np.maximum(self.epsilons, 1e-200))

    def epsilon(self, delta: float) -> float:
        return min(super().epsilon(delta), self.region().epsilon(delta))

    def delta(self, epsilon: float) -> float:
        return min(super().delta(epsilon), self.region().delta(epsilon))

    def rdp(self, orders: Floats) -> Floats:
        curve, _ = conversions.rdp_between(self.orders, self.epsilons)
        return curve(orders)

    def group(self, size: int) -> RenyiDP:
        """Mironov (2017), Proposition 2: 2^c records are (α/2^c, 3^c·ε)-RDP for α ≥ 2^(c+1)."""
        doublings = (size - 1).bit_length()
        kept = [
            (a / 2**doublings, 3**doublings * e)
            for a, e in zip(self.orders, self.epsilons, strict=True)
            if a >= 2 ** (doublings + 1)
        ]
        if doublings > 100:
            raise InputError(f"groups of {size:.3g} records are too large: nothing holds for them", where="--group")
        if not kept:
            raise InputError(
                f"expected an RDP order of at least {2 ** (doublings + 1)} for groups of {size}, "
                f"got orders up to {self.largest_order():g}",
                where="--group",
            )
        return RenyiDP(orders=tuple(a for a, _ in kept), epsilons=tuple(e for _, e in kept))

    def spec(self) -> Mapping[str, Any]:
        return {"type": "rdp", "orders": list(self.orders), "epsilons": list(self.epsilons)}

    def reasons(self) -> tuple[str, ...]:
        return (f"μ and ρ are not given: RDP at orders up to {self.largest_order():g} bounds neither GDP nor zCDP.",)


@dataclass(frozen=True, kw_only=True)
class ApproximateDP(Notion):
    """(ε,δ)-DP; ε-DP with δ = 0, whose worst case is randomised response."""

    at_epsilon: float
    at_delta: float = 0.0
    name = "(ε,δ)-DP"
    theorem = "Kairouz, Oh, Viswanath (2015): the worst case is randomised response that fails with probability δ"
    exact = True
    mu_kind = "upper"

    def __post_init__(self) -> None:
        expect("epsilon", self.at_epsilon, NON_NEGATIVE)
        expect("delta", self.at_delta, Range(low=0, high=1, high_open=True))

    def mu(self) -> float | None:
        return None if self.at_delta else conversions.pure_dp_mu(self.at_epsilon)

    def rho(self) -> float | None:
        return None if self.at_delta else conversions.pure_dp_rho(self.at_epsilon)

    def rdp(self, orders: Floats) -> Floats:
        if self.at_delta:
            return np.full_like(orders, math.inf)
        return conversions.pure_dp_rdp(self.at_epsilon, orders)

    def epsilon(self, delta: float) -> float | None:
        epsilon = conversions.dp_epsilon(self.at_epsilon, self.at_delta, delta)
        return epsilon if math.isfinite(epsilon) else None

    def delta(self, epsilon: float) -> float:
        return conversions.dp_delta(self.at_epsilon, self.at_delta, epsilon)

    def true_positive_rate(self, false_positive_rate: float) -> float:
        return conversions.dp_true_positive_rate(self.at_epsilon, self.at_delta, false_positive_rate)

    def group(self, size: int) -> ApproximateDP:
        _times(self.at_epsilon, 1.0, size)
        epsilon, delta = conversions.group_dp(self.at_epsilon, self.at_delta, size)
        if delta >= 1:
            raise InputError(f"groups of {size} have δ = 1: (ε,δ)-DP does not protect them at all", where="--group")
        return ApproximateDP(at_epsilon=epsilon, at_delta=delta)

    def spec(self) -> Mapping[str, Any]:
        return {"type": "dp", "epsilon": self.at_epsilon, "delta": self.at_delta}

    def reasons(self) -> tuple[str, ...]:
        if not self.at_delta:
            return ()
        return (
            f"μ, ρ and RDP are not given: with δ = {self.at_delta:g} > 0 the mechanism may fail outright, "
            "which no finite GDP, zCDP or RDP allows.",
        )

"""What a filter adds up: μ², ρ, or RDP at several orders with the steps' own δ and their largest loss beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from dpcalc.accounting.renyi import composed_rdp
from dpcalc.arrays import Floats
from dpcalc.conversions import pure_dp_rdp
from dpcalc.errors import InputError
from dpcalc.ledger.units import Vector, as_typed, units_up
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import DeclaredDP

Parts = tuple[tuple[Mechanism, int], ...]
Kind = Literal["gdp", "zcdp", "rdp"]

# μ and ρ of a mechanism are doubles a few roundings from the truth; their squares are widened by more than that.
WIDER = 1 + Fraction(1, 1 << 49)


@dataclass(frozen=True)
class Measure:
    """One way to add up costs. The components of "rdp" are R at each order, then Σδ_t, then Σb_t (largest losses)."""

    kind: Kind
    orders: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """What totals in this measure are kept under."""
        return self.kind if not self.orders else f"rdp:{','.join(f'{order!r}' for order in self.orders)}"

    @property
    def nothing(self) -> Vector:
        """The cost of nothing."""
        return (0,) * (len(self.orders) + 2 if self.kind == "rdp" else 1)

    def cost(self, parts: Parts) -> Vector:
        """What releases cost together, every component rounded up; raises where a filter of this kind knows none."""
        return _cost(self, parts)


@lru_cache(maxsize=4096)
def _cost(measure: Measure, parts: Parts) -> Vector:
    if measure.kind == "gdp":
        return (units_up(sum(count * _squared_mu(mechanism) for mechanism, count in parts) * WIDER),)
    if measure.kind == "zcdp":
        return (units_up(sum(count * _rho(mechanism) for mechanism, count in parts) * WIDER),)
    return _renyi_cost(measure.orders, parts)


def _squared_mu(mechanism: Mechanism) -> Fraction:
    mu = mechanism.gdp()
    if mu is None or not math.isfinite(mu):
        raise InputError(
            f"no finite μ is known for {_called(mechanism)}, and this budget has a GDP filter; "
            "a budget with a Rényi filter can take it"
        )
    return Fraction(mu) ** 2


def _rho(mechanism: Mechanism) -> Fraction:
    rho = mechanism.zcdp()
    if rho is None or not math.isfinite(rho):
        raise InputError(f"no finite ρ is known for {_called(mechanism)}, and this budget is one of zCDP")
    return Fraction(rho)


def _called(mechanism: Mechanism) -> str:
    return str(mechanism.spec()["type"])


def _renyi_cost(orders: tuple[float, ...], parts: Parts) -> Vector:
    split = [(*_without_failure(mechanism), count) for mechanism, count in parts]
    divergences = [
        sum(_times(count, one[k]) for count, one in ((n, _divergences(m, orders)) for m, _, n in split))
        for k in range(len(orders))
    ]
    failure = sum(count * as_typed(delta) for _, delta, count in split)
    loss = _total_loss((mechanism, count) for mechanism, _, count in split)
    if loss == math.inf and all(value == math.inf for value in divergences):
        names = ", ".join(sorted({_called(mechanism) for mechanism, _ in parts}))
        raise InputError(
            f"{names}: no Rényi divergence is finite at any order of this budget, so its filter cannot charge it; "
            "state what it guarantees as {type: dp, epsilon: …, delta: …}"
        )
    return (*(units_up(value) for value in divergences), units_up(failure), units_up(loss))


def _times(count: int, value: float) -> Fraction | float:
    return math.inf if value == math.inf else count * Fraction(value)


@lru_cache(maxsize=4096)
def _divergences(mechanism: Mechanism, orders: tuple[float, ...]) -> tuple[float, ...]:
    """Upper bounds on the Rényi divergence of one release at each order; never more than that of its pure ε."""
    at = np.array(orders, dtype=np.float64)
    bounds = composed_rdp([(mechanism, 1)])(at)
    epsilon, delta = _ends(mechanism)
    if delta == 0 and epsilon < math.inf:
        bounds = np.minimum(bounds, pure_dp_rdp(max(epsilon, 0.0), at))
    return tuple(float(value) for value in bounds)


def divergences(parts: Parts, orders: Floats) -> Floats:
    """The Rényi divergence of releases but for their own δ, to choose orders by."""
    return composed_rdp([(_without_failure(mechanism)[0], count) for mechanism, count in parts])(orders)


@lru_cache(maxsize=4096)
def _without_failure(mechanism: Mechanism) -> tuple[Mechanism, float]:
    """A mechanism that may fail outright, with probability δ, as one that does not, and that δ.

    If its finite losses are at most ε and an infinite one has probability at most δ, in both directions, it is
    (ε,δ)-DP, and that is ε-DP but for a part of mass δ, the same in both (Kairouz, Oh, Viswanath 2015).
    """
    epsilon, delta = _ends(mechanism)
    if delta == 0 or epsilon == math.inf or np.isfinite(mechanism.rdp(np.array([1.0001, 2.0]))).any():
        return mechanism, 0.0
    return DeclaredDP(epsilon=epsilon, adjacency=mechanism.adjacency), delta


def _ends(mechanism: Mechanism) -> tuple[float, float]:
    """The largest finite loss, and the probability of an infinite one, over both directions; as stated, or above."""
    pairs, stated = mechanism.pairs(), mechanism.spec()
    loss, failure = max(pair.support()[1] for pair in pairs), max(pair.failure() for pair in pairs)
    return _above(loss, stated.get("epsilon")), _above(failure, stated.get("delta"))


def _above(value: float, stated: float | None) -> float:
    """What somebody typed as it is; what was computed from it raised by more than its roundings."""
    return value if value == stated else value * float(WIDER)


def _total_loss(parts: Iterable[tuple[Mechanism, int]]) -> Fraction | float:
    """An upper bound on the sum of the losses: Σε_t of pure mechanisms, infinite as soon as one is not."""
    total = Fraction(0)
    for mechanism, count in parts:
        epsilon, delta = _ends(mechanism)
        if delta > 0 or epsilon == math.inf:
            return math.inf
        total += count * as_typed(max(epsilon, 0.0))
    return total

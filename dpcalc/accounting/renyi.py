"""Rényi accounting: RDP adds order by order, and the best real order is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.conversions import rdp_curve_delta, rdp_curve_epsilon
from dpcalc.mechanisms.base import Mechanism

_LARGEST_ORDER = 1e5


def composed_rdp(parts: Sequence[tuple[Mechanism, int]]) -> Callable[[Floats], Floats]:
    """Upper bounds on the composed Rényi divergence at any orders (Mironov 2017, Proposition 1)."""
    kinds: dict[type[Mechanism], list[tuple[Mechanism, int]]] = {}
    for mechanism, count in parts:
        kinds.setdefault(type(mechanism), []).append((mechanism, count))

    def curve(orders: Floats) -> Floats:
        total = np.zeros_like(orders)
        for kind, members in kinds.items():
            total = total + kind.summed_rdp(members, orders)
        return total * (1 + 1e-13)

    return curve


def composed_rho(parts: Sequence[tuple[Mechanism, int]]) -> float | None:
    """Σ count·ρ; None unless every part has a finite zCDP parameter."""
    total = 0.0
    for mechanism, count in parts:
        rho = mechanism.zcdp()
        if rho is None:
            return None
        total += count * rho
    return total * (1 + 1e-15)


def rdp_upper_epsilon(parts: Sequence[tuple[Mechanism, int]], delta: float) -> float:
    """Upper bound on ε at δ over real orders."""
    return rdp_curve_epsilon(composed_rdp(parts), delta, largest=_LARGEST_ORDER, also=_known_orders(parts))


def rdp_upper_delta(parts: Sequence[tuple[Mechanism, int]], epsilon: float) -> float:
    """Upper bound on δ at ε over real orders."""
    return rdp_curve_delta(composed_rdp(parts), epsilon, largest=_LARGEST_ORDER, also=_known_orders(parts))


def _known_orders(parts: Sequence[tuple[Mechanism, int]]) -> Floats:
    """Orders at which a declared curve was stated: the best one is often among them."""
    orders = {order for mechanism, _ in parts for order in getattr(mechanism, "orders", ())}
    return np.array(sorted(orders), dtype=np.float64)

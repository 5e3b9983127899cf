"""Rényi accounting: RDP adds order by order, and the best real order is used."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpcalc.accounting.question import Answer, Question
from dpcalc.arrays import Floats
from dpcalc.conversions import rdp_curve_delta, rdp_curve_epsilon
from dpcalc.mechanisms.base import Mechanism
from dpcalc.rounding import accumulated, up

_LARGEST_ORDER = 1e5


def composed_rdp(parts: Sequence[tuple[Mechanism, int]]) -> Callable[[Floats], Floats]:
    """Upper bounds on the composed Rényi divergence at any orders (Mironov 2017, Proposition 1)."""
    mechanisms = [mechanism for mechanism, _ in parts]
    counts = np.array([float(count) for _, count in parts])

    def curve(orders: Floats) -> Floats:
        total = np.sum(counts[:, None] * all_rdps(mechanisms, orders), axis=0)
        return np.asarray(total * (1 + accumulated(len(parts) + 8)))

    return curve


def all_rdps(mechanisms: Sequence[Mechanism], orders: Floats) -> Floats:
    """Upper bounds on each mechanism's Rényi divergence, one row for each; those of one class in one go."""
    kinds: dict[type[Mechanism], list[int]] = {}
    for row, mechanism in enumerate(mechanisms):
        kinds.setdefault(type(mechanism), []).append(row)
    rows = np.empty((len(mechanisms), len(orders)))
    for kind, members in kinds.items():
        rows[members] = kind.rdps([mechanisms[row] for row in members], orders)
    return rows


def composed_rho(parts: Sequence[tuple[Mechanism, int]]) -> float | None:
    """Σ count·ρ; None unless every part has a finite zCDP parameter."""
    total = []
    for mechanism, count in parts:
        rho = mechanism.zcdp()
        if rho is None:
            return None
        total.append(count * rho)
    return up(math.fsum(total), 2)


def by_rdp(parts: Sequence[tuple[Mechanism, int]], question: Question) -> Answer:
    """By Rényi divergences, over real orders: an upper bound."""
    curve, also = composed_rdp(parts), _known_orders(parts)
    if question.delta == 0:
        return Answer("rdp", math.inf, None)
    if question.delta is not None:
        return Answer("rdp", rdp_curve_epsilon(curve, question.delta, largest=_LARGEST_ORDER, also=also), None)
    assert question.epsilon is not None
    return Answer("rdp", rdp_curve_delta(curve, question.epsilon, largest=_LARGEST_ORDER, also=also), None)


def _known_orders(parts: Sequence[tuple[Mechanism, int]]) -> Floats:
    """Orders at which a declared curve was stated: the best one is often among them."""
    orders = {order for mechanism, _ in parts for order in getattr(mechanism, "orders", ())}
    return np.array(sorted(orders), dtype=np.float64)

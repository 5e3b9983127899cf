"""The Rényi divergence of a pair, from its points where it has finitely many and from its transform elsewhere."""

from __future__ import annotations

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.base import Pair
from dpcalc.pairs.mixture import MixturePair
from dpcalc.pairs.points import PointPair, ReversedPair


def finitely_many(pair: Pair) -> PointPair | None:
    """The pair as points, if that is what it is made of."""
    if isinstance(pair, PointPair):
        return pair
    if isinstance(pair, ReversedPair):
        inner = finitely_many(pair.pair)
        return None if inner is None else inner.reversed()
    if isinstance(pair, MixturePair):
        inner = finitely_many(pair.pair)
        return None if inner is None else inner.mixed(pair.rate)
    return None


def log_mgf_rdp(pairs: tuple[Pair, Pair], orders: Floats) -> Floats | None:
    """The Rényi divergence of the worse pair at each order, a shade above its quadrature; None without a transform."""
    worst = np.zeros_like(orders)
    for pair in dict.fromkeys(pairs):
        points = finitely_many(pair)
        value = _transform_rdp(pair, orders) if points is None else points.rdp(orders)
        if value is None:
            return None
        worst = np.maximum(worst, value)
    return worst


def _transform_rdp(pair: Pair, orders: Floats) -> Floats | None:
    value = pair.log_mgf((orders - 1).astype(np.complex128))
    return None if value is None else np.asarray(value.real / (orders - 1) * (1 + 1e-11))

"""The worst (ε,δ)-DP mechanism as a pair."""

from __future__ import annotations

import numpy as np

from dpcalc.pairs.points import PointPair


def pure_dp_pair(epsilon: float, delta: float = 0.0) -> PointPair:
    """The dominating pair of an (ε, δ)-DP mechanism (Kairouz, Oh, Viswanath 2015): two points, and δ at ±∞."""
    likely = float((1 - delta) / (1 + np.exp(-epsilon)))
    unlikely = float((1 - delta) * np.exp(-epsilon) / (1 + np.exp(-epsilon)))
    ends = np.array([-epsilon, epsilon])
    return PointPair(ends, np.array([unlikely, likely]), np.array([likely, unlikely]), delta, delta)

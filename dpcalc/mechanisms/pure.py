"""What every ε-DP mechanism satisfies: its worst case is randomised response."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpcalc.mechanisms.base import Floats
from dpcalc.mechanisms.pairs import PointPair


def pure_dp_pair(epsilon: float, delta: float = 0.0) -> PointPair:
    """The dominating pair of an (ε, δ)-DP mechanism (Kairouz, Oh, Viswanath 2015): two points, and δ at ±∞."""
    likely = float((1 - delta) / (1 + np.exp(-epsilon)))
    unlikely = float((1 - delta) * np.exp(-epsilon) / (1 + np.exp(-epsilon)))
    ends = np.array([-epsilon, epsilon])
    return PointPair(ends, np.array([unlikely, likely]), np.array([likely, unlikely]), delta, delta)


def pure_dp_gdp(epsilon: float) -> float:
    """μ = -2 Φ⁻¹(1/(1+e^ε)), rounded up: the GDP parameter of ε-DP (Bok et al., §D.4)."""
    log_tail = -float(np.logaddexp(0.0, epsilon))
    mu = -2 * float(ndtri_exp(log_tail))
    while float(log_ndtr(-mu / 2)) > log_tail:
        mu = float(np.nextafter(mu * (1 + 1e-15), np.inf))
    return mu * (1 + 4e-16)


def pure_dp_rdp(epsilon: float, orders: Floats) -> Floats:
    """The two-point Rényi divergence that bounds every ε-DP mechanism, and never more than min(ε, αε²/2)."""
    log_p, log_q = -np.logaddexp(0.0, -epsilon), -np.logaddexp(0.0, epsilon)
    forward = orders * log_p + (1 - orders) * log_q
    backward = orders * log_q + (1 - orders) * log_p
    rdp = np.logaddexp(forward, backward) / (orders - 1)
    return np.minimum(np.minimum(np.maximum(rdp, 0.0) + 1e-15, epsilon), orders * epsilon**2 / 2)

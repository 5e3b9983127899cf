"""What ε-DP and (ε,δ)-DP imply for the other notions: the worst such mechanism is randomised response.

ε-DP is dominated by the pair (p, 1−p), (1−p, p) with p = e^ε/(1+e^ε) (Kairouz, Oh, Viswanath 2015).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpcalc.arrays import Floats

_ROUNDING = 1e-14


def pure_dp_mu(epsilon: float) -> float:
    """The smallest μ, rounded up, such that every ε-DP mechanism is μ-GDP: −2Φ⁻¹(1/(1+e^ε)) (Bok et al., §D.4)."""
    from scipy.special import ndtri_exp

    if epsilon < 1e-3:  # Φ⁻¹ near ½ cancels: Φ(μ/2) − ½ = ½·tanh(ε/2), inverted by its series
        from scipy.special import erfinv

        return float(2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 2))) * (1 + _ROUNDING)
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon))) * (1 + 1e-12)


def pure_dp_rdp(epsilons: ArrayLike, orders: ArrayLike) -> Floats:
    """Upper bounds on the RDP of every ε-DP mechanism: log(cosh((α−½)ε)/cosh(ε/2))/(α−1), without cancellation."""
    alpha, epsilon = np.asarray(orders, dtype=np.float64), np.asarray(epsilons, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.sinh(alpha * epsilon / 2) * np.sinh((alpha - 1) * epsilon / 2) / np.cosh(epsilon / 2)
        small = np.log1p(2 * product) / (alpha - 1)
    tail = np.exp(-epsilon) / (1 + np.exp(-epsilon)) * np.expm1(-2 * (alpha - 1) * epsilon)
    large = epsilon + np.log1p(tail) / (alpha - 1)
    bound: Floats = np.where((epsilon < 1) & (alpha * epsilon < 20), small, large)
    return np.minimum(bound * (1 + _ROUNDING), epsilon)


def pure_dp_rho(epsilon: float) -> float:
    """The smallest ρ, rounded up, such that every ε-DP mechanism is ρ-zCDP: ε·tanh(ε/2), the supremum of RDP/α.

    The supremum is the limit α → 1 (Harrison, Manurangsi 2025), and at most Bun–Steinke's ε²/2.
    """
    return epsilon * math.tanh(epsilon / 2) * (1 + _ROUNDING)


def dp_delta(epsilon: float, delta: float, at: float) -> float:
    """Upper bound on δ at another ε of an (ε,δ)-DP mechanism: exact for the worst one."""
    if at >= epsilon:
        return delta
    # (e^ε − e^at)/(1 + e^ε), written without overflow
    share = -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))
    return min(1.0, (delta + (1 - delta) * share) * (1 + _ROUNDING))


def dp_epsilon(epsilon: float, delta: float, at: float) -> float:
    """Upper bound on ε at another δ of an (ε,δ)-DP mechanism; infinity for a δ smaller than its own."""
    if at < delta:
        return math.inf
    share = (at - delta) / (1 - delta)
    if share <= 0:
        return epsilon
    # Solve share = (e^ε − e^x)/(1 + e^ε) for x; what the subtraction may have lost is added back.
    inner = 1 - share * (1 + math.exp(-epsilon)) + 1e-15
    return max(0.0, min(epsilon, (epsilon + math.log(inner)) * (1 + _ROUNDING) + _ROUNDING)) if inner > 0 else 0.0


def group_dp(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """(ε,δ) for groups of so many records: (kε, δ·(1 + e^ε + … + e^((k−1)ε))) (Dwork, Roth, Theorem 2.2)."""
    total = size * epsilon
    if delta == 0:
        return total, 0.0
    if epsilon == 0:
        factor: float = size
    else:
        factor = math.expm1(total) / math.expm1(epsilon) if total < 700 else math.inf
    return total, min(1.0, delta * factor * (1 + _ROUNDING))


def dp_true_positive_rate(epsilon: float, delta: float, false_positive_rate: float) -> float:
    """The largest true positive rate of an attack on an (ε,δ)-DP mechanism at a false positive rate."""
    steep = math.exp(min(epsilon, 700.0)) * false_positive_rate + delta
    flat = 1 - math.exp(-epsilon) * (1 - delta - false_positive_rate)
    return min(1.0, steep, flat)

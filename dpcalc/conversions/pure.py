"""What ε-DP and (ε,δ)-DP imply for the other notions: the worst such mechanism is randomised response.

ε-DP is dominated by the pair (p, 1−p), (1−p, p) with p = e^ε/(1+e^ε) (Kairouz, Oh, Viswanath 2015).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpcalc.arrays import Floats
from dpcalc.conversions.ranges import expect
from dpcalc.numbers import AT_LEAST_ONE, NON_NEGATIVE, RENYI_ORDER, Range

_ROUNDING = 1e-14
UNIT = Range(low=0, high=1)


def pure_dp_mu(epsilon: float) -> float:
    """The smallest μ, rounded up, such that every ε-DP mechanism is μ-GDP: −2Φ⁻¹(1/(1+e^ε)) (Bok et al., §D.4)."""
    from scipy.special import ndtri_exp

    expect("epsilon", epsilon, NON_NEGATIVE)
    if epsilon < 1e-3:  # Φ⁻¹ near ½ cancels: Φ(μ/2) − ½ = ½·tanh(ε/2), inverted by its series
        from scipy.special import erfinv

        return float(2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 2))) * (1 + _ROUNDING)
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon))) * (1 + 1e-12)


def pure_dp_rdp(epsilons: ArrayLike, orders: ArrayLike) -> Floats:
    """Upper bounds on the RDP of every ε-DP mechanism: log(cosh((α−½)ε)/cosh(ε/2))/(α−1), without cancellation."""
    expect("epsilon", epsilons, NON_NEGATIVE)
    expect("orders", orders, RENYI_ORDER)
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


def laplace_mu(epsilon: float) -> float:
    """The smallest μ, rounded up, such that the Laplace mechanism of this ε is μ-GDP: −2Φ⁻¹(½e^{−ε/2}).

    On the middle branch of its trade-off curve, TPR = 1 − e^{−ε}/(4x), and log-convexity of Φ⁻¹(e^u) makes the middle
    the worst point; on the outer branches μ grows up to their ends.
    """
    from scipy.special import erfinv, ndtri_exp

    if epsilon < 1:
        return float(2 * math.sqrt(2) * erfinv(-math.expm1(-epsilon / 2))) * (1 + _ROUNDING)
    return float(-2 * ndtri_exp(-math.log(2) - epsilon / 2)) * (1 + 1e-12)


def laplace_rho(epsilon: float) -> float:
    """The smallest ρ, rounded up, such that the Laplace mechanism of this ε is ρ-zCDP: ε + e^{−ε} − 1, as α → 1."""
    if epsilon < 0.01:  # the sum cancels
        rest = 1 - epsilon / 3 * (1 - epsilon / 4 * (1 - epsilon / 5 * (1 - epsilon / 6)))
        return epsilon * epsilon / 2 * rest * (1 + _ROUNDING)
    return (epsilon + math.expm1(-epsilon)) * (1 + 1e-12)


def dp_delta(epsilon: float, delta: float, at: float) -> float:
    """Upper bound on δ at another ε of an (ε,δ)-DP mechanism: exact for the worst one."""
    _expect_guarantee(epsilon, delta)
    expect("at", at, NON_NEGATIVE)
    if at >= epsilon:
        return delta
    # (e^ε − e^at)/(1 + e^ε), written without overflow
    share = -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))
    return min(1.0, (delta + (1 - delta) * share) * (1 + _ROUNDING))


def dp_epsilon(epsilon: float, delta: float, at: float) -> float:
    """Upper bound on ε at another δ of an (ε,δ)-DP mechanism; infinity for a δ smaller than its own."""
    _expect_guarantee(epsilon, delta)
    expect("at", at, UNIT)
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
    _expect_guarantee(epsilon, delta)
    expect("size", size, AT_LEAST_ONE)
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
    _expect_guarantee(epsilon, delta)
    expect("false_positive_rate", false_positive_rate, UNIT)
    steep = (math.exp(min(epsilon, 700.0)) * false_positive_rate + delta) * (1 + _ROUNDING)
    flat = 1 - math.exp(-epsilon) * (1 - delta - false_positive_rate) * (1 - _ROUNDING)
    return min(1.0, steep, flat + _ROUNDING)


def _expect_guarantee(epsilon: float, delta: float) -> None:
    expect("epsilon", epsilon, NON_NEGATIVE)
    expect("delta", delta, UNIT)

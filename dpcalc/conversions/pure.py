"""What ε-DP and (ε,δ)-DP imply for the other notions: the worst such mechanism is randomised response.

ε-DP is dominated by the pair (p, 1−p), (1−p, p) with p = e^ε/(1+e^ε) (Kairouz, Oh, Viswanath 2015).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpcalc.conversions.attack import true_positive_rate
from dpcalc.conversions.normal import centre_above, tail_above
from dpcalc.conversions.ranges import expect
from dpcalc.numbers import AT_LEAST_ONE, NON_NEGATIVE, RENYI_ORDER, Range
from dpcalc.rounding import FUNCTION, SMALLEST_NORMAL, UNIT, times_up

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpcalc.arrays import Floats

_ROUNDING = 1e-14
_BETWEEN = Range(low=0, high=1)


def pure_dp_mu(epsilon: float) -> float:
    """The smallest μ, rounded up, such that every ε-DP mechanism is μ-GDP: −2Φ⁻¹(1/(1+e^ε)) (Bok et al., §D.4)."""
    expect("epsilon", epsilon, NON_NEGATIVE)
    if epsilon < 1:  # the tail is near ½: 2Φ(μ/2) − 1 = tanh(ε/2)
        return 2 * centre_above(math.tanh(epsilon / 2))
    return 2 * tail_above(-(epsilon + math.log1p(math.exp(-epsilon))))


def pure_dp_rdp(epsilons: ArrayLike, orders: ArrayLike) -> Floats:
    """Upper bounds on the RDP of every ε-DP mechanism: log(cosh((α−½)ε)/cosh(ε/2))/(α−1), without cancellation."""
    import numpy as np

    expect("epsilon", epsilons, NON_NEGATIVE)
    expect("orders", orders, RENYI_ORDER)
    alpha, epsilon = np.asarray(orders, dtype=np.float64), np.asarray(epsilons, dtype=np.float64)
    near = (epsilon < 1) & (alpha * epsilon < 20)
    with np.errstate(over="ignore", invalid="ignore"):
        bound: Floats = np.asarray(_small_rdp(epsilon, alpha, np))
    if not near.all():
        far = ~near
        alpha, large = (np.broadcast_to(each, near.shape)[far] for each in (alpha, epsilon))
        bound[far] = _large_rdp(large, alpha, np)
    return np.minimum(bound * (1 + _ROUNDING), epsilon)


def pure_dp_rdp_at(epsilon: float, order: float) -> float:
    """The same at one order."""
    formula = _small_rdp if epsilon < 1 and order * epsilon < 20 else _large_rdp
    return float(min(formula(epsilon, order, math) * (1 + _ROUNDING), epsilon))


def bounded_range_rdp(epsilon: float, orders: Floats) -> Floats:
    """Upper bounds on the RDP of every ε-bounded-range mechanism, such as the exponential one: at most αε²/8.

    Losses are t and t − ε, for a t in [0, ε] (Dong, Durfee, Rogers 2020). With s = e^t, E X^α is s^{α−1}(c − c′s) over
    1 − e^{−ε}, c = 1 − e^{−αε}, c′ = e^{−ε} − e^{−αε}: largest at s = (α−1)c/(αc′), being s^{α−1}c/α over 1 − e^{−ε}.
    """
    import numpy as np

    alpha = orders - 1
    log_c, log_unit = (np.log(-np.expm1(-each * epsilon)) for each in (orders, 1.0))
    log_s = np.log1p(-1 / orders) + log_c + epsilon - np.log(-np.expm1(-alpha * epsilon))
    log_rest = log_c - np.log(orders) - log_unit
    parts = np.abs(log_c) + abs(log_unit)  # of a small ε they are large, and cancel
    doubt = 16 * UNIT * (3 + alpha * (4 + epsilon + np.abs(log_s)) + (1 + alpha) * parts + np.log(orders))
    concentrated = orders * epsilon**2 / 8 * (1 + 4 * UNIT) + SMALLEST_NORMAL
    return np.asarray(np.fmin(log_s + (log_rest + doubt) / alpha, concentrated))


def _small_rdp(epsilon: Any, alpha: Any, library: Any) -> Any:
    """By the product formula for a difference of cosh, in the functions of `math` or of numpy."""
    product = library.sinh(alpha * epsilon / 2) * library.sinh((alpha - 1) * epsilon / 2) / library.cosh(epsilon / 2)
    return library.log1p(2 * product) / (alpha - 1)


def _large_rdp(epsilon: Any, alpha: Any, library: Any) -> Any:
    tail = library.exp(-epsilon) / (1 + library.exp(-epsilon)) * library.expm1(-2 * (alpha - 1) * epsilon)
    return epsilon + library.log1p(tail) / (alpha - 1)


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
    if epsilon < 1:
        return 2 * centre_above(-math.expm1(-epsilon / 2))
    return 2 * tail_above(-(math.log(2) + epsilon / 2))


def laplace_rho(epsilon: float) -> float:
    """The smallest ρ, rounded up, such that the Laplace mechanism of this ε is ρ-zCDP: ε + e^{−ε} − 1, as α → 1."""
    if epsilon < 0.01:  # the sum cancels
        rest = 1 - epsilon / 3 * (1 - epsilon / 4 * (1 - epsilon / 5 * (1 - epsilon / 6)))
        return epsilon * epsilon / 2 * rest * (1 + _ROUNDING)
    return (epsilon + math.expm1(-epsilon)) + 2 * FUNCTION * epsilon


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
    expect("at", at, _BETWEEN)
    if at < delta:
        return math.inf
    share = (at - delta) / (1 - delta)
    if share <= 0:
        return epsilon
    # Solve share = (e^ε − e^x)/(1 + e^ε) for x; what the subtraction may have lost is added back.
    inner = 1 - share * (1 + math.exp(-epsilon)) + 10 * UNIT
    if inner <= 0:
        return 0.0
    fall = math.log(inner)
    return max(0.0, min(epsilon, (epsilon + fall) + FUNCTION * (epsilon + abs(fall))))


def group_dp(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """(ε,δ) for groups of so many records: (kε, δ·(1 + e^ε + … + e^((k−1)ε))) (Dwork, Roth, Theorem 2.2)."""
    _expect_guarantee(epsilon, delta)
    expect("size", size, AT_LEAST_ONE)
    total = times_up(epsilon, size)
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
    expect("false_positive_rate", false_positive_rate, _BETWEEN)
    return true_positive_rate(epsilon, delta, false_positive_rate)


def _expect_guarantee(epsilon: float, delta: float) -> None:
    expect("epsilon", epsilon, NON_NEGATIVE)
    expect("delta", delta, _BETWEEN)

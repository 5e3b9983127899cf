"""What an attacker can reach, read off a curve δ(ε) that bounds the privacy loss from above in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dpcalc.risk import Risk
from dpcalc.rounding import LARGEST_EXPONENT, UNIT

FALSE_POSITIVE_RATES = (1e-3, 1e-2, 1e-1)

# Standard normal quantiles of 1 − x at these rates, and how far in the tail they are. They choose where to look, and
# no bound depends on them.
_QUANTILES = ((3.0902, 0.5), (2.3263, 0.3), (1.2816, 0.0))
_ROUNDING = 10 * UNIT  # an exponential and five operations on numbers up to 1

# A bound of two terms is near its best where neither is this small beside the other; no nearer than _CLOSE is looked.
_BALANCE = 0.02
_CLOSE = 0.01
_REFINEMENTS = 6
_GOLDEN = (math.sqrt(5) - 1) / 2


def risk_from_curve(
    delta_at: Callable[[float], float],
    *,
    near_mu: float,
    known: Mapping[float, float] | None = None,
    prior: float = 0.5,
) -> Risk:
    """Upper bounds on advantage, true positive rates and Bayes accuracy from certified points of δ(ε).

    With H(t) = δ(log t), TPR at FPR x is at most H(t) + tx and 1 − (1 − H(t) − x)/t for every t ≥ 1 (Dong, Roth, Su
    2022, Proposition 6), so that any probe is a bound. `near_mu`, a μ whose curve is similar, says where to probe, and
    `known` are points that cost nothing.
    """
    curve = dict(known or {})
    curve[0.0] = min(delta_at(0.0), curve.get(0.0, 1.0))
    centre = 2.5 * curve[0.0]  # the μ of a small advantage; tails may be those of a larger one
    for z, weight in _QUANTILES:
        mu = weight * near_mu + (1 - weight) * min(centre, near_mu)
        epsilon = abs(mu * z - mu**2 / 2)
        curve[epsilon] = min(delta_at(epsilon), curve.get(epsilon, 1.0))
    rates = {f"{rate:g}": _best_rate(delta_at, curve, rate) for rate in FALSE_POSITIVE_RATES}
    accuracy = bayes_accuracy(delta_at, prior, curve[0.0])
    return Risk(advantage=curve[0.0], tpr_at_fpr=rates, prior=prior, bayes_accuracy=accuracy)


def furthest(near_mu: float) -> float:
    """The largest ε at which a curve is asked for, but for refinements."""
    return max(abs(near_mu * z - near_mu**2 / 2) for z, _ in _QUANTILES)


def least_true_positive_rate(delta_at: Callable[[float], float], false_positive_rate: float) -> float:
    """An upper bound on the TPR at an FPR, by a search along a certified curve δ(ε); any point of it is a bound."""
    rate = false_positive_rate
    known = {0.0: delta_at(0.0)}

    def steep(epsilon: float) -> float:
        if epsilon not in known:
            known[epsilon] = delta_at(epsilon)
        return math.exp(epsilon) * rate + known[epsilon]

    def flat(epsilon: float) -> float:
        steep(epsilon)
        return -math.exp(-epsilon) * (1 - known[epsilon] - rate)

    best = _narrowed(steep, 0.0, -math.log(rate), 12)
    if steep(best) > 0.5:
        _narrowed(flat, 0.0, -math.log(rate), 8)
    return min(true_positive_rate(epsilon, delta, rate) for epsilon, delta in known.items())


def _narrowed(function: Callable[[float], float], low: float, high: float, times: int) -> float:
    """Where a function with one valley is small: the better of two inner points says which side to leave."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    for _ in range(times):
        if function(left) <= function(right):
            high, left, right = right, right - _GOLDEN * (right - low), left
        else:
            low, left, right = left, right, left + _GOLDEN * (high - left)
    return min(left, right, key=function)


def _best_rate(delta_at: Callable[[float], float], curve: dict[float, float], rate: float) -> float:
    """The smallest bound on the TPR at a rate; `curve` gets the points it takes to come near the best one."""
    for _ in range(_REFINEMENTS):
        epsilons = sorted(curve)
        best = min(epsilons, key=lambda epsilon: true_positive_rate(epsilon, curve[epsilon], rate))
        between = _unbalanced(epsilons, best, curve[best], rate)
        if between is None:
            break
        curve[between] = delta_at(between)
    return min(true_positive_rate(epsilon, delta, rate) for epsilon, delta in curve.items())


def _unbalanced(epsilons: list[float], best: float, delta: float, rate: float) -> float | None:
    """Where to look next, if one of the two terms of the best bound is all of it; None where they balance."""
    at = epsilons.index(best)
    steep = math.exp(min(best, 700.0)) * rate
    if steep > 1:
        return None
    if delta < _BALANCE * steep and at > 0 and best - epsilons[at - 1] > _CLOSE:
        return (epsilons[at - 1] + best) / 2
    if steep < _BALANCE * delta:
        above = epsilons[at + 1] if at + 1 < len(epsilons) else 2 * best + 1
        return (best + above) / 2 if above - best > _CLOSE else None
    return None


def true_positive_rate(epsilon: float, delta: float, false_positive_rate: float) -> float:
    """An upper bound on the TPR of any attack at this FPR, where (ε, δ) holds in both directions."""
    flat = 1 - math.exp(-epsilon) * (1 - delta - false_positive_rate) + _ROUNDING
    if epsilon > LARGEST_EXPONENT and false_positive_rate > 0:
        return min(1.0, flat)
    steep = (math.exp(min(epsilon, LARGEST_EXPONENT)) * false_positive_rate + delta) * (1 + _ROUNDING)
    return min(1.0, steep, flat)


def bayes_accuracy(delta_at: Callable[[float], float], prior: float, advantage: float | None = None) -> float:
    """How often the best guess is right whether a record is in, at most, if that has probability `prior`."""
    smaller = min(prior, 1 - prior)
    odds = abs(math.log(prior) - math.log1p(-prior))
    delta = advantage if odds == 0 and advantage is not None else delta_at(odds)
    return min(1.0, (1 - smaller + smaller * delta) * (1 + _ROUNDING))  # odds that err by 1e-15 move it by less

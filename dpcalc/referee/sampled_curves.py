"""Rényi divergences of Poisson batches of what is known by its own divergences, in balls (docs/certificate.md, R4)."""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb

Curve = Callable[[arb], arb | None]

_MOST_TERMS = 256
_GAMMAS = (-1.0, -0.3, -0.05, 1.05, 1.1, 1.3, 1.5, 1.8, 2.0)


def sampled(curve: Curve, rate: float, order: arb) -> arb | None:
    """Not below the larger of both divergences of ((1−q)Q + qP, Q) at an order; None where it is not known here."""
    q, alpha = arb(rate), float(order.mid())
    removing = _by_curvature(curve, q, order) if alpha < 2 else _between(curve, q, order)
    if removing is None or not q < 1:
        return None
    found = [-(1 - q).log()]
    added = _by_curvature(curve, q, 1 - order)
    if added is not None:
        found.append((1 + added).log() / (order - 1))
    smaller = curve(1 + q * (order - 1))
    if smaller is not None:
        found.append(q * smaller)
    adding = found[0]
    for each in found[1:]:
        adding = adding.min(each)
    return ((1 + removing).log() / (order - 1)).max(adding)


def _between(curve: Curve, q: arb, order: arb) -> arb | None:
    """E X^α − 1: what is divided by α(α−1) is log-convex in α, so that chords between whole orders are above it."""
    low = math.floor(float(order.mid()))
    at_low = _binomial(curve, q, low)
    if order == low or at_low is None:
        return at_low
    at_high = _binomial(curve, q, low + 1)
    if at_high is None:
        return None
    first, second = at_low / (low * (low - 1)), at_high / ((low + 1) * low)
    share = order - low
    return order * (order - 1) * ((1 - share) * first.log() + share * second.log()).exp()


def _binomial(curve: Curve, q: arb, n: int) -> arb | None:
    """Σ C(n,k) (1−q)^{n−k} q^k (m_k − 1), m_k = e^{(k−1)ρ(k)} (Zhu, Wang 2019)."""
    if n > _MOST_TERMS:
        return None
    total: arb = arb(0)
    for k in range(2, n + 1):
        known = curve(arb(k))
        if known is None:
            return None
        total += math.comb(n, k) * (1 - q) ** (n - k) * q**k * ((k - 1) * known).expm1()
    return total


def _by_curvature(curve: Curve, q: arb, p: arb) -> arb | None:
    """E X^p − 1 for p < 2 outside [0, 1], by the largest ratio of second derivatives to those of z^γ."""
    found: arb | None = None
    for gamma in (*(arb(each) for each in _GAMMAS), q * p + 2 * (1 - q)):
        if not (gamma > p and gamma <= 2 and (gamma > 1 or gamma < 0)):
            continue
        known = curve(gamma if gamma > 1 else 1 - gamma)
        if known is None:
            continue
        less = ((gamma - 1 if gamma > 1 else -gamma) * known).expm1()
        ratio = p * (p - 1) * q**2 / (gamma * (gamma - 1))
        if gamma == 2:
            ratio *= (1 - q) ** (p - 2)
        else:
            w = (2 - gamma) * (1 - q) / (q * (gamma - p))
            ratio *= w ** (2 - gamma) * (1 - q + q * w) ** (p - 2)
        found = ratio * less if found is None else found.min(ratio * less)
    return found


def bounded_range(epsilon: arb, order: arb) -> arb:
    """The largest divergence of losses t and t − ε: E X^α is s^{α−1}(c − c′s)/(1 − e^{−ε}), s = e^t."""
    c = -(-order * epsilon).expm1()
    other = (-epsilon).exp() * -(-(order - 1) * epsilon).expm1()
    best = (order - 1) * c / (order * other)
    moment = best ** (order - 1) * (c - other * best) / -(-epsilon).expm1()
    return (moment.log() / (order - 1)).min(order * epsilon**2 / 8)

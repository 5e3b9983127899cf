"""Upper bounds by Rényi divergences in balls, for what is declared as such and for what the grid cannot decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from flint import arb

from dpcalc.referee import sampled_curves

_ORDERS = (*(1 + 0.01 * 1.25**k for k in range(40)), *range(2, 64), *(round(64 * 1.1**k) for k in range(60)))


def confirms(entries: Sequence[Mapping[str, Any]], adjacency: str, epsilon: float, delta: float) -> bool:
    """Whether some order shows δ(ε) ≤ δ, its event being a Bernoulli pair (the exact conversion of one order)."""
    orders = {float(order) for order in _ORDERS}
    for entry in entries:
        orders |= {float(order) for order in entry.get("orders", ())}
    margins = {alpha: _margin(entries, adjacency, alpha, epsilon, delta) for alpha in sorted(orders)}
    best = max(margins, key=lambda alpha: margins[alpha])
    if margins[best] > 0:
        return True
    ordered = sorted(margins)
    place = ordered.index(best)
    low, high = ordered[max(place - 1, 0)], ordered[min(place + 1, len(ordered) - 1)]
    for _ in range(60):  # the margin has one maximum between orders that are known
        first, second = low + 0.382 * (high - low), low + 0.618 * (high - low)
        values = [_margin(entries, adjacency, alpha, epsilon, delta) for alpha in (first, second)]
        if max(values) > 0:
            return True
        if max(values) == -math.inf or high - low < 1e-9 * high:
            return False
        low, high = (first, high) if values[0] < values[1] else (low, second)
    return False


def _margin(entries: Sequence[Mapping[str, Any]], adjacency: str, alpha: float, epsilon: float, delta: float) -> float:
    """By how much the divergence that more than δ would need exceeds the one that there is."""
    order, total = arb(alpha), arb(0)
    for entry in entries:
        one = divergence(entry, adjacency, order)
        if one is None:
            return -math.inf
        total += int(entry.get("count", 1)) * one
    return float((needed(order, epsilon, delta) - total).lower())


def needed(order: arb, epsilon: float, delta: float) -> arb:
    """A lower bound on the Rényi divergence of any pair with P(S) − e^ε Q(S) ≥ δ for some event S.

    By data processing it is at least that of (y, 1−y) against (x, 1−x), y = δ + e^ε x, minimised over x: a convex
    function, bounded by its tangent beside the place where it is smallest.
    """
    factor, excess = arb(epsilon).exp(), arb(delta)
    largest = (1 - excess) / factor

    def value(x: arb) -> arb:
        y = excess + factor * x
        return y**order * x ** (1 - order) + (1 - y) ** order * (1 - x) ** (1 - order)

    def slope(x: arb) -> arb:
        y = excess + factor * x
        r, s = y / x, (1 - y) / (1 - x)
        first = order * factor * (r ** (order - 1) - s ** (order - 1))
        return first - (order - 1) * (r**order - s**order)

    low, high = largest * arb(2) ** -900, largest * (1 - arb(2) ** -60)
    for _ in range(160):
        middle = (low * high).sqrt().mid() if low * 4 < high else ((low + high) / 2).mid()
        if slope(middle) < 0:
            low = middle
        else:
            high = middle
    least = value(low) + slope(low).min(arb(0)) * (high - low)
    if not least > 1 or not slope(low) < 0:
        return arb(0)
    return least.log() / (order - 1)


def divergence(entry: Mapping[str, Any], adjacency: str, order: arb) -> arb | None:
    """A ball that bounds the Rényi divergence of one release at an order from above; None where none is known here."""
    kind, sampling = entry["type"], entry.get("sampling")
    if sampling:
        if adjacency != "add-remove" or sampling.get("scheme") != "poisson":
            return None
        if kind == "gaussian":
            return _sampled_gaussian(noise_multiplier(entry), float(sampling["rate"]), order)
        if kind not in ("zcdp", "rdp", "exponential"):
            return None
        return sampled_curves.sampled(lambda at: _DIVERGENCES[kind](entry, at), float(sampling["rate"]), order)
    if kind in ("randomized-response", "dp") and ("p" in entry or entry.get("delta")):
        return None
    known = _DIVERGENCES.get(kind)
    return None if known is None else known(entry, order)


def _number(entry: Mapping[str, Any], name: str) -> arb:
    return arb(float(entry[name]))


def noise_multiplier(entry: Mapping[str, Any]) -> arb:
    """σ/Δ of Gaussian noise, however it is written."""
    if "noise_multiplier" in entry:
        return _number(entry, "noise_multiplier")
    return _number(entry, "sigma") / _number(entry, "sensitivity")


def _pure(entry: Mapping[str, Any], order: arb) -> arb:
    return _two_points(_number(entry, "epsilon"), order)


_DIVERGENCES: Mapping[str, Callable[[Mapping[str, Any], arb], arb | None]] = {
    "gaussian": lambda entry, order: order / (2 * noise_multiplier(entry) ** 2),
    "gdp": lambda entry, order: order * _number(entry, "mu") ** 2 / 2,
    "zcdp": lambda entry, order: order * _number(entry, "rho"),
    "rdp": lambda entry, order: _declared(entry["orders"], entry["epsilons"], order),
    "randomized-response": _pure,
    "dp": _pure,
    "laplace": lambda entry, order: _laplace(_number(entry, "sensitivity") / _number(entry, "scale"), order),
    "exponential": lambda entry, order: sampled_curves.bounded_range(_number(entry, "epsilon"), order),
    "discrete-gaussian": lambda entry, order: (
        order * (_number(entry, "sensitivity") / _number(entry, "sigma")) ** 2 / 2
    ),
}


def _two_points(epsilon: arb, order: arb) -> arb:
    p = 1 / (1 + (-epsilon).exp())
    q = 1 - p
    return (p**order * q ** (1 - order) + q**order * p ** (1 - order)).log() / (order - 1)


def _laplace(epsilon: arb, order: arb) -> arb:
    """Mironov 2017, Proposition 6."""
    first = order / (2 * order - 1) * ((order - 1) * epsilon).exp()
    second = (order - 1) / (2 * order - 1) * (-order * epsilon).exp()
    return (first + second).log() / (order - 1)


def _sampled_gaussian(noise: arb, rate: float, order: arb) -> arb | None:
    """The binomial sum at a whole order (Mironov, Talwar, Zhang 2019)."""
    alpha = round(float(order.mid()))
    if alpha < 2 or order != arb(alpha):
        return None
    q, variance = arb(rate), noise**2
    total = arb(0)
    for k in range(alpha + 1):
        weight = arb(math.comb(alpha, k)) * (1 - q) ** (alpha - k) * q**k
        total += weight * (arb(k * (k - 1)) / (2 * variance)).exp()
    return total.log() / (alpha - 1)


def _declared(orders: Sequence[Any], values: Sequence[Any], order: arb) -> arb | None:
    """(α−1)·RDP is convex: chords between the orders that are given, nothing above the largest."""
    known = sorted((float(a), float(v)) for a, v in zip(orders, values, strict=True))
    alpha = float(order.mid())
    if alpha > known[-1][0]:
        return None
    if alpha <= known[0][0]:
        return arb(known[0][1])
    for (a, v), (b, w) in pairwise(known):
        if a <= alpha <= b:
            x, y = (arb(a) - 1) * arb(v), (arb(b) - 1) * arb(w)
            return (x + (y - x) * (order - arb(a)) / (arb(b) - arb(a))) / (order - 1)
    return None

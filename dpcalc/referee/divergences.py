"""What bounds on Rényi divergences allow at every ε, as a law: single orders, and lines above all Bernoulli pairs.

A test turns a pair into Ber(y) against Ber(x). ψ(x, y) = y^α x^{1-α} + (1-y)^α (1-x)^{1-α} is convex and at most
M = e^{(α-1)ρ}, so that at any point y′ - sx′ ≤ y - sx + (M - ψ)/ψ_y with s = -ψ_x/ψ_y; and with x and y exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from flint import arb

from dpcalc.referee import laws, samplers
from dpcalc.referee.laws import Law

Divergence = Callable[[arb], arb | None]

MOST_RUNS = 20_000
"""Of more runs the Gaussian that is above them is not worked out one by one."""

_TESTS, _LARGEST = 300, 300.0  # how many, and of what loss


def law_of(divergence: Divergence, orders: Sequence[float], mu: arb | None = None) -> Law:
    """A law with every δ(ε) that divergences, and μ-GDP if it is given, allow: at very small to very large losses."""
    sizes = [arb("0.001") * arb("1.08") ** k for k in range(145)]
    singles = zip(sizes, samplers.heights(divergence, sizes), strict=True)
    points = sorted([*singles, *_lines(divergence, orders)], key=lambda point: float(point[0]))
    kept = [points[0], *(b for a, b in pairwise(points) if float(a[0]) < float(b[0]))]
    if mu is not None:
        curve = laws.gaussian(mu)
        kept = [(loss, height.min(laws.profile(curve, loss).upper())) for loss, height in kept]
    mirrored = [(-loss, 1 - (-loss).exp() + (-loss).exp() * height) for loss, height in reversed(kept)]
    losses, heights = zip(*mirrored, *kept, strict=True)
    return laws.of_profile(losses, heights)


def gaussian_above(rho: arb, count: int) -> arb | None:
    """The μ of a Gaussian above so many adaptive ρ-zCDP mechanisms: s + ρ/(1 - ρ/s - ρ/4) after each of them."""
    if not 4 * rho <= 2 or count > MOST_RUNS:
        return None
    s = arb("2.6") * rho / (1 - rho / 4)
    for _ in range(count):
        s += rho / (1 - rho / s - rho / 4)
    return (2 * s).sqrt()


def _lines(divergence: Divergence, orders: Sequence[float]) -> list[tuple[arb, arb]]:
    """Some ε > 0 with upper bounds on δ: lines at about the largest Bernoulli pairs, which are found in doubles."""
    known = {order: (order - 1) * value for order in orders if (value := divergence(arb(order))) is not None}
    limits = [(order, float(limit)) for order, limit in known.items() if limit > 0]
    if not limits:
        return []
    equal = _bisected(lambda a: _worst(a, a, limits)[0] <= 1, 1e-9, 600.0)
    found = []
    for k in range(_TESTS):
        a = equal * 30 ** (k / _TESTS)
        if a > _LARGEST:
            break
        b = _bisected(partial(_holds, a, limits), 1e-120, equal)
        p = -math.expm1(-b) / -math.expm1(-(a + b))
        x, y = arb(p * math.exp(-a)), arb(p)
        for (_, order), turned in ((_worst(a, b, limits), False), (_worst(b, a, limits), True)):
            found += _line(x, y, arb(order), known[order].exp(), turned=turned)
    return found


def _line(x: arb, y: arb, order: arb, most: arb, *, turned: bool) -> list[tuple[arb, arb]]:
    """The ε of a line's slope and its height there; of slopes below 1 those of the other direction."""
    p, q = (x, y) if turned else (y, x)
    r, s = p / q, (1 - p) / (1 - q)
    psi = p * r ** (order - 1) + (1 - p) * s ** (order - 1)
    by_p, by_q = order * (r ** (order - 1) - s ** (order - 1)), (1 - order) * (r**order - s**order)
    by_y, by_x = (by_q, by_p) if turned else (by_p, by_q)
    if not by_y > 0 or not by_x < 0:
        return []
    slope = -by_x / by_y
    height = y - slope * x + (most - psi) / by_y
    if slope > 1:
        return [(slope.log().upper(), height.upper())]
    return [((-slope.log()).upper(), (height / slope + 1 - 1 / slope).upper())] if slope < 1 else []


def _holds(a: float, limits: Sequence[tuple[float, float]], b: float) -> bool:
    return max(_worst(a, b, limits)[0], _worst(b, a, limits)[0]) <= 1


def _worst(a: float, b: float, limits: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The largest log E X^α over its limit, and its order, for outcomes of losses a and -b: in doubles, a hint."""
    rare, likely = math.expm1(-b) / math.expm1(-(a + b)), math.expm1(-a) / math.expm1(-(a + b))

    def log_moment(order: float) -> float:
        if (order - 1) * a > 30:
            return max(math.log(rare) + (order - 1) * a, 0.0)
        return math.log1p(
            max(rare * math.expm1((order - 1) * a) + likely * math.exp(-b) * math.expm1(-(order - 1) * b), 0)
        )

    return max((log_moment(order) / limit, order) for order, limit in limits)


def _bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low

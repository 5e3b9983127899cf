"""A rough look at the law of a mean of independent ratios: for hints, and no bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.base import Pair
from dpcalc.rounding import LEAST_DIVISOR

_KNOTS = 160
_RARE = 1e-40  # weights that are left out
_LEADING = 4  # bits of a count that are looked at


@dataclass(frozen=True)
class Pilot:
    """Q-weights at increasing values of X ≥ 0."""

    values: Floats
    weights: Floats


def one_term(pair: Pair) -> Pilot:
    """About the law of Z = dP/dQ under Q: its cells on losses that are denser towards 0."""
    half = np.geomspace(1e-7, 650.0, 260)
    losses = np.concatenate((-half[::-1], [0.0], half))
    p, q = pair.masses(losses)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(q > 0, p / q, 0.0)
    there = (q > _RARE) & np.isfinite(ratio) & (np.maximum(p, q) > _RARE)
    return _thinned(ratio[there], q[there]) if there.any() else Pilot(np.ones(1), np.ones(1))


@lru_cache(maxsize=64)
def of_mean(pair: Pair, steps: int) -> Pilot:
    """About the law of the mean of so many copies, by doubling; of the number of steps the leading bits count."""
    term = one_term(pair)
    total, count = term, 1
    for place, bit in enumerate(bin(steps)[3:]):
        total, count = _sum(total, total), 2 * count
        if bit == "1" and place < _LEADING:
            total, count = _sum(total, term), count + 1
    return Pilot(total.values / count, total.weights)


def _sum(x: Pilot, y: Pilot) -> Pilot:
    values = np.add.outer(x.values, y.values).ravel()
    weights = np.multiply.outer(x.weights, y.weights).ravel()
    there = weights * np.maximum(values / (values.mean() + LEAST_DIVISOR), 1.0) > _RARE
    return _thinned(values[there], weights[there])


def _thinned(values: Floats, weights: Floats) -> Pilot:
    """On at most so many points, denser where the bulk is, each split onto two with its mean kept."""
    if len(values) <= _KNOTS:
        order = np.argsort(values)
        return Pilot(values[order], weights[order])
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    total = np.cumsum(weights)
    low, middle, high = (float(values[np.searchsorted(total, share * total[-1])]) for share in (0.16, 0.5, 0.84))
    scale = max((high - low) / 2, 1e-9 * middle, LEAST_DIVISOR)
    reach = [np.arcsinh((middle - values[0]) / scale), np.arcsinh((values[-1] - middle) / scale)]
    knots = middle + scale * np.sinh(np.linspace(-reach[0], reach[1], _KNOTS))
    if values[0] < 0.1 * middle:  # towards 0 in relative steps
        knots = np.concatenate((knots, np.geomspace(max(values[0], 1e-12 * middle), middle, _KNOTS // 3)))
    knots = np.unique(np.concatenate(([values[0]], knots[(knots > values[0]) & (knots < values[-1])], [values[-1]])))
    at = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
    up = (values - knots[at]) / (knots[at + 1] - knots[at])
    sums: Floats = np.zeros(len(knots))
    sums += np.bincount(at, weights * (1 - up), len(knots)) + np.bincount(at + 1, weights * up, len(knots))
    there = sums > _RARE
    return Pilot(knots[there], sums[there])

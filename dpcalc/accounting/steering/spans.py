"""Which grids a single step is put on: fine where its mass is, coarse towards its tails."""

from __future__ import annotations

import math

import numpy as np

from dpcalc.accounting.certified.discretise import Spans
from dpcalc.accounting.certified.law import RATIO
from dpcalc.accounting.steering.hints import COARSEST, Hints
from dpcalc.arrays import Floats

_BASE_MOVE = 0.02  # of the variances, for each end of each grid of a single step
_WIDEST = 1 << 14  # blocks of points of one grid on either side of the middle
_MOST = 1 << 17  # points of the coarsest grid
_FURTHEST = 680.0
_CHEAP = 100_000  # points of all laws, that a grid less is worth


def spans_for(hints: Hints, losses: Floats, masses: Floats) -> Spans:
    """Grids for a pair with these Q-masses at log X = losses: grid k where going to grid k + 1 would not be cheap."""
    there = masses > 0
    ratios, logs = losses[there], np.log(masses[there])
    if not len(ratios):
        raise FloatingPointError("no mass of a law is within the range of doubles")
    rare = math.log(hints.cut / hints.total)
    heavy = np.flatnonzero((logs > rare) | (logs + ratios > rare))
    low, high = (float(ratios[heavy].min()), float(ratios[heavy].max())) if heavy.size else (0.0, 0.0)
    low, high = max(low - 0.15 * abs(low), -_FURTHEST), min(high + 0.15 * abs(high), _FURTHEST)
    if hints.one_grid:  # nothing will be cut off later
        high, low = min(_end(ratios, logs + ratios, rare), high), max(-_end(-ratios[::-1], logs[::-1], rare), low)
    left, right = hints.limits(ratios, logs)
    low, high = max(low, left), min(high, right)
    out: list[tuple[int, int]] = []
    while True:
        s = hints.step * float(RATIO) ** len(out)
        cost = hints.costs(ratios, logs, np.full(len(ratios), s), 1.0)
        first, last = _range(ratios, cost * hints.again, s)
        if out:
            first = min(first, out[-1][0] // RATIO // RATIO * RATIO)
            last = max(last, -(-out[-1][1] // RATIO // RATIO) * RATIO)
        whole = hints.steepest() * RATIO * s > COARSEST or (first <= low / s and last >= high / s)
        if whole and high - low < _MOST * s:
            first, last = min(first, math.floor(low / s)), max(last, math.ceil(high / s))
            return (*out, (first, max(last, first + 1)))
        out.append((first, last))


def _range(ratios: Floats, cost: Floats, step: float) -> tuple[int, int]:
    """The points of a grid between which it is not cheap to go to the next one, as multiples of RATIO."""
    total = np.cumsum(cost)
    i = int(np.searchsorted(total, _BASE_MOVE))
    j = int(np.searchsorted(np.cumsum(cost[::-1]), _BASE_MOVE))
    middle = float(ratios[min(int(np.searchsorted(total, total[-1] / 2)), len(ratios) - 1)])
    low = high = middle
    if i + j < len(ratios):
        low, high = float(ratios[max(i - 1, 0)]), float(ratios[min(len(ratios) - j, len(ratios) - 1)])
    first = max(math.floor(low / step / RATIO), math.floor(middle / step / RATIO) - _WIDEST) * RATIO
    last = min(math.ceil(high / step / RATIO), math.ceil(middle / step / RATIO) + _WIDEST) * RATIO
    return first, last


def _end(ratios: Floats, logs: Floats, rare: float) -> float:
    """About where the mass beyond is e^rare, between the points that a sketch has."""
    tails = np.logaddexp.accumulate(logs[::-1])[::-1]
    last = int(np.searchsorted(-tails, -rare)) - 1
    if last < 0:
        return 0.0
    if last + 1 == len(tails):
        return _FURTHEST
    part = (tails[last] - rare) / (tails[last] - tails[last + 1])
    return float(ratios[last] + part * (ratios[last + 1] - ratios[last]))


def paired(spans: Spans, laws: int) -> Spans:
    """The same with a grid left out, the next finer one used instead, where that is few points more of so many laws."""
    out, k = list(spans), 1
    while k < len(out):
        low, high = out[k][0] * RATIO, out[k][1] * RATIO
        few = (high - low - (out[k - 1][1] - out[k - 1][0])) * laws <= _CHEAP
        if few:
            out[k - 1] = (low, high)
        k += 2 if few else 1
    return tuple(out)

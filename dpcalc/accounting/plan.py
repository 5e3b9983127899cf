"""How finely to cut a composition so that its certified bounds come out as close as asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.pilot import Pilot, Saddle

MOST_POINTS = 1 << 21
_FEW_POINTS = 1 << 12  # below this a second stage saves nothing
LOG_OUTSIDE = -30.0  # log of the tilted probability left outside a window


@dataclass(frozen=True)
class Plan:
    """The coarse step, and for mechanisms that run often the block size and how many fine steps make a coarse one."""

    step: float
    block_size: int
    factor: int
    at_limit: bool

    def block(self, count: int) -> int:
        """How many copies of a mechanism are composed on the fine grid first; 1 for none."""
        return min(self.block_size, count)


def make_plan(pilot: Pilot, saddle: Saddle, counts: Sequence[int], target: float, *, log_untilted: float) -> Plan:
    """A plan whose two bounds should be about 0.7 `target` apart in ε."""
    low, _, high, _ = pilot.window(saddle.theta, LOG_OUTSIDE, log_untilted)
    width = max(high - low, 1e-300)
    least = max(width / MOST_POINTS, max(abs(low), abs(high)) * 1e-12)
    step = _single_step(pilot, saddle, target)
    size = math.isqrt(max(counts))
    if width / step < _FEW_POINTS or size < 4:
        return Plan(max(step, least), 1, 1, step <= least)
    # Half of the error for the fine grid, half for the blocks on the coarse one.
    fine = _single_step(pilot, saddle, target / 2)
    blocks = sum(-(-count // min(size, count)) for count in counts)
    coarse = math.sqrt(6 * 0.35 * target / (1.5 * (1 + saddle.theta) * blocks))
    coarse = min(coarse, saddle.deviation / 6)
    factor = int(coarse / fine)
    if factor < 3:
        return Plan(max(step, least), 1, 1, step <= least)
    coarse = max(fine * factor, least)
    return Plan(coarse, size, factor, coarse <= least)


def _single_step(pilot: Pilot, saddle: Saddle, target: float) -> float:
    """The step at which both bounds together are about 0.7 `target` apart in ε.

    Splitting a loss at distance a above a grid point adds a(h-a) to the variance, h²/6 on average or h·E|L| for losses
    well below h; that moves ε by (1+θ)/2 times it, and the lower bound by twice as much the other way.
    """
    size = pilot.mean_size(saddle.theta)
    low, high = math.log(1e-14), math.log(max(saddle.deviation / 4, 1e-13))
    for _ in range(40):
        h = math.exp((low + high) / 2)
        error = 1.5 * (1 + saddle.theta) * float(pilot.counts @ np.minimum(h * h / 6, h * size))
        low, high = ((low + high) / 2, high) if error < 0.7 * target else (low, (low + high) / 2)
    return math.exp(low)

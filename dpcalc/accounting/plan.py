"""How finely to cut a composition so that its certified bounds come out as close as asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.pilot import Pilot, Saddle
from dpcalc.pairs.base import Pair

MOST_POINTS = 1 << 19
_FEW_POINTS = 1 << 12  # below this a second stage saves nothing
LOG_OUTSIDE = -24.0  # log of the tilted probability left outside a window


@dataclass(frozen=True)
class Plan:
    """The coarse step, and for mechanisms that run often the block size and how many fine steps make a coarse one."""

    step: float
    block_size: int
    factor: int
    at_limit: bool
    ratio: float  # how wide a cell may be, relative to its loss

    def block(self, count: int) -> int:
        """How many copies of a mechanism are composed on the fine grid first; 1 for none. Few are to be left over."""
        if self.block_size == 1 or count <= self.block_size:
            return min(self.block_size, count)
        sizes = range(-(-4 * self.block_size // 5), self.block_size * 6 // 5 + 1)
        return min(sizes, key=lambda size: (count % size, abs(size - self.block_size)))

    def is_few(self, rest: int, count: int) -> bool:
        """Whether so many of the copies can go on the coarse grid right away at little loss."""
        return rest * self.factor**2 <= 0.1 * count


def make_plan(
    pilot: Pilot, saddle: Saddle, parts: Sequence[tuple[Pair, int]], target: float, *, log_untilted: float
) -> Plan:
    """A plan whose two bounds should be about 0.7 `target` apart in ε."""
    low, _, high, _ = pilot.window(saddle.theta, LOG_OUTSIDE, log_untilted)
    width = max(high - low, 1e-300)
    reach = pilot.reach(log_untilted)
    least = max(max(width, reach) / MOST_POINTS, max(abs(low), abs(high)) * 1e-12)
    spacing = _atom_spacing(parts)
    step = _on_atoms(_single_step(pilot, saddle, target), spacing)
    ratio = _ratio(pilot, saddle, target / 2)
    single = Plan(max(step, least), 1, 1, step <= least, ratio)
    counts = [count for _, count in parts]
    size = math.isqrt(max(counts))
    if width / step < _FEW_POINTS or size < 4:
        return single
    # Half of the error for the fine grid, half for the blocks on the coarse one.
    fine = _on_atoms(_single_step(pilot, saddle, target / 2), spacing)
    blocks = sum(-(-count // min(size, count)) for count in counts)
    coarse = math.sqrt(6 * 0.35 * target / (1.5 * (1 + saddle.theta) * blocks))
    fine = max(fine, 2 * least / size**0.5, reach / MOST_POINTS)
    factor = int(min(coarse, saddle.deviation / 6) / fine)
    if factor < 3:
        return single
    step = _on_atoms(fine * factor, spacing)
    return Plan(max(step, least), size, factor, step <= least, ratio)


def _atom_spacing(parts: Sequence[tuple[Pair, int]]) -> float | None:
    """The spacing of the atoms of the most frequent pair that has some."""
    spacings = [(count, pair.spacing()) for pair, count in parts]
    return max(((count, s) for count, s in spacings if s is not None), default=(0, None))[1]


def _on_atoms(step: float, spacing: float | None) -> float:
    """A step no larger, of which the spacing of the atoms is a multiple: atoms on grid points are kept exactly.

    A hair less, so that no positive atom falls below its grid point, where it would be worth the one before.
    """
    return step if spacing is None or spacing < step else spacing / math.ceil(spacing / step) * (1 - 1e-14)


def _ratio(pilot: Pilot, saddle: Saddle, target: float) -> float:
    """How wide cells may be, relative to their loss, to add a tenth of what `_single_step` allows."""
    allowed = 0.1 * 0.7 * target / (1.5 * (1 + saddle.theta))
    return float(np.clip(np.sqrt(6 * allowed / max(pilot.squares(saddle.theta), 1e-300)), 1e-7, 0.125))


def _single_step(pilot: Pilot, saddle: Saddle, target: float) -> float:
    """The step at which both bounds together are about 0.7 `target` apart in ε.

    Added variance moves ε by (1+θ)/2 times it, and the lower bound by twice as much the other way.
    """
    largest, fewest, most = max(saddle.deviation / 4, 1e-13), 0, 100
    while fewest < most:
        middle = (fewest + most) // 2
        error = 1.5 * (1 + saddle.theta) * pilot.rounding(saddle.theta, largest * math.exp(-0.2 * middle))
        fewest, most = (fewest, middle) if error < 0.7 * target else (middle + 1, most)
    return largest * math.exp(-0.2 * most)

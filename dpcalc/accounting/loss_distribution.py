"""Certified upper and lower bounds on δ(ε) and ε(δ) of a composition, by privacy-loss distributions.

Outline: a pilot finds the saddle point; each pair is put on a grid from above and from below (`discretise`); the grids
are composed by FFT under the tilt of the saddle point (`convolve`), and δ(ε) is summed with every error added or taken
away. The step h comes from the tolerance and is refined until the two bounds meet it or the grid is as fine as allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcalc.accounting.convolve import compose_grids
from dpcalc.accounting.curve import Curve
from dpcalc.accounting.discretise import Cells, Grid, cells_of_pair, lower_grid, upper_grid
from dpcalc.accounting.pilot import Outline, Pilot, Saddle, outline
from dpcalc.mechanisms.base import Pair

Parts = Sequence[tuple[Pair, int]]
Side = Literal["upper", "lower"]

_MOST_POINTS = 1 << 21
_SPARE = 1e-6  # share of δ given away to truncation
_LOG_OUTSIDE = -30.0  # log of the tilted probability left outside the window


@dataclass(frozen=True)
class Bounds:
    """A certified interval: the truth is between `lower` and `upper`."""

    lower: float
    upper: float


class LossDistribution:
    """A composition of dominating pairs in one direction, ready to be bounded from above and below."""

    def __init__(self, upper: Parts, lower: Parts) -> None:
        self.upper, self.lower = list(upper), list(lower)
        self._outlines: dict[int, Outline] = {}
        self._pilot = Pilot([self._outline(pair) for pair, _ in self.upper], [count for _, count in self.upper])
        self.steps = sum(count for _, count in self.upper)

    def _outline(self, pair: Pair) -> Outline:
        if id(pair) not in self._outlines:
            self._outlines[id(pair)] = outline(pair)
        return self._outlines[id(pair)]

    def epsilon(self, delta: float, tolerance: float, *, only_upper: bool = False) -> Bounds:
        """Bounds on ε(δ); `only_upper` skips the lower one (0)."""
        saddle = self._pilot.saddle_for_delta(float(np.log(delta)))
        return self._refine(
            saddle,
            tolerance,
            delta,
            lambda curve: curve.epsilon(delta),
            only_upper,
        )

    def delta(self, epsilon: float, tolerance: float, *, only_upper: bool = False) -> Bounds:
        """Bounds on δ(ε)."""
        saddle = self._pilot.saddle_for_epsilon(epsilon)
        return self._refine(
            saddle,
            tolerance,
            max(float(np.exp(saddle.log_delta)), 1e-290),
            lambda curve: curve.delta(epsilon),
            only_upper,
            relative_to_delta=True,
        )

    def _refine(
        self,
        saddle: Saddle,
        tolerance: float,
        delta: float,
        value: Callable[[Curve], float],
        only_upper: bool,
        relative_to_delta: bool = False,
    ) -> Bounds:
        target = tolerance / max(saddle.theta, 1e-3) if relative_to_delta else tolerance * max(saddle.epsilon, 0.0)
        step = self._step(saddle, max(target, 1e-4 * saddle.deviation))
        best = Bounds(0.0, np.inf)
        for _ in range(4):
            step = self._affordable(saddle, step)
            upper = value(self._curve(self.upper, "upper", saddle, step, delta))
            lower = 0.0
            if self.lower and not only_upper:
                lower = value(self._curve(self.lower, "lower", saddle, step, delta))
            best = Bounds(max(best.lower, lower), min(best.upper, upper))
            gap = best.upper - best.lower
            if only_upper or gap <= tolerance * best.upper or self.lower != self.upper or best.upper == 0:
                break
            finer = step * float(np.clip(np.sqrt(0.7 * tolerance * best.upper / gap), 0.1, 0.7))
            if self._affordable(saddle, finer) > 0.8 * step:
                break
            step = finer
        return best

    def _step(self, saddle: Saddle, target: float) -> float:
        """The step at which both bounds together are about 0.7 `target` apart in ε.

        Splitting a loss at distance a above a grid point adds a(h-a) to the variance, h²/6 on average or h·E|L| for
        losses well below h; that moves ε by (1+θ)/2 times it, and the lower bound by twice as much the other way.
        """
        k = self._pilot
        terms = k.logs + saddle.theta * k.losses
        weights = np.exp(terms - terms.max(axis=1, keepdims=True))
        size = (weights * np.abs(k.losses)).sum(axis=1) / weights.sum(axis=1)
        low, high = np.log(1e-14), np.log(max(saddle.deviation, 1e-12))
        for _ in range(50):
            h = np.exp((low + high) / 2)
            error = 1.5 * (1 + saddle.theta) * float(k.counts @ np.minimum(h * h / 6, h * size))
            low, high = ((low + high) / 2, high) if error < 0.7 * target else (low, (low + high) / 2)
        return float(np.exp(low))

    def _affordable(self, saddle: Saddle, step: float) -> float:
        low, _, high, _ = self._pilot.tail_bounds(saddle.theta, _LOG_OUTSIDE)
        return max(step, (high - low) / _MOST_POINTS, max(abs(low), abs(high)) * 1e-12)

    def _curve(self, parts: Parts, side: Side, saddle: Saddle, step: float, delta: float) -> Curve:
        theta = min(saddle.theta, 2 / step)
        grids, shift = [], 0.0
        for pair, count in parts:
            grid = self._discretised(pair, side, step, delta)
            shift += count * 4e-16 * float(np.abs(grid.losses[[0, -1]]).max())
            grids.append((grid.tilted(theta), count))
        low, low_tilt, high, high_tilt = self._pilot.tail_bounds(theta, _LOG_OUTSIDE)
        composed = compose_grids(grids, low=low, high=high, low_tilt=low_tilt, high_tilt=high_tilt)
        return Curve(composed, side=side, near=saddle.epsilon, shift=shift, steps=self.steps)

    def _discretised(self, pair: Pair, side: Side, step: float, delta: float) -> Grid:
        sketch = self._outline(pair)
        low, high = sketch.tail_limits(delta * _SPARE / self.steps)
        first, last = int(np.floor(low / step)) - 1, int(np.ceil(high / step)) + 1
        last = min(last, first + 4 * _MOST_POINTS)
        cells: Cells = cells_of_pair(pair, step=step, first=first, last=last)
        if side == "upper":
            return upper_grid(cells, step=step, first=first)
        return lower_grid(cells, step=step, first=first, infinite=sketch.infinite)

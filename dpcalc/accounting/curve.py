"""δ(ε) of a composed grid distribution, from above or from below, with all its errors counted."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from dpcalc.accounting.convolve import Composed

_UNIT = 2.0**-53


class Curve:
    """A bound on δ(ε) = Σ p (1 - e^{ε - loss})₊ at ε ≥ `reference` + offset, from tilted masses, in constant time.

    `near` is the ε of the saddle point, `shift` a bound on how far all losses together may have been rounded, and
    `lost` the tilted probability of paths that left the window of some block downwards and are in no mass. From above
    these are added at the loss where they count most; from below, paths that may have wrapped around are taken off.
    """

    def __init__(
        self, composed: Composed, *, side: Literal["upper", "lower"], near: float, shift: float, steps: int, lost: float
    ) -> None:
        grid = composed.grid
        self._grid, self._upper = grid, side == "upper"
        self._sign = 1.0 if self._upper else -1.0
        self._shift = self._sign * shift
        self._log_slack = self._sign * (composed.log_slack + steps * 2e-15)
        # Weights e^{-(1+θ)(loss - reference)} must stay within the range of doubles.
        self.reference = max(near - grid.offset - 300 / (1 + grid.theta), -grid.offset)
        self._near = max(near, self.reference + grid.offset)
        self._first = max(math.floor((self.reference - shift) / grid.step) - grid.start, 0)
        offsets = grid.step * (grid.start + np.arange(self._first, len(grid.masses))) - self.reference
        masses = composed.from_above() if self._upper else composed.from_below()
        self._rest = grid.infinite + (composed.beyond if self._upper else 0.0)
        # Losses below the window count at an ε that is below it too.
        self._log_lost = _log_of_lost(lost if self._upper else composed.wrapped, grid.theta)
        self._log_lost_below = _log_of_lost(lost + composed.below, grid.theta) if self._upper else self._log_lost
        weights = masses[self._first :] * np.exp(-grid.theta * offsets)
        self._p = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        self._q = np.append(np.cumsum((weights * np.exp(-offsets))[::-1])[::-1], 0.0)

    def delta(self, epsilon: float) -> float:
        """δ at ε ≥ reference + offset, never on the wrong side of the truth."""
        at = epsilon - self._grid.offset - self._shift
        k = max(math.floor(at / self._grid.step) + 1 - self._grid.start - self._first, 0)
        log_factor = self._grid.log_scale - self._grid.theta * self.reference + self._log_slack
        log_lost = self._log_lost if at >= self._grid.step * self._grid.start else self._log_lost_below
        log_lost += log_factor - self._grid.theta * (at - self.reference)
        missed = self._sign * math.exp(min(log_lost, 0.0))
        if k >= len(self._p):
            return min(1.0, (missed + self._rest) * (1 + self._sign * 1e-14))
        far = at - self.reference > 700.0  # then the upper bound keeps its first term only
        total = (float(self._p[k]) if self._upper else 0.0) if far else self._difference(at, k)
        total += self._sign * 4 * _UNIT * len(self._p) * float(self._p[k])
        value = math.exp(min(math.log(total) + log_factor, 0.0)) if total > 0 else 0.0
        return min(1.0, max(0.0, (value + missed + self._rest) * (1 + self._sign * 1e-14)))

    def _difference(self, at: float, k: int) -> float:
        return float(self._p[k] - math.exp(at - self.reference) * self._q[k])

    def epsilon(self, delta: float) -> float:
        """ε at δ, on the safe side: as an upper bound δ(ε) ≤ δ, as a lower bound δ(ε) ≥ δ (or 0)."""
        low = self.reference + self._grid.offset
        high = self._grid.step * (self._grid.start + len(self._grid.masses)) + self._grid.offset + abs(self._shift)
        if not self._upper:
            # What is taken off grows fast away from the saddle point, so begin there.
            ladder = self._near - (self._near - low) * np.append(0.0, np.geomspace(1e-5, 1.0, 30))
            low = next((float(at) for at in ladder if self.delta(float(at)) > delta), low)
        if self.delta(low) <= delta:
            return low if self._upper else 0.0
        if high <= low or self.delta(high) > delta:
            return math.inf if self._upper else max(high, 0.0)
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high if self._upper else low


def _log_of_lost(probability: float, theta: float) -> float:
    """log of w·sup_x e^{-θx}(1 - e^{-x}): times e^{log_scale - θε}, what paths of tilted probability w add to δ(ε).

    The supremum is θ^θ / (1+θ)^{1+θ}. Doubled, as w is relative to the true total and not to the computed one.
    """
    if probability == 0:
        return -math.inf
    decay = theta * math.log(theta) if theta > 0 else 0.0
    return math.log(2 * probability) + decay - (1 + theta) * math.log1p(theta)

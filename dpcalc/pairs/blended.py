"""Two pairs under a choice of the same law in both worlds, whose probability is known from both sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells, lacking
from dpcalc.rounding import UNIT


@dataclass(frozen=True)
class BlendedPair(Pair):
    """Which of two pairs is run is drawn alike in both worlds (L5); their weights are at least the probabilities.

    Neither law exceeds the other, so that a bound on one probability is not enough: both weights are bounds from
    above, and what they add up to beyond 1 is over-weight (L1).
    """

    first: Pair
    second: Pair
    first_weight: float
    second_weight: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        (p, q), (r, s) = self.first.masses(edges), self.second.masses(edges)
        return self._both(p, r), self._both(q, s)

    def cells(self, edges: Floats) -> Cells:
        """What one of them lacks is in the outermost cells: beside over-weight nobody could tell that it is missing."""
        first, second = self.first.cells(edges), self.second.cells(edges)
        p, q, p_error, q_error = (self._both(x, y) for x, y in zip(first, second, strict=True))
        p[-1] += self._both(lacking(first.p, first.p_error), lacking(second.p, second.p_error))
        q[0] += self._both(lacking(first.q, first.q_error), lacking(second.q, second.q_error))
        return Cells(p, q, p_error + 6 * UNIT * p, q_error + 6 * UNIT * q)

    def _both(self, x: Floats | float, y: Floats | float) -> Floats:
        return np.asarray(self.first_weight * x + self.second_weight * y)

    def excess(self) -> float:
        return max(self.first_weight + self.second_weight - 1, 0.0) + 4 * UNIT

    def sharpness(self) -> float:
        return max(self.first.sharpness(), self.second.sharpness())

    def has_atoms(self) -> bool:
        return self.first.has_atoms() or self.second.has_atoms()

    def support(self) -> tuple[float, float]:
        (a, b), (c, d) = self.first.support(), self.second.support()
        return min(a, c), max(b, d)

    def at_infinity(self) -> tuple[float, float]:
        (p, q), (r, s) = (
            tuple(map(sum, zip(pair.at_infinity(), pair.missing(), strict=True))) for pair in (self.first, self.second)
        )
        raised = 1 + 6 * UNIT
        return (
            (self.first_weight * p + self.second_weight * r) * raised,
            (self.first_weight * q + self.second_weight * s) * raised,
        )

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        """The mean of a function that is nowhere negative, under more than the law."""
        parts = [
            np.log(weight) + pair.log_excess(powers, side)
            for weight, pair in ((self.first_weight, self.first), (self.second_weight, self.second))
            if weight > 0
        ]
        total = np.logaddexp.reduce(parts)
        return np.asarray(total + 8 * UNIT * (1 + np.abs(np.where(np.isfinite(total), total, 0.0))))

    def reversed(self) -> Pair:
        return BlendedPair(self.first.reversed(), self.second.reversed(), self.first_weight, self.second_weight)

"""A sampled record turned into its opposite: (1-q)R + qP against (1-q)R + qQ, R being the noise without it.

P is the noise moved as far as one record may move it, and Q moved as far in the opposite direction. On the line, with
a likelihood ratio that is monotone, this dominates every replacement of a Poisson-sampled record (docs/certificate.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.elementary import ndtr
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import cells_from_tails
from dpcalc.pairs.points import PointPair
from dpcalc.rounding import OUTWARD

_STEEP = 30.0  # the μ from which e^{μ²/2} is left to logarithms
_FAR_OFF = 100.0  # half of a loss at which the ratio of two noises alone decides, whatever the rate


@dataclass(frozen=True)
class TurnedGaussian(Pair):
    """(1-q)N(0, 1) + qN(μ, 1) against (1-q)N(0, 1) + qN(-μ, 1).

    The ratio (1-q + q e^{μx-μ²/2}) / (1-q + q e^{-μx-μ²/2}) is e^l where μx = l/2 + asinh((1-q)/q e^{μ²/2} sinh(l/2)).
    """

    mu: float
    rate: float

    def sharpness(self) -> float:
        return self.mu

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        x = self._place(edges)
        tails = {side: [ndtr(side * (x - shift)) for shift in (0.0, self.mu, -self.mu)] for side in (1, -1)}
        (below, below_p, below_q), (above, above_p, above_q) = tails[1], tails[-1]
        q = self.rate
        a = cells_from_tails((1 - q) * below + q * below_p, (1 - q) * above + q * above_p)
        b = cells_from_tails((1 - q) * below + q * below_q, (1 - q) * above + q * above_q)
        return a, b

    def _place(self, losses: Floats) -> Floats:
        """The x at which the loss is so large.

        Of small μ not by logarithms, which leave errors of |log q| units in place of a few, and are divided by μ.
        """
        odds, half = (1 - self.rate) / self.rate, np.abs(losses) / 2
        with np.errstate(divide="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half) / 2) + np.log(odds) + self.mu * self.mu / 2
        far = np.log(2.0) + log_sinh
        if self.mu < _STEEP:
            near = odds * np.exp(self.mu * self.mu / 2) * np.sinh(np.minimum(half, _FAR_OFF))
        else:
            near = np.exp(np.minimum(log_sinh, 40.0))
        grown = np.where(log_sinh > 40, far, np.arcsinh(near))
        return np.asarray(np.sign(losses) * (half + grown) / self.mu)

    def reversed(self) -> Pair:
        return self


@dataclass(frozen=True)
class TurnedLaplace(Pair):
    """Lap(0), mixed with Lap(ε) against Lap(-ε), all of scale 1.

    Beyond ±ε the ratio is constant: an atom at each end. For 0 ≤ x ≤ ε it is (1-q + qe^{2x-ε}) / (1-q + qe^{-ε}), so
    that it is e^l where e^{2x} = 1 + (e^l - 1)(q + (1-q)e^ε)/q.
    """

    epsilon: float
    rate: float

    def sharpness(self) -> float:
        """e^ε is in the place of a loss, which is off by as many units; the hazard of the noise is at most 1."""
        return self.epsilon

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        top = self._top()
        low, high = edges <= -top, edges > top
        (p_below, p_above), (q_above, q_below) = self._tails(edges), self._tails(-edges)
        for below, above in ((p_below, p_above), (q_below, q_above)):
            below[low], above[low], below[high], above[high] = 0.0, 1.0, 1.0, 0.0
        return cells_from_tails(p_below, p_above), cells_from_tails(q_below, q_above)

    def _tails(self, losses: Floats) -> tuple[Floats, Floats]:
        """P-mass below and above each loss; from the other end it is Q-mass above and below."""
        q, top = self.rate, self._top()
        factor = (q + (1 - q) * np.exp(self.epsilon)) / q
        x = np.minimum(np.log1p(np.expm1(np.minimum(np.abs(losses), top)) * factor) / 2, self.epsilon)
        far, near, other = (np.exp(-y) / 2 for y in (x, self.epsilon - x, self.epsilon + x))
        below = np.where(losses < 0, (1 - q) * far + q * other, (1 - q) * (1 - far) + q * near)
        above = np.where(losses < 0, (1 - q) * (1 - far) + q * (1 - other), (1 - q) * far + q * (1 - near))
        return below, above

    def has_atoms(self) -> bool:
        return True

    def support(self) -> tuple[float, float]:
        top = self._top() * OUTWARD
        return -top, top

    def _top(self) -> float:
        """The loss beyond ε, rounded."""
        return float(np.log1p(self.rate * np.expm1(self.epsilon)) - np.log1p(self.rate * np.expm1(-self.epsilon)))

    def reversed(self) -> Pair:
        return self


def turned_points(noise: Floats, apart: Floats, rate: float) -> PointPair:
    """The same of noise on points: rows of the masses of P, R and Q, from the smallest ratio to the largest.

    `apart` is log P/Q: small losses are not told by the masses, which leave them errors of a unit of 1.
    """
    moved, still, opposite = noise
    p, q = (1 - rate) * still + rate * moved, (1 - rate) * still + rate * opposite
    losses = np.log(p / q)
    near = np.abs(losses) < 0.5
    losses[near] = np.log1p(rate * opposite[near] * np.expm1(apart[near]) / q[near])
    return PointPair(losses * OUTWARD, p, q)

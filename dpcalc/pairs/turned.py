"""A sampled record turned into its opposite: (1-q)R + qP against (1-q)R + qQ, R being the noise without it.

P is the noise moved as far as one record may move it, and Q moved as far in the opposite direction. On the line, with
a likelihood ratio that is monotone, this dominates every replacement of a Poisson-sampled record (docs/certificate.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.elementary import log_ndtr, ndtr
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import cells_from_tails
from dpcalc.pairs.points import PointPair
from dpcalc.rounding import OUTWARD

_STEEP = 30.0  # the μ from which e^{μ²/2} is left to logarithms
_UNSEEN = 32.0  # nats by which what is beyond a window is below what is inside
_FURTHEST = 36.0  # standard deviations: beyond, masses leave the range of doubles
_ROUNDED = 2.0**-40  # of the logarithms of tails, and more than their rounding
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

    def window(self, powers: Floats) -> tuple[float, float, Floats]:
        """Losses between those at ∓x, and what those beyond add to E f_β: at γ = β, or 1 - β, as the pair is symmetric.

        There Q has at least the density (1-q)φ and P at most φe^{μx-μ²/2}, x being above μ/2: E X^γ is at most
        (1-q)^{1-γ} e^{γ(γ-1)μ²/2} Φ(γμ-x), and f_γ of X < 1 is at most γ - 1, on Q-mass of at most Φ(μ-x).
        """
        gamma, mu, q = np.maximum(powers, 1 - powers), self.mu, self.rate
        top = float(gamma.max())
        rest = -(top - 1) * np.log1p(-q)
        unseen = min(top * (top - 1) * mu * mu / 2 + 2 * abs(np.log(min(mu, 1.0))), top * abs(np.log(q)))
        x = max(min(top * mu + np.sqrt(2 * (_UNSEEN + rest + 2 * abs(np.log(q)) + unseen)), _FURTHEST), mu / 2)
        beyond = (1 - gamma) * np.log1p(-q) + gamma * (gamma - 1) * mu * mu / 2 + log_ndtr(gamma * mu - x)
        outside = np.logaddexp(beyond, np.log(gamma - 1) + log_ndtr(mu - x))
        last = self._loss(float(x))
        return -last, last, outside + _ROUNDED * (1 + np.abs(outside) + gamma * gamma * mu * mu)

    def _loss(self, x: float) -> float:
        """A loss that is at least that at x: 4 units or more further."""
        low, up, down = np.log1p(-self.rate), self.mu * x - self.mu**2 / 2, -self.mu * x - self.mu**2 / 2
        high = np.log(self.rate)
        found = float(np.logaddexp(low, high + up) - np.logaddexp(low, high + down))
        return found + 2.0**-40 * (1 + abs(found))

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

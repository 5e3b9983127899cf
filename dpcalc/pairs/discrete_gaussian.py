"""Discrete Gaussian noise against itself moved by a whole number."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.elementary import exp_minus_ratio, two_product
from dpcalc.pairs.base import Pair
from dpcalc.pairs.moments import ROUNDING, log_mean_excess
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.turned import turned_points
from dpcalc.rounding import FAINT, UNIT

_REACH = 38.0  # standard deviations: beyond, all mass is below FAINT
_FULL = 37.0  # standard deviations up to which a mass has all its digits
_MOST_POINTS = 10_000_000  # on each side
_SMALLEST = 1e-290  # masses from which both P and Q keep all their digits


@dataclass(frozen=True, eq=False)
class DiscreteGaussianPair(PointPair):
    """N_ℤ(0, σ²) against N_ℤ(Δ, σ²), or that sampled, tabulated as far as doubles reach; the rest is at infinity.

    Not for its Rényi divergence: with c = (1-β)Δ, X^β Q is e^{β(β-1)Δ²/2σ²} times the noise around c, so that what is
    further than R from 0 adds at most 2e^{-(R - |c|)²/2σ²} of it.
    """

    mu: float = 0.0
    reach: float = 0.0  # in standard deviations from 0, of the losses whose Q-mass has all its digits

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        if side or np.any(powers < 0):
            return super().log_excess(powers, side)
        away = np.maximum(self.reach - (powers - 1) * self.mu, 0.0)
        log_tail = powers * (powers - 1) * (self.mu * self.mu / 2) + np.log(2.0) - away * away / 2
        at_zero = np.log(powers * max(self.q_infinite, 5e-324))
        rest = np.logaddexp(log_tail + ROUNDING * (1 + np.abs(log_tail)), at_zero)
        return np.asarray(np.logaddexp(log_mean_excess(self.q, self.losses, powers), rest))

    def surely_infinite(self) -> tuple[float, float]:
        """What is beyond the table is far away, and not at infinity."""
        return 0.0, 0.0

    def mixed(self, rate: float) -> Pair:
        sampled = super().mixed(rate)
        if sampled is self or not isinstance(sampled, PointPair):
            return sampled
        return replace(
            self, losses=sampled.losses, p=sampled.p, q=sampled.q, p_infinite=sampled.p_infinite, q_infinite=0.0
        )


def discrete_gaussian_pairs(sigma: float, shift: int) -> tuple[DiscreteGaussianPair, PointPair]:
    """A pair that dominates, what is beyond its table at infinity, and one from below, what is beyond ignored.

    The noise is log-concave, so that the likelihood ratio is monotone and a larger shift dominates every smaller one.
    """
    reach, beyond = _reach(sigma)
    x = np.arange(-reach, reach + shift + 1, dtype=np.float64)
    p, q = (masses[::-1] for masses in _tables(sigma, x, (0, shift)))
    losses = ((shift * shift - 2 * shift * x) / (2 * sigma**2))[::-1]
    above = DiscreteGaussianPair(
        losses, p, q, beyond, beyond, mu=shift / sigma, reach=(min(reach, _FULL * sigma) - shift) / sigma
    )
    known = (p > _SMALLEST) & (q > _SMALLEST)
    return above, PointPair(losses[known], p[known], q[known])


def turned_discrete_gaussian(sigma: float, shift: int, rate: float) -> tuple[PointPair, PointPair]:
    """The same of a sampled record that is turned into its opposite."""
    reach, beyond = _reach(sigma)
    x = np.arange(-reach - shift, reach + shift + 1, dtype=np.float64)
    noise = np.stack(_tables(sigma, x, (shift, 0, -shift)))
    far = (noise <= _SMALLEST).any(axis=0)
    known = turned_points(noise[:, ~far], 2 * shift * x[~far] / sigma**2, rate)
    outside = float(noise[:, far].sum(axis=1).max(initial=0.0)) * (1 + 2 * far.sum() * UNIT) + beyond
    return replace(known, p_infinite=outside, q_infinite=outside), known


def _reach(sigma: float) -> tuple[int, float]:
    """How far noise is tabulated on each side, and more than the mass beyond."""
    reach = int(min(np.ceil(_REACH * sigma), _MOST_POINTS))
    return reach, FAINT if reach >= _REACH * sigma else float(np.exp(-((reach / sigma) ** 2) / 2)) * (1 + 2.0**-30)


def _tables(sigma: float, x: Floats, centres: tuple[int, ...]) -> list[Floats]:
    """The masses of noise around some centres, over the same places."""
    square, rest = (float(2 * part) for part in two_product(np.asarray(sigma), np.asarray(sigma)))
    weights = [exp_minus_ratio((x - centre) ** 2, square, rest) for centre in centres]
    total = float(np.sum(weights[centres.index(0)]))
    return [weight / total for weight in weights]

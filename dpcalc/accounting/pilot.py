"""A rough look at a composition: where its saddle point is, and how wide it spreads. It steers, it bounds nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpcalc.mechanisms.base import Floats, Pair

_MAGNITUDES = 10.0 ** np.arange(-15.0, 7.0, 0.08)
EDGES = np.concatenate((-_MAGNITUDES[::-1], [0.0], _MAGNITUDES))
_MOST_PAIRS = 32
_SCALES = np.geomspace(0.05, 100, 45)


@dataclass(frozen=True)
class Outline:
    """One pair on a few hundred cells of geometric width: a loss and its P-mass per cell."""

    losses: Floats
    masses: Floats
    infinite: float

    def tail_limits(self, mass: float) -> tuple[float, float]:
        """Losses below and above which less than `mass` lies, at the resolution of the outline."""
        below = np.cumsum(self.masses)
        above = np.cumsum(self.masses[::-1])[::-1]
        low = EDGES[max(int(np.searchsorted(below, mass, side="right")) - 1, 0)]
        high = EDGES[min(int(np.searchsorted(-above, -mass, side="left")), len(EDGES) - 1)]
        return float(low), float(high)


def outline(pair: Pair) -> Outline:
    """The outline of a pair."""
    a, b = pair.masses(EDGES)
    middles = np.concatenate((EDGES[:1], (EDGES[1:] + EDGES[:-1]) / 2, EDGES[-1:]))
    both = (a > 1e-300) & (b > 1e-300)
    losses = np.where(both, np.log(np.where(both, a, 1.0)) - np.log(np.where(both, b, 1.0)), middles)
    losses[1:-1] = np.clip(losses[1:-1], EDGES[:-1], EDGES[1:])
    finite = a.copy()
    infinite = 0.0
    if b[-1] <= 1e-300:
        infinite, finite[-1] = float(a[-1]), 0.0
    return Outline(losses, finite, infinite)


@dataclass(frozen=True)
class Saddle:
    """The tilt θ at which the composed loss centres on ε, its spread there, and Σ counts·E|L| for the error model."""

    theta: float
    epsilon: float
    log_delta: float
    deviation: float


class Window(NamedTuple):
    """Where a composed loss is looked for, and the extra tilts at which Chernoff bounds what is outside."""

    low: float
    low_tilt: float
    high: float
    high_tilt: float


class Pilot:
    """The cumulant K(θ) = Σ counts·log E[e^{θL}] of a composition, from the outlines of at most a few of its pairs."""

    def __init__(self, outlines: Sequence[Outline], counts: Sequence[int]) -> None:
        stride = -(-len(outlines) // _MOST_PAIRS)
        chosen = range(stride // 2 if stride > 1 else 0, len(outlines), stride)
        total = float(sum(counts))
        self.losses = np.stack([outlines[i].losses for i in chosen])
        masses = np.stack([outlines[i].masses for i in chosen])
        with np.errstate(divide="ignore"):
            self.logs = np.log(masses)
        picked = np.array([float(counts[i]) for i in chosen])
        self.counts = picked * (total / picked.sum())

    def cumulants(self, theta: float) -> tuple[float, float, float]:
        """K, K′ and K″ at θ."""
        terms = self.logs + theta * self.losses
        top = terms.max(axis=1)
        weights = np.exp(terms - top[:, None])
        total = weights.sum(axis=1)
        mean = (weights * self.losses).sum(axis=1) / total
        square = (weights * self.losses**2).sum(axis=1) / total
        k = self.counts @ (np.log(total) + top)
        return float(k), float(self.counts @ mean), float(self.counts @ np.maximum(square - mean**2, 0.0))

    def mean_size(self, theta: float) -> Floats:
        """E|L| of one run of each pair under the tilt."""
        terms = self.logs + theta * self.losses
        weights = np.exp(terms - terms.max(axis=1, keepdims=True))
        return np.asarray((weights * np.abs(self.losses)).sum(axis=1) / weights.sum(axis=1))

    def saddle_at(self, theta: float) -> Saddle:
        """The ε whose saddle point is θ, and the saddle-point approximation of δ there."""
        k, mean, variance = self.cumulants(theta)
        epsilon = mean - 1 / theta - 1 / (1 + theta)
        curvature = variance + 1 / theta**2 + 1 / (1 + theta) ** 2
        log_delta = k - theta * epsilon - np.log(theta) - np.log1p(theta) - 0.5 * np.log(2 * np.pi * curvature)
        return Saddle(theta, epsilon, float(log_delta), float(np.sqrt(variance)))

    def saddle_for_delta(self, log_delta: float) -> Saddle:
        """The saddle point of the ≥ 0 ε at which δ is about the one asked for."""
        at = self._search(lambda saddle: saddle.log_delta > log_delta)
        return at if at.epsilon >= 0 else self.saddle_for_epsilon(0.0)

    def saddle_for_epsilon(self, epsilon: float) -> Saddle:
        """The saddle point of an ε."""
        return self._search(lambda saddle: saddle.epsilon < epsilon)

    def _search(self, too_small: Callable[[Saddle], bool]) -> Saddle:
        low, high = np.log(1e-7), np.log(1e9)
        for _ in range(40):
            middle = (low + high) / 2
            if too_small(self.saddle_at(float(np.exp(middle)))):
                low = middle
            else:
                high = middle
        return self.saddle_at(float(np.exp((low + high) / 2)))

    def tail_bounds(self, theta: float, log_mass: float) -> Window:
        """A window that the tilted composed loss leaves with a probability of about e^log_mass on each side."""
        k, mean, variance = self.cumulants(theta)
        deviation = max(math.sqrt(variance), 1e-300)
        ends = []
        for sign in (-1.0, 1.0):
            best, best_tilt, worse = math.inf, 1.0, 0
            for scale in _SCALES:
                tilt = scale / deviation
                shifted, _, _ = self.cumulants(theta + sign * tilt)
                distance = (shifted - k - log_mass) / tilt
                worse = 0 if distance < best else worse + 1
                if distance < best:
                    best, best_tilt = distance, tilt
                if worse > 3:
                    break
            ends.append((sign * best, sign * best_tilt))
        (low, low_tilt), (high, high_tilt) = ends
        return Window(min(low, mean - deviation), low_tilt, max(high, mean + deviation), high_tilt)

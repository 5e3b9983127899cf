"""A rough look at a composition: where its saddle point is, and how wide it spreads. It steers, it bounds nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.base import Pair

_MAGNITUDES = 10.0 ** np.arange(-15.0, 7.0, 0.12)
_COARSE = np.concatenate((-_MAGNITUDES[::-1], [0.0], _MAGNITUDES))
_SHARES = np.concatenate((np.geomspace(1e-9, 3e-3, 110), np.linspace(3e-3, 1.0, 300)[1:]))
_MOST_PAIRS = 40
_SPARSE = _COARSE[::4]
_SCALES = np.geomspace(1e-5, 100, 17)
_NEARBY = np.geomspace(0.4, 2.5, 9)  # between neighbours of these


@dataclass(frozen=True)
class Outline:
    """One pair on a few hundred cells: increasing edges, and between them a loss and its P-mass per cell."""

    edges: Floats
    losses: Floats
    masses: Floats
    infinite: float

    def tail_limits(self, mass: float) -> tuple[float, float]:
        """Losses below and above which less than `mass` lies, at the resolution of the outline."""
        below = np.cumsum(self.masses)
        above = np.cumsum(self.masses[::-1])[::-1]
        low = self.edges[min(max(int(np.searchsorted(below, mass, side="right")) - 1, 0), len(self.edges) - 1)]
        high = self.edges[min(int(np.searchsorted(-above, -mass, side="left")), len(self.edges) - 1)]
        return float(low), float(high)


def coarse_outline(pair: Pair) -> Outline:
    """The outline of a pair on cells of geometric width that suit any pair."""
    return _outline(pair, _COARSE)


def fine_outline(pair: Pair) -> Outline:
    """The outline of a pair on cells that resolve its bulk and its tails, for far tilts too."""
    low, high = coarse_outline(pair).tail_limits(1e-90)
    left = min(low, -1e-14) * _SHARES[::2][::-1]
    return _outline(pair, np.concatenate((left, [0.0], max(high, 1e-14) * _SHARES)))


def common_outline(rows: Pair) -> Outline | None:
    """An outline of many pairs at once: in each cell the largest mass of any; None if one has mass at +∞."""
    a, b = rows.masses(_COARSE)
    if np.any((b[:, -1] <= 1e-300) & (a[:, -1] > 0)):
        return None
    middles = np.concatenate((_COARSE[:1], (_COARSE[1:] + _COARSE[:-1]) / 2, _COARSE[-1:]))
    return Outline(_COARSE, middles, a.max(axis=0), 0.0)


def _outline(pair: Pair, edges: Floats) -> Outline:
    a, b = pair.masses(edges)
    middles = np.concatenate((edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]))
    both = (a > 1e-300) & (b > 1e-300)
    losses = np.where(both, np.log(np.where(both, a, 1.0)) - np.log(np.where(both, b, 1.0)), middles)
    losses[1:-1] = np.clip(losses[1:-1], edges[:-1], edges[1:])
    losses[0], losses[-1] = min(losses[0], edges[0]), max(losses[-1], edges[-1])
    finite = a.copy()
    infinite = 0.0
    if b[-1] <= 1e-300:
        infinite, finite[-1] = float(a[-1]), 0.0
    return Outline(edges, losses, finite, infinite)


def _representatives(parts: Sequence[tuple[Pair, int]]) -> list[tuple[Pair, int]]:
    """A few of the pairs, as far from each other as can be in spread and tails, each with the runs of those near it.

    The widest comes first: at small δ a few pairs with far tails can outweigh all the others.
    """
    traits = np.array([_traits(pair) for pair, _ in parts])
    chosen = [int(np.argmax(traits[:, -1]))]
    distance, nearest = np.abs(traits - traits[chosen[0]]).max(axis=1), np.zeros(len(parts), dtype=np.intp)
    while len(chosen) < _MOST_PAIRS and distance.max() > 0:
        chosen.append(int(np.argmax(distance)))
        further = np.abs(traits - traits[chosen[-1]]).max(axis=1)
        nearest[further < distance] = len(chosen) - 1
        distance = np.minimum(distance, further)
    runs = [0] * len(chosen)
    for at, (_, count) in zip(nearest, parts, strict=True):
        runs[at] += count
    return [(parts[i][0], total) for i, total in zip(chosen, runs, strict=True)]


def _traits(pair: Pair) -> Floats:
    """Logs of the variance of a loss, and of what it exceeds with a probability of e^-15 and of e^-60."""
    masses, _ = pair.masses(_SPARSE)
    with np.errstate(divide="ignore"):
        tail = np.maximum(np.log(np.cumsum(masses[::-1])[-2::-1]), -745.0)
    middles = (_SPARSE[1:] + _SPARSE[:-1]) / 2
    exceeded = np.interp([15.0, 60.0], -tail, _SPARSE)
    return np.asarray(np.log(np.maximum([masses[1:-1] @ middles**2, *exceeded], 1e-30)))


@dataclass(frozen=True)
class Saddle:
    """The tilt θ whose saddle point is ε, and the mean and spread of the composed loss under it."""

    theta: float
    epsilon: float
    log_delta: float
    deviation: float
    mean: float

    def is_torn(self) -> bool:
        """Whether the losses spread much wider under the tilt than the tilt has moved them (equal for a Gaussian)."""
        return abs(self.mean) < 0.3 * self.theta * self.deviation**2


class Window(NamedTuple):
    """Where a composed loss is looked for, and the extra tilts at which Chernoff bounds what is outside."""

    low: float
    low_tilt: float
    high: float
    high_tilt: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def lowered(self, offset: float) -> Window:
        """The same window for losses from which so much is taken."""
        return self._replace(low=self.low - offset, high=self.high - offset)


class Pilot:
    """The cumulant K(θ) = Σ counts·log E[e^{θL}] of a composition, from outlines of at most a few of its pairs."""

    def __init__(self, parts: Sequence[tuple[Pair, int]]) -> None:
        chosen = (
            _representatives(parts) if len(parts) > _MOST_PAIRS else [(pair, float(count)) for pair, count in parts]
        )
        outlines = [fine_outline(pair) for pair, _ in chosen]
        self.losses = np.stack([sketch.losses for sketch in outlines])
        with np.errstate(divide="ignore"):
            self.logs = np.log(np.stack([sketch.masses for sketch in outlines]))
        self._bounds: dict[tuple[float, float], Window] = {}
        self._saddles: dict[tuple[str, float], Saddle] = {}
        self.counts = np.array([float(count) for _, count in chosen])

    def with_count(self, count: int) -> Pilot:
        """The same for so many runs of a single pair."""
        return self._changed(self.logs, np.array([float(count)]))

    def cut(self, log_mass: float) -> Pilot:
        """The same for pairs without the tail that has less than this mass in one run.

        What is far beyond the ε asked for has no say in it, but may outweigh everything under a tilt.
        """
        with np.errstate(divide="ignore"):
            tails = np.log(np.cumsum(np.exp(self.logs[:, ::-1]), axis=1)[:, ::-1])
        return self._changed(np.where(tails < log_mass, -np.inf, self.logs), self.counts)

    def _changed(self, logs: Floats, counts: Floats) -> Pilot:
        pilot = object.__new__(Pilot)
        pilot.losses, pilot.logs, pilot.counts = self.losses, logs, counts
        pilot._bounds, pilot._saddles = {}, {}
        return pilot

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

    def rounding(self, theta: float, step: float) -> float:
        """What cutting the losses into cells of this width adds to the variance of the composition.

        A loss at distance a above a grid point adds a(h-a): h²/6 on average, h|l| for losses well below h.
        """
        return float((self._tilted_weights(theta) * np.minimum(step * step / 6, step * np.abs(self.losses))).sum())

    def squares(self, theta: float) -> float:
        """The sum over all runs of the mean square of the tilted loss."""
        return float((self._tilted_weights(theta) * self.losses**2).sum())

    def _tilted_weights(self, theta: float) -> Floats:
        """Tilted masses, those of each pair adding up to its count."""
        terms = self.logs + theta * self.losses
        weights = np.exp(terms - terms.max(axis=1, keepdims=True))
        return np.asarray(weights * (self.counts / weights.sum(axis=1))[:, None])

    def reach(self, log_mass: float) -> float:
        """The widest range of losses of one run that hold all but about e^log_mass of the composition."""
        needed = self.logs > log_mass - math.log(float(self.counts.sum()))
        high = np.where(needed, self.losses, -np.inf).max()
        low = np.where(needed, self.losses, np.inf).min()
        return float(high - low) if np.isfinite(high - low) else 0.0

    def saddle_at(self, theta: float) -> Saddle:
        """The ε whose saddle point is θ, and the saddle-point approximation of δ there."""
        k, mean, variance = self.cumulants(theta)
        epsilon = mean - 1 / theta - 1 / (1 + theta)
        curvature = variance + 1 / theta**2 + 1 / (1 + theta) ** 2
        log_delta = k - theta * epsilon - np.log(theta) - np.log1p(theta) - 0.5 * np.log(2 * np.pi * curvature)
        return Saddle(theta, epsilon, float(log_delta), float(np.sqrt(variance)), mean)

    def saddle_for_delta(self, log_delta: float) -> Saddle:
        """The saddle point of the ≥ 0 ε at which δ is about the one asked for."""
        if ("delta", log_delta) not in self._saddles:
            at = self._search(lambda saddle: saddle.log_delta > log_delta)
            self._saddles["delta", log_delta] = at if at.epsilon >= 0 else self.saddle_for_epsilon(0.0)
        return self._saddles["delta", log_delta]

    def saddle_for_epsilon(self, epsilon: float) -> Saddle:
        """The saddle point of an ε."""
        if ("epsilon", epsilon) not in self._saddles:
            self._saddles["epsilon", epsilon] = self._search(lambda saddle: saddle.epsilon < epsilon)
        return self._saddles["epsilon", epsilon]

    def _search(self, too_small: Callable[[Saddle], bool]) -> Saddle:
        low, high = np.log(1e-7), np.log(1e9)
        # Beyond the tilt that puts everything at the largest loss there is nothing to find.
        top = float(self.counts @ np.where(np.isfinite(self.logs), self.losses, -np.inf).max(axis=1))
        for _ in range(21):
            middle = (low + high) / 2
            saddle = self.saddle_at(float(np.exp(middle)))
            if too_small(saddle) and saddle.mean < top * (1 - 1e-4):
                low = middle
            else:
                high = middle
        return self.saddle_at(float(np.exp((low + high) / 2)))

    def window(self, theta: float, log_mass: float, log_untilted: float) -> Window:
        """A window that the tilted composed loss leaves with a probability of about e^log_mass on each side.

        It reaches up to where the untilted probability of anything higher is about e^log_untilted.
        """
        tilted = self._tail_bounds(theta, log_mass)
        plain = self._tail_bounds(0.0, log_untilted)
        if plain.high <= tilted.high:
            return tilted
        return Window(tilted.low, tilted.low_tilt, plain.high, max(plain.high_tilt - theta, tilted.high_tilt))

    def _tail_bounds(self, theta: float, log_mass: float) -> Window:
        """Chernoff's bounds: the tilted loss is above (K(θ+s) - K(θ) - log_mass) / s with that probability."""
        if (theta, log_mass) not in self._bounds:
            k, mean, variance = self.cumulants(theta)
            deviation = max(math.sqrt(variance), 1e-300)
            high, up = self._best_tilt(theta, k + log_mass, _SCALES / deviation)
            low, down = self._best_tilt(theta, k + log_mass, -_SCALES / deviation)
            self._bounds[theta, log_mass] = Window(min(low, mean - deviation), down, max(high, mean + deviation), up)
        return self._bounds[theta, log_mass]

    def _best_tilt(self, theta: float, level: float, tilts: Floats) -> tuple[float, float]:
        """The closest (K(θ+s) - level) / s over tilts s of one sign, and then once more near the best of them."""
        for nearby in (_NEARBY, None):
            reach = (self._cumulant_at(theta + tilts) - level) / tilts
            best = int(np.argmin(reach * np.sign(tilts)))
            if nearby is not None:
                tilts = tilts[best] * nearby
        return float(reach[best]), float(tilts[best])

    def _cumulant_at(self, thetas: Floats) -> Floats:
        total = np.zeros_like(thetas)
        for losses, logs, count in zip(self.losses, self.logs, self.counts, strict=True):
            terms = logs + np.multiply.outer(thetas, losses)
            top = terms.max(axis=1)
            total += count * (np.log(np.exp(terms - top[:, None]).sum(axis=1)) + top)
        return total

"""A rough look at a composition: which Rényi order decides at the δ or ε asked for, and about where that leads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpcalc.accounting.question import Question
from dpcalc.arrays import Floats, Indices
from dpcalc.pairs.base import Pair
from dpcalc.rounding import LEAST_DIVISOR

_ORDERS = np.geomspace(0.02, 1e6, 60)
_FINER = np.exp(np.linspace(-0.3, 0.3, 9))
_LARGEST, _SMALLEST = 690.0, 1e-9
SMALLEST_DELTA = 1e-290  # grids and windows are made for no smaller one
_TOGETHER = 256  # pairs that are drawn at once
_RARE = 1e-3  # of δ
_VISIBLE, _CLEAR = 6.0, 2.0  # nats
_SHARES = np.linspace(0.0, 1.0, 11)
_SKEW = 0.5
_LEAST = 0.57  # of the Rényi bound
_NOISE = 5e-15
_HARMLESS = 3e-3  # of what is asked for, that a transform's errors may take
_BELL = 4.0  # standard deviations squared, in units of the order: where saddle points are near the truth


@lru_cache(maxsize=1)
def knots() -> Floats:
    """Losses from -690 to 690, denser towards 0: relative steps of an eighth."""
    half = np.geomspace(_SMALLEST, _LARGEST, 230)
    return np.concatenate((-half[::-1], [0.0], half))


@dataclass(frozen=True)
class Way:
    """One direction: the order λ that decides, and about which ε."""

    order: float
    epsilon: float


@dataclass(frozen=True)
class Sketch:
    """Pairs on common coarse points: log X, one row of Q-masses for each pair, and how often each runs."""

    losses: Floats
    masses: Floats
    counts: Floats

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def scales(self) -> Floats:
        """The standard deviation of log X of each pair, between P and Q."""
        middle = self.masses * np.exp(self.losses / 2)
        totals = np.maximum(middle.sum(axis=1), LEAST_DIVISOR)
        means = middle @ self.losses / totals
        return np.asarray(np.sqrt(np.maximum(middle @ self.losses**2 / totals - means**2, LEAST_DIVISOR)))

    def mean_masses(self, members: Indices) -> Floats:
        return np.asarray(self.masses[members].mean(axis=0))

    def is_lattice(self, spacing: float | None) -> bool:
        """Whether all mass seems to be within a cell of multiples of a spacing, few of them."""
        if spacing is None:
            return False
        used = self.losses[self.masses.any(axis=0)]
        off = np.abs(used / spacing - np.round(used / spacing))
        return bool(np.all(off < 0.15 * np.maximum(np.abs(used) / spacing, 1e-9) + 1e-9) and used.size <= 12)

    def without_tails(self, rare: float) -> Sketch:
        """The same without tails that all steps together enter with a probability below `rare`, under P or under Q."""
        masses = self.masses * (1 + np.exp(self.losses))
        per_step = rare / self.total
        there = (np.cumsum(masses, axis=1) > per_step) & (np.cumsum(masses[:, ::-1], axis=1)[:, ::-1] > per_step)
        return Sketch(self.losses, np.where(there, self.masses, 0.0), self.counts)

    def reach(self, rare: float) -> float:
        """The largest |log X| of a step that all steps together enter with a probability above `rare`."""
        used = self.without_tails(rare).masses.any(axis=0)
        return max(float(np.abs(self.losses[used]).max(initial=0.0)), LEAST_DIVISOR)

    def cumulants(self, powers: Floats) -> Floats:
        """log E_Q X^power of the whole composition, for each power; ∞ where it leaves the range of doubles."""
        used = self.masses.any(axis=0)
        exponents = np.multiply.outer(np.where(used, self.losses, 0.0), powers)
        top = exponents.max(axis=0)
        means = self.masses @ np.exp(exponents - top)
        with np.errstate(divide="ignore"):
            logs = np.where(means > 0, np.log(means), np.inf)
        return np.asarray(self.counts @ (logs + top))

    def ways(self, delta: float) -> tuple[Way, Way]:
        """For removing and adding, the λ with the smallest RDP bound on ε at δ, and that bound.

        Losses too rare to matter at δ are left out: they would outweigh everything at high orders.
        """
        kept = self.without_tails(_RARE * delta)
        return kept._way(1, math.log(delta)), kept._way(-1, math.log(delta))

    def _way(self, sign: int, log_delta: float) -> Way:
        orders, value, order = _ORDERS, math.inf, 1.0
        for _ in range(2):
            found = (self._logs(sign, orders) - log_delta) / orders
            best = int(np.argmin(np.where(np.isnan(found), np.inf, found)))
            value, order = float(found[best]), float(orders[best])
            orders = order * _FINER
        return Way(order, max(value, 1e-12))

    def _logs(self, sign: int, orders: Floats) -> Floats:
        """log of δ(ε)e^{λε} by each order's RDP bound."""
        powers = orders + 1 if sign > 0 else -orders
        with np.errstate(over="ignore", invalid="ignore"):
            return self.cumulants(powers) - np.log1p(orders) + orders * np.log(orders / (1 + orders))

    def nearer(self, way: Way, sign: int, delta: float) -> tuple[float, float]:
        """A direction's ε at δ by the saddle point at its order, and a value that it is seldom below.

        Of few steps, or steps with rare large losses, little is known before they are composed: 0 then.
        """
        kept = self.without_tails(_RARE * delta)
        power = way.order + 1 if sign > 0 else -way.order
        logs = power * kept.losses
        used = kept.masses.any(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            tilted = np.where(
                used, kept.masses * np.exp(np.where(used, logs - logs[used].max(initial=-np.inf), 0.0)), 0.0
            )
            first, second, third = (tilted @ kept.losses**k / tilted.sum(axis=1) for k in (1, 2, 3))
            variance = float(kept.counts @ np.maximum(second - first**2, 0.0))
            third = float(kept.counts @ (third - 3 * first * second + 2 * first**3))
            skewness = third / max(variance**1.5, LEAST_DIVISOR)
        log_moment = float(kept.cumulants(np.array([power]))[0])
        missing = math.log(way.order * (1 + way.order)) + math.log(2 * math.pi * variance) / 2 if variance > 0 else 0.0
        epsilon = (log_moment - math.log(delta) - missing) / way.order
        epsilon = way.epsilon if math.isnan(epsilon) else min(max(epsilon, _LEAST * way.epsilon), way.epsilon)
        bell = abs(skewness) < _SKEW and way.order**2 * variance > _BELL and epsilon > _LEAST * way.epsilon
        return epsilon, (0.9 * epsilon if bell else 0.0)

    def mildest(self, way: Way, sign: int, delta: float, *, bell: bool) -> float:
        """The smallest order s ≤ λ at which what lies beyond ε is not yet faint: of E X^{1+s} for removing, a share.

        High orders bring rare large losses to the fore, which need wide windows; a sum like a bell has none.
        """
        orders = way.order * _SHARES
        kept = self.without_tails(_RARE * delta)
        logs = kept.cumulants(orders + 1 if sign > 0 else -orders) - orders * way.epsilon
        return float(orders[int(np.argmax(logs <= logs[-1] + (_CLEAR if bell else _VISIBLE)))])

    def common_tilt(self, ways: tuple[Way, Way], delta: float, tolerance: float) -> float | None:
        """The mildest tilt in which one transform serves both directions; none where its errors drown what matters.

        They are about `_NOISE` a step, relative to the whole law, on points a standard deviation of it apart.
        """
        sign = 1 if ways[0].epsilon >= ways[1].epsilon else -1
        first, second = ways[::sign]
        tilts = np.linspace(0.5, 1 + first.order if sign > 0 else -first.order, len(_SHARES))
        spread = math.sqrt(float(self.counts @ self.scales**2))
        noise = math.log(_NOISE * float(self.counts @ self.scales**-0.5) / math.sqrt(spread))
        totals = self.without_tails(_RARE * delta).cumulants(tilts) - math.log(delta) + noise
        turned = tilts if sign > 0 else 1 - tilts  # the same in terms of the worse direction
        above = totals + (1 - turned) * first.epsilon - math.log(_HARMLESS * tolerance * first.epsilon * first.order**2)
        below = totals + turned * second.epsilon - math.log(_HARMLESS * second.epsilon * second.order**2)
        fits = np.flatnonzero((above < 0) & (below < 0))
        return float(tilts[fits[0]]) if fits.size else None

    def delta(self, question: Question) -> float:
        """About the δ that a question is about, and never 0."""
        if question.delta is not None:
            return max(question.delta, SMALLEST_DELTA)
        assert question.epsilon is not None
        return math.exp(max(self.log_delta(question.epsilon), math.log(SMALLEST_DELTA)))

    def log_delta(self, epsilon: float) -> float:
        """About log δ at ε, the larger of both directions: the RDP bound at its best order."""
        logs = [self._logs(sign, _ORDERS) - _ORDERS * epsilon for sign in (1, -1)]
        return min(max(float(np.nanmin(values)) for values in logs), 0.0)


def sketch(parts: Sequence[tuple[Pair, int]], at: Floats | None = None) -> Sketch:
    """Parts on the common points, their P- and Q-masses kept; points that no part has mass at are left out."""
    at = knots() if at is None else at
    x = np.exp(at)
    rows = np.zeros((len(parts), len(at)))
    kinds: dict[type[Pair], list[int]] = {}
    for k, (pair, _) in enumerate(parts):
        kinds.setdefault(type(pair), []).append(k)
    for kind, members in kinds.items():
        for chosen in (members[start : start + _TOGETHER] for start in range(0, len(members), _TOGETHER)):
            p, q = (masses[:, 1:-1] for masses in kind.masses_of_all([parts[k][0] for k in chosen], at))
            ratio = np.clip(p / np.maximum(q, LEAST_DIVISOR), x[:-1], x[1:])
            mass = np.where(q > 0, q, p / x[1:])
            share = (ratio - x[:-1]) / (x[1:] - x[:-1])
            rows[chosen, :-1] += mass * (1 - share)
            rows[chosen, 1:] += mass * share
    used = np.flatnonzero(rows.any(axis=0))
    used = used if used.size else np.array([len(at) // 2])
    return Sketch(at[used], rows[:, used], np.array([float(count) for _, count in parts]))

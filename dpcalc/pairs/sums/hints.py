"""What to spend where in a sum: hints, and nothing but hints. No bound needs them.

Splitting a block's sum onto a grid of step s adds at most s²/4 to its variance, and a variance V of X = S/t near x adds
(λ+1)V/(2x²) to ε, λ the order that decides. A part of relative mass r in the *tilted* law of a block (as X^{λ+1} for
removing and X^{-λ'} for adding weigh it, the other terms at their mean) may move while r·s² stays within its share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.base import Need
from dpcalc.pairs.sums.law import Q_LOWER, RATIO, UPPER, Spans, SumLaw
from dpcalc.pairs.sums.pilot import Pilot

_BASE, _MOVES = 0.1, 0.5  # shares of the variance: for single terms, and for moves
_FILL = 8.0  # grids of a level that use up what is allowed for it
_WIDEST = 1024  # blocks of points of a grid on either side of its middle
_FEW = 5  # so few points are not worth a move
_LEAST_MIDDLE = 1e-3  # where the mean is that counts most
_TINY = 1e-250  # values below are not told from 0


@dataclass(frozen=True)
class Hints:
    """Hints for blocks of a sum of `steps` terms."""

    need: Need
    steps: int
    middle: float
    variances: tuple[float, float]
    variance: float
    """What may be added to that of the sum."""
    smallest: float
    """A value that single terms are rarely below: all of them at 0 is infinite loss for adding."""

    @property
    def bulk_step(self) -> float:
        """The step that suits single terms."""
        return math.sqrt(6 * _BASE * self.variance / self.steps)

    @property
    def step(self) -> float:
        """The finest step, near 0 if terms need it there."""
        finer = math.ceil(math.log(max(self.bulk_step / self.smallest, 1.0), RATIO))
        return self.bulk_step * float(RATIO) ** -finer

    def at_zero(self, count: int) -> float:
        """A weight at 0 of so many terms that all blocks are at together rarely enough."""
        return float(0.5 * self.need.rare ** (count / self.steps))

    def relevances(self, values: Floats, count: int) -> list[tuple[Floats, Floats, float]]:
        """For each way that a Q-mass at these values of a block matters: the log of how much, the log of X there, and
        the variance of log X that may be added."""
        t, (up, down), (most, least) = self.steps, self.need.orders, self.need.epsilons
        share = _MOVES * count / (t * (2 + math.log2(t)) * _FILL)
        first, second = (variance * share for variance in self.variances)
        least_value = t * math.exp(-least) - (t - count)  # below, with the others at 1, the function is straight
        with np.errstate(divide="ignore"):
            high = np.log((values + (t - count)) / t)
            low = np.log(np.maximum((np.maximum(values, least_value) + (t - count) * self.middle) / t, _TINY))
            far = 4 * np.maximum(high - most - 1, 0.0)  # beyond ε the function is straight: splits are free
            found = [
                ((up + 1) * np.minimum(high, most) - far, high, first),
                (np.log(values) - far, high, first),
                (-far, high, first),
                (-down * low, low, second),
            ]
        return [each for each in found if each[2] < math.inf]

    def costs(self, values: Floats, log_q: Floats, step: float, count: int) -> Floats:
        """Per point, the share of what a block may spend that moving it to the next coarser grid would use up."""
        totals = [_log_sum(log_q + relevance) for relevance, _, _ in self.relevances(values, count)]
        return self._costs(values, log_q, step, count, totals)

    def _costs(self, values: Floats, log_q: Floats, step: float, count: int, totals: list[float]) -> Floats:
        """The largest of what matters at a point and at its neighbours counts: a split may reach as far."""
        cost = np.zeros(len(values))
        near = [np.maximum(values + shift, 0.0) for shift in (0.0, -RATIO * step, RATIO * step)]
        for ways, total in zip(zip(*(self.relevances(at, count) for at in near), strict=True), totals, strict=True):
            with np.errstate(invalid="ignore"):
                logs = np.maximum.reduce([relevance - 2 * level for relevance, level, _ in ways])
            cost += np.exp(np.minimum(log_q + logs - total, 60.0)) / ways[0][2]
        return np.nan_to_num(cost, nan=1e30) * (step * step * (RATIO * RATIO - 1) / 6 / self.steps**2)

    def spans(self, pilot: Pilot) -> Spans:
        """Grids for one term: grid k where going to grid k + 1 would not be cheap."""
        values, logs = pilot.values, np.log(pilot.weights)
        heavy = pilot.weights * np.maximum(values, 1.0) > 0.01 * self.need.rare / self.steps
        used = values[heavy] if heavy.any() else values
        low, high = (float(used.min()) * 0.5, float(used.max()) * 1.3)
        spans: list[tuple[int, int]] = []
        while True:
            s = self.step * float(RATIO) ** len(spans)
            if s < 0.99 * self.bulk_step:
                spans.append((0, RATIO * RATIO))
                continue
            cost = self.costs(values, logs, s, 1)
            first, last = _range(values, cost, s)
            if spans:
                first = min(first, spans[-1][0] // RATIO // RATIO * RATIO)
                last = max(last, -(-spans[-1][1] // RATIO // RATIO) * RATIO)
            covers = first <= low / s and last >= high / s
            if covers or (RATIO * s > 0.5 * high and high < 20 * _WIDEST * s):
                first = 0 if low < 4 * s else min(first, math.floor(low / s))
                return (*spans, (max(first, 0), max(last, math.ceil(high / s), first + 1)))
            spans.append((first, last))

    def trimmed(self, law: SumLaw) -> SumLaw:
        """Rare tails taken off, and the outer parts of each grid moved to the next coarser one where that is cheap."""
        rare = self.need.rare / max(len(law.parts), 1)
        for k in list(law.parts):
            values, weights = law.values(k), law.parts[k].rows[UPPER] + law.parts[k].rows[Q_LOWER]
            below = np.cumsum(weights * np.maximum(values / law.count, 1.0))
            left = int(np.searchsorted(below, rare * law.count / self.steps))
            if left < len(values):
                law = law.without_left(k, left)
            values, (upper, p, _) = law.values(k), law.parts[k].rows
            right = int(np.searchsorted(np.cumsum((upper * values + p * law.count)[::-1]), rare * law.count))
            law = law.without_right(k, right)
        top = max(float(law.values(k)[-1]) for k in law.parts)
        k = min(law.parts)
        totals: list[float] = []
        while k <= max(law.parts):
            if k in law.parts and RATIO * law.step_of(k) * 8 <= top:
                if not totals:
                    totals = self._totals(law)
                cost = self._costs(law.values(k), _log_weights(law, k), law.step_of(k), law.count, totals)
                left, right = (int(np.searchsorted(np.cumsum(each), 0.5)) for each in (cost, cost[::-1]))
                size = len(cost)
                whole = left + right >= size
                left = left if self._may_move(law, k, left) else 0
                whole = whole and left > 0
                left, right = (size, 0) if whole else (left if left > _FEW else 0, right if right > _FEW else 0)
                if left + right:
                    law = law.coarsened(k, left, right)
            k += 1
        return law

    def _may_move(self, law: SumLaw, k: int, left: int) -> bool:
        """Whether not too much would come to lie at 0."""
        part = law.parts[k]
        here = part.rows[UPPER, : min(max(RATIO - part.start, 0), left)]
        index = np.arange(part.start, part.start + len(here))
        coarse = law.parts.get(k + 1)
        there = float(coarse.rows[UPPER, 0]) if coarse is not None and coarse.start == 0 else 0.0
        return there + float(here @ (1 - index / RATIO)) <= self.at_zero(law.count) or not len(here)

    def _totals(self, law: SumLaw) -> list[float]:
        """The log of the block's whole weight, in each way that it matters."""
        values = np.concatenate([law.values(k) for k in law.parts])
        logs = np.concatenate([_log_weights(law, k) for k in law.parts])
        return [_log_sum(logs + relevance) for relevance, _, _ in self.relevances(values, law.count)]


def make_hints(need: Need, pilot: Pilot, term: Pilot, steps: int) -> Hints:
    """Hints for a sum of so many terms whose mean is about as `pilot` says."""
    x, log_q = pilot.values, np.log(pilot.weights)
    with np.errstate(divide="ignore"):
        logs = np.log(x)
        up = log_q + (need.orders[0] + 1) * np.minimum(logs, need.epsilons[0])
        down = log_q + need.orders[1] * np.minimum(-logs, need.epsilons[1])
    middles = [max(float(np.exp(each - _log_sum(each)) @ x), _LEAST_MIDDLE) for each in (up, down)]
    variances = [2 * width / (order + 1) / need.copies for width, order in zip(need.widths, need.orders, strict=True)]
    least = min(variance * (steps * middle) ** 2 for variance, middle in zip(variances, middles, strict=True))
    hints = Hints(need, steps, min(middles[1], 1.0), (variances[0], variances[1]), least, 1.0)
    values, weights = term.values[term.values > 0], term.weights[term.values > 0]
    below = int(np.searchsorted(np.cumsum(weights), 0.5 * hints.at_zero(1)))
    return replace(hints, smallest=float(values[min(below, len(values) - 1)]) if len(values) else 1.0)


def _log_sum(logs: Floats) -> float:
    top = float(logs.max(initial=-np.inf))
    return top + math.log(float(np.exp(logs - top).sum())) if top > -math.inf else 0.0


def _log_weights(law: SumLaw, k: int) -> Floats:
    rows = law.parts[k].rows
    return np.asarray(np.log(np.maximum(rows[0] + rows[2], 1e-307)))


def _range(values: Floats, cost: Floats, step: float) -> tuple[int, int]:
    """The points of a grid between which it is not cheap to go to the next one, as multiples of RATIO."""
    total = np.cumsum(cost)
    i, j = (int(np.searchsorted(np.cumsum(each), 0.5)) for each in (cost, cost[::-1]))
    middle = float(values[min(int(np.searchsorted(total, total[-1] / 2)), len(values) - 1)])
    low = high = middle
    if i + j < len(values):
        low, high = float(values[max(i - 1, 0)]), float(values[min(len(values) - j, len(values) - 1)])
    first = max(math.floor(low / step / RATIO), math.floor(middle / step / RATIO) - _WIDEST, 0) * RATIO
    last = min(math.ceil(high / step / RATIO), math.ceil(middle / step / RATIO) + _WIDEST) * RATIO
    return first, last

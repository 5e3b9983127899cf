"""What to spend where: how much added variance a composition can bear, and which points may move to coarser grids.

Splitting onto a grid of step s adds at most s²/4 to the variance of log X, and added variance V raises ε by (λ+1)V/2,
λ the order that decides at δ. So V = 2·tolerance·ε/(λ+1); a part of relative mass r in the *tilted* law (w·X^{λ+1} for
removing, w·X^{-λ'} for adding, flat beyond ε where the function is straight) may move while r·s²·copies stays within
its share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.certified.coarsen import coarsened, cut
from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, RATIO, UPPER, Direction, Law
from dpcalc.accounting.steering.pilot import Sketch, Way
from dpcalc.arrays import Floats
from dpcalc.rounding import LEAST_DIVISOR

SMALL_DELTA = 1e-9
"""Below, directions are composed one by one, each in its own scale."""

BASE_SHARE = 0.2  # of the variance, for putting single steps on a grid
WHOLE_SHARE = 0.345  # the same where that is the only grid: above and below cost as much each
MOVE_SHARE = 0.5  # and for moving parts of products to coarser ones
_WHOLE, _TAIL = 0.7, 0.02  # of what is available, for a whole grid and for each of its ends
COARSEST = 1.5
"""The largest step times the order."""

_IRRELEVANT = 25.0  # nats
_STEEPEST = 300.0  # tilt times the largest loss of a step: rows stay within the range of doubles
_CUT = 2e-3  # of the tolerance in δ, for the tails of each product
_CUT_ONCE = 0.02  # and where tails are cut but once
_AIM = 1.0  # of the variance that the tolerance allows
_FEW = 5  # so few points are not worth a move


@dataclass(frozen=True)
class Hints:
    """For one composition: the step, the orders that decide, variances to spend, and mass that may be cut off."""

    ways: tuple[Way, Way]
    variances: tuple[float, float]
    total: float
    cut: float
    step: float
    tilt: float
    worse: Direction
    one_grid: bool

    def relevance(self, losses: Floats, way: int) -> Floats:
        """log of how much a Q-mass at these losses matters, in one direction."""
        order, epsilon = self.ways[way].order, self.ways[way].epsilon
        if way == 1:
            return np.asarray(order * np.minimum(-losses, epsilon))
        return np.asarray((order + 1) * np.minimum(losses, epsilon) - 3 * np.maximum(losses - epsilon - 1, 0.0))

    @property
    def again(self) -> float:
        """How often a point of a single step on a coarser grid costs what putting it there did."""
        return 1.0 if self.one_grid else _again(self.total)

    def steepest(self) -> float:
        """The order that limits how coarse a grid may be."""
        return self.ways[0 if self.variances[0] < math.inf else 1].order + 1

    def limits(self, losses: Floats, log_q: Floats) -> tuple[float, float]:
        """Where losses stop to matter for the only direction that is read: -∞ and ∞ if both are.

        Mass that is moved in to a limit matters as all of P (or Q) would there: e^{λℓ} (or e^{-λℓ}), against the total.
        """
        if self.variances[0] < math.inf and self.variances[1] < math.inf:
            return -math.inf, math.inf
        way = 0 if self.variances[0] < math.inf else 1
        logs = log_q + self.relevance(losses, way)
        top = float(logs.max())
        matters = top + math.log(float(np.exp(logs - top).sum())) - _IRRELEVANT
        limit = matters / self.ways[way].order
        middle = float(losses[int(np.argmax(logs))])
        margin = 8 * self.step
        return (min(limit, middle - margin), math.inf) if way == 0 else (-math.inf, max(-limit, middle + margin))

    def costs(self, losses: Floats, log_q: Floats, steps: Floats, count: float) -> Floats:
        """Per point, the share of the variances that moving it to the next coarser grid uses up, in all copies."""
        cost = np.zeros(len(losses))
        for way in (0, 1):
            if self.variances[way] == math.inf:
                continue
            slope = self.ways[way].order + 1 - way
            logs = log_q + self.relevance(losses, way)
            top = float(logs.max(initial=-np.inf))
            if top == -math.inf:
                continue
            scaled = np.exp(logs - top)
            scaled *= np.exp(np.minimum(slope * RATIO * steps, 4.0)) / (scaled.sum() * self.variances[way])
            cost += scaled
        return cost * steps * steps * ((RATIO * RATIO - 1) / 6 * self.total / count)


def make_hints(
    sketch: Sketch,
    ways: tuple[Way, Way],
    delta: float,
    widths: tuple[float, float],
    spacing: float | None,
    *,
    one_grid: bool = False,
    bell: bool = False,
) -> Hints:
    """Hints for intervals that are about so wide in ε at δ, removing and adding; for a single grid if so asked,
    where the sum of all losses may be like a bell."""
    remove, add = (2 * _AIM * width / (way.order + 1) for way, width in zip(ways, widths, strict=True))
    top = max(way.epsilon for way in ways)
    share = WHOLE_SHARE if one_grid else BASE_SHARE
    step = max(math.sqrt(6 * share * min(remove, add) / sketch.total), 1e-14 * top, LEAST_DIVISOR)
    if spacing is not None and spacing > step:
        step = spacing / math.ceil(spacing / step)
    read = [k for k in (0, 1) if widths[k] < math.inf]
    worse: Direction = "remove" if max(read, key=lambda k: ways[k].epsilon) == 0 else "add"
    weight = min(max(min(widths[k] * ways[k].order for k in read), 1e-12), 1.0)
    cut = (_CUT_ONCE if one_grid else _CUT) * weight * delta
    tilt = 0.5
    if len(read) == 1 and (one_grid or delta <= SMALL_DELTA):
        (way,) = read
        order = sketch.mildest(ways[way], 1 - 2 * way, delta, bell=bell) if one_grid else ways[way].order
        steepest = max(_STEEPEST / sketch.reach(cut), 0.5)
        tilt = min(order + 1, steepest) if way == 0 else -min(order, steepest)
    return Hints(ways, (remove, add), sketch.total, cut, step, tilt, worse, one_grid)


@dataclass
class Spending:
    """What moves have cost so far, as a share of the variances; it may grow with the number of steps composed."""

    hints: Hints
    spent: float = 0.0

    def trimmed(self, law: Law) -> Law:
        """Rare tails cut off, and parts of each grid moved to the next coarser one as far as the budget goes."""
        return self._moved(without_tails(law, self.hints)) if law.components else law

    def _moved(self, law: Law) -> Law:
        hints = self.hints
        available = MOVE_SHARE * math.log2(law.count / law.batch + 1) / math.log2(hints.total + 1) - self.spent
        if not law.components or available <= 0:
            return law
        keys = list(law.components)
        losses = np.concatenate([law.losses(k) for k in keys])
        sizes = [law.components[k].size for k in keys]
        steps = np.repeat([law.step_of(k) for k in keys], sizes)
        log_factors = law.log_factors("add", losses)
        with np.errstate(divide="ignore"):
            log_q = np.log(np.concatenate([_weights(law, k) for k in keys])) + log_factors
        costs = hints.costs(losses, log_q, steps, law.count / law.batch)
        end = len(costs)
        again = _again(hints.total * law.batch / law.count)
        for k, size in zip(keys[::-1], sizes[::-1], strict=True):  # from the coarsest, so that nothing moves twice
            here = costs[end - size : end]
            end -= size
            if hints.steepest() * RATIO * law.step_of(k) <= COARSEST:
                left, right, cost = _moves(here, available, again, finest=k == keys[0])
                if left + right:
                    law = coarsened(law, k, left, right)
                    available, self.spent = available - cost, self.spent + cost
        return law


def without_tails(law: Law, hints: Hints) -> Law:
    """The law without tails that are rare enough to be cut off."""
    allowed = hints.cut * law.count / hints.total
    keys = list(law.components)
    losses = np.concatenate([law.losses(k) for k in keys])
    with np.errstate(divide="ignore"):
        log_q = np.log(np.concatenate([_weights(law, k) for k in keys])) + law.log_factors("add", losses)
    limits = hints.limits(losses, log_q)
    for k in keys:
        i, j = _rare(law, k, allowed, limits)
        if i or j:
            law = cut(law, k, i, j)
    return law


def _again(copies: float) -> float:
    """How often a point on a coarser grid costs what its move did: in every later product all else meets it there."""
    return 1 + math.log2(max(copies, 1.0))


def _moves(costs: Floats, available: float, again: float, *, finest: bool) -> tuple[int, int, float]:
    """How many points on the left and on the right should move, and what that costs; a whole grid costs but once."""
    from_left = np.cumsum(costs)
    total = float(from_left[-1]) * (1 if finest else again)
    if total <= _WHOLE * available:
        return len(costs), 0, total
    i = int(np.searchsorted(from_left, _TAIL * available / again))
    from_right = np.cumsum(costs[::-1])
    j = int(np.searchsorted(from_right, _TAIL * available / again))
    i, j = (i if i > _FEW else 0), (j if j > _FEW else 0)
    return i, j, again * ((float(from_left[i - 1]) if i else 0.0) + (float(from_right[j - 1]) if j else 0.0))


def _weights(law: Law, k: int) -> Floats:
    rows = law.components[k].rows
    both = rows[..., UPPER, :] + rows[..., Q_LOWER, :]
    return both if both.ndim == 1 else both.mean(axis=0)


def _rare(law: Law, k: int, allowed: float, limits: tuple[float, float]) -> tuple[int, int]:
    """How many points at either end of a grid have less mass than may be cut off, or lie beyond the limits."""
    rows, losses = law.components[k].rows, law.losses(k)
    if rows.ndim == 3:
        rows = rows.sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        q = (rows[UPPER] + rows[Q_LOWER]) * np.exp(law.log_factors("add", losses))
        p = (rows[UPPER] + rows[P_LOWER]) * np.exp(law.log_factors("remove", losses))
    p[losses < limits[0]] = q[losses < limits[0]] = 0.0
    p[losses > limits[1]] = q[losses > limits[1]] = 0.0
    i = int(np.searchsorted(np.cumsum(p + q), allowed))
    j = int(np.searchsorted(np.cumsum((p + q)[::-1]), allowed))
    return (len(losses), 0) if i + j >= len(losses) else (i, j)

"""The mixture of orders: a filter for (ε,δ) that charges RDP at many orders and need not know the best one beforehand.

R_k = Σρ_t(α_k) is what the steps have spent at order α_k, and L the privacy loss of the run so far, either direction.
With weights w_k that add up to 1, all fixed beforehand, a step may run iff after it, for every ℓ > ε,

    δ · Σ_k w_k e^{(α_k−1)(ℓ−R_k)} ≥ 1 − e^{ε−ℓ}.

**Then the run is (ε,δ)-DP.** M_k = e^{(α_k−1)(L−R_k)} is a non-negative supermartingale, so E M_k ≤ 1 whenever the run
stops (Feldman, Zrnic 2021, Theorems 3.1 and 4.3; per record, Theorem 4.5). At L the condition says that
(1 − e^{ε−L})₊ ≤ δ Σ_k w_k M_k, and the mean of the left is δ(ε), that of the right at most δ. ∎

Two things come for free. If the steps' losses are surely at most b_t, L is at most Σb_t and only ℓ ≤ Σb_t need be
checked: nothing at all while Σb_t ≤ ε, so basic composition costs no δ. A step that tells nothing at α_k makes R_k
infinite: that weight is lost, and the rest stands.

What looks alike and is unsound: to go on while *some* order is within the budget that alone gives (ε,δ). Two orders
spend δ twice, on different outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcalc.arrays import Bools, Floats, Indices
from dpcalc.errors import InputError
from dpcalc.rounding import LEAST_DIVISOR, UNIT

# Orders that serve most runs. Small budgets need larger ones: see `Mixture.default`.
ORDERS: tuple[float, ...] = (1.5, 2, 2.5, 3, 4, 5, 6, 8, 11, 16, 24, 36, 64, 128)

# Each exponent is a sum and product of five roundings, each relative to terms of the size that is charged; the rest
# pays for the logarithms, the end of the losses and the tangents.
_ROUNDING = 16 * UNIT
# Of the minimum, in a bracket whose ends differ by less than a factor of 2^16; every other one halves it.
_PROBES = 52
_TANGENTS = 3  # of the left, before its minimum is bracketed


def renyi_room(orders: Floats, epsilon: float, delta: float) -> Floats:
    """B(α,ε,δ): the RDP at each order that alone gives (ε,δ), since (1 − e^{ε−ℓ})₊ ≤ c_α e^{(α−1)(ℓ−ε)}.

    c_α = (1/α)(1 − 1/α)^{α−1}. Negative where not even 0 is shown to be enough.
    """
    steep = orders - 1
    room: Floats = epsilon + (math.log(delta) + np.log(orders)) / steep - np.log1p(-1 / orders)
    return room


def best_order(epsilon: float, delta: float, rdp: Callable[[Floats], Floats], *, largest: float = 1e5) -> float:
    """The order, up to `largest`, at which most repetitions of a plan, given by its RDP, fit into (ε,δ).

    A hint to be fixed before the run, not a bound: any order is sound.
    """
    largest = min(max(512.0, 8 * math.log(1 / delta) / epsilon), largest)
    low, high = math.log(0.01), math.log(largest - 1)
    best = math.nan
    for _ in range(6):
        grid = np.linspace(low, high, 65)
        orders = 1 + np.exp(grid)
        spent = rdp(orders)
        useful = np.isfinite(spent) & (spent > 0)
        repetitions = np.where(useful, renyi_room(orders, epsilon, delta) / np.where(useful, spent, 1.0), -np.inf)
        place = int(np.argmax(repetitions))
        if not repetitions[place] > 0:
            raise InputError(f"the plan has no order whose RDP can give ε = {epsilon:g} at δ = {delta:g}")
        best, low, high = float(orders[place]), grid[max(place - 1, 0)], grid[min(place + 1, grid.size - 1)]
    return best


@dataclass(frozen=True)
class Mixture:
    """The filter for (ε,δ) that weighs several orders; what it may spend is decided by `allows`.

    >>> gaussian = lambda steps: np.array(ORDERS) * steps * 0.05**2 / 2
    >>> mixture = Mixture.default(3.0, 1e-5)
    >>> mixture.allows(gaussian(149)), mixture.allows(gaussian(150))
    (True, False)
    """

    epsilon: float
    delta: float
    orders: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (0 <= self.epsilon < math.inf and 0 < self.delta < 1):
            raise InputError(f"expected ε in [0, inf) and δ in (0, 1), got {self.epsilon} and {self.delta}")
        if not self.orders or len(self.orders) != len(self.weights):
            raise InputError(f"expected one weight for each order, got {len(self.weights)} and {len(self.orders)}")
        if not all(1 < order < math.inf for order in self.orders) or len(set(self.orders)) < len(self.orders):
            raise InputError(f"expected different orders in (1, inf), got {self.orders}")
        if not all(weight > 0 for weight in self.weights) or not abs(math.fsum(self.weights) - 1) <= 1e-9:
            raise InputError(f"expected positive weights that add up to 1, got {self.weights}")

    @classmethod
    def default(cls, epsilon: float, delta: float, plan_order: float | None = None) -> Mixture:
        """Equal weights on ORDERS and, for small ε, on their doubles; half of all weight on a plan's own best order."""
        orders = list(ORDERS)
        while epsilon > 0 and renyi_room(np.array(orders[-1:]), epsilon, delta / len(orders))[0] < 0.8 * epsilon:
            orders.append(2 * orders[-1])
        if plan_order is None:
            return cls(epsilon, delta, tuple(orders), (1 / len(orders),) * len(orders))
        others = tuple(order for order in orders if order != plan_order)
        return cls(epsilon, delta, (plan_order, *others), (0.5, *(0.5 / len(others) for _ in others)))

    def allows(self, spent: Floats, largest_loss: float = math.inf) -> bool:
        """Whether the run may have spent this at each order, upper bounds of the step in question included.

        `largest_loss` bounds the sum of the steps' losses; infinite where only RDP is known. NaN is never allowed.
        """
        return bool(self.allows_each(np.asarray(spent, dtype=np.float64)[:, None], np.array([largest_loss]))[0])

    def allows_each(self, spent: Floats, largest_loss: Floats) -> Bools:
        """`allows` for many runs at once: the columns of `spent`, and the entries of `largest_loss`."""
        if len(spent) != len(self.orders):
            raise InputError(f"expected what was spent at {len(self.orders)} orders, got {len(spent)}")
        known = (spent.min(axis=0) >= 0) & (largest_loss >= 0)
        enough, too_much, beyond = self._thresholds
        # With its weight for its δ, one order alone is enough: the other terms only add to it.
        sure = np.any(spent < enough, axis=0) | (largest_loss <= self.epsilon) | (spent.max(axis=0) == 0)
        allowed: Bools = known & sure
        unsure = known & ~sure
        unsure &= ~(np.all(spent > too_much, axis=0) & (largest_loss >= beyond))
        rest = np.flatnonzero(unsure)
        if rest.size:
            allowed[rest] = self._decided(spent[:, rest], largest_loss[rest])
        return allowed

    @cached_property
    def _thresholds(self) -> tuple[Floats, Floats, float]:
        """Below the first at one order a run may go on; above the second at all of them not, if losses reach the third.

        There every term of the left is below its share of the right. For one order that is where the left touches the
        right, so that next to nothing lies between both.
        """
        steep, count = self.steep[:, 0], len(self.orders)
        alone = renyi_room(np.array(self.orders), self.epsilon, self.delta) + np.log(np.array(self.weights)) / steep
        enough = (alone - 1e-9 * (1 / steep + self.epsilon)) / (1 + 1e-9)
        place = math.log1p(1 / steep[count // 2])
        shares = self.log_weights[:, 0] + math.log(count) - math.log(-math.expm1(-place))
        most = self.epsilon + place + shares / steep
        too_much = most + 1e-9 * (np.abs(most) + 1 / steep + self.epsilon)
        return enough[:, None], too_much[:, None], (self.epsilon + place) * (1 + 1e-9)

    @property
    def enough(self) -> Floats:
        """What may be spent at each order, whatever is spent at the others: its weight alone is enough."""
        found: Floats = self._thresholds[0][:, 0]
        return found

    @property
    def too_much(self) -> tuple[Floats, float]:
        """What a run that may go on has not spent at all orders, if its losses reach the second."""
        return self._thresholds[1][:, 0], self._thresholds[2]

    def _decided(self, spent: Floats, largest_loss: Floats) -> Bools:
        """Whether the condition holds, for runs that have spent something; most are decided at one ℓ or two.

        The logarithm of the left is convex in ℓ, so it lies above its tangent, and where that has its distance from the
        right least is known: a run is allowed if it is above the right there, and refused where the left is below it.
        """
        # Where the order that has most left has its minimum, the condition fails for most of those that fail.
        best = np.argmax(self.steep * (self._thresholds[0] - spent), axis=0)
        end = largest_loss - self.epsilon
        where = np.minimum(np.log1p(1 / self.steep[best, 0]), end)
        if len(self.orders) == 1:  # its only minimum
            return self._left(where, spent)[0] >= 0
        allowed = np.zeros(end.size, dtype=bool)
        who = np.flatnonzero(~self._surely_fails(int(np.bincount(best).argmax()), spent, end))
        spent, end, where = spent[:, who], end[who], where[who]
        for _ in range(_TANGENTS):
            at = self._excess(where, spent)
            least, lowest = at.least(where)
            allowed[who[least >= 0]] = True
            some = np.flatnonzero((at.value >= 0) & ~(least >= 0))
            who, spent, end = who[some], spent[:, some], end[some]
            where = np.minimum(lowest[some], end)
            if not who.size:
                return allowed
        allowed[who] = self._holds(spent, end + self.epsilon)
        return allowed

    def _surely_fails(self, order: int, spent: Floats, end: Floats) -> Bools:
        """Whether the left is clearly below the right where the order of this number has its minimum."""
        where = math.log1p(1 / float(self.steep[order, 0]))
        with np.errstate(over="ignore", under="ignore"):
            terms = self.log_weights + self.steep * (self.epsilon + where) - self.steep * spent
            left = np.exp(terms, out=terms).sum(axis=0)
        fails: Bools = (left < -math.expm1(-where) * (1 - 1e-9)) & (where <= end)
        return fails

    @cached_property
    def steep(self) -> Floats:
        return np.array(self.orders)[:, None] - 1

    @cached_property
    def log_weights(self) -> Floats:
        logs: Floats = np.log(np.array(self.weights))[:, None] + math.log(self.delta)
        return logs - max(0.0, math.log(math.fsum(self.weights)))

    def _holds(self, spent: Floats, largest_loss: Floats) -> Bools:
        """Whether log(left/right) is at least 0 over all ε < ℓ ≤ `largest_loss`.

        That function of ℓ is convex: a sum of exponentials on the left, and −log(1 − e^{−x}) for the right. So it lies
        above its tangents at two points, left and right of its minimum: a run is allowed once these meet above 0, and
        refused once the function is found below 0.
        """
        # The slope of the left lies between the smallest and the largest α − 1, which brackets the minimum.
        low = np.full(spent.shape[1], math.log1p(1 / float(self.steep.max())) * (1 - 1e-9))
        last = math.log1p(1 / float(self.steep.min())) * (1 + 1e-9)
        high = np.maximum(np.minimum(largest_loss - self.epsilon, last), LEAST_DIVISOR)
        left, right = self._excess(low, spent), self._excess(high, spent)
        holds: Bools = right.value >= 0
        # Where the losses end before the minimum, the function falls up to their end.
        who = np.flatnonzero(holds & (right.slope + right.doubt > 0))
        holds[who] = False
        low, high, left, right = low[who], high[who], left.of(who), right.of(who)
        for turn in range(_PROBES):
            reach, meeting = _crossing(left, right, high - low)
            holds[who[meeting >= 0]] = True
            some = np.flatnonzero(~(meeting >= 0))
            who, low, high, left, right = who[some], low[some], high[some], left.of(some), right.of(some)
            if not who.size:
                break
            probe = np.sqrt(low * high) if turn % 2 else low + reach[some]
            at = self._excess(probe, spent[:, who])
            falls, rises = at.slope < -at.doubt, at.slope > at.doubt
            low, high = np.where(falls, probe, low), np.where(rises, probe, high)
            left, right = at.where(falls, left), at.where(rises, right)
            some = np.flatnonzero(at.value >= 0)
            who, low, high, left, right = who[some], low[some], high[some], left.of(some), right.of(some)
        return holds

    def _excess(self, beyond: Floats, spent: Floats) -> _Excess:
        """log(left/right) at ℓ = ε + `beyond`, rounded down, its slope, and how far that may be off."""
        value, terms, total, size = self._left(beyond, spent)
        with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
            shares, falling = terms / total, 1 / np.expm1(beyond)
            slope = (shares * self.steep).sum(axis=0) - falling
            unsure = (shares * np.where(np.isfinite(size), size, 0.0)).sum(axis=0) + len(terms)
            doubt = 4 * _ROUNDING * (float(self.steep.max()) * unsure + falling)
        return _Excess(value, slope, doubt)

    def _left(self, beyond: Floats, spent: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """log(left/right) at ℓ = ε + `beyond`, rounded down; the terms of the left, their sum, what they round by."""
        room = self.epsilon - spent
        exponents = self.log_weights + self.steep * (beyond + room)
        size = np.abs(self.log_weights) + self.steep * (beyond + np.abs(room))
        exponents = np.where(np.isfinite(size), exponents - _ROUNDING * size, -np.inf)
        top = exponents.max(axis=0)
        with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
            terms = np.exp(exponents - np.where(np.isfinite(top), top, 0.0))
            total = terms.sum(axis=0)
            right = np.log(-np.expm1(-beyond))
            value = top + np.log(total) - right
            value -= _ROUNDING * (len(exponents) + np.abs(top) + np.abs(right))
        return value, terms, total, size


class _Excess(NamedTuple):
    value: Floats
    slope: Floats
    doubt: Floats

    def least(self, beyond: Floats) -> tuple[Floats, Floats]:
        """A bound from below over all ℓ, given ε + `beyond` where this was found, and the ℓ − ε of that bound.

        With the slope a of the left there, a·x − log(1 − e^{−x}) is least at x = log(1 + 1/a). Of that least value, as
        a function of a, the derivative is x − `beyond`, and the second one at most 2/(a(a+1)) for slopes above ¾a.
        """
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            falling = 1 / np.expm1(beyond)
            slope, doubt = self.slope + falling, self.doubt + _ROUNDING * falling
            right, lowest = np.log(-np.expm1(-beyond)), np.log1p(1 / slope)
            found = self.value + right + slope * (lowest - beyond) + np.log1p(slope)
            found -= _ROUNDING * (4 + np.abs(right) + slope * (lowest + beyond) + np.log1p(slope))
            found -= doubt * (np.abs(lowest - beyond) + doubt / (slope * (1 + slope)))
            return np.where(4 * doubt < slope, found, -np.inf), lowest

    def of(self, some: Indices) -> _Excess:
        """That of some runs."""
        return _Excess(*(part[some] for part in self))

    def where(self, chosen: Bools, other: _Excess) -> _Excess:
        """This one where it is chosen, and the other one elsewhere."""
        return _Excess(*(np.where(chosen, mine, its) for mine, its in zip(self, other, strict=True)))


def _crossing(left: _Excess, right: _Excess, width: Floats) -> tuple[Floats, Floats]:
    """Where the tangents at two points cross, counted from the left one, and how high."""
    falling, rising = left.slope - left.doubt, right.slope + right.doubt
    with np.errstate(invalid="ignore", divide="ignore"):
        reach = np.clip((left.value - right.value + rising * width) / (rising - falling), 0.0, width)
        return reach, left.value + falling * reach

"""Which window a product by transform needs, from the moments of the laws that go into it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcalc.accounting.certified.law import UPPER, Law
from dpcalc.accounting.certified.power import Orders, Window
from dpcalc.accounting.steering.hints import Hints
from dpcalc.arrays import Floats

_ORDERS = np.geomspace(0.02, 16.0, 24)  # over the standard deviation
_UNSEEN = 5e-5  # of the tolerance, for weights that wrap around: in a mild tilt so little of them is beyond ε
_LONG = 60_000  # points, among which many may be smaller than
_DROWNED = 1e-15  # of the whole
_ROUGHLY = 30.0  # times what may be cut off

Laws = Sequence[tuple[Law, int]]


def window_for(laws: Laws, hints: Hints, near: tuple[float, float], tolerance: float) -> Window:
    """A window beyond which weights do not matter for the direction that is read, ε being `near` some values.

    On its far side (large losses for removing) the mass outside stays below what may be cut off; what wraps around onto
    ε comes from a whole length further up or down, where weights must be far below the tolerance.
    """
    moments = _Moments.of(laws, hints)
    low, high = min(near), max(near)
    order = hints.ways[0 if moments.sign > 0 else 1].order
    faint = moments.scale + math.log(
        _UNSEEN * min(tolerance * max(order * high, 1.0), 1.0) * moments.step / max(moments.spread, moments.step)
    )
    cut = math.log(hints.cut)
    end = max(moments.edge(True, cut, moments.power), high, moments.sign * moments.middle) + 2 * moments.step
    # Weights from below the window wrap around to its end, where they are mass.
    behind = moments.edge(False, cut - moments.power * end, 0.0)
    length = max(moments.edge(True, faint, 0.0) - low, moments.edge(False, faint, 0.0) + high, behind + end)
    if max(hints.variances) < math.inf:  # both directions are read, the other one roughly
        length = max(length, end + moments.edge(False, cut + math.log(_ROUGHLY), moments.other_power))
    at = (low + high) / 2
    return moments.window(end, length, (at + length, length - at))


def whole_window(laws: Laws, hints: Hints, tolerance: float) -> Window:
    """A window that holds all of what is composed further: little is outside or wraps around."""
    moments = _Moments.of(laws, hints)
    share = sum(law.count * count for law, count in laws) / hints.total
    spread = max(moments.spread, moments.step)
    faint = moments.scale + math.log(_UNSEEN * tolerance * share * moments.step / spread)
    mass = math.log(hints.cut * share)
    end = max(moments.edge(True, faint, 0.0), moments.edge(True, mass, moments.power), moments.sign * moments.middle)
    other = max(moments.edge(False, faint, 0.0, moments.other_power), -moments.sign * moments.middle)
    end, other = end + 4 * moments.step, other + 4 * moments.step
    window = moments.window(end, end + other, (end, other))
    if window.size < _LONG:
        return window
    drowned = moments.scale + math.log(_DROWNED)
    sides = [moments.best(far, moments.edge(far, drowned, 0.0), 0.0) for far in (True, False)]
    return replace(window, faint=moments.orders_of(*sides))


@dataclass(frozen=True)
class _Moments:
    """Moments of all copies, towards the far side of the direction that is read (`sign` 1: large losses) and back."""

    sign: int
    step: float
    scale: float
    middle: float
    spread: float
    orders: Floats
    far: Floats
    back: Floats
    power: float  # what turns a weight into the mass that counts on the far side: X^power, or X^-power for adding
    other_power: float  # and on the other

    @classmethod
    def of(cls, laws: Laws, hints: Hints) -> _Moments:
        step = laws[0][0].step_of(min(k for law, _ in laws for k in law.components))
        scale, middle, spread = _shape(laws)
        orders = _ORDERS / max(spread, step)
        left, right = np.split(_log_moments(laws, np.concatenate((-orders, orders))), 2)
        if hints.worse == "remove":
            return cls(1, step, scale, middle, spread, orders, right, left, 1 - hints.tilt, hints.tilt)
        return cls(-1, step, scale, middle, spread, orders, left, right, hints.tilt, 1 - hints.tilt)

    def edge(self, far: bool, least: float, power: float, least_order: float = 0.0) -> float:
        """The distance from 0 beyond which weights times X^power, bounded by moments, are below e^least."""
        usable = self.orders > max(power, least_order)
        logs = self.far if far else self.back
        return float(np.where(usable, (logs - least) / np.where(usable, self.orders - power, 1.0), np.inf).min())

    def best(self, far: bool, distance: float, power: float) -> float:
        """The order with the smallest bound on weights times X^power beyond a distance."""
        logs = (self.far if far else self.back) - (self.orders - power) * distance
        return float(self.orders[int(np.argmin(np.where(self.orders > power, logs, np.inf)))])

    def window(self, end: float, length: float, sources: tuple[float, float]) -> Window:
        """From `end` back, with orders that are best there for what is outside, and at sources of what wraps around.

        Those are distances from 0 on the far side and back.
        """
        length = max(length, 16 * self.step)
        if not (math.isfinite(end) and math.isfinite(length)):
            raise FloatingPointError("no order bounds what is outside a window")
        first = math.floor((end - length if self.sign > 0 else -end) / self.step)
        outside = self.best(True, end, self.power), self.best(False, length - end, self.other_power)
        wrapped = self.best(True, sources[0], 0.0), self.best(False, sources[1], 0.0)
        return Window(first, math.ceil(length / self.step) + 1, self.orders_of(*outside), self.orders_of(*wrapped))

    def orders_of(self, far: float, back: float) -> Orders:
        return Orders(far, back) if self.sign > 0 else Orders(back, far)


def _shape(laws: Laws) -> tuple[float, float, float]:
    """log of the total weight of all copies, and mean and standard deviation of log X under these weights."""
    scale, mean, variance = 0.0, 0.0, 0.0
    for law, count in laws:
        sums = np.zeros((law.batch, 3))
        for k, part in law.components.items():
            losses = law.losses(k)
            rows = part.rows[..., UPPER, :].reshape(law.batch, part.size)
            sums += rows @ np.stack((np.ones(part.size), losses, losses**2)).T
        means = sums[:, 1] / sums[:, 0]
        scale += count * float(np.log(sums[:, 0]).sum() + law.scale * math.log(2))
        mean += count * float(means.sum())
        variance += count * float(np.maximum(sums[:, 2] / sums[:, 0] - means**2, 0.0).sum())
    return scale, mean, math.sqrt(variance)


def _log_moments(laws: Laws, orders: Floats) -> Floats:
    """log Σ wX^{τ + order} of all copies, for each order; without the rounding that a bound would have."""
    total = np.zeros(len(orders))
    for law, count in laws:
        losses = [law.losses(k)[[0, -1]] for k in law.components]
        tops = np.maximum(orders * np.min(losses), orders * np.max(losses))
        sums = np.zeros((law.batch, len(orders)))
        for k, part in law.components.items():
            rows = part.rows[..., UPPER, :].reshape(law.batch, part.size)
            sums += rows @ np.exp(np.multiply.outer(law.losses(k), orders) - tops)
        with np.errstate(divide="ignore"):
            total += count * ((np.log(sums) + tops).sum(axis=0) + law.scale * math.log(2))
    return total

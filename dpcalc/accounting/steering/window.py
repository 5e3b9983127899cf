"""Which window a product by transform needs, from the moments of the laws that go into it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcalc.accounting.certified.law import UPPER, Law
from dpcalc.accounting.certified.power import Orders, Window
from dpcalc.accounting.steering.hints import Hints
from dpcalc.arrays import Floats

LONGEST = 1 << 20
"""Points of a window: a longer one is not worth waiting for."""

_ORDERS = np.array([0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.0, 6.3, 8.0, 11.0, 16.0])  # times the standard deviation
_UNSEEN = 0.003  # of the tolerance, for weights that wrap around


class TooLong(ArithmeticError):
    """A product that needs too many points for one window."""


def window_for(
    laws: Sequence[tuple[Law, int]], hints: Hints, near: tuple[float, float], tolerance: float
) -> Window:
    """A window beyond which weights do not matter for the direction that is read, ε being `near` some values.

    On its far side (large losses for removing) the mass outside stays below what may be cut off; what wraps around onto
    ε comes from a whole length further up or down, where weights must be far below the tolerance.
    """
    grid = min(k for law, _ in laws for k in law.components)
    step, tilt = laws[0][0].step_of(grid), hints.tilt
    scale, middle, spread = _shape(laws)
    orders = _ORDERS / max(spread, step)
    left, right = np.split(_log_moments(laws, np.concatenate((-orders, orders))), 2)
    sign, order = (1, hints.ways[0].order) if hints.worse == "remove" else (-1, hints.ways[1].order)
    low, high = min(near), max(near)
    faint = scale + math.log(_UNSEEN * min(tolerance * order * high, 1.0) * step / max(spread, step))
    far, near_side = (right, left) if sign > 0 else (left, right)
    out_far, end = _edge(far, math.log(hints.cut), orders, 1 - tilt if sign > 0 else tilt)
    in_far, far_rows = _edge(far, faint, orders, 0.0)
    in_near, near_rows = _edge(near_side, faint, orders, 0.0)
    end = max(end, high, sign * middle) + 2 * step
    length = max(far_rows - low, near_rows + high, 16 * step)
    if not length / step < LONGEST:
        raise TooLong("one window of a transform would have too many points")
    first = math.floor((end - length if sign > 0 else -end) / step)
    outside, wrapped = Orders(out_far, in_near), Orders(in_far, in_near)
    if sign < 0:
        outside, wrapped = Orders(in_near, out_far), Orders(in_near, in_far)
    return Window(first, math.ceil(length / step) + 1, outside, wrapped)


def _edge(logs: Floats, least: float, orders: Floats, power: float) -> tuple[float, float]:
    """The distance from 0 beyond which a mass, bounded by moments, is below e^least, and the order that shows it.

    The mass is a weight times X^power, its moments of these orders are e^logs.
    """
    usable = orders > power
    found = np.where(usable, (logs - least) / np.where(usable, orders - power, 1.0), np.inf)
    best = int(np.argmin(found))
    return float(orders[best]), float(found[best])


def _shape(laws: Sequence[tuple[Law, int]]) -> tuple[float, float, float]:
    """log of the total weight of all copies, and mean and standard deviation of log X under these weights."""
    scale, mean, variance = 0.0, 0.0, 0.0
    for law, count in laws:
        sums = np.zeros((law.batch, 3))
        for k, part in law.components.items():
            losses = law.losses(k)
            sums += part.rows[..., UPPER, :].reshape(law.batch, part.size) @ np.stack((losses**0, losses, losses**2)).T
        means = sums[:, 1] / sums[:, 0]
        scale += count * float(np.log(sums[:, 0]).sum() + law.scale * math.log(2))
        mean += count * float(means.sum())
        variance += count * float(np.maximum(sums[:, 2] / sums[:, 0] - means**2, 0.0).sum())
    return scale, mean, math.sqrt(variance)


def _log_moments(laws: Sequence[tuple[Law, int]], orders: Floats) -> Floats:
    """log Σ wX^{τ + order} of all copies, for each order; without the rounding that a bound would have."""
    total = np.zeros(len(orders))
    for law, count in laws:
        tops = np.abs(orders) * law.reach()
        sums = np.zeros((law.batch, len(orders)))
        for k, part in law.components.items():
            rows = part.rows[..., UPPER, :].reshape(law.batch, part.size)
            sums += rows @ np.exp(np.multiply.outer(law.losses(k), orders) - tops)
        with np.errstate(divide="ignore"):
            total += count * ((np.log(sums) + tops).sum(axis=0) + law.scale * math.log(2))
    return total



"""*Coarsen*: parts of a law on the next coarser grid (L2 above, L3 below), and tails on {0, ∞} (L8)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, RATIO, UPPER, Component, Direction, Law, times_exp
from dpcalc.arrays import Floats
from dpcalc.rounding import SMALLEST_NORMAL, accumulated


def to_next_grid(component: Component, step: float, tilt: float) -> Component:
    """A component on the next coarser grid: weights split onto two neighbours, lower masses gathered into cells."""
    pad = component.start % RATIO
    count = -(-(pad + component.size) // RATIO)
    block = np.zeros((*component.rows.shape[:-1], count * RATIO))
    block[..., pad : pad + component.size] = component.rows
    with np.errstate(over="ignore", invalid="ignore"):
        low_high = block.reshape(*component.rows.shape[:-1], count, RATIO) @ _splits(step, tilt)
    if not np.isfinite(low_high).all():
        raise OverflowError("weights beyond the range of doubles")
    rows = np.zeros((*component.rows.shape[:-1], count + 1))
    rows[..., :-1] = low_high[..., 0]
    rows[..., 1:] += low_high[..., 1]
    rows[..., UPPER, :] += SMALLEST_NORMAL  # what the smallest lost on the way
    return Component(component.start // RATIO, rows)


def coarsening(step: float, tilt: float) -> float:
    """How many units of rounding a weight is off by after `to_next_grid`: of shares, exponentials and sums."""
    return 64 + 8 * (1 + abs(tilt)) * RATIO * step


@lru_cache(maxsize=512)
def _splits(step: float, tilt: float) -> Floats:
    """Per row and fine point, what goes to the lower and to the upper coarse point, in the scale of the rows.

    Above, e^u has the mean of its neighbours 1 and e^{4·step}: the share (e^u − 1)/(e^{4·step} − 1). Below, a cell
    takes the name of the nearer point, and the one half-way of either with equal chance, so that names do not drift.
    """
    inside = step * np.arange(RATIO)
    down, up = -inside, RATIO * step - inside
    share = np.expm1(inside) / math.expm1(RATIO * step)
    near = np.array([0.0, 0.0, 0.5, 1.0])
    splits = np.zeros((3, RATIO, 2))
    for row, part, power in ((UPPER, share, tilt), (P_LOWER, near, tilt - 1), (Q_LOWER, near, tilt)):
        splits[row] = np.stack([(1 - part) * np.exp(power * down), part * np.exp(power * up)], axis=-1)
    return splits


def coarsened(law: Law, k: int, left: int, right: int) -> Law:
    """The first `left` and the last `right` points of component k on grid k + 1."""
    part = law.components[k]
    left = min(max(left, 0), part.size)
    right = min(max(right, 0), part.size - left)
    components = dict(law.components)
    del components[k]
    moved = components.get(k + 1)
    for start, end in ((0, left), (part.size - right, part.size)):
        if end > start:
            piece = Component(part.start + start, part.rows[..., start:end])
            moved = to_next_grid(piece, law.step_of(k), law.tilt).plus(moved)
    if moved is not None:
        components[k + 1] = moved
    if left + right < part.size:
        components[k] = Component(part.start + left, part.rows[..., left : part.size - right])
    ledger = law.ledger.plus(relative=law.batch * accumulated(coarsening(law.step_of(k), law.tilt)))
    return replace(law, components=dict(sorted(components.items())), ledger=ledger)


def on_grid(law: Law, finest: int) -> Law:
    """The law with everything that is on finer grids than this one moved to it."""
    for k in range(min(law.components, default=finest), finest):
        if k in law.components:
            law = coarsened(law, k, law.components[k].size, 0)
    return law


def cut(law: Law, k: int, left: int, right: int) -> Law:
    """The first `left` and last `right` points of component k taken off; below, they are ignored (L3).

    Above, a weight on the left is split onto {0, first point that stays}, one on the right onto {last point that
    stays, ∞}, P- and Q-mass kept (L2, L8); if none stays, onto {0, ∞}.
    """
    part = law.components[k]
    left = min(max(left, 0), part.size)
    right = min(max(right, 0), part.size - left)
    losses, upper = law.losses(k), part.rows[..., UPPER, :]
    steepest = (1 + abs(law.tilt)) * law.reach() + abs(law.scale)
    exact = 1 + accumulated(2 * part.size * law.batch + 8 * steepest + 32)
    rounding = (1 + 2 * (law.ledger.relative + law.ledger.shift)) * exact
    components = dict(law.components)
    stays = slice(left, part.size - right)
    infinite, zero = 0.0, 0.0
    if left + right < part.size:
        rows = part.rows[..., stays].copy()
        first, last = losses[left], losses[part.size - right - 1]
        below, above = losses[:left] - first, losses[part.size - right :] - last
        # wX^τ at x becomes w(x/x₁)·x₁^τ at x₁, or w·x₂^τ at x₂.
        with np.errstate(over="ignore", invalid="ignore"):
            at_first = times_exp(upper[..., :left], (1 - law.tilt) * below)
            at_last = times_exp(upper[..., part.size - right :], -law.tilt * above)
            rows[..., UPPER, 0] += exact * at_first.sum(axis=-1) + SMALLEST_NORMAL
            rows[..., UPPER, -1] += exact * at_last.sum(axis=-1) + SMALLEST_NORMAL
        components[k] = Component(part.start + left, rows)
        zero = _mass(law, "add", losses[:left], upper[..., :left])
        infinite = _mass(law, "remove", losses[part.size - right :], upper[..., part.size - right :])
    else:
        del components[k]
        zero, infinite = (_mass(law, direction, losses, upper) for direction in _SIDES)
    ledger = law.ledger.plus(infinite=infinite * rounding, zero=zero * rounding, relative=law.batch * accumulated(4))
    return replace(law, components=components, ledger=ledger)


_SIDES: tuple[Direction, Direction] = ("add", "remove")


def _mass(law: Law, direction: Direction, losses: Floats, upper: Floats) -> float:
    """The P-mass (remove) or Q-mass (add) of some weights; ∞ where doubles cannot tell."""
    with np.errstate(over="ignore", invalid="ignore"):
        mass = float(times_exp(upper, law.log_factors(direction, losses)).sum())
    return math.inf if math.isnan(mass) else mass

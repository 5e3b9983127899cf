"""*Coarsen*: parts of a law on the next coarser grid (L2 above, L3 below), and tails on {0, ∞} (L8)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, RATIO, UPPER, Component, Law
from dpcalc.arrays import Floats
from dpcalc.rounding import accumulated


def to_next_grid(component: Component, step: float) -> Component:
    """A component of one step on the next coarser grid: weights split onto two neighbours, lower masses gathered into cells."""
    pad = component.start % RATIO
    count = -(-(pad + component.size) // RATIO)
    block = np.zeros((*component.rows.shape[:-1], count * RATIO))
    block[..., pad : pad + component.size] = component.rows
    low_high = block.reshape(*component.rows.shape[:-1], count, RATIO) @ _splits(step)
    rows = np.zeros((*component.rows.shape[:-1], count + 1))
    rows[..., :-1] = low_high[..., 0]
    rows[..., 1:] += low_high[..., 1]
    return Component(component.start // RATIO, rows)


@lru_cache(maxsize=512)
def _splits(step: float) -> Floats:
    """Per row and fine point, what goes to the lower and to the upper coarse point, in the scale of √X.

    Above, e^u has the mean of its neighbours 1 and e^{4·step}: the share (e^u − 1)/(e^{4·step} − 1). Below, a cell
    takes the name of the nearer point, and the one half-way of either with equal chance, so that names do not drift.
    """
    inside = step * np.arange(RATIO)
    to_low, to_high = np.exp(-inside / 2), np.exp((RATIO * step - inside) / 2)
    share = np.expm1(inside) / math.expm1(RATIO * step)
    splits = np.zeros((3, RATIO, 2))
    splits[UPPER] = np.stack([(1 - share) * to_low, share * to_high], axis=-1)
    near = np.array([0.0, 0.0, 0.5, 1.0])
    splits[P_LOWER] = np.stack([(1 - near) / to_low, near / to_high], axis=-1)
    splits[Q_LOWER] = np.stack([(1 - near) * to_low, near * to_high], axis=-1)
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
            moved = to_next_grid(piece, law.step_of(k)).plus(moved)
    if moved is not None:
        components[k + 1] = moved
    if left + right < part.size:
        components[k] = Component(part.start + left, part.rows[..., left : part.size - right])
    ledger = law.ledger.plus(relative=law.batch * accumulated(3 * RATIO))
    return replace(law, components=dict(sorted(components.items())), ledger=ledger)


def cut(law: Law, k: int, left: int, right: int) -> Law:
    """The upper law's first `left` and last `right` points of component k on {0, ∞}; below, they are ignored."""
    part = law.components[k]
    left = min(max(left, 0), part.size)
    right = min(max(right, 0), part.size - left)
    losses = law.losses(k)
    outside = np.r_[0:left, part.size - right : part.size]
    upper = part.rows[..., UPPER, :][..., outside]
    rounding = 1 + 2 * law.ledger.relative + accumulated(2 * len(outside) * law.batch + 16)
    masses = []
    for sign in (1, -1):
        with np.errstate(over="ignore", invalid="ignore"):
            factors = np.exp(sign * losses[outside] / 2)
            mass = float((upper * factors).sum())
        masses.append(mass * rounding if mass == mass else math.inf)
    components = dict(law.components)
    if left + right < part.size:
        components[k] = Component(part.start + left, part.rows[..., left : part.size - right])
    else:
        del components[k]
    return replace(law, components=components, ledger=law.ledger.plus(infinite=masses[0], zero=masses[1]))

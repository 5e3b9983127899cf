"""*Discretise*: pairs as laws on nested grids, from the masses of their cells (L2, L3, L5, L8, L9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, RATIO, UPPER, Component, Law, underflow
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.arrays import Floats, Indices
from dpcalc.errors import CertificationError
from dpcalc.pairs.base import Pair
from dpcalc.rounding import LARGEST_EXPONENT, NORMAL_TAIL, UNIT, accumulated

_TOO_MUCH = 1e-9  # masses that add up to more than 1 by this are not those of a pair
_UNKNOWN = 1e-6  # lower cells whose relative error is larger are ignored
_TINY = 1e-300

Spans = tuple[tuple[int, int], ...]
"""Index ranges on the grids 0, 1, …: each inside the next; grid k is used outside the range of grid k - 1."""


@dataclass(frozen=True)
class _Cells:
    """The cells between neighbouring points, from left to right: grid, index of the left point, and all edges."""

    blocks: tuple[tuple[int, int, int, int], ...]  # grid, first index, first cell, end cell
    edges: Floats


def discretised(pairs: Sequence[Pair], step: float, spans: Spans) -> Law:
    """Certified laws of some pairs on the same grids: a batch (a single law for a single pair).

    The likelihood ratio of a sampled pair is X = 1 - q + qZ, and splitting is affine in X: it is done in Z, where
    cells' masses are accurate for any rate (L5).
    """
    cells = _cells(step, spans)
    bases, rates = zip(*(pair.unmixed() for pair in pairs), strict=True)
    q = np.array(rates)[:, None]
    # (e^ℓ - 1 + q) / q without cancellation, for q near 0 and for q near 1.
    z = np.exp(cells.edges) + np.expm1(cells.edges) * ((1 - q) / q)
    with np.errstate(divide="ignore"):
        t = np.log(np.maximum(z, 0.0))
    masses = [base.masses(row) for base, row in zip(bases, t, strict=True)]
    p, b = (np.stack([pair[side] for pair in masses]) for side in (0, 1))
    _bring_zero_inside(p, b, z)
    p_error, b_error = (_errors(side, [getattr(base, "mu", 0.0) for base in bases]) for side in (p, b))
    ledger = _ends(p, b, p_error, b_error, q)
    weights = _split(p[:, 1:-1], b[:, 1:-1], p_error[:, 1:-1], b_error[:, 1:-1], z)
    low_p, low_b, slack = _known(p, b, p_error, b_error, q)
    components = {
        k: _component(k, cells, step, weights, (low_p[:, 1:-1], low_b[:, 1:-1])) for k in {b[0] for b in cells.blocks}
    }
    if len(pairs) == 1:
        components = {k: Component(part.start, part.rows[0]) for k, part in components.items()}
    reach = float(np.abs(cells.edges).max())
    terms = sum(part.size for part in components.values())
    ledger = Ledger(
        *ledger, relative=len(pairs) * accumulated(16), slack=slack, shift=len(pairs) * (16 + 2 * reach) * 2 * UNIT
    ).plus(lost=len(pairs) * underflow(terms, reach))
    return Law(step, dict(sorted(components.items())), ledger, len(pairs))


def _cells(step: float, spans: Spans) -> _Cells:
    blocks: list[tuple[int, int, int]] = []  # grid, first index, end index
    right: list[tuple[int, int, int]] = []
    for k in range(len(spans) - 1, -1, -1):
        low, high = spans[k]
        inner = (spans[k - 1][0] // RATIO, spans[k - 1][1] // RATIO) if k else (high, high)
        if not low <= inner[0] <= inner[1] <= high or (k and (spans[k - 1][0] % RATIO or spans[k - 1][1] % RATIO)):
            raise ValueError(f"Expected nested spans on whole points, got {spans}.")
        blocks.append((k, low, inner[0]))
        right.append((k, inner[1], high))
    blocks = [block for block in (*blocks, *right[::-1]) if block[2] > block[1]]
    edges = [np.arange(first, end) * (step * float(RATIO) ** k) for k, first, end in blocks]
    last = blocks[-1]
    edges.append(np.array([last[2] * (step * float(RATIO) ** last[0])]))
    numbered, at = [], 0
    for k, first, end in blocks:
        numbered.append((k, first, at, at + end - first))
        at += end - first
    whole = np.concatenate(edges)
    if not np.abs(whole).max() < LARGEST_EXPONENT:
        raise ValueError("a grid that reaches beyond what doubles can hold")
    return _Cells(tuple(numbered), whole)


def _errors(masses: Floats, sharpness: Sequence[float]) -> Floats:
    """Bounds on the errors of masses that are differences of distribution functions on the side of the tail (L9).

    With F the larger tail, v ≤ √(2 log 1/F) and an argument t/μ ± μ/2 that is off by 2(v + μ) units.
    """
    below = np.cumsum(masses, axis=-1)
    above = np.cumsum(masses[:, ::-1], axis=-1)[:, ::-1]
    tail = np.minimum(np.minimum(below, above), 1.0)
    squared = -2 * np.log(np.maximum(tail, _TINY))
    flat, steep = NORMAL_TAIL
    mu = np.array(sharpness)[:, None]
    return np.asarray(4 * UNIT * (flat + steep * squared + mu * (1 + np.sqrt(squared))) * tail)


def _bring_zero_inside(p: Floats, b: Floats, z: Floats) -> None:
    """Mass at Z = 0 lies in the cell of a sampled law's grid that holds X = 1 - q, not to the left of the grid."""
    for k in np.flatnonzero(z[:, 0] <= 0):
        cell = int(np.searchsorted(z[k], 0.0, side="right"))
        for masses in (p, b):
            masses[k, cell], masses[k, 0] = masses[k, cell] + masses[k, 0], 0.0


def _ends(p: Floats, b: Floats, p_error: Floats, b_error: Floats, q: Floats) -> tuple[float, float]:
    """Mass at ∞ and at 0: what lies outside the grid, and what the masses lack of 1 (L8)."""
    missing = []
    for masses, errors in ((p, p_error), (b, b_error)):
        lacking = 1 - masses.sum(axis=-1)
        allowed = errors.sum(axis=-1) + 2 * masses.shape[-1] * UNIT
        if not np.all(lacking > -allowed - _TOO_MUCH):
            raise CertificationError(f"the masses of a pair add up to {float((1 - lacking).max()):.12g}, more than 1.")
        missing.append(np.where(lacking > allowed, lacking, 0.0))
    outside = [masses[:, 0] + masses[:, -1] + errors[:, 0] + errors[:, -1] for masses, errors in ((p, p_error), (b, b_error))]
    outside_p, outside_q = outside[0] + missing[0], outside[1] + missing[1]
    mixed = q[:, 0] * outside_p + (1 - q[:, 0]) * outside_q
    return float(mixed.sum()) * (1 + 8 * UNIT), float(outside_q.sum()) * (1 + 8 * UNIT)


def _split(p: Floats, b: Floats, p_error: Floats, b_error: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Weights on the lower and the upper point of each cell, raised by what the masses may be off (L2, L9)."""
    low, high = z[:, :-1], z[:, 1:]
    gap = high - low
    if not (np.isfinite(z).all() and (gap > 0).all()):
        raise ValueError("a grid whose points doubles cannot tell apart")
    up = (np.maximum(p - b * low, 0.0) + p_error + b_error * np.abs(low)) / gap
    down = (np.maximum(b * high - p, 0.0) + p_error + b_error * np.abs(high)) / gap
    return down, up


def _known(p: Floats, b: Floats, p_error: Floats, b_error: Floats, q: Floats) -> tuple[Floats, Floats, float]:
    """The lower law's P- and Q-masses, ignoring cells of which too little is known, and the error of the rest."""
    mixed, error = (1 - q) * b + q * p, (1 - q) * b_error + q * p_error
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.maximum(error / mixed, b_error / b)
    known = worst < _UNKNOWN  # not so where it is NaN
    slack = np.max(worst, axis=-1, where=known, initial=0.0)
    return np.where(known, mixed, 0.0), np.where(known, b, 0.0), float(slack.sum()) + 8 * UNIT * len(p)


def _component(
    k: int, cells: _Cells, step: float, weights: tuple[Floats, Floats], lower: tuple[Floats, Floats]
) -> Component:
    """The rows of one grid; a lower cell has the name of the point that takes more of its weight."""
    blocks = [block for block in cells.blocks if block[0] == k]
    start = min(first for _, first, _, _ in blocks)
    size = max(first + end - begin for _, first, begin, end in blocks) + 1 - start
    rows = np.zeros((weights[0].shape[0], 3, size))
    for _, first, begin, end in blocks:
        down, up = (side[:, begin:end] for side in weights)
        at, count = first - start, end - begin
        rows[:, UPPER, at : at + count] += down
        rows[:, UPPER, at + 1 : at + count + 1] += up
        named_up = up > down
        for row, masses in ((P_LOWER, lower[0][:, begin:end]), (Q_LOWER, lower[1][:, begin:end])):
            rows[:, row, at : at + count] += np.where(named_up, 0.0, masses)
            rows[:, row, at + 1 : at + count + 1] += np.where(named_up, masses, 0.0)
    root = np.exp((start + np.arange(size)) * (step * float(RATIO) ** k / 2))
    rows[:, UPPER] *= root
    rows[:, P_LOWER] /= root
    rows[:, Q_LOWER] *= root
    return Component(start, rows)


def knots(step: float, spans: Spans) -> tuple[Floats, Indices]:
    """The points that spans put cells between, and how many each grid has (for steering)."""
    cells = _cells(step, spans)
    return cells.edges, np.array([end - begin for _, _, begin, end in cells.blocks])

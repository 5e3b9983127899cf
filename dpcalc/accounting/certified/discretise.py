"""*Discretise*: pairs as laws on nested grids, from the masses of their cells (L2, L3, L5, L8, L9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.certified.law import P_LOWER, Q_LOWER, RATIO, UPPER, Component, Law, times_exp
from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.arrays import Bools, Floats
from dpcalc.errors import CertificationError
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells
from dpcalc.rounding import LARGEST_EXPONENT, OVERFULL, SMALLEST_NORMAL, UNIT, accumulated

_UNKNOWN = 1e-6  # lower cells whose relative error is larger are ignored
_FAINTEST = 8 * SMALLEST_NORMAL  # what a weight below the normal range may have lost
_TOO_FAINT = 16 * SMALLEST_NORMAL  # masses below have lost digits
_OUTSIDE = 1e-12  # of what is spared by splitting, for the rounding of the points
_REST = 1e-9  # of the mass, in cells that are charged by themselves
_LEAST_SHARE = 0.01  # cells whose mean is nearer than this to an end, relative to the width, are charged by themselves
_POINTS = 8  # a point i·step and its logarithm are rounded a few times, relative to log X

Spans = tuple[tuple[int, int], ...]
"""Index ranges on the grids 0, 1, …: each inside the next; grid k is used outside the range of grid k - 1."""


@dataclass(frozen=True)
class _Layout:
    """The cells between neighbouring points, from left to right: grid, index of the left point, and all edges."""

    blocks: tuple[tuple[int, int, int, int], ...]  # grid, first index, first cell, end cell
    edges: Floats


def discretised(pairs: Sequence[Pair], step: float, spans: Spans, tilt: float = 0.5) -> Law:
    """Certified laws of some pairs on the same grids: a batch (a single law for a single pair).

    The likelihood ratio of a sampled pair is X = 1 - q + qZ, and splitting is affine in X: it is done in Z, where
    cells' masses are accurate for any rate (L5).
    """
    layout = _layout(step, spans)
    bases, rates = zip(*(pair.unmixed() for pair in pairs), strict=True)
    q = np.array(rates)[:, None]
    halved = _with_middles(layout.edges)
    # (e^ℓ - 1 + q) / q without cancellation, for q near 0 and for q near 1.
    z = np.exp(halved) + np.expm1(halved) * ((1 - q) / q)
    with np.errstate(divide="ignore"):
        t = np.log(np.maximum(z, 0.0))
    halves = _cells(bases, t)
    _bring_zero_inside(halves, z)
    *lower, slack = _known(halves, q)
    z, t, cells = z[:, ::2], t[:, ::2], _joined(halves)
    beyond = _without_faint(cells, q)
    infinite, zero, at_first, at_last = _ends(cells, z, q, layout.edges, max(base.excess() for base in bases))
    alone = np.stack([base.lone_atoms(row) for base, row in zip(bases, t, strict=True)]) & (z[:, :-1] > 0)
    inside = Cells(*(column[:, 1:-1] for column in cells))
    (down, up), relative, shift = _split(inside, z, q, layout.edges, alone)
    down[:, 0] += at_first
    up[:, -1] += at_last
    rows = (down, up), *((masses[:, 1:-1:2], masses[:, 2:-1:2]) for masses in lower)
    components = {k: _component(k, layout, step, rows, tilt) for k in {block[0] for block in layout.blocks}}
    if len(pairs) == 1:
        components = {k: Component(part.start, part.rows[0]) for k, part in components.items()}
    # e^{τℓ} is off by |τℓ| units and those of the exponential; powers of two are exact.
    tilted = len(pairs) * accumulated(8 * (1 + abs(tilt)) * float(np.abs(layout.edges).max()) + 32)
    ledger = Ledger(
        infinite + beyond[0],
        zero + beyond[1],
        _FAINTEST,
        relative + tilted,
        slack + tilted,
        shift,
        *_surely(bases, rates),
    )
    return Law(step, dict(sorted(components.items())), ledger, len(pairs), tilt=tilt)


def _cells(bases: Sequence[Pair], edges: Floats) -> Cells:
    """The cells of some pairs, those of one class in one go."""
    kinds: dict[type[Pair], list[int]] = {}
    for k, base in enumerate(bases):
        kinds.setdefault(type(base), []).append(k)
    if len(kinds) == 1:
        return type(bases[0]).cells_of_all(bases, edges)
    out = Cells(*np.empty((4, len(bases), edges.shape[-1] + 1)))
    for kind, members in kinds.items():
        for column, found in zip(out, kind.cells_of_all([bases[k] for k in members], edges[members]), strict=True):
            column[members] = found
    return out


def _layout(step: float, spans: Spans) -> _Layout:
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
        raise OverflowError("a grid that reaches beyond what doubles can hold")
    return _Layout(tuple(numbered), whole)


def _with_middles(edges: Floats) -> Floats:
    """The edges and the points half-way between them: what is nearer to a point than to others has its name (L3)."""
    out = np.empty(2 * len(edges) - 1)
    out[::2] = edges
    out[1::2] = (edges[1:] + edges[:-1]) / 2
    return out


def _joined(halves: Cells) -> Cells:
    """The cells between neighbouring points, from their halves: each sum is rounded once."""
    out = []
    for column in halves:
        joined = np.empty((len(column), column.shape[-1] // 2 + 1))
        joined[:, 0], joined[:, -1] = column[:, 0], column[:, -1]
        np.add(column[:, 1:-1:2], column[:, 2:-1:2], out=joined[:, 1:-1])
        out.append(joined)
    p, b, p_error, b_error = out
    return Cells(p, b, p_error * (1 + 4 * UNIT) + UNIT * p, b_error * (1 + 4 * UNIT) + UNIT * b)


def _surely(bases: Sequence[Pair], rates: Sequence[float]) -> tuple[float, float]:
    """Lower bounds on -log P(X < ∞) and -log Q(X > 0) of all pairs together; Z = 0 of a sampled one is X = 1 - q."""
    infinite = zero = 0.0
    for base, rate in zip(bases, rates, strict=True):
        p, q = base.surely_infinite()
        infinite -= math.log1p(-rate * p) if p < 1 else 0.0
        zero -= math.log1p(-q) if rate == 1 and q < 1 else 0.0
    lowered = 1 - accumulated(len(bases) + 16)
    return infinite * lowered, zero * lowered


def _bring_zero_inside(columns: Sequence[Floats], z: Floats) -> None:
    """Mass at Z = 0 lies in the cell of a sampled law's grid that holds X = 1 - q, not to the left of the grid."""
    for k in np.flatnonzero(z[:, 0] <= 0):
        cell = int(np.searchsorted(z[k], 0.0, side="right"))
        for masses in columns:
            masses[k, cell], masses[k, 0] = masses[k, cell] + masses[k, 0], 0.0


def _without_faint(cells: Cells, q: Floats) -> tuple[float, float]:
    """P-mass at ∞ and Q-mass at 0 for cells whose Q-mass is below the range of doubles; they are emptied (L2)."""
    p, b, p_error, b_error = cells
    faint = (b < _TOO_FAINT) & ((p > 0) | (b > 0))
    faint[:, 0] = faint[:, -1] = False
    infinite = float(np.where(faint, (1 - q) * (b + b_error) + q * (p + p_error), 0.0).sum())
    zero = float(np.where(faint, b + b_error, 0.0).sum())
    for masses in (p, b, p_error, b_error):
        masses[faint] = 0.0
    raised = 1 + accumulated(p.size + 8)
    return infinite * raised, zero * raised


def _ends(
    cells: Cells, z: Floats, q: Floats, edges: Floats, excess: float = 0.0
) -> tuple[float, float, Floats, Floats]:
    """Mass at ∞ and at 0, and more weight on the first and the last point (L8).

    What lies to the left of the grid is split onto {0, first point}, what lies to the right onto {last point, ∞};
    P-mass that is missing from 1 belongs to ∞, and Q-mass to 0.
    """
    p, b, p_error, b_error = cells
    missing = []
    for masses, errors in ((p, p_error), (b, b_error)):
        lacking = 1 - masses.sum(axis=-1)
        allowed = errors.sum(axis=-1) + 2 * masses.shape[-1] * UNIT
        if not np.all(lacking > -allowed - OVERFULL - excess):
            raise CertificationError(f"the masses of a pair add up to {float((1 - lacking).max()):.12g}, more than 1.")
        missing.append(np.where(lacking > allowed, lacking, 0.0))
    rate = q[:, 0]
    left_p, left_q = (
        ((1 - rate) * (b[:, 0] + b_error[:, 0]) + rate * (p[:, 0] + p_error[:, 0])),
        b[:, 0] + b_error[:, 0],
    )
    # Q-mass on the left adds more to 0 than its part 1 - q of P takes off: the first point is above 1 - q.
    least_p = np.maximum(left_p - 2 * rate * p_error[:, 0], 0.0)
    at_first = left_p * np.exp(-edges[0])
    zero = np.maximum(left_q - least_p * np.exp(-edges[0]) * (1 - _OUTSIDE), 0.0) + missing[1]
    at_last = b[:, -1] + b_error[:, -1]
    spared = np.maximum(b[:, -1] - b_error[:, -1], 0.0) * (1 - _OUTSIDE)
    # Where the grid ends below X = 1 - q, its last point is negative in Z and spares less than nothing.
    spared = np.where(z[:, -1] > 0, spared, at_last * (1 + _OUTSIDE)) * z[:, -1]
    infinite = rate * np.maximum(p[:, -1] + p_error[:, -1] - spared, 0.0) + rate * missing[0] + (1 - rate) * missing[1]
    raised = 1 + 16 * UNIT
    return float(infinite.sum()) * raised, float(zero.sum()) * raised, at_first * raised, at_last * raised


def _split(
    cells: Cells, z: Floats, q: Floats, edges: Floats, alone: Bools
) -> tuple[tuple[Floats, Floats], float, float]:
    """Weights on the lower and the upper point of each cell, and what they may be off by in relation and in place.

    A cell of Q-mass b and mean ratio Z = p/b is known up to a factor 1 ± ρ of b and e^{±η} of X = 1 - q + qZ, the
    rounding of points included. A mean that divides its cell as θ : 1 - θ and is off by e^{±η} is made up for by moving
    both points by η/θ for remove and η/(1 - θ) for add: less would not do for a mean at the end of its cell, where the
    other end may hold a speck of mass that rounding hides. (A single atom has no other end: moved by η, its split has a
    mean beyond it, and Jensen's inequality is all that is needed.) What most cells have of ρ and of these is charged to
    all; a cell with more, as in the tails or with an atom on a point, has its weights raised instead: b(ρ + Xη/gap)
    more on both points is more than any such error moves (L2, L9).
    """
    low, high = z[:, :-1], z[:, 1:]
    gap = high - low
    if not (np.isfinite(z).all() and (gap > 0).all()):
        raise OverflowError("a grid whose points doubles cannot tell apart")
    p_error = np.where(cells.q > 0, cells.p_error + _TOO_FAINT, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        b = np.where(high > 0, np.maximum(cells.q, cells.p / high), cells.q)
        mean = np.clip(np.where(b > 0, cells.p / b, low), np.maximum(low, 0.0), high)
        rho = np.where(b > 0, cells.q_error / b, 0.0)
        eta = np.where(b > 0, p_error / cells.p, 0.0) + rho + 32 * UNIT
        eta = np.where((mean > 0) & (b > 0), eta * (q * mean / (1 - q + q * mean)), 0.0)
        # A cell's edges are logarithms of its points, which are rounded.
        logarithm = np.abs(np.log(np.where(high > 0, high, 1.0)))
        slips = np.where(high > 1, logarithm * (q * high / (1 - q + q * high)), 0.0)
    far = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    # z errs by 8 units of e^ℓ + |e^ℓ - 1|(1-q)/q, so log X by 8(q + |1 - e^-ℓ|(1-q)) ≤ 16q + 8|ℓ|, as X ≥ 1 - q.
    slips = _POINTS * UNIT * (np.minimum(4 * q, 1.0) + far + slips)
    share = np.minimum(mean - low, high - mean) / gap
    eta = eta + slips
    needed = np.where(share > _LEAST_SHARE, eta / np.maximum(share, _LEAST_SHARE), np.inf)
    needed = np.where(alone, eta, needed)
    common_rho, common_eta = (_common(values, b * (1 + mean)) for values in (rho, needed))
    # Weights do not reach above a cell's last point, where it ends if that is rounded down.
    common_eta = np.maximum(common_eta, np.max(slips, axis=-1, where=b + cells.q_error > 0, initial=0.0)[:, None])
    further = np.maximum(np.abs(low), high)
    points = _POINTS * UNIT * (1 + far + logarithm) * b * (further + 1 / q) / gap
    more = cells.q_error + (p_error + cells.q_error * further) / gap + points
    most = (b + cells.q_error + points) * (1 + 8 * UNIT)  # neither point has more than the cell
    worse = (rho > common_rho) | ~(needed <= common_eta) | (b == 0)  # nothing was found, but an error may be told
    down, up = (
        np.where(worse, np.minimum(weight + more, most), weight)
        for weight in (b * ((high - mean) / gap), b * ((mean - low) / gap))
    )
    return (down, up), float(common_rho.sum()), float(common_eta.sum())


def _common(values: Floats, weights: Floats) -> Floats:
    """For each row, a bound of a value in nearly all of its weight: any choice is sound."""
    weights = np.where(values < _UNKNOWN, weights, 0.0)  # what is hardly known is never charged to all
    heavy = np.max(values, axis=-1, where=weights > _REST, initial=-np.inf)[:, None]
    columns = np.flatnonzero((values >= heavy).any(axis=0))  # no smaller value can be the one that is looked for
    values, weights = values[:, columns], weights[:, columns]
    order = np.argsort(-values, axis=-1)
    beyond = np.cumsum(np.take_along_axis(weights, order, axis=-1), axis=-1) <= _REST
    first = np.minimum(beyond.sum(axis=-1), values.shape[-1] - 1)
    at = np.take_along_axis(order, first[:, None], axis=-1)
    found = np.take_along_axis(values, at, axis=-1)
    return np.asarray(np.where(found < _UNKNOWN, found, 0.0))


def _known(cells: Cells, q: Floats) -> tuple[Floats, Floats, float]:
    """The lower law's P- and Q-masses, ignoring cells of which too little is known, and the error of the rest."""
    p, b, p_error, b_error = cells
    mixed, error = (1 - q) * b + q * p, (1 - q) * b_error + q * p_error
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.maximum(error / mixed, b_error / b)
    known = (worst < _UNKNOWN) & (mixed > _TOO_FAINT) & (b > _TOO_FAINT)  # not so where it is NaN
    slack = np.max(worst, axis=-1, where=known, initial=0.0)
    return np.where(known, mixed, 0.0), np.where(known, b, 0.0), float(slack.sum()) + 8 * UNIT * len(p)


def _component(
    k: int, layout: _Layout, step: float, columns: Sequence[tuple[Floats, Floats]], tilt: float
) -> Component:
    """The rows of one grid, from what each cell has for its lower and for its upper point, row by row."""
    blocks = [block for block in layout.blocks if block[0] == k]
    start = min(first for _, first, _, _ in blocks)
    size = max(first + end - begin for _, first, begin, end in blocks) + 1 - start
    losses = (start + np.arange(size, dtype=np.float64)) * (step * float(RATIO) ** k)
    rows = np.zeros((len(columns[0][0]), 3, size))
    for row, power, (down, up) in zip((UPPER, P_LOWER, Q_LOWER), (tilt, tilt - 1, tilt), columns, strict=True):
        for _, first, begin, end in blocks:
            at, count = first - start, end - begin
            rows[:, row, at : at + count] += down[:, begin:end]
            rows[:, row, at + 1 : at + count + 1] += up[:, begin:end]
        rows[:, row] = times_exp(rows[:, row], power * losses)
    rows[:, UPPER] += _FAINTEST
    if not np.isfinite(rows).all():
        raise OverflowError("weights beyond the range of doubles")
    return Component(start, rows)

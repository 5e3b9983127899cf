"""One term Z = dP/dQ as a law on nested linear grids, from the masses of a pair's cells (L2, L8, L9)."""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.errors import CertificationError
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells
from dpcalc.pairs.sums.law import RATIO, Part, Spans, SumLaw
from dpcalc.rounding import FAINT, OVERFULL, SMALLEST_NORMAL, UNIT, accumulated

_UNKNOWN = 1e-10  # lower cells whose relative error is larger are ignored
_POINTS = 4  # units of a logarithm, relative to it, and of the point it is taken of
_WANTED = 692.0  # more than log(1/FAINT)


def terms(pair: Pair, step: float, spans: Spans, ignored: float = 0.0, copies: int = 1) -> SumLaw:
    """One term Z = dP/dQ as a law on these grids, from the masses of cells (L2, L8, L9).

    Below, cells of up to `ignored` mass in all are left out, those of which least is known; `slack` is for sums of at
    least so many `copies`.
    """
    which, start, z = _layout(step, spans)
    first = 1 if z[0] == 0 else 0  # what is below the first positive edge lies between 0 and it
    with np.errstate(divide="ignore"):
        edges = np.log(z[first:])
    cells = pair.cells(edges)
    infinite, gone = _missing(cells)  # with what cells of mass 0 may hold
    if first == 0:  # what lies below the grid
        below_p, below_q = float(cells.p[0] + cells.p_error[0]), float(cells.q[0] + cells.q_error[0])
        gone = (gone[0] + max(below_p, below_q * z[0], below_q), gone[1] + below_q)
        cells = Cells(*(column[1:] for column in cells))
    down, up = _split(Cells(*(column[:-1] for column in cells)), z, _off(edges))
    p, q, p_error, q_error = (float(column[-1]) for column in cells)
    at_last = (q + q_error) * (1 + 4 * UNIT)
    spared = max(q - q_error, 0.0) * float(z[-1]) * (1 - 2 * _off(edges))
    infinite += max(p + p_error - spared, 0.0)
    low_p, low_q, slack = _known(cells, ignored, copies)
    parts = _placed(which, start, (down, up), (low_p[:-1], low_q[:-1]))
    last = int(which[-1])  # not always the coarsest grid: that may lie to the left alone
    parts[last].rows[:, -1] += [at_last, low_p[-1], low_q[-1]]
    return SumLaw(
        step,
        {k: part.without_nothing() for k, part in parts.items() if part.rows.any()},
        1,
        infinite * (1 + 8 * UNIT),
        gone[0] * (1 + 8 * UNIT),
        gone[1] * (1 + 8 * UNIT),
        0.0,  # the weights were raised by their rounding
        slack,
        _off(edges),
        FAINT * len(z),
    )


def _placed(
    which: Floats, start: Floats, above: tuple[Floats, Floats], below: tuple[Floats, Floats]
) -> dict[int, Part]:
    """Each grid's points: what is above, on both ends of its cells; P- and Q-mass below, on the heavier end."""
    (down, up), (low_p, low_q) = above, below
    parts: dict[int, Part] = {}
    for k in np.unique(which).tolist():
        here = which == k
        index, size = start[here] - start[here].min(), int(np.ptp(start[here])) + 2
        name = index + (up[here] > down[here])
        parts[k] = Part(
            int(start[here].min()),
            np.stack(
                [
                    np.bincount(index, down[here], size) + np.bincount(index + 1, up[here], size),
                    np.bincount(name, low_p[here], size),
                    np.bincount(name, low_q[here], size),
                ]
            ),
        )
    return parts


def _layout(step: float, spans: Spans) -> tuple[Floats, Floats, Floats]:
    """The cells between neighbouring points from left to right: grid and index of the left point; and all points."""
    left: list[tuple[int, int, int]] = []
    right: list[tuple[int, int, int]] = []
    for k in range(len(spans) - 1, -1, -1):
        low, high = spans[k]
        inner = (spans[k - 1][0] // RATIO, spans[k - 1][1] // RATIO) if k else (high, high)
        aligned = k == 0 or (spans[k - 1][0] % RATIO == 0 and spans[k - 1][1] % RATIO == 0)
        if not (0 <= low <= inner[0] <= inner[1] <= high and aligned):
            raise ValueError(f"Expected nested spans on whole points, got {spans}.")
        left.append((k, low, inner[0]))
        right.append((k, inner[1], high))
    blocks = [block for block in (*left, *right[::-1]) if block[2] > block[1]]
    which = np.concatenate([np.full(end - first, k) for k, first, end in blocks])
    start = np.concatenate([np.arange(first, end) for _, first, end in blocks])
    end = blocks[-1][2] * (step * float(RATIO) ** blocks[-1][0])
    points = np.append(start * (step * float(RATIO) ** which), end)
    if not (np.isfinite(points).all() and (np.diff(points) > 0).all() and points[-1] < 1e300):
        raise OverflowError("a grid whose points doubles cannot tell apart")
    return which, start, points


def _off(edges: Floats) -> float:
    """How far, relatively, e^edge may be from the point whose logarithm was taken."""
    return _POINTS * UNIT * (1 + float(np.abs(edges[np.isfinite(edges)]).max(initial=0.0)))


def _missing(cells: Cells) -> tuple[float, tuple[float, float]]:
    """P-mass that is missing from 1 belongs to ∞, Q-mass to 0 (L8); more than 1 is refused."""
    lacking = []
    for masses, errors in ((cells.p, cells.p_error), (cells.q, cells.q_error)):
        allowed = float(errors.sum()) + 2 * len(masses) * UNIT
        rest = 1 - float(masses.sum())
        if not rest > -allowed - OVERFULL:
            raise CertificationError(f"the masses of a pair add up to {1 - rest:.12g}, more than 1.")
        lacking.append(rest if rest > allowed else 0.0)
    faint = FAINT * len(cells.p)
    return lacking[0], (lacking[1] + faint, lacking[1] + faint)


def _split(cells: Cells, z: Floats, off: float) -> tuple[Floats, Floats]:
    """Weights on the lower and the upper point of each cell, raised by all that its masses and points may be off by."""
    low, high = z[:-1], z[1:]
    gap = high - low
    doubt_p = cells.p_error + FAINT
    doubt_q = cells.q_error + 4 * off * cells.q + FAINT
    held = cells.p + cells.q + cells.p_error + cells.q_error > 0  # errors alone: a speck that rounding hides
    doubt = np.where(held, (doubt_p + doubt_q * high) / gap * (1 + 32 * UNIT), 0.0)
    down = np.maximum(cells.q * high - cells.p, 0.0) / gap + doubt
    up = np.maximum(cells.p - cells.q * low, 0.0) / gap + doubt
    return down, up


def _known(cells: Cells, ignored: float, copies: int) -> tuple[Floats, Floats, float]:
    """The lower law's P- and Q-masses, ignoring cells of which too little is known, and the error of the rest.

    Cells that P never gives count too: a P-mass of 0 is one of at most `FAINT`, which is charged to `lost`.
    """
    never = (cells.p == 0) & (cells.p_error == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.maximum(np.where(never, 0.0, cells.p_error / cells.p), cells.q_error / cells.q)
    known = (worst < _UNKNOWN) & (never | (cells.p > 16 * SMALLEST_NORMAL)) & (cells.q > 16 * SMALLEST_NORMAL)
    order = np.argsort(np.where(known, -worst, -np.inf))
    known[order[np.cumsum((cells.p + cells.q)[order]) <= ignored]] = False
    p, q = np.where(known, cells.p, 0.0), np.where(known, cells.q, 0.0)
    return p, q, _slack(p, q, np.where(known, worst, 0.0), copies) + 8 * UNIT


def _slack(p: Floats, q: Floats, errors: Floats, copies: int) -> float:
    """The error of a term that sums of so many have on average, but for sums of at most `FAINT` mass.

    No term errs by more than the largest error. Of n terms, errors add up to more than nr with probability at most
    (E e^{λ(error - r)})ⁿ for every λ (Chernoff), and a large r makes that as small as is wanted; P is Q but for one
    term. What such sums have is charged to `lost` like what is too faint for doubles.
    """
    largest = float(errors.max(initial=0.0))
    best = largest
    for tilt in np.geomspace(0.1, 500.0, 50) / largest if largest and copies > 1 else ():
        grown = np.exp(tilt * errors)
        logs = [math.log(float((masses * grown).sum()) * (1 + accumulated(len(p) + 16)) + FAINT) for masses in (q, p)]
        needed = (_WANTED + (copies - 1) * max(logs[0], 0.0) + max(*logs, 0.0)) / copies
        best = min(best, needed / float(tilt) * (1 + 2.0**-40))
    return best

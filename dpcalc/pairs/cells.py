"""Masses of cells, with bounds on their errors: what a pair says of itself between edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.rounding import FAINT, NORMAL_TAIL, UNIT


class Cells(NamedTuple):
    """P- and Q-masses of cells, and bounds on their errors; for many pairs, one row for each."""

    p: Floats
    q: Floats
    p_error: Floats
    q_error: Floats


def lacking(masses: Floats, errors: Floats) -> float:
    """What masses lack of 1 beyond their errors: above, P-mass belongs to a loss of ∞ and Q-mass to one of -∞ (L8)."""
    rest, allowed = 1 - float(masses.sum()), float(errors.sum()) + 2 * len(masses) * UNIT
    return rest + allowed if rest > allowed else 0.0


def tail_errors(masses: Floats, sharpness: float | Floats = 0.0) -> Floats:
    """Bounds on the errors of masses that are differences of distribution functions on the side of the tail."""
    below, above = np.cumsum(masses, axis=-1), np.cumsum(masses[..., ::-1], axis=-1)[..., ::-1]
    return difference_errors(np.minimum(np.minimum(below, above), 1.0), sharpness)


def difference_errors(tail: Floats, sharpness: float | Floats = 0.0) -> Floats:
    """Bounds on the errors of differences of two distribution functions, the larger of which is `tail`.

    With F the larger tail, its quantile v ≤ √(2 log 1/F) and `NORMAL_TAIL` the error of each function; an argument
    t/μ ± μ/2 with μ = `sharpness` is itself off by 2(v + μ) units.
    """
    squared = -2 * np.log(np.maximum(tail, FAINT))
    flat, steep = NORMAL_TAIL
    return np.asarray(4 * UNIT * (flat + steep * squared + sharpness * (1 + np.sqrt(squared))) * tail)


def cells_from_tails(below: Floats, above: Floats) -> Floats:
    """Masses of the cells between edges, from the mass below and above each edge, whichever is smaller there."""
    left = below[..., 1:] - below[..., :-1]
    right = above[..., :-1] - above[..., 1:]
    inner = np.where(below[..., 1:] <= above[..., :-1], left, right)
    return np.asarray(np.maximum(np.concatenate((below[..., :1], inner, above[..., -1:]), axis=-1), 0.0))

"""The largest simple H below a given one: chords between grid points, pushed down by the gap to the tangents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Floats

_MOST_REMOVED = 10_000
_ROUNDING = 4e-15  # of the terms that a mass is the difference of


def push_down(mass: Floats, spread: Floats, lifted: Floats, doubt: Floats, *, edges: Floats, theta: float) -> Floats:
    """Masses on the edges of the cells whose H is nowhere above the H of the cells' contents.

    Inside a cell H is at least its two tangents at the edges, which meet at r = mass / Q-mass. With λ the Q-share of
    the upper edge, the chord is above that corner by g = bΔλ(1-λ). Lowering the chords by e_j at the edges, where
    (1-λ)e_j + λe_{j+1} ≥ g in each cell, gives a function below H; e_j may not exceed what H has there above its
    asymptotes. Its convex minorant is again below H. Cells where no such e exists have their loss rounded down.
    """
    masses = np.zeros((*mass.shape[:-1], mass.shape[-1] + 1))
    bad = spread <= 0
    for _ in range(4):
        keep = np.where(bad, 0.0, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            pushed, bad_now = _push(mass * keep, spread * keep, lifted * keep, doubt * keep, edges=edges, theta=theta)
        if np.isnan(pushed).any():
            break
        if not np.any(bad_now & ~bad):
            masses[..., :-1] = mass * (1 - keep)
            return masses + pushed
        bad = bad | bad_now
    masses[..., :-1] = mass
    return masses


def _push(
    mass: Floats, spread: Floats, lifted: Floats, doubt: Floats, *, edges: Floats, theta: float
) -> tuple[Floats, NDArray[np.bool_]]:
    widths = np.diff(edges)
    rise = np.exp(theta * widths)
    low = np.maximum(lifted - doubt, 0.0)
    chords = np.zeros((*mass.shape[:-1], len(edges)))
    chords[..., :-1] = mass - low
    chords[..., 1:] += low * rise
    safe = np.where(spread > 0, spread, 1.0)
    share = np.clip(lifted * np.exp(-widths) / safe, 0.0, 1.0)
    corner = np.minimum(share * (1 - share) + doubt / safe, 0.25)
    gap = spread * np.expm1(widths) * corner * (1 + 1e-12)
    cap_right, cap_left = _room(chords, edges, theta)
    cap = np.minimum(cap_right, cap_left)
    down = np.zeros(chords.shape)
    down[..., :-1] = gap
    down[..., 1:] = np.maximum(down[..., 1:], gap * rise)
    down = np.minimum(down, cap)
    down = _repair(down, gap, share, caps=(cap_right, cap_left), rise=rise)
    short = gap - (1 - share) * down[..., :-1] - share * down[..., 1:] / rise
    # With both edges on an asymptote the result is that asymptote on the whole cell, which is below H anyway.
    on_right, on_left = down >= cap_right * (1 - 1e-12), down >= cap_left * (1 - 1e-12)
    on_asymptote = (on_right[..., :-1] & on_right[..., 1:]) | (on_left[..., :-1] & on_left[..., 1:])
    bad = (short > 1e-9 * gap) & ~on_asymptote
    change, rounded = _second_difference(down, widths, rise)
    lowered = chords - change
    lowered = np.where(lowered > 0, np.maximum(lowered - _ROUNDING * (chords + rounded), 0.0), lowered)
    rows = [_minorant(row, edges, theta) for row in np.atleast_2d(lowered)]
    return np.reshape(rows, lowered.shape), bad


def _repair(down: Floats, gap: Floats, share: Floats, *, caps: tuple[Floats, Floats], rise: Floats) -> Floats:
    """Where an edge is at its cap, let the other edge of the cell make up for it."""
    cap_right, cap_left = caps
    with np.errstate(divide="ignore", invalid="ignore"):
        need_left = (gap - share * down[..., 1:] / rise) / (1 - share)
        need_right = (gap - (1 - share) * down[..., :-1]) / share * rise
    short = gap > (1 - share) * down[..., :-1] + share * down[..., 1:] / rise
    from_right = short & (cap_right[..., 1:] <= cap_left[..., 1:])
    from_left = short & ~from_right
    repaired = down.copy()
    repaired[..., :-1] = np.where(from_right, np.maximum(repaired[..., :-1], need_left), repaired[..., :-1])
    repaired[..., 1:] = np.where(from_left, np.maximum(repaired[..., 1:], need_right), repaired[..., 1:])
    return np.minimum(repaired, np.minimum(cap_right, cap_left))


def _room(chords: Floats, edges: Floats, theta: float) -> tuple[Floats, Floats]:
    """How far H is above its right asymptote (0) and its left one, at each edge: sums of positive terms."""
    widths = np.diff(edges)
    right = np.expm1(np.append(widths, 0.0)) * _sum_beyond(chords, edges, -(1 + theta))
    right = right + _sum_beyond(right, edges, -theta)
    mirrored = -edges[::-1]
    with np.errstate(over="ignore", invalid="ignore"):
        left = -np.expm1(-np.append(widths[::-1], 0.0)) * _sum_beyond(chords[..., ::-1], mirrored, 1 + theta)
        left = (left + _sum_beyond(left, mirrored, theta))[..., ::-1]
    return right, np.where(np.isnan(left), np.inf, left)


def _sum_beyond(x: Floats, edges: Floats, rate: float) -> Floats:
    """y_j = Σ_{k>j} x_k e^{rate·(edge_k - edge_j)}, in blocks so that no power leaves the range of doubles."""
    result = np.zeros(x.shape)
    carry, end = np.zeros((*x.shape[:-1], 1)), x.shape[-1]
    while end:
        start = 0 if rate == 0 else int(np.searchsorted(edges[: end - 1], edges[end - 1] - 200 / abs(rate)))
        powers = np.exp(rate * (edges[start:end] - edges[start]))
        beyond = np.zeros((*x.shape[:-1], end - start))
        beyond[..., :-1] = np.cumsum((x[..., start + 1 : end] * powers[1:])[..., ::-1], axis=-1)[..., ::-1]
        if end < x.shape[-1]:
            factor = np.exp(rate * (edges[end] - edges[start]))
            beyond += np.where(carry > 0, carry * factor, 0.0)
        result[..., start:end] = beyond / powers
        carry, end = result[..., start : start + 1] + x[..., start : start + 1], start
    return result


def _second_difference(down: Floats, widths: Floats, rise: Floats) -> tuple[Floats, Floats]:
    """What lowering H by `down` at the edges takes from the mass of each, and the sum of its terms' sizes."""
    right, left = np.zeros(down.shape), np.zeros(down.shape)
    right[..., :-1] = down[..., 1:] / rise / np.expm1(widths)
    left[..., 1:] = down[..., :-1] * rise / -np.expm1(-widths)
    here = np.zeros(down.shape)
    here[..., :-1] = down[..., :-1] / np.expm1(widths)
    here[..., -1] = down[..., -1] / np.expm1(widths[-1])
    here[..., 1:] += down[..., 1:] / -np.expm1(-widths)
    here[..., 0] += down[..., 0] / -np.expm1(-widths[0])
    return right + left - here, right + left + here


def _minorant(masses: Floats, edges: Floats, theta: float) -> Floats:
    """The masses of the convex minorant: a knot of negative mass is replaced by the chord over it.

    Not a number where this takes very long, as it does where masses are but noise.
    """
    negative = [int(k) for k in np.flatnonzero(masses < 0)]
    if not negative:
        return masses
    values = masses.copy()
    previous: dict[int, int] = {}
    following: dict[int, int] = {}
    last = len(values) - 1
    removed: set[int] = set()
    while negative:
        if len(removed) > _MOST_REMOVED:
            return np.full(values.shape, np.nan)
        j = negative.pop()
        if j in removed or values[j] >= 0:
            continue
        i, k = previous.get(j, j - 1), following.get(j, j + 1)
        if i < 0 or k > last:
            values[j] = 0.0  # an end of the support: its cap makes it negative by rounding only
            continue
        left, right = edges[j] - edges[i], edges[k] - edges[j]
        whole = np.expm1(left + right)
        to_left = -np.expm1(-right) / -np.expm1(-left - right)
        to_right = np.expm1(left) / whole
        values[i] += values[j] * to_left * np.exp(-(1 + theta) * left)
        values[k] += values[j] * to_right * np.exp((1 + theta) * right)
        values[j] = 0.0
        removed.add(j)
        following[i], previous[k] = k, i
        negative.extend(n for n in (i, k) if values[n] < 0)
    return np.maximum(values, 0.0)

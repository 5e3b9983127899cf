"""The best shifts of the meta-theorem (Bok et al., Theorem C.3), for any sequence of steps.

Step k maps with Lipschitz constant c_k, moves neighbouring runs apart by at most s_k, and adds noise of standard
deviation w_k. The theorem gives μ² = Σ (a_k/w_k)² for any shifts with z_k = c_k z_{k-1} + s_k - a_k, a_k, z_k ≥ 0 and
z_t = 0. Weigh every quantity by A_k = c_{k+1}⋯c_t, what is left of it at the end, and cut the run where the record is
used: interval i begins with a use, which injects the rise R_i = A s, and its noise has the width W_i = Σ (A w)². At the
end of every interval no more may have been shifted away than was injected, and at the very end all of it, with the
least energy Σ (ΔB)²/ΔU. The optimum is the greatest convex minorant of the points (Σ W, Σ R): its slopes are the
isotonic regression of R_i/W_i with weights W_i,

    g_i = max_{a ≤ i} min_{b ≥ i} (R_a + … + R_b)/(W_a + … + W_b),    energy = Σ R_i g_i,

so the energy grows with every rise and falls with every width. An interval without width hands its rise to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats, Indices

_UNIT = 2.0**-53
_ROUNDS = 8  # of merging whole runs at once, before the rest is merged one by one
_AS_GOOD = 1e-10  # relative distance from a lower bound at which a start is not worth improving


def least_energy(widths: Floats, rises: Floats) -> float:
    """Upper bound on the least energy, equal to it up to rounding.

    Any cut into blocks gives one: g_i ≤ max_{a ≤ i} of the slope from a to the end of i's block, and that is at most
    the largest slope from anywhere in a block to its own end, over the blocks up to i's. At the right cut it is exact.
    """
    starts = _blocks(widths, rises)
    sizes = np.diff(starts, append=rises.size)
    owner = np.repeat(np.arange(starts.size), sizes)
    width, rise = _sums_to_the_end(widths, owner, int(sizes.max())), _sums_to_the_end(rises, owner, int(sizes.max()))
    slopes = np.maximum.accumulate(np.maximum.reduceat(_slopes(width, rise), starts))
    # Sums by doubling, a quotient, a product and an exactly rounded sum: so many roundings in all.
    roundings = 3 * math.ceil(math.log2(rises.size + 1)) + 4
    return math.fsum((rise[starts] * slopes).tolist()) * (1 + roundings * 2 * _UNIT)


def _slopes(widths: Floats, rises: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rises > 0, rises / widths, 0.0)


def _blocks(widths: Floats, rises: Floats) -> Indices:
    """Where the segments of the minorant begin: neighbours whose slopes fall are merged until slopes only rise.

    From widths and rises and not from points: differences of sums would lose what is small beside the sums.
    """
    starts = np.arange(rises.size)
    for _ in range(_ROUNDS):
        slopes = _slopes(widths, rises)
        first = np.flatnonzero(np.concatenate(([True], slopes[1:] > slopes[:-1])))
        if first.size == starts.size:
            return starts
        starts, widths, rises = starts[first], np.add.reduceat(widths, first), np.add.reduceat(rises, first)
    stack: list[tuple[float, int, float, float]] = []
    blocks = zip(_slopes(widths, rises).tolist(), starts.tolist(), widths.tolist(), rises.tolist(), strict=True)
    for block in blocks:
        pooled = block
        while stack and stack[-1][0] >= pooled[0]:
            _, start, width, rise = stack.pop()
            width, rise = width + pooled[2], rise + pooled[3]
            pooled = (_slope(width, rise), start, width, rise)
        stack.append(pooled)
    return np.array([start for _, start, _, _ in stack])


def _slope(width: float, rise: float) -> float:
    return rise / width if width > 0 else math.inf if rise > 0 else 0.0


def _sums_to_the_end(values: Floats, owner: Indices, longest: int) -> Floats:
    """Σ of the values from each place to the end of its block, by doubling: few roundings and no differences."""
    sums, distance = values, 1
    while distance < longest:
        further = np.where(owner[distance:] == owner[:-distance], sums[distance:], 0.0)
        sums = np.append(sums[:-distance] + further, sums[-distance:])
        distance *= 2
    return sums


def best_start(widths: Floats, rises: Floats, late_widths: Floats, distances: Floats) -> tuple[float, int]:
    """The least energy over all starts right after a use, from the full distance D, and the interval of the best one.

    Start i has the rise `distances[i]` = A D in place of R_i and, without the step of the use itself, `late_widths[i]`.
    """

    def energy(start: int) -> float:
        after = slice(start + 1, None)
        return least_energy(np.append(late_widths[start], widths[after]), np.append(distances[start], rises[after]))

    floors = _floors(widths, rises, late_widths, distances)
    start = int(np.argmin(floors))
    found = energy(start)
    if not found <= floors[start] * (1 + _AS_GOOD):
        start = _search(widths, rises, late_widths, distances, floors)
        found = energy(start)
    return found, start


def _floors(widths: Floats, rises: Floats, late_widths: Floats, distances: Floats) -> Floats:
    """What each start costs at least, up to rounding: the optimum if only the last use had to wait for its own noise.

    Without that condition everything is spread evenly; with it, what comes before the last use is spread by itself.
    """

    def after(values: Floats) -> Floats:
        return np.append(np.cumsum(values[:0:-1])[::-1], 0.0)

    all_widths, all_rises = late_widths + after(widths), distances + after(rises)
    floors = all_rises * _slopes(all_widths, all_rises)
    if rises.size > 1:
        early_widths, early_rises = late_widths[:-1] + after(widths[:-1]), distances[:-1] + after(rises[:-1])
        early, last = _slopes(early_widths, early_rises), _slope(float(widths[-1]), float(rises[-1]))
        floors[:-1] = np.where(early < last, early_rises * early + rises[-1] * last, floors[:-1])
    return floors


@dataclass(frozen=True, slots=True)
class _Segment:
    """A straight piece of the minorant of all that follows an interval; `energy` is that of it and all after it."""

    width: float
    rise: float
    slope: float
    energy: float
    following: _Segment | None


def _joined(width: float, rise: float, following: _Segment | None) -> _Segment:
    """The minorant with an interval before it: pieces that are not steeper are pooled with the new one."""
    while following is not None and _slope(width, rise) >= following.slope:
        width, rise, following = width + following.width, rise + following.rise, following.following
    slope = _slope(width, rise)
    return _Segment(width, rise, slope, rise * slope + (0.0 if following is None else following.energy), following)


def _search(widths: Floats, rises: Floats, late_widths: Floats, distances: Floats, floors: Floats) -> int:
    """The best of all starts: the minorant of every suffix in one walk, then starts in the order of their floors."""
    suffixes: list[_Segment | None] = [None]
    for width, rise in zip(widths[:0:-1].tolist(), rises[:0:-1].tolist(), strict=True):
        suffixes.append(_joined(width, rise, suffixes[-1]))
    suffixes.reverse()
    best, least = 0, math.inf
    for start in np.argsort(floors, kind="stable").tolist():
        if floors[start] >= least:
            break
        energy = _joined(float(late_widths[start]), float(distances[start]), suffixes[start]).energy
        if energy < least:
            best, least = start, energy
    return best

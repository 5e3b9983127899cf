"""Privacy-loss distributions on a grid, above and below the truth by O(h²) per step.

A pair is its H(t) = sup_A P(A) - t Q(A), convex in t = e^ε, and a larger H stays larger under composition (Zhu, Dong,
Wang 2022). A distribution on the grid ε_j = jh is a convex piecewise linear H with its kinks at the t_j. The upper one
is the chords of H (connect the dots: Doroshenko et al. 2022); the lower one is the chords pushed down by their gap.

Masses are kept *tilted*: p_j e^{θ jh} up to a factor, so that the part of a far tail that decides δ is of order one.
All formulas are local in j, so that tilting costs nothing; θ = 0 is a plain distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from dpcalc.accounting.push_down import push_down
from dpcalc.arrays import Floats, Indices
from dpcalc.errors import CertificationError
from dpcalc.pairs.base import Pair

_MASS_TOLERANCE = 1e-9
_TINY = 1e-290  # below this, doubles lose their digits
_ROUNDED = 4e-15  # rounding error of a log of a ratio of masses near one
NEARLY = 1e-9  # an atom is rounded up by at most so much of a step


@dataclass(frozen=True)
class Grid:
    """Mass at the losses (start + k)·step: masses[k] is p_k e^{θ·loss - log_scale}; `infinite` is at +∞, not tilted.

    With `knots`, the masses are at the losses knots·step only, and start is the first of them. With `offset` all losses
    are truly so much higher than what the other fields say.
    """

    step: float
    start: int
    masses: Floats
    theta: float = 0.0
    log_scale: float = 0.0
    infinite: float = 0.0
    knots: Indices | None = None
    offset: float = 0.0

    @property
    def losses(self) -> Floats:
        if self.knots is not None:
            return self.step * self.knots.astype(np.float64)
        return self.step * (self.start + np.arange(len(self.masses), dtype=np.float64))

    def tilted(self, theta: float) -> Grid:
        """The same distribution with weights e^{θ·loss}, scaled to a total of one."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.masses) + (theta - self.theta) * self.losses
        top = float(logs.max())
        if top == -np.inf:
            return replace(self, theta=theta, log_scale=0.0)
        weights = np.exp(logs - top)
        total = float(weights.sum())
        log_scale = self.log_scale + top + float(np.log(total))
        return replace(self, masses=weights / total, theta=theta, log_scale=log_scale)


@dataclass(frozen=True)
class Cells:
    """What a grid needs to know of a distribution: per cell its tilted mass, and how it splits between its edges.

    `mass` is Σ p e^{-θ(l - l_j)} (l_j the lower edge), `lifted` the part that goes to the upper edge, `spread` the
    same sum with 1 + θ for θ (the Q-mass times t_j), and `doubt` the rounding error of `lifted`. Cells of a stack of
    pairs have one row for each.
    """

    mass: Floats
    spread: Floats
    lifted: Floats
    doubt: Floats
    below: Floats
    above: Floats

    def row(self, k: int) -> Cells:
        """The cells of one pair of a stack."""
        return Cells(self.mass[k], self.spread[k], self.lifted[k], self.doubt[k], self.below[k], self.above[k])


def even_knots(first: int, last: int) -> Indices:
    """Every grid point from `first` to `last`."""
    return np.arange(first, last + 1, dtype=np.int64)


def occupied_knots(pair: Pair, step: float, first: int, last: int) -> Indices:
    """The grid points from `first` to `last` without those that have no mass next to them."""
    knots = even_knots(first, last)
    occupied = np.flatnonzero(pair.masses(step * knots.astype(np.float64))[0][1:-1])
    keep = np.zeros(len(knots), dtype=bool)
    keep[[0, -1]] = keep[occupied] = keep[occupied + 1] = True
    return knots[keep]


def widening_knots(first: int, last: int, ratio: float) -> Indices:
    """Grid points from `first` or before to `last` or after, further apart away from 0: by `ratio` of the distance.

    All of them in a common sequence, whatever the ends: 2m points one apart, then m two apart, m four apart, …
    """
    per_octave, furthest = math.ceil(1 / ratio), max(abs(first), abs(last))
    if 2 * per_octave >= furthest:
        return even_knots(first, last)
    octaves = max(1, math.ceil(math.log2(furthest / per_octave)))
    whole = _octaves(per_octave, octaves)
    begin = int(np.searchsorted(whole, first, side="right")) - 1
    return whole[begin : int(np.searchsorted(whole, last)) + 1]


@lru_cache(maxsize=8)
def _octaves(per_octave: int, octaves: int) -> Indices:
    """The whole sequence of knots up to per_octave · 2^octaves on either side of 0."""
    pieces = [np.arange(2 * per_octave, dtype=np.int64)]
    pieces += [2**k * np.arange(per_octave, 2 * per_octave, dtype=np.int64) for k in range(1, octaves)]
    distances = np.append(np.concatenate(pieces), 2**octaves * per_octave)
    return np.concatenate((-distances[:0:-1], distances))


class Masses(Protocol):
    """What is cut into cells: a pair, as far as its masses go."""

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """P- and Q-mass of the cells that the edges cut the line into."""
        ...


@dataclass(frozen=True)
class Lumped:
    """A pair whose losses within ±half are told apart no more, so that the pair dominates it.

    They are one atom, which comes to be a grid point when all losses are lowered by `offset` (and Q counts e^offset
    times). From below, a loss between two grid points is worth hardly more than the lower one: where a step is much
    wider than nearly all losses, as with a tiny sampling rate, that would cost a step each time.
    """

    pair: Pair
    half: float
    offset: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        true = edges + self.offset
        side = np.where(edges <= 0, -self.half, self.half)
        p, q = self.pair.masses(np.where(np.abs(true) < self.half, side, true))
        return p, q * math.exp(self.offset)


def lumped(pair: Pair, half: float) -> Lumped | None:
    """The pair with its losses within ±half lumped, if they are most of it."""
    p, q = (float(masses[1]) for masses in pair.masses(np.array([-half, half])))
    if min(p, q) < 0.5:
        return None
    offset = math.log(p / q) - _ROUNDED
    return Lumped(pair, half, offset) if abs(offset) < half / 2 else None


def cells_of_pair(pair: Masses, *, step: float, knots: Indices, snap: bool = False) -> Cells:
    """The cells of a pair between the grid points `knots`, untilted.

    With `snap`, an atom that rounding has put right below an edge goes on it: losses rise by NEARLY steps at most.
    """
    edges = (step * knots).astype(np.float64)
    a, b = pair.masses(edges)
    if not np.all(np.abs(a.sum(axis=-1) - 1) < _MASS_TOLERANCE):
        raise CertificationError(f"the masses of a pair add up to {a.sum(axis=-1)} and not to 1; no answer is given.")
    mass, q_mass = a[..., 1:-1], b[..., 1:-1]
    t = np.exp(np.minimum(edges[:-1], 690.0))
    spread = np.where(edges[:-1] < 690.0, q_mass * t, 0.0)
    unit = -np.expm1(-np.diff(edges))
    known = q_mass > _TINY
    lifted = np.where(known, np.clip((mass - spread) / unit, 0.0, mass), mass)
    doubt = np.minimum((_rounding(a)[..., 1:-1] + _rounding(b)[..., 1:-1] * t) / unit, mass)
    doubt = np.where(known, doubt, mass)
    if snap:
        widths = np.diff(edges)
        short = (mass - lifted + doubt) * np.expm1(np.minimum(widths, 690.0))  # e^rise - 1, times the mass
        below_edge = known & (mass > 0) & (short <= NEARLY * step * mass)
        lifted, doubt = np.where(below_edge, mass, lifted), np.where(below_edge, 0.0, doubt)
        spread = np.where(below_edge, lifted * np.exp(-widths), spread)
    return Cells(mass, spread, lifted, doubt, a[..., 0], a[..., -1])


def _rounding(masses: Floats) -> Floats:
    """Rounding error of masses that are differences of distribution functions on the side of the tail."""
    tail = np.minimum(np.cumsum(masses, axis=-1), np.cumsum(masses[..., ::-1], axis=-1)[..., ::-1])
    return np.asarray(tail * 1e-15 * (2 - np.log(np.maximum(tail, 1e-300))))


@dataclass(frozen=True)
class Lump:
    """The fine points first … last - 1 of a grid as one atom: where it is, and its tilted mass."""

    first: int
    last: int
    at: float
    mass: float


def lump_of_grid(grid: Grid, half: float) -> Lump | None:
    """What is within ±half of the most frequent loss, if that is most of the distribution; see `Lumped`."""
    with np.errstate(divide="ignore"):
        logs = np.log(grid.masses) - grid.theta * grid.losses
    mode, reach = int(np.argmax(logs)), int(half / grid.step)
    first, last = max(mode - reach, 0), min(mode + reach + 1, len(logs))
    weights = np.exp(logs - logs[mode])
    p = float(weights[first:last].sum())
    if reach == 0 or p < 0.5 * float(weights.sum()):
        return None
    distances = grid.step * np.arange(first - mode, last - mode)
    # Lower than the sums say by more than their rounding error.
    offset = math.log(p / float(weights[first:last] @ np.exp(-distances))) - (last - first) * _ROUNDED
    at = grid.step * (grid.start + mode) + offset
    return Lump(first, last, at, float(grid.masses[mode]) * p * math.exp(grid.theta * offset))


def cells_of_grid(grid: Grid, *, factor: int, lump: Lump | None = None) -> tuple[Cells, int]:
    """The cells of a grid distribution on a grid `factor` times as coarse, and the index of the first edge.

    The coarse grid passes through 0, or through the lump, and then counts from there.
    """
    masses, start, lag = grid.masses, grid.start, 0.0
    if lump is not None:
        masses = masses.copy()
        masses[lump.first : lump.last] = 0.0
        origin = math.ceil(lump.at / grid.step)
        start, lag = start - origin, origin - lump.at / grid.step
    first, end = start // factor, start + len(masses)
    if lump is not None:
        end = max(end, 1)  # the lump has a cell of its own, be it the last point
    count = -(-end // factor) - first
    padded = np.zeros(count * factor)
    offset = start - first * factor
    padded[offset : offset + len(masses)] = masses
    inside = grid.step * (np.arange(factor) + lag)
    weights = np.exp(-grid.theta * inside)
    lift = weights * np.expm1(-inside) / np.expm1(-grid.step * factor)
    columns = np.stack([weights, weights * np.exp(-inside), lift], axis=1)
    mass, spread, lifted = (padded.reshape(count, factor) @ columns).T
    doubt = 1e-15 * mass
    if lump is not None:
        mass[-first] += lump.mass
        spread[-first] += lump.mass
    return Cells(mass, spread, lifted, doubt, np.zeros(()), np.zeros(())), first


def upper_grid(cells: Cells, *, step: float, knots: Indices, theta: float = 0.0) -> Grid:
    """A grid distribution that dominates: each cell on its two edges, P- and Q-mass kept; what is above goes to +∞."""
    lifted = np.minimum(cells.lifted + cells.doubt, cells.mass)
    masses = np.zeros(len(cells.mass) + 1)
    masses[:-1] = cells.mass - lifted
    masses[1:] += lifted * np.exp(theta * step * np.diff(knots))
    masses[0] += cells.below
    return Grid(step, int(knots[0]), masses, theta, 0.0, float(cells.above), knots)


def lower_grid(cells: Cells, *, step: float, knots: Indices, theta: float = 0.0) -> Grid:
    """A grid distribution that is dominated: the chords pushed down, what is outside dropped."""
    return Grid(step, int(knots[0]), lower_masses(cells, step=step, knots=knots, theta=theta), theta, knots=knots)


def lower_masses(cells: Cells, *, step: float, knots: Indices, theta: float = 0.0) -> Floats:
    """The masses of `lower_grid`; for the cells of a stack one row for each pair."""
    edges = (step * knots).astype(np.float64)
    return push_down(cells.mass, cells.spread, cells.lifted, cells.doubt, edges=edges, theta=theta)

"""Privacy-loss distributions on a grid, above and below the truth by O(h²) per step.

A pair is its H(t) = sup_A P(A) - t Q(A), convex in t = e^ε, and a larger H stays larger under composition (Zhu, Dong,
Wang 2022). A distribution on the grid ε_j = jh is a convex piecewise linear H with its kinks at the t_j. The upper one
is the chords of H (connect the dots: Doroshenko et al. 2022); the lower one is the chords pushed down by their gap.

Masses are kept *tilted*: p_j e^{θ jh} up to a factor, so that the part of a far tail that decides δ is of order one.
All formulas are local in j, so that tilting costs nothing; θ = 0 is a plain distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.accounting.push_down import push_down
from dpcalc.mechanisms.base import Floats, Pair

_TINY = 1e-290  # below this, doubles lose their digits


@dataclass(frozen=True)
class Grid:
    """Mass at the losses (start + k)·step: masses[k] is p_k e^{θ·loss - log_scale}; `infinite` is at +∞, not tilted."""

    step: float
    start: int
    masses: Floats
    theta: float = 0.0
    log_scale: float = 0.0
    infinite: float = 0.0

    @property
    def losses(self) -> Floats:
        return self.step * (self.start + np.arange(len(self.masses), dtype=np.float64))

    def tilted(self, theta: float) -> Grid:
        """The same distribution with weights e^{θ·loss}, scaled to a total of one."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.masses) + (theta - self.theta) * self.losses
        top = float(logs.max())
        if top == -np.inf:
            return Grid(self.step, self.start, self.masses, theta, 0.0, self.infinite)
        weights = np.exp(logs - top)
        total = float(weights.sum())
        return Grid(self.step, self.start, weights / total, theta, self.log_scale + top + np.log(total), self.infinite)


@dataclass(frozen=True)
class Cells:
    """What a grid needs to know of a distribution: per cell its tilted mass, and how it splits between its edges.

    `mass` is Σ p e^{-θ(l - l_j)} (l_j the lower edge), `lifted` the part that goes to the upper edge, `spread` the
    same sum with 1 + θ for θ (the Q-mass times t_j), and `doubt` the rounding error of `lifted`.
    """

    mass: Floats
    spread: Floats
    lifted: Floats
    doubt: Floats
    below: float
    above: float


def cells_of_pair(pair: Pair, *, step: float, first: int, last: int) -> Cells:
    """The cells of a pair between the grid points `first` and `last`, untilted."""
    edges = step * np.arange(first, last + 1, dtype=np.float64)
    a, b = pair.masses(edges)
    mass, q_mass = a[1:-1], b[1:-1]
    t = np.exp(np.minimum(edges[:-1], 690.0))
    spread = np.where(edges[:-1] < 690.0, q_mass * t, 0.0)
    unit = -np.expm1(-step)
    known = q_mass > _TINY
    lifted = np.where(known, np.clip((mass - spread) / unit, 0.0, mass), mass)
    doubt = np.minimum((_rounding(a)[1:-1] + _rounding(b)[1:-1] * t) / unit, mass)
    return Cells(mass, spread, lifted, np.where(known, doubt, mass), float(a[0]), float(a[-1]))


def _rounding(masses: Floats) -> Floats:
    """Rounding error of masses that are differences of distribution functions on the side of the tail."""
    tail = np.minimum(np.cumsum(masses), np.cumsum(masses[::-1])[::-1])
    return np.asarray(tail * 1e-15 * (2 - np.log(np.maximum(tail, 1e-300))))


def cells_of_grid(grid: Grid, *, factor: int) -> tuple[Cells, int]:
    """The cells of a grid distribution on a grid `factor` times as coarse, and the index of the first edge."""
    first = grid.start // factor
    count = -(-(grid.start + len(grid.masses)) // factor) - first
    padded = np.zeros(count * factor)
    offset = grid.start - first * factor
    padded[offset : offset + len(grid.masses)] = grid.masses
    inside = grid.step * np.arange(factor)
    weights = np.exp(-grid.theta * inside)
    lift = weights * np.expm1(-inside) / np.expm1(-grid.step * factor)
    columns = np.stack([weights, weights * np.exp(-inside), lift], axis=1)
    mass, spread, lifted = (padded.reshape(count, factor) @ columns).T
    return Cells(mass, spread, lifted, 1e-15 * mass, 0.0, 0.0), first


def upper_grid(cells: Cells, *, step: float, first: int, theta: float = 0.0) -> Grid:
    """A grid distribution that dominates: each cell on its two edges, P- and Q-mass kept; what is above goes to +∞."""
    lifted = np.minimum(cells.lifted + cells.doubt, cells.mass)
    masses = np.zeros(len(cells.mass) + 1)
    masses[:-1] = cells.mass - lifted
    masses[1:] += lifted * np.exp(theta * step)
    masses[0] += cells.below
    return Grid(step, first, masses, theta, 0.0, cells.above)


def lower_grid(cells: Cells, *, step: float, first: int, theta: float = 0.0) -> Grid:
    """A grid distribution that is dominated: the chords pushed down, what is outside dropped."""
    masses = push_down(cells.mass, cells.spread, cells.lifted, cells.doubt, step=step, theta=theta)
    return Grid(step, first, masses, theta)

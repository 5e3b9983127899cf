"""Transforms log E[e^{λL}] of a step at every edge, as tables that one matrix product turns into everybody's.

A public coin with weight w between M_a and M_b has log((1−w)M_a + wM_b) = (1−w)log M_a + w·log M_b + r with, for
y = M_b/M_a − 1, |r| ≤ w(1−w)·|y|²·∫₀¹|1+vy|⁻²dv. So a record's ΣK(λ) is its counts on the edges times a table of
log M, and the error at most its Σw(1−w) times a table of the bound. Fractional counts need a continuous logarithm:
from one edge to the next its angle turns by that of M_b/M_a, anew after an edge that nobody uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Bools, Complexes, Floats, Indices
from dpcalc.filters.buckets import UNIT
from dpcalc.filters.edge_losses import EdgeLosses
from dpcalc.rounding import LEAST_DIVISOR

ROUND = 2.0**-52
_RANGE = 100.0  # of exponents that are summed on one scale
_LARGEST = 3000.0  # exponents beyond which a moment counts as infinite
_HOPELESS = 1e6
BLOCK = 16
_COLUMNS = 1024


@dataclass(frozen=True)
class RealTable:
    """For each edge (rows) and real λ: an upper bound on log M, and the bound on a coin's remainder."""

    logs: Floats
    remainders: Floats


@dataclass(frozen=True)
class ContourTable:
    """For each used edge (rows): log M(c) =: `tops`, and for each node c + ihj log M/M(c), the bound on a coin's
    remainder, and the error of log M/M(c). That of `tops` is the same at all nodes: they are rounded up.

    Where M is `vague`, less than its error, the logarithm is that of a bound on |M|/M(c), and the remainder is for
    bounds: a coin has at most the mean of them. Nothing is known of the angle.
    """

    tops: Floats
    logs: Complexes
    remainders: Floats
    errors: Floats
    vague: Bools

    def coins(self, upper: Indices, lowest: Bools, weights: Floats) -> tuple[Floats, Complexes, Floats]:
        """`tops`, `logs` and `errors` of steps by a coin of known weight between an edge and the one below it, or
        nothing where it is the `lowest`. As M enters once and not to a fraction, any branch of the logarithm will do.
        """
        below = np.where(lowest, 0.0, self.tops[upper - 1]) + np.log1p(-weights)
        above = self.tops[upper] + np.log(weights)
        tops = np.logaddexp(below, above)
        found = np.zeros((upper.size, self.logs.shape[1]), dtype=np.complex128)
        wrong = np.zeros(found.shape)
        for edge, scale in ((upper - 1, below), (upper, above)):
            nothing = (lowest & (edge < upper))[:, None]
            logs = np.where(nothing, 0.0, self.logs[edge]) + (scale - tops)[:, None]
            errors = np.where(nothing, 0.0, np.where(self.vague[edge], 600.0, np.minimum(self.errors[edge], 600.0)))
            part = np.exp(logs)
            found += part
            wrong += np.abs(part) * (np.expm1(errors) + ROUND * (20 + 2 * np.abs(logs) + 4 * np.abs(scale)[:, None]))
        wrong = 2 * wrong / np.maximum(np.abs(found), LEAST_DIVISOR)
        logs = np.log(np.where(found == 0, LEAST_DIVISOR, found))
        return tops + ROUND * (16 + np.abs(tops)), logs, np.where(wrong < 0.5, wrong, _HOPELESS)


class Transforms:
    """The moments of one direction: of P against Q ("remove"), or of Q against P.

    `places` are the numbers of the edges that anybody is on: the rows of `pairs` and of all tables.
    """

    def __init__(self, pairs: EdgeLosses, places: Indices, *, remove: bool) -> None:
        self._losses, self._slips, self._places = pairs.losses, pairs.slips, places
        self._masses, self._remove = pairs.masses, remove
        self.infinite = pairs.infinite if remove else pairs.infinite_add
        if not remove:
            self._masses = self._masses.copy()
            self._masses[self.infinite > 0, 0] = 0.0
        used = self._masses > 0
        ends = used.shape[1] - 1 - np.argmax(used[:, ::-1], axis=1), np.argmax(used, axis=1)
        self._extremes = self._losses[ends[0]] if remove else -self._losses[ends[1]]
        self._extremes[~used.any(axis=1)] = 0.0

    def real(self, abscissas: Floats) -> RealTable:
        """Upper bounds at real λ; ∞ where a moment is beyond reach."""
        logs = np.stack([self._log_moments(slice(None), float(c))[0] for c in abscissas], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            rise = np.diff(logs, axis=0, prepend=0.0)
            remainders = np.minimum(_curvature(np.expm1(np.minimum(rise, 700.0)) + 0j), UNIT * np.abs(rise))
        # w is 0, 1 or between 1/256 and 255/256, which is the second bound; ∞ − ∞ has none.
        remainders = np.where(np.isnan(remainders), np.inf, remainders)
        remainders[_fresh(self._places)] = 0.0
        return RealTable(logs, remainders)

    def _powers(self, c: float) -> Floats:
        return (1 + c) * self._losses if self._remove else -c * self._losses

    def _log_moments(self, used: Indices | slice, c: float) -> tuple[Floats, Floats, Floats]:
        """log M(c), rounded up, and the means of |loss| and of the atoms' slips under the tilted law."""
        powers, sign = self._powers(c), (1 + c if self._remove else c)
        masses, pieces = self._masses[used], _pieces(powers)
        tops = np.maximum.reduceat(powers, [piece.start for piece in pieces])
        weight = np.exp(powers - np.repeat(tops, [piece.stop - piece.start for piece in pieces]))
        columns = np.stack([weight, weight * np.abs(self._losses), weight * self._slips], axis=1)
        sums = np.array([masses[:, piece] @ columns[piece] for piece in pieces])
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(sums[:, :, 0]) + tops[:, None]
            peak = logs.max(axis=0)
            peak = np.where(peak > -np.inf, peak, 0.0)
            total = np.exp(logs - peak).sum(axis=0)
            scaled = np.exp(np.minimum(tops[:, None] - peak, 700.0))
            means = [np.where(total > 0, (scaled * sums[:, :, i]).sum(axis=0) / total, 0.0) for i in (1, 2)]
            found = np.log(total) + peak
        found = found + ROUND * (self._losses.size + 64 + np.abs(found)) + 2 * ROUND * sign * means[0] + sign * means[1]
        found = np.where(total > 0, found, 0.0)  # all of it is at ∞: any bound will do
        return np.where(sign * self._extremes[used] < _LARGEST, found, np.inf), means[0], means[1]

    def contour(self, used: Indices, c: float, step: float, nodes: int) -> ContourTable:
        """Tables at λ = c + i·step·j for the edges in use, j < nodes (a multiple of 16).

        By M/M(c) − 1, the tilted mean of e^{iyL} − 1: its errors are relative to itself, so a million steps that hardly
        move anything err by what they move, and not each by the rounding of 1.
        """
        powers, sign = self._powers(c), (1.0 if self._remove else -1.0)
        logs, mean, slip = self._log_moments(used, c)
        change = np.zeros((used.size, nodes), dtype=np.complex128)
        masses = self._masses[used]
        for piece in _pieces(powers):
            top = float(powers[piece].max())
            tilted = np.exp(powers[piece] - top)
            with np.errstate(over="ignore"):
                scale = np.exp(np.minimum(top - logs, 700.0))[:, None]
            for first in range(0, nodes, _COLUMNS):
                some = slice(first, min(first + _COLUMNS, nodes))
                turn = _turns(sign * step * self._losses[piece], some.stop - first, first) * tilted[:, None]
                change.real[:, some] += scale * (masses[:, piece] @ np.ascontiguousarray(turn.real))
                change.imag[:, some] += scale * (masses[:, piece] @ np.ascontiguousarray(turn.imag))
        y = step * np.arange(nodes)
        moved = np.minimum(2.0, y * mean[:, None])  # the tilted mean of |e^{iyL} − 1| is at most this
        wrong = ROUND * (2 * self._losses.size + 96 + np.abs(logs)[:, None]) * moved
        wrong += ((8 * (1 + c) + y) * slip[:, None] + 4 * ROUND * (1 + c + y) * mean[:, None]) * (y > 0)
        return _chained(_fresh(self._places[used]), change, np.maximum(logs, 0.0), wrong)


def phases(angles: Floats, nodes: int) -> Complexes:
    """e^{i·angle·j} for j < nodes (a multiple of 16), by products of two short tables."""
    short = np.exp(1j * np.outer(angles, np.arange(BLOCK)))
    long = np.exp(1j * np.outer(angles, BLOCK * np.arange(nodes // BLOCK)))
    return np.asarray((long[:, :, None] * short[:, None, :]).reshape(angles.size, nodes))


def _turns(angles: Floats, nodes: int, first: int) -> Complexes:
    """e^{i·angle·j} − 1 for first ≤ j < first + nodes, the same way; small ones lose nothing."""
    short, long = (
        -2 * np.sin(turned / 2) ** 2 + 1j * np.sin(turned)
        for turned in (
            np.outer(angles, np.arange(BLOCK)),
            np.outer(angles, first + BLOCK * np.arange(nodes // BLOCK)),
        )
    )
    both = long[:, :, None] * short[:, None, :]
    both += long[:, :, None]
    both += short[:, None, :]
    return np.asarray(both.reshape(angles.size, nodes))


def _pieces(powers: Floats) -> list[slice]:
    """Runs of atoms whose exponents lie within one range."""
    cuts = np.flatnonzero(np.diff(np.floor(powers / _RANGE))) + 1
    ends = [0, *cuts.tolist(), powers.size]
    return [slice(low, high) for low, high in pairwise(ends)]


def _fresh(places: Indices) -> Indices:
    """Where nobody is on the edge below, so that nobody's coin is between the two: whole steps only."""
    return np.flatnonzero(np.diff(places, prepend=-1) > 1)


def _chained(fresh: Indices, change: Complexes, tops: Floats, wrong: Floats) -> ContourTable:
    """Logarithms of 1 + `change` = M/M(c), M(c) = e^tops, continuous along the edges, given the error of `change`."""
    moment = 1 + change
    size = np.maximum(np.abs(moment), LEAST_DIVISOR)
    before = np.concatenate([np.zeros_like(change[:1]), change[:-1]])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rise = np.expm1(np.minimum(np.diff(tops, prepend=0.0), 700.0))[:, None]
        y = (rise * moment + change - before) / (1 + before)
        remainders = _curvature(y)
        spread = 2 * change.real + np.abs(change) ** 2
        real = np.where(np.abs(change) < 0.5, np.log1p(np.maximum(spread, -0.75)) / 2, np.log(size))
        angles = np.concatenate([np.unwrap(part, axis=0) for part in np.split(np.angle(moment), fresh) if len(part)])
        logarithms = real + 1j * angles
        errors = (2 * wrong + 32 * ROUND * np.abs(change)) / size + ROUND * len(change) * (2 * np.abs(logarithms))
        told = np.isfinite(logarithms) & (wrong < 0.25 * size)
        largest = np.clip(size + 2 * wrong, LEAST_DIVISOR, 1.0)  # of |M|/M(c); what is vague is below it by wrong/2
        steps = (1 + rise) * largest / np.concatenate([np.ones_like(largest[:1]), largest[:-1]])
        unsure = ~(told & np.concatenate([np.ones_like(told[:1]), told[:-1]]))
        remainders = np.minimum(np.where(unsure, _curvature(steps - 1 + 0j), remainders), _HOPELESS)
        remainders[fresh] = 0.0
    known = np.isfinite(remainders) & np.isfinite(wrong) & np.isfinite(tops)[:, None]
    return ContourTable(
        np.where(np.isfinite(tops), tops, 0.0),
        np.where(known, np.where(told, logarithms, np.log(largest)), 0.0),
        np.where(known, remainders, _HOPELESS),
        np.where(known, np.where(told, errors, 0.0), _HOPELESS),
        known & ~told,
    )


def _curvature(y: NDArray[np.complex128]) -> Floats:
    """A bound on |log(1+wy) − w·log(1+y)| / (w(1−w)): |y|² times the mean of |1+vy|⁻², or half its largest value."""
    square = np.abs(y) ** 2
    size, slant = np.abs(y), np.abs(y.imag)
    nearest = np.abs(1 + np.clip(-y.real / np.maximum(square, LEAST_DIVISOR), 0, 1) * y)
    largest = square / 2 / np.maximum(nearest, 1e-9) ** 2
    # ∫|1+vy|⁻²dv = arg(1+y)/Im y; where y is almost real, 1/(1+Re y) of the real integral.
    inclined = slant > 1e-6 * size
    mean = np.where(
        inclined,
        np.abs(np.angle(1 + y)) / np.where(inclined, slant, 1.0),
        1.00001 / np.maximum(1 + y.real, 1e-9),
    )
    whole = np.where(y.real > -0.5, 1.000001 * square * mean, np.inf)
    return np.asarray(np.minimum(largest, whole))

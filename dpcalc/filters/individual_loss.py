"""Each record's own ε under Poisson sampling, for all records at once, from a few running sums per record.

A record whose norms gave u_t = (‖g_t‖/σ)² has log E[e^{λL}] = Σ_t K(λ; u_t), and K/u is smooth in u: on each piece of u
a Chebyshev polynomial, so the sums Σ u·T_k(u) recover it at every λ. Then δ(ε) is the contour integral

    δ(ε) = (1/2πi) ∫ exp(Σ K(λ) − λε) / (λ(λ+1)) dλ   over Re λ = c, any c > 0,

by the trapezoid rule, which is never below the integral (Poisson summation). Koskela et al., §D, obtain the same number
with a 2,000,000-point FFT per record. With norms that depend on earlier outputs it is an approximation (their §5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from dpcalc.arrays import Complexes, Floats
from dpcalc.filters.filters import EVERYBODY, Who
from dpcalc.filters.pieces import OCTAVES, coefficients, octave
from dpcalc.pairs.subsampled_gaussian import Direction, log_mgf

DEGREE = 12
# ε is widened by this much: above what certified composition adds at its default tolerance, so the two never disagree.
MARGIN = 2e-3
_ABSCISSAS = (0.2, 3000.0, 25)  # shared by all records: each uses the one nearest its saddle point
_ALIASING = 1e-6
_PRECISE = 1e-4  # interpolation error of a record's ΣK up to which a contour is preferred
_TAIL = 2e-4
_FEWEST_NODES = 24
_LARGEST_NODES = 192
_ENTRIES = 2_000_000
_TILE = 65_536
_DIRECTIONS: tuple[Direction, Direction] = ("remove", "add")


@dataclass
class LossMoments:
    """Running sums Σ u·T_k(u) of every record, for each piece of u that has occurred.

    Pieces end at `anchor`, best the largest u there is: K rises steeply soon beyond the u that matter.
    """

    sampling_rate: float
    individuals: int = 0
    pieces: dict[int, Floats] = field(default_factory=dict)
    anchor: float = 1.0

    def grow(self, individuals: int) -> None:
        """Make room for records that appear for the first time."""
        more = individuals - self.individuals
        self.pieces = {piece: np.pad(sums, ((0, 0), (0, more))) for piece, sums in self.pieces.items()}
        self.individuals = individuals

    def add(self, squares: Floats, who: Who = EVERYBODY) -> None:
        """Add the u of the records that took part in a step, or in a block of steps (rows); 0 for one that did not."""
        block = np.atleast_2d(squares)
        records = np.arange(self.individuals)[who]
        width = min(block.shape[1], _TILE)
        height = max(1, _TILE // max(1, width))
        for left in range(0, block.shape[1], width or 1):
            for top in range(0, block.shape[0], height):
                self._add(block[top : top + height, left : left + width], records[left : left + width])

    def _add(self, block: Floats, records: NDArray[np.int64]) -> None:
        columns = np.broadcast_to(np.arange(records.size), block.shape).ravel()
        pieces, x = octave(block.ravel() / self.anchor)
        found = np.bincount(pieces)
        count = records.size * found.size
        sums = _chebyshev_sums(block.ravel(), x, columns + records.size * pieces, count)
        sums = sums.reshape(DEGREE + 1, found.size, records.size)
        for piece in np.flatnonzero(found).tolist():
            if piece in self.pieces or sums[0, piece].any():
                whole = self.pieces.setdefault(piece, np.zeros((DEGREE + 1, self.individuals)))
                whole[:, records] += sums[:, piece]

    def select(self, records: NDArray[np.int64]) -> LossMoments:
        """The sums of some records only."""
        chosen = {piece: sums[:, records] for piece, sums in self.pieces.items()}
        return LossMoments(self.sampling_rate, len(records), chosen, self.anchor)


def _chebyshev_sums(weight: Floats, x: Floats, columns: NDArray[np.int64], count: int) -> Floats:
    """Σ weight·T_k(x) over the entries of each column, for k = 0 … DEGREE."""
    before, current, twice = weight, weight * x, 2 * x
    sums = [np.bincount(columns, before, count), np.bincount(columns, current, count)]
    for _ in range(2, DEGREE + 1):
        before, current = current, twice * current - before
        sums.append(np.bincount(columns, current, count))
    return np.array(sums)


def individual_epsilons(moments: LossMoments, delta: float) -> Floats:
    """Every record's ε at δ: above its own composition's ε by less than 1 %, in either direction; approximate."""
    worst = np.zeros(moments.individuals)
    for direction in _DIRECTIONS:
        np.maximum(worst, _Contour(moments, direction).epsilons(delta), out=worst)
    return worst * (1 + MARGIN)


class _Contour:
    """The transforms of all records in one direction, and the solution of δ(ε) = δ on contours they share."""

    def __init__(self, moments: LossMoments, direction: Direction) -> None:
        self._moments, self._direction = moments, direction

    def epsilons(self, delta: float) -> Floats:
        total = sum((sums[0] for sums in self._moments.pieces.values()), np.zeros(self._moments.individuals))
        epsilon = np.zeros(self._moments.individuals)
        alive = np.flatnonzero(total > 0)
        if not alive.size:
            return epsilon
        bucket, start, spread = self._saddles(alive, delta)
        for abscissa in np.unique(bucket):
            chosen = np.flatnonzero(bucket == abscissa)
            nodes = self._nodes(float(abscissa), alive[chosen], spread[chosen], delta)
            size = max(1, _ENTRIES // nodes.size)
            for first in range(0, chosen.size, size):
                some = chosen[first : first + size]
                epsilon[alive[some]] = self._solve(nodes, alive[some], start[some], delta)
        return epsilon

    def _saddles(self, records: NDArray[np.int64], delta: float) -> tuple[Floats, Floats, Floats]:
        """For each record a shared abscissa near its saddle point, a first ε, and the loss's spread there."""
        c = self._abscissas(records, delta)
        sums, error = self._transform(c, records)
        # Chernoff's bound log δ ≤ ΣK(c) − cε + c·log c − (1+c)·log(1+c), solved for ε; the best c is near the saddle.
        bound = (sums.real + error - math.log(delta) + c * np.log(c) - (1 + c) * np.log1p(c)) / c
        bound = np.where(np.isfinite(bound), bound, np.inf)
        # A contour may run through any c > 0: rather a little off the saddle than where interpolation is poor.
        precise = np.where(error <= _PRECISE, bound, np.inf)
        place = np.where(np.isfinite(precise).any(axis=1), np.argmin(precise, axis=1), np.argmin(bound, axis=1))
        rows = np.arange(records.size)
        gaussian = np.sqrt(2 * np.maximum(sums.real[rows, place], 0.0) / (c * (1 + c))[place])
        return c[place], np.maximum(bound.min(axis=1), 0.0), gaussian

    def _abscissas(self, records: NDArray[np.int64], delta: float) -> Floats:
        """The shared abscissas among which these records' saddle points lie: c ≈ √(2·log 1/δ)/μ, or less."""
        total = sum(sums[0, records] for sums in self._moments.pieces.values())
        saddles = math.sqrt(-2 * math.log(delta)) / (self._moments.sampling_rate * np.sqrt(total))
        grid = np.geomspace(*_ABSCISSAS)
        inside = (grid >= 0.1 * saddles.min()) & (grid <= 2 * saddles.max())
        return grid[inside] if inside.any() else grid

    def _nodes(self, abscissa: float, records: NDArray[np.int64], spread: Floats, delta: float) -> Complexes:
        """λ = c + iy, so fine that aliases are negligible and so far out that the rest is, for these records."""
        period = max(math.log(1 / (delta * _ALIASING)) / abscissa, 14 * float(spread.max()))
        step = 2 * math.pi / period
        count = _FEWEST_NODES
        # The slowest decay is that of a record with the narrowest loss: judge the reach on a sample of the extremes.
        judged = records[np.argsort(spread)[:: max(1, spread.size // 32)]]
        while count < _LARGEST_NODES:
            reach = abscissa + 1j * step * np.arange(count + 1)
            sums, _ = self._transform(reach, judged)
            size = np.exp(np.minimum(sums.real - sums.real[:, :1], 0.0)) / np.abs(reach * (1 + reach))
            tail = size[:, -count // 4 :].max(axis=1) * count
            if np.all(tail <= _TAIL * size.sum(axis=1)):
                break
            count *= 2
        return np.asarray(abscissa + 1j * step * np.arange(count + 1), dtype=np.complex128)

    def _solve(self, nodes: Complexes, records: NDArray[np.int64], start: Floats, delta: float) -> Floats:
        """ε with δ(ε) = δ by Newton's method on log δ, the interpolation error and the cut-off tail included in δ."""
        sums, error = self._transform(nodes, records)
        step = float(nodes[1].imag)
        weights = np.full(nodes.size, step / math.pi)
        weights[0] /= 2
        top = sums.real[:, :1]
        kernel = np.exp(sums - top) * weights / (nodes * (1 + nodes))
        size = np.abs(kernel)
        # Beyond the last node: as if the transform stayed at its largest recent value.
        recent = size[:, -max(2, nodes.size // 8) :].max(axis=1, keepdims=True)
        wrong = (size * np.expm1(np.minimum(error, 50.0))).sum(axis=1, keepdims=True) + recent * nodes.size
        c, target = nodes[0].real, math.log(delta)

        def profile(epsilon: Floats) -> tuple[Floats, Floats]:
            turned = kernel * np.exp(-1j * np.outer(epsilon, nodes.imag))
            value = np.maximum(turned.real.sum(axis=1) + wrong[:, 0], 1e-300)
            slope = -(turned * nodes).real.sum(axis=1) - c * wrong[:, 0]
            return np.log(value) + top[:, 0] - c * epsilon, slope / value

        at_zero, _ = profile(np.zeros(records.size))
        epsilon = start
        for _ in range(60):
            log_delta, slope = profile(epsilon)
            change = np.clip((log_delta - target) / np.minimum(slope, -1e-12), -1 - epsilon, 1 + epsilon)
            following = np.maximum(epsilon - change, 0.0)
            done = np.abs(following - epsilon) <= 1e-9 * (epsilon + 1e-6)
            epsilon = following
            if np.all(done):
                break
        # With very few steps the transform decays slowly; Chernoff's bound, where it started, is then the better one.
        return np.where(at_zero <= target, 0.0, np.minimum(epsilon, start))

    def _transform(self, exponents: NDArray[np.generic], records: NDArray[np.int64]) -> tuple[Complexes, Floats]:
        """Σ_t K(λ; u_t) for each record (rows) and λ (columns), and a bound on its interpolation error."""
        values = np.zeros((records.size, exponents.size), dtype=np.complex128)
        errors = np.zeros((records.size, exponents.size))
        for piece, sums in self._moments.pieces.items():
            polynomial, error = _slopes(
                tuple(exponents.tolist()), self._moments.sampling_rate, self._direction, piece, self._moments.anchor
            )
            chosen = sums[:, records].T
            values += chosen @ polynomial
            errors += chosen[:, :1] * error
        return values, errors


@lru_cache(maxsize=128)
def _slopes(
    exponents: tuple[complex, ...], rate: float, direction: Direction, piece: int, anchor: float
) -> tuple[Complexes, Floats]:
    """Chebyshev coefficients of K(λ; u)/u on a piece, for each λ, and the error measured between the nodes."""
    nodes = OCTAVES.nodes(piece, DEGREE + 1)
    low, high = OCTAVES.range(piece)
    between = low + (high - low) * np.array([0.005, 0.35, 0.8])
    squares = anchor * np.concatenate([nodes, between])
    order = np.argsort(squares)
    found = log_mgf(np.array(exponents), 1 / np.sqrt(squares), rate, direction).astype(np.complex128)
    # K is continuous in u: undo the jumps of the principal logarithm.
    found[order] = found[order].real + 1j * np.unwrap(found[order].imag, axis=0)
    slopes = found / squares[:, None]
    polynomial: Complexes = coefficients(slopes[: nodes.size])
    basis = chebyshev.chebvander(OCTAVES.to_unit(between, piece), DEGREE)
    error: Floats = np.abs(basis @ polynomial - slopes[nodes.size :]).max(axis=0)
    return polynomial, 2 * error

"""The Gaussian pair, and what sampling makes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpcalc.arrays import Bools, Complexes, Floats, Indices
from dpcalc.elementary import log_ndtr, ndtr
from dpcalc.pairs.base import MixturePair, Pair
from dpcalc.pairs.cells import Cells, cells_from_tails, difference_errors
from dpcalc.pairs.moments import ROUNDING
from dpcalc.pairs.subsampled_gaussian import log_mgf as subsampled_log_mgf
from dpcalc.pairs.subsampled_renyi import log_excess as subsampled_log_excess
from dpcalc.pairs.symmetrised import SymmetrisedPair
from dpcalc.pairs.symmetrised_gaussian import log_mgf as symmetrised_log_mgf
from dpcalc.rounding import UNIT


def _masses(mu: float | Floats, edges: Floats) -> tuple[Floats, Floats]:
    """The masses of N(μ, 1) against N(0, 1); one row for each of a column of μ."""
    center = edges / mu
    p, q = (cells_from_tails(*_tails(x)) for x in (center - mu / 2, center + mu / 2))
    return p, q


def _tails(x: Floats) -> tuple[Floats, Floats]:
    """Φ(x) and Φ(-x): of the larger one, which is hardly ever needed, only as much as the smaller one tells."""
    small = ndtr(-np.abs(x))
    left = x < 0
    return np.where(left, small, 1 - small), np.where(left, 1 - small, small)


@cache
def _gauss() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(5)
    return (1 + nodes) / 2, weights / 2


def _cells(mu: Floats, edges: Floats, sign: int) -> tuple[Floats, Floats]:
    """The masses of N(∓μ/2, 1) on the scale of edges / μ, and bounds on their errors; one row for each μ of a column.

    Of narrow cells by Gauss's rule, whose error is relative to the cell, of others as differences of tails.
    """
    x = np.full((len(mu), edges.shape[1] + 2), np.inf)
    x[:, 0], x[:, 1:-1] = -np.inf, edges / mu + sign * mu / 2
    with np.errstate(invalid="ignore"):  # between edges at infinity
        width = np.diff(edges) / mu
    inner, inner_errors, narrow = _by_rule(x[:, 1:-2], width, mu)
    columns = np.concatenate(([0], 1 + np.flatnonzero(~narrow.all(axis=0)), [edges.shape[1]]))
    is_needed = np.zeros(x.shape[1], dtype=bool)
    is_needed[columns] = is_needed[columns + 1] = True
    needed = np.flatnonzero(is_needed)
    found, found_errors = _between(x[:, needed], np.searchsorted(needed, columns), mu)
    masses, errors = np.empty((2, len(mu), edges.shape[1] + 1))
    masses[:, 1:-1], errors[:, 1:-1] = inner, inner_errors
    keep = np.zeros(found.shape, dtype=bool)
    keep[:, 1:-1] = narrow[:, columns[1:-1] - 1]
    masses[:, columns] = np.where(keep, masses[:, columns], found)
    errors[:, columns] = np.where(keep, errors[:, columns], found_errors)
    return masses, errors


def _by_rule(start: Floats, width: Floats, mu: Floats) -> tuple[Floats, Floats, Bools]:
    """Masses of cells by Gauss's rule, bounds on their errors, and where the cells are narrow enough for these.

    On a cell of width w around v the rule of five points errs by at most w¹¹ (5!)⁴ / (11 (10!)³) · max |φ⁽¹⁰⁾|, and
    |φ⁽¹⁰⁾| ≤ (|v| + 4)¹⁰ φ there: 6e-16 of the mass for w(|v| + 4) ≤ ½, plus the rounding of widths and densities.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # in other cells
        largest = np.maximum(np.abs(start), np.abs(start + width))
        narrow = (width > 0) & (width * (largest + 4) <= 0.5) & (largest < 37)
        density = np.zeros(start.shape)
        for node, weight in zip(*_gauss(), strict=True):
            at = width * node
            at += start
            at *= at
            at *= -0.5
            np.exp(at, out=at)
            at *= weight
            density += at
        masses = width * density / math.sqrt(2 * math.pi)
        return masses, masses * UNIT * (32 + 4 * largest * (largest + mu)), narrow


def _between(x: Floats, at: Indices, mu: Floats) -> tuple[Floats, Floats]:
    """The masses between points and the next ones as differences of tails, and bounds on their errors."""
    below, above = _tails(x)
    end, start = below[:, at + 1], above[:, at]  # the tail that holds the cell, on either side
    masses = np.where(end <= start, end - below[:, at], start - above[:, at + 1])
    return np.maximum(masses, 0.0), difference_errors(np.minimum(end, start), mu)


@dataclass(frozen=True)
class GaussianPair(Pair):
    """N(μ, 1) against N(0, 1): the loss is N(μ²/2, μ²)."""

    mu: float

    def sharpness(self) -> float:
        return self.mu

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        return _masses(self.mu, edges)

    def cells(self, edges: Floats) -> Cells:
        return Cells(*(column[0] for column in self.cells_of_all([self], edges[None])))

    @classmethod
    def cells_of_all(cls, pairs: Sequence[Pair], edges: Floats) -> Cells:
        mu = np.array([[pair.sharpness()] for pair in pairs])
        (p, p_error), (q, q_error) = (_cells(mu, edges, sign) for sign in (-1, 1))
        return Cells(p, q, p_error, q_error)

    @classmethod
    def masses_of_all(cls, pairs: Sequence[Pair], edges: Floats) -> tuple[Floats, Floats]:
        return _masses(np.array([[pair.sharpness()] for pair in pairs]), edges)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        return exponents * (1 + exponents) * (self.mu * self.mu / 2)

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        if side:
            return np.full(powers.shape, np.inf)
        exponent = powers * (powers - 1) * (self.mu * self.mu / 2)
        with np.errstate(divide="ignore"):
            short = np.log(-np.expm1(-exponent))
        return np.asarray(exponent + short + ROUNDING * (1 + exponent - np.maximum(short, -1000.0)))

    def window(self, powers: Floats) -> tuple[float, float, Floats]:
        """Fourteen standard deviations around 0 and around the mean of L under X^β Q.

        Beyond, f_β(1 - q + qX) is at most X^β on the side where that is above 1, and |β|(1 + X) on the other.
        """
        centres = self.mu * self.mu * np.append(powers, [0.0, 1.0])
        low, high = (float(end) for end in (centres.min() - 14 * self.mu, centres.max() + 14 * self.mu))
        under = [(end / self.mu + self.mu / 2) for end in (low, high)]
        steep = np.where(powers > 1, log_ndtr(powers * self.mu - under[1]), log_ndtr(under[0] - powers * self.mu))
        steep = steep + powers * (powers - 1) * (self.mu * self.mu / 2)
        flat = np.log(np.abs(powers)) + np.log(ndtr(under[0]) + ndtr(-under[1]) + ndtr(self.mu - under[1]))
        return low, high, np.logaddexp(steep, flat) + ROUNDING * (1 + np.abs(steep))

    def reversed(self) -> Pair:
        return self

    def mixed(self, rate: float) -> Pair:
        return self if rate == 1.0 else SampledGaussian(self, rate)


@dataclass(frozen=True)
class SampledGaussian(MixturePair):
    """(1-q)N(0, 1) + qN(μ, 1) against N(0, 1)."""

    pair: GaussianPair

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        # ReversedPair asks at -1-λ, which is E_Q under the other direction: one formula serves both.
        return np.asarray(subsampled_log_mgf(exponents, 1 / self.pair.mu, self.rate, "remove"))

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        """For β < 0 that of 1 - β: adding is never worse than removing (Mironov, Talwar, Zhang 2019, Theorem 5)."""
        if side:
            return super().log_excess(powers, side)
        mirrored = np.where(powers < 0, 1 - powers, powers)
        return np.asarray(subsampled_log_excess(mirrored, np.array([1 / self.pair.mu]), self.rate)[0])

    def two_sided_rdp(self, orders: Floats) -> Floats:
        return self.rdp(orders)

    @classmethod
    def two_sided_rdps(cls, pairs: Sequence[Pair], orders: Floats) -> Floats:
        sigmas, rates = (
            1 / np.array([pair.sharpness() for pair in pairs]),
            np.array([pair.unmixed()[1] for pair in pairs]),
        )
        return np.logaddexp(0.0, subsampled_log_excess(orders, sigmas, rates)) / (orders - 1) * (1 + ROUNDING)

    def symmetric_form(self) -> Pair:
        return SymmetrisedGaussian(self)


@dataclass(frozen=True)
class SymmetrisedGaussian(SymmetrisedPair):
    """C_p of a Gaussian: fixed-size sampling under replace-one."""

    pair: SampledGaussian

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        """At real exponents only."""
        if np.any(exponents.imag != 0):
            return None
        value = symmetrised_log_mgf(exponents.real, self.pair.pair.mu, self.pair.rate)
        return value.astype(np.complex128)

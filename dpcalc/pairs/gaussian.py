"""The Gaussian pair, and what sampling makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dpcalc.arrays import Complexes, Floats
from dpcalc.pairs.base import Kin, MixturePair, Pair, SymmetrisedPair, cells_from_tails
from dpcalc.pairs.subsampled_gaussian import log_mgf as subsampled_log_mgf
from dpcalc.pairs.symmetrised_gaussian import log_mgf as symmetrised_log_mgf


def _masses(mu: float | Floats, edges: Floats) -> tuple[Floats, Floats]:
    """The masses of N(μ, 1) against N(0, 1); one row for each of a column of μ."""
    center = edges / mu
    under_p, under_q = center - mu / 2, center + mu / 2
    return cells_from_tails(ndtr(under_p), ndtr(-under_p)), cells_from_tails(ndtr(under_q), ndtr(-under_q))


@dataclass(frozen=True)
class GaussianPair(Pair):
    """N(μ, 1) against N(0, 1): the loss is N(μ²/2, μ²)."""

    mu: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        return _masses(self.mu, edges)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        return exponents * (1 + exponents) * (self.mu * self.mu / 2)

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

    def symmetrised(self) -> Pair:
        return SymmetrisedGaussian(self)

    def kin(self) -> Kin | None:
        return Kin((SampledGaussian, self.rate), self.pair.mu)

    def together(self, sizes: Sequence[float]) -> Pair:
        return MixturePair(_GaussianRows(tuple(sizes)), self.rate)


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


@dataclass(frozen=True)
class _GaussianRows(Pair):
    """A GaussianPair for each of some μ, one row of masses each."""

    mus: tuple[float, ...]

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        return _masses(np.array(self.mus)[:, None], edges)

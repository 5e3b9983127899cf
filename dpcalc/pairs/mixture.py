"""Pairs made by sampling: mixtures, their symmetrisation C_p, and groups of two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Complexes, Floats
from dpcalc.pairs.base import Pair
from dpcalc.pairs.points import LARGEST_LOSS, GaussianPair, PointPair, point_pair_of_profile
from dpcalc.pairs.subsampled_gaussian import log_mgf as subsampled_log_mgf
from dpcalc.pairs.symmetrised_gaussian import log_mgf as symmetrised_log_mgf


@dataclass(frozen=True)
class MixturePair:
    """((1-q)Q + qP, Q) for the pair (P, Q): the loss l becomes log(1 - q + q e^l)."""

    pair: Pair
    rate: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        a, b = self.pair.masses(self._base_loss(edges))
        return (1 - self.rate) * b + self.rate * a, b

    def _base_loss(self, losses: Floats) -> Floats:
        """log((e^l - 1 + q) / q), -∞ where the mixture never is."""
        scaled = np.maximum(np.expm1(np.minimum(losses, 30.0)) / self.rate, -1.0)
        with np.errstate(divide="ignore"):
            near = np.log1p(scaled)
        far = losses - np.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(losses, 30.0)))
        return np.where(losses > 30.0, far, near)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        if self.rate == 1.0:
            return self.pair.log_mgf(exponents)
        if isinstance(self.pair, GaussianPair):
            # ReversedPair asks at -1-λ, which is E_Q under the other direction: one formula serves both.
            return np.asarray(subsampled_log_mgf(exponents, 1 / self.pair.mu, self.rate, "remove"))
        if isinstance(self.pair, PointPair):
            return self.pair.mixed(self.rate).log_mgf(exponents)
        return None

    def has_atoms(self) -> bool:
        return self.pair.has_atoms()

    def spacing(self) -> float | None:
        return self.pair.spacing() if self.rate == 1.0 else None


@dataclass(frozen=True)
class SymmetrisedPair:
    """The pair with H(t) of `pair` for t ≥ 1 and 1 - t + t H(1/t) below: C_p of Bok et al. (Proposition D.4).

    Both directions in one: losses above 0 as `pair` has them, below 0 mirrored, and an atom at 0.
    """

    pair: Pair

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        above = np.append(np.maximum(edges, 0.0), np.inf)
        below = np.append(np.maximum(-edges[::-1], 0.0), np.inf)
        # `above` starts with an edge at 0 where some edge is not positive; the first cell is what lies below it.
        a_up, b_up = self._upper(above)
        b_down, a_down = self._upper(below)
        a = a_up + a_down[::-1]
        b = b_up + b_down[::-1]
        total_p, total_q = self._positive()
        atom = max(0.0, 1 - total_p - total_q)
        cell = int(np.searchsorted(edges, 0.0, side="right"))
        a[cell] += atom
        b[cell] += atom
        return a, b

    def _upper(self, edges_and_infinity: Floats) -> tuple[Floats, Floats]:
        """Masses of the cells between the edges, of losses above 0 only; the first cell reaches down to 0."""
        edges = edges_and_infinity[:-1]
        a, b = self.pair.masses(np.concatenate(([0.0], edges)))
        return a[1:], b[1:]

    def _positive(self) -> tuple[float, float]:
        a, b = self.pair.masses(np.array([0.0]))
        return float(a[1]), float(b[1])

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        """Of sampled Gaussians, and at real exponents."""
        pair = self.pair
        if np.any(exponents.imag != 0) or not isinstance(pair, MixturePair) or not isinstance(pair.pair, GaussianPair):
            return None
        return symmetrised_log_mgf(exponents.real, pair.pair.mu, pair.rate).astype(np.complex128)

    def has_atoms(self) -> bool:
        return True

    def spacing(self) -> float | None:
        return None


def group_of_two(first: Pair, second: Pair) -> PointPair:
    """A pair for the ends of a chain of three data sets whose two links are dominated by `first` and `second`.

    δ(ε_a + ε_b) ≤ δ_a(ε_a) + e^{ε_a} δ_b(ε_b) for any split and, as the links may come in either order, with the roles
    exchanged; the best of these at every ε of a grid is a profile that holds, and so is its convex minorant.
    """
    losses = _profile_grid((first, second))
    best = np.minimum(_chain(first, second, losses), _chain(second, first, losses))
    return point_pair_of_profile(losses, best)


def _profile(pair: Pair, losses: Floats) -> Floats:
    """Upper bounds on δ at each of the increasing losses: P(L > ε) - e^ε Q(L > ε)."""
    a, b = pair.masses(losses)
    p_above = np.cumsum(a[::-1])[::-1][1:]
    q_above = np.cumsum(b[::-1])[::-1][1:]
    return np.asarray(
        np.clip(p_above - np.exp(losses) * q_above + 1e-13 * p_above, np.maximum(-np.expm1(losses), 0.0), 1.0)
    )


def _chain(first: Pair, second: Pair, losses: Floats) -> Floats:
    """The best split over the grid; δ is convex in e^ε, so that chords between its points are above it."""
    t = np.exp(losses)
    delta_first, delta_second = _profile(first, losses), _profile(second, losses)
    best = np.ones_like(losses)
    for loss, delta in zip(losses, delta_first, strict=True):
        rest = losses - loss
        inside = rest >= losses[0]
        value = delta + np.exp(loss) * np.interp(np.exp(rest[inside]), t, delta_second)
        best[inside] = np.minimum(best[inside], value)
    return best


def _profile_grid(pairs: tuple[Pair, Pair]) -> Floats:
    """Losses that resolve the bulk of the pairs and reach to where their δ is negligible."""
    edges = np.concatenate(([0.0], np.geomspace(1e-12, LARGEST_LOSS, 400)))
    reach, scale = 0.0, np.inf
    for pair in pairs:
        delta = _profile(pair, edges)
        reach = max(reach, float(edges[min(int(np.searchsorted(-delta, -1e-90)), len(edges) - 1)]))
        scale = min(scale, float(delta[0]))
    reach = min(max(2 * reach, 1e-10), LARGEST_LOSS)
    scale = max(min(scale, reach) / 10, 1e-13)
    half = np.sinh(np.linspace(0.0, float(np.arcsinh(reach / scale)), 700)) * scale
    return np.concatenate((-half[:0:-1], half))

"""Dominating pairs that several mechanisms share: Gaussian, finitely many points, and pairs made from pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dpcalc.arrays import Complexes, Floats
from dpcalc.pairs.base import Pair

# Losses above this are not told apart from infinity: e^loss must stay within the range of doubles.
LARGEST_LOSS = 300.0


def cells_from_tails(below: Floats, above: Floats) -> Floats:
    """Masses of the cells between edges, from the mass below and above each edge, whichever is smaller there."""
    left = below[..., 1:] - below[..., :-1]
    right = above[..., :-1] - above[..., 1:]
    inner = np.where(below[..., 1:] <= above[..., :-1], left, right)
    return np.asarray(np.maximum(np.concatenate((below[..., :1], inner, above[..., -1:]), axis=-1), 0.0))


def gaussian_masses(mu: float | Floats, edges: Floats) -> tuple[Floats, Floats]:
    """The masses of N(μ, 1) against N(0, 1); one row for each of a column of μ."""
    center = edges / mu
    under_p, under_q = center - mu / 2, center + mu / 2
    return cells_from_tails(ndtr(under_p), ndtr(-under_p)), cells_from_tails(ndtr(under_q), ndtr(-under_q))


@dataclass(frozen=True)
class GaussianPair:
    """N(μ, 1) against N(0, 1): the loss is N(μ²/2, μ²)."""

    mu: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        return gaussian_masses(self.mu, edges)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        return exponents * (1 + exponents) * (self.mu * self.mu / 2)

    def has_atoms(self) -> bool:
        return False

    def spacing(self) -> float | None:
        return None


@dataclass(frozen=True, eq=False)
class PointPair:
    """A pair on finitely many points: increasing losses with their P- and Q-masses, and the masses at ±∞."""

    losses: Floats
    p: Floats
    q: Floats
    p_infinite: float = 0.0
    q_infinite: float = 0.0

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        cell = np.searchsorted(edges, self.losses, side="right")
        a = np.bincount(cell, weights=self.p, minlength=len(edges) + 1).astype(np.float64)
        b = np.bincount(cell, weights=self.q, minlength=len(edges) + 1).astype(np.float64)
        a[-1] += self.p_infinite
        b[0] += self.q_infinite
        return a, b

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        if self.p_infinite > 0:
            return None
        inside = self.p > 0
        terms = np.multiply.outer(exponents, self.losses[inside]) + np.log(self.p[inside])
        top = terms.real.max(axis=-1)
        summed: Complexes = np.log(np.exp(terms - top[..., None]).sum(axis=-1)) + top
        return summed

    def mixed(self, rate: float) -> PointPair:
        """((1-q)Q + qP, Q)."""
        # Where only Q has mass, the mixture has (1-q) of it.
        losses = np.append(np.log1p(-rate) if rate < 1 else -np.inf, np.log1p(rate * np.expm1(self.losses)))
        q = np.append(self.q_infinite, self.q)
        p = (1 - rate) * q + rate * np.append(0.0, self.p)
        inside = p > 0
        return PointPair(losses[inside], p[inside], q[inside], rate * self.p_infinite, float(q[~inside].sum()))

    def reversed(self) -> PointPair:
        """(Q, P)."""
        return PointPair(-self.losses[::-1], self.q[::-1], self.p[::-1], self.q_infinite, self.p_infinite)

    def rdp(self, orders: Floats) -> Floats | None:
        """Upper bounds on the Rényi divergence at each order: log(1 + Σp(e^{λl} - 1))/λ, its rounding added."""
        if self.p_infinite > 0:
            return None
        exponents = np.multiply.outer(orders - 1, self.losses)
        changes = self.p * np.expm1(np.minimum(exponents, 1.0))
        near = np.log1p(np.maximum(changes.sum(axis=-1) + 1e-15 * np.abs(changes).sum(axis=-1), 0.0))
        transform = self.log_mgf((orders - 1).astype(np.complex128))
        assert transform is not None
        far = transform.real + 1e-14 * (1 + np.abs(exponents).max(axis=-1))
        return np.asarray(np.where(exponents.max(axis=-1) <= 1.0, near, far) / (orders - 1) * (1 + 1e-12))

    def has_atoms(self) -> bool:
        return True

    def spacing(self) -> float | None:
        positive = self.losses[self.losses > 0]
        if not positive.size:
            return None
        multiples = self.losses / positive[0]
        whole = np.abs(multiples - np.round(multiples)) < 1e-9
        return float(positive[0]) if bool(np.all(whole)) else None


@dataclass(frozen=True)
class ReversedPair:
    """(Q, P) for the pair (P, Q)."""

    pair: Pair

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        a, b = self.pair.masses(-edges[::-1])
        return b[..., ::-1], a[..., ::-1]

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        return self.pair.log_mgf(-1 - exponents)

    def has_atoms(self) -> bool:
        return self.pair.has_atoms()

    def spacing(self) -> float | None:
        return self.pair.spacing()


def point_pair_of_profile(losses: Floats, profile: Floats) -> PointPair:
    """A pair that dominates every mechanism with δ(ε_j) ≤ profile_j, at increasing ε_j.

    H(e^ε) = δ(ε) is convex in t = e^ε and at most the profile at the ε_j, so it is at most the convex minorant of
    the profile's values there, joined to H(0) = 1; what is left beyond the last ε_j is mass at infinity.
    """
    # Beyond this e^ε leaves the range of doubles; whatever is left there counts as infinite.
    inside = np.abs(losses) < LARGEST_LOSS
    losses, profile = losses[inside], profile[inside]
    t = np.concatenate(([0.0], np.exp(losses)))
    value = np.concatenate(([1.0], np.minimum(profile, 1.0)))
    value = np.maximum(value, np.maximum(1 - t, 0.0))
    hull: list[int] = []
    for i in range(len(t)):
        while len(hull) > 1:
            j, k = hull[-1], hull[-2]
            if (value[j] - value[k]) * (t[i] - t[j]) < (value[i] - value[j]) * (t[j] - t[k]):
                break
            hull.pop()
        hull.append(i)
    knots, heights = t[hull], value[hull]
    slopes = np.append(np.diff(heights) / np.diff(knots), 0.0)
    q = np.maximum(np.diff(slopes), 0.0)
    p = q * knots[1:]
    # A rounded second difference may be a little too small.
    return PointPair(np.log(knots[1:]), p * (1 + 1e-12), q, float(heights[-1]), max(0.0, 1 - float(q.sum())))

"""Pairs on finitely many points."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcalc.arrays import Bools, Complexes, Floats
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells
from dpcalc.pairs.moments import ends_of, log_excess_of_points, mixed_losses
from dpcalc.rounding import OUTWARD, SMALLEST_NORMAL, UNIT, down

# Losses above this are not told apart from infinity: e^loss must stay within the range of doubles.
LARGEST_LOSS = 300.0
_ROUNDED = 16  # how often the masses of points were rounded, at most


@dataclass(frozen=True, eq=False)
class PointPair(Pair):
    """A pair on finitely many points: increasing losses with their P- and Q-masses, and the masses at ±∞."""

    losses: Floats
    p: Floats
    q: Floats
    p_infinite: float = 0.0
    q_infinite: float = 0.0

    @cached_property
    def _digest(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.losses, self.p, self.q, np.array(self._scalars())):
            digest.update(np.ascontiguousarray(array + 0.0).tobytes())  # -0 is 0
        return digest.digest()

    def _scalars(self) -> tuple[float, ...]:
        return self.p_infinite, self.q_infinite

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, PointPair) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        cell = np.searchsorted(edges, self.losses, side="right")
        a = np.bincount(cell, weights=self.p, minlength=len(edges) + 1).astype(np.float64)
        b = np.bincount(cell, weights=self.q, minlength=len(edges) + 1).astype(np.float64)
        a[-1] += self.p_infinite
        b[0] += self.q_infinite
        return a, b

    def lone_atoms(self, edges: Floats) -> Bools:
        cell = np.searchsorted(edges, self.losses, side="right")
        return np.asarray(np.bincount(cell, minlength=len(edges) + 1)[1:-1] <= 1)

    def cells(self, edges: Floats) -> Cells:
        """The points' masses are doubles that were rounded a few times, and so are their sums."""
        p, q = self.masses(edges)
        per_cell = np.bincount(np.searchsorted(edges, self.losses, side="right"), minlength=len(edges) + 1)
        return Cells(p, q, p * (_ROUNDED + per_cell) * UNIT, q * (_ROUNDED + per_cell) * UNIT)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        if self.p_infinite > 0:
            return None
        inside = self.p > 0
        terms = np.multiply.outer(exponents, self.losses[inside]) + np.log(self.p[inside])
        top = terms.real.max(axis=-1)
        summed: Complexes = np.log(np.exp(terms - top[..., None]).sum(axis=-1)) + top
        return summed

    def has_atoms(self) -> bool:
        return True

    def spacing(self) -> float | None:
        positive = self.losses[self.losses > 0]
        if not positive.size:
            return None
        multiples = self.losses / positive[0]
        whole = np.abs(multiples - np.round(multiples)) < 1e-9
        return float(positive[0]) if bool(np.all(whole)) else None

    def support(self) -> tuple[float, float]:
        return (float(self.losses[0]), float(self.losses[-1])) if self.losses.size else (0.0, 0.0)

    def at_infinity(self) -> tuple[float, float]:
        return self.p_infinite, self.q_infinite

    def surely_infinite(self) -> tuple[float, float]:
        return down(self.p_infinite, _ROUNDED), down(self.q_infinite, _ROUNDED)

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        chosen = np.ones(self.losses.shape, dtype=bool) if side == 0 else side * self.losses > 0
        faint = chosen & (self.q < SMALLEST_NORMAL) & (self.p > 0)  # losses too large for their Q-mass
        known = chosen & ~faint
        excess = log_excess_of_points(self.q[known], self.losses[known], ends_of(self), powers, side=side)
        return np.logaddexp(excess, self._faint_excess(powers, faint)) if faint.any() else excess

    def _faint_excess(self, powers: Floats, faint: Bools) -> Floats:
        """An upper bound for points X > 1 known by their P-mass: f_β(X) ≤ X^β for β > 1, and ≤ |β|X for β < 0."""
        beta = powers[:, None]
        with np.errstate(divide="ignore"):
            logs = np.where(beta > 1, (beta - 1) * self.losses[faint], np.log(np.abs(beta)))
        logs = logs + np.log(np.maximum(self.p[faint], SMALLEST_NORMAL))
        top = logs.max(axis=-1)
        summed = top + np.log(np.exp(logs - top[:, None]).sum(axis=-1))
        raised = summed + UNIT * (16 + faint.sum() + 8 * np.abs(logs).max(axis=-1))
        return np.where((powers > 1) | (powers < 0), raised, np.inf)

    def mixed(self, rate: float) -> Pair:
        """Where only Q has mass, the mixture has (1-q) of it: a point at log(1-q)."""
        if rate == 1.0:
            return self
        losses = np.append(np.log1p(-rate), mixed_losses(self.losses, rate)) * OUTWARD
        q = np.append(self.q_infinite, self.q)
        p = (1 - rate) * q + rate * np.append(0.0, self.p)
        inside = (p > 0) | (q > 0)
        return PointPair(losses[inside], p[inside], q[inside], rate * self.p_infinite)

    def reversed(self) -> Pair:
        return PointPair(-self.losses[::-1], self.q[::-1], self.p[::-1], self.q_infinite, self.p_infinite)


@dataclass(frozen=True, eq=False)
class BoundPair(PointPair):
    """Points that bound a pair from one side; masses are known up to a relative `doubt` and may be over by `over`.

    What is at infinity is `certain` or, in a bound from above, may have been cut off there.
    """

    doubt: float = 0.0
    over: float = 0.0
    certain: bool = False

    def _scalars(self) -> tuple[float, ...]:
        return *super()._scalars(), self.doubt, self.over, float(self.certain)

    def cells(self, edges: Floats) -> Cells:
        p, q, p_error, q_error = super().cells(edges)
        return Cells(p, q, p_error + p * self.doubt, q_error + q * self.doubt)

    def excess(self) -> float:
        return self.over

    def mixed(self, rate: float) -> Pair:
        plain = super().mixed(rate)
        if plain is self or not isinstance(plain, PointPair):
            return plain
        masses = (plain.losses, plain.p, plain.q, plain.p_infinite, plain.q_infinite)
        return BoundPair(*masses, self.doubt, self.over, self.certain)

    def reversed(self) -> Pair:
        turned = (-self.losses[::-1], self.q[::-1], self.p[::-1], self.q_infinite, self.p_infinite)
        return BoundPair(*turned, self.doubt, self.over, self.certain)

    def surely_infinite(self) -> tuple[float, float]:
        return super().surely_infinite() if self.certain else (0.0, 0.0)

    def spacing(self) -> float | None:
        return None


def two_links_pair(epsilon: float) -> PointPair:
    """The dominating pair of the ends of a chain of two ε-DP links: geometric noise against itself moved by two.

    With g the least Q-mass that ε-DP allows an event of P-mass α, g(g(α)) is what two links allow; every half-line of
    such noise attains g at each of its steps (losses ±ε alone), and so both.
    """
    ratio = float(np.exp(-epsilon))
    tail = 1 / (1 + ratio)
    p = np.array([ratio * ratio * tail, -float(np.expm1(-epsilon)) * tail * ratio, tail])
    return PointPair(np.array([-2 * epsilon, 0.0, 2 * epsilon]), p, p[::-1].copy())


def pure_dp_pair(epsilon: float, delta: float = 0.0) -> PointPair:
    """The dominating pair of an (ε, δ)-DP mechanism (Kairouz, Oh, Viswanath 2015): two points, and δ at ±∞."""
    likely = float((1 - delta) / (1 + np.exp(-epsilon)))
    unlikely = float((1 - delta) * np.exp(-epsilon) / (1 + np.exp(-epsilon)))
    ends = np.array([-epsilon, epsilon])
    return PointPair(ends, np.array([unlikely, likely]), np.array([likely, unlikely]), delta, delta)

"""The Laplace pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Complexes, Floats
from dpcalc.elementary import exp_remainder
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells, cells_from_tails, tail_errors
from dpcalc.pairs.moments import ROUNDING
from dpcalc.rounding import UNIT


@dataclass(frozen=True)
class LaplacePair(Pair):
    """Lap(0, 1) against Lap(ε, 1): losses in [-ε, ε] with an atom at each end."""

    epsilon: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        low, high = edges <= -self.epsilon, edges > self.epsilon
        inner = np.clip(edges, -self.epsilon, self.epsilon)
        falling = np.exp(-(self.epsilon - inner) / 2) / 2
        rising = np.exp(-(self.epsilon + inner) / 2) / 2
        p_below = np.where(low, 0.0, np.where(high, 1.0, falling))
        p_above = np.where(low, 1.0, np.where(high, 0.0, 1 - falling))
        q_below = np.where(low, 0.0, np.where(high, 1.0, 1 - rising))
        q_above = np.where(low, 1.0, np.where(high, 0.0, rising))
        return cells_from_tails(p_below, p_above), cells_from_tails(q_below, q_above)

    def cells(self, edges: Floats) -> Cells:
        """Between -ε and ε the densities are ¼e^{(l-ε)/2} and ¼e^{-(l+ε)/2}, whose cells err relative to themselves."""
        p, q = self.masses(edges)
        p_error, q_error = tail_errors(p), tail_errors(q)
        inside = np.flatnonzero((edges[:-1] > -self.epsilon) & (edges[1:] < self.epsilon))
        if inside.size:
            low, high = edges[inside], edges[inside + 1]
            part = -np.expm1((low - high) / 2) / 2
            p[inside + 1] = part * np.exp((high - self.epsilon) / 2)
            q[inside + 1] = part * np.exp(-(low + self.epsilon) / 2)
            rounding = (16 + 4 * self.epsilon) * UNIT
            p_error[inside + 1], q_error[inside + 1] = p[inside + 1] * rounding, q[inside + 1] * rounding
        return Cells(p, q, p_error, q_error)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        """½e^{λε} + ½e^{-(1+λ)ε} + ½e^{-ε/2} sinh((λ+½)ε) / (2λ+1), with the largest factor e^{λε} taken out."""
        e = self.epsilon
        twice = 2 * exponents + 1
        middle = -np.expm1(-twice * e) / (2 * twice)
        inside: Complexes = (1 + np.exp(-twice * e)) / 2 + middle
        return exponents * e + np.log(inside)

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        """(β(e^{(β-1)ε} - 1 - (β-1)ε) + (β-1)(e^{-βε} - 1 + βε)) / (2β-1) (Mironov 2017, Proposition 6)."""
        if side:
            return super().log_excess(powers, side)
        beta = np.where(powers < 0, 1 - powers, powers)  # the pair is symmetric
        x, y = (beta - 1) * self.epsilon, beta * self.epsilon
        terms = beta * exp_remainder(np.minimum(x, 600.0)) + (beta - 1) * exp_remainder(-y)
        large = x + np.log(beta / (2 * beta - 1)) + np.log1p((beta - 1) / beta * np.exp(-x - y))
        return np.asarray(np.where(x < 600, np.log(terms / (2 * beta - 1)), large) + ROUNDING * (1 + np.abs(x)))

    def has_atoms(self) -> bool:
        return True

    def spacing(self) -> float | None:
        return self.epsilon

    def support(self) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def reversed(self) -> Pair:
        return self

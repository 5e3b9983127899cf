"""The pair of a mechanism whose loss has a bounded range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Complexes, Floats
from dpcalc.pairs.base import Pair
from dpcalc.pairs.cells import Cells, cells_from_tails, tail_errors
from dpcalc.rounding import UNIT


@dataclass(frozen=True)
class BoundedRangePair(Pair):
    """A pair that dominates every ε-bounded-range mechanism: the upper envelope of its two-point worst cases.

    A mechanism whose loss stays in [t - ε, t] is dominated by the two points t - ε and t (Dong, Durfee, Rogers 2020,
    Lemma 3.2); H_t(s) = (1 - e^{t-ε} - s(e^{-t} - e^{-ε})) / (1 - e^{-ε}), largest over t at e^{2t} = s e^ε, so that
    H(s) = (1 - √(s e^{-ε}))² / (1 - e^{-ε}) for |log s| ≤ ε.
    """

    epsilon: float

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        inner = np.clip(edges, -self.epsilon, self.epsilon)
        unit = -np.expm1(-self.epsilon)
        p_above = -np.expm1((inner - self.epsilon) / 2) / unit
        q_above = -np.exp(-(inner + self.epsilon) / 2) * np.expm1((inner - self.epsilon) / 2) / unit
        p_below = -np.exp((inner - self.epsilon) / 2) * np.expm1(-(inner + self.epsilon) / 2) / unit
        q_below = -np.expm1(-(inner + self.epsilon) / 2) / unit
        return cells_from_tails(p_below, p_above), cells_from_tails(q_below, q_above)

    def cells(self, edges: Floats) -> Cells:
        """Between -ε and ε the densities are ½e^{(l-ε)/2} and ½e^{-(l+ε)/2} over 1 - e^{-ε}: cells of that accuracy."""
        p, q = self.masses(edges)
        inner = np.clip(edges, -self.epsilon, self.epsilon)
        low, high = inner[:-1], inner[1:]
        part = np.expm1((low - high) / 2) / np.expm1(-self.epsilon)
        p[1:-1], q[1:-1] = part * np.exp((high - self.epsilon) / 2), part * np.exp(-(low + self.epsilon) / 2)
        p_error, q_error = tail_errors(p), tail_errors(q)
        rounding = (16 + 4 * self.epsilon) * UNIT
        p_error[1:-1], q_error[1:-1] = p[1:-1] * rounding, q[1:-1] * rounding
        return Cells(p, q, p_error, q_error)

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        """P has density ½e^{(l-ε)/2} / (1 - e^{-ε}) on [-ε, ε]."""
        rate = exponents + 0.5
        inside: Complexes = -np.expm1(-2 * rate * self.epsilon) / (2 * rate) / -np.expm1(-self.epsilon)
        return exponents * self.epsilon + np.log(inside)

    def spacing(self) -> float | None:
        """Where its density ends is no atom, but a grid that ends there too is tighter."""
        return self.epsilon

    def support(self) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def reversed(self) -> Pair:
        return self

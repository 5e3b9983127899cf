"""Both directions of a pair in one: C_p of Bok et al. (Definition 4.7, Proposition D.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.base import Pair

_POSITIVE = 2.0**-1022  # an edge that leaves an atom at 0 below it


def symmetrised(pair: Pair) -> Pair:
    """H(t) of this pair for t ≥ 1 and 1 - t + t H(1/t) below."""
    return pair.symmetric_form() or SymmetrisedPair(pair)


@dataclass(frozen=True)
class SymmetrisedPair(Pair):
    """Both directions of `pair` in one: losses above 0 as it has them, below 0 mirrored, and an atom at 0."""

    pair: Pair

    def sharpness(self) -> float:
        return self.pair.sharpness()

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        above = np.append(np.maximum(edges, _POSITIVE), np.inf)
        below = np.append(np.maximum(-edges[::-1], _POSITIVE), np.inf)
        # `above` starts with an edge at 0 where some edge is not positive; the first cell is what lies below it.
        a_up, b_up = self._upper(above)
        b_down, a_down = self._upper(below)
        a = a_up + a_down[::-1]
        b = b_up + b_down[::-1]
        total_p, total_q = self._positive()
        missing = self.pair.missing()[0]
        a[-1] += missing
        b[0] += missing
        atom = max(0.0, 1 - total_p - missing - total_q)
        cell = int(np.searchsorted(edges, 0.0, side="right"))
        a[cell] += atom
        b[cell] += atom
        return a, b

    def _upper(self, edges_and_infinity: Floats) -> tuple[Floats, Floats]:
        """Masses of the cells between the edges, of losses above 0 only; the first cell reaches down to 0."""
        edges = edges_and_infinity[:-1]
        a, b = self.pair.masses(np.concatenate(([_POSITIVE], edges)))
        return a[1:], b[1:]

    def _positive(self) -> tuple[float, float]:
        a, b = self.pair.masses(np.array([_POSITIVE]))
        return float(a[1]), float(b[1])

    def log_excess(self, powers: Floats, side: int = 0) -> Floats:
        """Mirrored, f_β is f_{1-β}: what is above 1 with the one and the other."""
        above = [self.pair.log_excess(power, 1) for power in (powers, 1 - powers)]
        return above[(1 - side) // 2] if side else np.asarray(np.logaddexp(*above))

    def has_atoms(self) -> bool:
        return True

    def support(self) -> tuple[float, float]:
        high = max(0.0, self.pair.support()[1])
        return -high, high

    def at_infinity(self) -> tuple[float, float]:
        infinite = self.pair.failure()
        return infinite, infinite

    def surely_infinite(self) -> tuple[float, float]:
        infinite, _ = self.pair.surely_infinite()
        return infinite, infinite

    def reversed(self) -> Pair:
        return self

    def symmetric_form(self) -> Pair:
        return self

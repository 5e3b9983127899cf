"""What a dominating pair says about itself."""

from __future__ import annotations

from typing import Protocol

from dpcalc.arrays import Complexes, Floats


class Pair(Protocol):
    """A dominating pair (P, Q), known through its privacy loss L = log dP/dQ under P."""

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """P- and Q-mass of the cells that `edges` (non-decreasing losses e_0 ≤ … ≤ e_n) cut the line into.

        n + 2 values each: (-inf, e_0), [e_0, e_1), …, [e_n, inf]. The first Q-value includes Q(L = -inf); the
        last P-value includes P(L = inf). An atom on an edge may fall on either side, but with its P- and its
        Q-mass alike. Edges may be infinite. Each mass is accurate to a few units of rounding relative to the
        mass of the tail beyond it (differences of distribution functions are taken on the side of the tail).
        """
        ...

    def log_mgf(self, exponents: Complexes) -> Complexes | None:
        """log E_P[exp(λL)] at complex λ with Re λ > 0; None where no such transform is known or finite."""
        ...

    def has_atoms(self) -> bool:
        """Whether single losses have positive probability, so that the transform does not die down."""
        ...

    def spacing(self) -> float | None:
        """The loss of which all atoms are multiples, for grids to be laid on; None if there are no such atoms."""
        ...

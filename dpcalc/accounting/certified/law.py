"""The law of X = dP/dQ under Q on nested grids: a certified value that the stages hand on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcalc.accounting.certified.ledger import Ledger
from dpcalc.arrays import Floats
from dpcalc.rounding import LARGEST_EXPONENT, UNIT

RATIO = 4
"""How many steps of a grid make one of the next coarser."""

Direction = Literal["remove", "add"]
BOTH: frozenset[Direction] = frozenset(("remove", "add"))

UPPER, P_LOWER, Q_LOWER = 0, 1, 2
"""The rows of a component."""


_SAFE = 600.0  # e^±600 times a weight has all its digits


def times_exp(values: Floats, exponents: Floats) -> Floats:
    """Values ≥ 0 times e^exponent, to 8 + 4|exponent| units and 2⁻¹⁰²², also where e^exponent leaves the doubles."""
    near = np.abs(exponents) < _SAFE
    if near.all():
        return np.asarray(values * np.exp(exponents))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        far = np.exp(np.log(values) + exponents)
        return np.asarray(np.where(near, values * np.exp(np.where(near, exponents, 0.0)), far))


@dataclass(frozen=True)
class Component:
    """Weights on the points start, start + 1, … of one grid: an array (…, row, point)."""

    start: int
    rows: Floats

    @property
    def size(self) -> int:
        return int(self.rows.shape[-1])

    def plus(self, other: Component | None) -> Component:
        """Two components on one grid, added."""
        if other is None:
            return self
        start = min(self.start, other.start)
        end = max(self.start + self.size, other.start + other.size)
        rows = np.zeros((*self.rows.shape[:-1], end - start))
        rows[..., self.start - start : self.start - start + self.size] = self.rows
        rows[..., other.start - start : other.start - start + other.size] += other.rows
        return Component(start, rows)

    def take(self, laws: slice | list[int]) -> Component:
        """The same of some of the laws of a batch."""
        return Component(self.start, self.rows[laws])


@dataclass(frozen=True)
class Law:
    """A law above and a law below the true one, on the grids ℓ = step·4^k·i of ℓ = log X (component k).

    Row UPPER holds weights w of a law that exceeds the true one in convex order (L1, L2), rows P_LOWER and Q_LOWER the
    P- and Q-mass of a post-processing of the outputs (L3). They are stored as wX^τ, pX^{τ-1} and qX^τ over 2^scale, τ
    the `tilt`: at ½ neither tail underflows early, and at the order that decides for some δ what matters there is
    large, however small δ is. The lower rows bound the directions `lower`: both, until a transform's errors favour
    one of them. A batch (rows of three dimensions) stands for the product of its laws, as do `ledger` and `count`.
    """

    step: float
    components: Mapping[int, Component]
    ledger: Ledger
    count: int = 1
    lower: frozenset[Direction] = BOTH
    tilt: float = 0.5
    scale: int = 0

    def step_of(self, k: int) -> float:
        return self.step * float(RATIO) ** k

    def losses(self, k: int) -> Floats:
        """The points of a component."""
        component = self.components[k]
        return np.arange(component.start, component.start + component.size, dtype=np.float64) * self.step_of(k)

    @property
    def batch(self) -> int:
        """How many laws these are; 1 for a single one."""
        for part in self.components.values():
            return 1 if part.rows.ndim == 2 else int(part.rows.shape[0])
        return 1

    @property
    def points(self) -> int:
        return sum(component.size for component in self.components.values())

    def reach(self) -> float:
        """The largest |ℓ| of the grids."""
        return max(
            (
                max(abs(part.start), abs(part.start + part.size)) * self.step_of(k)
                for k, part in self.components.items()
            ),
            default=0.0,
        )

    def lost(self) -> float:
        """What numbers below the normal range may have taken from any entry, also from one that gathered others (L10).

        The ledger charges 2⁻¹⁰²² for what is at most 2⁻¹⁰⁷⁵, and weights only ever move to coarser grids: 2·RATIO of
        them to one point of the next, times at most X^{1 + |τ|} of its step. Beyond 2⁵³ of that, more is charged.
        """
        coarsest = max(self.components, default=0)
        steepest = (1 + abs(self.tilt)) * 2 * RATIO * self.step_of(coarsest)
        return self.ledger.lost * max(1.0, UNIT * (2.0 * RATIO) ** coarsest * math.exp(min(steepest, LARGEST_EXPONENT)))

    def log_factors(self, direction: Direction, losses: Floats) -> Floats:
        """What turns the logarithm of a weight into that of its P-mass (remove) or Q-mass (add)."""
        power = 1 - self.tilt if direction == "remove" else -self.tilt
        return power * losses + self.scale * math.log(2)

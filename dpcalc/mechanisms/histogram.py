"""Discrete Gaussian noise on every cell of a histogram, of which one record moves a few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from dpcalc.arrays import Floats
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.declared import DeclaredZCDP
from dpcalc.mechanisms.discrete import DiscreteGaussian
from dpcalc.mechanisms.validation import expect_whole
from dpcalc.pairs.base import Pair
from dpcalc.rounding import UNIT, times_up


@dataclass(frozen=True, kw_only=True)
class Histogram(Mechanism):
    """Counts with independent discrete Gaussian noise; one record moves at most `cells` of them, each by at most Δ.

    The noise of the cells is independent, so neighbours are told apart by the product of the cells' pairs: that of
    `cells` runs of one integer query. A cell that moves by less is dominated by one that moves by Δ (one integer query
    has a monotone likelihood ratio), and products of dominating pairs dominate (Zhu, Dong, Wang 2022, Theorem 10);
    data that move all of them by Δ attain it. Its zCDP parameter is Δ²·cells/2σ² (Canonne, Kamath, Steinke 2020,
    Theorem 14).
    """

    type: ClassVar[str] = "histogram"

    sigma: float
    cells: int = 1
    sensitivity: int = 1
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_whole("cells", self.cells)
        self.cell  # noqa: B018 - its own checks

    @cached_property
    def cell(self) -> DiscreteGaussian:
        """One cell that moves by Δ."""
        return DiscreteGaussian(sigma=self.sigma, sensitivity=self.sensitivity, adjacency=self.adjacency)

    def factors(self) -> tuple[tuple[Mechanism, int], ...]:
        return ((self.cell, self.cells),)

    def zcdp(self) -> float:
        rho = self.cell.zcdp()
        assert rho is not None
        return times_up(rho, self.cells)

    def rdp(self, orders: Floats) -> Floats:
        return self.cells * self.cell.rdp(orders) * (1 + 2 * UNIT)

    def basic_dp(self) -> tuple[float, float]:
        epsilon, delta = self.cell.basic_dp()
        return times_up(epsilon, self.cells), min(1.0, times_up(delta, self.cells))

    def pairs(self) -> tuple[Pair, Pair]:
        """What dominates all cells at once, for a sampler: exact for one, by zCDP for several."""
        if self.cells == 1:
            return self.cell.pairs()
        return self._together.pairs()

    @cached_property
    def _together(self) -> DeclaredZCDP:
        return DeclaredZCDP(rho=self.zcdp(), adjacency=self.adjacency)

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """Those of data that move one cell."""
        return self.cell.attained_pairs()

    def as_replace_one(self) -> Mechanism:
        """A record leaves its cells and another enters as many: each cell moves by Δ at most, since counts add up."""
        return Histogram(sigma=self.sigma, cells=2 * self.cells, sensitivity=self.sensitivity, adjacency="replace-one")

    def theorem(self) -> str:
        return (
            "histogram with discrete Gaussian noise (Canonne, Kamath, Steinke 2020), product of its cells' exact pairs"
        )

    def assumptions(self) -> tuple[str, ...]:
        cells = "one cell" if self.cells == 1 else f"{self.cells:,} cells"
        return (
            f"every cell has its own discrete noise; one record moves at most {cells} by at most {self.sensitivity}",
        )

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "sigma": self.sigma, "cells": self.cells, "sensitivity": self.sensitivity}

"""Discrete Gaussian and discrete Laplace noise on one integer-valued query."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.elementary import exp_minus_ratio
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.base import Mechanism
from dpcalc.mechanisms.validation import expect_adjacency, expect_positive, expect_whole
from dpcalc.pairs.base import Pair
from dpcalc.pairs.discrete_gaussian import DiscreteGaussianPair, discrete_gaussian_pairs, turned_discrete_gaussian
from dpcalc.pairs.points import PointPair
from dpcalc.pairs.turned import turned_points
from dpcalc.rounding import UNIT, over_up, up

_MOST = 400_000


def _expect_few_points(**sizes: float) -> None:
    """Refuse noise that would take more points than fit into memory; a continuous mechanism serves as well there."""
    for name, value in sizes.items():
        if value > _MOST:
            raise InputError(
                f"Expected {name}={value:g} in (0, {_MOST:g}]: larger noise on the integers is not tabulated."
            )


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(Mechanism):
    """Discrete Gaussian noise of parameter σ on one integer query of whole sensitivity (Canonne et al. 2020).

    (Δ²/2σ²)-zCDP (their Theorem 4); the exact pair is the noise against itself moved by Δ, for one query: with several
    coordinates no single direction is known to dominate.
    """

    type: ClassVar[str] = "discrete-gaussian"

    sigma: float
    sensitivity: int = 1
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("sigma", self.sigma)
        expect_whole("sensitivity", self.sensitivity)
        _expect_few_points(sigma=self.sigma, sensitivity=self.sensitivity)
        expect_adjacency(self.adjacency)

    @cached_property
    def _pairs(self) -> tuple[DiscreteGaussianPair, PointPair]:
        return discrete_gaussian_pairs(self.sigma, self.sensitivity)

    def zcdp(self) -> float | None:
        return up(self.sensitivity**2 / (2 * self.sigma**2), 2)

    def rdp(self, orders: Floats) -> Floats:
        return orders * self.sensitivity**2 / (2 * self.sigma**2) * (1 + 6 * UNIT)

    def pairs(self) -> tuple[Pair, Pair]:
        above, _ = self._pairs
        return above, above

    def attained_pairs(self) -> tuple[Pair, Pair] | None:
        """The same without what is too far out to be tabulated."""
        _, below = self._pairs
        return below, below

    def turned(self, rate: float) -> tuple[Pair, Pair] | None:
        return turned_discrete_gaussian(self.sigma, self.sensitivity, rate)

    def as_replace_one(self) -> Mechanism:
        """Replacing a record moves the query by at most a removal and an addition: twice the sensitivity."""
        return DiscreteGaussian(sigma=self.sigma, sensitivity=2 * self.sensitivity, adjacency="replace-one")

    def theorem(self) -> str:
        return "discrete Gaussian (Canonne, Kamath, Steinke 2020), exact pair of one integer query"

    def assumptions(self) -> tuple[str, ...]:
        return ("discrete noise is added to one integer-valued query",)

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "sigma": self.sigma, "sensitivity": self.sensitivity}


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(Mechanism):
    """Discrete Laplace (two-sided geometric) noise of scale b on one integer query of whole sensitivity: (Δ/b)-DP."""

    type: ClassVar[str] = "discrete-laplace"

    scale: float
    sensitivity: int = 1
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        expect_positive("scale", self.scale)
        expect_whole("sensitivity", self.sensitivity)
        _expect_few_points(sensitivity=self.sensitivity)
        expect_adjacency(self.adjacency)

    @property
    def epsilon(self) -> float:
        """The pure-DP parameter Δ/b, rounded up."""
        return over_up(self.sensitivity, self.scale)

    @cached_property
    def _pair(self) -> PointPair:
        """Losses (Δ - 2x)/b at 0 < x < Δ, and the two geometric tails as atoms at ±Δ/b."""
        x = np.arange(1, self.sensitivity, dtype=np.float64)
        tail, far = self._beyond(0), self._beyond(self.sensitivity)
        losses = np.concatenate(([-self.epsilon], ((self.sensitivity - 2 * x) / self.scale)[::-1], [self.epsilon]))
        inner = self._noise(x)
        p = np.concatenate(([far], inner[::-1], [tail]))
        return PointPair(losses, p, p[::-1].copy())

    def pairs(self) -> tuple[Pair, Pair]:
        return self._pair, self._pair

    def turned(self, rate: float) -> tuple[Pair, Pair] | None:
        """Beyond ±Δ the ratio is constant: the tails are one point each."""
        shift = self.sensitivity
        x = np.arange(-shift, shift + 1, dtype=np.float64)
        centres = (shift, 0, -shift)
        noise = np.stack([self._noise(x - centre) for centre in centres])
        noise[:, 0], noise[:, -1] = zip(
            *((self._beyond(shift + c), self._beyond(shift - c)) for c in centres), strict=True
        )
        pair = turned_points(noise, 2 * x / self.scale, rate)
        return pair, pair

    def _noise(self, x: Floats) -> Floats:
        """P(noise = x)."""
        ratio = math.exp(-1 / self.scale)
        return np.asarray(-math.expm1(-1 / self.scale) / (1 + ratio) * exp_minus_ratio(np.abs(x), self.scale))

    def _beyond(self, x: int) -> float:
        """P(noise ≥ x) for x ≥ 0."""
        return float(exp_minus_ratio(np.array(float(x)), self.scale)) / (1 + math.exp(-1 / self.scale))

    def as_replace_one(self) -> Mechanism:
        """Replacing a record moves the query by at most a removal and an addition: twice the sensitivity."""
        return DiscreteLaplace(scale=self.scale, sensitivity=2 * self.sensitivity, adjacency="replace-one")

    def theorem(self) -> str:
        return "discrete Laplace, exact pair of one integer query"

    def assumptions(self) -> tuple[str, ...]:
        return ("discrete noise is added to one integer-valued query",)

    def spec(self) -> Mapping[str, Any]:
        return {"type": self.type, "scale": self.scale, "sensitivity": self.sensitivity}

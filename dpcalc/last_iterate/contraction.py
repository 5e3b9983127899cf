"""How much one step of gradient descent contracts, and the geometric sums that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpcalc.arrays import Floats

# Every bound is multiplied by this, so that rounding in its formula never makes it too small.
ROUND_UP = 1 + 2.0**-40
_ULP = 2.0**-52


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """A step map that is c-Lipschitz, kept as the gap 1 - c so that c near 1 loses no digits."""

    gap: float

    @classmethod
    def of_gradient_step(cls, *, learning_rate: float, strong_convexity: float, smoothness: float) -> Contraction:
        """c = max(|1 - ηm|, |1 - ηM|) for η in [0, 2/M] (Bok et al., Lemma 2.8), its gap rounded down."""
        rate = Fraction(learning_rate)
        exact = min(rate * Fraction(strong_convexity), 2 - rate * Fraction(smoothness))
        gap = float(exact)
        return cls(gap=max(0.0, gap if gap <= exact else math.nextafter(gap, -math.inf)))

    @property
    def factor(self) -> float:
        """c itself."""
        return 1 - self.gap

    def power(self, exponent: Any) -> Any:
        """c^k for one k or an array of them."""
        if self.gap >= 1:
            return np.where(np.asarray(exponent) == 0, 1.0, 0.0)
        return np.exp(np.asarray(exponent) * math.log1p(-self.gap))

    def geometric_sum(self, terms: Any) -> Any:
        """1 + c + … + c^(k-1)."""
        return _geometric_sum(self.gap, terms)

    def squared_sum(self, terms: Any) -> Any:
        """1 + c² + … + c^(2(k-1))."""
        return _geometric_sum(self.gap * (2 - self.gap), terms)

    def strided_sum(self, terms: Any, stride: int) -> Any:
        """1 + c^l + … + c^(l(k-1)) for a stride of l."""
        gap = 1.0 if self.gap >= 1 else -math.expm1(stride * math.log1p(-self.gap))
        return _geometric_sum(gap, terms)


def contractions(rates: Floats, strong_convexity: float, smoothness: float) -> Floats:
    """Upper bounds on c = max(|1 - ηm|, |1 - ηM|), at most 1, for many η in [0, 2/M] at once."""
    # Each product is off by half an ulp of itself, and 2 - ηM by one ulp of 2 in all.
    gaps = np.minimum(rates * strong_convexity * (1 - 2 * _ULP), 2 - rates * smoothness - 4 * _ULP)
    factors: Floats = np.minimum(np.nextafter(1 - np.clip(gaps, 0.0, 1.0), 2.0), 1.0)
    return factors


def _geometric_sum(gap: float, terms: Any) -> Any:
    terms = np.asarray(terms, dtype=float)
    if gap == 0:
        return terms
    if gap >= 1:
        return np.minimum(terms, 1.0)
    return -np.expm1(terms * math.log1p(-gap)) / gap

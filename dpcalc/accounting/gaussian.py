"""Exact composition of Gaussian mechanisms, and the GDP bound of mechanisms that have one."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

from dpcalc.mechanisms.base import Mechanism

_ROUNDING = 4e-16


def composed_mu(parts: Sequence[tuple[Mechanism, int]]) -> float | None:
    """√Σ count·μ², rounded up (Dong, Roth, Su 2022, Corollary 2); None unless every part has a finite μ."""
    squares = []
    for mechanism, count in parts:
        mu = mechanism.gdp()
        if mu is None:
            return None
        squares.append(count * mu * mu)
    if len(parts) == 1 and parts[0][1] == 1:
        return mu
    return sqrt(fsum(squares)) * (1 + _ROUNDING)


def is_exactly_gaussian(parts: Sequence[tuple[Mechanism, int]]) -> bool:
    """Whether every part's trade-off curve is a Gaussian's, so that the composed μ is the whole truth."""
    return all(mechanism.gdp_is_exact() for mechanism, _ in parts)

"""How the free choices of a stochastic bound are made: a fast Rényi estimate of ε on a grid that closes in.

Nothing here is certified. Every choice gives a valid bound, and the accountant certifies the one that is made.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from dpcalc.arrays import Floats

ORDERS = np.geomspace(0.05, 400, 48)  # α - 1
# 1/β², the share of a step's noise that hides the record itself: all of it where nothing is left to be shifted away.
SHARES = np.concatenate(
    (np.geomspace(1e-4, 0.02, 5), np.linspace(0.04, 0.96, 24), 1 - np.geomspace(0.02, 1e-12, 8), [1.0])
)
REFINEMENTS = 3
_OUT_OF_REACH = 1e200  # instead of infinity, so that no use of it (times 0) is still 0


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(128)


@lru_cache(maxsize=512)
def log_moments(mu: float, rate: float) -> Floats:
    """log E[e^{λL}] of C_p(G(μ)) at the orders λ.

    From Proposition D.4: log(1 + ∫_{x>μ/2} (h^{1+λ} - h + h^{-λ} - 1) φ) with h = 1 - p + p e^{μx-μ²/2}.
    """
    nodes, weights = _quadrature()
    orders = ORDERS[:, None]
    width = np.maximum((1 + orders) * mu + 9, 12.0)
    x = mu / 2 + width * (nodes + 1) / 2
    log_ratio = np.logaddexp(math.log1p(-rate) if rate < 1 else -np.inf, math.log(rate) + mu * x - mu * mu / 2)
    log_density = -x * x / 2 - 0.5 * math.log(2 * math.pi)
    with np.errstate(over="ignore", under="ignore"):
        upper = np.exp((1 + orders) * log_ratio + log_density) - np.exp(log_ratio + log_density)
        lower = np.exp(log_density) * np.expm1(-orders * log_ratio)
        moments = np.log1p((weights * width / 2 * (upper + lower)).sum(axis=1))
    return np.where(np.isfinite(moments), moments, _OUT_OF_REACH)


def widened(reach: Any, share: Any) -> Any:
    """α·reach with 1/α² = 1 - share: what shifts cost in the noise that the record leaves them; 0 where none are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(reach, 0.0), 0.0, reach / np.sqrt(1 - np.asarray(share)))


def estimate(gaussian: Any, moments: Any, delta: float) -> Any:
    """ε(δ) by Rényi divergences, for arrays of g (…) and of summed log moments (…, orders)."""
    orders = ORDERS
    with np.errstate(over="ignore"):
        total = moments + (orders * (orders + 1) / 2) * np.asarray(gaussian)[..., None] ** 2
        epsilons = total / orders + np.log(orders / (1 + orders)) - np.log((1 + orders) * delta) / orders
    return np.maximum(np.min(epsilons, axis=-1), 0.0)


def grid(low: int, high: int, points: int) -> list[int]:
    """Whole numbers from `low` to `high`, evenly spread on a logarithmic scale."""
    if high <= low:
        return [low]
    start = max(low, 1)
    values = {low, high, *np.unique(np.rint(np.geomspace(start, high, points)).astype(np.int64)).tolist()}
    return sorted(value for value in values if low <= value <= high)


def around(best: int, tried: Floats, low: int, high: int) -> list[int]:
    """A finer grid between the neighbours of the best value so far."""
    below, above = tried[tried < best], tried[tried > best]
    left = int(below[-1]) if below.size else low
    right = int(above[0]) if above.size else high
    return sorted({best, *np.rint(np.linspace(left, right, 24)).astype(np.int64).tolist()})

"""Many ρ-zCDP mechanisms, chosen one after the other, are hardly worse than Gaussian ones: see docs/certificate.md."""

from __future__ import annotations

import math

from dpcalc.rounding import up

_LARGEST = 0.5  # ρ of one run: with `_START` 1/x + ρ/4 is below 1/2
_START = 1.6


def zcdp_runs_mu(rho: float, count: int) -> float:
    """A μ such that `count` adaptively chosen ρ-zCDP mechanisms are μ-GDP together; infinite where none is known.

    Let v_s be the profile x ↦ E(xX - 1)⁺ of the Gaussian of μ = √(2s). After one ρ-zCDP step it is at most that of
    s + ρ/(1 - ρ/s - ρ/4), at every x, if ρ/s + ρ/4 ≤ 1/2. So from any such s on, with x = s/ρ, c = 1 - ρ/4 and
    y = cx - 1, n steps add at most ρ(n + 1/y + log((y + n - 1)/y))/c; and nothing at all is below v_s for every s.
    """
    if rho > _LARGEST:
        return math.inf
    c = 1 - rho / 4
    grown = _START + 1 + count + 1 / _START + math.log((_START + count - 1) / _START)
    return up(math.sqrt(2 * rho * grown / c), 16)

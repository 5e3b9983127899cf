"""The budget of a mixture of orders as a union of half-spaces: whatever lies in one of them is admitted.

With shares s_k ≥ 0 that add up to 1, the logarithm of the left side of the mixture's condition is, by Jensen, at least

    Σ s_k (log(w_k δ/s_k) + (α_k−1)(ℓ−R_k)),

which is linear in ℓ with slope a = Σ s_k (α_k−1). Less log(1 − e^{ε−ℓ}), it is least at ℓ = ε + log(1 + 1/a). So

    Σ s_k (α_k−1) R_k ≤ Σ s_k log(w_k δ/s_k) + aε + a log(1 + 1/a) + log(1 + a)

is enough, for any shares. One order alone is the case of one share; with the shares of the terms of the left where the
condition is closest to failing, this is as much as the mixture admits (by minimax: the bound is concave in the shares
and convex in ℓ).
"""

from __future__ import annotations

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.filters.mixture import Mixture

_NOTHING = 1e300  # so large is every number where not even 0 is enough
_TURNS = 12  # of the search for shares
_SLIGHT = 1e-12  # smaller shares are left out
_MARGIN = 1e-10  # of everything that is added up: pays for its rounding


def budgets(mixture: Mixture, shares: Floats) -> Floats:
    """What Σ s_k (α_k−1) R_k may be for each of these shares (rows)."""
    steep, logs = mixture.steep[:, 0], mixture.log_weights[:, 0]
    slope = shares @ steep
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(shares > 0, shares * (logs - np.log(shares)), 0.0).sum(axis=1)
    found: Floats = spread + slope * (mixture.epsilon + np.log1p(1 / slope)) + np.log1p(slope)
    return found


def shares_along(mixture: Mixture, directions: Floats) -> Floats:
    """Shares, a row for each, whose half-space reaches about as far in each direction (rows) as any does."""
    steep, logs = mixture.steep[:, 0], mixture.log_weights[:, 0]
    shares = np.full(directions.shape, 1 / steep.size)
    with np.errstate(all="ignore"):
        for _ in range(_TURNS):
            reach = budgets(mixture, shares) / (shares * steep * directions).sum(axis=1)
            beyond = mixture.epsilon + np.log1p(1 / (shares @ steep))
            terms = logs + steep * (beyond[:, None] - reach[:, None] * directions)
            terms = np.exp(terms - terms.max(axis=1, keepdims=True))
            shares = terms / terms.sum(axis=1, keepdims=True)
    return normal(shares)


def normal(shares: Floats) -> Floats:
    """These shares without the slight ones, such that they add up to 1."""
    shares = np.where(shares > _SLIGHT, shares, 0.0)
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0, shares / np.where(total > 0, total, 1.0), 1 / shares.shape[1])


def half_spaces(mixture: Mixture, shares: Floats, tolerance: float) -> Floats:
    """The numbers b_k (a row for each of the shares) such that Σ b_k R_k ≤ 1 is enough.

    Sums may be larger than they are said to be: by the tolerance relative to themselves and to ε. The numbers are huge
    where shares allow nothing.
    """
    steep, logs = mixture.steep[:, 0], mixture.log_weights[:, 0]
    slope, found = shares @ steep, budgets(mixture, shares)
    size = 1 + slope * mixture.epsilon - shares @ logs + np.abs(found)
    found = (found - _MARGIN * size) / (1 + 2 * tolerance) - 2 * tolerance * slope * mixture.epsilon
    useful = found > 0
    weights: Floats = shares * steep / np.where(useful, found, 1.0)[:, None]
    weights[~useful] = _NOTHING
    return weights

"""An odometer for all times at once: what may be said of a record's loss whenever one looks, or stops.

The steps are Gaussian or ρ_t-zCDP, chosen from earlier outputs; V = Σμ_t² = 2Σρ_t so far, and L is the privacy loss.
With r > 0 fixed beforehand, P(L > ε(V) at any time) ≤ δ, where

    ε(V) = V/2 + w√(V+r)   and   2Φ(w) √(r/(V+r)) e^{w²/2} = 1/δ.

Proof: e^{λ(L−V/2) − λ²V/2} is a supermartingale of mean at most 1 for every λ > 0, by RDP of order 1 + λ. So is its
mixture over λ ~ |N(0,1/r)|, which is 2Φ(w)√(r/(V+r))e^{w²/2} with w = (L−V/2)/√(V+r). By Ville's inequality it exceeds
1/δ at any time with probability at most δ, and it grows with L. ∎ (Whitehouse, Ramdas, Rogers, Wu 2023: the family.)

So at every stopping time the run so far is (ε,δ)-DP where ε(V) ≤ ε. The ε of the same V at a time fixed beforehand is
smaller, and is no bound at a time that was chosen: see `individual`.
"""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats

_ROUNDING = 1e-13


def anytime_epsilon(variance: Floats, delta: float, start: float) -> Floats:
    """ε(V) for each V, rounded up; `start` is r, best near δ-typical values of V, and must be fixed beforehand."""
    from scipy.special import log_ndtr, ndtr

    goal = -math.log(delta) + np.log1p(variance / start) / 2
    # log 2Φ(w) ≥ 0 for w ≥ 0, so this is above the root; the left side is convex in w, so Newton's steps stay above.
    w = np.sqrt(2 * goal)
    for _ in range(8):
        density = np.exp(-w * w / 2) / math.sqrt(2 * math.pi)
        value = math.log(2) + log_ndtr(w) + w * w / 2
        w = w - (value - goal) / (density / ndtr(w) + w)
    epsilon: Floats = variance / 2 + w * np.sqrt(variance + start)
    return epsilon * (1 + _ROUNDING)

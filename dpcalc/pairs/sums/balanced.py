"""Points below a law, whose errors are relative to how far X is from 1 and not to all of the law.

E(X-t)⁺ for t ≥ 1 and E(t-X)⁺ for t ≤ 1 decide all other t if P and Q have as much mass: what is left may be at X = 1.
"""

from __future__ import annotations

import math

import numpy as np

from dpcalc.arrays import Floats
from dpcalc.pairs.points import BoundPair
from dpcalc.rounding import UNIT

_ROUNDINGS = 32  # more than there are of a weight here, and of a sum's terms
_UNKNOWN = 0.25  # masses that may be off by so much say nothing


def below(losses: Floats, p: Floats, q: Floats, doubt: float, infinite: float) -> BoundPair:
    """Names with P- and Q-masses that are known up to a relative `doubt`, as points whose masses are known exactly.

    Points are moved towards 1 by what their ratio may be off; then all beyond 1, or all before it, weigh less until
    both are equally far from 1. `infinite` is at most the P-mass at ∞.
    """
    off = 2.02 * doubt + 8 * UNIT * np.abs(losses)
    moved = np.sign(losses) * np.maximum(np.abs(losses) - off, 0.0)
    weights = q * (1 - doubt) * (1 - 4 * UNIT)
    terms, beyond, before = weights * np.expm1(moved), moved > 0, moved < 0
    moments = math.fsum(terms[beyond]), -math.fsum(terms[before])
    if infinite > 0 or not min(moments) > 0 or not doubt < _UNKNOWN:
        return BoundPair(losses, p, q, infinite, doubt=doubt, certain=True)
    lowered = (1 - _ROUNDINGS * UNIT) * min(moments)
    before_one, beyond_one = weights[before] * (lowered / moments[1]), weights[beyond] * (lowered / moments[0])
    left = max(1 - math.fsum([*before_one, *beyond_one]) * (1 + _ROUNDINGS * UNIT), 0.0)
    points = np.concatenate((moved[before], np.zeros(int(left > 0)), moved[beyond]))
    masses = np.concatenate((before_one, np.full(int(left > 0), left), beyond_one))
    return BoundPair(points, masses * np.exp(points), masses, doubt=2 * _ROUNDINGS * UNIT, certain=True)
